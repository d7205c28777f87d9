//! Builds that something happens to, over a scripted QEMU: the cause is named, nothing is lost or left running, and the next build goes well.
//!
//! `make faults` prints the table; `FAULTS=agent` picks the cases whose group or name holds the word. `docs/faults.md` says how to add one.

use support::screens;
use support::tree;
mod agent;
mod case;
mod dialogs;
pub mod figures;
mod host;
mod inputs;
mod layers;
mod machine;
pub mod site;
pub mod soon;
mod steps;
mod table;
pub mod wanted;

use std::path::Path;

use site::Site;

/// All cases, by their groups. `pictures` is where those of the boxes are drawn.
fn groups(pictures: &Path) -> [(&'static str, Vec<case::Case>); 7] {
    [
        ("machine", machine::cases()),
        ("agent", agent::cases()),
        ("steps", steps::cases()),
        ("host", host::cases()),
        ("inputs", inputs::cases()),
        ("layers", layers::cases()),
        ("dialog", dialogs::cases(pictures)),
    ]
}

#[test]
fn the_table_has_the_rows_of_the_docs() {
    let groups = groups(Path::new("screens"));
    let has = groups.iter().map(|(group, cases)| (*group, cases.len()));
    let rendered = groups
        .iter()
        .map(|(group, _)| (*group, figures::rendered(group)));
    assert_eq!(
        has.collect::<Vec<_>>(),
        rendered.collect::<Vec<_>>(),
        "docs/faults.md"
    );
    for (group, cases) in groups {
        assert!(cases.iter().all(|c| c.group == group), "{group}");
    }
}

#[test]
#[ignore = "takes minutes: make faults"]
fn every_fault_is_named_and_the_next_build_goes_well() {
    let folder = tree::folder().keep();
    let template = Site::template(folder.join("template"));
    let pictures = folder.join("screens");
    std::fs::create_dir_all(&pictures).expect("a folder");
    let drawn = screens::draw(&pictures);
    let groups = groups(&pictures).into_iter();
    let cases = groups.filter(|(group, _)| drawn || *group != "dialog");
    let cases: Vec<case::Case> = cases.flat_map(|(_, cases)| cases).collect();
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
    let chosen = cases.iter().filter(|c| wanted::wanted(c.group, c.name));
    assert_eq!(rows.len(), chosen.count(), "a row for each case");
    assert!(
        failed.is_empty(),
        "failed: {failed:?}; their folders are in {}",
        folder.display()
    );
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}
