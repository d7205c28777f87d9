//! An item of a content library: finds it, compares it with the image, and updates it. (vSphere
//! Automation API: content library)
//!
//! vCenter verifies a digest of each file, but not of a whole OVA, so the files in the OVA's tar
//! are sent one by one; see `update`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use reqwest::Method;
use serde_json::{Value, json};

use super::answers::{FileInfo, ItemInfo, LibraryInfo};
use super::mark::ItemMark;
use super::ova_content::OvaEntry;
use super::session::VcenterSession;
use super::update::{self, ItemUpdate};
use crate::publish::{KnownBy, ObjectStatus};
use crate::store::ProgressWatch;
use winimg_base::digest::Digest;
use winimg_base::display_text;
use winimg_base::error::{Error, Kind, Result};

const LIBRARY: &str = "com/vmware/content/library";
const ITEM: &str = "com/vmware/content/library/item";

/// An item to publish.
#[derive(Clone)]
pub struct LibraryItem {
    /// vCenter's ID of the library.
    pub library: String,
    pub name: String,
    /// Windows version.
    pub build: String,
    /// Path of the OVA.
    pub path: PathBuf,
    /// SHA-256 of the OVA.
    pub sha256: Digest,
    pub members: Vec<OvaEntry>,
}

/// Finds the library; returns vCenter's ID of it.
pub async fn library(
    session: &VcenterSession,
    name: &str,
    watch: &ProgressWatch,
) -> Result<String> {
    let asked = json!({ "spec": { "name": name } });
    let path = format!("{LIBRARY}?~action=find");
    let ids: Option<Vec<String>> = session
        .ask(Method::POST, &path, Some(&asked), watch)
        .await?;
    let mut found = Vec::new();
    for id in ids.unwrap_or_default() {
        let library: LibraryInfo = session
            .ask(Method::GET, &format!("{LIBRARY}/id:{id}"), None, watch)
            .await?;
        // The search ignores case.
        if library.name == name {
            found.push((id, library.kind));
        }
    }
    let (fact, cure) = match found.as_slice() {
        [(_, kind)] if kind == "SUBSCRIBED" => (
            "the library is subscribed to another one, so it accepts no items",
            "publish to the library that it is subscribed to",
        ),
        [(id, _)] => return Ok(id.clone()),
        [] => (
            "vCenter has no such content library",
            "create it first: govc library.create; or correct its name in --to",
        ),
        _ => (
            "vCenter has several content libraries with this name",
            "rename one of them",
        ),
    };
    Err(Error::new(Kind::Publish, fact).at(name).cure(cure))
}

/// Finds an item by name; returns it with vCenter's ID.
pub async fn find_item(
    session: &VcenterSession,
    library: &str,
    name: &str,
    watch: &ProgressWatch,
) -> Result<Option<(String, ItemInfo)>> {
    let spec = json!({ "spec": { "library_id": library, "name": name } });
    let path = format!("{ITEM}?~action=find");
    let ids: Option<Vec<String>> = session.ask(Method::POST, &path, Some(&spec), watch).await?;
    for id in ids.unwrap_or_default() {
        let item: ItemInfo = session
            .ask(Method::GET, &format!("{ITEM}/id:{id}"), None, watch)
            .await?;
        // The search ignores case.
        if item.name == name {
            return Ok(Some((id, item)));
        }
    }
    Ok(None)
}

impl LibraryItem {
    pub async fn standing(
        &self,
        session: &VcenterSession,
        watch: &ProgressWatch,
    ) -> Result<ObjectStatus> {
        let Some((id, item)) = self.find(session, watch).await? else {
            return Ok(ObjectStatus::Absent);
        };
        let files = files(session, &id, watch).await?;
        Ok(self.judged(id, &item, &files))
    }

    /// Finds the item; returns it with vCenter's ID.
    pub async fn find(
        &self,
        session: &VcenterSession,
        watch: &ProgressWatch,
    ) -> Result<Option<(String, ItemInfo)>> {
        find_item(session, &self.library, &self.name, watch).await
    }

    /// Compares an item of this name with the image.
    fn judged(&self, id: String, item: &ItemInfo, files: &[FileInfo]) -> ObjectStatus {
        if item.kind != "ovf" {
            let kind = display_text::sanitize_line(&item.kind);
            return ObjectStatus::Other(format!("an item of type {kind}"));
        }
        match ItemMark::find(&item.description) {
            Some(ItemMark::Whole(digest)) if digest == self.sha256 => match self.differs(files) {
                None => ObjectStatus::Same(Some(id)),
                Some(found) => ObjectStatus::Other(found),
            },
            Some(ItemMark::Whole(digest)) => ObjectStatus::Other(digest.to_string()),
            Some(ItemMark::Coming(digest)) if digest == self.sha256 => ObjectStatus::Absent,
            Some(ItemMark::Coming(digest)) => {
                ObjectStatus::Other(format!("{digest}, which is being sent or is incomplete"))
            }
            None => ObjectStatus::Other("an item that winimg did not create".into()),
        }
    }

