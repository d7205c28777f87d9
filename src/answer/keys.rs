//! Product keys of answer files.
//!
//! Refuses a key for evaluation media, whose Setup stops at one, and a missing key for other media,
//! whose Setup asks for it.

use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Located;
use winimg_formats::wim::WindowsRelease;

/// Public KMS client setup keys (Microsoft: "KMS client activation and product keys"): Standard,
/// then Datacenter. Core and Desktop share them.
fn list_kms_keys(release: WindowsRelease) -> [&'static str; 2] {
    match release {
        WindowsRelease::Server2019 => [
            "N69G4-B89J2-4G8F4-WWYCC-J464C",
            "WMDGN-G9PQG-XVVXX-R3X43-63DFG",
        ],
        WindowsRelease::Server2022 => [
            "VDYBN-27WPP-V4HQT-9VMD4-VMK7H",
            "WX4NM-KYWYW-QJJR4-XV3QB-6VM33",
        ],
        WindowsRelease::Server2025 => [
            "TVRH6-WHNXV-R9WG3-9XRFY-MY832",
            "D764K-2NDRG-47T6Q-P8T8W-YP6DF",
        ],
    }
}

/// Returns true for a public KMS client key: it selects the edition and activates nothing.
pub fn is_published_key(key: &str) -> bool {
    let mut all = WindowsRelease::ALL.into_iter().flat_map(list_kms_keys);
    all.any(|known| known.eq_ignore_ascii_case(key))
}

/// Returns the key for an image; `None` for evaluation. `edition` is the result of
/// [`winimg_formats::wim::Image::edition`].
pub fn choose_product_key(
    given: Option<&Located<String>>,
    release: WindowsRelease,
    edition: &str,
    eval: bool,
) -> Result<Option<String>> {
    match given {
        None if eval => Ok(None),
        None => Err(key_error(
            "this medium is not for evaluation, so Windows Setup asks for a product key",
            "add product_key = \"kms\" to [media], or use a key of your own",
        )),
        Some(at) if eval => Err(key_error(
            "evaluation media take no product key",
            "remove product_key, or use the medium of your volume licence",
        )
        .or_place(&at.place)),
        Some(key) if key.value.eq_ignore_ascii_case("kms") => {
            let [standard, datacenter] = list_kms_keys(release);
            match edition {
                "standard" => Ok(Some(standard.into())),
                "datacenter" => Ok(Some(datacenter.into())),
                _ => Err(key_error(
                    &format!(
                        "no public KMS client key is known for {release}, edition \"{edition}\""
                    ),
                    "set product_key to the key itself",
                )
                .or_place(&key.place)),
            }
        }
        Some(key) if is_key(&key.value) => Ok(Some(key.value.clone())),
        // An invalid key may be a secret key with a typo: it is not quoted.
        Some(key) => Err(key_error(
            "this is not a product key",
            "a key has five groups of five uppercase letters and digits, separated by dashes; \
             \"kms\" selects the public KMS client key",
        )
        .or_place(&key.place)),
    }
}

fn key_error(fact: &str, cure: &str) -> Error {
    Error::new(Kind::Recipe, fact).cure(cure)
}

/// Returns true for five groups of five characters of `A`-`Z` and `0`-`9`.
pub(super) fn is_key(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.len() == 5
        && groups.iter().all(|g| {
            g.len() == 5
                && g.chars()
                    .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
        })
}
