//! The answer CD: `Autounattend.xml` at its root, the bootstrap files in `winimg`, drivers in
//! `drv`.

use std::path::Path;

use winimg_base::diag::find_most_similar;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Secret;
use winimg_formats::driver::{self, DriverPackageFault, DriverSelection};
use winimg_formats::iso::{DiscSource, DiscTree};
use winimg_formats::udf::{FileSystem, Medium};
use winimg_formats::wim::WindowsRelease;
use winimg_recipe::is_driver_name;

use super::bootstrap;
use super::facts::AnswerFacts;

/// The answer file at the CD's root.
pub const FILE_NAME: &str = "Autounattend.xml";

/// The CD's volume label.
const LABEL: &str = "WINIMG_ANSWER";
/// Path of the agent on the virtio-win medium.
const AGENT: &str = "guest-agent/qemu-ga-x86_64.msi";
/// File name of the agent on the CD.
const AGENT_NAME: &str = "qemu-ga-x86_64.msi";

/// The CD's content, and the files of driver folders that are not on it.
#[derive(Debug)]
pub struct AnswerDisc {
    pub tree: DiscTree,
    /// Files that no INF names, such as `NetKVM/netkvmco.exe`.
    pub left_out: Vec<String>,
}

/// Collects everything that goes onto the CD. Each driver of `facts.drivers` comes from the team's
/// folder `own/<name>` if that exists, otherwise from the virtio-win medium, which also has the
/// agent. Only the files of driver packages are copied.
pub fn build_disc(
    facts: &AnswerFacts,
    xml: &Secret,
    virtio: Option<&Medium>,
    own: Option<&Path>,
) -> Result<AnswerDisc> {
    let mut left_out = Vec::new();
    let mut tree = DiscTree::new(LABEL).with_file(
        FILE_NAME,
        DiscSource::Bytes(xml.expose().as_bytes().to_vec()),
    );
    for (name, text) in bootstrap::render_bootstrap_files(&facts.drivers)? {
        tree.add(
            format!("winimg/{name}"),
            DiscSource::Bytes(text.into_bytes()),
        );
    }
    if let Some(medium) = virtio {
        let agent = medium
            .find(AGENT)?
            .filter(|e| !e.is_dir)
            .ok_or_else(|| wrong_medium_error(medium))?;
        tree.add(
            format!("winimg/{AGENT_NAME}"),
            DiscSource::Medium(medium.open_file(&agent)),
        );
    }
    for name in &facts.drivers {
        if !is_driver_name(name) {
            return Err(Error::new(
                Kind::Recipe,
                format!(
                    "\"{name}\" is not a valid driver folder name: use only letters, digits, - and \
                     _"
                ),
            ));
        }
        let files = match own.and_then(|own| find_own_folder(own, name, facts.release)) {
            Some(folder) => read_own_files(&folder)?,
            None => find_virtio_files(virtio, name, facts)?,
        };
        for (file, source) in files.taken {
            tree.add(format!("drv/{name}/{file}"), source);
        }
        left_out.extend(files.left_out.iter().map(|file| format!("{name}/{file}")));
    }
    Ok(AnswerDisc { tree, left_out })
}

/// The files of a driver's folder.
struct DriverFiles {
    taken: Vec<(String, DiscSource)>,
    left_out: Vec<String>,
}

impl DriverFiles {
    fn from_packages(chosen: DriverSelection, source: impl Fn(&str) -> Option<DiscSource>) -> Self {
        let taken = chosen
            .paths()
            .into_iter()
            .filter_map(|path| Some((path.to_owned(), source(path)?)))
            .collect();
        Self {
            taken,
            left_out: chosen.left_out,
        }
    }
}

/// Finds the first of `own/<name>/<2k22>/amd64`, `own/<name>/<2k22>` and `own/<name>`.
fn find_own_folder(own: &Path, name: &str, release: WindowsRelease) -> Option<std::path::PathBuf> {
    let folder = own.join(name);
    let per_release = folder.join(release.virtio_folder());
    [per_release.join("amd64"), per_release, folder]
        .into_iter()
        .find(|f| f.is_dir())
}