    /// Describes the first difference between the files in vCenter and the image's.
    fn differs(&self, files: &[FileInfo]) -> Option<String> {
        let there: BTreeMap<&str, &FileInfo> = files.iter().map(|f| (f.name.as_str(), f)).collect();
        self.members.iter().find_map(|member| {
            let name = &member.name;
            let Some(file) = there.get(name.as_str()) else {
                return Some(format!("{name} is missing"));
            };
            match (file.size, sha256(file)) {
                (_, Some(hex)) if !hex.eq_ignore_ascii_case(&member.sha256.hex()) => Some(format!(
                    "{name} is sha256:{}",
                    display_text::sanitize_line(hex)
                )),
                (Some(size), _) if size != member.size => Some(format!("{name} has {size} bytes")),
                _ => None,
            }
        })
    }

    /// Returns how files without a difference were verified.
    fn known(&self, files: &[FileInfo]) -> KnownBy {
        let has_digests = self.members.iter().all(|member| {
            files
                .iter()
                .any(|file| file.name == member.name && sha256(file).is_some())
        });
        if has_digests {
            KnownBy::Digest
        } else {
            KnownBy::Size
        }
    }

    /// Sends the item; returns vCenter's ID of it.
    pub async fn send(
        &self,
        session: &VcenterSession,
        watch: &ProgressWatch,
    ) -> Result<(String, KnownBy)> {
        let id = self.begin(session, watch).await?;
        let there = files(session, &id, watch).await?;
        let others: Vec<_> = there
            .iter()
            .filter(|file| self.members.iter().all(|m| m.name != file.name))
            .collect();
        let is_whole = self.differs(&there).is_none() && self.known(&there) == KnownBy::Digest;
        if is_whole && others.is_empty() {
            // An earlier run sent all files.
            let known = self.arrived(session, &id, &there, watch).await?;
            return Ok((id, known));
        }
        let update = ItemUpdate::open(session, (&id, &self.name), &self.members, watch).await?;
        for member in &self.members {
            update.send(member, &self.path).await?;
        }
        for file in others {
            update.remove(&file.name).await?;
        }
        update.complete().await?;
        let there = files(session, &id, watch).await?;
        let known = self.arrived(session, &id, &there, watch).await?;
        update.forget().await;
        Ok((id, known))
    }

    /// Finds or creates the item, with the mark of an incomplete one.
    async fn begin(&self, session: &VcenterSession, watch: &ProgressWatch) -> Result<String> {
        let coming = ItemMark::Coming(self.sha256.clone());
        let description = coming.text(&self.build);
        let spec = json!({ "create_spec": {
            "name": self.name, "description": description,
            "library_id": self.library, "type": "ovf",
        }});
        let made = session.patiently(watch, async || match self.find(session, watch).await? {
            // Or an earlier attempt created it, with a lost answer.
            Some((id, item)) => Ok((id, ItemMark::find(&item.description))),
            None => {
                let id = session.ask_once(Method::POST, ITEM, Some(&spec)).await?;
                Ok((id, Some(coming.clone())))
            }
        });
        let (id, mark) = made.await?;
        if mark != Some(coming) {
            // Before the mark is set, so that a session of another image is not taken for this
            // one's.
            update::end_all(session, &id, watch).await?;
            describe(session, &id, &description, watch).await?;
        }
        Ok(id)
    }

    /// Compares the files in vCenter with the image's, and marks the item as complete.
    async fn arrived(
        &self,
        session: &VcenterSession,
        id: &str,
        there: &[FileInfo],
        watch: &ProgressWatch,
    ) -> Result<KnownBy> {
        if let Some(found) = self.differs(there) {
            let fact = format!("{} is different in the library after the upload", self.name);
            return Err(Error::new(Kind::Publish, fact)
                .at(id)
                .found(found)
                .cure("publish again"));
        }
        let description = ItemMark::Whole(self.sha256.clone()).text(&self.build);
        describe(session, id, &description, watch).await?;
        Ok(self.known(there))
    }
}

