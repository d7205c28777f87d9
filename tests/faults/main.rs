//! Builds that something happens to, over a scripted QEMU: the cause is named, nothing is lost or left running, and the next build goes well.
//!
//! `make faults` prints the table; `FAULTS=agent` picks the cases whose group or name holds the word. `docs/faults.md` tells how to add one.

mod agent;
mod case;
mod dialogs;
mod host;
mod inputs;
mod layers;
mod machine;
#[path = "../media/mod.rs"]
mod media;
#[path = "../machine/screens.rs"]
mod screens;
#[allow(dead_code)]
#[path = "../fetch/server.rs"]
mod server;
mod site;
mod soon;
mod steps;
mod table;
mod wanted;

use std::path::Path;

use site::Site;

/// None without what draws and reads them.
fn boxes(folder: &Path) -> Vec<case::Case> {
    std::fs::create_dir_all(folder).expect("a folder");
    match screens::draw(folder) {
        true => dialogs::cases(folder),
        false => Vec::new(),
    }
}

#[test]
#[ignore = "takes minutes: make faults"]
fn every_fault_is_named_and_the_next_build_goes_well() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .expect("a folder")
        .keep();
    let template = Site::template(folder.join("template"));
    let groups = [
        machine::cases(),
        agent::cases(),
        steps::cases(),
        host::cases(),
        inputs::cases(),
        layers::cases(),
        boxes(&folder.join("screens")),
    ];
    let cases: Vec<case::Case> = groups.into_iter().flatten().collect();
    let threads = std::env::var("FAULTS_AT_ONCE")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(3);
    let rows = table::run(&cases, &template, &folder, threads);
    let failed: Vec<usize> = rows
        .iter()
        .filter(|r| !r.wrong.is_empty())
        .map(|r| r.number)
        .collect();
    println!("\n{} cases, {} failed", rows.len(), failed.len());
    assert!(
        failed.is_empty(),
        "failed: {failed:?}; their folders are in {}",
        folder.display()
    );
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}
