/* Writes the arguments that it got to the file named by the first one, UTF-8, each ended by a NUL. */
#include "trace.h"

int wmain(void)
{
    int argc;
    DWORD done;
    WCHAR **argv = CommandLineToArgvW(GetCommandLineW(), &argc);
    HANDLE file = CreateFileW(argv[1], GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL);
    for (int i = 2; i < argc; i++) {
        put(file, argv[i]);
        WriteFile(file, "", 1, &done, NULL);
    }
    return 0;
}
