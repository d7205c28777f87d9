//! Faults on a real QEMU with the stand-in installer: `make faults-qemu` prints one table.
//!
//! Each row does one thing to a build and then asks for the same four things: nothing is lost, nothing is left running, the
//! cause is named, and the same build ends well afterwards and goes on from the layers that are there. Words in `FAULTS`
//! choose rows by their names; all of them by `qemu`.

use crate::faults::figures;
mod cases;
mod killed;
mod machine;
mod room;
mod scene;
mod stuck;
mod table;

#[test]
fn the_table_has_the_rows_that_docs_tell() {
    assert_eq!(cases::all().len(), figures::told("qemu"), "docs/faults.md");
}

#[test]
#[ignore = "boots QEMU: make faults-qemu"]
fn every_fault_is_named_and_the_rerun_ends_well() {
    let chosen = cases::chosen();
    if chosen.is_empty() {
        return;
    }
    let ground = scene::Ground::prepare();
    let rows: Vec<table::Row> = chosen
        .iter()
        .enumerate()
        .map(|(at, case)| {
            let row = cases::run(case, &ground);
            // As they end: the table is long in the making.
            println!("{}", row.line(at + 1));
            row
        })
        .collect();
    println!("\n{}", table::whole(&rows));
    let bad = rows.iter().filter(|row| row.wrong.is_some()).count();
    assert_eq!(bad, 0, "{bad} of {} cases went wrong", rows.len());
}
