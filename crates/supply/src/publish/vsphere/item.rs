//! An item of a content library: which one it is, what it holds, and whether that is the image. (vSphere Automation API: content library)
//!
//! vCenter takes a digest of each file and none of an OVA as one file, so the OVA's files go one by one, out of its tar; `update` sends them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use reqwest::Method;
use serde_json::{Value, json};

use super::answers::{FileInfo, ItemInfo, Library};
use super::mark::Mark;
use super::members::Member;
use super::session::Session;
use super::update::{self, Update};
use crate::publish::{Known, Standing};
use crate::store::Watch;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::unseen;

const LIBRARY: &str = "com/vmware/content/library";
const ITEM: &str = "com/vmware/content/library/item";

/// What an item is to hold.
#[derive(Clone)]
pub struct Item {
    /// vCenter's name of the library.
    pub library: String,
    pub name: String,
    /// Of Windows.
    pub build: String,
    /// The OVA.
    pub path: PathBuf,
    /// Of the OVA.
    pub sha256: Digest,
    pub members: Vec<Member>,
}

/// vCenter's name of the library.
pub async fn library(session: &Session, name: &str, watch: &Watch) -> Result<String> {
    let asked = json!({ "spec": { "name": name } });
    let path = format!("{LIBRARY}?~action=find");
    let ids: Option<Vec<String>> = session
        .ask(Method::POST, &path, Some(&asked), watch)
        .await?;
    let mut found = Vec::new();
    for id in ids.unwrap_or_default() {
        let library: Library = session
            .ask(Method::GET, &format!("{LIBRARY}/id:{id}"), None, watch)
            .await?;
        // It is found in upper and lower case.
        if library.name == name {
            found.push((id, library.kind));
        }
    }
    let error = |fact: &str| Error::new(Kind::Publish, fact).at(name);
    match found.as_slice() {
        [(_, kind)] if kind == "SUBSCRIBED" => Err(error(
            "the library is a copy of another one, which takes no items",
        )
        .cure("publish to the library that it is subscribed to")),
        [(id, _)] => Ok(id.clone()),
        [] => Err(error("vCenter has no such content library")
            .cure("make it first: govc library.create; or mend its name in --to")),
        _ => {
            Err(error("vCenter has several content libraries of this name")
                .cure("rename one of them"))
        }
    }
}

/// The item of a name, with vCenter's name of it.
pub async fn named(
    session: &Session,
    library: &str,
    name: &str,
    watch: &Watch,
) -> Result<Option<(String, ItemInfo)>> {
    let spec = json!({ "spec": { "library_id": library, "name": name } });
    let path = format!("{ITEM}?~action=find");
    let ids: Option<Vec<String>> = session.ask(Method::POST, &path, Some(&spec), watch).await?;
    for id in ids.unwrap_or_default() {
        let item: ItemInfo = session
            .ask(Method::GET, &format!("{ITEM}/id:{id}"), None, watch)
            .await?;
        // It is found in upper and lower case.
        if item.name == name {
            return Ok(Some((id, item)));
        }
    }
    Ok(None)
}

impl Item {
    pub async fn standing(&self, session: &Session, watch: &Watch) -> Result<Standing> {
        let Some((id, item)) = self.find(session, watch).await? else {
            return Ok(Standing::Absent);
        };
        let files = files(session, &id, watch).await?;
        Ok(self.judged(id, &item, &files))
    }

    /// With vCenter's name of it.
    pub async fn find(
        &self,
        session: &Session,
        watch: &Watch,
    ) -> Result<Option<(String, ItemInfo)>> {
        named(session, &self.library, &self.name, watch).await
    }

