//! A template in a vCenter's inventory, which is an item of the library, too. (vSphere Automation API: vm template library items)
//!
//! The item of the OVA is deployed as a machine, a template is made of the machine, and the machine is removed. The template is known
//! by the same mark as the OVA's item. Removes no template: machines may be linked to its disk. One that is replaced gets another name.

mod inventory;
mod machine;
mod place;

use reqwest::Method;
use serde_json::{Value, json};

pub use place::TemplatePlace;

use super::answers::{ItemInfo, TemplateInfo};
use super::item::{self, Item};
use super::mark::Mark;
use super::session::Session;
use crate::publish::{Arrived, Known, Standing};
use crate::store::Watch;
use inventory::{Inventory, Spot};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::unseen;

const TEMPLATES: &str = "vcenter/vm-template/library-items";
/// An item that is a template.
const TYPE: &str = "vm-template";

/// What a template is made of, and where.
pub struct Template {
    pub name: String,
    /// The OVA's.
    item: Item,
    networks: Vec<String>,
    spot: Spot,
}

/// Refuses a template that would have the name of its item: both are items of one library.
pub fn refuse_name(place: &TemplatePlace, item: &str) -> Result<()> {
    if place.name.to_lowercase() != item.to_lowercase() {
        return Ok(());
    }
    let fact = "the template would have the name of the item that it is made of";
    Err(Error::new(Kind::Recipe, fact)
        .at("--template")
        .found(&place.name)
        .cure("name one of them otherwise: vsphere://VCENTER/LIBRARY/ITEM or --template NAME"))
}

impl Template {
    /// Asks for its place first: without it nothing need be sent.
    pub async fn placed(
        session: &Session,
        place: &TemplatePlace,
        (item, networks): (&Item, &[String]),
        watch: &Watch,
    ) -> Result<Self> {
        let inventory = Inventory { session, watch };
        Ok(Self {
            name: place.name.clone(),
            item: item.clone(),
            networks: networks.to_vec(),
            spot: inventory.spot(place).await?,
        })
    }

    pub async fn standing(&self, session: &Session, watch: &Watch) -> Result<Standing> {
        let Some((id, item)) = self.find(session, watch).await? else {
            return Ok(Standing::Absent);
        };
        if let Some(found) = self.differs(&item) {
            return Ok(Standing::Other(found));
        }
        let Some(template) = info(session, &id, watch).await? else {
            let words = "an item whose template is still being made, or that has none";
            return Ok(Standing::Other(words.into()));
        };
        // A run that was killed left its machine.
        let left = machine::left(session, self.there(), watch).await?;
        Ok(match left.is_empty() {
            true => Standing::Same(Some(template.vm_template.unwrap_or(id))),
            false => Standing::Absent,
        })
    }

    /// Makes it, or ends what an earlier run began.
    pub async fn send(&self, session: &Session, watch: &Watch) -> Result<Arrived> {
        for left in machine::left(session, self.there(), watch).await? {
            let name = machine::name(&self.name);
            watch.note(format!("{name}: a machine that was left is removed"));
            machine::removed(session, &left, watch).await?;
        }
        // Only now: a template that was still being made of that machine is there.
        if let Some(id) = self.ours(session, watch).await?
            && let Some(template) = info(session, &id, watch).await?
        {
            return Ok(arrived(id, template));
        }
        let Some((ova, _)) = self.item.find(session, watch).await? else {
            let fact = "the item that the template is made of is no longer in the library";
            return Err(Error::new(Kind::Publish, fact)
                .at(&self.item.name)
                .cure("publish it again"));
        };
        watch.note(format!("{}: its machine is deployed", self.name));
        let machine = machine::deployed(session, &ova, self.there(), &self.networks, watch).await?;
        let made = self.made(session, &machine, watch).await;
        // Whether there is a template or not.
        let removed = machine::removed(session, &machine, watch).await;
        let id = made?;
        removed?;
        match info(session, &id, watch).await? {
            Some(template) => Ok(arrived(id, template)),
            None => Err(
                Error::new(Kind::Publish, "vCenter made an item without a template")
                    .at(&self.name)
                    .cure("look at its tasks in vCenter; publish it again with --replace"),
            ),
        }
    }

