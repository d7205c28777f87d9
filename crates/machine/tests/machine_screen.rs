//! Screens at which Windows stops, drawn here, read by tesseract and named. Skipped, with the
//! reason printed, where a program is missing.

#![cfg(unix)]

use support::screens;

use std::time::Duration;

use support::screens::SCREENS;

use winimg_machine::vm::screen::ocr;
use winimg_machine::vm::symptoms::{self, KnownScreen};

/// Other tests may want the processors too.
const PATIENCE: Duration = Duration::from_secs(300);

/// The pictures as bytes; `None` with the reason printed.
fn drawn() -> Option<Vec<Vec<u8>>> {
    let folder = tempfile::tempdir().expect("a folder");
    let read = |n| std::fs::read(folder.path().join(screens::name(n))).expect("drawn");
    screens::draw(folder.path()).then(|| (0..SCREENS.len()).map(read).collect())
}

#[test]
fn every_box_of_setup_is_read_and_named() {
    let Some(pictures) = drawn() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (mut found, mut wanted) = (String::new(), String::new());
    for ((_, name, lines), ppm) in SCREENS.iter().zip(pictures) {
        let read = ocr::read(&ppm, folder.path(), PATIENCE, &|| false).join("\n");
        let named = match symptoms::find_on_screen(&read) {
            Some(KnownScreen::Dialog(known)) => known.name.to_string(),
            Some(KnownScreen::StopError(code)) => format!("stop error {}", code.describe()),
            None => "-".to_string(),
        };
        let text: String = lines.join(" ").chars().take(60).collect();
        found += &format!("{text} -> {named}\n");
        wanted += &format!("{text} -> {name}\n");
        println!("--- {text}\n{read}");
    }
    assert_eq!(found, wanted);
    assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
}

/// The rows of faults are made from the screens: a box without one would be tried by none.
#[test]
fn every_box_that_is_known_has_a_screen() {
    let catalogue = include_str!("../src/vm/symptoms/catalogue.toml");
    let catalogue: toml::Table = catalogue.parse().expect("TOML");
    let rows = catalogue["screen"].as_array().expect("rows");
    let missing: Vec<&str> = rows
        .iter()
        .map(|row| row["name"].as_str().expect("a name"))
        .filter(|name| !SCREENS.iter().any(|screen| screen.1 == *name))
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn an_interrupt_ends_the_reading_and_leaves_nothing() {
    let Some(pictures) = drawn() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let read = ocr::read(&pictures[1], folder.path(), PATIENCE, &|| true);
    assert_eq!(read, Vec::<String>::new());
    assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
}
