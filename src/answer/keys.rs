//! Which product key goes into an answer file.
//!
//! Refuses a key on evaluation media, which stops their Setup, and no key on others, which then ask for one.

use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Located;
use winimg_formats::wim::Release;

/// The public KMS client setup keys (Microsoft: "KMS client activation and product keys"): Standard, then Datacenter. Core and
/// Desktop share them.
fn kms(release: Release) -> [&'static str; 2] {
    match release {
        Release::Server2019 => [
            "N69G4-B89J2-4G8F4-WWYCC-J464C",
            "WMDGN-G9PQG-XVVXX-R3X43-63DFG",
        ],
        Release::Server2022 => [
            "VDYBN-27WPP-V4HQT-9VMD4-VMK7H",
            "WX4NM-KYWYW-QJJR4-XV3QB-6VM33",
        ],
        Release::Server2025 => [
            "TVRH6-WHNXV-R9WG3-9XRFY-MY832",
            "D764K-2NDRG-47T6Q-P8T8W-YP6DF",
        ],
    }
}

/// Whether everybody knows this key: it says which Windows is installed, and activates nothing by itself.
pub fn is_published_key(key: &str) -> bool {
    let mut all = Release::ALL.into_iter().flat_map(kms);
    all.any(|known| known.eq_ignore_ascii_case(key))
}

/// The key for an image; `None` for evaluation. `edition` as [`winimg_formats::wim::Image::edition`] gives it.
pub fn product_key(
    given: Option<&Located<String>>,
    release: Release,
    edition: &str,
    eval: bool,
) -> Result<Option<String>> {
    let wrong = |fact: &str, cure: &str| Error::new(Kind::Recipe, fact).cure(cure);
    match given {
        None if eval => Ok(None),
        None => Err(wrong(
            "this medium is not for evaluation, so Windows Setup asks for a product key",
            "add product_key = \"kms\" to [media], or give a key of yours",
        )),
        Some(at) if eval => Err(wrong(
            "evaluation media take no product key",
            "remove product_key, or use the medium of your volume licence",
        )
        .from_place(&at.place)),
        Some(key) if key.value.eq_ignore_ascii_case("kms") => {
            let [standard, datacenter] = kms(release);
            match edition {
                "standard" => Ok(Some(standard.into())),
                "datacenter" => Ok(Some(datacenter.into())),
                _ => Err(wrong(
                    &format!("no public KMS client key is known for {release}, edition \"{edition}\""),
                    "give the key itself",
                )
                .from_place(&key.place)),
            }
        }
        Some(key) if is_key(&key.value) => Ok(Some(key.value.clone())),
        // A wrong key may still be a secret key with a slip in it: it is not repeated.
        Some(key) => Err(wrong(
            "this is not a product key",
            "a key has five groups of five capital letters and digits with dashes between; \"kms\" takes the public KMS client key",
        )
        .from_place(&key.place)),
    }
}

/// Five groups of five of `A`-`Z`, `0`-`9`.
pub(super) fn is_key(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.len() == 5
        && groups.iter().all(|g| {
            g.len() == 5
                && g.chars()
                    .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit())
        })
}
