//! `winimg try`: what it refuses, and what it says of a clone that did not come up. Clones that come up are in `end_to_end::trial`.

use serde_json::Value;

use crate::cli::furnished;
use crate::cli::site::{SEAL, Site};
use support::media;
use support::windows_disk::{WindowsDisk, can_make};

const FAKE: [&str; 2] = ["--hypervisor", "fake:machine.toml"];

#[test]
fn what_can_not_be_tried_is_refused_before_anything_starts() {
    let site = Site::new(SEAL);
    site.write("image.raw", "");
    site.write("manifest.json", "{}");
    std::fs::create_dir(site.path("empty")).expect("a folder");
    site.write("empty.txt", "");
    site.write("large.txt", &"x".repeat(49_152));
    let calls: [&[&str]; 10] = [
        &["try", "nothing.raw", "--as", "vsphere"],
        &["try", "image.raw"],
        &["try", "image.raw", "--as", "vspher"],
        &["try", "empty", "--as", "vsphere"],
        &["try", "manifest.json", "--manifest", "manifest.json"],
        &[
            "try",
            "image.raw",
            "--as",
            "vsphere",
            "--user-data",
            "no.txt",
        ],
        &[
            "try",
            "image.raw",
            "--as",
            "vsphere",
            "--user-data",
            "empty.txt",
        ],
        &[
            "try",
            "image.raw",
            "--as",
            "openstack",
            "--as",
            "aws-import",
            "--as",
            "gcp",
            "--as",
            "azure",
            "--user-data",
            "large.txt",
        ],
        &["try", "image.raw", "--as", "vsphere", "--network", "open"],
        &["build", "recipe.toml", "--try", FAKE[0], FAKE[1]],
    ];
    let mut text = String::new();
    for call in calls {
        let outcome = site.run(call);
        assert_eq!(outcome.status(), Some(2), "{call:?}: {}", outcome.whole());
        text += &format!("winimg {}\n{}\n", call.join(" "), outcome.stderr());
    }
    insta::assert_snapshot!("refused", text);
    assert!(!site.path("try").exists());
}

/// A shell repeats its commands, and cloudbase-init logs some user data whole.
#[test]
fn the_users_data_are_in_nothing_that_is_shown_or_left() {
    if !can_make() {
        return;
    }
    const TOKEN: &str = "abcdef.0123456789abcdef";
    let mut disk = WindowsDisk::sound();
    let agent = r"C:\Program Files\Cloudbase Solutions\Cloudbase-Init";
    disk.file(
        &format!(r"{agent}\conf\cloudbase-init.conf"),
        b"[DEFAULT]\n",
    );
    let line = |level: &str, module: &str, text: &str| {
        format!("2026-01-02 03:04:05.123 1 {level} cloudbaseinit.{module} [-] {text}\r\n")
    };
    let scripts = "plugins.common.userdatautils";
    let log = [
        line("INFO", "init", "Cloudbase-Init version: 1.1.9"),
        line(
            "ERROR",
            "init",
            &format!("plugin 'UserDataPlugin' failed with error '{TOKEN}'"),
        ),
        line("DEBUG", scripts, "User_data stdout:"),
        format!("b'C:\\\\>kubeadm join --token {TOKEN}' execute_user_data_script x.py:93\r\n"),
        line("DEBUG", scripts, "User_data stderr:"),
        "b'no route to host\\n' execute_user_data_script x.py:94\r\n".into(),
        line(
            "INFO",
            scripts,
            "User_data script ended with return code: 1",
        ),
        line(
            "DEBUG",
            "plugins.common.userdata",
            &format!("User data content:\r\n{TOKEN}"),
        ),
    ];
    disk.file(
        &format!(r"{agent}\log\cloudbase-init.log"),
        log.concat().as_bytes(),
    );
    let site = furnished::site(&disk, "raw = {}\n");
    let data = format!("#cloud-config\nruncmd:\n- kubeadm join --token {TOKEN}\n");
    site.write("user-data.txt", &data);
    let outcome = site.run(&[
        "-vv",
        "--log-format",
        "json",
        "try",
        "windows.raw",
        "--as",
        "vsphere",
        "--user-data",
        "user-data.txt",
        "--network",
        "nat",
        "--settle",
        "1s",
        FAKE[0],
        FAKE[1],
    ]);
    assert_eq!(outcome.status(), Some(11), "{}", outcome.whole());
    let result: Value = serde_json::from_str(&site.read("try/vsphere.json")).expect("JSON");
    assert_eq!(result["network"], "nat");
    assert_eq!(result["clones"][0]["given"]["user_data"], data.len());
    let log = &result["clones"][0]["state"]["cloudbase_init"]["service"];
    let said = &log["runs"][0]["user_data"]["scripts"][0]["said"];
    assert_eq!(said[0], r"C:\>***", "{result:#}");
    assert_eq!(said[1], "no route to host");
    assert_eq!(log["last"][4], "***");
    insta::assert_snapshot!("remarks", format!("{:#}", result["remarks"]));
    let mut all = vec![("output".to_owned(), outcome.whole())];
    for name in site.files("try") {
        let bytes = std::fs::read(site.path("try").join(&name)).unwrap_or_default();
        all.push((name, String::from_utf8_lossy(&bytes).into_owned()));
    }
    for (name, text) in all {
        assert!(!text.contains(TOKEN), "{name}: {text}");
    }
}

