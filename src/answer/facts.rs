//! What an answer file is made from.

use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Secret;
use winimg_formats::wim::{MediaFacts, Release};
use winimg_recipe::recipe::{Firmware, MachineWish, Media, SetupWish};

use super::keys;

/// Everything that a template can use. `Debug` shows no password.
#[derive(Clone, Debug)]
pub struct Facts {
    pub release: Release,
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
    /// Folders under `drv` on the answer CD; none: Setup is told of no driver path.
    pub drivers: Vec<String>,
    /// The machine has a TPM, so Windows could encrypt its disk by itself.
    pub tpm: bool,
}

impl Facts {
    /// Settles a recipe's wishes against an install medium: image, release, key, language.
    pub fn new(
        medium: &MediaFacts,
        media: &Media,
        machine: &MachineWish,
        setup: &SetupWish,
        administrator_password: Secret,
    ) -> Result<Self> {
        let image = medium.images.pick(&media.image)?;
        let same_name = medium
            .images
            .images
            .iter()
            .filter(|i| i.name == image.name)
            .count();
        if same_name > 1 {
            return Err(Error::new(
                Kind::Unproved,
                format!(
                    "{same_name} images of this medium are called {}",
                    image.name
                ),
            )
            .at(&medium.images.from)
            .lines(medium.images.list())
            .cure("answer files choose an image by its name: use another medium"));
        }
        let release = Release::of_image(image).map_err(|e| e.from_place(&media.image.place))?;
        let eval = medium.is_eval(image);
        let language = &media.language;
        let there = &image.languages;
        let spelled = there
            .iter()
            .find(|l| l.eq_ignore_ascii_case(&language.value));
        if spelled.is_none() && !there.is_empty() {
            return Err(Error::new(
                Kind::Recipe,
                format!("{} has no language {}", image.name, language.value),
            )
            .from_place(&language.place)
            .expected(there.join(", "))
            .cure("use one of these, or the medium of that language"));
        }
        Ok(Self {
            release,
            firmware: machine.firmware,
            image_name: image.name.clone(),
            eval,
            product_key: keys::product_key(
                media.product_key.as_ref(),
                release,
                &image.edition(),
                eval,
            )?,
            language: spelled.unwrap_or(&language.value).clone(),
            time_zone: media.time_zone.value.clone(),
            computer_name: setup.computer_name.clone(),
            administrator_password,
            drivers: setup.drivers.clone(),
            tpm: machine.tpm,
        })
    }
}
