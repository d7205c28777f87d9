//! The values that an answer file template can use.

use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::{Located, Secret};
use winimg_formats::wim::{MediaFacts, WimImage, WimImages, WindowsRelease};
use winimg_recipe::{Firmware, MachineSpec, MediaSpec, SetupSpec};

use super::keys;

/// Everything that a template can use. `Debug` shows no password.
#[derive(Clone, Debug)]
pub struct AnswerFacts {
    pub release: WindowsRelease,
    pub firmware: Firmware,
    /// `<NAME>` of the image.
    pub image_name: String,
    pub eval: bool,
    /// `None` on evaluation media.
    pub product_key: Option<String>,
    /// BCP 47
    pub language: String,
    /// Windows zone name
    pub time_zone: String,
    pub computer_name: String,
    pub administrator_password: Secret,
    /// Folders under `drv` on the answer CD; none: the answer file names no driver path.
    pub drivers: Vec<String>,
    /// The machine has a TPM, so Windows could encrypt its disk by itself.
    pub tpm: bool,
}

impl AnswerFacts {
    /// Resolves a recipe's image, release, product key and language against an install medium.
    pub fn new(
        medium: &MediaFacts,
        media: &MediaSpec,
        machine: &MachineSpec,
        setup: &SetupSpec,
        administrator_password: Secret,
    ) -> Result<Self> {
        let image = medium.images.pick(&media.image)?;
        check_name(&medium.images, &image.name)?;
        let release =
            WindowsRelease::from_image(image).map_err(|e| e.or_place(&media.image.place))?;
        let eval = medium.is_eval(image);
        Ok(Self {
            release,
            firmware: machine.firmware,
            image_name: image.name.clone(),
            eval,
            product_key: keys::choose_product_key(
                media.product_key.as_ref(),
                release,
                &image.edition(),
                eval,
            )?,
            language: resolve_language(image, &media.language)?,
            time_zone: media.time_zone.value.clone(),
            computer_name: setup.computer_name.clone(),
            administrator_password,
            drivers: setup.drivers.clone(),
            tpm: machine.tpm,
        })
    }
}

/// Requires the image's name to be unique, because answer files select an image by name.
fn check_name(images: &WimImages, name: &str) -> Result<()> {
    let count = images.images.iter().filter(|i| i.name == name).count();
    if count == 1 {
        return Ok(());
    }
    let fact = format!("{count} images of this medium are called {name}");
    Err(Error::new(Kind::Unproved, fact)
        .at(&images.from)
        .lines(images.list())
        .cure("answer files choose an image by its name: use another medium"))
}

/// Returns the language as the image spells it. An image that lists none is assumed to have it.
fn resolve_language(image: &WimImage, wanted: &Located<String>) -> Result<String> {
    let mut there = image.languages.iter();
    match there.find(|l| l.eq_ignore_ascii_case(&wanted.value)) {
        Some(spelled) => Ok(spelled.clone()),
        None if image.languages.is_empty() => Ok(wanted.value.clone()),
        None => {
            let fact = format!("{} has no language {}", image.name, wanted.value);
            Err(Error::new(Kind::Recipe, fact)
                .or_place(&wanted.place)
                .expected(image.languages.join(", "))
                .cure("use one of these, or the medium of that language"))
        }
    }
}
