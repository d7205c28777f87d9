//! Whole plans, verb by verb, compared with the snapshots.

mod arguments;
mod every;
mod images;
mod inputs;
pub mod keys;
mod powershell;
mod recipe;
mod restore;
mod security;
mod servicing;
mod shut_out;

use std::path::Path;
use std::time::Duration;

use recipe::Maker;
use support::difference::lines_that_differ;
use winimg_base::diag::Diagnostics;
use winimg_recipe::ops::Encoding;
use winimg_recipe::plan;
use winimg_recipe::plan::check::ServiceStartMode;
use winimg_recipe::verbs::*;
use winimg_recipe::*;

fn plan_of(recipe: Recipe) -> String {
    match plan::make(&recipe) {
        Ok(plan) => {
            let mut text = plan::render_text(&recipe, &plan);
            if !plan.warnings.0.is_empty() {
                text.push_str("\nwarnings\n");
                text.push_str(&said(&plan.warnings));
            }
            text
        }
        Err(complaints) => panic!("no plan:\n{}", said(&complaints)),
    }
}

/// `recipe.toml:11:1 error: message [label] (help)`, one a line.
fn said(complaints: &Diagnostics) -> String {
    let mut out = String::new();
    for d in &complaints.0 {
        let place = d
            .problem
            .place
            .as_ref()
            .map_or_else(String::new, |p| p.to_string());
        let severity = format!("{:?}", d.severity).to_lowercase();
        out.push_str(&format!("{place} {severity}: {}", d.problem.fact));
        if !d.label.is_empty() {
            out.push_str(&format!(" [{}]", d.label));
        }
        for help in &d.problem.cures {
            out.push_str(&format!(" ({help})"));
        }
        out.push('\n');
    }
    out
}

fn refused(recipe: Recipe) -> String {
    match plan::make(&recipe) {
        Ok(plan) => panic!("a plan was made:\n{}", plan::render_text(&recipe, &plan)),
        Err(complaints) => said(&complaints),
    }
}

/// The last step of every recipe here, so that only the tests about it show its warning.
fn sealed(maker: Maker) -> Recipe {
    maker.step("seal", |m| m.generalize()).made()
}

/// The plan without the last step, which is the same everywhere.
fn unsealed(text: &str) -> String {
    let (kept, _) = text.rsplit_once("\n\n").expect("a seal step");
    format!("{kept}\n")
}

fn local(name: &str) -> std::path::PathBuf {
    Path::new("tests/plan").join(name)
}

