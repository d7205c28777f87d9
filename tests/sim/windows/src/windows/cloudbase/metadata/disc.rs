//! A config drive: the disc with the wanted label and file (`osconfigdrive/windows.py`).
//!
//! Only CDs are looked at. ISO images written raw onto disks or partitions and FAT disks without a partition table need
//! bsdtar and mtools there and are none here: a search for them finds nothing.

use super::{Context, Fault, Found, failed};

/// The drive (`E:`) that holds the config drive.
pub fn find(c: Context<'_>, label: &str, file: &str) -> Option<String> {
    for (kind, location) in &c.settings.config_drive {
        c.log.debug(
            "metadata.services.osconfigdrive.windows",
            &format!("Looking for Config Drive {kind} in {location} with expected label {label}"),
        );
        if (kind.as_str(), location.as_str()) != ("iso", "cdrom") {
            continue;
        }
        for (letter, found) in c.p.machine.labels() {
            if !found.to_lowercase().eq(label) {
                c.log.debug(
                    "metadata.services.osconfigdrive.windows",
                    &format!("Looking for a Config Drive with label '{label}' on '{letter}:\\'. Found mismatching label '{found}'."),
                );
            } else if exists(c, &format!(r"{letter}:\{file}")) {
                c.log.info(
                    "metadata.services.osconfigdrive.windows",
                    &format!("Config Drive found on {letter}:\\"),
                );
                return Some(format!("{letter}:"));
            } else {
                c.log.debug(
                    "metadata.services.osconfigdrive.windows",
                    &format!(r"{letter}:\{file} not found"),
                );
            }
        }
    }
    None
}

pub fn exists(c: Context<'_>, path: &str) -> bool {
    c.p.locate(path).is_ok_and(|found| found.meta.is_some())
}

/// A file of the drive; `Missing` when it is not there.
pub fn read(c: Context<'_>, drive: &str, path: &str) -> Found<Vec<u8>> {
    let path = format!(r"{drive}\{}", path.replace('/', r"\"));
    let found = c.p.locate(&path).map_err(|_| Fault::Missing)?;
    if !found.is_file() {
        return Err(Fault::Missing);
    }
    std::fs::read(&found.host).map_err(|e| failed(format!("{path}: {e}")))
}
