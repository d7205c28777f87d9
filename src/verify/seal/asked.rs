//! What the recipe's steps say of a sealed image by themselves, and the places that it is for.

use winimg_recipe::plan::{Check, Expected, SEALED};
use winimg_recipe::recipe::target::Target;
use winimg_recipe::recipe::{RegistryData, RegistryKey};

use super::super::image::Image;
use super::super::system::STATE;

pub struct Asked<'a> {
    /// `None`: nobody says what the steps were.
    pub steps: Option<&'a [Expected]>,
    pub targets: &'a [&'a Target],
}

impl<'a> Asked<'a> {
    fn checks(&self) -> impl Iterator<Item = &'a Check> + use<'a> {
        self.steps.into_iter().flatten().flat_map(|s| &s.checks)
    }

    /// A step seals it; where nobody says, it is one that says so itself.
    pub fn seals(&self, image: &Image<'_>) -> bool {
        if self.steps.is_none() {
            let state = image.text(&STATE, "ImageState");
            return state.is_ok_and(|state| state.as_deref() == Some(SEALED));
        }
        self.checks().any(|check| match check {
            Check::Registry { key, value, data } => {
                is(key, &STATE)
                    && value.as_deref() == Some("ImageState")
                    && matches!(data, RegistryData::Sz(text) if text == SEALED)
            }
            _ => false,
        })
    }

    /// A step put the file there, or asks for it.
    pub fn wants(&self, file: &str) -> bool {
        self.checks().any(|check| match check {
            Check::File { path, .. } | Check::Exists { path } => {
                path.as_str().eq_ignore_ascii_case(file)
            }
            _ => false,
        })
    }

    /// A step expects that there is no such file.
    pub fn refuses(&self, file: &str) -> bool {
        self.checks().any(|check| match check {
            Check::Missing { path } => path.as_str().eq_ignore_ascii_case(file),
            _ => false,
        })
    }

    /// A step says what the value is, or that there is none.
    pub fn decides(&self, key: &RegistryKey, name: &str) -> bool {
        self.checks().any(|check| match check {
            Check::Registry { key: of, value, .. } => {
                let value = value.as_deref().unwrap_or_default();
                is(of, key) && value.eq_ignore_ascii_case(name)
            }
            _ => false,
        })
    }

    /// A step says how the service starts.
    pub fn starts(&self, service: &str) -> bool {
        self.checks().any(|check| match check {
            Check::Service(of) => of.start.is_some() && of.name.eq_ignore_ascii_case(service),
            _ => false,
        })
    }
}

fn is(a: &RegistryKey, b: &RegistryKey) -> bool {
    a.to_string().eq_ignore_ascii_case(&b.to_string())
}
