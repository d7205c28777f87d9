// Preloaded into genisoimage, sbsign, wimlib and wixl: their clock stands at SOURCE_DATE_EPOCH, so that equal input gives
// equal files.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
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

clock_t clock(void)
{
    return 0;
}

// Rock Ridge stores the times of status change and access, which nobody can set.
static void settle(struct stat64 *held)
{
    held->st_ctim = held->st_atim = (struct timespec){.tv_sec = epoch()};
}

int lstat64(const char *restrict path, struct stat64 *restrict held)
{
    int result = fstatat64(AT_FDCWD, path, held, AT_SYMLINK_NOFOLLOW);
    settle(held);
    return result;
}

int stat64(const char *restrict path, struct stat64 *restrict held)
{
    int result = fstatat64(AT_FDCWD, path, held, 0);
    settle(held);
    return result;
}
