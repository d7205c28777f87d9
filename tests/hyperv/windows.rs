//! The same build by winimg.exe, under Wine, over the stand-in as a Windows program: `make windows-calls`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use regex::Regex;

use crate::faults::site::{Run, Strike};
use crate::hyperv::TOOLS;
use crate::hyperv::folder;
use crate::hyperv::host::Host;
use crate::hyperv::story;
use support::media;
use support::windows_exe as exe;

/// A Windows of its own, in which `powershell.exe` is the stand-in.
fn wine() -> Command {
    // Once: the file that is exchanged must not be in use by another test.
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    exe::winimg(MADE.get_or_init(make))
}

fn make() -> PathBuf {
    let dir = exe::dir().join("hyperv");
    std::fs::create_dir_all(&dir).expect("a folder");
    let made = exe::winimg(&dir).arg("--version").status();
    assert!(made.expect("Wine").success());
    let system = dir.join("prefix/drive_c/windows/system32");
    let place = system.join("WindowsPowerShell/v1.0/powershell.exe");
    // Wine's own is a link or a builtin: it goes first.
    let _ = std::fs::remove_file(&place);
    std::fs::copy(exe::program("fake-powershell.exe"), place).expect("a copy");
    dir
}

/// With this machine's paths as Linux has them.
fn with_our_paths(trace: &str) -> String {
    let ours = Regex::new(r"Z:(\\[^\s']*)").expect("a pattern");
    let run = Regex::new(r"C:\\users\\[^\s']*\\winimg\\run\\").expect("a pattern");
    let trace = ours.replace_all(trace, |found: &regex::Captures<'_>| {
        found[1].replace('\\', "/")
    });
    run.replace_all(&trace, "/run/winimg-0/").into_owned()
}

fn build(host: &Host, strike: Option<&Strike>) -> Run {
    let mut command = wine();
    command
        .env("WINIMG_CACHE_DIR", exe::named(&host.site.path("cache")))
        .env("FAKE_HYPERV", exe::named(&host.site.path("host.toml")));
    host.build_with(command, &[], strike)
}

fn nothing_is_left(host: &Host, run: &Run) {
    assert_eq!(host.left(), Vec::<String>::new(), "{}", run.said);
}

/// Processes that this host's configuration was given to; wineserver, which serves all, was not.
fn processes(host: &Host) -> Vec<Pid> {
    let config = exe::named(&host.site.path("host.toml"));
    let ours = |pid: &str| -> Option<Pid> {
        let id = pid.parse().ok()?;
        let read = |what: &str| std::fs::read(format!("/proc/{pid}/{what}")).ok();
        let environment = String::from_utf8_lossy(&read("environ")?).into_owned();
        let line = String::from_utf8_lossy(&read("cmdline")?).replace('\0', " ");
        let is_ours = environment.contains(&config) && line.contains("powershell.exe");
        is_ours.then(|| Pid::from_raw(id))
    };
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    all.filter_map(|e| ours(&e.file_name().to_string_lossy()))
        .collect()
}

fn machines(host: &Host) -> usize {
    let left = host.left();
    left.iter().filter(|l| l.starts_with("vms")).count()
}

#[test]
#[ignore = "needs winimg.exe: make windows-calls"]
fn winimg_exe_makes_the_same_calls() {
    if !media::have(TOOLS) {
        return;
    }
    let folder = folder();
    let host = Host::new(folder.join("site"));
    let first = build(&host, None);
    assert_eq!(first.status, 0, "{}", first.said);
    nothing_is_left(&host, &first);
    let raw = std::fs::metadata(host.site.path("out/node.raw"));
    assert_eq!(raw.expect("the artifact").len(), 64 << 20);
    let trace = with_our_paths(&host.site.read("trace.txt"));
    insta::with_settings!({prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!(
            "machines__hyperv__the_calls_of_a_build",
            story::rendered(&trace, &host.site.dir)
        );
    });

    // Over the layers of that one, with a host that fails: named, and nothing is left.
    host.site.recipe(&[("echo bye".into(), "echo ciao".into())]);
    let vanishes = r#"
[[fault]]
at = { call = "guest:poll" }
do = "vm-vanishes"
"#;
    host.machine(vanishes, &[]);
    let failed = build(&host, None);
    assert_eq!(failed.status, 8, "{}", failed.said);
    nothing_is_left(&host, &failed);
    for words in ["resuming from the layer", "report.html"] {
        assert!(failed.said.contains(words), "{words}: {}", failed.said);
    }
    host.machine("", &[]);
    let second = build(&host, None);
    assert_eq!(second.status, 0, "{}", second.said);
    nothing_is_left(&host, &second);
    assert!(!host.site.read("trace.txt").contains("windows.iso"));
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
#[ignore = "needs winimg.exe: make windows-calls"]
fn an_interrupt_and_a_kill_end_what_winimg_exe_began() {
    if !media::have(TOOLS) {
        return;
    }
    let folder = folder();
    let host = Host::new(folder.join("site"));
    let during_setup = |signal, after| Strike {
        when: "\"phase\":\"install\"",
        blows: vec![(after, signal)],
    };
    let long = [("refused = 0", "refused = 0\nstretch_ms = 20000")];
    host.machine("", &long);
    let stopped = build(&host, Some(&during_setup(Signal::SIGINT, 50)));
    assert_eq!(stopped.status, 130, "{}", stopped.said);
    assert!(stopped.said.contains("interrupted"), "{}", stopped.said);
    nothing_is_left(&host, &stopped);

    // PowerShell is not killed with winimg.exe: it sees that its input has ended, removes the machine, and goes.
    let killed = build(&host, Some(&during_setup(Signal::SIGKILL, 4000)));
    assert_eq!(killed.status, -9, "{}", killed.said);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !processes(&host).is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(processes(&host), Vec::<Pid>::new());
    assert_eq!(machines(&host), 0);

    // One that hangs sees nothing. The machine that stays is found by the next build.
    let hangs = "[[fault]]\nat = {call = 'Get-VM', is = '*-Id*'}\ndo = 'hangs'\n";
    host.machine(hangs, &long);
    let killed = build(&host, Some(&during_setup(Signal::SIGKILL, 20_000)));
    assert_eq!(killed.status, -9, "{}", killed.said);
    assert_eq!(machines(&host), 1);
    for hanging in processes(&host) {
        kill(hanging, Signal::SIGKILL).expect("it hangs");
    }
    host.mend();
    let next = build(&host, None);
    assert_eq!(next.status, 0, "{}", next.said);
    nothing_is_left(&host, &next);
    let _ = std::fs::remove_dir_all(&folder);
}
