//! `mklink /d`: a folder that is a symbolic link.
//!
//! On NTFS it is what Windows makes, a reparse point (MS-FSCC 2.1.2.4) written through ntfs-3g; on a plain directory of the unit tests a
//! link of the host. The stand-in follows neither. Refused: files, hard links, junctions and targets that are no full path.

use std::path::Path;

use crate::windows::attribute;
use crate::windows::error::Win32;
use crate::windows::process::Process;
use crate::windows::regf::utf16;

const REPARSE: &std::ffi::CStr = c"system.ntfs_reparse_data";
/// IO_REPARSE_TAG_SYMLINK.
const SYMBOLIC: u32 = 0xA000_000C;

pub fn link(p: &Process, switches: &[String], names: &[String]) -> Result<(), String> {
    let target = match (switches, names) {
        ([switch], [_, target]) if switch == "/d" && target.get(1..3) == Some(r":\") => target,
        _ => {
            let words = [switches, names].concat().join(" ");
            return Err(format!("the stand-in's cmd.exe can't do: mklink {words}"));
        }
    };
    let name = &names[0];
    let found = p
        .locate(name)
        .and_then(|found| found.writable())
        .map_err(|error| error.text())?;
    if found.meta.is_some() {
        return Err("Cannot create a file when that file already exists.".into());
    }
    make(&found.host, target).map_err(|e| Win32::from_io(&e).text())?;
    p.print(&format!(
        "symbolic link created for {name} <<===>> {target}\n"
    ));
    Ok(())
}

fn make(host: &Path, target: &str) -> std::io::Result<()> {
    std::fs::create_dir(host)?;
    if attribute::write(host, REPARSE, &reparse(target)).is_ok() {
        return Ok(());
    }
    std::fs::remove_dir(host)?;
    std::os::unix::fs::symlink(target, host)
}

/// The name to open and the name to show, of an absolute link.
fn reparse(target: &str) -> Vec<u8> {
    let (open, show) = (utf16(&format!(r"\??\{target}")), utf16(target));
    let lengths = [0, open.len(), open.len(), show.len()];
    let mut body: Vec<u8> = lengths
        .iter()
        .flat_map(|length| (*length as u16).to_le_bytes())
        .collect();
    body.extend(0u32.to_le_bytes());
    body.extend(open);
    body.extend(show);
    let mut data = SYMBOLIC.to_le_bytes().to_vec();
    data.extend((body.len() as u16).to_le_bytes());
    data.extend([0, 0]);
    data.extend(body);
    data
}