    /// The item of a new template of the machine, under a name that no other one has any more.
    async fn made(&self, session: &Session, machine: &str, watch: &Watch) -> Result<String> {
        let aside = match self.find(session, watch).await? {
            Some((id, _)) => {
                let name = format!("{}-replaced-{:.8}", self.name, id);
                rename(session, &id, &name, watch).await?;
                watch.note(format!(
                    "{}: what was there is now called {name}",
                    self.name
                ));
                Some(id)
            }
            None => None,
        };
        let spec = self.request(machine);
        watch.note(format!(
            "{}: the template is made of its machine",
            self.name
        ));
        let made = session.patiently(watch, async || {
            // An earlier try may have made it, and its answer was lost.
            match self.ours(session, watch).await? {
                Some(id) => Ok(id),
                None => session.make_once(TEMPLATES, &spec).await,
            }
        });
        let made = made.await;
        if let (Err(_), Some(id)) = (&made, aside) {
            // Those who use it find it again.
            let back = rename(session, &id, &self.name, watch).await;
            if back.is_err() {
                let words = "what was there has not got its name back";
                watch.warn(format!("{}: {words}", self.name));
            }
        }
        made.map_err(|error| self.not_made(error))
    }

    fn request(&self, machine: &str) -> Value {
        let storage = json!({ "datastore": self.spot.datastore });
        let mark = Mark::Whole(self.item.sha256.clone());
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
                "where a template or a machine of the inventory is called {name} already, name another --template, or rename that one; then publish it again"
            ),
        )
    }

    fn there(&self) -> (&Spot, &str) {
        (&self.spot, &self.name)
    }

    async fn find(&self, session: &Session, watch: &Watch) -> Result<Option<(String, ItemInfo)>> {
        item::named(session, &self.item.library, &self.name, watch).await
    }

    /// The item of this image's template, if it is there.
    async fn ours(&self, session: &Session, watch: &Watch) -> Result<Option<String>> {
        let found = self.find(session, watch).await?;
        let ours = found.filter(|(_, item)| self.differs(item).is_none());
        Ok(ours.map(|(id, _)| id))
    }

    /// What else an item of its name is.
    fn differs(&self, item: &ItemInfo) -> Option<String> {
        if item.kind != TYPE {
            return Some(format!("an item of the type {}", unseen::line(&item.kind)));
        }
        match Mark::of(&item.description) {
            Some(Mark::Whole(digest)) if digest == self.item.sha256 => None,
            Some(Mark::Whole(digest) | Mark::Coming(digest)) => {
                Some(format!("a template of {digest}"))
            }
            None => Some("a template that winimg did not make".into()),
        }
    }
}

/// The cure of an error that has none. A cancel needs none.
fn or_cure(error: Error, cure: String) -> Error {
    match error.kind() == Kind::Cancelled || error.cure_text().is_some() {
        true => error,
        false => error.cure(cure),
    }
}

fn arrived(item: String, template: TemplateInfo) -> Arrived {
    Arrived {
        known: Known::Size,
        id: Some(template.vm_template.unwrap_or(item)),
    }
}

/// The template of an item is called as the item is, and renamed with it. (vSphere: VM templates in content libraries)
async fn rename(session: &Session, item: &str, name: &str, watch: &Watch) -> Result<()> {
    item::change(session, item, &json!({ "name": name }), watch).await
}

/// `None`: the item has no template, or not yet.
async fn info(session: &Session, item: &str, watch: &Watch) -> Result<Option<TemplateInfo>> {
    let path = format!("{TEMPLATES}/{item}");
    session.ask(Method::GET, &path, None, watch).await
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use winimg_base::digest::Digest;

    fn template() -> Template {
        Template {
            name: "node".into(),
            item: Item {
                library: "l".into(),
                name: "demo".into(),
                build: "10.0.20348.1".into(),
                path: PathBuf::from("demo.ova"),
                sha256: Digest::sha256_of(b"ova"),
                members: Vec::new(),
            },
            networks: Vec::new(),
            spot: Spot {
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
        assert_eq!(differs("ovf", ours), Some("an item of the type ovf".into()));
        let digest = Digest::sha256_of(b"another");
        let other = Mark::Whole(digest.clone()).text("1");
        assert_eq!(
            differs(TYPE, other),
            Some(format!("a template of {digest}"))
        );
        assert_eq!(
            differs(TYPE, "ours".into()),
            Some("a template that winimg did not make".into())
        );
    }

    #[test]
    fn a_template_is_made_in_the_place_of_its_machine() {
        let storage = json!({ "datastore": "datastore-5" });
        let description = Mark::Whole(Digest::sha256_of(b"ova")).text("10.0.20348.1");
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