fn read_own_files(folder: &Path) -> Result<DriverFiles> {
    let chosen = driver::in_folder(folder, driver::is_here)?
        .map_err(|faults| incomplete_package_error(faults, folder.display().to_string()))?;
    Ok(DriverFiles::from_packages(chosen, |path| {
        Some(DiscSource::Path(folder.join(path)))
    }))
}

fn find_virtio_files(
    virtio: Option<&Medium>,
    name: &str,
    facts: &AnswerFacts,
) -> Result<DriverFiles> {
    let Some(medium) = virtio else {
        return Err(Error::new(
            Kind::Recipe,
            format!("there is no source for the driver {name}"),
        )
        .cure(format!(
            "add [media.virtio] to the recipe, or put the driver into drivers/{name}/ beside \
             the recipe"
        )));
    };
    let folder = driver::format_medium_folder(name, facts.release);
    let Some(found) = driver::on_medium(medium, &folder)? else {
        return Err(missing_driver_error(medium, name, facts, &folder));
    };
    let place = format!("{}:{folder}", medium.path.display());
    let chosen = found
        .packages
        .clone()
        .map_err(|faults| incomplete_package_error(faults, place))?;
    Ok(DriverFiles::from_packages(chosen, |path| {
        Some(DiscSource::Medium(
            medium.open_file(found.find_entry(path)?),
        ))
    }))
}

/// Reports an incomplete package: Setup would silently ignore a driver folder without an INF and
/// fail on one with a missing file.
fn incomplete_package_error(faults: Vec<DriverPackageFault>, place: String) -> Error {
    Error::from_problem(Kind::Recipe, driver::merge_faults(faults)).at(place)
}

/// Lists the drivers that the medium has for this release. Suggests none that the recipe already
/// requests.
fn missing_driver_error(medium: &Medium, name: &str, facts: &AnswerFacts, folder: &str) -> Error {
    let release = facts.release;
    let wanted = release.virtio_folder();
    let mut there = Vec::new();
    for entry in medium.read_dir("").unwrap_or_default() {
        let path = driver::format_medium_folder(&entry.name, release);
        if entry.is_dir && matches!(medium.find(&path), Ok(Some(_))) {
            there.push(entry.name);
        }
    }
    let requested = &facts.drivers;
    let others: Vec<String> = there
        .iter()
        .filter(|known| {
            !requested
                .iter()
                .any(|name| name.eq_ignore_ascii_case(known))
        })
        .cloned()
        .collect();
    let cure = match find_most_similar(name, &others) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None if there.is_empty() => {
            format!("use a newer virtio-win: this one has nothing for {release}")
        }
        None => format!(
            "use a virtio-win medium that has it, or put the driver into drivers/{name}/ beside \
             the recipe"
        ),
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

fn wrong_medium_error(medium: &Medium) -> Error {
    Error::new(
        Kind::Unproved,
        format!("this is not a virtio-win medium: it has no {AGENT}"),
    )
    .at(medium.describe())
    .cure("use the virtio-win ISO")
}

/// Checks a written answer CD as Windows reads it: Joliet, and exactly one `Autounattend.xml` at
/// the root. Without Joliet the file would be called `AUTOUNAT.XML`, which Setup does not look for.
pub fn check(medium: &Medium) -> Result<()> {
    if medium.file_system != FileSystem::Joliet {
        let fact = format!(
            "the answer CD is {}; Windows Setup needs Joliet to see Autounattend.xml",
            medium.file_system
        );
        return Err(Error::failed(fact).at(medium.path.display()));
    }
    let answer_files: Vec<String> = medium
        .read_dir("")?
        .into_iter()
        .map(|e| e.name)
        .filter(|n| {
            n.eq_ignore_ascii_case("Autounattend.xml") || n.eq_ignore_ascii_case("Unattend.xml")
        })
        .collect();
    match answer_files.as_slice() {
        [one] if one.eq_ignore_ascii_case("Autounattend.xml") => Ok(()),
        other => {
            let fact = format!(
                "the answer CD must have exactly one answer file at its root, \
                 Autounattend.xml; it has {other:?}"
            );
            Err(Error::failed(fact).at(medium.path.display()))
        }
    }
}
