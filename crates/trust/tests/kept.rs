//! Folders that scripts fill with keys and signatures: made once and kept from run to run, for
//! making them takes longer than judging them.
//!
//! A folder's name says what it was made from, so that one of another script is never used. Nobody
//! writes into it after that: a test that writes has a folder of its own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use support::tree;
use winimg_base::digest::Digest;

/// What the scripts call.
const PROGRAMS: [&str; 8] = [
    "gcab",
    "gpg",
    "minisign",
    "openssl",
    "osslsigncode",
    "python3",
    "signify-openbsd",
    "wixl",
];

/// A folder is made anew each week. Shortest lives cosign.sh's certificate, 30 days; and the
/// programs' libraries, which no name speaks of, change in the meantime.
const LIFE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Stays as it is for as long as this lives.
pub struct Kept {
    path: PathBuf,
    _held: File,
}

impl Kept {
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// What `crates/trust/tests/SCRIPT` makes.
pub fn folder(script: &str) -> Kept {
    let tests = tree::root().join("crates/trust/tests");
    let script = tests.join(script);
    let mut files = pythons(&tests);
    files.push(tree::root().join("tests/demo/program.py"));
    files.push(script.clone());
    let programs: Vec<String> = PROGRAMS.into_iter().map(version).collect();
    let made_from = made_from(&files, &programs, SystemTime::now());
    let stem = script.file_stem().unwrap().to_str().unwrap();
    let path = tree::kept_folder(&format!("{stem}-{}", &made_from.hex()[..16]));
    kept(&path, |unfinished| fill(unfinished, &script))
}

/// Those beside the scripts: which of them a script calls or imports is its own affair.
fn pythons(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut found: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|e| e == "py"));
    found.sort();
    found
}

/// The file that is started, its length and its time; each program's own way to say its version
/// would have to be run.
fn version(program: &str) -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .find_map(|folder| fs::canonicalize(folder.join(program)).ok())
        .and_then(|file| Some((fs::metadata(&file).ok()?, file)));
    match found {
        Some((about, file)) => {
            format!("{} {} {:?}", file.display(), about.len(), about.modified())
        }
        None => format!("no {program}"),
    }
}

fn made_from(files: &[PathBuf], programs: &[String], now: SystemTime) -> Digest {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let mut parts = vec![(since.as_secs() / LIFE.as_secs()).to_string()];
    parts.extend_from_slice(programs);
    for file in files {
        let content = fs::read(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        parts.push(Digest::sha256_of(&content).hex());
    }
    Digest::sha256_of(parts.join("\n").as_bytes())
}

fn fill(folder: &Path, script: &Path) {
    let (program, option) = if script.extension().is_some_and(|e| e == "py") {
        ("python3", None)
    } else {
        ("bash", Some("-eu"))
    };
    let output = Command::new(program)
        .args(option)
        .arg(script)
        .arg(".")
        .current_dir(folder)
        .output();
    let output = output.unwrap();
    assert!(
        output.status.success(),
        "{} failed (tests/install-packages.sh installs what it calls):\n{}{}{}",
        script.display(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        fs::read_to_string(folder.join("log")).unwrap_or_default()
    );
}

/// The folder of that name, made if there is none. Others of the same script that nobody holds are
/// removed.
fn kept(path: &Path, fill: impl FnOnce(&Path)) -> Kept {
    if !path.exists() {
        make(path, fill);
    }
    let kept = Kept {
        path: path.to_owned(),
        _held: held(path),
    };
    for other in of_the_same_script(path) {
        // A process that uses it, or is making it, holds it; one that was killed does not.
        if other != path && File::open(&other).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(other);
        }
    }
    kept
}

/// Made beside its place and put there whole, so that no other process sees half of it. Who comes
/// second uses the other's.
fn make(path: &Path, fill: impl FnOnce(&Path)) {
    let parent = path.parent().unwrap();
    fs::create_dir_all(parent).unwrap();
    let unfinished = tempfile::Builder::new()
        .prefix(&prefix(path))
        .tempdir_in(parent)
        .unwrap();
    let _held = held(unfinished.path());
    fill(unfinished.path());
    match fs::rename(unfinished.path(), path) {
        Ok(()) => drop(unfinished.keep()),
        Err(_) if path.exists() => {}
        Err(error) => panic!("{}: {error}", path.display()),
    }
}

fn held(folder: &Path) -> File {
    let file = File::open(folder).unwrap();
    file.lock_shared().unwrap();
    file
}

/// `openpgp-` of `openpgp-0123456789abcdef`
fn prefix(path: &Path) -> String {
    let name = path.file_name().unwrap().to_str().unwrap();
    let (script, _) = name.rsplit_once('-').unwrap();
    format!("{script}-")
}

fn of_the_same_script(path: &Path) -> Vec<PathBuf> {
    let prefix = prefix(path);
    let entries = fs::read_dir(path.parent().unwrap()).unwrap();
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
        .collect()
}

#[test]
fn a_folder_is_made_once_and_goes_when_nobody_holds_it() {
    let place = tree::folder();
    let [first, second] = ["keys-1", "keys-2"].map(|name| place.path().join(name));
    let never = |_: &Path| panic!("it is there already");
    let holder = kept(&first, |folder| fs::write(folder.join("a"), "1").unwrap());
    kept(&first, never);
    assert_eq!(fs::read_to_string(holder.path().join("a")).unwrap(), "1");
    fs::create_dir(place.path().join("keysmith-1")).unwrap();
    fs::create_dir(place.path().join("keys-killed")).unwrap();

    kept(&second, |_| {});
    assert_eq!(names(place.path()), ["keys-1", "keys-2", "keysmith-1"]);
    drop(holder);
    kept(&second, never);
    assert_eq!(names(place.path()), ["keys-2", "keysmith-1"]);
}

#[test]
fn half_of_a_folder_is_never_seen() {
    let place = tree::folder();
    let path = place.path().join("keys-1");
    let failed = std::panic::catch_unwind(|| kept(&path, |_| panic!("the script failed")));
    assert!(failed.is_err());
    assert_eq!(names(place.path()), [""; 0]);

    // Another process is done first.
    let late = kept(&path, |folder| {
        fs::write(folder.join("a"), "late").unwrap();
        assert!(!path.exists());
        drop(kept(&path, |folder| {
            fs::write(folder.join("a"), "early").unwrap();
        }));
    });
    assert_eq!(fs::read_to_string(late.path().join("a")).unwrap(), "early");
    assert_eq!(names(place.path()), ["keys-1"]);
}

#[test]
fn another_script_program_or_week_gives_another_folder() {
    let place = tree::folder();
    let file = place.path().join("make.py");
    let at = |days: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(days * 24 * 3600);
    let name = |content: &str, program: &str, now: SystemTime| {
        fs::write(&file, content).unwrap();
        made_from(std::slice::from_ref(&file), &[program.into()], now).hex()
    };
    let first = name("a", "openssl 3", at(700));
    assert_eq!(first, name("a", "openssl 3", at(706)));
    assert_ne!(first, name("b", "openssl 3", at(700)));
    assert_ne!(first, name("a", "openssl 4", at(700)));
    assert_ne!(first, name("a", "openssl 3", at(707)));
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