fn sha256(file: &FileInfo) -> Option<&str> {
    file.checksum_info.as_ref().and_then(|sum| sum.sha256())
}

async fn files(
    session: &VcenterSession,
    item: &str,
    watch: &ProgressWatch,
) -> Result<Vec<FileInfo>> {
    let path = format!("{ITEM}/file?library_item_id={item}");
    let files: Option<Vec<FileInfo>> = session.ask(Method::GET, &path, None, watch).await?;
    Ok(files.unwrap_or_default())
}

async fn describe(
    session: &VcenterSession,
    item: &str,
    description: &str,
    watch: &ProgressWatch,
) -> Result<()> {
    change(session, item, &json!({ "description": description }), watch).await
}

/// Changes attributes of an item.
pub async fn change(
    session: &VcenterSession,
    item: &str,
    spec: &Value,
    watch: &ProgressWatch,
) -> Result<()> {
    let spec = json!({ "update_spec": spec });
    let path = format!("{ITEM}/id:{item}");
    let updated = session.ask::<Value>(Method::PATCH, &path, Some(&spec), watch);
    updated.await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::answers::FileChecksum;
    use super::*;

    fn item() -> LibraryItem {
        let member = |name: &str| OvaEntry {
            name: name.into(),
            start: 512,
            size: 5,
            sha256: Digest::sha256_of(name.as_bytes()),
        };
        LibraryItem {
            library: "l".into(),
            name: "demo".into(),
            build: "10.0.20348.1".into(),
            path: PathBuf::from("demo.ova"),
            sha256: Digest::sha256_of(b"ova"),
            members: vec![member("demo.ovf"), member("demo.vmdk")],
        }
    }

    fn there(item: &LibraryItem) -> Vec<FileInfo> {
        let file = |member: &OvaEntry| FileInfo {
            name: member.name.clone(),
            size: Some(member.size),
            checksum_info: Some(FileChecksum {
                algorithm: "SHA256".into(),
                checksum: member.sha256.hex().to_uppercase(),
            }),
        };
        item.members.iter().map(file).collect()
    }

    fn standing(change: impl FnOnce(&mut ItemInfo, &mut Vec<FileInfo>)) -> ObjectStatus {
        let item = item();
        let mut files = there(&item);
        let mut info = ItemInfo {
            name: "demo".into(),
            description: ItemMark::Whole(item.sha256.clone()).text("10.0.20348.1"),
            kind: "ovf".into(),
        };
        change(&mut info, &mut files);
        item.judged("i".into(), &info, &files)
    }

    #[test]
    fn an_item_is_the_image_by_its_mark_and_each_of_its_files() {
        let other = |words: &str| ObjectStatus::Other(words.into());
        let same = ObjectStatus::Same(Some("i".into()));
        assert_eq!(standing(|_, _| ()), same);
        // A vCenter that computes no SHA-256 still names sizes.
        assert_eq!(standing(|_, files| files[1].checksum_info = None), same);
        assert_eq!(
            standing(|info, _| info.kind = "iso".into()),
            other("an item of type iso")
        );
        assert_eq!(
            standing(|info, _| info.description = "ours".into()),
            other("an item that winimg did not create")
        );
        assert_eq!(
            standing(|_, files| drop(files.pop())),
            other("demo.vmdk is missing")
        );
        assert_eq!(
            standing(|_, files| {
                files[1].checksum_info = None;
                files[1].size = Some(4);
            }),
            other("demo.vmdk has 4 bytes")
        );
        assert_eq!(
            standing(|_, files| {
                files[0].checksum_info.as_mut().unwrap().checksum = "00".into();
            }),
            other("demo.ovf is sha256:00")
        );
        let digest = Digest::sha256_of(b"another");
        assert_eq!(
            standing(|info, _| info.description = ItemMark::Whole(digest.clone()).text("1")),
            other(&digest.to_string())
        );
        assert_eq!(
            standing(|info, _| info.description = ItemMark::Coming(digest.clone()).text("1")),
            other(&format!("{digest}, which is being sent or is incomplete"))
        );
        let ours = item().sha256;
        assert_eq!(
            standing(|info, _| info.description = ItemMark::Coming(ours).text("1")),
            ObjectStatus::Absent
        );
    }

    #[test]
    fn a_digest_is_known_where_vcenter_names_that_of_each_file() {
        let item = item();
        let mut files = there(&item);
        assert_eq!(item.known(&files), KnownBy::Digest);
        files[0].checksum_info.as_mut().unwrap().algorithm = "SHA1".into();
        assert_eq!(item.known(&files), KnownBy::Size);
    }
}
