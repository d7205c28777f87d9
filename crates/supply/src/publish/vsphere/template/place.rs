//! Where a template lies in a vCenter's inventory, as people name it. Pure.
//!
//! A template is named as Cluster API's provider names it: by its name, or by its path from the datacenter on. Refuses names that the
//! machine it is made of, or a template that is kept beside it, could not have with theirs.

use winimg_base::error::{Error, Kind, Result};

use super::super::place::is_name;

/// The characters of a name: vCenter takes 80, and winimg's own endings are the rest.
const LONGEST: usize = 60;

/// What is named of it; the rest is taken where vCenter has one alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplatePlace {
    pub datacenter: Option<String>,
    /// From the datacenter's own folder of machines on.
    pub folders: Vec<String>,
    pub name: String,
    pub cluster: Option<String>,
    /// From the cluster's own pool on.
    pub pools: Vec<String>,
    pub datastore: Option<String>,
    /// Of the cards of the template.
    pub network: Option<String>,
}

impl TemplatePlace {
    /// `template`: `NAME`, `FOLDER/NAME` or `/DATACENTER/vm/FOLDER/NAME`; `cluster`: `CLUSTER` or `CLUSTER/POOL`.
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
                "--template {template}: expected a name of at most {LONGEST} characters, or its path such as /dc1/vm/templates/node-1.31"
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
        let owned = |name: &str| name.to_owned();
        match path {
            Some((datacenter, folders, name)) if faults.is_empty() => Ok(Self {
                datacenter: datacenter.map(owned),
                folders: folders.into_iter().map(owned).collect(),
                name: name.to_owned(),
                cluster: cluster_name.map(owned),
                pools: pools.into_iter().map(owned).collect(),
                datastore: datastore.map(owned),
                network: network.map(owned),
            }),
            _ => Err(Error::new(Kind::Recipe, "the template's place is malformed").lines(faults)),
        }
    }
}

/// A datacenter, folders and a name.
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

/// What may stand in a list of the inventory.
fn is_listed(name: &str) -> bool {
    !name.is_empty() && !name.contains(char::is_control)
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
            "the template's place is malformed\n  \
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
