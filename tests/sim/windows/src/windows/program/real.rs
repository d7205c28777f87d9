//! Real programs, which the stand-in cannot run: what each of them printed where it did run, and how it ended, by the SHA-256 of its
//! file and its arguments. The table is recorded from a run (tests/wine/real/nightly/answers.rs) and never written by hand.
//!
//! A file that the table has not, or has with another byte, is no program here; arguments that were not recorded fail.

use std::path::Path;
use std::sync::PoisonError;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::windows::cmdline;
use crate::windows::process::{Process, Stream};

/// Where `build/initrd.sh` puts the table of a medium that is made with one.
const TABLE: &str = "/programs.json";

#[derive(Default, Deserialize)]
#[serde(transparent)]
pub struct RealPrograms(Vec<RealProgram>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RealProgram {
    /// Bytes, so that no other large file is hashed.
    size: u64,
    /// Hexadecimal.
    sha256: String,
    answers: Vec<Answer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    arguments: Vec<String>,
    stdout: String,
    stderr: String,
    code: u32,
}

impl RealPrograms {
    /// None where the medium was made without a table.
    pub fn of_the_medium() -> Result<Self, String> {
        let table = Path::new(TABLE);
        if !table.exists() {
            return Ok(Self::default());
        }
        let text = std::fs::read_to_string(table).map_err(|e| format!("{TABLE}: {e}"))?;
        Self::parse(&text).map_err(|e| format!("{TABLE}: {e}"))
    }

    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    pub fn find(&self, file: &[u8]) -> Option<&RealProgram> {
        let mut same_size = self.0.iter().filter(|one| one.size == file.len() as u64);
        let first = same_size.next()?;
        let digest: String = Sha256::digest(file)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        [first]
            .into_iter()
            .chain(same_size)
            .find(|one| one.sha256 == digest)
    }
}

impl RealProgram {
    /// Its lines end as they did.
    pub fn run(&self, p: &Process, tail: &str) -> u32 {
        let asked = cmdline::split(tail);
        let Some(answer) = self.answers.iter().find(|one| one.arguments == asked) else {
            p.complain(&format!("unknown arguments: {}\n", asked.join(" ")));
            return 1;
        };
        write(&p.out, &answer.stdout);
        write(&p.err, &answer.stderr);
        answer.code
    }
}

fn write(stream: &Stream, text: &str) {
    let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
    // A reader that went away is no fault of the program.
    let _ = stream.write_all(text.as_bytes());
}
