//! The other commands: init, schema, inspect, export, completions, doctor.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::cli::site::{SEAL, Site};
use support::complaints::facts;
use support::media;
use support::tree::root;

#[test]
fn init_writes_a_sound_recipe_and_never_overwrites() {
    let site = Site::new("");
    let first = site.run(&["init", "mine.toml"]);
    let again = site.run(&["init", "mine.toml"]);
    let check = site.run(&["validate", "mine.toml"]);
    insta::assert_snapshot!(facts(&format!(
        "--- init\n{}--- init\n{}--- validate\n{}",
        first.whole(),
        again.whole(),
        check.whole()
    )));
    let starter = std::fs::read_to_string(root().join("recipes/starter.toml"));
    assert_eq!(site.read("mine.toml"), starter.expect("the starter"));
}

#[test]
fn schema_is_the_one_in_the_repository() {
    let site = Site::new("");
    for (arguments, file) in [
        (&["schema"][..], "schemas/manifest-1.json"),
        (&["schema", "try"], "schemas/try-1.json"),
        (&["schema", "config"], "schemas/config-1.json"),
        (&["schema", "recipe"], "schemas/recipe-1.json"),
        (&["schema", "doctor"], "schemas/doctor-1.json"),
        (&["schema", "disk-usage"], "schemas/disk-usage-1.json"),
        (&["schema", "published"], "schemas/published-1.json"),
    ] {
        let outcome = site.run(arguments).ended_well();
        let file = std::fs::read(root().join(file)).expect("the schema");
        assert_eq!(outcome.output.stdout, file);
    }
}

#[test]
fn targets_are_listed_and_shown_with_those_beside_the_recipe() {
    let site = Site::new("");
    let listed = site.run(&["targets"]).ended_well().stdout();
    for name in ["target ", "aws-import ", "vsphere ", "wmco-byoh "] {
        assert!(
            listed.lines().any(|line| line.starts_with(name)),
            "{listed}"
        );
    }
    let shown = site.run(&["targets", "azure"]).ended_well().stdout();
    assert!(
        shown.starts_with("azure: Microsoft Azure (winimg:targets/azure.toml)\n"),
        "{shown}"
    );
    let own = std::fs::read_to_string(root().join("recipes/targets/azure.toml"));
    let own = own
        .expect("the target")
        .replace("Microsoft Azure", "Our own Azure");
    std::fs::create_dir(site.path("targets")).expect("a folder");
    site.write("targets/azure.toml", &own);
    let json = site.run(&["targets", "--json", "azure"]).ended_well();
    let json: serde_json::Value = serde_json::from_slice(&json.output.stdout).expect("JSON");
    assert_eq!(json["target"]["title"], "Our own Azure");
    assert_eq!(json["target"]["metadata"]["by"], "azure");
    let unknown = site.run(&["targets", "azur"]);
    assert_eq!(unknown.status(), Some(2));
    assert!(
        unknown.whole().contains("did you mean `azure`?"),
        "{}",
        unknown.whole()
    );
}

#[test]
fn inspect_describes_media_disks_and_manifests() {
    let site = Site::new(SEAL);
    let mut seen = String::new();
    site.build(&[]).ended_well();
    let size =
        regex::Regex::new(r"(?m)\b(bytes: )\d+$|(, )[0-9.]+ (?:MiB|KiB)\b").expect("a pattern");
    for file in [
        "windows.iso",
        "virtio-win.iso",
        "out/node.raw",
        "sealed.qcow2",
        "out/manifest.json",
    ] {
        let outcome = site.run(&["inspect", file]).ended_well();
        let text = outcome.stdout();
        let text = match file {
            "out/node.raw" | "sealed.qcow2" => text.into(),
            _ => size.replace_all(&text, "$1$2[size]"),
        };
        seen += &format!("=== {file}\n{text}");
        let json = site.run(&["inspect", "--json", file]).ended_well();
        serde_json::from_slice::<serde_json::Value>(&json.output.stdout).expect("JSON");
    }
    for file in ["tool.exe", "nothing.iso", "schema.json"] {
        site.write("schema.json", "{\"schema\": \"winimg/manifest/9\"}");
        seen += &format!("=== {file}\n{}", site.run(&["inspect", file]).whole());
    }
    let seconds = regex::Regex::new(r"in [0-9.]+ s\b").expect("a pattern");
    let seen = seconds.replace_all(&seen, "in [seconds]");
    insta::assert_snapshot!(site.filtered(&seen));
}

#[test]
fn export_makes_other_formats_beside_the_image() {
    let site = Site::new(SEAL);
    let recipe = site.read("recipe.toml");
    let both = recipe.replace("raw = {}\n", "raw = {}\nqcow2 = {}\n");
    site.write("recipe.toml", &both);
    site.build(&[]).ended_well();
    let before = site.files("out");
    let outcome = site.run(&["export", "out/node.raw", "--to", "vhd,ova"]);
    insta::assert_snapshot!("export", outcome.whole());
    let after = site.files("out");
    let made: Vec<&String> = after.iter().filter(|f| !before.contains(f)).collect();
    assert_eq!(made, ["node.ova", "node.vhd"]);
    // A qcow2 is a source as good as a raw, and both give the same bytes.
    let again = [
        "export",
        "out/node.qcow2",
        "--to",
        "vhd",
        "--output",
        "again",
    ];
    site.run(&again).ended_well();
    assert_eq!(site.files("again"), ["node.vhd"]);
    let table = |file: &str| {
        let shown = site.run(&["inspect", file]).ended_well().stdout();
        let table = shown.split_once('\n').map(|(_, table)| table.to_string());
        table.expect("a format and a table")
    };
    assert_eq!(table("out/node.qcow2"), table("out/node.raw"));
    media::run(
        "qemu-img",
        &[
            "compare",
            "-F",
            "vpc",
            media::text(&site.path("out/node.raw")),
            media::text(&site.path("out/node.vhd")),
        ],
    );
    let same = std::fs::read(site.path("again/node.vhd")).expect("the second VHD");
    assert!(same == std::fs::read(site.path("out/node.vhd")).expect("the first VHD"));

    let mut refused = site.run(&["export", "sealed.qcow2", "--to", "vhd"]).whole();
    refused += &site
        .run(&["export", "out/nothing.raw", "--to", "vhd"])
        .whole();
    insta::assert_snapshot!("export_refused", refused);
}

