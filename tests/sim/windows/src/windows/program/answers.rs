//! A program of a test that brings its own answers: what it prints for which arguments. Anything else fails.
//!
//! Such a file is a true PE image whose DOS header, of which Windows reads the first two and the last four bytes only,
//! holds the stand-in's marker; tests/demo/program.py makes them. It can also be a service.

use crate::windows::cmdline;
use crate::windows::process::Process;

pub const NAME: &str = "answers";
/// What stands before the answers; `arguments US output RS` each, and NUL at the end.
const HEAD: &[u8] = b"winimg stand-in answers:\n";

pub fn run(p: &Process, file: &[u8], tail: &str) -> u32 {
    let asked = cmdline::split(tail).join(" ");
    match answer(file, &asked) {
        Some(text) => {
            p.print(text);
            0
        }
        None => {
            p.complain(&format!("unknown arguments: {asked}\n"));
            1
        }
    }
}

/// What a program file says to these arguments, when it brings an answer.
pub fn of(file: &[u8], tail: &str) -> Option<String> {
    answer(file, &cmdline::split(tail).join(" ")).map(str::to_owned)
}

fn answer<'a>(file: &'a [u8], asked: &str) -> Option<&'a str> {
    let at = file.windows(HEAD.len()).position(|bytes| bytes == HEAD)?;
    let rest = &file[at + HEAD.len()..];
    let text = std::str::from_utf8(rest.split(|byte| *byte == 0).next()?).ok()?;
    text.split('\u{1e}')
        .filter_map(|record| record.split_once('\u{1f}'))
        .find(|(arguments, _)| *arguments == asked)
        .map(|(_, output)| output)
}
