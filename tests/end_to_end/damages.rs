//! The kinds of damage that `winimg verify` has to tell apart, each done to the finished demo.
//!
//! Says only what is done; the findings are in the table that verify.rs compares.

use crate::end_to_end::sabotage_tools::{Sabotage, sz};

const SYSTEM: &str = "/Windows/System32/config/SYSTEM";
const SOFTWARE: &str = "/Windows/System32/config/SOFTWARE";
const SERVICES: &str = r"ControlSet001\Services";
const SESSION: &str = r"ControlSet001\Control\Session Manager";
const RULES: &str = r"ControlSet001\Services\SharedAccess\Parameters\FirewallPolicy\FirewallRules";
const EVENT_SOURCE: &str = r"ControlSet001\Services\EventLog\Application\rancher-wins";
const CURRENT: &str = r"Microsoft\Windows\CurrentVersion";
const NT: &str = r"Microsoft\Windows NT\CurrentVersion";
const SECRET: &str = "<unattend xmlns=\"urn:schemas-microsoft-com:unattend\"><settings pass=\"oobeSystem\"><component \
    name=\"Microsoft-Windows-Shell-Setup\"><UserAccounts><AdministratorPassword>\n<Value>VABvAHAA</Value><PlainText>false\
    </PlainText></AdministratorPassword></UserAccounts></component></settings></unattend>";
const HARMLESS: &str = "<unattend xmlns=\"urn:schemas-microsoft-com:unattend\"/>";

/// What no finding may show.
pub const SECRETS: [&str; 2] = ["VABvAHAA", "Top secret"];

