//! The boxes at which Windows waits for a person: each is named within a minute, with its picture.
//!
//! The picture is drawn; from then on nothing moves, as behind a real box. `still_limit` is the one that a user has.

use std::path::Path;

use crate::faults::case::Case;
use crate::faults::site::{Run, Site};
use crate::faults::soon::soon;
use support::screens::{self, SCREENS};

/// When it comes up: it is Windows' own, of its firmware, of Setup, of a later start, or of a step.
fn moment(name: &str) -> &'static str {
    match name {
        "the CD's key prompt"
        | "nothing to boot"
        | "the firmware's shell"
        | "Hyper-V's firmware could not start the boot loader" => "at = 'boot'",
        "an unexpected restart"
        | "the system could not be configured"
        | "the installation could not be completed"
        | "the page for country and language"
        | "the page for the Administrator's password" => "at = 'port'",
        "a fatal error in sysprep" => "at = 'command'\nis = '*\\schtasks.exe /run *'",
        "Windows' boot loader needs a repair" | "Windows' recovery" => "at = 'port'",
        _ if name.starts_with("stop error") => "at = 'port'",
        _ => "at = 'setup'",
    }
}

/// `folder` holds the pictures.
pub fn cases(folder: &Path) -> Vec<Case> {
    let boxes = SCREENS.iter().enumerate().filter(|(_, s)| s.1 != "-");
    boxes
        .map(|(n, (_, name, _))| {
            let picture = folder.join(screens::name(n));
            let picture = picture.display();
            let (status, who) = match moment(name) {
                at if at.contains("command") => (8, "Windows stopped: "),
                _ => (6, "Windows Setup stopped: "),
            };
            let cause = match name.strip_prefix("stop error ") {
                Some(code) => format!("Windows crashed with the stop error {code}"),
                None => format!("{who}{name}"),
            };
            Case::new("dialog", name)
                .recipe("still_limit = \"4s\"\n", "")
                .recipe("timeout = \"20s\"\n", "timeout = \"300s\"\n")
                .fault(&format!(
                    "{}\ndo = 'stands-still'\npicture = '{picture}'",
                    moment(name)
                ))
                .fails(status, cause.leak())
                .judged(|site, _| soon(site))
                .judged(shown)
        })
        .collect()
}

fn shown(site: &Site, _: &Run) -> Vec<String> {
    let wanted = [
        "out/report.html",
        "out/failure/screens/stopped.png",
        "out/failure/qemu.log",
        "out/failure/serial.log",
    ];
    let missing = wanted.iter().filter(|name| !site.path(name).is_file());
    missing.map(|name| format!("there is no {name}")).collect()
}
