//! Whole builds on Hyper-V, over a stand-in for its PowerShell whose guest follows a script: the calls of a good build, and a table of faults.
//!
//! `make faults-hyperv` prints the table; `FAULTS=session` picks the rows whose name holds the word. `tests/sim/hyperv/README.md` says how to add one.

use crate::faults::figures;
use support::media;
use support::screens;
use support::tree;
mod dialogs;
mod faults;
mod host;
pub mod story;
mod windows;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::faults::wanted::wanted;
use host::Host;

const TOOLS: &[&str] = &[
    "wimlib-imagex",
    "genisoimage",
    "sgdisk",
    "qemu-img",
    "mkfs.vfat",
];

fn folder() -> std::path::PathBuf {
    tree::folder().keep()
}

#[test]
fn a_recipe_becomes_an_image_by_these_calls() {
    if !media::have(TOOLS) {
        return;
    }
    let folder = folder();
    let host = Host::new(folder.join("site"));
    let run = host.build(&[], None);
    assert_eq!(run.status, 0, "{}", run.said);
    assert_eq!(host.left(), Vec::<String>::new(), "{}", run.said);
    let answers = "PowerShell Direct responds; waiting for Setup to finish";
    assert!(run.said.contains(answers), "{}", run.said);
    assert!(!run.said.contains("guest agent"), "{}", run.said);
    let raw = std::fs::metadata(host.site.path("out/node.raw"));
    assert_eq!(raw.expect("the artifact").len(), 64 << 20);
    assert!(host.site.path("out/manifest.json").is_file());
    for secret in host.passwords() {
        for file in [
            "trace.txt",
            "said.txt",
            "out/events.jsonl",
            "out/manifest.json",
        ] {
            assert!(
                !host.site.read(file).contains(&secret),
                "the password is in {file}"
            );
        }
    }
    insta::assert_snapshot!(
        "the_calls_of_a_build",
        story::rendered(&host.site.read("trace.txt"), &host.site.dir)
    );
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn a_changed_last_step_is_built_over_the_layer_below_it() {
    if !media::have(TOOLS) {
        return;
    }
    let folder = folder();
    let host = Host::new(folder.join("site"));
    let first = host.build(&[], None);
    assert_eq!(first.status, 0, "{}", first.said);
    let changed = ("echo bye".to_string(), "echo ciao".to_string());
    host.site.recipe(&[changed]);
    host.machine("", &[]);
    let second = host.build(&[], None);
    assert_eq!(second.status, 0, "{}", second.said);
    assert!(
        second.said.contains("resuming from the layer"),
        "{}",
        second.said
    );
    let trace = host.site.read("trace.txt");
    let over = |line: &&str| line.contains("New-VHD") && line.contains("-Differencing");
    assert!(trace.lines().any(|line| over(&line)), "{trace}");
    assert!(!trace.contains("windows.iso"), "{trace}");
    assert_eq!(host.left(), Vec::<String>::new(), "{}", second.said);
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn a_tpm_is_there_before_each_start() {
    if !media::have(TOOLS) {
        return;
    }
    let folder = folder();
    let host = Host::new(folder.join("site"));
    let machine = "[machine]\n".to_string();
    host.site
        .recipe(&[(machine.clone(), format!("{machine}tpm = true\n"))]);
    let plan = host.says(&["plan", "recipe.toml", "--hypervisor", "hyperv"]);
    assert!(plan.contains("\n  machine.tpm = true "), "{plan}");
    let run = host.build(&[], None);
    assert_eq!(run.status, 0, "{}", run.said);
    assert_eq!(host.left(), Vec::<String>::new(), "{}", run.said);
    let trace = story::rendered(&host.site.read("trace.txt"), &host.site.dir);
    let machines: Vec<&str> = trace.split("$vm = ").skip(1).collect();
    assert_eq!(machines.len(), 3, "{trace}");
    for machine in &machines {
        let (made, _) = machine.split_once("Start-VM").expect("a start");
        assert!(made.contains("Enable-VMTPM"), "{machine}");
    }
    let (made, _) = machines[0].split_once("$credential").expect("a session");
    insta::assert_snapshot!("the_calls_that_make_a_machine_with_a_tpm", made);
    let _ = std::fs::remove_dir_all(&folder);
}

fn doctor(host: &Host) -> String {
    host.says(&["doctor", "--hypervisor", "hyperv"])
}

#[test]
fn doctor_has_a_line_for_all_that_a_build_needs() {
    let folder = folder();
    let host = Host::bare(folder.join("site"));
    assert_eq!(
        doctor(&host),
        "Microsoft Windows Server 2022 Datacenter, 10.0.20348\n\
         the Hyper-V module for Windows PowerShell, version 2.0.0.0\n\
         Hyper-V's service (vmms) is running\n\
         the hypervisor is running\n\
         this prompt has the rights to run machines\n\
         Hyper-V answers: 8 logical processors\n\
         Some(0)"
    );
    let lacks = "[host]\nservice = 'missing'\nelevated = false\nmodule = false\nhypervisor = false\n\n[install]";
    host.machine("", &[("[install]", lacks)]);
    assert_eq!(
        doctor(&host),
        "Microsoft Windows Server 2022 Datacenter, 10.0.20348\n\
         missing: the Hyper-V module for Windows PowerShell; Install-WindowsFeature Hyper-V-PowerShell, or on a client Enable-WindowsOptionalFeature -Online -FeatureName Microsoft-Hyper-V-Management-PowerShell\n\
         missing: the Hyper-V role, whose service is vmms; Install-WindowsFeature Hyper-V -Restart, or on a client Enable-WindowsOptionalFeature -Online -FeatureName Microsoft-Hyper-V -All\n\
         missing: a running hypervisor; enable virtualisation in the firmware, then bcdedit /set hypervisorlaunchtype auto, and restart\n\
         missing: rights to run machines; run winimg from an elevated prompt\n\
         error: 4 requirements are missing on this host\n\
         Some(3)"
    );
    host.machine(
        "",
        &[("[install]", "[host]\nservice = 'Stopped'\n\n[install]")],
    );
    let stopped = doctor(&host);
    assert!(
        stopped.contains("\nmissing: Hyper-V's service, which is stopped; Start-Service vmms\n"),
        "{stopped}"
    );
    std::fs::remove_file(host.site.path("bin/powershell.exe")).expect("it goes");
    let without = doctor(&host);
    assert!(
        without.starts_with("missing: Hyper-V: powershell.exe cannot be started: ")
            && without.ends_with("error: 1 requirement is missing on this host\nSome(3)"),
        "{without}"
    );
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn a_host_that_cannot_run_machines_is_refused_before_anything_is_fetched() {
    if !media::have(TOOLS) {
        return;
    }
    let folder = folder();
    let host = Host::new(folder.join("site"));
    let lacks = "[host]\nservice = 'missing'\nmodule = false\n\n[install]";
    host.machine("", &[("[install]", lacks)]);
    let run = host.build(&[], None);
    assert_eq!(run.status, 3, "{}", run.said);
    assert!(
        run.said
            .contains("2 requirements of Hyper-V are missing on this host"),
        "{}",
        run.said
    );
    assert!(!run.said.contains("fetch"), "{}", run.said);
    assert!(!host.site.path("out").exists(), "{}", run.said);
    assert_eq!(host.site.read("trace.txt"), "script:probe\n");
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn every_fault_is_named_and_no_machine_is_left() {
    if !media::have(TOOLS) {
        return;
    }
    let folder = folder();
    let template = Host::new(folder.join("template"));
    let pictures = folder.join("screens");
    std::fs::create_dir_all(&pictures).expect("a folder");
    let boxes = dialogs::rows(&pictures);
    let mut rows = faults::rows();
    assert_eq!(
        rows.len() + boxes.len(),
        figures::rendered("hyperv"),
        "docs/faults.md"
    );
    if screens::draw(&pictures) {
        rows.extend(boxes);
    }
    rows.retain(|r| wanted("hyperv", r.name));
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        // Most of a row is waiting.
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let (line, wrong) = row.carry_out(&template, &folder);
                    println!("{line}");
                    if !wrong.is_empty() {
                        failed.lock().expect("rows").push(format!(
                            "{}: {}",
                            row.name,
                            wrong.join("\n  ")
                        ));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("rows");
    println!("\n{} cases, {} failed", rows.len(), failed.len());
    assert!(
        failed.is_empty(),
        "{} of {} failed; their folders are in {}\n{}",
        failed.len(),
        rows.len(),
        folder.display(),
        failed.join("\n\n")
    );
    let _ = std::fs::remove_dir_all(&folder);
}
