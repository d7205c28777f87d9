//! What publishers list after the versions of a recipe. For `outdated` and `lock`.
//!
//! A list says what there is, not that it is good; nothing is proved here.

use std::collections::BTreeMap;

use url::Url;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::redact;
use winimg_recipe::lock::{Successors, published, successors};
use winimg_recipe::recipe::{Recipe, Versions};
use winimg_supply::fetch::documents::{Document, Documents};

use super::documents::Dead;

/// Bytes of a list of versions. GitHub's feeds have a tenth.
const LIMIT: u64 = 8 << 20;

/// A component that says where its versions are listed.
pub struct Listed {
    pub name: String,
    pub version: String,
    /// The list, without secrets.
    pub list: String,
    /// What comes after the version, or why nobody knows.
    pub later: Result<Successors, String>,
}

/// Asks for the lists of the components that `wanted` names; by their names.
pub fn listed(
    recipe: &Recipe,
    wanted: &dyn Fn(&str) -> bool,
    documents: &Documents,
) -> Result<Vec<Listed>> {
    let mut lists: BTreeMap<&Url, Vec<(&str, &str, &Versions)>> = BTreeMap::new();
    for component in &recipe.components {
        let name = component.name.value.as_str();
        if let (Some(versions), Some(version)) = (&component.versions, &component.version)
            && wanted(name)
        {
            let of = lists.entry(&versions.url.value).or_default();
            of.push((name, version, versions));
        }
    }
    let ask = |(url, of): (&&Url, &Vec<(&str, &str, &Versions)>)| Document {
        what: format!(
            "the versions of {}",
            of.first().map_or("", |(name, ..)| name)
        ),
        url: (*url).clone(),
        limit: LIMIT,
    };
    let answers = documents.read(lists.iter().map(ask).collect())?;
    let mut all = Vec::new();
    for ((url, of), answer) in lists.iter().zip(answers) {
        let list = match answer {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err("there is no such list".to_string()),
            Err(error) if error.kind() == Kind::Cancelled => return Err(error),
            Err(error) => Err(error.fact().to_string()),
        };
        for (name, version, versions) in of {
            let later = list.as_deref().map_err(String::clone).and_then(|bytes| {
                let said = published(versions, bytes);
                let said = said.map_err(|why| format!("the list of versions {why}"))?;
                successors(version, &said).map_err(|why| format!("the version {version} {why}"))
            });
            all.push(Listed {
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

/// The error for lists and addresses without an answer, if there are any.
pub fn unanswered(all: &[Dead]) -> Result<()> {
    let fact = match all.len() {
        0 => return Ok(()),
        1 => "1 list of versions or address gave no answer".to_string(),
        n => format!("{n} lists of versions or addresses gave no answer"),
    };
    let lines = all
        .iter()
        .map(|dead| format!("{}: {}", dead.name, dead.why));
    Err(Error::new(Kind::Fetch, fact).lines(lines))
}
