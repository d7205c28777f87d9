/* In front of Wine's sc.exe (winesc.exe): every call is in the trace. `create`, `start`, `stop`, `query`, `delete` and
   `description` are Wine's; it reads past the end of `depend=` and takes `delayed-auto` for `demand`, so `create` goes
   there without the first and with `auto`, and the dependencies are set through ChangeServiceConfigW. `config` is not in
   Wine's sc.exe and done here through the same call. `failure` is looked at and kept in the trace only.
   What is not known ends with 1639, ERROR_INVALID_COMMAND_LINE (Microsoft: sc.exe config, System Error Codes). */
#include "trace.h"

#define UNKNOWN 1639

static DWORD wine(int argc, WCHAR **argv)
{
    static WCHAR line[32768];
    WCHAR *out = line + lstrlenW(lstrcpyW(line, L"winesc.exe"));
    STARTUPINFOW startup = {.cb = sizeof startup};
    PROCESS_INFORMATION process;
    DWORD code;
    int create = argc > 1 && !lstrcmpiW(argv[1], L"create");
    for (int i = 1; i < argc; i++) {
        if (create && !lstrcmpiW(argv[i], L"depend=")) {
            i++;
            continue;
        }
        *out++ = ' ';
        if (!*argv[i])
            out += lstrlenW(lstrcpyW(out, L"\"\""));
        out = protect(out, create && !lstrcmpiW(argv[i], L"delayed-auto") ? L"auto" : argv[i], 0);
    }
    if (!CreateProcessW(L"C:\\windows\\system32\\winesc.exe", line, NULL, NULL, TRUE, 0, NULL, NULL, &startup, &process))
        return GetLastError();
    WaitForSingleObject(process.hProcess, INFINITE);
    GetExitCodeProcess(process.hProcess, &code);
    return code;
}

static DWORD start_type(const WCHAR *name)
{
    if (!lstrcmpiW(name, L"auto") || !lstrcmpiW(name, L"delayed-auto"))
        return SERVICE_AUTO_START;
    if (!lstrcmpiW(name, L"demand"))
        return SERVICE_DEMAND_START;
    return lstrcmpiW(name, L"disabled") ? 0 : SERVICE_DISABLED;
}

/* Options from argv[3] on; only `depend=` of them where nothing else is to be changed. */
static DWORD configure(SC_HANDLE service, int argc, WCHAR **argv, int only_depend)
{
    DWORD start = SERVICE_NO_CHANGE;
    WCHAR *path = NULL, *account = NULL, *shown = NULL, *depend = NULL;
    static WCHAR names[8192];
    for (int i = 3; i < argc; i += 2) {
        WCHAR *name = argv[i], *value = argv[i + 1];
        if (i + 1 >= argc)
            return UNKNOWN;
        if (!lstrcmpiW(name, L"depend=")) {
            WCHAR *end = names + lstrlenW(lstrcpyW(names, value));
            end[1] = 0;
            for (depend = names; *depend; depend++)
                if (*depend == '/')
                    *depend = 0;
            depend = names;
        } else if (!lstrcmpiW(name, L"binPath="))
            path = value;
        else if (!lstrcmpiW(name, L"obj="))
            account = value;
        else if (!lstrcmpiW(name, L"DisplayName="))
            shown = value;
        else if (lstrcmpiW(name, L"start=") || !(start = start_type(value)))
            return UNKNOWN;
    }
    if (only_depend)
        start = SERVICE_NO_CHANGE, path = account = shown = NULL;
    return ChangeServiceConfigW(service, SERVICE_NO_CHANGE, start, SERVICE_NO_CHANGE, path, NULL, NULL, depend, account,
                                NULL, shown)
               ? 0
               : GetLastError();
}

/* reset= SECONDS actions= KIND/MILLISECONDS/... */
static DWORD failure(int argc, WCHAR **argv)
{
    WCHAR *rest;
    if (argc != 7 || lstrcmpiW(argv[3], L"reset=") || lstrcmpiW(argv[5], L"actions="))
        return UNKNOWN;
    wcstoul(argv[4], &rest, 10);
    if (*rest || rest == argv[4])
        return UNKNOWN;
    for (WCHAR *word = wcstok(argv[6], L"/"); word; word = wcstok(NULL, L"/")) {
        if (lstrcmpiW(word, L"restart") && lstrcmpiW(word, L"run") && lstrcmpiW(word, L"reboot"))
            return UNKNOWN;
        if (!(word = wcstok(NULL, L"/")))
            return UNKNOWN;
        wcstoul(word, &rest, 10);
        if (*rest)
            return UNKNOWN;
    }
    return 0;
}

int wmain(void)
{
    static const WCHAR *own[] = {L"create", L"start", L"stop", L"query", L"delete", L"description"};
    int argc;
    WCHAR **argv = CommandLineToArgvW(GetCommandLineW(), &argc), *verb = argc > 1 ? argv[1] : L"";
    int config = !lstrcmpiW(verb, L"config"), create = !lstrcmpiW(verb, L"create"), known = 0;
    DWORD code = 0;
    SC_HANDLE services = OpenSCManagerW(NULL, NULL, SC_MANAGER_CONNECT), service;
    if (lstrcmpiW(verb, L"query"))
        trace(argc, argv);
    for (int i = 0; i < 6; i++)
        known |= !lstrcmpiW(verb, own[i]);
    if (known && (code = wine(argc, argv)))
        ExitProcess(code);
    if (known && !create)
        ExitProcess(0);
    if (argc < 4 || !(known || config || !lstrcmpiW(verb, L"failure")))
        ExitProcess(UNKNOWN);
    if (!(service = OpenServiceW(services, argv[2], SERVICE_CHANGE_CONFIG)))
        ExitProcess(GetLastError());
    ExitProcess(config || create ? configure(service, argc, argv, create) : failure(argc, argv));
}
