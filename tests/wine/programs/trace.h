/* What every stand-in program shares: words of a command line, and the trace that the tests compare.
   The trace is C:\recorder\trace.txt, UTF-8: the program's path, its raw command line, its arguments one a line. */
#include <windows.h>
#include <shellapi.h>
#include <stdio.h>

static void put(HANDLE file, const WCHAR *text)
{
    char bytes[3 * 32768];
    DWORD done;
    int n = WideCharToMultiByte(CP_UTF8, 0, text, -1, bytes, sizeof bytes, NULL, NULL);
    if (n > 1)
        WriteFile(file, bytes, n - 1, &done, NULL);
}

static HANDLE open_log(const WCHAR *path)
{
    return CreateFileW(path, FILE_APPEND_DATA, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_ALWAYS, 0, NULL);
}

static __attribute__((unused)) void trace(int argc, WCHAR **argv)
{
    WCHAR self[MAX_PATH];
    HANDLE file = open_log(L"C:\\recorder\\trace.txt");
    if (file == INVALID_HANDLE_VALUE)
        ExitProcess(0xE0000001);
    GetModuleFileNameW(NULL, self, MAX_PATH);
    put(file, self);
    put(file, L"\n  line ");
    put(file, GetCommandLineW());
    for (int i = 1; i < argc; i++) {
        put(file, L"\n  [");
        put(file, argv[i]);
        put(file, L"]");
    }
    put(file, L"\n");
    CloseHandle(file);
}

/* One argument as the C runtime reads it back (glib >= 2.60; with old = 1 without doubling the last backslashes). */
static __attribute__((unused)) WCHAR *protect(WCHAR *out, const WCHAR *in, int old)
{
    int quote = 0, slashes = 0;
    for (const WCHAR *p = in; *p; p++)
        quote |= *p == ' ' || *p == '\t';
    if (quote)
        *out++ = '"';
    for (; *in; in++) {
        if (*in == '"') {
            *out++ = '\\';
            for (; slashes > 0; slashes--)
                *out++ = '\\';
        }
        slashes = *in == '\\' ? slashes + 1 : 0;
        *out++ = *in;
    }
    if (quote) {
        for (; slashes > 0 && !old; slashes--)
            *out++ = '\\';
        *out++ = '"';
    }
    return out;
}
