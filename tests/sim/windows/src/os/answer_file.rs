//! The answer file of a pass of the installed system: where it is looked for, and what its cached copy becomes.

use std::fs;
use std::path::Path;

use super::{SETUP, System};
use crate::answer::{Answer, Pass, document, schema, search};
use crate::dialog::{self, Dialog};
use crate::machine::drives::{self, entry};
use crate::setup::log::Log;
use crate::windows::Data;

/// The files of these names in a directory.
fn add(found: &mut Vec<search::Candidate>, directory: &Path, shown: &str, names: &[&str]) {
    for name in names {
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
    let registry = match system.windows.value(SETUP, "UnattendFile") {
        Some(Data::Text(path) | Data::Expand(path)) => system
            .windows
            .host_path(&path)
            .and_then(|host| fs::read(host).ok())
            .map(|bytes| search::Candidate { path, bytes }),
        _ => None,
    };
    let (cds, next) = {
        let cds = system
            .cds
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        (cds.list(), cds.next_letter())
    };
    gather(
        registry,
        &system.root,
        &[drives::removable(next), cds].concat(),
        pass,
    )
}

/// Every file that lies at one of the places, in Windows' order: what the registry names, `Panther\Unattend`, the cache in
/// `Panther`, `media` (removable disks before CDs), the sysprep folder, the root of C:.
fn gather(
    registry: Option<search::Candidate>,
    c: &Path,
    media: &[drives::Drive],
    pass: Pass,
) -> Vec<search::Candidate> {
    let mut found: Vec<search::Candidate> = registry.into_iter().collect();
    let names = search::names(pass);
    for below in ["Panther/Unattend", "Panther"] {
        let shown = format!(r"C:\Windows\{}", below.replace('/', r"\"));
        add(&mut found, &c.join("Windows").join(below), &shown, names);
    }
    for drive in media {
        add(
            &mut found,
            &drive.root,
            &format!("{}:", drive.letter),
            names,
        );
    }
    add(
        &mut found,
        &c.join("Windows/System32/Sysprep"),
        r"C:\Windows\System32\Sysprep",
        &["unattend.xml"],
    );
    add(&mut found, c, "C:", names);
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

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = r#"<unattend xmlns="urn:schemas-microsoft-com:unattend"/>"#;

    fn file(pass: &str) -> String {
        format!(
            r#"<unattend xmlns="urn:schemas-microsoft-com:unattend"><settings pass="{pass}"><component name="Microsoft-Windows-Shell-Setup" processorArchitecture="amd64" publicKeyToken="31bf3856ad364e35" language="neutral" versionScope="nonSxS"><TimeZone>UTC</TimeZone></component></settings></unattend>"#
        )
    }

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn media(root: &Path) -> Vec<drives::Drive> {
        [('E', true), ('D', false)]
            .map(|(letter, writable)| drives::Drive {
                letter,
                root: root.join(letter.to_string()),
                writable,
            })
            .to_vec()
    }

    #[test]
    fn places_are_searched_in_windows_order() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for path in [
            "c/Windows/Panther/Unattend/Unattend.xml",
            "c/Windows/Panther/unattend.xml",
            "E/Autounattend.xml",
            "D/unattend.xml",
            "D/Autounattend.xml",
            "c/Windows/System32/Sysprep/Unattend.xml",
            "c/Windows/System32/Sysprep/Autounattend.xml",
            "c/autounattend.xml",
        ] {
            put(root, path, EMPTY);
        }
        let registry = search::Candidate {
            path: r"C:\seal.xml".into(),
            bytes: EMPTY.into(),
        };
        let found = gather(
            Some(registry),
            &root.join("c"),
            &media(root),
            Pass::Specialize,
        );
        let paths: Vec<String> = found.into_iter().map(|candidate| candidate.path).collect();
        assert_eq!(
            paths,
            [
                r"C:\seal.xml",
                r"C:\Windows\Panther\Unattend\Unattend.xml",
                r"C:\Windows\Panther\unattend.xml",
                r"E:\Autounattend.xml",
                r"D:\unattend.xml",
                r"D:\Autounattend.xml",
                r"C:\Windows\System32\Sysprep\Unattend.xml",
                r"C:\autounattend.xml",
            ]
        );
    }

    /// first-boot: what a seal leaves in Panther hides the file that a platform mounts.
    #[test]
    fn a_cached_file_shadows_a_disc_only_where_it_has_the_pass() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        put(root, "D/Autounattend.xml", &file("specialize"));
        put(root, "c/Windows/Panther/unattend.xml", &file("oobeSystem"));
        let taken = |pass| {
            let found = gather(None, &root.join("c"), &media(root), pass);
            search::choose(found, pass).map(|answer| answer.map(|answer| answer.path))
        };
        assert_eq!(
            taken(Pass::Specialize),
            Ok(Some(r"D:\Autounattend.xml".into()))
        );
        put(root, "c/Windows/Panther/unattend.xml", &file("specialize"));
        assert_eq!(
            taken(Pass::Specialize),
            Ok(Some(r"C:\Windows\Panther\unattend.xml".into()))
        );
    }
}
