//! The discs for an installation: the install medium, read before any boot, and the answer disc.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{BuildInputs, BuildRequest, inputs};
use crate::answer::{self, AnswerFacts, LintFacts};
use crate::export::GuestFacts;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Event, Phase};
use winimg_base::text::{Secret, SourceText as Template};
use winimg_formats::driver;
use winimg_formats::iso::{self, CdImage, DiscSource, DiscTree};
use winimg_formats::udf::Medium;
use winimg_formats::wim::{MediaFacts, WimImage, WindowsRelease};
use winimg_machine::vm::HypervisorKind;
use winimg_recipe::plan::{self, chain::hash_listing};
use winimg_recipe::{InputId, Recipe};
use winimg_supply::store::StoredBlob;

/// The answer disc's name in the working directory. It contains the build's password.
pub const ANSWER_DISC: &str = "answer.iso";

/// Facts about the install medium, and the answer disc to write for it.
pub struct InstallMedia {
    pub release: WindowsRelease,
    pub image: WimImage,
    pub language: String,
    /// Warnings that did not stop the build.
    pub warnings: Vec<String>,
    /// Digest of the answer file without the Administrator's password.
    pub answer_file: Digest,
    /// Digest of the answer disc's other files, except those from the virtio medium.
    pub bootstrap: Digest,
    /// The answer disc, with an empty answer file.
    disc: DiscTree,
    found: MediaFacts,
    template: Template,
}

/// The discs for an installation.
pub struct InstallDiscs {
    pub install: CdImage,
    pub answer: PathBuf,
    /// Size of the image's files in bytes: the minimum free space for the VM's disk.
    pub room: u64,
    pub remark: Option<String>,
}

