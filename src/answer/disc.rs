//! The answer CD: `Autounattend.xml` at its root, the bootstrap files in `winimg`, drivers in `drv`.

use std::path::Path;

use winimg_base::diag::most_alike;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Secret;
use winimg_formats::driver;
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

/// Everything that goes onto the CD. Drivers are `facts.drivers`, each from the team's own folder `own/<name>` when it is
/// there, otherwise from the virtio-win medium; the agent comes from the latter, and stays out without it.
pub fn disc(
    facts: &Facts,
    xml: &Secret,
    virtio: Option<&Medium>,
    own: Option<&Path>,
) -> Result<Tree> {
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
        for (file, source) in files {
            tree.add(format!("drv/{name}/{file}"), source);
        }
    }
    Ok(tree)
}

/// `own/<name>/<2k22>/amd64`, `own/<name>/<2k22>` or `own/<name>`, whichever is there first.
fn own_folder(own: &Path, name: &str, release: Release) -> Option<std::path::PathBuf> {
    let folder = own.join(name);
    let per_release = folder.join(release.virtio_folder());
    [per_release.join("amd64"), per_release, folder]
        .into_iter()
        .find(|f| f.is_dir())
}

fn own_files(folder: &Path) -> Result<Vec<(String, Source)>> {
    let cannot = |e| Error::io("read", folder, e);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
        if driver::belongs(name) && path.is_file() {
            files.push((name.to_string(), Source::Path(path)));
        }
    }
    files.sort_by(|a, b| a.0.cmp(&b.0));
    with_inf(files, || folder.display().to_string())
}

fn virtio_files(
    virtio: Option<&Medium>,
    name: &str,
    release: Release,
) -> Result<Vec<(String, Source)>> {
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
    let Some(files) = driver::files(medium, &folder)? else {
        return Err(no_driver(medium, name, release, &folder));
    };
    let files = files
        .into_iter()
        .map(|e| (e.name.clone(), Source::Medium(medium.file(&e))))
        .collect();
    with_inf(files, || format!("{}:{folder}", medium.path.display()))
}

/// A driver folder without an .inf would be passed over in silence by Setup.
fn with_inf(
    files: Vec<(String, Source)>,
    place: impl FnOnce() -> String,
) -> Result<Vec<(String, Source)>> {
    match files
        .iter()
        .any(|(name, _)| name.to_ascii_lowercase().ends_with(".inf"))
    {
        true => Ok(files),
        false => Err(Error::new(Kind::Recipe, "this driver folder holds no .inf file").at(place())),
    }
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

/// Looks at a written answer CD as Windows does: Joliet, and exactly one `Autounattend.xml` at the root. Without Joliet
/// the file would be called `AUTOUNAT.XML`, which Setup does not look for.
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
