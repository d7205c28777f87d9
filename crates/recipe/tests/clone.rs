//! `[[clone]]`: what a plan says of a clone, whose word stands, and what is refused.

use support::complaints::facts;
use support::tree::with_files;
use winimg_recipe::ReadOptions;
use winimg_recipe::plan;

const HEAD: &str = r#"schema = 1
name = "small"
include = ["packs/ssh.toml"]
[media]
image = "datacenter-core"
[media.iso]
url = "https://example.com/x.iso"
unverified = "test"
[outputs]
raw = {}
"#;

const SEAL: &str = "[[steps]]\nname = \"seal\"\ngeneralize = {}\n";

const PACK: &str = r#"schema = 1
name = "ssh"
[vars]
ssh = "on"
port = { required = "the port of sshd" }
[[clone]]
why = "keys come in over SSH"
when = "{{ssh}} == on"
service = { name = "sshd", start = "auto" }
[[clone]]
why = "a client knows the machine again"
targets = ["desk"]
exists = 'C:\ProgramData\ssh\ssh_host_ed25519_key'
[[clone]]
why = "sshd is reached"
when = "{{port}} != 0"
firewall = { name = "sshd", ports = ["{{port}}"] }
"#;

const TARGET: &str = r#"schema = 1
name = "desk"
title = "A desk"
sources = ["test"]
[hardware]
firmware = ["uefi", "bios"]
controller = "nvme"
nic = "e1000e"
tpm = "optional"
secure_boot = "optional"
[metadata]
by = "none"
agent = "none"
"#;

const OWN: &str = r#"
[[clone]]
why = "two clones would be one node"
targets = ["desk"]
missing = 'C:\etc\kubernetes\kubelet.conf'
[[clone]]
why = "the site's tier"
registry = { key = 'HKLM\SOFTWARE\Example', name = "Tier", type = "sz", data = "gold" }
[[clone]]
why = "no other runtime"
service = { name = "docker", state = "absent" }
[[clone]]
why = "support"
user = { name = "support" }
[[clone]]
why = "nobody is a guest"
user = { name = "Guest", state = "disabled" }
[[clone]]
why = "support may do all"
group = { name = "Administrators", members = ["support"] }
"#;

/// The plan from its part about clones on, without the folder's name.
fn planned(files: &[(&str, &str)], options: &ReadOptions) -> String {
    let (dir, path) = with_files(files);
    let (recipe, found) = plan::read(&path, options);
    let folder = format!("{}/", dir.path().display());
    let said = found.render(false).replace(&folder, "");
    let Some(recipe) = recipe else {
        return said;
    };
    assert_eq!(said, "");
    let plan = plan::make(&recipe).expect("a plan");
    let mut text = plan::render_text(&recipe, &plan);
    text += &plan::render_undecided(&recipe, "recipe.toml");
    let (_, of_clones) = text
        .split_once("\nOn a clone")
        .expect("a part about clones");
    let json = plan::render_json(&recipe, &plan)["clone"].clone();
    format!("On a clone{of_clones}\n{json:#}\n").replace(&folder, "")
}

#[test]
fn a_plan_shows_what_packs_and_the_recipe_promise_of_a_clone() {
    let recipe = format!("{HEAD}{OWN}{SEAL}");
    let files = [
        ("recipe.toml", recipe.as_str()),
        ("packs/ssh.toml", PACK),
        ("targets/desk.toml", TARGET),
    ];
    insta::assert_snapshot!("plan", planned(&files, &ReadOptions::default()));
    let options = ReadOptions {
        vars: vec![("ssh".into(), "off".into()), ("port".into(), "2222".into())],
        ..ReadOptions::default()
    };
    let text = planned(&files, &options);
    let skipped = "packs/ssh.toml:6:1\n      skipped: when = {{ssh}} == on\n";
    assert!(text.contains(skipped), "{text}");
    assert!(text.contains("firewall rule sshd"), "{text}");
    assert!(!text.contains("To be decided"), "{text}");
}

#[test]
fn mistakes_in_checks_of_clones_are_reported_at_their_lines() {
    let own = r#"
[[clone]]
[[clone]]
why = "two things"
exists = 'C:\x'
user = { name = "x", password = "s3cret-Value" }
[[clone]]
why = "a running service"
service = { name = "sshd", state = "running" }
[[clone]]
why = "no such target"
targets = ["desk", "moon", "desk"]
missing = 'C:\x'
[[clone]]
why = "a verb"
copy = { path = "x", to = 'C:\x' }
[[clone]]
why = "no type"
registry = { key = 'HKLM\SOFTWARE\Example', name = "Tier" }
[[clone]]
why = "a hive"
registry = { key = 'HKLM\SYSTEM', absent = true }
[[clone]]
why = "{{port}}"
exists = 'C:\x'
"#;
    let recipe = format!("{HEAD}{own}{SEAL}");
    let files = [
        ("recipe.toml", recipe.as_str()),
        ("packs/ssh.toml", PACK),
        ("targets/desk.toml", TARGET),
    ];
    insta::assert_snapshot!("mistakes", facts(&planned(&files, &ReadOptions::default())));
    let one = format!("{HEAD}[clone]\nexists = 'C:\\x'\n{SEAL}");
    let files = [
        ("recipe.toml", one.as_str()),
        ("packs/ssh.toml", "schema = 1\n"),
    ];
    let options = ReadOptions {
        set: vec!["clone=[]".into()],
        ..ReadOptions::default()
    };
    insta::assert_snapshot!("not-a-list", facts(&planned(&files, &options)));
}