    /// What an item is of this name.
    fn judged(&self, id: String, item: &ItemInfo, files: &[FileInfo]) -> Standing {
        if item.kind != "ovf" {
            let kind = unseen::line(&item.kind);
            return Standing::Other(format!("an item of the type {kind}"));
        }
        match Mark::of(&item.description) {
            Some(Mark::Whole(digest)) if digest == self.sha256 => match self.differs(files) {
                None => Standing::Same(Some(id)),
                Some(found) => Standing::Other(found),
            },
            Some(Mark::Whole(digest)) => Standing::Other(digest.to_string()),
            Some(Mark::Coming(digest)) if digest == self.sha256 => Standing::Absent,
            Some(Mark::Coming(digest)) => Standing::Other(format!(
                "{digest}, which is being sent or was left half sent"
            )),
            None => Standing::Other("an item that winimg did not make".into()),
        }
    }

    /// What of the files that vCenter lists is not as it was sent.
    fn differs(&self, files: &[FileInfo]) -> Option<String> {
        let there: BTreeMap<&str, &FileInfo> = files.iter().map(|f| (f.name.as_str(), f)).collect();
        self.members.iter().find_map(|member| {
            let name = &member.name;
            let Some(file) = there.get(name.as_str()) else {
                return Some(format!("it lacks {name}"));
            };
            match (file.size, sha256(file)) {
                (_, Some(hex)) if !hex.eq_ignore_ascii_case(&member.sha256.hex()) => {
                    Some(format!("{name} is sha256:{}", unseen::line(hex)))
                }
                (Some(size), _) if size != member.size => Some(format!("{name} has {size} bytes")),
                _ => None,
            }
        })
    }

    /// Of files that do not differ.
    fn known(&self, files: &[FileInfo]) -> Known {
        let is_computed = |member: &Member| {
            files
                .iter()
                .any(|file| file.name == member.name && sha256(file).is_some())
        };
        match self.members.iter().all(is_computed) {
            true => Known::Digest,
            false => Known::Size,
        }
    }