/// The scripted machine settles and powers off at once, so the image is as it was: Setup has not run.
#[test]
fn a_clone_whose_setup_has_not_ended_is_named_and_the_image_stays() {
    if !can_make() {
        return;
    }
    let site = furnished::site(&WindowsDisk::sound(), "raw = {}\n");
    let before = std::fs::read(site.path("windows.raw")).expect("the image");
    let call = [
        "try",
        "windows.raw",
        "--as",
        "vsphere",
        "--settle",
        "1s",
        FAKE[0],
        FAKE[1],
    ];
    let outcome = site.run(&call);
    assert_eq!(outcome.status(), Some(11), "{}", outcome.whole());
    insta::assert_snapshot!("not_ended", outcome.whole());
    let result: Value = serde_json::from_str(&site.read("try/vsphere.json")).expect("JSON");
    assert_eq!(result["verdict"], "bad");
    assert_eq!(result["clones"].as_array().map(Vec::len), Some(1));
    let page = site.read("try/vsphere.html");
    let verdict = "<h1 class=\"bad\">windows.raw does not come up as vsphere</h1>";
    assert!(page.contains(verdict), "{page}");
    let after = std::fs::read(site.path("windows.raw")).expect("the image");
    assert!(before == after, "the image was written");
    let left: Vec<String> = site.files("try");
    assert!(!left.iter().any(|f| f.contains("qcow2")), "{left:?}");
}

#[test]
fn the_page_of_the_build_shows_a_later_trial() {
    if !can_make() {
        return;
    }
    let site = furnished::site(&furnished::furnished(), "raw = {}\n");
    site.build(&[]).ended_well();
    assert!(!site.read("out/report.html").contains("<h3>Trials</h3>"));
    let call = [
        "try", "out", "--as", "vsphere", "--settle", "1s", FAKE[0], FAKE[1],
    ];
    let outcome = site.run(&call);
    assert_eq!(outcome.status(), Some(11), "{}", outcome.whole());
    let page = site.read("out/report.html");
    assert!(page.contains("does not come up as vsphere"), "{page}");
    assert!(page.contains("href=\"try/vsphere.html\""), "{page}");
}

/// What fails on this host says nothing of the image, nor does what an earlier trial said of it.
#[test]
fn a_qemu_that_dies_is_this_hosts_failure() {
    if !can_make() {
        return;
    }
    let site = furnished::site(&WindowsDisk::sound(), "raw = {}\n");
    site.write("machine.toml", "[off]\noutcome = \"crashes\"\n");
    std::fs::create_dir(site.path("try")).expect("a folder");
    site.write("try/vsphere.json", "{}");
    let outcome = site.run(&["try", "windows.raw", "--as", "vsphere", FAKE[0], FAKE[1]]);
    assert_eq!(outcome.status(), Some(8), "{}", outcome.whole());
    let said = outcome.stderr();
    assert!(said.contains("QEMU died: signal 6 (SIGABRT)"), "{said}");
    assert!(!site.path("try/vsphere.json").exists());
}

/// All that does not hang on the target is done, and said, once.
#[test]
fn several_targets_share_what_the_image_and_the_host_ask_for() {
    if !can_make() {
        return;
    }
    let site = furnished::site(&WindowsDisk::sound(), "raw = {}\n");
    site.write("machine.toml", "[probe]\nremarks = [\"KVM crawls\"]\n");
    let (raw, packed) = (site.path("windows.raw"), site.path("packed.qcow2"));
    media::convert(&["-c", "-O", "qcow2"], &raw, &packed);
    let call = [
        "try",
        "packed.qcow2",
        "--as",
        "vsphere",
        "--as",
        "openstack",
        FAKE[0],
        FAKE[1],
    ];
    let outcome = site.run(&call);
    assert_eq!(outcome.status(), Some(11), "{}", outcome.whole());
    let said = outcome.stderr();
    for once in ["KVM crawls", "unpacking packed.qcow2"] {
        assert_eq!(said.matches(once).count(), 1, "{once}\n{said}");
    }
    for target in ["vsphere", "openstack"] {
        assert!(site.path(&format!("try/{target}.json")).exists(), "{said}");
    }
}
