//! What a trial as Azure puts onto its provisioning disc, and the service of a pack that reads what it leaves.

use super::cloudbase::{DIR, guest, log, run, said, status};
use super::guest::Guest;
use crate::windows::{Data, account};

const MODULE: &str = include_str!("../../../../../../recipes/packs/azure/azure_custom_data.py");
const PROVISION: &str = include_str!("../../../../../../src/trial/metadata/azure/provision.cmd");
const SETUP_COMPLETE: &str =
    include_str!("../../../../../../src/trial/metadata/azure/SetupComplete.cmd");
const SERVICE: &str = "metadata_services=azure_custom_data.CustomDataService\nplugins=cloudbaseinit.plugins.common.userdata.UserDataPlugin";
/// As the answer file of the disc runs it.
const COMMAND: &str = r"cmd.exe /c for %i in (D E F G H) do if exist %i:\winimg\provision.cmd call %i:\winimg\provision.cmd ID-1 winimg";
const SCRIPT: &str = r"C:\Windows\Setup\Scripts\SetupComplete.cmd";

fn put_module(guest: &Guest, text: &str) {
    let file = format!(r"{DIR}\Python\Lib\site-packages\azure_custom_data.py");
    guest.put(&file, text.as_bytes());
}

fn put_disc(guest: &Guest) {
    let crlf = |text: &str| text.replace('\n', "\r\n");
    guest.put(r"D:\winimg\provision.cmd", crlf(PROVISION).as_bytes());
    guest.put(
        r"D:\winimg\SetupComplete.cmd",
        crlf(SETUP_COMPLETE).as_bytes(),
    );
}

#[test]
fn the_disc_leaves_what_azures_agent_does() {
    let guest = guest(SERVICE);
    put_module(&guest, MODULE);
    put_disc(&guest);
    guest.put(
        r"D:\CustomData.bin",
        b"#cloud-config\nwrite_files:\n- path: 'C:\\AzureData\\ran.txt'\n  content: it ran\n",
    );
    guest.put(SCRIPT, b"exit /b 1\r\n");
    let (code, said_by_it) = guest.run(COMMAND);
    assert_eq!(code, 0, "{said_by_it}");
    let registry = guest.windows.machine.registry();
    assert_eq!(account::by_rid(&registry, 500).as_deref(), Some("winimg"));
    drop(registry);
    // Azure's is there in place of the image's, and calls the image's other one.
    let (code, _) = guest.run(&format!("cmd.exe /c {SCRIPT}"));
    assert_eq!(code, 0);
    guest.put(
        r"C:\Windows\OEM\SetupComplete2.cmd",
        b"echo called>C:\\called.txt\r\n",
    );
    guest.run(&format!("cmd.exe /c {SCRIPT}"));
    assert_eq!(guest.text(r"C:\called.txt"), "called\n");

    assert_eq!(run(&guest), 0, "{}", log(&guest));
    assert!(said(&guest, "Metadata service loaded: 'CustomDataService'"));
    assert_eq!(guest.text(r"C:\AzureData\ran.txt"), "it ran");
    let done = Some(Data::Dword(1));
    assert_eq!(status(&guest, "ID-1", "UserDataPlugin"), done);
}

#[test]
fn a_machine_without_custom_data_has_no_metadata() {
    let guest = guest(SERVICE);
    put_module(&guest, MODULE);
    put_disc(&guest);
    assert_eq!(guest.run(COMMAND).0, 0);
    assert!(!guest.host(r"C:\AzureData").exists());
    assert_eq!(run(&guest), 0);
    assert!(said(&guest, "No metadata service found"));
}

#[test]
fn the_service_is_a_module_that_has_to_be_there_and_to_be_known() {
    let guest = guest(SERVICE);
    guest.put(r"C:\AzureData\CustomData.bin", b"rem cmd\r\n");
    assert_eq!(run(&guest), 1);
    assert!(said(
        &guest,
        "Import error: azure_custom_data.CustomDataService"
    ));
    assert_eq!(guest.windows.halted(), None);
    put_module(&guest, MODULE);
    // Only Hyper-V's data exchange, or what stands for it, gives the identifier.
    assert_eq!(run(&guest), 1);
    assert!(said(
        &guest,
        "[WinError 2] The system cannot find the file specified"
    ));
    put_module(&guest, &MODULE.replace("get_host_name", "get_name"));
    assert_eq!(run(&guest), 1);
    let halted = guest.windows.halted();
    assert_eq!(
        halted.as_deref(),
        Some("cloudbase-init: the Python module azure_custom_data")
    );
}