impl InstallMedia {
    /// Returns the part of the version that container images have to match: `10.0.20348`.
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

/// Reads the Windows version of an install medium, such as `10.0.20348`, for container images to
/// match.
pub fn windows_build(iso: &Path, recipe: &Recipe) -> Result<String> {
    let found = read_facts(iso, recipe)?;
    Ok(base_build(found.images.pick(&recipe.media.image)?))
}

fn read_facts(iso: &Path, recipe: &Recipe) -> Result<MediaFacts> {
    let found = Medium::open(iso).and_then(|medium| MediaFacts::read(&medium));
    found.map_err(|e| e.or_place(&recipe.media.iso.url.place))
}

fn base_build(image: &WimImage) -> String {
    let parts: Vec<&str> = image.version.split('.').take(3).collect();
    parts.join(".")
}

/// Reads the medium, picks the image, renders and lints the answer file, and collects the other
/// files of its disc.
pub fn read(source: &inputs::InputContext<'_>, inputs: &BuildInputs) -> Result<InstallMedia> {
    let (recipe, sink) = (source.recipe, source.sink);
    let iso = inputs.require_iso()?;
    iso.check()?;
    let found = read_facts(iso.path(), recipe)?;
    // A placeholder: no fact depends on the password.
    let facts = collect_facts(recipe, &found, source.platform, Secret::new("Password-1"))?;
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
    check_answer_file(recipe, &template, &xml, &facts, &found, &mut warnings)?;
    let answer = answer_disc(recipe, inputs, &facts, &xml)?;
    if let Some(left_out) = driver::left_out_in_words(&answer.left_out) {
        sink.emit(&Event::Progress {
            phase: Phase::Media,
            text: format!("drivers: {left_out}"),
        });
    }
    let mut disc = answer.tree;
    let own = take_own(&mut disc, source)?;
    // It may contain a product key.
    disc.replace(answer::FILE_NAME, DiscSource::Bytes(Vec::new()));
    for warning in &warnings {
        sink.warn(warning.clone());
    }
    Ok(InstallMedia {
        release: facts.release,
        image,
        language: facts.language,
        warnings,
        answer_file: Digest::sha256_of(xml.expose().as_bytes()),
        bootstrap: hash_bootstrap(&disc, &own),
        disc,
        found,
        template,
    })
}

/// Checks the release against the recipe's targets, which the plan could not do without the medium.
fn on_release(recipe: &Recipe, release: WindowsRelease, warnings: &mut Vec<String>) -> Result<()> {
    let found = plan::on_release(recipe, release);
    if found.has_errors() {
        let fact = "the recipe's targets do not support the medium's Windows";
        return Err(Error::new(Kind::Recipe, fact).lines(found.render(false).lines()));
    }
    warnings.extend(found.0.into_iter().map(|warning| warning.problem.fact));
    Ok(())
}

/// Writes the answer disc, with the password, and makes the install medium bootable without a key
/// press.
pub fn write_discs(
    request: &BuildRequest,
    inputs: &BuildInputs,
    media: &InstallMedia,
    platform: HypervisorKind,
    work: &Path,
) -> Result<InstallDiscs> {
    let recipe = request.recipe;
    let facts = collect_facts(recipe, &media.found, platform, request.password.clone())?;
    let xml = answer::render(&media.template, &facts)?;
    let answer = work.join(ANSWER_DISC);
    if let Some(virtio) = inputs.find_file(&InputId::Virtio) {
        virtio.check()?;
    }
    let mut disc = media.disc.clone().with_stamp(request.epoch);
    let xml = xml.expose().as_bytes().to_vec();
    disc.replace(answer::FILE_NAME, DiscSource::Bytes(xml));
    iso::write(&disc, &answer)?;
    answer::check_disc(&Medium::open(&answer)?)?;
    let iso = inputs.require_iso()?.path();
    let medium = (platform.spec().prepare_medium)(iso, recipe.machine.firmware, work)?;
    Ok(InstallDiscs {
        install: medium.disc,
        answer,
        room: media.image.size,
        remark: medium
            .remark
            .map(|remark| format!("cannot remove the medium's boot prompt: {remark}")),
    })
}

/// Collects the facts for the answer file.
fn collect_facts(
    recipe: &Recipe,
    found: &MediaFacts,
    platform: HypervisorKind,
    password: Secret,
) -> Result<AnswerFacts> {
    let mut facts = AnswerFacts::new(
        found,
        &recipe.media,
        &recipe.machine,
        &recipe.setup,
        password,
    )?;
    if !platform.spec().needs_virtio {
        facts.drivers.clear();
    }
    Ok(facts)
}

/// Copies the disc's files from the recipe's folder into the store, so that Setup gets the bytes
/// that were hashed.
fn take_own(
    disc: &mut DiscTree,
    from: &inputs::InputContext<'_>,
) -> Result<BTreeMap<String, StoredBlob>> {
    let paths: Vec<String> = disc.paths().map(String::from).collect();
    let mut own = BTreeMap::new();
    for path in paths {
        let Some(DiscSource::Path(file)) = disc.get(&path) else {
            continue;
        };
        let blob = inputs::admit_own(file, from)?;
        let source = DiscSource::Verified {
            path: blob.path().into(),
            sha256: blob.digest().clone(),
        };
        disc.replace(&path, source);
        own.insert(path, blob);
    }
    Ok(own)
}

/// Computes the digest of all files except the answer file. Files of the virtio medium count only
/// by path, because that medium has its own digest.
fn hash_bootstrap(disc: &DiscTree, own: &BTreeMap<String, StoredBlob>) -> Digest {
    let files = disc.paths().filter(|path| *path != answer::FILE_NAME);
    let files = files.map(|path| {
        let digest = match disc.get(path) {
            Some(DiscSource::Bytes(bytes)) => Some(Digest::sha256_of(bytes)),
            _ => own.get(path).map(|blob| blob.digest().clone()),
        };
        (path.to_string(), digest)
    });
    hash_listing(&files.collect())
}

/// `Windows Server 2022 SERVERDATACENTERCORE, 10.0.20348.587, en-US, evaluation`
fn describe(image: &WimImage, facts: &AnswerFacts) -> String {
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

fn check_answer_file(
    recipe: &Recipe,
    template: &Template,
    xml: &Secret,
    facts: &AnswerFacts,
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
        complaints.hide_sources()
    };
    let shown = complaints.render(false);
    if !complaints.has_errors() || recipe.setup.lint_is_advice {
        warnings.push(format!("the answer file:\n{shown}"));
        return Ok(());
    }
    let error = Error::new(Kind::Recipe, "Windows Setup would stop at this answer file")
        .at(&template.name)
        .lines(shown.lines())
        .cure("fix the file; if Windows is known to accept it, set setup.lint = \"warn\"");
    Err(match &recipe.setup.answer_file {
        Some(path) => error.or_place(&path.place),
        None => error,
    })
}

fn answer_disc(
    recipe: &Recipe,
    inputs: &BuildInputs,
    facts: &AnswerFacts,
    xml: &Secret,
) -> Result<answer::AnswerDisc> {
    let virtio = match inputs.find_file(&InputId::Virtio) {
        Some(blob) => {
            blob.check()?;
            Some(Medium::open(blob.path()).map_err(|e| at_virtio(e, recipe))?)
        }
        None => None,
    };
    let own = recipe.setup.own_drivers.as_deref();
    answer::build_disc(facts, xml, virtio.as_ref(), own).map_err(|e| at_virtio(e, recipe))
}

/// Adds the recipe's line with the virtio medium, if there is one, to the error.
fn at_virtio(error: Error, recipe: &Recipe) -> Error {
    match &recipe.media.virtio {
        Some(origin) => error.or_place(&origin.url.place),
        None => error,
    }
}
