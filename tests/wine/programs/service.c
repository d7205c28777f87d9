/* A service that writes down how it was started and stopped: C:\services\NAME.log. */
#include "trace.h"

static SERVICE_STATUS_HANDLE handle;
static HANDLE stop;
static WCHAR path[MAX_PATH];

static void state(DWORD now)
{
    SERVICE_STATUS status = {.dwServiceType = SERVICE_WIN32_OWN_PROCESS, .dwCurrentState = now};
    status.dwControlsAccepted = now == SERVICE_RUNNING ? SERVICE_ACCEPT_STOP : 0;
    SetServiceStatus(handle, &status);
}

static DWORD WINAPI control(DWORD code, DWORD type, void *data, void *context)
{
    if (code == SERVICE_CONTROL_STOP)
        SetEvent(stop);
    return NO_ERROR;
}

static void note(const WCHAR *what)
{
    HANDLE file = open_log(path);
    put(file, what);
    put(file, L"\n");
    CloseHandle(file);
}

static void WINAPI service(DWORD argc, WCHAR **argv)
{
    CreateDirectoryW(L"C:\\services", NULL);
    wsprintfW(path, L"C:\\services\\%s.log", argv[0]);
    stop = CreateEventW(NULL, TRUE, FALSE, NULL);
    handle = RegisterServiceCtrlHandlerExW(argv[0], control, NULL);
    note(GetCommandLineW());
    state(SERVICE_RUNNING);
    WaitForSingleObject(stop, INFINITE);
    note(L"stopped");
    state(SERVICE_STOPPED);
}

int wmain(void)
{
    SERVICE_TABLE_ENTRYW table[] = {{L"", service}, {NULL, NULL}};
    return StartServiceCtrlDispatcherW(table) ? 0 : GetLastError();
}
