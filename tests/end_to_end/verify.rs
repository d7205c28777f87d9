//! What `winimg verify` says to each kind of damage of the finished demo: that one thing, and no other.
//!
//! The table of all of them with what is told is `snapshots/end_to_end__verify__each_damage_is_named.snap`. Judges the program
//! alone: what each check means is docs/verify.md.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::sabotage_tools::{Sabotage, sz};
use crate::winimg::output_of;

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

/// What is done to an image.
enum Damage {
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

const TABLE: [(&str, &[(&str, Damage)]); 6] = [
    ("files", FILES),
    ("services", SERVICE),
    ("registry", REGISTRY),
    ("left over", LEFT),
    ("access", SECURITY),
    ("starting", STARTING),
];

/// `output` holds the finished demo, `directory` takes the damaged copies.
pub fn each_damage_is_named(output: &Path, directory: &Path) {
    let whole = what_only_windows_can_tell(output);
    let mut table = String::new();
    let mut skipped = Vec::new();
    for (kind, rows) in TABLE {
        writeln!(table, "## {kind}").expect("a String");
        for (name, damage) in rows {
            let work = tempfile::tempdir_in(directory).expect("a directory");
            let Some(raw) = damaged(&output.join("demo.raw"), damage, work.path()) else {
                skipped.push(*name);
                continue;
            };
            let told = told(&raw, &output.join("manifest.json"), &whole);
            writeln!(table, "\n{name}\n{told}").expect("a String");
        }
        table.push('\n');
    }
    if skipped.is_empty() {
        insta::assert_snapshot!("each_damage_is_named", table);
    } else {
        eprintln!(
            "SKIPPED, without root and /dev/fuse no file can be removed: {}",
            skipped.join("; ")
        );
        let known = include_str!("snapshots/end_to_end__verify__each_damage_is_named.snap");
        for row in table.split("\n\n").filter(|row| !row.starts_with("##")) {
            assert!(known.contains(row.trim()), "not in the table:\n{row}");
        }
    }
}

/// The findings of the image as it was built, which are the same in each of its forms. None of them is more than unknown.
fn what_only_windows_can_tell(output: &Path) -> Vec<String> {
    let manifest = output.join("manifest.json");
    let forms = ["demo.raw", "demo.vhd", "demo.ova"].map(|form| {
        let (code, findings) = verified(&[&output.join(form)], Some(&manifest));
        assert_eq!(code, 0, "{form}: {findings:#?}");
        findings
    });
    for findings in &forms {
        assert_eq!(findings, &forms[0]);
    }
    assert!(
        forms[0].iter().all(|f| f.starts_with("unknown: ")),
        "{:#?}",
        forms[0]
    );
    let (code, all) = verified(&[&manifest], None);
    assert_eq!(code, 0, "{all:#?}");
    let [raw, ..] = forms;
    raw
}

/// The exit code and the text of each finding.
fn verified(images: &[&Path], manifest: Option<&Path>) -> (i32, Vec<String>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_winimg"));
    command
        .args(["--log-format", "json", "verify"])
        .args(images);
    if let Some(manifest) = manifest {
        command.arg("--manifest").arg(manifest);
    }
    let done = command.output().expect("winimg starts");
    let said = String::from_utf8(done.stderr).expect("UTF-8");
    let events = said
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {line}")));
    let findings = events.filter(|event| event["event"] == "finding");
    let texts = findings.map(|event| event["text"].as_str().expect("a text").to_owned());
    (done.status.code().expect("an exit code"), texts.collect())
}

/// A damaged copy; `None`: this machine can't do that.
fn damaged(raw: &Path, damage: &Damage, directory: &Path) -> Option<PathBuf> {
    let copy = directory.join("damaged.raw");
    let (from, to) = (raw.to_str().expect("UTF-8"), copy.to_str().expect("UTF-8"));
    output_of("cp", &["--sparse=always", from, to]);
    match damage {
        NotInEfi(file) => {
            let disk = winimg::disk::RawDisk::open(&copy).expect("the copy");
            let table = winimg::disk::gpt::table(&disk).expect("a partition table");
            let efi = table
                .partitions
                .iter()
                .find(|p| p.role == Some("EFI system"));
            let image = format!("{to}@@{}", efi.expect("an EFI partition").start);
            output_of("mdel", &["-i", &image, &format!("::/{file}")]);
        }
        Windows(damage) => {
            let sabotage = Sabotage::of(&copy, directory);
            damage(&sabotage);
            sabotage.put_back();
        }
        Gone(file) => {
            let sabotage = Sabotage::of(&copy, directory);
            if !sabotage.remove(file) {
                return None;
            }
            sabotage.put_back();
        }
    }
    Some(copy)
}

/// The one finding more than `whole`. An error fails the command, a warning does not.
fn told(raw: &Path, manifest: &Path, whole: &[String]) -> String {
    let (code, findings) = verified(&[raw], Some(manifest));
    let more: Vec<&String> = findings.iter().filter(|f| !whole.contains(f)).collect();
    let known = findings.len() - more.len();
    let told: Vec<String> = more.iter().map(|f| without_sums(f)).collect();
    let told = told.join("\n");
    // A damaged hive hides nothing here: what only Windows can tell is still told.
    let right = more.len() == 1
        && known == whole.len()
        && code == if told.starts_with("error: ") { 10 } else { 0 };
    let note = if right {
        String::new()
    } else {
        format!(
            "  NOT ONE FINDING: {} more, {known} known, exit code {code}\n",
            more.len()
        )
    };
    let lines: String = told.lines().map(|line| format!("    {line}\n")).collect();
    (note + &lines).trim_end().to_owned()
}

/// Sizes and digests are those of this machine's stand-ins.
fn without_sums(text: &str) -> String {
    let words = text.split(' ').collect::<Vec<_>>();
    let mut kept: Vec<String> = Vec::new();
    for (i, word) in words.iter().enumerate() {
        let is_size = words
            .get(i + 1)
            .is_some_and(|next| next.starts_with("bytes"));
        let (head, sum) = word.split_once("sha256:").unwrap_or((word, ""));
        let tail = sum.trim_start_matches(|c: char| c.is_ascii_hexdigit());
        kept.push(match (is_size, sum) {
            (true, _) => "N".to_owned(),
            (false, "") => (*word).to_owned(),
            _ => format!("{head}sha256:…{tail}"),
        });
    }
    kept.join(" ")
}

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

#[test]
#[ignore = "development"]
fn dev() {
    let dir = tempfile::tempdir_in(crate::winimg::root().join("target")).unwrap();
    each_damage_is_named(
        Path::new(&std::env::var("WINIMG_DEMO").unwrap()),
        dir.path(),
    );
}
