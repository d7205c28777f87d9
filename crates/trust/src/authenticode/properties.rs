//! Checks the product name, original file name and version of a signed program or package.
//!
//! A publisher signs all of its programs with one certificate, and old versions stay signed: an
//! attacker who can replace a download can use another signed program, or an old version. The
//! file's own properties are covered by its signature, and are compared here with the recipe.
//! Refuses a file with contradicting properties, and one without the requested property.
//! (Microsoft: VERSIONINFO resource, VS_VERSIONINFO, PE Format "The .rsrc Section"; Windows
//! Installer: Property table)

mod program;

use std::fmt;

use super::kind::SignedFileKind;
use super::source::SignedSource;
use crate::{RefusalReason, SignatureRefusal};

/// Required properties of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinnedProperties {
    /// ProductName.
    pub product: Option<String>,
    /// OriginalFilename; packages do not have one.
    pub original_filename: Option<String>,
    /// The lowest accepted version.
    pub min_version: Option<FileVersion>,
}

/// A version as Windows compares them, `1.2.3.4`: the file version of a program, the ProductVersion
/// of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileVersion([u16; 4]);

impl FileVersion {
    /// Parses one to four numbers with dots, each below 65536; missing numbers are 0.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = [0; 4];
        for (at, part) in text.split('.').enumerate() {
            let is_number = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            *numbers.get_mut(at)? = part.parse().ok().filter(|_| is_number)?;
        }
        Some(Self(numbers))
    }
}

impl fmt::Display for FileVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.0;
        write!(f, "{a}.{b}.{c}.{d}")
    }
}

/// Properties of a file, with every occurrence.
#[derive(Debug, Default)]
struct FoundProperties {
    products: Vec<String>,
    original_filenames: Vec<String>,
    versions: Vec<FileVersion>,
}

impl PinnedProperties {
    /// Describes the pins for records and locks; empty without pins.
    pub fn describe(&self) -> Vec<String> {
        let product = self.product.as_ref().map(|text| format!("product {text}"));
        let name = self
            .original_filename
            .as_ref()
            .map(|text| format!("original file name {text}"));
        let version = self.min_version.map(|v| format!("version {v} or later"));
        [product, name, version].into_iter().flatten().collect()
    }

    /// Checks that the file has all required properties.
    pub(super) fn check(
        &self,
        kind: SignedFileKind,
        file: &mut SignedSource,
    ) -> Result<(), SignatureRefusal> {
        if *self == Self::default() {
            return Ok(());
        }
        let said = match kind {
            SignedFileKind::Pe => program::read_properties(file)?,
            SignedFileKind::Msi => read_package_properties(file)?,
            SignedFileKind::Cab | SignedFileKind::Catalog | SignedFileKind::Script => {
                return Err(RefusalReason::Unsupported
                    .refusal(
                        "the recipe pins properties of the file, but this kind of file has none",
                    )
                    .expected("a program with version information, or a Windows Installer package")
                    .cure(
                        "remove `product`, `original_filename` and `min_version`, and pin its \
                         SHA-256",
                    ));
            }
        };
        if let Some(pin) = &self.product {
            is_said("product", pin, &said.products)?;
        }
        if let Some(pin) = &self.original_filename {
            is_said("original file name", pin, &said.original_filenames)?;
        }
        match (self.min_version, said.versions.iter().min()) {
            (Some(wanted), Some(found)) if *found < wanted => Err(RefusalReason::OtherProduct
                .refusal(
                    "its signature is valid, but its version is lower than the recipe requires",
                )
                .expected(format_args!("version {wanted} or later"))
                .found(format_args!("version {found}"))
                .cure(
                    "check what `url` leads to; older files of the publisher have valid \
                    signatures, too",
                )),
            (Some(wanted), None) => Err(refuse_missing(
                "version",
                &format!("version {wanted} or later"),
            )),
            _ => Ok(()),
        }
    }
}

/// Checks that every occurrence of a property has the pinned value, ignoring case.
fn is_said(what: &str, pin: &str, found: &[String]) -> Result<(), SignatureRefusal> {
    if found.is_empty() {
        return Err(refuse_missing(what, pin));
    }
    if found.iter().all(|said| said.eq_ignore_ascii_case(pin)) {
        return Ok(());
    }
    let shown: Vec<_> = found.iter().map(crate::reading::sanitize).collect();
    Err(RefusalReason::OtherProduct
        .refusal(format!(
            "its signature is valid, but its {what} is not the one in the recipe"
        ))
        .expected(format_args!("{what} {pin}"))
        .found(shown.join(", "))
        .cure("check what `url` leads to: it may be a different program of the same publisher"))
}

fn refuse_missing(what: &str, pin: &str) -> SignatureRefusal {
    RefusalReason::OtherProduct
        .refusal(format!("it has no {what}, but the recipe pins it"))
        .expected(pin)
        .cure("remove that pin, and pin its SHA-256")
}

fn bad_properties(error: std::io::Error) -> SignatureRefusal {
    super::compound::malformed(format!(
        "its properties are not in the format of Windows Installer: {error}"
    ))
}

/// Reads the properties of a package from its Property table.
fn read_package_properties(file: &mut SignedSource) -> Result<FoundProperties, SignatureRefusal> {
    let mut package = msi::Package::open(file).map_err(bad_properties)?;
    let rows = package
        .select_rows(msi::Select::table("Property"))
        .map_err(bad_properties)?;
    let mut said = FoundProperties::default();
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
            "ProductVersion" => said.versions.extend(FileVersion::parse(value)),
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
        let version = |text: &str| FileVersion::parse(text).unwrap();
        assert!(version("1.10") > version("1.9.99.1"));
        assert_eq!(version("1.2"), version("1.2.0.0"));
        assert_eq!(version("7.0.1").to_string(), "7.0.1.0");
        for bad in ["", "1.", "1.2.3.4.5", "65536", "1.x", "v1", "+1"] {
            assert_eq!(FileVersion::parse(bad), None, "{bad}");
        }
    }
}
