//! Whole builds on Hyper-V, over a stand-in for its PowerShell whose guest follows a script: the calls of a good build, and a table of faults.
//!
//! `make faults-hyperv` prints the table; `FAULTS=session` picks the rows whose name holds the word. `tests/fake_hyperv/README.md` tells how to add one.

mod faults;
mod host;
#[path = "../media/mod.rs"]
mod media;
#[allow(dead_code)]
#[path = "../faults/site.rs"]
mod site;
mod story;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use host::Host;

const TOOLS: &[&str] = &[
    "wimlib-imagex",
    "genisoimage",
    "sgdisk",
    "qemu-img",
    "mkfs.vfat",
];

fn folder() -> std::path::PathBuf {
    let made = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"));
    made.expect("a folder").keep()
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
        story::told(&host.site.read("trace.txt"), &host.site.dir)
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
        second.said.contains("going on from the layer"),
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
fn every_fault_is_named_and_no_machine_is_left() {
    if !media::have(TOOLS) {
        return;
    }
    let folder = folder();
    let template = Host::new(folder.join("template"));
    let filter = std::env::var("FAULTS").unwrap_or_default();
    let rows: Vec<faults::Row> = faults::rows()
        .into_iter()
        .filter(|r| r.name.contains(&filter))
        .collect();
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