/// What is done to an image.
pub enum Damage {
    /// To the Windows volume.
    Windows(fn(&Sabotage)),
    /// A file of the Windows volume is removed, for which the volume is mounted.
    Gone(&'static str),
    /// A file of the EFI system partition is removed.
    NotInEfi(&'static str),
}
use Damage::{Gone, NotInEfi, Windows};

const FILES: &[(&str, Damage)] = &[
    (
        "one bit of kubelet.exe",
        Windows(|s| s.flip_byte("/k/kubelet.exe", 4711)),
    ),
    (
        "kubeadm.exe cut short",
        Windows(|s| {
            let bytes = s.read("/k/kubeadm.exe");
            s.write("/k/kubeadm.exe", &bytes[..bytes.len() / 2]);
        }),
    ),
    (
        "one bit of containerd.exe, of a folder into which two archives go",
        Windows(|s| {
            s.flip_byte("/Program Files/containerd/containerd.exe", 100);
        }),
    ),
    (
        "one bit of a network plugin",
        Windows(|s| s.flip_byte("/opt/cni/bin/win-bridge.exe", 0)),
    ),
    (
        "StartKubelet.cmd with another program's line",
        Windows(|s| {
            let mut bytes = s.read("/k/StartKubelet.cmd");
            bytes.extend(b"start C:\\evil.exe\r\n");
            s.write("/k/StartKubelet.cmd", &bytes);
        }),
    ),
    (
        "sshd_config empty",
        Windows(|s| s.write("/ProgramData/ssh/sshd_config", b"")),
    ),
    (
        "config.toml gone",
        Gone("/Program Files/containerd/config.toml"),
    ),
    (
        "kubelet.exe gone, which two steps ask for",
        Gone("/k/kubelet.exe"),
    ),
    (
        "sysprep's mark gone",
        Gone("/Windows/System32/Sysprep/Sysprep_succeeded.tag"),
    ),
    (
        "a task's file gone",
        Gone("/Windows/System32/Tasks/Example/disk"),
    ),
    ("C:\\winimg left", Windows(|s| s.write("/winimg", b"x"))),
    (
        "the build's notes left",
        Windows(|s| s.write("/k/build-notes.txt", b"tier=gold")),
    ),
];

const SERVICE: &[(&str, Damage)] = &[
    (
        "kubelet is started by hand",
        Windows(|s| s.set_value(SYSTEM, &service("kubelet"), dword("Start", 3))),
    ),
    (
        "rancher-wins is disabled",
        Windows(|s| {
            s.set_value(SYSTEM, &service("rancher-wins"), dword("Start", 4));
        }),
    ),
    (
        "containerd starts delayed",
        Windows(|s| {
            s.set_value(SYSTEM, &service("containerd"), dword("DelayedAutostart", 1));
        }),
    ),
    (
        "containerd runs another program",
        Windows(|s| {
            let line = (
                String::from("ImagePath"),
                2,
                sz(r"C:\evil.exe --run-service"),
            );
            s.set_value(SYSTEM, &service("containerd"), line);
        }),
    ),
    (
        "csiproxy without a command line",
        Windows(|s| s.delete_value(SYSTEM, &service("csiproxy"), "ImagePath")),
    ),
    (
        "kubelet does not wait for containerd",
        Windows(|s| {
            s.delete_value(SYSTEM, &service("kubelet"), "DependOnService");
        }),
    ),
    (
        "kubelet is not restarted",
        Windows(|s| s.delete_value(SYSTEM, &service("kubelet"), "FailureActions")),
    ),
    (
        "containerd's failure restarts the machine",
        Windows(|s| {
            s.edit_key(SYSTEM, &service("containerd"), |values| {
                let actions = values
                    .iter_mut()
                    .find(|v| v.0 == "FailureActions")
                    .expect("actions");
                actions.2[20] = 2;
            });
        }),
    ),
    (
        "the service csiproxy gone",
        Windows(|s| s.delete_key(SYSTEM, &service("csiproxy"))),
    ),
];

const REGISTRY: &[(&str, Damage)] = &[
    (
        "a value gone",
        Windows(|s| s.delete_value(SOFTWARE, "Example", "Tier")),
    ),
    ("a key gone", Windows(|s| s.delete_key(SOFTWARE, "Example"))),
    (
        "another text",
        Windows(|s| s.reword(SOFTWARE, "Example", "gold", "silver")),
    ),
    (
        "another number",
        Windows(|s| s.set_value(SYSTEM, EVENT_SOURCE, dword("TypesSupported", 6))),
    ),
    (
        "a number as text",
        Windows(|s| {
            s.set_value(SYSTEM, EVENT_SOURCE, ("TypesSupported".into(), 1, sz("7")));
        }),
    ),
    (
        "a value under another name",
        Windows(|s| {
            s.rename_value(SYSTEM, EVENT_SOURCE, "CustomSource", "CustomSauce");
        }),
    ),
    (
        "Path as plain text, which hurts two steps",
        Windows(|s| {
            s.edit_key(SYSTEM, &format!(r"{SESSION}\Environment"), |values| {
                values.iter_mut().find(|v| v.0 == "Path").expect("Path").1 = 1;
            });
        }),
    ),
    (
        "Path without C:\\k",
        Windows(|s| {
            s.reword(
                SYSTEM,
                &format!(r"{SESSION}\Environment"),
                r";C:\k",
                r";C:\kk",
            );
        }),
    ),
    (
        "a variable of the environment gone",
        Windows(|s| {
            s.delete_value(
                SYSTEM,
                &format!(r"{SESSION}\Environment"),
                "CONTAINER_RUNTIME_ENDPOINT",
            );
        }),
    ),
    (
        "the image is not generalized",
        Windows(|s| {
            let state = ("ImageState".into(), 1, sz("IMAGE_STATE_COMPLETE"));
            s.set_value(SOFTWARE, &format!(r"{CURRENT}\Setup\State"), state);
        }),
    ),
    (
        "a task's key gone",
        Windows(|s| {
            s.delete_key(
                SOFTWARE,
                &format!(r"{NT}\Schedule\TaskCache\Tree\Example\disk"),
            );
        }),
    ),
    (
        "a firewall rule switched off",
        Windows(|s| {
            s.edit_key(SYSTEM, RULES, |values| {
                let kubelet = utf16("Name=kubelet|");
                let rule = values
                    .iter_mut()
                    .find(|v| v.2.windows(kubelet.len()).any(|w| w == kubelet));
                let rule = rule.expect("the rule");
                let (on, off) = (utf16("Active=TRUE"), utf16("Active=FALSE"));
                let at = rule
                    .2
                    .windows(on.len())
                    .position(|w| w == on)
                    .expect("it is on");
                rule.2.splice(at..at + on.len(), off);
            });
        }),
    ),
    (
        "a firewall rule for another port",
        Windows(|s| s.reword(SYSTEM, RULES, "LPort=22|", "LPort=2222|")),
    ),
    (
        "a firewall rule under another name",
        Windows(|s| {
            s.reword(SYSTEM, RULES, "Name=node ports|", "Name=mode ports|");
        }),
    ),
];

const LEFT: &[(&str, Damage)] = &[
    (
        "sysprep's answer file with a password",
        Windows(|s| {
            s.write("/Windows/Panther/unattend.xml", SECRET.as_bytes());
        }),
    ),
    (
        "C:\\Autounattend.xml with a password",
        Windows(|s| s.write("/Autounattend.xml", SECRET.as_bytes())),
    ),
    (
        "C:\\Autounattend.xml without one",
        Windows(|s| s.write("/Autounattend.xml", HARMLESS.as_bytes())),
    ),
    (
        "Windows logs on by itself",
        Windows(|s| winlogon(s, "AutoAdminLogon", "1")),
    ),
    (
        "a password in Winlogon",
        Windows(|s| winlogon(s, "DefaultPassword", "Top secret")),
    ),
    (
        "an SSH host key",
        Windows(|s| s.write("/ProgramData/ssh/ssh_host_ed25519_key", b"key")),
    ),
    (
        "Setup's script speaks of C:\\winimg",
        Windows(|s| {
            s.write(
                "/Windows/Setup/Scripts/ErrorHandler.cmd",
                b"C:\\winimg\\agent.exe\r\n",
            );
        }),
    ),
    (
        "WinRM without encryption",
        Windows(|s| {
            s.add_keys(SOFTWARE, CURRENT, &["WSMAN", "Service"]);
            let service = format!(r"{CURRENT}\WSMAN\Service");
            s.set_value(SOFTWARE, &service, dword("allow_unencrypted", 1));
        }),
    ),
    (
        "cloudbase-init's key",
        Windows(|s| s.add_keys(SOFTWARE, "", &["Cloudbase Solutions"])),
    ),
    (
        "cloudbase-init's plugins have run",
        Windows(|s| {
            let keys = ["Cloudbase Solutions", "Cloudbase-Init", "i-1", "Plugins"];
            s.add_keys(SOFTWARE, "WOW6432Node", &keys);
        }),
    ),
];

const SECURITY: &[(&str, Damage)] = &[
    (
        "everybody may write C:\\etc\\kubernetes",
        Windows(|s| {
            s.let_everybody_in("Directory", "/etc/kubernetes");
        }),
    ),
    (
        "C:\\etc\\kubernetes inherits",
        Windows(|s| {
            let administrators = "01020000000000052000000020020000";
            let system = "010100000000000512000000";
            let descriptor = format!(
                "0100048048000000580000000000000014000000020034000200000000031400ff011f00{system}00031800ff011f00\
             {administrators}{administrators}{system}"
            );
            let descriptor = hex::decode(descriptor).expect("hexadecimal");
            s.set_security("Directory", "/etc/kubernetes", &descriptor);
        }),
    ),
];

const STARTING: &[(&str, Damage)] = &[
    (
        "the volume was not closed in order",
        Windows(Sabotage::set_dirty),
    ),
    ("SOFTWARE is damaged", Windows(|s| s.flip_byte(SOFTWARE, 0))),
    ("the boot store gone", NotInEfi("EFI/Microsoft/Boot/BCD")),
    (
        "the boot manager gone",
        NotInEfi("EFI/Microsoft/Boot/bootmgfw.efi"),
    ),
    ("the fallback loader gone", NotInEfi("EFI/Boot/bootx64.efi")),
    ("the loader gone", Gone("/Windows/System32/winload.efi")),
    (
        "an installation waits for a restart",
        Windows(|s| {
            let servicing = format!(r"{CURRENT}\Component Based Servicing");
            s.add_keys(SOFTWARE, &servicing, &["RebootPending"]);
        }),
    ),
    (
        "a file waits to be renamed",
        Windows(|s| {
            let list = [sz(r"\??\C:\k\a.exe"), sz(r"\??\C:\k\b.exe"), vec![0; 2]].concat();
            s.set_value(
                SYSTEM,
                SESSION,
                ("PendingFileRenameOperations".into(), 7, list),
            );
        }),
    ),
];

/// By kind: what is done, and how.
pub const TABLE: [(&str, &[(&str, Damage)]); 6] = [
    ("files", FILES),
    ("services", SERVICE),
    ("registry", REGISTRY),
    ("left over", LEFT),
    ("access", SECURITY),
    ("starting", STARTING),
];

fn service(name: &str) -> String {
    format!(r"{SERVICES}\{name}")
}

fn dword(name: &str, n: u32) -> (String, u32, Vec<u8>) {
    (name.to_owned(), 4, n.to_le_bytes().to_vec())
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn winlogon(sabotage: &Sabotage, name: &str, value: &str) {
    sabotage.add_keys(SOFTWARE, NT, &["Winlogon"]);
    let key = format!(r"{NT}\Winlogon");
    sabotage.set_value(SOFTWARE, &key, (name.into(), 1, sz(value)));
}
