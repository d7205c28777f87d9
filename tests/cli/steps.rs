//! Steps in the guest: what an exit code does, and what is said of a step that fails.

use crate::cli::site::{SEAL, Site};

const HELLO: &str = "[[steps]]\nname = \"Say hello (twice)\"\ncmd = \"echo hello\"\n";
const AGENT: &str = "[[steps]]\nname = \"agent\"\nmsi = { component = \"agent\" }\n";

/// What the script of the step answers.
fn script(answer: &str) -> String {
    format!(
        "[[run]]\ncommand = 'C:\\Windows\\System32\\cmd.exe /d /c C:\\winimg\\steps\\001.cmd'\n{answer}\n"
    )
}

fn msiexec(answer: &str) -> String {
    format!("[[run]]\ncommand = 'C:\\Windows\\System32\\msiexec.exe /i *'\n{answer}\n")
}

/// A machine on which nothing has time.
const NO_TIME: &str = "[probe]\nslowness = 0\n";

#[test]
fn a_failing_step_shows_its_line_its_command_its_code_and_its_last_lines() {
    let site = Site::new(&format!("{HELLO}\n{SEAL}"));
    let lines: String = (1..=25).map(|n| format!("line {n}\\r\\n")).collect();
    site.machine("", &script(&format!("exit = 5\noutput = \"{lines}\"")));
    let outcome = site.build(&[]);
    insta::assert_snapshot!("failing_step", outcome.failure());
    insta::assert_snapshot!(
        "failing_step_log",
        site.read("out/logs/01-say-hello-twice.log")
    );
    insta::assert_snapshot!("failing_step_left", site.files("out").join("\n"));
    let asked = site.asked();
    assert!(asked.ends_with("steps\\001.cmd\nstop\n"), "{asked}");
}

#[test]
fn codes_that_windows_documents_in_hexadecimal_are_shown_so() {
    let site = Site::new(&format!("{HELLO}\n{SEAL}"));
    site.machine(
        "",
        &script("exit = -2146498529\noutput = \"Error: 0x800f081f\""),
    );
    let mut said = site.build(&[]).failure();
    // The same bits, as another program prints them.
    site.machine("", &script("exit = 2148468767"));
    said += &site.build(&[]).failure();
    insta::assert_snapshot!(said);
}

#[test]
fn a_package_that_fails_leaves_its_installer_log() {
    let site = Site::new(&format!("{AGENT}\n{SEAL}"));
    let log = r"files = { 'C:\winimg\logs\001-msi.log' = 'Return value 3.' }";
    site.machine("", &msiexec(&format!("exit = 1603\n{log}")));
    insta::assert_snapshot!(site.build(&[]).failure());
    assert_eq!(site.read("out/logs/001-msi.log"), "Return value 3.");
}

#[test]
fn codes_of_windows_installer_restart_wait_and_try_again() {
    for (name, answer) in [
        ("3010 restarts the guest", "exit = 3010"),
        ("1641 waits for the guest's own restart", "exit = 1641"),
        ("1618 is tried again", "exit = 1618\ntimes = 1"),
    ] {
        let site = Site::new(&format!("{AGENT}\n{SEAL}"));
        site.machine("", &msiexec(answer));
        let outcome = site.build(&[]).ended_well();
        let story = outcome.stderr();
        let rendered = story
            .split("[1/2]")
            .nth(1)
            .and_then(|s| s.split("[time] [2/2]").next());
        let asked = site.asked();
        let asked = asked.split("payload.cmd 001\n").nth(1).and_then(|s| {
            s.split("run C:\\Windows\\System32\\cmd.exe /d /c C:\\winimg\\payload.cmd 002")
                .next()
        });
        let steps = site.read("out/manifest.json");
        let codes = serde_json::from_str::<serde_json::Value>(&steps).expect("JSON");
        let codes = codes["steps"][0]["exit_codes"].clone();
        insta::assert_snapshot!(
            name.replace([' ', '\''], "_"),
            format!(
                "--- told\n{}--- asked\n{}--- recorded\n{codes}\n",
                rendered.expect("the step"),
                asked.expect("the step")
            )
        );
    }
}

