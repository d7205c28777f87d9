//! `[mirrors]`: where addresses are fetched from instead. One rule a prefix; the longest prefix wins.
//!
//! A mirror changes where bytes come from, never what proves them: locks and records keep the recipe's own address. Refuses to
//! lead from https to http, since that would take away what https proves.

use url::Url;

use super::fields::{Context, Fields};
use super::prefix::{EXAMPLE, Prefix, prefix};
use super::reference::ImageReference;
use super::value::{Data, Entry};
use winimg_base::text::Place;

/// The rules of a recipe, of a host, or of both.
#[derive(Clone, Debug, Default)]
pub struct Mirrors(Vec<Mirror>);

/// One rule.
#[derive(Clone, Debug)]
struct Mirror {
    from: Prefix,
    to: Prefix,
}

impl Mirrors {
    /// These and others; of two rules about one prefix these stand.
    pub fn over(&self, others: &Self) -> Self {
        Self(self.0.iter().chain(&others.0).cloned().collect())
    }

    /// The rule for this address, of those that `begin` it.
    fn longest(&self, begins: impl Fn(&Prefix) -> bool) -> Option<&Mirror> {
        let all = self.0.iter().filter(|mirror| begins(&mirror.from));
        // Of equal ones the last of the reversed order is the first.
        all.rev().max_by_key(|mirror| mirror.from.text().len())
    }

    /// Where the address is fetched from instead. What stands behind its `?` may be a secret, and goes to its own host alone.
    pub fn url(&self, url: &Url) -> Option<Url> {
        let mut bare = url.clone();
        bare.set_query(None);
        bare.set_fragment(None);
        let begins = |prefix: &Prefix| match prefix {
            Prefix::Web(prefix) => bare.as_str().starts_with(prefix.as_str()),
            Prefix::Registry { .. } => false,
        };
        let Mirror { from, to } = self.longest(begins)?;
        let rest = bare.as_str().strip_prefix(from.text())?;
        let mut there = Url::parse(&format!("{}{rest}", to.text())).ok()?;
        if there.origin() == url.origin() {
            there.set_query(url.query());
        }
        Some(there)
    }

    /// Where the image is fetched from instead; it keeps its own name.
    pub fn image(&self, image: &ImageReference) -> Option<ImageReference> {
        let reference = image.reference();
        let whole = format!("{}/{}", reference.registry(), reference.repository());
        let begins = |prefix: &Prefix| match prefix {
            Prefix::Registry { plain, place } => {
                *plain == image.is_plain_http() && whole.starts_with(place.as_str())
            }
            Prefix::Web(_) => false,
        };
        let Mirror { from, to } = self.longest(begins)?;
        let rest = whole.strip_prefix(from.text())?;
        let scheme = match to {
            Prefix::Registry { plain: true, .. } => "http://",
            _ => "",
        };
        let tag = reference.tag().map(|tag| format!(":{tag}"));
        let digest = reference.digest().map(|digest| format!("@{digest}"));
        let ends = [tag, digest].into_iter().flatten().collect::<String>();
        ImageReference::parse(&format!("{scheme}{}{rest}{ends}", to.text())).ok()
    }
}

/// The rules that are right.
pub(super) fn mirrors(top: &Fields<'_>) -> Mirrors {
    let entries = top.map("mirrors").iter();
    Mirrors(entries.filter_map(|entry| mirror(top.cx, entry)).collect())
}

fn mirror(cx: &Context<'_>, entry: &Entry) -> Option<Mirror> {
    let complain = |place: &Place, fact: &str, help: &str| cx.error(fact, place, "", help);
    let from = prefix(&entry.key).map_err(|(fact, help)| complain(&entry.key_place, &fact, help));
    let place = &entry.value.place;
    let to = match &entry.value.data {
        Data::String(text) => prefix(text).map_err(|(fact, help)| complain(place, &fact, help)),
        Data::Unknown => return None,
        _ => {
            let fact = format!("a mirror is a string, not {}", entry.value.kind());
            complain(place, &fact, EXAMPLE);
            return None;
        }
    };
    let (from, to) = (from.ok()?, to.ok()?);
    if std::mem::discriminant(&from) != std::mem::discriminant(&to) {
        let fact = "files and container images cannot be mirrored by each other";
        complain(
            place,
            fact,
            "write both with http(s)://, or both with oci://",
        );
        return None;
    }
    if from.is_secure() && to.is_exposed() {
        let fact = "the mirror leads from https to http";
        let help = "anyone on the way could change what comes: give the mirror a certificate";
        complain(place, fact, help);
        return None;
    }
    Some(Mirror { from, to })
}
