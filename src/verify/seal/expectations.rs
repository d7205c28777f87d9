//! Expectations of the recipe's own steps for a sealed image, and its targets.

use winimg_recipe::plan::{ImageCheck, SEALED, StepChecks};
use winimg_recipe::target::TargetSpec;
use winimg_recipe::{RegistryKey, RegistryValueData};

use super::super::image::InspectedImage;
use super::super::system::STATE;

pub struct SealExpectations<'a> {
    /// `None` if the steps are unknown.
    pub steps: Option<&'a [StepChecks]>,
    pub targets: &'a [&'a TargetSpec],
}

impl<'a> SealExpectations<'a> {
    fn iter_checks(&self) -> impl Iterator<Item = &'a ImageCheck> + use<'a> {
        self.steps.into_iter().flatten().flat_map(|s| &s.checks)
    }

    /// Returns true if a step seals the image; if the steps are unknown, decides by its registry.
    pub fn is_sealed(&self, image: &InspectedImage<'_>) -> bool {
        if self.steps.is_none() {
            let state = image.read_text(&STATE, "ImageState");
            return state.is_ok_and(|state| state.as_deref() == Some(SEALED));
        }
        self.iter_checks().any(|check| match check {
            ImageCheck::Registry { key, value, data } => {
                is(key, &STATE)
                    && value.as_deref() == Some("ImageState")
                    && matches!(data, RegistryValueData::Sz(text) if text == SEALED)
            }
            _ => false,
        })
    }

    /// Returns true if a step writes or requires the file.
    pub fn expects_file(&self, file: &str) -> bool {
        self.iter_checks().any(|check| match check {
            ImageCheck::File { path, .. } | ImageCheck::Exists { path } => {
                path.as_str().eq_ignore_ascii_case(file)
            }
            _ => false,
        })
    }

    /// Returns true if a step requires that the file does not exist.
    pub fn refuses_file(&self, file: &str) -> bool {
        self.iter_checks().any(|check| match check {
            ImageCheck::Missing { path } => path.as_str().eq_ignore_ascii_case(file),
            _ => false,
        })
    }

    /// Returns true if a step sets the value or requires that it does not exist.
    pub fn has_value(&self, key: &RegistryKey, name: &str) -> bool {
        self.iter_checks().any(|check| match check {
            ImageCheck::Registry { key: of, value, .. } => {
                let value = value.as_deref().unwrap_or_default();
                is(of, key) && value.eq_ignore_ascii_case(name)
            }
            _ => false,
        })
    }

    /// Returns true if a step sets the service's start type.
    pub fn has_start_type(&self, service: &str) -> bool {
        self.iter_checks().any(|check| match check {
            ImageCheck::Service(of) => of.start.is_some() && of.name.eq_ignore_ascii_case(service),
            _ => false,
        })
    }
}

fn is(a: &RegistryKey, b: &RegistryKey) -> bool {
    a.to_string().eq_ignore_ascii_case(&b.to_string())
}
