/* The second half of glib's way to a Windows process: gspawn-win64-helper.exe. It cuts its own command line with
   CommandLineToArgvW, protects every argument once more, joins them by blanks and starts the program (glib:
   gspawn-win32-helper.c, protect_wargv, _wspawnvp). Written here because a Unix exit status has 8 bits only.

   runner.exe REQUEST RESULT: REQUEST is UTF-16, two strings: "old" or "new" (the rule before and since glib 2.60), and
   the line. RESULT gets "begun", "started" or "failed N", then "exit N" with all 32 bits. With an ENVIRONMENT file as the third
   argument the program gets what is in there; "runner.exe /environment FILE" writes one. */
#include "trace.h"

static WCHAR request[70000], line[70000];

static void say(const WCHAR *path, const WCHAR *format, DWORD number)
{
    WCHAR text[64];
    HANDLE file = open_log(path);
    if (file == INVALID_HANDLE_VALUE)
        ExitProcess(0xE0000003);
    wsprintfW(text, format, number);
    put(file, text);
    CloseHandle(file);
}

static void *whole(const WCHAR *path, void *into, DWORD size)
{
    HANDLE file = CreateFileW(path, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL);
    if (file == INVALID_HANDLE_VALUE || !ReadFile(file, into, size, &size, NULL))
        ExitProcess(0xE0000002);
    CloseHandle(file);
    return into;
}

static int keep_environment(const WCHAR *path)
{
    WCHAR *block = GetEnvironmentStringsW(), *end = block;
    HANDLE file = CreateFileW(path, GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL);
    DWORD done;
    while (*end)
        end += lstrlenW(end) + 1;
    return !WriteFile(file, block, (end - block + 1) * sizeof *block, &done, NULL);
}

int wmain(void)
{
    static WCHAR environment[70000];
    int argc, n;
    WCHAR **own = CommandLineToArgvW(GetCommandLineW(), &argc), **argv, *out = line;
    STARTUPINFOW startup = {.cb = sizeof startup, .dwFlags = STARTF_USESTDHANDLES};
    PROCESS_INFORMATION process;
    DWORD code;
    if (!lstrcmpW(own[1], L"/environment"))
        return keep_environment(own[2]);
    say(own[2], L"begun\n", 0);
    whole(own[1], request, sizeof request - 4);
    argv = CommandLineToArgvW(request + 4, &n);
    for (int i = 1; i < n; i++) {
        if (i > 1)
            *out++ = ' ';
        out = protect(out, argv[i], !lstrcmpW(request, L"old"));
    }
    startup.hStdInput = GetStdHandle(STD_INPUT_HANDLE);
    startup.hStdOutput = GetStdHandle(STD_OUTPUT_HANDLE);
    startup.hStdError = GetStdHandle(STD_ERROR_HANDLE);
    if (!CreateProcessW(argv[1], line, NULL, NULL, TRUE, CREATE_UNICODE_ENVIRONMENT | CREATE_NO_WINDOW,
                        argc > 3 ? whole(own[3], environment, sizeof environment) : NULL, L"C:\\windows\\system32", &startup,
                        &process)) {
        say(own[2], L"failed %u\n", GetLastError());
        return 1;
    }
    say(own[2], L"started\n", 0);
    WaitForSingleObject(process.hProcess, INFINITE);
    GetExitCodeProcess(process.hProcess, &code);
    say(own[2], L"exit %u\n", code);
    return 0;
}