    /// The item's name at vCenter, when all of it is there.
    pub async fn send(&self, session: &Session, watch: &Watch) -> Result<(String, Known)> {
        let id = self.begin(session, watch).await?;
        let there = files(session, &id, watch).await?;
        let is_ours = |file: &&FileInfo| self.members.iter().any(|m| m.name == file.name);
        let others: Vec<_> = there.iter().filter(|file| !is_ours(file)).collect();
        let is_whole = self.differs(&there).is_none() && self.known(&there) == Known::Digest;
        if is_whole && others.is_empty() {
            // An earlier run got as far as this.
            let known = self.arrived(session, &id, &there, watch).await?;
            return Ok((id, known));
        }
        let update = Update::open(session, (&id, &self.name), &self.members, watch).await?;
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

    /// An item with the mark that says that its files are coming.
    async fn begin(&self, session: &Session, watch: &Watch) -> Result<String> {
        let coming = Mark::Coming(self.sha256.clone());
        let description = coming.text(&self.build);
        let spec = json!({ "create_spec": {
            "name": self.name, "description": description, "library_id": self.library, "type": "ovf",
        }});
        let made = session.patiently(watch, async || match self.find(session, watch).await? {
            // Also where an earlier try made it, and its answer was lost.
            Some((id, item)) => Ok((id, Mark::of(&item.description))),
            None => {
                let id = session.ask_once(Method::POST, ITEM, Some(&spec)).await?;
                Ok((id, Some(coming.clone())))
            }
        });
        let (id, mark) = made.await?;
        if mark != Some(coming) {
            // Before the mark: a session of another image is not taken for one of this image.
            update::end_all(session, &id, watch).await?;
            describe(session, &id, &description, watch).await?;
        }
        Ok(id)
    }

    /// Compares the files that vCenter lists with those of the image, and marks the item as whole.
    async fn arrived(
        &self,
        session: &Session,
        id: &str,
        there: &[FileInfo],
        watch: &Watch,
    ) -> Result<Known> {
        if let Some(found) = self.differs(there) {
            let fact = format!("{} arrived in the library as something else", self.name);
            return Err(Error::new(Kind::Publish, fact)
                .at(id)
                .found(found)
                .cure("publish it again"));
        }
        let description = Mark::Whole(self.sha256.clone()).text(&self.build);
        describe(session, id, &description, watch).await?;
        Ok(self.known(there))
    }
}

fn sha256(file: &FileInfo) -> Option<&str> {
    file.checksum_info.as_ref().and_then(|sum| sum.sha256())
}

async fn files(session: &Session, item: &str, watch: &Watch) -> Result<Vec<FileInfo>> {
    let path = format!("{ITEM}/file?library_item_id={item}");
    let files: Option<Vec<FileInfo>> = session.ask(Method::GET, &path, None, watch).await?;
    Ok(files.unwrap_or_default())
}

async fn describe(session: &Session, item: &str, description: &str, watch: &Watch) -> Result<()> {
    change(session, item, &json!({ "description": description }), watch).await
}

/// Changes what is said of an item.
pub async fn change(session: &Session, item: &str, spec: &Value, watch: &Watch) -> Result<()> {
    let spec = json!({ "update_spec": spec });
    let path = format!("{ITEM}/id:{item}");
    let updated = session.ask::<Value>(Method::PATCH, &path, Some(&spec), watch);
    updated.await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::answers::Checksum;
    use super::*;

    fn item() -> Item {
        let member = |name: &str| Member {
            name: name.into(),
            start: 512,
            size: 5,
            sha256: Digest::sha256_of(name.as_bytes()),
        };
        Item {
            library: "l".into(),
            name: "demo".into(),
            build: "10.0.20348.1".into(),
            path: PathBuf::from("demo.ova"),
            sha256: Digest::sha256_of(b"ova"),
            members: vec![member("demo.ovf"), member("demo.vmdk")],
        }
    }

    fn there(item: &Item) -> Vec<FileInfo> {
        let file = |member: &Member| FileInfo {
            name: member.name.clone(),
            size: Some(member.size),
            checksum_info: Some(Checksum {
                algorithm: "SHA256".into(),
                checksum: member.sha256.hex().to_uppercase(),
            }),
        };
        item.members.iter().map(file).collect()
    }

    fn standing(change: impl FnOnce(&mut ItemInfo, &mut Vec<FileInfo>)) -> Standing {
        let item = item();
        let mut files = there(&item);
        let mut info = ItemInfo {
            name: "demo".into(),
            description: Mark::Whole(item.sha256.clone()).text("10.0.20348.1"),
            kind: "ovf".into(),
        };
        change(&mut info, &mut files);
        item.judged("i".into(), &info, &files)
    }

    #[test]
    fn an_item_is_the_image_by_its_mark_and_each_of_its_files() {
        let other = |words: &str| Standing::Other(words.into());
        let same = Standing::Same(Some("i".into()));
        assert_eq!(standing(|_, _| ()), same);
        // A vCenter that computes no SHA-256 still names sizes.
        assert_eq!(standing(|_, files| files[1].checksum_info = None), same);
        assert_eq!(
            standing(|info, _| info.kind = "iso".into()),
            other("an item of the type iso")
        );
        assert_eq!(
            standing(|info, _| info.description = "ours".into()),
            other("an item that winimg did not make")
        );
        assert_eq!(
            standing(|_, files| drop(files.pop())),
            other("it lacks demo.vmdk")
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
            standing(|info, _| info.description = Mark::Whole(digest.clone()).text("1")),
            other(&digest.to_string())
        );
        assert_eq!(
            standing(|info, _| info.description = Mark::Coming(digest.clone()).text("1")),
            other(&format!(
                "{digest}, which is being sent or was left half sent"
            ))
        );
        let ours = item().sha256;
        assert_eq!(
            standing(|info, _| info.description = Mark::Coming(ours).text("1")),
            Standing::Absent
        );
    }

    #[test]
    fn a_digest_is_known_where_vcenter_names_that_of_each_file() {
        let item = item();
        let mut files = there(&item);
        assert_eq!(item.known(&files), Known::Digest);
        files[0].checksum_info.as_mut().unwrap().algorithm = "SHA1".into();
        assert_eq!(item.known(&files), Known::Size);
    }
}
