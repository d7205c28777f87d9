//! What was called, as PowerShell would be given it: one line a call, secrets left out.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use crate::syntax::Argument;

/// Parameters whose values are never shown.
const SECRET: &[&str] = &["Password"];

/// `$vm = Hyper-V\New-VM -Name winimg-x -Generation 2`
pub fn line(call: &str, given: &[(String, Argument)], keep: Option<&str>) -> String {
    let mut line = keep.map_or(String::new(), |name| format!("${name} = "));
    line += call;
    for (name, value) in given {
        line += &match value {
            _ if SECRET.contains(&name.as_str()) => format!(" -{name} ***"),
            Argument::Flag(true) => format!(" -{name}"),
            Argument::Flag(false) => format!(" -{name}:$false"),
            other => format!(" -{name} {}", other.shown()),
        };
    }
    line
}

pub fn map(given: &[(String, Argument)]) -> BTreeMap<String, Argument> {
    given.iter().cloned().collect()
}

/// A line of its own; several processes write one file.
pub fn write(file: Option<&Path>, text: &str) {
    let Some(file) = file else { return };
    let opened = std::fs::File::options()
        .create(true)
        .append(true)
        .open(file);
    // A trace that can't be written shows in the test that reads it.
    let _ =
        opened.and_then(|mut f| f.write_all(format!("{}\n", text.replace('\n', "\\n")).as_bytes()));
}
