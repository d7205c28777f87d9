// Preloaded into genisoimage, wimlib and wixl: their clock stands at SOURCE_DATE_EPOCH, so that equal input gives
// equal files.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static time_t epoch(void)
{
    const char *text = getenv("SOURCE_DATE_EPOCH");
    return text ? atoll(text) : 0;
}

time_t time(time_t *at)
{
    time_t now = epoch();
    if (at)
        *at = now;
    return now;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    (void)zone;
    *at = (struct timeval){.tv_sec = epoch()};
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    (void)clock;
    *at = (struct timespec){.tv_sec = epoch()};
    return 0;
}