#[test]
fn completions_are_scripts_that_their_shell_reads() {
    let site = Site::new("");
    let script = site
        .run(&["completions", "bash"])
        .ended_well()
        .output
        .stdout;
    let text = String::from_utf8_lossy(&script).into_owned();
    for word in ["build", "--var-file", "--on-error", "keep", "inspect"] {
        assert!(text.contains(word), "{word}");
    }
    let mut bash = Command::new("bash")
        .arg("-n")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("bash starts");
    let mut stdin = bash.stdin.take().expect("piped");
    stdin.write_all(&script).expect("bash reads");
    drop(stdin);
    let output = bash.wait_with_output().expect("bash ends");
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
}

#[test]
fn doctor_reports_what_is_missing_and_what_brings_it() {
    let site = Site::new("");
    let empty = site.path("empty");
    std::fs::create_dir(&empty).expect("a folder");
    let output = site
        .command(&["doctor"])
        .env("PATH", &empty)
        .output()
        .expect("winimg starts");
    assert_eq!(output.status.code(), Some(3));
    // What else it says is this host's own.
    let stdout = String::from_utf8_lossy(&output.stdout);
    let lacks = ["missing: ", "advice: tesseract"];
    let lacking = stdout
        .lines()
        .filter(|line| lacks.iter().any(|start| line.starts_with(start)));
    let lacking: Vec<&str> = lacking.collect();
    insta::assert_snapshot!(site.filtered(&format!(
        "--- standard output\n{}\n--- standard error\n{}",
        lacking.join("\n"),
        String::from_utf8_lossy(&output.stderr)
    )));
}

#[test]
fn doctor_compares_the_host_with_a_recipe_in_the_form_of_its_schema() {
    let site = Site::new("");
    let recipe = site.read("recipe.toml");
    site.write(
        "recipe.toml",
        &recipe.replace("[machine]\n", "[machine]\nmemory = \"900 GiB\"\n"),
    );
    let mut command = site.command(&["doctor", "recipe.toml", "--json"]);
    command.env("https_proxy", "http://ci:hunter2@proxy.example.com:3128");
    let outcome = site.outcome(command);
    assert_eq!(outcome.status(), Some(3));
    assert!(!outcome.whole().contains("hunter2"), "{}", outcome.whole());
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout()).expect("JSON");
    let schema = serde_json::from_str(&winimg::doctor::generate_schema()).expect("JSON");
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    let complaints: Vec<String> = schema.iter_errors(&report).map(|e| e.to_string()).collect();
    assert_eq!(complaints, Vec::<String>::new());
    let checks = report["checks"].as_array().expect("checks");
    let of = |about: &str| {
        checks
            .iter()
            .find(|check| check["about"] == about)
            .expect("a check")
    };
    assert_eq!(of("memory")["state"], "missing");
    assert_eq!(
        of("proxy")["found"],
        "proxy for https addresses: http://…@proxy.example.com:3128 (https_proxy)"
    );
}

#[test]
fn manual_pages_are_sound_and_one_for_each_command() {
    let site = Site::new("");
    let outcome = site.run(&["man", "share/man1"]);
    assert_eq!(
        outcome.stdout(),
        "wrote the manual pages to share/man1; to read one: man share/man1/winimg.1\n"
    );
    let pages = site.files("share/man1");
    for page in [
        "winimg.1",
        "winimg-build.1",
        "winimg-cache-prune.1",
        "winimg-doctor.1",
    ] {
        assert!(pages.iter().any(|name| name == page), "{pages:?}");
    }
    assert!(
        !pages.iter().any(|name| name.contains("relay")),
        "{pages:?}"
    );
    if !media::have(&["groff"]) {
        return;
    }
    for page in pages {
        let path = site.path("share/man1").join(&page);
        let groff = ["-k", "-man", "-Tutf8", "-ww", "-z"];
        let output = Command::new("groff")
            .args(groff)
            .arg(&path)
            .output()
            .expect("groff starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{page}: {said}");
    }
}

#[test]
fn doctor_on_this_host_has_one_word_for_each_firmware() {
    if !media::have(&["qemu-system-x86_64"]) {
        return;
    }
    let site = Site::new("");
    let outcome = site.run(&["doctor", "--accel", "tcg"]);
    let text = outcome.stdout();
    for start in ["UEFI: ", "BIOS: ", "qemu-img "] {
        let lines = text.lines().filter(|l| l.starts_with(start)).count();
        assert_eq!(lines, 1, "{start}{}", outcome.whole());
    }
    let works = text.lines().filter(|l| l.ends_with(" with tcg")).count();
    assert_eq!(
        outcome.status(),
        Some(if works == 2 { 0 } else { 3 }),
        "{}",
        outcome.whole()
    );
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let site = Site::new("");
    let mut child = site
        .command(&["schema"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("winimg starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}
