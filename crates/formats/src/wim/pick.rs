//! Finds the image that a recipe means by `image = "…"`.

use winimg_base::diag::most_alike;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::{Located, column_width};

use super::{Arch, Image, WimImages};

impl WimImages {
    /// The image that `selector` names: by `<NAME>`, by index, by short edition (`datacenter-core`, `standard`), by the
    /// name's last word (`SERVERDATACENTERCORE`) or by display name; all without regard to case. It must be x64.
    pub fn pick(&self, selector: &Located<String>) -> Result<&Image> {
        let wanted = selector.value.trim();
        let image = match self.matching(wanted).as_slice() {
            [one] => *one,
            [] => return Err(self.nothing(wanted).from_place(&selector.place)),
            several => return Err(self.ambiguous(wanted, several).from_place(&selector.place)),
        };
        match image.arch {
            None | Some(Arch::X64) => Ok(image),
            Some(other) => Err(Error::new(
                Kind::Recipe,
                format!("the image must be x64; {} is {other}", image.name),
            )
            .at(&self.from)
            .from_place(&selector.place)
            .cure("use the x64 install medium")),
        }
    }

    fn matching(&self, wanted: &str) -> Vec<&Image> {
        if let Ok(index) = wanted.parse::<u32>() {
            return self.images.iter().filter(|i| i.index == index).collect();
        }
        let short = normal(wanted);
        let rules: [&dyn Fn(&Image) -> bool; 4] = [
            &|i| i.name.eq_ignore_ascii_case(wanted),
            &|i| i.display_name.eq_ignore_ascii_case(wanted),
            &|i| last_word(&i.name).eq_ignore_ascii_case(wanted),
            &|i| !i.edition_id.is_empty() && i.short() == short,
        ];
        rules
            .iter()
            .map(|rule| self.images.iter().filter(|i| rule(i)).collect::<Vec<_>>())
            .find(|found| !found.is_empty())
            .unwrap_or_default()
    }

    fn nothing(&self, wanted: &str) -> Error {
        let error = Error::new(
            Kind::Recipe,
            format!("the medium has no image \"{wanted}\""),
        )
        .at(&self.from)
        .lines(self.list());
        match self.nearest(wanted) {
            Some(near) => error.cure(format!("did you mean \"{near}\"?")),
            None => error.cure("give one of these by its name, its index or its short form"),
        }
    }

    fn ambiguous(&self, wanted: &str, several: &[&Image]) -> Error {
        let indexes: Vec<String> = several.iter().map(|i| i.index.to_string()).collect();
        Error::new(
            Kind::Recipe,
            format!("\"{wanted}\" means {} images of this medium", several.len()),
        )
        .at(&self.from)
        .lines(self.list())
        .cure(format!("give the index: {}", indexes.join(" or ")))
    }

    /// One line an image: `3  Windows Server 2022 SERVERDATACENTERCORE  (datacenter-core)`.
    pub fn list(&self) -> Vec<String> {
        let width = column_width(self.images.iter().map(|i| i.name.chars().count()));
        self.images
            .iter()
            .map(|i| {
                let line = format!("{:>2}  {:width$}", i.index, i.name);
                if i.edition_id.is_empty() {
                    line.trim_end().to_string()
                } else {
                    format!("{line}  ({})", i.short())
                }
            })
            .collect()
    }

    /// The name or short form that is near enough to be a slip of the pen.
    fn nearest(&self, wanted: &str) -> Option<String> {
        let names = self
            .images
            .iter()
            .flat_map(|i| [i.short(), i.name.clone(), last_word(&i.name).to_string()])
            .filter(|name| !name.is_empty());
        most_alike(wanted, names)
    }
}

/// `Datacenter Core`, `datacenter_core` and `server-datacenter-core` are `datacenter-core`; `standard-desktop` is
/// `standard`.
fn normal(wanted: &str) -> String {
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