#[test]
fn files() {
    let maker = Maker::new()
        .var("kubernetes_version", "1.36.1", "recipe.toml:1:1")
        .var("cni", "1.7.1", "--var")
        .value("media.language", "\"en-US\"", "default")
        .value(
            "components.kubelet.url",
            "\"https://example.com/releases/v1.36.1/bin/windows/amd64/kubelet.exe\"",
            "packs/kubernetes.toml:9:7",
        )
        .value("steps.kubelet.copy.to", "\"C:/k/\"", "recipe.toml:11:1")
        .component("kubelet", "kubelet.exe", None)
        .component(
            "cni",
            "cni-plugins-windows-amd64.tgz",
            Some(ArchiveKind::TarGz),
        )
        .step("kubelet", |m| m.copy("kubelet", r"C:\k\"))
        .step("kubelet again", |m| {
            m.copy("kubelet", r"C:\100% sure\agent & co.exe")
        })
        .step("a local file", |m| {
            m.copy_local(local("seal/own.xml"), r"C:\opt\own.xml")
        })
        .step("a local folder", |m| {
            m.copy_local(local("seal"), r"C:\opt\seal\")
        })
        .step("cni", |m| {
            Verb::Extract(ExtractSpec {
                component: m.at("cni"),
                to: m.path(r"C:\opt\cni\bin"),
                strip: 1,
                only: vec!["*.exe".into(), "win-*".into()],
            })
        })
        .step("config", |m| {
            Verb::File(FileSpec {
                path: m.path(r"C:\etc\config.toml"),
                content: "version = 3\nname = \"é\"\n".into(),
                encoding: Encoding::Utf8,
            })
        })
        .step("start script", |m| {
            Verb::File(FileSpec {
                path: m.path(r"C:\k\start.PS1"),
                content: "Get-Item C:\\\n".into(),
                encoding: Encoding::Utf8Bom,
            })
        })
        .step("logs", |m| {
            Verb::Directory(DirectorySpec {
                path: m.path(r"C:\var\log\pods"),
            })
        })
        .step("top", |m| {
            Verb::Directory(DirectorySpec {
                path: m.path(r"C:\top"),
            })
        })
        .but(|s| s.timeout = Some(Duration::from_secs(90)))
        .step("old", |m| {
            Verb::Remove(RemoveSpec {
                path: m.path(r"C:\old\x.txt"),
                recursive: false,
            })
        })
        .step("old tree", |m| {
            Verb::Remove(RemoveSpec {
                path: m.path(r"C:\old"),
                recursive: true,
            })
        })
        .step("not now", |m| {
            Verb::Directory(DirectorySpec {
                path: m.path(r"C:\never"),
            })
        })
        .but(|s| s.skipped = Some("provider == \"aws\"".into()));
    insta::assert_snapshot!("files", &unsealed(&plan_of(sealed(maker))));
}

#[test]
fn scripts() {
    let maker = Maker::new()
        .step("batch", |m| m.cmd("@echo off\necho 100%%\ngoto end\n:end"))
        .step("batch with codes", |_| {
            Verb::Cmd(CmdSpec {
                script: "exit /b 5\r\n".into(),
                exit_codes: ExitCodes {
                    ok: Some(vec![0, 5]),
                    reboot: Some(vec![3010]),
                },
            })
        })
        .step("power", |_| {
            Verb::Powershell(PowershellSpec {
                script: "$text = @'\nliteral $x\n'@\nWrite-Output $text 'é'\n".into(),
                exit_codes: ExitCodes::default(),
            })
        })
        .step("power again", |_| {
            Verb::Powershell(PowershellSpec {
                script: "exit 3010".into(),
                exit_codes: ExitCodes {
                    ok: None,
                    reboot: Some(vec![3010]),
                },
            })
        })
        .step("restart", |_| Verb::Reboot)
        .step("slow restart", |_| Verb::Reboot)
        .but(|s| s.timeout = Some(Duration::from_secs(5400)));
    insta::assert_snapshot!("scripts", &unsealed(&plan_of(sealed(maker))));
}

#[test]
fn services() {
    let maker = Maker::new()
        .step("containerd", |m| {
            let mut s = m.service("containerd");
            s.program = Some(m.path(r"C:\Program Files\containerd\containerd.exe"));
            s.arguments = vec![
                "--run-service".into(),
                "--root".into(),
                r"C:\a b\".into(),
                "".into(),
            ];
            s.display_name = Some("Containerd".into());
            s.description = Some("Runs containers – \"really\" 100%".into());
            s.start = Some(ServiceStartMode::DelayedAuto);
            s.restart_delays = vec![15000, 15000];
            s.state = Some(ServiceState::Running);
            Verb::Service(s)
        })
        .step("kubelet", |m| {
            let mut s = m.service("kubelet");
            s.program = Some(m.path(r"C:\k\kubelet.exe"));
            s.arguments = vec!["--resolv-conf=".into(), "--v=6".into()];
            s.start = Some(ServiceStartMode::Auto);
            s.depends = vec!["containerd".into(), "Tcpip".into()];
            s.account = Some("LocalSystem".into());
            Verb::Service(s)
        })
        .step("spooler off", |m| {
            let mut s = m.service("Spooler");
            s.start = Some(ServiceStartMode::Disabled);
            s.state = Some(ServiceState::Stopped);
            Verb::Service(s)
        })
        .step("only description", |m| {
            let mut s = m.service("x");
            s.description = Some("two words".into());
            Verb::Service(s)
        })
        .step("gone", |m| {
            let mut s = m.service("old & 100%");
            s.state = Some(ServiceState::Absent);
            Verb::Service(s)
        });
    insta::assert_snapshot!("services", &unsealed(&plan_of(sealed(maker))));
}

#[test]
fn registry() {
    const KEY: &str = r"HKEY_LOCAL_MACHINE\SOFTWARE\Example & Co";
    let set = |name: &'static str, data: RegistryValueData| {
        move |m: &Maker| m.registry(KEY, Some(name), data)
    };
    let maker = Maker::new()
        .step(
            "sz",
            set("Tier", RegistryValueData::Sz("go ld \"%x%\" ^!".into())),
        )
        .step("default", |m| {
            m.registry(KEY, None, RegistryValueData::Sz("zażółć".into()))
        })
        .step(
            "expand",
            set(
                "Root",
                RegistryValueData::ExpandSz(r"%SystemRoot%\x\".into()),
            ),
        )
        .step(
            "multi",
            set(
                "List",
                RegistryValueData::MultiSz(vec!["a b".into(), "c".into()]),
            ),
        )
        .step("dword", set("D", RegistryValueData::Dword(u32::MAX)))
        .step("qword", set("Q", RegistryValueData::Qword(u64::MAX)))
        .step("binary", set("B", RegistryValueData::Binary(vec![0, 255])))
        .step("empty", set("E", RegistryValueData::Sz(String::new())))
        .step("empty default", |m| {
            m.registry(KEY, None, RegistryValueData::Sz(String::new()))
        })
        .step(
            "blank and backslash",
            set("F", RegistryValueData::Sz("C:\\a b\\".into())),
        )
        .step("two lines", set("G", RegistryValueData::Sz("a\nb".into())))
        .step(
            "backslash in list",
            set(
                "H",
                RegistryValueData::MultiSz(vec![r"C:\0".into(), "x".into()]),
            ),
        )
        .step("empty list", set("I", RegistryValueData::MultiSz(vec![])))
        .step("long binary", set("J", RegistryValueData::Binary(vec![])))
        .step("value gone", set("K \"q\" \\", RegistryValueData::Absent))
        .step("key gone", |m| {
            m.registry(r"HKLM\SOFTWARE\Old", None, RegistryValueData::Absent)
        })
        .step("user", |m| {
            m.registry(
                r"hku\.DEFAULT\Console\",
                Some("X"),
                RegistryValueData::Dword(1),
            )
        })
        .step("variable", |m| m.environment("KUBE", Some("a b")))
        .step("expanding", |m| {
            m.environment("KUBE_ROOT", Some(r"%SystemDrive%\k"))
        })
        .step("no variable", |m| m.environment("OLD", None))
        .step("search", |m| {
            Verb::Path(PathSpec {
                add: vec![
                    m.path(r"C:\k\"),
                    m.path(r"C:\Program Files\containerd (x86) & 100%"),
                ],
            })
        });
    insta::assert_snapshot!("registry", &unsealed(&plan_of(sealed(maker))));
}

#[test]
fn packages() {
    let maker = Maker::new()
        .component("init", "CloudbaseInitSetup_1_1_4_x64.msi", None)
        .component("odd", "odd 100% name.msi", None)
        .step("plain", |m| {
            m.msi(
                "init",
                &[("RUN_SERVICE_AS_LOCAL_SYSTEM", "1"), ("EMPTY", "")],
            )
        })
        .step("blanks", |m| {
            m.msi(
                "init",
                &[
                    ("DIR", r"C:\Program Files\x & y\"),
                    ("SAY", "a \"b|c\" 100%"),
                ],
            )
        })
        .step("odd name", |m| m.msi("odd", &[("A", "b c")]))
        .step("codes", |m| {
            Verb::Msi(MsiSpec {
                from: StepContent::Component(m.at("init")),
                properties: Default::default(),
                exit_codes: ExitCodes {
                    ok: Some(vec![0, 1638]),
                    reboot: None,
                },
            })
        });
    insta::assert_snapshot!("packages", &unsealed(&plan_of(sealed(maker))));
}

#[test]
fn assertions() {
    let value = |m: &Maker, name: &str, data| {
        Verb::Assert(Assertion::RegistryValue {
            key: m
                .at("")
                .map(|_| RegistryKey::from_static(r"HKLM\SOFTWARE\Example")),
            value: name.to_owned(),
            data,
        })
    };
    let maker = Maker::new()
        .step("there", |m| {
            Verb::Assert(Assertion::Exists(m.path(r"C:\k\kubelet.exe")))
        })
        .step("folder there", |m| {
            Verb::Assert(Assertion::Exists(m.path(r"C:\k\")))
        })
        .step("not there", |m| {
            Verb::Assert(Assertion::Missing(m.path(r"C:\old")))
        })
        .step("runs", |m| {
            Verb::Assert(Assertion::ServiceRunning(m.at("containerd")))
        })
        .step("word", |m| {
            value(m, "Two Words", RegistryValueData::Sz("100% (gold)".into()))
        })
        .step("number", |m| value(m, "N", RegistryValueData::Dword(255)))
        .step("none", |m| value(m, "N", RegistryValueData::Absent))
        .step("patched", |_| {
            Verb::Assert(Assertion::Windows {
                build: 20348,
                revision: 681,
            })
        })
        .step("command", |m| {
            Verb::Assert(Assertion::Cmd(m.at(r"C:\k\kubelet.exe --version")))
        });
    insta::assert_snapshot!("assertions", &unsealed(&plan_of(sealed(maker))));
}

#[test]
fn sealing() {
    let builtin = Maker::new()
        .language("pl-PL", "Central European <Standard> Time é")
        .step("seal", |m| m.generalize());
    let built_in = plan_of(builtin.made());
    insta::assert_snapshot!("sealing", &built_in);
    let own = Maker::new().step("seal", |m| {
        Verb::Generalize(GeneralizeSpec {
            answer_file: SealAnswer::Own(m.at("").map(|_| local("seal/own.xml"))),
            mode_vm: true,
        })
    });
    insta::assert_snapshot!(
        "sealing-own",
        lines_that_differ(&built_in, &plan_of(own.made()))
    );
    let none = Maker::new().step("seal", |_| {
        Verb::Generalize(GeneralizeSpec {
            answer_file: SealAnswer::None,
            mode_vm: false,
        })
    });
    // Whole: the stand-in runs its scripts.
    insta::assert_snapshot!("sealing-none", &plan_of(none.made()));
}

/// From TOML, because which files lie in a folder is a part of what these verbs mean.
#[test]
fn windows_itself() {
    let path = Path::new("tests/plan/windows/recipe.toml");
    let (recipe, complaints) = read(path, &ReadOptions::default());
    let mut recipe = recipe.unwrap_or_else(|| panic!("{}", said(&complaints)));
    assert!(!complaints.has_errors(), "{}", said(&complaints));
    recipe.effective.clear();
    insta::assert_snapshot!("windows", &unsealed(&plan_of(recipe)));
}

#[test]
fn services_and_their_later_settings() {
    let maker = Maker::new()
        .step("made", |m| {
            let mut s = m.service("kubelet");
            s.program = Some(m.path(r"C:\k\kubelet.exe"));
            s.start = Some(ServiceStartMode::Auto);
            s.restart_delays = vec![5000];
            Verb::Service(s)
        })
        .step("not by itself", |m| {
            let mut s = m.service("Kubelet");
            s.start = Some(ServiceStartMode::Demand);
            Verb::Service(s)
        });
    let recipe = sealed(maker);
    let plan = plan::make(&recipe).expect("a plan");
    let text = plan::render_text(&recipe, &plan);
    let left: Vec<&str> = text
        .lines()
        .filter_map(|l| l.trim().strip_prefix("leaves  service "))
        .collect();
    assert_eq!(
        left,
        [
            r"kubelet, restarted after 5000 ms: C:\k\kubelet.exe",
            "Kubelet, demand"
        ]
    );
}

#[test]
fn what_windows_itself_would_not_take_is_refused() {
    let exe = |m: &Maker, file: &str| ExeSpec {
        program: ExeProgram::InGuest(m.path(file)),
        arguments: vec![],
        directory: None,
        creates: None,
        exit_codes: ExitCodes::default(),
    };
    let carried = |m: &Maker, component: &str| StepContent::Component(m.at(component));
    let maker = Maker::new()
        .component("agent", "agent.msi", None)
        .component("archive", "drivers.zip", Some(ArchiveKind::Zip))
        .step("a package", |m| {
            let mut e = exe(m, r"C:\k\x");
            e.program = ExeProgram::Carried(carried(m, "agent"));
            Verb::Exe(e)
        })
        .step("a script", |m| Verb::Exe(exe(m, r"C:\k\x.CMD")))
        .step("no extension", |m| Verb::Exe(exe(m, r"C:\k\x")))
        .step("a quote in batch", |m| {
            let mut e = exe(m, r"C:\k\x.exe");
            e.arguments = vec![r#"say "x""#.into()];
            e.creates = Some(m.path(r"C:\k\y.exe"));
            Verb::Exe(e)
        })
        .step("an empty and a quote", |m| {
            let mut e = exe(m, r"C:\k\x.exe");
            e.arguments = vec![String::new(), r#"say "x""#.into()];
            Verb::Exe(e)
        })
        .step("a file as a folder", |m| {
            Verb::Driver(DriverSpec {
                from: carried(m, "agent"),
                only: vec![],
            })
        })
        .step("no such folder", |m| {
            Verb::Driver(DriverSpec {
                from: StepContent::Local(m.at("").map(|_| local("no/such"))),
                only: vec![],
            })
        })
        .step("no driver", |m| {
            Verb::Driver(DriverSpec {
                from: StepContent::Local(m.at("").map(|_| local("seal"))),
                only: vec![],
            })
        })
        .step("no such driver", |m| {
            Verb::Driver(DriverSpec {
                from: StepContent::Local(m.at("").map(|_| local("windows/drivers"))),
                only: vec!["viostor/*".into()],
            })
        })
        .step("a driver that lacks files", |m| {
            Verb::Driver(DriverSpec {
                from: StepContent::Local(m.at("").map(|_| local("broken-drivers"))),
                only: vec![],
            })
        })
        .step("a malformed pattern", |m| {
            Verb::Driver(DriverSpec {
                from: StepContent::Local(m.at("").map(|_| local("windows/drivers"))),
                only: vec!["a**b".into()],
            })
        })
        .step("no package", |m| {
            Verb::Update(UpdateSpec::Offline {
                packages: vec![carried(m, "agent")],
                date: None,
            })
        })
        .step("a file as a source", |m| {
            Verb::Feature(FeatureSpec {
                names: vec![m.at("Containers")],
                enabled: true,
                all: true,
                without: Vec::new(),
                source: Some(carried(m, "agent")),
            })
        })
        .step("vital", |m| {
            Verb::Cleanup(CleanupSpec {
                paths: vec![m.path(r"C:\Windows\")],
                ..CleanupSpec::default()
            })
        })
        .step("percent", |m| {
            Verb::Cleanup(CleanupSpec {
                paths: vec![m.path(r"C:\100%")],
                ..CleanupSpec::default()
            })
        });
    insta::assert_snapshot!("windows-mistakes", &refused(sealed(maker)));
}

#[test]
fn a_recipe_that_does_not_seal_is_warned_about_and_cleaned_up() {
    let maker = Maker::new()
        .component("agent", "agent.exe", None)
        .step("agent", |m| m.copy("agent", r"C:\agent"));
    insta::assert_snapshot!("unsealed", &plan_of(maker.made()));
}

#[test]
fn only_what_lasts_is_expected() {
    let maker = Maker::new()
        .component("agent", "agent.exe", None)
        .step("first", |m| m.copy("agent", r"C:\a\agent.exe"))
        .step("second", |m| m.copy("agent", r"C:\b\agent.exe"))
        .step("gone with its folder", |m| {
            Verb::Remove(RemoveSpec {
                path: m.path(r"C:\A"),
                recursive: true,
            })
        })
        .step("set", |m| {
            m.registry(r"HKLM\SOFTWARE\X", Some("v"), RegistryValueData::Dword(1))
        })
        .step("set again", |m| {
            m.registry(r"HKLM\Software\x", Some("V"), RegistryValueData::Dword(2))
        })
        .step("back", |m| m.copy("agent", r"C:\a\back.exe"))
        .made();
    let plan = plan::make(&maker).expect("a plan");
    let left: Vec<usize> = plan.steps.iter().map(|s| s.expects.len()).collect();
    assert_eq!(
        left[..6],
        [0, 1, 0, 0, 1, 1],
        "{}",
        plan::render_text(&maker, &plan)
    );
}

#[test]
fn the_json_holds_what_the_text_shows() {
    let recipe = Maker::new()
        .var("v", "1", "--var")
        .value("media.language", "\"en-US\"", "default")
        .component("agent", "agent.exe", None)
        .step("agent", |m| m.copy("agent", r"C:\k\agent.exe"))
        .step("batch", |m| m.cmd("echo x"))
        .step("restart", |_| Verb::Reboot)
        .step("seal", |m| m.generalize())
        .made();
    let plan = plan::make(&recipe).expect("a plan");
    let json = plan::render_json(&recipe, &plan);
    let text = serde_json::to_string_pretty(&json).expect("JSON");
    insta::assert_snapshot!("json", text);
}

#[test]
fn every_mistake_is_reported_at_its_step() {
    let maker = Maker::new()
        .component("kubelet", "kubelet.exe", None)
        .component("setup", "setup.msi", None)
        .step("copy", |m| m.copy("kubelet", "C:\\zażółć"))
        .step("no file", |m| m.copy_local("no/such".into(), r"C:\k\y"))
        .step("vital", |m| {
            Verb::Remove(RemoveSpec {
                path: m.path(r"C:\WINDOWS\"),
                recursive: true,
            })
        })
        .step("hive", |m| {
            m.registry(r"HKLM\SOFTWARE", None, RegistryValueData::Absent)
        })
        .step("list", |m| {
            m.registry(
                r"HKLM\SOFTWARE\X",
                Some("v"),
                RegistryValueData::MultiSz(vec!["".into()]),
            )
        })
        .step("not ascii", |m| m.msi("setup", &[("A", "ż b")]))
        .step("empty description", |m| {
            let mut s = m.service("x");
            s.description = Some(String::new());
            Verb::Service(s)
        })
        .step("percent", |m| {
            let mut s = m.service("100%");
            s.state = Some(ServiceState::Running);
            Verb::Service(s)
        })
        .step("percent", |m| {
            Verb::Assert(Assertion::ServiceRunning(m.at("100%")))
        })
        .step("password", |m| {
            Verb::Generalize(GeneralizeSpec {
                answer_file: SealAnswer::Own(m.at("").map(|_| local("seal/password.xml"))),
                mode_vm: false,
            })
        });
    insta::assert_snapshot!("mistakes", &refused(maker.made()));
}

#[test]
fn a_warning_comes_with_the_plan_where_cmd_reads_another_code_page() {
    let recipe = sealed(Maker::new().step("batch", |m| m.cmd("echo zażółć")));
    let plan = plan::make(&recipe).expect("a plan");
    assert_eq!(
        said(&plan.warnings),
        "recipe.toml:11:1 warning: step `batch`: the script contains `ż`, which cmd reads in the console's code page \
         (keep batch text in ASCII, or use `powershell`, whose file is UTF-8)\n"
    );
}
