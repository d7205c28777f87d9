//! Makes a template in a vCenter's inventory, which is also an item of the library. (vSphere
//! Automation API: vm template library items)
//!
//! Deploys the OVA's item as a machine, makes a template from the machine, and removes the machine.
//! The template has the same mark as the OVA's item. Never removes a template, since machines may
//! be linked to its disk; a replaced one is renamed.

mod inventory;
mod machine;

use reqwest::Method;
use serde_json::{Value, json};

use super::answers::{ItemInfo, TemplateInfo};
use super::item::{self, LibraryItem};
use super::mark::ItemMark;
use super::session::VcenterSession;
use super::template_place::TemplatePlace;
use crate::publish::{KnownBy, ObjectStatus, PublishedObject};
use crate::store::ProgressWatch;
use inventory::{ResolvedLocation, VcenterInventory};
use winimg_base::display_text;
use winimg_base::error::{Error, Kind, Result};

const TEMPLATES: &str = "vcenter/vm-template/library-items";
/// Type of an item that is a template.
const TYPE: &str = "vm-template";

/// A template to make.
pub struct VcenterTemplate {
    pub name: String,
    /// The OVA's item.
    item: LibraryItem,
    networks: Vec<String>,
    spot: ResolvedLocation,
}

/// Refuses a template with the name of its item: both are items of one library.
pub fn refuse_name(place: &TemplatePlace, item: &str) -> Result<()> {
    if place.name.to_lowercase() != item.to_lowercase() {
        return Ok(());
    }
    let fact = "the template would have the same name as its item";
    Err(Error::new(Kind::Recipe, fact)
        .at("--template")
        .found(&place.name)
        .cure("rename one of them: vsphere://VCENTER/LIBRARY/ITEM or --template NAME"))
}

impl VcenterTemplate {
    /// Resolves the location of a template, before anything is sent.
    pub async fn placed(
        session: &VcenterSession,
        place: &TemplatePlace,
        (item, networks): (&LibraryItem, &[String]),
        watch: &ProgressWatch,
    ) -> Result<Self> {
        let inventory = VcenterInventory { session, watch };
        Ok(Self {
            name: place.name.clone(),
            item: item.clone(),
            networks: networks.to_vec(),
            spot: inventory.spot(place).await?,
        })
    }

    pub async fn check_status(
        &self,
        session: &VcenterSession,
        watch: &ProgressWatch,
    ) -> Result<ObjectStatus> {
        let Some((id, item)) = self.find(session, watch).await? else {
            return Ok(ObjectStatus::Absent);
        };
        if let Some(found) = self.differs(&item) {
            return Ok(ObjectStatus::Other(found));
        }
        let Some(template) = info(session, &id, watch).await? else {
            let words = "an item with no template, or one that is still being made";
            return Ok(ObjectStatus::Other(words.into()));
        };
        // A run that was killed left its machine.
        let left = machine::left(session, self.there(), watch).await?;
        Ok(if left.is_empty() {
            ObjectStatus::Same(Some(template.vm_template.unwrap_or(id)))
        } else {
            ObjectStatus::Absent
        })
    }

    /// Makes the template, or completes an earlier run's.
    pub async fn send(
        &self,
        session: &VcenterSession,
        watch: &ProgressWatch,
    ) -> Result<PublishedObject> {
        for left in machine::left(session, self.there(), watch).await? {
            let name = machine::name(&self.name);
            watch.note(format!("{name}: removing a machine that was left behind"));
            machine::removed(session, &left, watch).await?;
        }
        // Only now: a template that was still being made from that machine is complete.
        if let Some(id) = self.ours(session, watch).await?
            && let Some(template) = info(session, &id, watch).await?
        {
            return Ok(arrived(id, template));
        }
        let Some((ova, _)) = self.item.find(session, watch).await? else {
            let fact = "the template's item is no longer in the library";
            return Err(Error::new(Kind::Publish, fact)
                .at(&self.item.name)
                .cure("publish again"));
        };
        watch.note(format!("{}: deploying its machine", self.name));
        let machine = machine::deployed(session, &ova, self.there(), &self.networks, watch).await?;
        let made = self.made(session, &machine, watch).await;
        // Even if there is no template.
        let removed = machine::removed(session, &machine, watch).await;
        let id = made?;
        removed?;
        match info(session, &id, watch).await? {
            Some(template) => Ok(arrived(id, template)),
            None => Err(
                Error::new(Kind::Publish, "vCenter made an item without a template")
                    .at(&self.name)
                    .cure("check its tasks in vCenter; publish again with --replace"),
            ),
        }
    }

    /// Makes a template from the machine; renames an existing one first. Returns the item's ID.
    async fn made(
        &self,
        session: &VcenterSession,
        machine: &str,
        watch: &ProgressWatch,
    ) -> Result<String> {
        let aside = match self.find(session, watch).await? {
            Some((id, _)) => {
                let name = format!("{}-replaced-{:.8}", self.name, id);
                rename(session, &id, &name, watch).await?;
                watch.note(format!(
                    "{}: the previous one is now called {name}",
                    self.name
                ));
                Some(id)
            }
            None => None,
        };
        let spec = self.request(machine);
        watch.note(format!(
            "{}: making the template from its machine",
            self.name
        ));
        let made = session.patiently(watch, async || {
            // An earlier attempt may have made it, with a lost answer.
            match self.ours(session, watch).await? {
                Some(id) => Ok(id),
                None => session.make_once(TEMPLATES, &spec).await,
            }
        });
        let made = made.await;
        if let (Err(_), Some(id)) = (&made, aside) {
            // Its users need it under its name.
            let back = rename(session, &id, &self.name, watch).await;
            if back.is_err() {
                let words = "the previous template could not be renamed back";
                watch.warn(format!("{}: {words}", self.name));
            }
        }
        made.map_err(|error| self.not_made(error))
    }

