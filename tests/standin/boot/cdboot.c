/* The medium's first EFI program: asks for a key as Windows' cdboot.efi does, and falls through when none comes.
 *
 * Returning EFI_TIMEOUT is what makes the firmware try its next boot option ("failed to start ... Time out"): a program
 * that returns success stops it. Built with GNU_EFI_USE_MS_ABI, without which calls into the firmware jump into nothing. */
#include <efi.h>
#include <efilib.h>

#define SECONDS 5
#define LOADER L"\\EFI\\MICROSOFT\\BOOT\\LOADER.EFI"

static BOOLEAN key_pressed(void)
{
    EFI_EVENT events[2];
    UINTN index = 0;

    events[0] = ST->ConIn->WaitForKey;
    if (BS->CreateEvent(EVT_TIMER, 0, NULL, NULL, &events[1]) != EFI_SUCCESS)
        return FALSE;
    for (int second = 0; second < SECONDS; second++) {
        Print(L".");
        BS->SetTimer(events[1], TimerRelative, 10000000);
        BS->WaitForEvent(2, events, &index);
        if (index == 0) {
            EFI_INPUT_KEY key;
            ST->ConIn->ReadKeyStroke(ST->ConIn, &key);
            return TRUE;
        }
    }
    return FALSE;
}

EFI_STATUS efi_main(EFI_HANDLE image, EFI_SYSTEM_TABLE *system_table)
{
    EFI_LOADED_IMAGE *self;
    EFI_HANDLE loader;
    EFI_STATUS status;

    InitializeLib(image, system_table);
    ST->ConIn->Reset(ST->ConIn, FALSE);
    Print(L"Press any key to boot from CD or DVD..");
    if (!key_pressed()) {
        Print(L"\n");
        return EFI_TIMEOUT;
    }
    Print(L"\n");
    status = BS->HandleProtocol(image, &LoadedImageProtocol, (void **)&self);
    if (EFI_ERROR(status))
        return status;
    status = BS->LoadImage(FALSE, image, FileDevicePath(self->DeviceHandle, LOADER), NULL, 0, &loader);
    if (EFI_ERROR(status))
        return status;
    return BS->StartImage(loader, NULL, NULL);
}
