//! `winimg try` on the finished demo: two clones that come up and differ, and the messages about
//! images that fail.
//!
//! The sabotages with their findings are in
//! `snapshots/machines__end_to_end__trial__nightly__each_sabotage_is_named.snap`. `SABOTAGE=word`
//! selects those whose name contains that word, `DEMO=out/demo` uses an existing demo.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;
use serde_json::Value;

use crate::end_to_end::program::{output_of, processes_with};
use crate::end_to_end::sabotage_tools::{Sabotage, sz};
use support::tree::{self, root};

/// The stand-in settles at once; what moves for longer moves all the time.
const SETTLE: &str = "15s";
const CONF: &str = "/Program Files/Cloudbase Solutions/Cloudbase-Init/conf/cloudbase-init.conf";
const SYSTEM: &str = "/Windows/System32/config/SYSTEM";
const SOFTWARE: &str = "/Windows/System32/config/SOFTWARE";
const SERVICES: &str = r"ControlSet001\Services";

/// What a trial ended with.
struct Tried {
    code: i32,
    result: Value,
    said: String,
}

fn tried(image: &Path, manifest: &Path, target: &str, folder: &Path) -> Tried {
    tried_with(image, manifest, target, folder, &[])
}

fn tried_with(image: &Path, manifest: &Path, target: &str, folder: &Path, more: &[&str]) -> Tried {
    let done = Command::new(tree::winimg())
        .args(["--log-format", "json", "try"])
        .arg(image)
        .arg("--manifest")
        .arg(manifest)
        .args([
            "--as", target, "--settle", SETTLE, "--memory", "2GiB", "--output",
        ])
        .arg(folder)
        .args(more)
        .output()
        .expect("winimg starts");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let file = folder.join(format!("{target}.json"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{e}\n{said}"));
    Tried {
        code: done.status.code().expect("an exit code"),
        result: serde_json::from_str(&text).expect("JSON"),
        said,
    }
}

/// Two clones of the demo come up as this target's machines, and are two machines. The image stays as it is.
pub fn comes_up(output: &Path, image: &str, target: &str) {
    let image = output.join(image);
    let before = output_of("sha256sum", &[image.to_str().expect("UTF-8")]);
    let folder = output.join("try");
    let tried = tried(&image, &output.join("manifest.json"), target, &folder);
    let result = &tried.result;
    assert_eq!(tried.code, 0, "{result:#}\n{}", tried.said);
    assert_eq!(result["verdict"], "good", "{result:#}");
    let clones = result["clones"].as_array().expect("clones");
    let names: Vec<&Value> = clones
        .iter()
        .map(|c| &c["state"]["host_name"]["name"])
        .collect();
    assert_eq!(names, ["winimg-try-1", "winimg-try-2"], "{result:#}");
    differ(result, &["host-name", "machine-sid", "machine-guid"]);
    for clone in clones {
        let boots = clone["boots"].as_array().expect("boots");
        assert_eq!(boots.len(), 2, "{result:#}");
        for boot in boots {
            let screen = folder.join(boot["screen"].as_str().expect("a screen"));
            assert!(screen.exists(), "{}", screen.display());
        }
    }
    let page = std::fs::read_to_string(folder.join(format!("{target}.html"))).expect("a page");
    assert_eq!(page.matches("src=\"data:image/png").count(), 4, "{target}");
    let after = output_of("sha256sum", &[image.to_str().expect("UTF-8")]);
    assert_eq!(before, after, "the image was written");
    let running = processes_with(folder.to_str().expect("UTF-8"));
    assert!(running.is_empty(), "{running:?}");
}

/// These are not the same on both clones.
pub fn differ(result: &Value, identifiers: &[&str]) {
    let compared = result["compared"].as_array().expect("a comparison");
    for what in identifiers {
        let found = compared.iter().find(|c| c["what"] == *what);
        assert_eq!(found.expect(what)["outcome"], "differs", "{result:#}");
    }
}

/// What is done to the sealed demo, and as what it is tried.
type Row = (&'static str, &'static str, fn(&Sabotage));

const TABLE: &[Row] = &[
    (
        "the driver of NVMe does not start with Windows",
        "vsphere",
        |s| start(s, "stornvme", 4),
    ),
    (
        "the driver of virtio's disk does not start with Windows",
        "openstack",
        |s| start(s, "viostor", 4),
    ),
    (
        "cloudbase-init starts with Windows, while Setup runs",
        "openstack",
        |s| start(s, "cloudbase-init", 2),
    ),
    ("nobody starts cloudbase-init", "openstack", |s| {
        s.write("/Windows/Setup/Scripts/SetupComplete.cmd", b"rem\r\n")
    }),
    (
        "cloudbase-init looks for another platform's metadata",
        "openstack",
        |s| {
            edit(
                s,
                CONF,
                "httpservice.HttpService",
                "nocloudservice.NoCloudConfigDriveService",
            )
        },
    ),
    (
        "cloudbase-init does not set the host name",
        "openstack",
        |s| {
            edit(
                s,
                CONF,
                "cloudbaseinit.plugins.common.sethostname.SetHostNamePlugin,",
                "",
            )
        },
    ),
    ("cloudbase-init makes no user", "openstack", |s| {
        edit(
            s,
            CONF,
            "cloudbaseinit.plugins.windows.createuser.CreateUserPlugin,",
            "",
        )
    }),
    ("cloudbase-init sets no keys", "openstack", |s| {
        let plugin = "cloudbaseinit.plugins.common.sshpublickeys.SetUserSSHPublicKeysPlugin,";
        edit(s, CONF, plugin, "");
    }),
    ("C: is not extended", "openstack", |s| {
        edit(
            s,
            CONF,
            "cloudbaseinit.plugins.windows.extendvolumes.ExtendVolumesPlugin,",
            "",
        )
    }),
    ("the disabled Administrator is renamed", "openstack", |s| {
        edit(s, CONF, "rename_admin_user=false", "rename_admin_user=true")
    }),
    ("a command of specialize fails for ever", "openstack", |s| {
        let answer = "/Windows/Panther/unattend.xml";
        edit(
            s,
            answer,
            r"C:\Windows\Setup\Scripts\cloudbase-init.cmd",
            "exit 2",
        );
    }),
    (
        "an answer file without OOBE's answers was left in front of the seal's",
        "vsphere",
        |s| {
            let bare = b"<unattend xmlns=\"urn:schemas-microsoft-com:unattend\"/>";
            s.write("/Windows/Panther/unattend.xml", bare);
        },
    ),
    ("the image was not sealed", "openstack", |s| {
        s.set_value(SYSTEM, "Setup", ("SetupType".into(), 4, vec![0; 4]));
        let complete = sz("IMAGE_STATE_COMPLETE");
        let state = r"Microsoft\Windows\CurrentVersion\Setup\State";
        s.set_value(SOFTWARE, state, ("ImageState".into(), 1, complete));
    }),
    ("SSH host keys of the build", "openstack", |s| {
        let key = b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0Fvbi1Tj2Ck2dPdmWb9y8z4LXqyrZ7vQqf3mTqXxYq build\r\n";
        s.write("/ProgramData/ssh/ssh_host_ed25519_key.pub", key);
        s.write("/ProgramData/ssh/ssh_host_ed25519_key", b"the build's");
    }),
];

fn start(sabotage: &Sabotage, service: &str, start: u8) {
    let value = ("Start".into(), 4, vec![start, 0, 0, 0]);
    sabotage.set_value(SYSTEM, &format!(r"{SERVICES}\{service}"), value);
}

fn edit(sabotage: &Sabotage, file: &str, from: &str, to: &str) {
    let text = String::from_utf8(sabotage.read(file)).expect("UTF-8");
    assert!(text.contains(from), "{file} has no {from}:\n{text}");
    sabotage.write(file, text.replace(from, to).as_bytes());
}

/// What one trial says of its image, as people read it: without times, and without what was read from the screen, which is not the
/// same letters each time. What is unknown of every clone of the stand-in is left out.
fn findings(tried: &Tried, folder: &Path) -> String {
    let mut text = format!("status {}\n", tried.code);
    for event in tried.said.lines() {
        let event: Value = serde_json::from_str(event).expect("an event");
        if event["event"] != "finding" || event["severity"] == "unknown" {
            continue;
        }
        let said = event["text"].as_str().expect("a text");
        for line in said
            .lines()
            .filter(|line| !line.contains("| the screen says: "))
        {
            writeln!(text, "{line}").expect("a String");
        }
    }
    let text = text.replace(folder.to_str().expect("UTF-8"), "");
    let times =
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?( \d+)?|(\d+ min )?\d+ s\b|\d+ MiB|WIN-\w{11}";
    let times = Regex::new(times).expect("a pattern");
    times.replace_all(&text, "…").into_owned()
}

mod nightly {
    use super::*;
    use crate::end_to_end::program::Build;
    use std::time::{Duration, Instant};

    /// Files are written, on a network with a way out, and a script that fails is named by its exit code. What the data have is in nothing
    /// that is left.
    #[test]
    #[ignore = "boots QEMU: make end-to-end-nightly"]
    fn a_persons_user_data_are_used() {
        const TOKEN: &str = "abcdef.0123456789abcdef";
        let dir = tempfile::tempdir_in(root().join("target")).expect("a directory");
        let output = given_or_built(dir.path());
        let file = dir.path().join("user-data.txt");
        let data = format!(
            "#cloud-config\nwrite_files:\n- path: 'C:\\k\\join.txt'\n  content: {TOKEN}\nruncmd:\n- type C:\\k\\join.txt\n- exit /b 7\n"
        );
        std::fs::write(&file, data).expect("the user data");
        let folder = dir.path().join("try");
        let tried = tried_with(
            &output.join("demo.raw"),
            &output.join("manifest.json"),
            "openstack",
            &folder,
            &[
                "--network",
                "nat",
                "--user-data",
                file.to_str().expect("UTF-8"),
            ],
        );
        assert_eq!(tried.code, 11, "{}", tried.said);
        let findings = tried.result["findings"].as_array().expect("findings");
        let errors: Vec<&Value> = findings
            .iter()
            .filter(|finding| finding["severity"] == "error")
            .collect();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!(
            errors[0]["message"],
            "a script of the user data failed on the clone"
        );
        assert_eq!(errors[0]["found"], "exit code 7");
        let asked = tried.result["clones"][0]["requests"].to_string();
        assert!(asked.contains("/user_data"), "{asked}");
        assert!(!tried.said.contains(TOKEN), "{}", tried.said);
        let search = Command::new("grep")
            .args(["-rla", TOKEN])
            .arg(&folder)
            .status();
        // 1: it read everything, and found nothing.
        assert_eq!(search.expect("grep").code(), Some(1));
    }

    #[test]
    #[ignore = "boots QEMU: make end-to-end-nightly"]
    fn each_sabotage_is_named() {
        let dir = tempfile::tempdir_in(root().join("target")).expect("a directory");
        let output = given_or_built(dir.path());
        let only = std::env::var("SABOTAGE").unwrap_or_default();
        let mut table = String::new();
        for (name, target, damage) in TABLE.iter().filter(|row| row.0.contains(&only)) {
            let work = tempfile::tempdir_in(dir.path()).expect("a directory");
            let image = damaged(&output.join("demo.raw"), *damage, work.path());
            let manifest = output.join("manifest.json");
            let began = Instant::now();
            let folder = work.path().join("try");
            let tried = tried(&image, &manifest, target, &folder);
            let row = format!("{name} ({target}): {}\n", findings(&tried, &folder));
            println!("{} s: {row}", began.elapsed().as_secs());
            assert_ne!(tried.code, 0, "{name} was not seen\n{:#}", tried.result);
            table += &row;
        }
        if only.is_empty() {
            insta::assert_snapshot!("each_sabotage_is_named", table);
        }
    }

    fn given_or_built(folder: &Path) -> PathBuf {
        match std::env::var_os("DEMO") {
            Some(given) => PathBuf::from(given),
            None => demo(folder),
        }
    }

    /// Builds the demo, and tries it as it is.
    fn demo(folder: &Path) -> PathBuf {
        let output = folder.join("out");
        let cache = folder.join("cache");
        let mut build = Build::start("recipes/demo.toml", &output, &cache, &[]);
        let status = build.end(Duration::from_secs(3600));
        assert_eq!(status.code(), Some(0), "{}", build.error());
        comes_up(&output, "demo.ova", "vsphere");
        output
    }

    fn damaged(raw: &Path, damage: fn(&Sabotage), folder: &Path) -> PathBuf {
        let copy = folder.join("damaged.raw");
        let (from, to) = (raw.to_str().expect("UTF-8"), copy.to_str().expect("UTF-8"));
        output_of("cp", &["--sparse=always", from, to]);
        let sabotage = Sabotage::of(&copy, folder);
        damage(&sabotage);
        sabotage.put_back();
        copy
    }
}