    fn request(&self, machine: &str) -> Value {
        let storage = json!({ "datastore": self.spot.datastore });
        let mark = ItemMark::Whole(self.item.sha256.clone());
        json!({ "spec": {
            "source_vm": machine,
            "name": self.name,
            "description": mark.text(&self.item.build),
            "library": self.item.library,
            "placement": { "folder": self.spot.folder, "resource_pool": self.spot.pool },
            "vm_home_storage": storage,
            "disk_storage": storage,
        }})
    }

    fn not_made(&self, error: Error) -> Error {
        let name = &self.name;
        or_cure(
            error,
            format!(
                "if a template or a machine in the inventory is already called {name}, use another \
                 --template, or rename that one; then publish again"
            ),
        )
    }

    fn there(&self) -> (&ResolvedLocation, &str) {
        (&self.spot, &self.name)
    }

    async fn find(
        &self,
        session: &VcenterSession,
        watch: &ProgressWatch,
    ) -> Result<Option<(String, ItemInfo)>> {
        item::find_item(session, &self.item.library, &self.name, watch).await
    }

    /// Finds the item of this image's template.
    async fn ours(
        &self,
        session: &VcenterSession,
        watch: &ProgressWatch,
    ) -> Result<Option<String>> {
        let found = self.find(session, watch).await?;
        let ours = found.filter(|(_, item)| self.differs(item).is_none());
        Ok(ours.map(|(id, _)| id))
    }

    /// Describes an item of this name that is not this template.
    fn differs(&self, item: &ItemInfo) -> Option<String> {
        if item.kind != TYPE {
            return Some(format!(
                "an item of type {}",
                display_text::sanitize_line(&item.kind)
            ));
        }
        match ItemMark::find(&item.description) {
            Some(ItemMark::Whole(digest)) if digest == self.item.sha256 => None,
            Some(ItemMark::Whole(digest) | ItemMark::Coming(digest)) => {
                Some(format!("a template of {digest}"))
            }
            None => Some("a template that winimg did not create".into()),
        }
    }
}

/// Adds a cure to an error without one, unless it is a cancel.
fn or_cure(error: Error, cure: String) -> Error {
    if error.kind() == Kind::Cancelled || error.cure_text().is_some() {
        error
    } else {
        error.cure(cure)
    }
}

fn arrived(item: String, template: TemplateInfo) -> PublishedObject {
    PublishedObject {
        known: KnownBy::Size,
        id: Some(template.vm_template.unwrap_or(item)),
    }
}

/// Renames an item, and thereby its template, which has the same name. (vSphere: VM templates in
/// content libraries)
async fn rename(
    session: &VcenterSession,
    item: &str,
    name: &str,
    watch: &ProgressWatch,
) -> Result<()> {
    item::change(session, item, &json!({ "name": name }), watch).await
}

/// Fetches the template of an item. `None`: it has none, or not yet.
async fn info(
    session: &VcenterSession,
    item: &str,
    watch: &ProgressWatch,
) -> Result<Option<TemplateInfo>> {
    let path = format!("{TEMPLATES}/{item}");
    session.ask(Method::GET, &path, None, watch).await
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use winimg_base::digest::Digest;

    fn template() -> VcenterTemplate {
        VcenterTemplate {
            name: "node".into(),
            item: LibraryItem {
                library: "l".into(),
                name: "demo".into(),
                build: "10.0.20348.1".into(),
                path: PathBuf::from("demo.ova"),
                sha256: Digest::sha256_of(b"ova"),
                members: Vec::new(),
            },
            networks: Vec::new(),
            spot: ResolvedLocation {
                folder: "group-v3".into(),
                pool: "resgroup-8".into(),
                datastore: "datastore-5".into(),
                network: None,
            },
        }
    }

    #[test]
    fn a_template_is_the_image_by_its_mark() {
        let template = template();
        let differs = |kind: &str, description: String| {
            template.differs(&ItemInfo {
                name: "node".into(),
                description,
                kind: kind.into(),
            })
        };
        let asked = template.request("vm-1");
        let ours = asked["spec"]["description"].as_str().unwrap().to_owned();
        assert_eq!(differs(TYPE, ours.clone()), None);
        assert_eq!(differs("ovf", ours), Some("an item of type ovf".into()));
        let digest = Digest::sha256_of(b"another");
        let other = ItemMark::Whole(digest.clone()).text("1");
        assert_eq!(
            differs(TYPE, other),
            Some(format!("a template of {digest}"))
        );
        assert_eq!(
            differs(TYPE, "ours".into()),
            Some("a template that winimg did not create".into())
        );
    }

    #[test]
    fn a_template_is_made_in_the_place_of_its_machine() {
        let storage = json!({ "datastore": "datastore-5" });
        let description = ItemMark::Whole(Digest::sha256_of(b"ova")).text("10.0.20348.1");
        assert_eq!(
            template().request("vm-1"),
            json!({ "spec": {
                "source_vm": "vm-1",
                "name": "node",
                "description": description,
                "library": "l",
                "placement": { "folder": "group-v3", "resource_pool": "resgroup-8" },
                "vm_home_storage": storage,
                "disk_storage": storage,
            }})
        );
    }

    #[test]
    fn a_template_has_another_name_than_its_item() {
        let place = TemplatePlace::parse("Demo", None, None, None).unwrap();
        assert!(refuse_name(&place, "node").is_ok());
        let error = refuse_name(&place, "demo").unwrap_err().to_string();
        assert!(
            error.contains("\n  at: --template\n  found: Demo\n"),
            "{error}"
        );
    }
}
