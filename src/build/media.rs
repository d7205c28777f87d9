//! The discs that a machine starts with: the install medium, read before any boot, and the answer CD.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Inputs;
use crate::answer::{self, Facts, LintFacts};
use crate::error::{Error, Kind, Result};
use crate::event::{Event, Sink};
use crate::export::GuestFacts;
use crate::iso::{self, Disc, Stamp};
use crate::recipe::{Firmware, Recipe};
use crate::text::Secret;
use crate::udf::Medium;
use crate::wim::{Image, MediaFacts, Release};

/// The answer disc's name in the working directory. It holds the build's password.
pub const ANSWER_DISC: &str = "answer.iso";

/// What was found on the install medium, and the discs made from it.
pub struct Media {
    pub release: Release,
    pub image: Image,
    pub eval: bool,
    pub language: String,
    pub install_disc: Disc,
    pub answer_disc: PathBuf,
    /// What was odd but did not stop the build.
    pub warnings: Vec<String>,
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
    let place = &recipe.media.iso.url.place;
    let medium = Medium::open(iso).map_err(|e| e.from_place(place))?;
    let found = MediaFacts::read(&medium).map_err(|e| e.from_place(place))?;
    Ok(base_build(found.images.pick(&recipe.media.image)?))
}

fn base_build(image: &Image) -> String {
    let parts: Vec<&str> = image.version.split('.').take(3).collect();
    parts.join(".")
}

/// Reads the medium, picks the image, renders and lints the answer file, writes the discs into `work`.
pub fn prepare(
    recipe: &Recipe,
    inputs: &Inputs,
    password: &Secret,
    work: &Path,
    epoch: i64,
    sink: &Arc<dyn Sink>,
) -> Result<Media> {
    inputs.iso.check()?;
    let iso = inputs.iso.path();
    let medium = Medium::open(iso).map_err(|e| e.from_place(&recipe.media.iso.url.place))?;
    let found = MediaFacts::read(&medium).map_err(|e| e.from_place(&recipe.media.iso.url.place))?;
    let facts = Facts::new(
        &found,
        &recipe.media,
        &recipe.machine,
        &recipe.setup,
        password.clone(),
    )?;
    let image = found.images.pick(&recipe.media.image)?.clone();
    sink.emit(&Event::Progress {
        phase: "media",
        text: describe(&image, &facts),
    });

    let mut warnings = Vec::new();
    if recipe.media.virtio.is_none() && recipe.setup.answer_file.is_none() {
        warnings.push(
            "without [media.virtio] the guest gets no serial driver and no agent, so winimg will not reach it".into(),
        );
    }
    let xml = answer_file(recipe, &found, &facts, &mut warnings)?;
    let answer_disc = work.join(ANSWER_DISC);
    write_answer_disc(recipe, inputs, &facts, &xml, &answer_disc, epoch)?;
    let install_disc = match recipe.machine.firmware {
        Firmware::Bios => Disc::raw(iso),
        Firmware::Uefi => {
            let made = iso::without_prompt(iso, &work.join("install.qcow2"))?;
            if let Some(remark) = made.remark {
                warnings.push(format!("the medium's key prompt stays: {remark}"));
            }
            made.disc
        }
    };
    for warning in &warnings {
        sink.warn(warning.clone());
    }
    Ok(Media {
        release: facts.release,
        image,
        eval: facts.eval,
        language: facts.language,
        install_disc,
        answer_disc,
        warnings,
    })
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

fn answer_file(
    recipe: &Recipe,
    found: &MediaFacts,
    facts: &Facts,
    warnings: &mut Vec<String>,
) -> Result<Secret> {
    let own = recipe.setup.answer_file.as_ref();
    let template = own.map_or_else(|| Ok(answer::built_in()), answer::read_template)?;
    let xml = answer::render(&template, facts)?;
    let complaints = answer::lint(
        xml.expose(),
        &LintFacts::new(template.name.clone(), facts, found),
    );
    if complaints.0.is_empty() {
        return Ok(xml);
    }
    let shown = complaints.render(false);
    if !complaints.has_errors() || recipe.setup.lint_is_advice {
        warnings.push(format!("the answer file:\n{shown}"));
        return Ok(xml);
    }
    let error = Error::new(Kind::Recipe, "Windows Setup would stop at this answer file")
        .at(&template.name)
        .lines(shown.lines())
        .cure("mend the file; if Windows is known to take it, set setup.lint = \"warn\"");
    Err(match own {
        Some(path) => error.from_place(&path.place),
        None => error,
    })
}

fn write_answer_disc(
    recipe: &Recipe,
    inputs: &Inputs,
    facts: &Facts,
    xml: &Secret,
    file: &Path,
    epoch: i64,
) -> Result<()> {
    let origin = recipe.media.virtio.as_ref();
    let blame = |error: Error| match origin {
        Some(origin) => error.from_place(&origin.url.place),
        None => error,
    };
    let virtio = match &inputs.virtio {
        Some(blob) => {
            blob.check()?;
            Some(Medium::open(blob.path()).map_err(blame)?)
        }
        None => None,
    };
    let own = recipe.setup.own_drivers.as_deref();
    let tree = answer::disc(facts, xml, virtio.as_ref(), own).map_err(blame)?;
    iso::write(&tree.stamp(Stamp(epoch)), file)?;
    answer::check_disc(&Medium::open(file)?)
}
