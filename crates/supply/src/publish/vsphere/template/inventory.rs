//! Resolves the names of a template's location in a vCenter's inventory. (vSphere Automation API:
//! datacenter, cluster, folder, resource pool, datastore, network, vm)
//!
//! A missing name defaults to the only object of its kind. Refuses, all at once and before anything
//! is sent, unknown and ambiguous names, missing names, and a folder with a machine of the
//! template's name.

use reqwest::Method;
use serde::de::DeserializeOwned;
use url::form_urlencoded;

use super::super::answers::{ClusterInfo, DatacenterInfo, InventoryEntry};
use super::super::session::VcenterSession;
use super::super::template_place::TemplatePlace;
use crate::store::ProgressWatch;
use winimg_base::display_text;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::count;

/// Maximum number of names in a message.
const SHOWN: usize = 12;

/// A resolved location by vCenter's IDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedLocation {
    pub folder: String,
    pub pool: String,
    pub datastore: String,
    /// `None`: vCenter chooses.
    pub network: Option<String>,
}

/// Kind of inventory object that an option names.
#[derive(Clone, Copy)]
enum InventoryKind {
    Datacenter,
    Folder,
    Cluster,
    Pool,
    Datastore,
    Network,
}

impl InventoryKind {
    /// Returns the path of its list, below `vcenter/`.
    fn path(self) -> &'static str {
        match self {
            Self::Datacenter => "datacenter",
            Self::Folder => "folder",
            Self::Cluster => "cluster",
            Self::Pool => "resource-pool",
            Self::Datastore => "datastore",
            Self::Network => "network",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Pool => "resource pool",
            other => other.path(),
        }
    }

    fn option(self) -> &'static str {
        match self {
            Self::Datacenter | Self::Folder => "--template",
            Self::Cluster | Self::Pool => "--cluster",
            Self::Datastore => "--datastore",
            Self::Network => "--network",
        }
    }
}

/// Scope of a search.
#[derive(Clone, Copy)]
enum SearchScope<'a> {
    Vcenter,
    Datacenter(&'a InventoryEntry),
    /// An unknown datacenter, which has a complaint of its own.
    SomeDatacenter,
}

/// Access to the inventory.
pub struct VcenterInventory<'s> {
    pub session: &'s VcenterSession,
    pub watch: &'s ProgressWatch,
}