/// What follows in the step may need what the restart finishes.
#[test]
fn a_restart_that_a_code_asks_for_comes_before_what_follows_in_the_step() {
    let step = "[[steps]]\nname = \"updates\"\nupdate = { path = \"updates\" }\n";
    let site = Site::new("");
    site.write("updates/1-kb5012637.msu", "a package");
    site.write("updates/2-kb5012638.cab", "another");
    site.recipe(&format!("{step}\n{SEAL}"));
    let script = |part: &str, exit: i64, output: &str| {
        format!("[[run]]\ncommand = '*payload.cmd {part}'\nexit = {exit}\noutput = \"{output}\"\n")
    };
    let first = script("001", 3010, r"KB5012637: installed, restart needed\r\n");
    let second = script("001-2", 0, r"KB5012638: installed\r\n");
    site.machine("", &format!("{first}{second}"));
    let outcome = site.build(&[]).ended_well();
    let story = outcome.stderr();
    let rendered = story
        .split("[1/2]")
        .nth(1)
        .and_then(|s| s.split("[time] [2/2]").next());
    let asked = site.asked();
    let asked: Vec<&str> = asked
        .lines()
        .filter(|l| l.contains("payload.cmd 001") || *l == "reboot")
        .collect();
    let manifest: serde_json::Value =
        serde_json::from_str(&site.read("out/manifest.json")).expect("JSON");
    insta::assert_snapshot!(format!(
        "--- told\n{}--- asked\n{}\n--- recorded\n{}\n--- log\n{}\n",
        rendered.expect("the step"),
        asked.join("\n"),
        manifest["steps"][0]["exit_codes"],
        site.read("out/logs/01-updates.log"),
    ));
    // A package that does not fit: nothing after it is tried.
    let fails = script(
        "001",
        -2_145_124_329,
        "KB5012637: does not fit this Windows",
    );
    site.machine("", &fails);
    insta::assert_snapshot!("a_package_that_does_not_fit", site.build(&[]).failure());
    // The transcript goes on from the build before.
    assert_eq!(site.asked().matches("payload.cmd 001-2").count(), 1);
}

#[test]
fn what_else_can_become_of_a_command() {
    let mut said = String::new();
    for (name, head, answer) in [
        (
            "the guest goes",
            "",
            "outcome = \"guest-gone\"\noutput = \"going\"",
        ),
        ("the machine dies", "", "outcome = \"machine-crashes\""),
        ("it never ends", NO_TIME, "outcome = \"hangs\""),
        (
            "no restart",
            "[probe]\nslowness = 0\n[reboot]\noutcome = \"stays-away\"\n",
            "exit = 3010",
        ),
        (
            "powers off",
            "[reboot]\noutcome = \"powers-off\"\n",
            "exit = 3010",
        ),
    ] {
        let step = HELLO.replace(
            "cmd = \"echo hello\"",
            "cmd = { inline = [\"echo hello\"], exit_codes = { reboot = [3010] } }",
        );
        let site = Site::new(&format!("{step}\n{SEAL}"));
        site.machine(head, &script(answer));
        said += &format!("=== {name}\n{}", site.build(&[]).failure());
    }
    insta::assert_snapshot!(said);
}

