//! The discs that a machine starts with: the install medium, read before any boot, and the answer CD.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Inputs, Request, inputs};
use crate::answer::{self, Facts, LintFacts};
use crate::export::GuestFacts;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Event, Phase};
use winimg_base::io;
use winimg_base::text::{Secret, Source as Template};
use winimg_formats::driver;
use winimg_formats::iso::{self, Disc, Source, Tree};
use winimg_formats::udf::Medium;
use winimg_formats::wim::{Image, MediaFacts, Release};
use winimg_machine::vm::Platform;
use winimg_recipe::plan::{self, chain::listing};
use winimg_recipe::recipe::{Firmware, InputId, Recipe};
use winimg_supply::store::Blob;

/// The answer disc's name in the working directory. It holds the build's password.
pub const ANSWER_DISC: &str = "answer.iso";
const INSTALL_COPY: &str = "install.iso";

/// What was found on the install medium, and what is to be made of it.
pub struct Media {
    pub release: Release,
    pub image: Image,
    pub language: String,
    /// What was odd but did not stop the build.
    pub warnings: Vec<String>,
    /// Of the answer file without the Administrator's password.
    pub answer_file: Digest,
    /// Of the answer disc's other files, but for those of the virtio medium.
    pub bootstrap: Digest,
    /// The answer disc, but for what its answer file says.
    disc: Tree,
    found: MediaFacts,
    template: Template,
}

/// The discs that an installation starts with.
pub struct Discs {
    pub install: Disc,
    pub answer: PathBuf,
    /// Bytes of the image's files: as much room the machine's disk needs at least.
    pub room: u64,
    pub remark: Option<String>,
}

impl Media {
    /// `10.0.20348`: the part of the version that container images have to match.
    pub fn base_build(&self) -> String {
        base_build(&self.image)
    }

    pub fn guest_facts(&self) -> GuestFacts {
        let version = &self.image.version;
        let build = version.strip_prefix("10.0.").unwrap_or(version);
        GuestFacts {
            release: self.release,
            edition: self.image.edition_id.clone(),
            build: build.to_string(),
        }
    }
}

/// The Windows that an install medium brings, as `10.0.20348`: what container images have to match.
pub fn windows_build(iso: &Path, recipe: &Recipe) -> Result<String> {
    let found = found(iso, recipe)?;
    Ok(base_build(found.images.pick(&recipe.media.image)?))
}

fn found(iso: &Path, recipe: &Recipe) -> Result<MediaFacts> {
    let found = Medium::open(iso).and_then(|medium| MediaFacts::read(&medium));
    found.map_err(|e| e.from_place(&recipe.media.iso.url.place))
}

fn base_build(image: &Image) -> String {
    let parts: Vec<&str> = image.version.split('.').take(3).collect();
    parts.join(".")
}

/// Reads the medium, picks the image, renders and lints the answer file, and decides what else is on its disc.
pub fn read(source: &inputs::Source<'_>, inputs: &Inputs) -> Result<Media> {
    let (recipe, sink) = (source.recipe, source.sink);
    let iso = inputs.iso()?;
    iso.check()?;
    let found = found(iso.path(), recipe)?;
    // What the file says is the same with every password.
    let facts = facts(recipe, &found, source.platform, Secret::new("Password-1"))?;
    let image = found.images.pick(&recipe.media.image)?.clone();
    sink.emit(&Event::Progress {
        phase: Phase::Media,
        text: describe(&image, &facts),
    });

    let mut warnings = Vec::new();
    on_release(recipe, facts.release, &mut warnings)?;
    let own = recipe.setup.answer_file.as_ref();
    let template = own.map_or_else(|| Ok(answer::built_in()), answer::read_template)?;
    let xml = answer::render(&template, &facts)?;
    lint(recipe, &template, &xml, &facts, &found, &mut warnings)?;
    let answer = answer_disc(recipe, inputs, &facts, &xml)?;
    if let Some(left_out) = driver::left_out_in_words(&answer.left_out) {
        sink.emit(&Event::Progress {
            phase: Phase::Media,
            text: format!("drivers: {left_out}"),
        });
    }
    let mut disc = answer.tree;
    let own = take_own(&mut disc, source)?;
    // It may hold a product key.
    disc.replace(answer::FILE_NAME, Source::Bytes(Vec::new()));
    for warning in &warnings {
        sink.warn(warning.clone());
    }
    Ok(Media {
        release: facts.release,
        image,
        language: facts.language,
        warnings,
        answer_file: Digest::sha256_of(xml.expose().as_bytes()),
        bootstrap: bootstrap(&disc, &own),
        disc,
        found,
        template,
    })
}

/// What the recipe's targets have against this release, where the plan could not know it.
fn on_release(recipe: &Recipe, release: Release, warnings: &mut Vec<String>) -> Result<()> {
    let found = plan::on_release(recipe, release);
    if found.has_errors() {
        let fact = "the medium's Windows is none that the recipe's targets take";
        return Err(Error::new(Kind::Recipe, fact).lines(found.render(false).lines()));
    }
    warnings.extend(found.0.into_iter().map(|warning| warning.problem.fact));
    Ok(())
}

