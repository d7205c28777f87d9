// EFI loader of the stand-in, built three ways:
//   -DPROMPT  cdboot.efi: "Press any key to boot from CD or DVD", five seconds, then EFI_TIMEOUT so that the firmware
//             goes on with its next boot option, as Windows' own cdboot.efi does.
//   (none)    cdboot_noprompt.efi: starts the kernel at once.
//   -DOWN_VOLUME  bootmgfw.efi: the kernel lies beside it on the EFI system partition.
// CHILD is the kernel's path, OPTIONS its command line. The first two look for it on every volume the firmware reads:
// the medium's files are in its UDF file system, the loader itself is in the El Torito image.
// Compile with -DGNU_EFI_USE_MS_ABI: without it a firmware call jumps to nowhere and takes QEMU's TCG down with it.
#include <efi.h>

static EFI_GUID loaded_image_guid = EFI_LOADED_IMAGE_PROTOCOL_GUID;
static EFI_GUID device_path_guid = EFI_DEVICE_PATH_PROTOCOL_GUID;
static EFI_GUID shim_guid = {0x605dab50, 0xe046, 0x4300, {0xab, 0xb6, 0x3d, 0xd8, 0x10, 0xdd, 0x8b, 0x23}};
static CHAR16 child[] = CHILD;
static CHAR16 options[] = OPTIONS;

#ifdef PROMPT
static EFI_STATUS ask(EFI_SYSTEM_TABLE *st)
{
    EFI_INPUT_KEY key;
    st->ConOut->OutputString(st->ConOut, L"Press any key to boot from CD or DVD..");
    for (int tick = 0; tick < 100; tick++) {
        if (st->ConIn->ReadKeyStroke(st->ConIn, &key) == EFI_SUCCESS) {
            st->ConOut->OutputString(st->ConOut, L"\r\n");
            return EFI_SUCCESS;
        }
        st->BootServices->Stall(50000);
        if (tick % 20 == 19)
            st->ConOut->OutputString(st->ConOut, L".");
    }
    st->ConOut->OutputString(st->ConOut, L"\r\n");
    return EFI_TIMEOUT;
}
#endif

static UINTN node_length(EFI_DEVICE_PATH *node)
{
    return node->Length[0] | node->Length[1] << 8;
}

static UINT8 *put(UINT8 *at, const void *from, UINTN length)
{
    for (UINTN i = 0; i < length; i++)
        at[i] = ((const UINT8 *)from)[i];
    return at + length;
}

static EFI_STATUS load(EFI_BOOT_SERVICES *bs, EFI_HANDLE self, EFI_HANDLE device, EFI_HANDLE *loaded)
{
    EFI_DEVICE_PATH *path, *end;
    UINT8 *whole, *at;
    EFI_STATUS status = bs->HandleProtocol(device, &device_path_guid, (void **)&path);
    if (EFI_ERROR(status))
        return status;
    for (end = path; end->Type != END_DEVICE_PATH_TYPE; end = (EFI_DEVICE_PATH *)((UINT8 *)end + node_length(end)))
        ;
    UINTN prefix = (UINT8 *)end - (UINT8 *)path;
    UINTN file = 4 + sizeof(child);
    status = bs->AllocatePool(EfiLoaderData, prefix + file + 4, (void **)&whole);
    if (EFI_ERROR(status))
        return status;
    UINT8 file_node[4] = {MEDIA_DEVICE_PATH, MEDIA_FILEPATH_DP, (UINT8)file, (UINT8)(file >> 8)};
    UINT8 end_node[4] = {END_DEVICE_PATH_TYPE, END_ENTIRE_DEVICE_PATH_SUBTYPE, 4, 0};
    at = put(whole, path, prefix);
    at = put(at, file_node, 4);
    at = put(at, child, sizeof(child));
    put(at, end_node, 4);
    return bs->LoadImage(FALSE, self, (EFI_DEVICE_PATH *)whole, NULL, 0, loaded);
}

#ifndef OWN_VOLUME
static EFI_GUID file_system_guid = EFI_SIMPLE_FILE_SYSTEM_PROTOCOL_GUID;

static EFI_STATUS find_volume(EFI_BOOT_SERVICES *bs, EFI_HANDLE *device)
{
    UINTN count;
    EFI_HANDLE *handles;
    EFI_STATUS status = bs->LocateHandleBuffer(ByProtocol, &file_system_guid, NULL, &count, &handles);
    if (EFI_ERROR(status))
        return status;
    for (UINTN i = 0; i < count; i++) {
        EFI_FILE_IO_INTERFACE *volume;
        EFI_FILE *root, *file;
        if (EFI_ERROR(bs->HandleProtocol(handles[i], &file_system_guid, (void **)&volume)) ||
            EFI_ERROR(volume->OpenVolume(volume, &root)) || EFI_ERROR(root->Open(root, &file, child, EFI_FILE_MODE_READ, 0)))
            continue;
        file->Close(file);
        *device = handles[i];
        return EFI_SUCCESS;
    }
    return EFI_NOT_FOUND;
}
#endif

EFI_STATUS efi_main(EFI_HANDLE self, EFI_SYSTEM_TABLE *st)
{
    EFI_LOADED_IMAGE *own;
    EFI_HANDLE loaded;
    EFI_STATUS status;
#ifdef PROMPT
    status = ask(st);
    if (EFI_ERROR(status))
        return status;
#endif
    EFI_HANDLE device;
#ifdef OWN_VOLUME
    status = st->BootServices->HandleProtocol(self, &loaded_image_guid, (void **)&own);
    device = EFI_ERROR(status) ? NULL : own->DeviceHandle;
#else
    status = find_volume(st->BootServices, &device);
#endif
    if (EFI_ERROR(status))
        return status;
    status = load(st->BootServices, self, device, &loaded);
    if (EFI_ERROR(status))
        return status;
    status = st->BootServices->HandleProtocol(loaded, &loaded_image_guid, (void **)&own);
    if (EFI_ERROR(status))
        return status;
    // Under Secure Boot Linux would take none of the initrd's modules, whose signatures were stripped, unless shim says that its user
    // switched the check off (Linux: drivers/firmware/efi/libstub/secureboot.c). The firmware has checked the kernel all the same.
    UINT8 off = 1;
    status = st->RuntimeServices->SetVariable(L"MokSBStateRT", &shim_guid, EFI_VARIABLE_BOOTSERVICE_ACCESS | EFI_VARIABLE_RUNTIME_ACCESS,
                                              sizeof(off), &off);
    if (EFI_ERROR(status))
        return status;
    own->LoadOptions = options;
    own->LoadOptionsSize = sizeof(options);
    return st->BootServices->StartImage(loaded, NULL, NULL);
}
