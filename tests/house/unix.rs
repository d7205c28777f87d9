//! What only Unix has is marked so: winimg.exe is built from the rest.

use std::fs;
use std::path::{Path, PathBuf};

use support::tree;

use super::{crates, rust_files};

const UNIX_MARKS: [&str; 3] = [
    "#[cfg(unix)]",
    "#[cfg(all(test, unix))]",
    "#[cfg(target_os = \"linux\")]",
];

/// The text without the items that stand below `#[cfg(unix)]` or a narrower word for it.
fn without_unix_items(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some((at, mark)) = UNIX_MARKS
        .iter()
        .filter_map(|mark| Some((rest.find(mark)?, mark)))
        .min()
    {
        kept += &rest[..at];
        rest = &rest[at + mark.len()..];
        // To the end of the item: a semicolon, or the brace that closes its first one.
        let mut depth = 0;
        let end = rest.char_indices().find(|(_, c)| {
            match c {
                '{' | '(' | '[' => depth += 1,
                '}' | ')' | ']' => depth -= 1,
                _ => {}
            }
            depth == 0 && matches!(c, ';' | '}' | ',')
        });
        rest = end.map_or("", |(at, _)| &rest[at + 1..]);
    }
    kept + rest
}

/// The modules that a file declares for Unix alone, as the paths of their files without `.rs`.
fn unix_modules(file: &Path, text: &str) -> Vec<PathBuf> {
    let is_folder = file
        .file_stem()
        .is_some_and(|s| s == "mod" || s == "lib" || s == "main");
    let below = if is_folder {
        file.parent().unwrap().to_path_buf()
    } else {
        file.with_extension("")
    };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines
        .windows(2)
        .filter(|pair| UNIX_MARKS.contains(&pair[0]))
        .filter_map(|pair| pair[1].trim_start_matches("pub ").strip_prefix("mod "))
        .map(|name| below.join(name.trim_end_matches(';')))
        .collect()
}

/// winimg.exe is built from the same source: `docs/windows.md`.
#[test]
fn what_only_unix_has_is_marked_so() {
    let files: Vec<PathBuf> = crates()
        .iter()
        .flat_map(|(_, src)| rust_files(src))
        .collect();
    let read = |file: &PathBuf| fs::read_to_string(file).unwrap();
    let unix: Vec<PathBuf> = files
        .iter()
        .flat_map(|file| unix_modules(file, &read(file)))
        .collect();
    let root = tree::root();
    for known in [
        "crates/machine/src/vm/qemu/running",
        "crates/machine/src/guest/agent",
        "src/engine/console/serve",
    ] {
        assert!(unix.contains(&root.join(known)), "{known} in {unix:?}");
    }
    let mut unmarked = Vec::new();
    for file in &files {
        let own = file.with_extension("");
        if unix.iter().any(|module| own.starts_with(module)) {
            continue;
        }
        let text = without_unix_items(&read(file));
        for word in ["os::unix", "os::fd", "nix::", "libc::", "signal_hook"] {
            if text.contains(word) {
                unmarked.push(format!(
                    "{}: {word}",
                    file.strip_prefix(root).unwrap().display()
                ));
            }
        }
    }
    assert!(unmarked.is_empty(), "{}", unmarked.join("\n"));
}

#[test]
fn the_reader_of_marks_takes_whole_items() {
    let text = "a\n#[cfg(unix)]\nfn f(x: u8) -> [u8; 2] { if x > 0 { nix::g() }; [x, 2] }\nb\n\
                #[cfg(target_os = \"linux\")]\nuse std::os::unix::fs::FileExt;\nc";
    assert_eq!(without_unix_items(text), "a\n\nb\n\nc");
}