/// Writes the answer disc, with the password, and finds how the install medium is booted.
pub fn discs(
    request: &Request,
    inputs: &Inputs,
    media: &Media,
    platform: Platform,
    work: &Path,
) -> Result<Discs> {
    let recipe = request.recipe;
    let facts = facts(recipe, &media.found, platform, request.password.clone())?;
    let xml = answer::render(&media.template, &facts)?;
    let answer = work.join(ANSWER_DISC);
    if let Some(virtio) = inputs.file(&InputId::Virtio) {
        virtio.check()?;
    }
    let mut disc = media.disc.clone().stamp(request.epoch);
    let xml = xml.expose().as_bytes().to_vec();
    disc.replace(answer::FILE_NAME, Source::Bytes(xml));
    iso::write(&disc, &answer)?;
    answer::check_disc(&Medium::open(&answer)?)?;
    let iso = inputs.iso()?.path();
    let (install, remark) = match recipe.machine.firmware {
        Firmware::Bios if platform == Platform::HyperV => {
            let copy = work.join(INSTALL_COPY);
            io::copy(iso, &copy)?;
            (Disc::raw(&copy), None)
        }
        Firmware::Bios => (Disc::raw(iso), None),
        Firmware::Uefi => {
            let made = match platform {
                Platform::Qemu => iso::without_prompt(iso, &work.join("install.qcow2"))?,
                // It takes plain ISOs only, and by their name.
                Platform::HyperV => iso::copy_without_prompt(iso, &work.join(INSTALL_COPY))?,
            };
            (made.disc, made.remark)
        }
    };
    Ok(Discs {
        install,
        answer,
        room: media.image.size,
        remark: remark.map(|remark| format!("the medium's key prompt stays: {remark}")),
    })
}

/// Hyper-V's devices have their drivers in Windows, and PowerShell Direct needs no agent (Microsoft: PowerShell Direct).
fn facts(
    recipe: &Recipe,
    found: &MediaFacts,
    platform: Platform,
    password: Secret,
) -> Result<Facts> {
    let mut facts = Facts::new(
        found,
        &recipe.media,
        &recipe.machine,
        &recipe.setup,
        password,
    )?;
    if platform == Platform::HyperV {
        facts.drivers.clear();
    }
    Ok(facts)
}

/// Takes what stands beside the recipe into the store, so that what is hashed is what Setup finds.
fn take_own(disc: &mut Tree, from: &inputs::Source<'_>) -> Result<BTreeMap<String, Blob>> {
    let paths: Vec<String> = disc.paths().map(String::from).collect();
    let mut own = BTreeMap::new();
    for path in paths {
        let Some(Source::Path(file)) = disc.get(&path) else {
            continue;
        };
        let blob = inputs::admit_own(file, from)?;
        let source = Source::Proved {
            path: blob.path().into(),
            sha256: blob.digest().clone(),
        };
        disc.replace(&path, source);
        own.insert(path, blob);
    }
    Ok(own)
}

/// Of every file but the answer file; a file of the virtio medium by its path alone, because that medium has a digest.
fn bootstrap(disc: &Tree, own: &BTreeMap<String, Blob>) -> Digest {
    let files = disc.paths().filter(|path| *path != answer::FILE_NAME);
    let files = files.map(|path| {
        let digest = match disc.get(path) {
            Some(Source::Bytes(bytes)) => Some(Digest::sha256_of(bytes)),
            _ => own.get(path).map(|blob| blob.digest().clone()),
        };
        (path.to_string(), digest)
    });
    listing(&files.collect())
}

/// `Windows Server 2022 SERVERDATACENTERCORE, 10.0.20348.587, en-US, evaluation`
fn describe(image: &Image, facts: &Facts) -> String {
    let licence = match (facts.eval, &facts.product_key) {
        (true, _) => "evaluation",
        (false, Some(_)) => "with a product key",
        (false, None) => "without a product key",
    };
    format!(
        "{}, {}, {}, {licence}",
        image.name, image.version, facts.language
    )
}

fn lint(
    recipe: &Recipe,
    template: &Template,
    xml: &Secret,
    facts: &Facts,
    found: &MediaFacts,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let complaints = answer::lint(
        xml.expose(),
        &LintFacts::new(template.name.clone(), facts, found),
    );
    if complaints.0.is_empty() {
        return Ok(());
    }
    let own = recipe.setup.answer_file.as_ref();
    let complaints = if own.is_none_or(|path| recipe.may_quote(&path.value)) {
        complaints
    } else {
        complaints.unquotable()
    };
    let shown = complaints.render(false);
    if !complaints.has_errors() || recipe.setup.lint_is_advice {
        warnings.push(format!("the answer file:\n{shown}"));
        return Ok(());
    }
    let error = Error::new(Kind::Recipe, "Windows Setup would stop at this answer file")
        .at(&template.name)
        .lines(shown.lines())
        .cure("mend the file; if Windows is known to take it, set setup.lint = \"warn\"");
    Err(match &recipe.setup.answer_file {
        Some(path) => error.from_place(&path.place),
        None => error,
    })
}

fn answer_disc(
    recipe: &Recipe,
    inputs: &Inputs,
    facts: &Facts,
    xml: &Secret,
) -> Result<answer::Disc> {
    let origin = recipe.media.virtio.as_ref();
    let blame = |error: Error| match origin {
        Some(origin) => error.from_place(&origin.url.place),
        None => error,
    };
    let virtio = match inputs.file(&InputId::Virtio) {
        Some(blob) => {
            blob.check()?;
            Some(Medium::open(blob.path()).map_err(blame)?)
        }
        None => None,
    };
    let own = recipe.setup.own_drivers.as_deref();
    answer::disc(facts, xml, virtio.as_ref(), own).map_err(blame)
}
