//! Location of a template in a vCenter's inventory, by names. Pure.
//!
//! Templates are named as in Cluster API's provider: by name, or by the path from the datacenter.
//! Refuses names that are too long for the suffixes of the temporary machine and of a replaced
//! template.

use winimg_base::error::{Error, Kind, Result};

/// Maximum number of characters in a name: vCenter allows 80, minus winimg's suffixes.
const LONGEST: usize = 60;

/// The given names; a missing one defaults to the only object of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplatePlace {
    pub datacenter: Option<String>,
    /// Path below the datacenter's root folder of machines.
    pub folders: Vec<String>,
    pub name: String,
    pub cluster: Option<String>,
    /// Path below the cluster's root pool.
    pub pools: Vec<String>,
    pub datastore: Option<String>,
    /// Network of the template's cards.
    pub network: Option<String>,
}

impl TemplatePlace {
    /// Parses the options. `template`: `NAME`, `FOLDER/NAME` or `/DATACENTER/vm/FOLDER/NAME`;
    /// `cluster`: `CLUSTER` or `CLUSTER/POOL`.
    pub fn parse(
        template: &str,
        cluster: Option<&str>,
        datastore: Option<&str>,
        network: Option<&str>,
    ) -> Result<Self> {
        let mut faults = Vec::new();
        let path = path(template);
        if path.is_none() {
            faults.push(format!(
                "--template {template}: expected a name of at most {LONGEST} characters, or its \
                 path such as /dc1/vm/templates/node-1.31"
            ));
        }
        let words = cluster.map(|text| text.split('/').collect::<Vec<_>>());
        let mut names = words.into_iter().flatten();
        let cluster_name = names.next();
        let pools: Vec<&str> = names.collect();
        for (option, name) in std::iter::empty()
            .chain(cluster_name.map(|name| ("--cluster", name)))
            .chain(pools.iter().map(|name| ("--cluster", *name)))
            .chain(datastore.map(|name| ("--datastore", name)))
            .chain(network.map(|name| ("--network", name)))
        {
            if !is_listed(name) {
                faults.push(format!("{option}: expected a name, found \"{name}\""));
            }
        }
        match path {
            Some((datacenter, folders, name)) if faults.is_empty() => Ok(Self {
                datacenter: datacenter.map(str::to_owned),
                folders: folders.into_iter().map(str::to_owned).collect(),
                name: name.to_owned(),
                cluster: cluster_name.map(str::to_owned),
                pools: pools.into_iter().map(str::to_owned).collect(),
                datastore: datastore.map(str::to_owned),
                network: network.map(str::to_owned),
            }),
            _ => Err(Error::new(Kind::Recipe, "the template's location is invalid").lines(faults)),
        }
    }
}

/// Parses a path into datacenter, folders and name.
fn path(text: &str) -> Option<(Option<&str>, Vec<&str>, &str)> {
    let (datacenter, rest) = match text.strip_prefix('/') {
        None => (None, text),
        Some(path) => {
            let (datacenter, path) = path.split_once('/')?;
            (Some(datacenter), path.strip_prefix("vm/")?)
        }
    };
    let mut folders: Vec<&str> = rest.split('/').collect();
    let name = folders.pop()?;
    let is_one = is_name(name)
        && name.chars().count() <= LONGEST
        && datacenter
            .iter()
            .chain(&folders)
            .all(|name| is_listed(name));
    is_one.then_some((datacenter, folders, name))
}

/// Returns true for a name that can be in the inventory.
fn is_listed(name: &str) -> bool {
    !name.is_empty() && !name.contains(char::is_control)
}

/// Returns true for a name that needs no escaping in a library or an address.
pub fn is_name(text: &str) -> bool {
    let has_special = text.contains(|c: char| c.is_control() || r#"\%?#*"<>|:@"#.contains(c));
    !text.is_empty() && !text.starts_with('.') && text.trim() == text && !has_special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_named_as_by_cluster_api() {
        let parsed = |text: &str| {
            let place = TemplatePlace::parse(text, None, None, None).unwrap();
            (place.datacenter, place.folders.join("/"), place.name)
        };
        let name = |name: &str| name.to_owned();
        assert_eq!(parsed("node"), (None, name(""), name("node")));
        assert_eq!(parsed("a b/node"), (None, name("a b"), name("node")));
        assert_eq!(
            parsed("/dc1/vm/node"),
            (Some(name("dc1")), name(""), name("node"))
        );
        assert_eq!(
            parsed("/dc1/vm/a/b/node"),
            (Some(name("dc1")), name("a/b"), name("node"))
        );
        let place = TemplatePlace::parse("node", Some("c1/nodes/windows"), Some("ds"), None);
        let place = place.unwrap();
        assert_eq!(place.cluster.as_deref(), Some("c1"));
        assert_eq!(place.pools, ["nodes", "windows"]);
        assert_eq!(place.datastore.as_deref(), Some("ds"));
    }

    #[test]
    fn what_is_malformed_is_named_all_at_once() {
        let error = TemplatePlace::parse("/dc1/node", Some("c1/"), Some(""), None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the template's location is invalid\n  \
             | --template /dc1/node: expected a name of at most 60 characters, or its path such as /dc1/vm/templates/node-1.31\n  \
             | --cluster: expected a name, found \"\"\n  \
             | --datastore: expected a name, found \"\""
        );
        let long = "n".repeat(61);
        for text in ["", "a/", "/node", "/dc1/vm/", "//vm/node", "a%node", &long] {
            assert!(
                TemplatePlace::parse(text, None, None, None).is_err(),
                "{text}"
            );
        }
    }
}
