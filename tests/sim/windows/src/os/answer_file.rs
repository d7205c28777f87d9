//! The answer file of a pass of the installed system: where it is looked for, and what its cached copy becomes.

use std::fs;
use std::path::Path;

use super::{SETUP, System};
use crate::answer::{Answer, Pass, document, schema, search};
use crate::dialog::{self, Dialog};
use crate::machine::drives::{self, entry};
use crate::setup::log::Log;
use crate::windows::Data;

fn add(found: &mut Vec<search::Candidate>, directory: &Path, shown: &str, pass: Pass) {
    for name in search::names(pass) {
        if let Some(path) = entry(directory, name)
            && let Ok(bytes) = fs::read(&path)
        {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            found.push(search::Candidate {
                path: format!(r"{shown}\{name}"),
                bytes,
            });
        }
    }
}

fn candidates(system: &System, pass: Pass) -> Vec<search::Candidate> {
    let mut found = Vec::new();
    if let Some(Data::Text(path) | Data::Expand(path)) = system.windows.value(SETUP, "UnattendFile")
        && let Some(bytes) = system
            .windows
            .host_path(&path)
            .and_then(|host| fs::read(host).ok())
    {
        found.push(search::Candidate { path, bytes });
    }
    let c = &system.root;
    add(
        &mut found,
        &c.join("Windows/Panther/Unattend"),
        r"C:\Windows\Panther\Unattend",
        pass,
    );
    add(
        &mut found,
        &c.join("Windows/Panther"),
        r"C:\Windows\Panther",
        pass,
    );
    let (cds, next) = {
        let cds = system
            .cds
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        (cds.list(), cds.next_letter())
    };
    for drive in drives::removable(next).iter().chain(&cds) {
        add(&mut found, &drive.root, &format!("{}:", drive.letter), pass);
    }
    add(
        &mut found,
        &c.join("Windows/System32/Sysprep"),
        r"C:\Windows\System32\Sysprep",
        pass,
    );
    add(&mut found, c, "C:", pass);
    found
}

/// The file for `pass`, its settings checked. `None`: no file has settings for it.
pub fn find(system: &System, pass: Pass, log: &Log) -> Result<Option<Answer>, Dialog> {
    let answer = search::choose(candidates(system, pass), pass)
        .map_err(|(path, why)| dialog::invalid_file(&path, pass.name(), why))?;
    let Some(answer) = answer else {
        log.info(&format!(
            "UnattendSearch: no unattend file with settings for pass [{pass}]"
        ));
        return Ok(None);
    };
    log.info(&format!(
        "UnattendSearchExplicitPath: Found usable unattend file for pass [{pass}] at [{}].",
        answer.path
    ));
    schema::check(&answer, pass)
        .map_err(|why| dialog::unknown_setting(&answer.path, pass.name(), why))?;
    schema::not_modelled(&answer, pass).map_err(dialog::not_modelled)?;
    Ok(Some(answer))
}

/// Leaves the copy in Panther, with `pass` marked as processed and its passwords gone.
pub fn close(system: &System, answer: &Answer, pass: Pass) -> Result<(), Dialog> {
    let text = document::cached(
        &answer.source,
        &[Pass::WindowsPe, Pass::OfflineServicing, pass],
    )
    .map_err(dialog::could_not_configure)?;
    let fault = |e: std::io::Error| dialog::could_not_configure(e.to_string());
    fs::write(system.root.join("Windows/Panther/unattend.xml"), text).map_err(fault)
}