impl VcenterInventory<'_> {
    /// Resolves a location to vCenter's IDs.
    pub async fn spot(&self, place: &TemplatePlace) -> Result<ResolvedLocation> {
        let mut faults = Vec::new();
        let wanted = place.datacenter.as_deref();
        let datacenter = self
            .one(
                InventoryKind::Datacenter,
                wanted,
                SearchScope::Vcenter,
                &mut faults,
            )
            .await?;
        let within = datacenter
            .as_ref()
            .map_or(SearchScope::SomeDatacenter, SearchScope::Datacenter);
        let wanted = place.cluster.as_deref();
        let cluster = self
            .one(InventoryKind::Cluster, wanted, within, &mut faults)
            .await?;
        let wanted = place.datastore.as_deref();
        let datastore = self
            .one(InventoryKind::Datastore, wanted, within, &mut faults)
            .await?;
        let network = match &place.network {
            None => None,
            Some(name) => {
                self.one(InventoryKind::Network, Some(name), within, &mut faults)
                    .await?
            }
        };
        let pool = match cluster {
            None => None,
            Some(cluster) => self.pool(&cluster, place, &mut faults).await?,
        };
        let folder = match datacenter {
            None => None,
            Some(datacenter) => self.folder(&datacenter, place, &mut faults).await?,
        };
        match (folder, pool, datastore) {
            (Some(folder), Some(pool), Some(datastore)) if faults.is_empty() => {
                Ok(ResolvedLocation {
                    folder,
                    pool,
                    datastore: datastore.id,
                    network: network.map(|network| network.id),
                })
            }
            _ => Err(unclear(faults)),
        }
    }

    /// Finds the pool in a cluster.
    async fn pool(
        &self,
        cluster: &InventoryEntry,
        place: &TemplatePlace,
        faults: &mut Vec<String>,
    ) -> Result<Option<String>> {
        let info: ClusterInfo = self.info("cluster", &cluster.id).await?;
        let from = (info.resource_pool, cluster.name.as_str());
        self.walked(InventoryKind::Pool, from, &place.pools, faults)
            .await
    }

    /// Finds the folder in a datacenter; no machine in it may have the template's name.
    async fn folder(
        &self,
        datacenter: &InventoryEntry,
        place: &TemplatePlace,
        faults: &mut Vec<String>,
    ) -> Result<Option<String>> {
        let info: DatacenterInfo = self.info("datacenter", &datacenter.id).await?;
        let from = (info.vm_folder, datacenter.name.as_str());
        let folder = self
            .walked(InventoryKind::Folder, from, &place.folders, faults)
            .await?;
        if let Some(folder) = &folder
            && !self.machines(folder, &place.name).await?.is_empty()
        {
            let name = &place.name;
            faults.push(format!(
                "--template: the folder has a machine called {name}, which is not a template"
            ));
        }
        Ok(folder)
    }

    /// Lists the machines with a name in a folder. vCenter does not list templates among them.
    pub async fn machines(&self, folder: &str, name: &str) -> Result<Vec<InventoryEntry>> {
        let filters = [("filter.folders.1", folder), ("filter.names.1", name)];
        self.list("vm", &filters).await
    }

    /// Finds the wanted object; `None`: there is none, and a fault was added.
    async fn one(
        &self,
        thing: InventoryKind,
        wanted: Option<&str>,
        within: SearchScope<'_>,
        faults: &mut Vec<String>,
    ) -> Result<Option<InventoryEntry>> {
        let mut filters = Vec::new();
        if let Some(name) = wanted {
            filters.push(("filter.names.1", name));
        }
        if let SearchScope::Datacenter(datacenter) = within {
            filters.push(("filter.datacenters.1", datacenter.id.as_str()));
        }
        let found = self.list(thing.path(), &filters).await?;
        match chosen(thing, wanted, within, found) {
            Ok(found) => Ok(found),
            Err(fault) => {
                faults.push(fault);
                Ok(None)
            }
        }
    }

    /// Resolves nested names, starting at the object with this ID and name.
    async fn walked(
        &self,
        thing: InventoryKind,
        (mut id, mut name): (String, &str),
        names: &[String],
        faults: &mut Vec<String>,
    ) -> Result<Option<String>> {
        let parent = match thing {
            InventoryKind::Pool => "filter.parent_resource_pools.1",
            _ => "filter.parent_folders.1",
        };
        for next in names {
            let filters = [("filter.names.1", next.as_str()), (parent, id.as_str())];
            let found = self.list(thing.path(), &filters).await?;
            let Some(one) = found.into_iter().next() else {
                let (option, word) = (thing.option(), thing.word());
                faults.push(format!("{option}: {name} has no {word} called {next}"));
                return Ok(None);
            };
            (id, name) = (one.id, next.as_str());
        }
        Ok(Some(id))
    }

    async fn list(&self, path: &str, filters: &[(&str, &str)]) -> Result<Vec<InventoryEntry>> {
        let path = format!("vcenter/{path}?{}", query(filters));
        let found: Option<Vec<InventoryEntry>> = self
            .session
            .ask(Method::GET, &path, None, self.watch)
            .await?;
        Ok(found.unwrap_or_default())
    }

    async fn info<T: DeserializeOwned>(&self, path: &str, id: &str) -> Result<T> {
        let path = format!("vcenter/{path}/{id}");
        let asked = self.session.ask(Method::GET, &path, None, self.watch);
        asked.await
    }
}

fn query(filters: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(filters);
    // A plus means a space only in forms.
    query.finish().replace('+', "%20")
}

