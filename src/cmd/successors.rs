//! Finds later versions in publishers' lists, for `outdated` and `lock`.
//!
//! The lists are not verified: they say which versions exist, not that they can be trusted.

use std::collections::BTreeMap;

use url::Url;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::redact;
use winimg_recipe::lock::{VersionSuccessors, find_successors, parse_published};
use winimg_recipe::{Recipe, VersionList};
use winimg_supply::fetch::documents::{Document, Documents};

use super::documents::DeadUrl;

/// Maximum size of a version list in bytes. GitHub's feeds have a tenth of it.
const LIMIT: u64 = 8 << 20;

/// A component with a version list.
pub struct ListedComponent {
    pub name: String,
    pub version: String,
    /// URL of the list, without secrets.
    pub list: String,
    /// Later versions, or the reason why they are unknown.
    pub later: Result<VersionSuccessors, String>,
}

/// Reads the lists of the components that `wanted` selects. Returns the components sorted by name.
pub fn read_lists(
    recipe: &Recipe,
    wanted: &dyn Fn(&str) -> bool,
    documents: &Documents,
) -> Result<Vec<ListedComponent>> {
    let mut lists: BTreeMap<&Url, Vec<(&str, &str, &VersionList)>> = BTreeMap::new();
    for component in &recipe.components {
        let name = component.name.value.as_str();
        if let (Some(versions), Some(version)) = (&component.versions, &component.version)
            && wanted(name)
        {
            let of = lists.entry(&versions.url.value).or_default();
            of.push((name, version, versions));
        }
    }
    let requests = lists
        .iter()
        .map(|(url, of)| Document {
            what: format!(
                "the versions of {}",
                of.first().map_or("", |(name, ..)| name)
            ),
            url: (*url).clone(),
            limit: LIMIT,
        })
        .collect();
    let answers = documents.read(requests)?;
    let mut all = Vec::new();
    for ((url, of), answer) in lists.iter().zip(answers) {
        let list = match answer {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err("the list does not exist".to_string()),
            Err(error) if error.kind() == Kind::Cancelled => return Err(error),
            Err(error) => Err(error.fact().to_string()),
        };
        for (name, version, versions) in of {
            let later = list.as_deref().map_err(String::clone).and_then(|bytes| {
                let listed = parse_published(versions, bytes)
                    .map_err(|why| format!("the version list {why}"))?;
                find_successors(version, &listed)
                    .map_err(|why| format!("the version {version} {why}"))
            });
            all.push(ListedComponent {
                name: name.to_string(),
                version: version.to_string(),
                list: redact(url.as_str()),
                later,
            });
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// Fails if some lists or URLs could not be reached.
pub fn fail_if_unreachable(all: &[DeadUrl]) -> Result<()> {
    let fact = match all.len() {
        0 => return Ok(()),
        1 => "1 version list or URL could not be reached".to_string(),
        n => format!("{n} version lists or URLs could not be reached"),
    };
    let lines = all
        .iter()
        .map(|dead| format!("{}: {}", dead.name, dead.why));
    Err(Error::new(Kind::Fetch, fact).lines(lines))
}
