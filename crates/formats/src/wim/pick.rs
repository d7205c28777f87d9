//! Finds the image that a recipe selects with `image = "…"`.

use winimg_base::diag::find_most_similar;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::{Located, column_width};

use super::{WimArch, WimImage, WimImages};

impl WimImages {
    /// Finds the image for `selector`: by `<NAME>`, index, short edition (`datacenter-core`,
    /// `standard`), the name's last word (`SERVERDATACENTERCORE`) or display name, all ignoring
    /// case. It must be x64.
    pub fn pick(&self, selector: &Located<String>) -> Result<&WimImage> {
        let wanted = selector.value.trim();
        let image = match self.find_matching(wanted).as_slice() {
            [one] => *one,
            [] => return Err(self.report_no_match(wanted).or_place(&selector.place)),
            several => {
                return Err(self
                    .report_ambiguous(wanted, several)
                    .or_place(&selector.place));
            }
        };
        match image.arch {
            None | Some(WimArch::X64) => Ok(image),
            Some(other) => Err(Error::new(
                Kind::Recipe,
                format!("the image must be x64; {} is {other}", image.name),
            )
            .at(&self.from)
            .or_place(&selector.place)
            .cure("use the x64 install medium")),
        }
    }

    fn find_matching(&self, wanted: &str) -> Vec<&WimImage> {
        if let Ok(index) = wanted.parse::<u32>() {
            return self.images.iter().filter(|i| i.index == index).collect();
        }
        let short = normalize(wanted);
        let rules: [&dyn Fn(&WimImage) -> bool; 4] = [
            &|i| i.name.eq_ignore_ascii_case(wanted),
            &|i| i.display_name.eq_ignore_ascii_case(wanted),
            &|i| last_word(&i.name).eq_ignore_ascii_case(wanted),
            &|i| !i.edition_id.is_empty() && i.short_name() == short,
        ];
        rules
            .iter()
            .map(|rule| self.images.iter().filter(|i| rule(i)).collect::<Vec<_>>())
            .find(|found| !found.is_empty())
            .unwrap_or_default()
    }

    fn report_no_match(&self, wanted: &str) -> Error {
        let error = Error::new(
            Kind::Recipe,
            format!("the medium has no image \"{wanted}\""),
        )
        .at(&self.from)
        .lines(self.list());
        match self.find_nearest(wanted) {
            Some(near) => error.cure(format!("did you mean \"{near}\"?")),
            None => error.cure("use the name, the index or the short form of one of these"),
        }
    }

    fn report_ambiguous(&self, wanted: &str, several: &[&WimImage]) -> Error {
        let indexes: Vec<String> = several.iter().map(|i| i.index.to_string()).collect();
        Error::new(
            Kind::Recipe,
            format!(
                "\"{wanted}\" matches {} images of this medium",
                several.len()
            ),
        )
        .at(&self.from)
        .lines(self.list())
        .cure(format!("use the index: {}", indexes.join(" or ")))
    }

    /// Lists the images, one line each: `3 Windows Server 2022 SERVERDATACENTERCORE
    /// (datacenter-core)`.
    pub fn list(&self) -> Vec<String> {
        let width = column_width(self.images.iter().map(|i| i.name.chars().count()));
        self.images
            .iter()
            .map(|i| {
                let line = format!("{:>2}  {:width$}", i.index, i.name);
                if i.edition_id.is_empty() {
                    line.trim_end().to_string()
                } else {
                    format!("{line}  ({})", i.short_name())
                }
            })
            .collect()
    }

    /// Finds the most similar name or short form, if it is similar enough for a typo.
    fn find_nearest(&self, wanted: &str) -> Option<String> {
        let names = self
            .images
            .iter()
            .flat_map(|i| {
                [
                    i.short_name(),
                    i.name.clone(),
                    last_word(&i.name).to_string(),
                ]
            })
            .filter(|name| !name.is_empty());
        find_most_similar(wanted, names)
    }
}

/// Normalizes `Datacenter Core`, `datacenter_core` and `server-datacenter-core` to
/// `datacenter-core`, and `standard-desktop` to `standard`.
fn normalize(wanted: &str) -> String {
    let lower = wanted.to_lowercase();
    let words: Vec<&str> = lower
        .split([' ', '-', '_'])
        .filter(|w| {
            !matches!(
                *w,
                "" | "server" | "windows" | "desktop" | "experience" | "eval"
            )
        })
        .collect();
    words.join("-")
}

fn last_word(name: &str) -> &str {
    name.rsplit(' ').next().unwrap_or(name)
}