#[test]
fn the_end_of_the_guest_is_watched() {
    let mut said = String::new();
    let stopped = |log: &str, more: &str| {
        format!(
            "[[run]]\ncommand = '*\\schtasks.exe /run *'\nfiles = {{ 'C:\\winimg\\seal-failed.log' = \"{log}\"{more} }}\n"
        )
    };
    let no_sysprep = stopped(
        r"stage: take back what the build set\r\nstage: sysprep\r\nsysprep ended with 1\r\n",
        ", 'C:\\Windows\\System32\\Sysprep\\Panther\\setuperr.log' = \"SYSPRP Package X was installed for a user\\r\\nSYSPRP Failed\\r\\n\"",
    );
    let kept = stopped(
        r"stage: take back what the build set\r\nC:\\unattend.xml\r\nAccess is denied.\r\n",
        "",
    );
    for (name, head, answer) in [
        ("sysprep did nothing", "", no_sysprep.as_str()),
        ("a file stays", "", &kept),
        (
            "never powers off",
            "[probe]\nslowness = 0\n[files]\n'C:\\winimg\\bootstrap.done' = \"result=ok\\r\\n\"\n'C:\\winimg\\seal.log' = \"stage: sysprep\\r\\n\"\n",
            "[[run]]\ncommand = '*\\schtasks.exe /run *'\n",
        ),
        (
            "stays on",
            "[probe]\nslowness = 0\n[off]\noutcome = \"stays-on\"\n",
            "",
        ),
        ("dies", "[off]\noutcome = \"crashes\"\n", ""),
    ] {
        let site = Site::new(SEAL);
        site.machine(head, answer);
        said += &format!("=== {name}\n{}", site.build(&[]).failure());
    }
    let site = Site::new(SEAL);
    site.write("sealed.qcow2", "this is no disk");
    said += &format!("=== a damaged disk\n{}", site.build(&[]).failure());
    assert!(!site.path("out/node.raw").exists());
    insta::assert_snapshot!(said);
}

/// The answer to the question whether Windows is at rest.
fn question(answer: &str) -> String {
    format!("[[run]]\ncommand = '*payload.cmd 000-2'\n{answer}\n")
}

fn busy(what: &str, times: &str) -> String {
    let output = format!("exit = 1618\noutput = \"servicing is at work: {what}\\r\\n\"");
    question(&format!("{output}\n{times}"))
}

/// What was asked of the machine about restarts and rest, and the steps' own programs.
fn course(site: &Site) -> Vec<String> {
    let asked = site.asked();
    let told = asked.lines().filter_map(|line| {
        let is_whole = ["reboot", "wait_back", "boot", "wait_off"].contains(&line)
            || line.starts_with("stay_up");
        let last = line.rsplit([' ', '\\']).next().unwrap_or_default();
        let runs = ["000-2", "dism", "001.cmd", "002.cmd", "winimg-seal"];
        match line {
            _ if is_whole => Some(line.to_owned()),
            _ if line.contains("dism.exe") => Some("dism".to_owned()),
            _ => runs.contains(&last).then(|| last.to_owned()),
        }
    });
    told.collect()
}

#[test]
fn a_windows_at_work_is_not_sealed_and_what_works_is_named() {
    let site = Site::new(SEAL);
    site.machine(NO_TIME, &busy("process TiWorker.exe", ""));
    let outcome = site.build(&[]);
    insta::assert_snapshot!("still_at_work", outcome.failure());
    assert!(!site.asked().contains("schtasks.exe"));
    // A restart that was pending, and work that ends.
    let site = Site::new(SEAL);
    let pending = question("exit = 3010\ntimes = 1");
    let busy = busy("service TrustedInstaller", "times = 1");
    site.machine("", &format!("{pending}{busy}"));
    let outcome = site.build(&["--layers", "none"]).ended_well();
    let note = "Windows is still busy; checking every 5 s";
    assert_eq!(outcome.stderr().matches(note).count(), 1);
    // However often it was asked, it is one command.
    let manifest: serde_json::Value =
        serde_json::from_str(&site.read("out/manifest.json")).expect("JSON");
    let codes = &manifest["steps"][0]["exit_codes"];
    assert_eq!(codes, &serde_json::json!([0, 0, 0]));
    assert_eq!(
        course(&site),
        [
            "000-2",
            "reboot",
            "stay_up 90 s",
            "000-2",
            "stay_up 5 s",
            "000-2",
            "winimg-seal",
            "wait_off"
        ]
    );
}

const FEATURE: &str = "[[steps]]\nname = \"containers\"\nfeature = \"Containers\"\n";

fn dism(answer: &str) -> String {
    format!("[[run]]\ncommand = '*\\dism.exe *'\n{answer}\n")
}

