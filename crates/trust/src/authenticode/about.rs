//! What a signed program or package says of itself: which product it is, as which file it was made, and its version.
//!
//! A publisher signs all of its programs with one certificate, and the old ones stay signed: who can replace a download may
//! put another one, or the one of three years ago, in its place. What a file says of itself is covered by its signature, and is
//! compared here with what the recipe names. Refuses a file that says two things, and one that says nothing of what is asked.
//! (Microsoft: VERSIONINFO resource, VS_VERSIONINFO, PE Format "The .rsrc Section"; Windows Installer: Property table)

mod program;

use std::fmt;

use super::kind::Kind;
use super::source::Source;
use crate::{Reason, Refusal};

/// What a file has to say of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// ProductName.
    pub product: Option<String>,
    /// OriginalFilename; no package has one.
    pub original_filename: Option<String>,
    /// The lowest version that is taken.
    pub min_version: Option<Version>,
}

/// `1.2.3.4`, as Windows compares versions: of a program its file version, of a package ProductVersion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version([u16; 4]);

impl Version {
    /// One to four numbers with dots, each below 65536; those that lack are 0.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = [0; 4];
        for (at, part) in text.split('.').enumerate() {
            let is_number = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            *numbers.get_mut(at)? = part.parse().ok().filter(|_| is_number)?;
        }
        Some(Self(numbers))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.0;
        write!(f, "{a}.{b}.{c}.{d}")
    }
}

/// What a file says of itself, each as often as it says it.
#[derive(Debug, Default)]
struct Said {
    products: Vec<String>,
    original_filenames: Vec<String>,
    versions: Vec<Version>,
}

impl About {
    /// The pins in words, as records and locks name them; none where nothing is asked.
    pub fn words(&self) -> Vec<String> {
        let product = self.product.as_ref().map(|text| format!("product {text}"));
        let name = self.original_filename.as_ref();
        let name = name.map(|text| format!("original file name {text}"));
        let version = self.min_version.map(|v| format!("version {v} or later"));
        [product, name, version].into_iter().flatten().collect()
    }

    /// The file says all that is asked for.
    pub(super) fn check(&self, kind: Kind, file: &mut Source) -> Result<(), Refusal> {
        if *self == Self::default() {
            return Ok(());
        }
        let said = match kind {
            Kind::Pe => program::said(file)?,
            Kind::Msi => package(file)?,
            Kind::Cab | Kind::Catalog | Kind::Script => {
                return Err(Reason::Unsupported
                    .refusal("the recipe asks what the file says of itself, and this kind says nothing")
                    .expected("a program with version information, or a package of Windows Installer")
                    .cure("leave `product`, `original_filename` and `min_version` out, and pin its SHA-256"));
            }
        };
        let text = |pin: &Option<String>, what: &str, found: &[String]| match pin {
            Some(pin) => is_said(what, pin, found),
            None => Ok(()),
        };
        text(&self.product, "product", &said.products)?;
        text(
            &self.original_filename,
            "original file name",
            &said.original_filenames,
        )?;
        match (self.min_version, said.versions.iter().min()) {
            (Some(wanted), Some(found)) if *found < wanted => Err(Reason::OtherProduct
                .refusal("it is well signed, and older than the recipe takes")
                .expected(format_args!("version {wanted} or later"))
                .found(format_args!("version {found}"))
                .cure("see what `url` leads to; the publisher's older files stay well signed")),
            (Some(wanted), None) => Err(silent("version", &format!("version {wanted} or later"))),
            _ => Ok(()),
        }
    }
}

/// Every time that the file says it, it says this. Names of files have no case on Windows, and products none that matters.
fn is_said(what: &str, pin: &str, found: &[String]) -> Result<(), Refusal> {
    if found.is_empty() {
        return Err(silent(what, pin));
    }
    if found.iter().all(|said| said.eq_ignore_ascii_case(pin)) {
        return Ok(());
    }
    let shown: Vec<_> = found.iter().map(crate::reading::shown).collect();
    Err(Reason::OtherProduct
        .refusal(format!(
            "it is well signed, and its {what} is another than the recipe names"
        ))
        .expected(format_args!("{what} {pin}"))
        .found(shown.join(", "))
        .cure("see what `url` leads to: it may be another program of the same publisher"))
}

fn silent(what: &str, pin: &str) -> Refusal {
    Reason::OtherProduct
        .refusal(format!(
            "it does not say its {what}, which the recipe asks for"
        ))
        .expected(pin)
        .cure("leave that pin out, and pin its SHA-256")
}

/// Of a package the rows of its Property table.
fn package(file: &mut Source) -> Result<Said, Refusal> {
    let unread = |error: std::io::Error| {
        super::compound::malformed(format!(
            "its properties are not as Windows Installer has them: {error}"
        ))
    };
    let mut package = msi::Package::open(file).map_err(unread)?;
    let rows = package
        .select_rows(msi::Select::table("Property"))
        .map_err(unread)?;
    let mut said = Said::default();
    for row in rows {
        if !row.has_column("Property") || !row.has_column("Value") {
            return Err(super::compound::malformed(
                "its table of properties has no values",
            ));
        }
        let (Some(name), Some(value)) = (row["Property"].as_str(), row["Value"].as_str()) else {
            continue;
        };
        match name {
            "ProductName" => said.products.push(value.to_string()),
            "ProductVersion" => said.versions.extend(Version::parse(value)),
            _ => {}
        }
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let version = |text: &str| Version::parse(text).unwrap();
        assert!(version("1.10") > version("1.9.99.1"));
        assert_eq!(version("1.2"), version("1.2.0.0"));
        assert_eq!(version("7.0.1").to_string(), "7.0.1.0");
        for bad in ["", "1.", "1.2.3.4.5", "65536", "1.x", "v1", "+1"] {
            assert_eq!(Version::parse(bad), None, "{bad}");
        }
    }
}