/// Chooses the intended object among those found, or returns the fault.
fn chosen(
    thing: InventoryKind,
    wanted: Option<&str>,
    within: SearchScope<'_>,
    mut found: Vec<InventoryEntry>,
) -> Result<Option<InventoryEntry>, String> {
    let (option, word) = (thing.option(), thing.word());
    let scope = match within {
        SearchScope::Datacenter(datacenter) => display_text::sanitize_line(&datacenter.name),
        SearchScope::Vcenter | SearchScope::SomeDatacenter => "vCenter".into(),
    };
    match (found.len(), wanted, within) {
        (1, ..) => Ok(found.pop()),
        (0, Some(name), _) => Err(format!("{option}: {scope} has no {word} called {name}")),
        (0, None, _) => Err(format!("{option}: {scope} has no {word}")),
        (_, _, SearchScope::SomeDatacenter) => Ok(None),
        (n, Some(name), _) => {
            let all = count(n, word);
            Err(format!("{option}: {scope} has {all} called {name}"))
        }
        (n, None, _) => {
            found.sort_unstable_by(|one, other| one.name.cmp(&other.name));
            let names = found
                .iter()
                .take(SHOWN)
                .map(|one| display_text::sanitize_line(&one.name))
                .collect::<Vec<_>>();
            let more = if n > SHOWN { ", …" } else { "" };
            let (all, names) = (count(n, word), names.join(", "));
            Err(format!(
                "{option}: {scope} has {all}; name one: {names}{more}"
            ))
        }
    }
}

fn unclear(faults: Vec<String>) -> Error {
    Error::new(
        Kind::Publish,
        "the template's location in vCenter cannot be resolved",
    )
    .lines(faults)
    .cure(
        "name objects that exist in vCenter and that the publishing user can see: --template \
         /DATACENTER/vm/FOLDER/NAME, --cluster CLUSTER/POOL, --datastore, --network",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(names: &[&str]) -> Vec<InventoryEntry> {
        let one = |name: &&str| InventoryEntry {
            name: (*name).into(),
            id: format!("id-{name}"),
        };
        names.iter().map(one).collect()
    }

    #[test]
    fn what_is_named_or_alone_is_chosen_and_all_else_is_said() {
        let dc = &listed(&["dc1"])[0];
        let within = SearchScope::Datacenter(dc);
        let of = |wanted: Option<&str>, within: SearchScope<'_>, names: &[&str]| {
            let found = chosen(InventoryKind::Datastore, wanted, within, listed(names));
            found.map(|one| one.map_or("-".to_owned(), |one| one.id))
        };
        let said = |words: &str| Err(format!("--datastore: {words}"));
        assert_eq!(of(None, within, &["a"]), Ok("id-a".into()));
        assert_eq!(of(Some("a"), within, &["a"]), Ok("id-a".into()));
        assert_eq!(
            of(Some("a"), within, &[]),
            said("dc1 has no datastore called a")
        );
        assert_eq!(of(None, within, &[]), said("dc1 has no datastore"));
        assert_eq!(
            of(Some("a"), within, &["a", "a"]),
            said("dc1 has 2 datastores called a")
        );
        assert_eq!(
            of(None, within, &["b", "a"]),
            said("dc1 has 2 datastores; name one: a, b")
        );
        let many: Vec<String> = (10..23).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(
            of(None, SearchScope::Vcenter, &many),
            said(
                "vCenter has 13 datastores; name one: 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, …"
            )
        );
        // Which of them is a question of the datacenter.
        assert_eq!(
            of(Some("a"), SearchScope::SomeDatacenter, &["a", "a"]),
            Ok("-".into())
        );
        assert_eq!(
            of(Some("a"), SearchScope::SomeDatacenter, &[]),
            said("vCenter has no datastore called a")
        );
    }

    #[test]
    fn names_stand_in_a_query_as_they_are() {
        assert_eq!(
            query(&[
                ("filter.names.1", "a b&c+d"),
                ("filter.folders.1", "group-v3")
            ]),
            "filter.names.1=a%20b%26c%2Bd&filter.folders.1=group-v3"
        );
    }
}
