//! The rows, and how each is played.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::faults::wanted::wanted;
use crate::faults_qemu::killed;
use crate::faults_qemu::machine;
use crate::faults_qemu::room;
use crate::faults_qemu::room::Small;
use crate::faults_qemu::scene::{Ground, Scene};
use crate::faults_qemu::stuck;
use crate::faults_qemu::table::Row;

pub struct Case {
    pub name: &'static str,
    /// Of its folder.
    pub slug: &'static str,
    /// After those of the small recipe.
    pub steps: &'static str,
    /// Cache and output lie on a small file system of their own.
    pub small: bool,
    /// Does the deed; gives what the build said of it. Panics when that is not what it should be.
    pub play: fn(&mut Scene) -> String,
    /// What the rerun has to go on from.
    pub reuses: &'static str,
}

pub const INSTALLATION: &str = "the installation";
pub const EVERYTHING: &str = "everything";

pub fn all() -> Vec<&'static Case> {
    let all = [killed::CASES, machine::CASES, room::CASES, stuck::CASES];
    all.into_iter().flatten().collect()
}

pub fn chosen() -> Vec<&'static Case> {
    let mut cases = all();
    cases.retain(|case| wanted("qemu", case.name));
    cases
}

pub fn run(case: &Case, ground: &Ground) -> Row {
    let started = Instant::now();
    let mut row = Row {
        name: case.name,
        cause: String::new(),
        seconds: 0,
        rerun: "-",
        reused: String::new(),
        wrong: None,
    };
    let played = catch_unwind(AssertUnwindSafe(|| {
        let mut scene = Scene::new(ground, case.slug, case.steps);
        let small = case
            .small
            .then(|| Small::mount(&scene.folder.join("small")));
        if let Some(Small(folder)) = &small {
            scene.move_to(folder, case.slug, case.steps);
        }
        row.cause = (case.play)(&mut scene);
        row.rerun = "bad";
        row.reused = scene.rerun();
        assert_eq!(row.reused, case.reuses, "what the rerun went on from");
        row.rerun = "good";
    }));
    row.wrong = played.err().map(|why| {
        let text = why.downcast_ref::<String>().cloned();
        text.or_else(|| why.downcast_ref::<&str>().map(ToString::to_string))
            .unwrap_or_else(|| "it panicked".into())
    });
    row.seconds = started.elapsed().as_secs();
    row
}
