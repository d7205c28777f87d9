//! The answer CD: `Autounattend.xml` at its root, the bootstrap files in `winimg`, drivers in
//! `drv`.

use std::path::Path;

use winimg_base::diag::most_alike;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Secret;
use winimg_formats::driver::{self, Chosen, Fault};
use winimg_formats::iso::{Source, Tree};
use winimg_formats::udf::{FileSystem, Medium};
use winimg_formats::wim::Release;
use winimg_recipe::recipe::is_driver_name;

use super::bootstrap;
use super::facts::Facts;

/// The answer file at the CD's root.
pub const FILE_NAME: &str = "Autounattend.xml";

/// The CD's volume label.
const LABEL: &str = "WINIMG_ANSWER";
/// Where virtio-win keeps the agent, and its name in the guest.
const AGENT: &str = "guest-agent/qemu-ga-x86_64.msi";
const AGENT_NAME: &str = "qemu-ga-x86_64.msi";

/// The CD, and what of the drivers' folders is not on it.
#[derive(Debug)]
pub struct Disc {
    pub tree: Tree,
    /// Files that no INF names, as `NetKVM/netkvmco.exe`.
    pub left_out: Vec<String>,
}

/// Everything that goes onto the CD. Drivers are `facts.drivers`, each from the team's own folder
/// `own/<name>` when it is there, otherwise from the virtio-win medium; the agent comes from the
/// latter, and stays out without it. Of a driver's folder its packages are taken.
pub fn disc(
    facts: &Facts,
    xml: &Secret,
    virtio: Option<&Medium>,
    own: Option<&Path>,
) -> Result<Disc> {
    let mut left_out = Vec::new();
    let mut tree =
        Tree::new(LABEL).file(FILE_NAME, Source::Bytes(xml.expose().as_bytes().to_vec()));
    for (name, text) in bootstrap::files(&facts.drivers)? {
        tree.add(format!("winimg/{name}"), Source::Bytes(text.into_bytes()));
    }
    if let Some(medium) = virtio {
        let agent = medium
            .find(AGENT)?
            .filter(|e| !e.is_dir)
            .ok_or_else(|| not_virtio(medium))?;
        tree.add(
            format!("winimg/{AGENT_NAME}"),
            Source::Medium(medium.file(&agent)),
        );
    }
    for name in &facts.drivers {
        if !is_driver_name(name) {
            return Err(Error::new(
                Kind::Recipe,
                format!("\"{name}\" is no driver folder: only letters, digits, - and _"),
            ));
        }
        let files = match own.and_then(|own| own_folder(own, name, facts.release)) {
            Some(folder) => own_files(&folder)?,
            None => virtio_files(virtio, name, facts.release)?,
        };
        for (file, source) in files.taken {
            tree.add(format!("drv/{name}/{file}"), source);
        }
        let others = files.left_out.iter();
        left_out.extend(others.map(|file| format!("{name}/{file}")));
    }
    Ok(Disc { tree, left_out })
}

/// The files of a driver's folder.
struct Files {
    taken: Vec<(String, Source)>,
    left_out: Vec<String>,
}

impl Files {
    fn of(chosen: Chosen, source: impl Fn(&str) -> Option<Source>) -> Self {
        let paths = chosen.paths().into_iter();
        let taken = paths.filter_map(|path| Some((path.to_owned(), source(path)?)));
        Self {
            taken: taken.collect(),
            left_out: chosen.left_out,
        }
    }
}

/// `own/<name>/<2k22>/amd64`, `own/<name>/<2k22>` or `own/<name>`, whichever is there first.
fn own_folder(own: &Path, name: &str, release: Release) -> Option<std::path::PathBuf> {
    let folder = own.join(name);
    let per_release = folder.join(release.virtio_folder());
    [per_release.join("amd64"), per_release, folder]
        .into_iter()
        .find(|f| f.is_dir())
}

fn own_files(folder: &Path) -> Result<Files> {
    let chosen = driver::in_folder(folder, driver::is_here)?;
    let chosen = chosen.map_err(|faults| incomplete(faults, folder.display().to_string()))?;
    Ok(Files::of(chosen, |path| {
        Some(Source::Path(folder.join(path)))
    }))
}

fn virtio_files(virtio: Option<&Medium>, name: &str, release: Release) -> Result<Files> {
    let Some(medium) = virtio else {
        return Err(Error::new(
            Kind::Recipe,
            format!("there is nothing to take the driver {name} from"),
        )
        .cure(format!(
            "add [media.virtio] to the recipe, or put the driver into drivers/{name}/ beside the recipe"
        )));
    };
    let folder = driver::folder(name, release);
    let Some(found) = driver::on_medium(medium, &folder)? else {
        return Err(no_driver(medium, name, release, &folder));
    };
    let place = format!("{}:{folder}", medium.path.display());
    let chosen = found.packages.clone();
    let chosen = chosen.map_err(|faults| incomplete(faults, place))?;
    Ok(Files::of(chosen, |path| {
        Some(Source::Medium(medium.file(found.entry(path)?)))
    }))
}

/// Setup would pass over a driver folder without an INF in silence, and fail on one that lacks a
/// file.
fn incomplete(faults: Vec<Fault>, place: String) -> Error {
    Error::of(Kind::Recipe, driver::problem(faults)).at(place)
}

/// Lists the drivers that the medium has for this release.
fn no_driver(medium: &Medium, name: &str, release: Release, folder: &str) -> Error {
    let wanted = release.virtio_folder();
    let mut there = Vec::new();
    for entry in medium.read_dir("").unwrap_or_default() {
        let path = driver::folder(&entry.name, release);
        if entry.is_dir && matches!(medium.find(&path), Ok(Some(_))) {
            there.push(entry.name);
        }
    }
    let cure = match most_alike(name, &there) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None if there.is_empty() => {
            format!("use a newer virtio-win: this one has nothing for {release}")
        }
        None => "name one of these in setup.drivers".into(),
    };
    let error = Error::new(
        Kind::Recipe,
        format!("the virtio-win medium has no driver {name} for {release}"),
    )
    .at(format!("{}:{folder}", medium.path.display()))
    .cure(cure);
    if there.is_empty() {
        error
    } else {
        error.found(format!("drivers for {wanted}: {}", there.join(", ")))
    }
}

fn not_virtio(medium: &Medium) -> Error {
    Error::new(
        Kind::Unproved,
        format!("this is not a virtio-win medium: it has no {AGENT}"),
    )
    .at(medium.described())
    .cure("give the virtio-win ISO")
}

/// Looks at a written answer CD as Windows does: Joliet, and exactly one `Autounattend.xml` at the
/// root. Without Joliet the file would be called `AUTOUNAT.XML`, which Setup does not look for.
pub fn check(medium: &Medium) -> Result<()> {
    let wrong = |fact: String| Error::failed(fact).at(medium.path.display());
    if medium.file_system != FileSystem::Joliet {
        return Err(wrong(format!(
            "the answer CD is {}; Windows Setup needs Joliet to see Autounattend.xml",
            medium.file_system
        )));
    }
    let named: Vec<String> = medium
        .read_dir("")?
        .into_iter()
        .map(|e| e.name)
        .filter(|n| {
            n.eq_ignore_ascii_case("Autounattend.xml") || n.eq_ignore_ascii_case("Unattend.xml")
        })
        .collect();
    match named.as_slice() {
        [one] if one.eq_ignore_ascii_case("Autounattend.xml") => Ok(()),
        other => Err(wrong(format!(
            "the answer CD must have exactly one answer file at its root, Autounattend.xml; it has {other:?}"
        ))),
    }
}