#[test]
fn windows_may_restart_by_itself_after_a_feature_before_the_next_step_runs() {
    let step = HELLO.replace("Say hello (twice)", "say hello");
    let steps = format!("{FEATURE}{step}{SEAL}");
    for layers in ["none", "auto"] {
        let site = Site::new(&steps);
        site.machine("[reboot]\nagain = 2\n", &dism("exit = 3010"));
        let outcome = site.build(&["--layers", layers]).ended_well();
        let note = "Windows is restarting on its own; waiting for it";
        assert_eq!(outcome.stderr().matches(note).count(), 2, "{layers}");
        let course = course(&site);
        let begins = course.iter().position(|what| what == "dism");
        let rest = [
            "stay_up 90 s",
            "wait_back",
            "stay_up 90 s",
            "wait_back",
            "stay_up 90 s",
            "000-2",
            "002.cmd",
        ];
        let begin = match layers {
            "none" => ["reboot"].as_slice(),
            _ => &["wait_off", "boot"],
        };
        let expected = [["dism"].as_slice(), begin, &rest].concat();
        let begins = begins.expect("the feature's program");
        assert_eq!(
            course[begins..begins + expected.len()],
            expected,
            "{layers}"
        );
    }
}

/// A layer that was sealed in place of the restart: the build that goes on from it waits as well.
#[test]
fn a_build_that_goes_on_from_a_layer_after_servicing_waits_as_well() {
    let failing = HELLO.replace("Say hello (twice)", "say hello");
    let site = Site::new(&format!("{FEATURE}{failing}{SEAL}"));
    let fails = "[[run]]\ncommand = '*\\steps\\002.cmd'\nexit = 5\ntimes = 1\n";
    site.machine("", &format!("{}{fails}", dism("exit = 3010")));
    let failed = site.build(&[]).failure();
    assert!(failed.contains("exit code 5"), "{failed}");
    site.another_machine("", "");
    let outcome = site.build(&[]).ended_well();
    let from = "resuming from the layer after step `containers`";
    assert!(outcome.stderr().contains(from), "{}", outcome.whole());
    let course = course(&site);
    let begin = course
        .iter()
        .rposition(|what| what == "boot")
        .expect("a start");
    assert_eq!(
        course[begin..begin + 4],
        ["boot", "stay_up 90 s", "000-2", "002.cmd"]
    );
}

#[test]
fn how_long_windows_is_waited_for_follows_from_what_the_restart_follows() {
    let asked = |steps: &str, answer: &str| {
        let site = Site::new(&format!("{steps}{SEAL}"));
        site.machine("", answer);
        site.build(&["--layers", "none"]).ended_well();
        let mut course = course(&site);
        let end = course.iter().position(|what| what == "winimg-seal");
        // The question before the seal is the last.
        course.truncate(end.expect("a seal") - 1);
        course
    };
    let reboot = "[[steps]]\nname = \"restart\"\nreboot = {}\n";
    assert_eq!(
        asked(reboot, ""),
        ["reboot", "000-2"],
        "nothing was serviced"
    );
    assert_eq!(
        asked(&format!("{FEATURE}{reboot}"), &dism("exit = 0")),
        ["dism", "reboot", "stay_up 90 s", "000-2"],
        "a feature that asks for no restart, then one"
    );
    assert_eq!(asked(FEATURE, &dism("exit = 0")), ["dism"], "no restart");
    let asks = msiexec("exit = 3010");
    assert_eq!(asked(AGENT, &asks), ["reboot", "stay_up 90 s", "000-2"]);
    let short = "[setup]\nsettle_time = \"7s\"\n";
    assert_eq!(
        asked(&format!("{short}{FEATURE}"), &dism("exit = 3010")),
        ["dism", "reboot", "stay_up 7 s", "000-2"]
    );
}

#[test]
fn a_windows_that_does_not_come_to_rest_after_a_feature_is_an_error() {
    let site = Site::new(&format!("{FEATURE}{SEAL}"));
    let answers = format!(
        "{}{}",
        dism("exit = 3010"),
        busy("process TiWorker.exe", "")
    );
    site.machine(NO_TIME, &answers);
    let mut said = site.build(&["--layers", "none"]).failure();
    site.machine("[reboot]\nagain = 99\n", &dism("exit = 3010"));
    said += &site.build(&["--layers", "none"]).failure();
    insta::assert_snapshot!(said);
}
