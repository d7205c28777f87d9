//! Every fuzz target takes its seeds and a few hundred changes of each, without a panic, without
//! hanging and in little memory. The changes are the same in every run; `make fuzz` looks for new
//! ones, with coverage.
//!
//! The fuzzer itself runs them, so that its limits hold here as well.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use winimg_fuzz::{TARGETS, Target};

/// Changes of each seed.
const CHANGES: usize = 200;

/// Numbers that parsers of lengths and offsets get wrong.
const EDGES: [u64; 10] = [
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    u64::MAX,
];

#[test]
fn every_target_takes_changes_of_its_seeds() {
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
    let scratch = tempfile::tempdir().unwrap();
    let seeds = fuzzer("seeds", &made, scratch.path()).status().unwrap();
    assert!(seeds.success(), "the seeds could not be made: {seeds}");

    let waiting = Mutex::new(TARGETS.iter());
    let failures = Mutex::new(Vec::new());
    let workers = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let Some(target) = waiting.lock().unwrap().next() else {
                        return;
                    };
                    if let Err(failure) = run(target, &made, scratch.path()) {
                        failures.lock().unwrap().push(failure);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

fn fuzzer(target: &str, made: &Path, scratch: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fuzz"));
    command
        .env("WINIMG_FUZZ", target)
        .env("WINIMG_FUZZ_MADE", made)
        .env("TMPDIR", scratch)
        .stdin(Stdio::null());
    command
}

/// Runs a target on its seeds and their changes. Returns what the fuzzer printed when one of them
/// is a crash; the input stays in the folder of crashes.
fn run(target: &Target, made: &Path, scratch: &Path) -> Result<(), String> {
    let folder = scratch.join(target.name);
    let inputs = folder.join("inputs");
    fs::create_dir_all(&inputs).unwrap();
    let seeds = read_seeds(&made.join("seeds").join(target.name));
    let mut random = Random::new(target.name);
    for (name, seed) in &seeds {
        fs::write(inputs.join(name), seed).unwrap();
        for number in 0..CHANGES {
            let other = &seeds[random.below(seeds.len())].1;
            let mut bytes = change(seed, other, &mut random);
            bytes.truncate(target.longest);
            // The fuzzer does not count an empty file.
            if bytes.is_empty() {
                bytes.push(0);
            }
            fs::write(inputs.join(format!("{name}.{number}")), bytes).unwrap();
        }
    }
    let crashes = made.join("crashes");
    fs::create_dir_all(&crashes).unwrap();
    let out = fuzzer(target.name, made, &folder)
        .args([
            "-runs=0",
            "-timeout=60",
            "-rss_limit_mb=1536",
            "-detect_leaks=0",
        ])
        .arg(format!("-max_len={}", target.longest))
        .arg(format!(
            "-artifact_prefix={}/{}-",
            crashes.display(),
            target.name
        ))
        .arg(&inputs)
        .output()
        .unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let printed = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() {
        let from = printed.len().saturating_sub(4000);
        let tail = &printed[printed.ceil_char_boundary(from)..];
        return Err(format!("{}: {}\n{tail}", target.name, out.status));
    }
    let tried = seeds.iter().filter(|(_, seed)| !seed.is_empty()).count();
    let expected = format!("{} files found in", tried + seeds.len() * CHANGES);
    if !printed.contains(&expected) {
        return Err(format!("{}: not {expected:?} in\n{printed}", target.name));
    }
    Ok(())
}

/// The seeds by name, in the order of their names.
fn read_seeds(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read(path).unwrap())
        })
        .collect()
}

/// Applies one to four changes to a seed.
fn change(seed: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let end = (at + 1 + random.below(16)).min(bytes.len());
        match random.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.next() as u8,
            2 => put_number(&mut bytes, at, random),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            5 => {
                let from = random.below(other.len() + 1);
                let to = (from + 1 + random.below(64)).min(other.len());
                bytes.splice(at..end, other[from..to].iter().copied());
            }
            6 => {
                let new: Vec<u8> = (0..random.below(12)).map(|_| random.next() as u8).collect();
                bytes.splice(at..at, new);
            }
            _ => bytes.truncate(at),
        }
    }
    bytes
}

/// Overwrites one, two, four or eight bytes by a number at the edge of its type, in either order.
fn put_number(bytes: &mut [u8], at: usize, random: &mut Random) {
    let width = 1 << random.below(4);
    let number = EDGES[random.below(EDGES.len())];
    let mut little = number.to_le_bytes()[..width].to_vec();
    if random.below(2) == 0 {
        little.reverse();
    }
    for (to, from) in bytes[at..].iter_mut().zip(little) {
        *to = from;
    }
}

/// Numbers that are the same in every run (SplitMix64).
struct Random(u64);

impl Random {
    fn new(name: &str) -> Self {
        Self(
            name.bytes()
                .fold(1, |sum, b| sum * 31 % 0xffff_fffb + u64::from(b)),
        )
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}
