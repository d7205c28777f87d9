/* Stands where Wine has a program that does nothing and says that all went well. Writes its command line into the trace
   and ends with the code that C:\recorder\codes.txt (UTF-16 without a mark) gives for it, or 0: lines "NAME CODE WORDS",
   the first one counts whose WORDS are in the command line. */
#include "trace.h"

static DWORD scripted(WCHAR *self)
{
    static WCHAR text[16384];
    DWORD size = 0;
    HANDLE file = CreateFileW(L"C:\\recorder\\codes.txt", GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL);
    if (file == INVALID_HANDLE_VALUE)
        return 0;
    ReadFile(file, text, sizeof text - 2, &size, NULL);
    for (WCHAR *line = wcstok(text, L"\n"); line; line = wcstok(NULL, L"\n")) {
        WCHAR *code = wcschr(line, ' '), *words = code ? wcschr(code + 1, ' ') : NULL;
        if (!words)
            ExitProcess(0xE0000003);
        *code++ = *words++ = 0;
        if (!lstrcmpiW(line, self) && wcsstr(GetCommandLineW(), words))
            return wcstoul(code, NULL, 0);
    }
    return 0;
}

int wmain(void)
{
    int argc;
    WCHAR self[MAX_PATH], **argv = CommandLineToArgvW(GetCommandLineW(), &argc), *name;
    trace(argc, argv);
    GetModuleFileNameW(NULL, self, MAX_PATH);
    name = wcsrchr(self, '\\');
    ExitProcess(scripted(name + 1));
}
