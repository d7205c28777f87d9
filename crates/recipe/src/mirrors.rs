//! `[mirrors]`: alternative download locations. One rule per prefix; the longest prefix wins.
//!
//! A mirror changes where bytes come from, never their proofs: locks and records keep the recipe's
//! own address. Refuses to redirect from https to http, which would lose the protection of https.

use url::Url;

use crate::document::value::{TomlData, TomlEntry};
use crate::fields::{LoweringContext, TableReader};
use crate::model::prefix::{AddressPrefix, EXAMPLE, parse_prefix};
use crate::model::reference::ImageReference;
use winimg_base::text::Place;

/// The rules of a recipe, of a host, or of both.
#[derive(Clone, Debug, Default)]
pub struct Mirrors(Vec<MirrorRule>);

/// One rule.
#[derive(Clone, Debug)]
struct MirrorRule {
    from: AddressPrefix,
    to: AddressPrefix,
}

impl Mirrors {
    /// Combines these rules with others; for equal prefixes these win.
    pub fn merge(&self, others: &Self) -> Self {
        Self(self.0.iter().chain(&others.0).cloned().collect())
    }

    /// Returns the rule with the longest matching prefix.
    fn find_longest(&self, matches_prefix: impl Fn(&AddressPrefix) -> bool) -> Option<&MirrorRule> {
        self.0
            .iter()
            .filter(|mirror| matches_prefix(&mirror.from))
            // `max_by_key` returns the last of equal ones, so the order is reversed.
            .rev()
            .max_by_key(|mirror| mirror.from.as_text().len())
    }

    /// Returns the mirror of a URL. The query may be a secret, so only the original host gets it.
    pub fn resolve_url(&self, url: &Url) -> Option<Url> {
        let mut bare = url.clone();
        bare.set_query(None);
        bare.set_fragment(None);
        let MirrorRule { from, to } = self.find_longest(|prefix| match prefix {
            AddressPrefix::Web(prefix) => bare.as_str().starts_with(prefix.as_str()),
            AddressPrefix::Registry { .. } => false,
        })?;
        let rest = bare.as_str().strip_prefix(from.as_text())?;
        let mut mirrored = Url::parse(&format!("{}{rest}", to.as_text())).ok()?;
        if mirrored.origin() == url.origin() {
            mirrored.set_query(url.query());
        }
        Some(mirrored)
    }

    /// Returns the mirror of an image; the image keeps its own name.
    pub fn resolve_image(&self, image: &ImageReference) -> Option<ImageReference> {
        let reference = image.reference();
        let name = format!("{}/{}", reference.registry(), reference.repository());
        let MirrorRule { from, to } = self.find_longest(|prefix| match prefix {
            AddressPrefix::Registry { plain, place } => {
                *plain == image.is_plain_http() && name.starts_with(place.as_str())
            }
            AddressPrefix::Web(_) => false,
        })?;
        let rest = name.strip_prefix(from.as_text())?;
        let scheme = match to {
            AddressPrefix::Registry { plain: true, .. } => "http://",
            _ => "",
        };
        let tag = reference.tag().map(|tag| format!(":{tag}"));
        let digest = reference.digest().map(|digest| format!("@{digest}"));
        let ends = [tag, digest].into_iter().flatten().collect::<String>();
        ImageReference::parse(&format!("{scheme}{}{rest}{ends}", to.as_text())).ok()
    }
}

/// Reads the valid rules.
pub(crate) fn read_mirrors(top: &TableReader<'_>) -> Mirrors {
    let entries = top.map("mirrors").iter();
    Mirrors(entries.filter_map(|entry| mirror(top.cx, entry)).collect())
}

fn mirror(cx: &LoweringContext<'_>, entry: &TomlEntry) -> Option<MirrorRule> {
    let place = &entry.value.place;
    let from = read_prefix(cx, &entry.key, &entry.key_place);
    let to = match &entry.value.data {
        TomlData::String(text) => read_prefix(cx, text, place),
        TomlData::Unknown => return None,
        _ => {
            let fact = format!("a mirror is a string, not {}", entry.value.kind_name());
            cx.error(fact, place, "", EXAMPLE);
            return None;
        }
    };
    let (from, to) = (from?, to?);
    if std::mem::discriminant(&from) != std::mem::discriminant(&to) {
        let fact = "files and container images cannot mirror each other";
        let help = "write both with http(s)://, or both with oci://";
        cx.error(fact, place, "", help);
        return None;
    }
    if from.is_secure() && to.is_exposed() {
        let fact = "the mirror redirects from https to http";
        let help = "http can be modified in transit: use https for the mirror";
        cx.error(fact, place, "", help);
        return None;
    }
    Some(MirrorRule { from, to })
}

fn read_prefix(cx: &LoweringContext<'_>, text: &str, place: &Place) -> Option<AddressPrefix> {
    parse_prefix(text)
        .map_err(|(fact, help)| cx.error(fact, place, "", help))
        .ok()
}
