//! An update session: the files of an item go in one by one, and are seen when it is completed. (vSphere Automation API: update session)
//!
//! vCenter has one active session for an item. One that a killed run left is taken up: what vCenter has whole of it is not sent again. One
//! that is of no use is ended.

use std::convert::Infallible;
use std::path::Path;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::answers::{self, UpdateFile, UpdateSession, Validation};
use super::members::Member;
use super::session::Session;
use crate::fetch::failure::Failure;
use crate::store::Watch;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::unseen;

const SESSION: &str = "com/vmware/content/library/item/update-session";
const FILE: &str = "com/vmware/content/library/item/updatesession/file";
/// An update session without a request for a while ends.
const ALIVE: Duration = Duration::from_secs(60);
/// vCenter looks at all files again when a session is completed.
const COMPLETING: Duration = Duration::from_secs(3600);

pub struct Update<'s> {
    session: &'s Session,
    watch: &'s Watch,
    /// vCenter's name of it.
    id: String,
    /// Names of the files that vCenter has whole.
    ready: Vec<String>,
}

impl<'s> Update<'s> {
    /// The session that an earlier run left of this image, or a new one; of the item of this id and name.
    pub async fn open(
        session: &'s Session,
        (id, name): (&str, &str),
        members: &[Member],
        watch: &'s Watch,
    ) -> Result<Self> {
        let spec = json!({ "create_spec": { "library_item_id": id } });
        let opened = session.patiently(watch, async || {
            // Also where an earlier try began it, and its answer was lost.
            match left(session, id, members, watch).await? {
                Some(found) => Ok(found),
                None => {
                    let begun = session.ask_once(Method::POST, SESSION, Some(&spec));
                    Ok((begun.await?, Vec::new()))
                }
            }
        });
        let (update, ready) = opened.await?;
        if !ready.is_empty() {
            watch.note(format!(
                "{}: an upload that was interrupted is continued: {} of {} files are there",
                name,
                ready.len(),
                members.len()
            ));
        }
        Ok(Self {
            session,
            watch,
            id: update,
            ready,
        })
    }

    pub async fn send(&self, member: &Member, ova: &Path) -> Result<()> {
        if self.ready.contains(&member.name) {
            return Ok(());
        }
        let watch = self.watch.named(&member.name);
        let sent = self
            .session
            .patiently(&watch, async || self.try_to_send(member, ova, &watch).await);
        tokio::select! {
            sent = sent => sent,
            never = self.keep_alive() => match never {},
        }
    }

    /// A file that is in the session already is sent anew. (vSphere Automation API: updatesession file: add)
    async fn try_to_send(&self, member: &Member, ova: &Path, watch: &Watch) -> Result<(), Failure> {
        let spec = json!({ "file_spec": {
            "name": member.name, "source_type": "PUSH", "size": member.size,
            "checksum_info": { "algorithm": "SHA256", "checksum": member.sha256.hex() },
        }});
        let file: UpdateFile = self.file("add", Some(&spec)).await?;
        let Some(endpoint) = file.upload_endpoint else {
            return Err(answers::unexpected(
                &member.name,
                "it names no address for an upload",
            ));
        };
        let part = (ova, member.start, member.size);
        let put = self.session.put(part, &endpoint.uri, watch).await;
        let asked = json!({ "file_name": member.name });
        let file: UpdateFile = self.file("get", Some(&asked)).await?;
        match file.status.as_str() {
            // Whether its answer came or not.
            "READY" => Ok(()),
            "ERROR" => {
                let words = file.error_message.map(|m| unseen::line(&m.default_message));
                let fact = format!("vCenter did not take {}", member.name);
                let error = Error::new(Kind::Publish, fact).found(words.unwrap_or_default());
                Err(Failure::again(error))
            }
            _ => put,
        }
    }

    /// Takes a file out of the item when the session is completed.
    pub async fn remove(&self, name: &str) -> Result<()> {
        let asked = json!({ "file_name": name });
        self.file::<Value>("remove", Some(&asked)).await.map(drop)
    }

    /// Lets vCenter judge the files and put them where all see them, and waits for that.
    pub async fn complete(&self) -> Result<()> {
        found(self.file("validate", None).await?)?;
        let path = format!("{SESSION}/id:{}", self.id);
        let complete = format!("{path}?~action=complete");
        let asked = self.session.patiently(self.watch, async || {
            // An earlier try may have done it, and its answer was lost.
            match self.state().await?.state.as_str() {
                "ACTIVE" => {
                    let asked = self.session.ask_once(Method::POST, &complete, None);
                    asked.await.map(|_: Value| ())
                }
                _ => Ok(()),
            }
        });
        asked.await?;
        self.done().await
    }

    async fn done(&self) -> Result<()> {
        let (begun, mut wait) = (Instant::now(), Duration::from_millis(100));
        loop {
            let now = self.state().await?;
            match now.state.as_str() {
                "DONE" => return Ok(()),
                "ACTIVE" if begun.elapsed() < COMPLETING => {
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(Duration::from_secs(10));
                }
                state => {
                    let words = now.error_message.map(|m| unseen::line(&m.default_message));
                    let state = unseen::line(state);
                    return Err(
                        Error::new(Kind::Publish, "vCenter did not complete the item")
                            .at(&self.id)
                            .found(words.unwrap_or(state))
                            .cure("publish it again"),
                    );
                }
            }
        }
    }

    /// A session that was completed is kept by vCenter for a while; nobody needs it.
    pub async fn forget(&self) {
        let path = format!("{SESSION}/id:{}", self.id);
        let deleted = self.session.ask_once::<Value>(Method::DELETE, &path, None);
        if deleted.await.is_err() {
            tracing::debug!("the update session was not deleted; it runs out");
        }
    }

    async fn state(&self) -> Result<UpdateSession> {
        let path = format!("{SESSION}/id:{}", self.id);
        self.session.ask(Method::GET, &path, None, self.watch).await
    }

    async fn file<T: DeserializeOwned>(&self, action: &str, body: Option<&Value>) -> Result<T> {
        let path = format!("{FILE}/id:{}?~action={action}", self.id);
        self.session
            .ask(Method::POST, &path, body, self.watch)
            .await
    }

    async fn keep_alive(&self) -> Infallible {
        let path = format!("{SESSION}/id:{}?~action=keep-alive", self.id);
        loop {
            tokio::time::sleep(ALIVE).await;
            // Where that fails, the upload does, too, and says why.
            let _ = self
                .session
                .ask_once::<Value>(Method::POST, &path, None)
                .await;
        }
    }
}

/// The session of this item that was left, if it is of use, with the files that it has whole; otherwise it is ended.
async fn left(
    session: &Session,
    id: &str,
    members: &[Member],
    watch: &Watch,
) -> Result<Option<(String, Vec<String>)>> {
    let mut kept = None;
    for (update, state) in all(session, id, watch).await? {
        let path = format!("{FILE}?update_session_id={update}");
        let files: Option<Vec<UpdateFile>> = session.ask(Method::GET, &path, None, watch).await?;
        match ready(&state, &files.unwrap_or_default(), members) {
            Some(ready) if kept.is_none() => kept = Some((update, ready)),
            _ => end(session, &update, watch).await?,
        }
    }
    Ok(kept)
}

/// The files that a session has whole. `None`: it is of no use.
fn ready(state: &str, files: &[UpdateFile], members: &[Member]) -> Option<Vec<String>> {
    let mut ready = Vec::new();
    // The others are the item's own, which the session leaves as they are.
    for file in files.iter().filter(|file| file.source_type == "PUSH") {
        let member = members.iter().find(|member| member.name == file.name)?;
        let sum = file.checksum_info.as_ref().and_then(|sum| sum.sha256());
        if sum.is_some_and(|hex| !hex.eq_ignore_ascii_case(&member.sha256.hex())) {
            return None;
        }
        if file.status == "READY" && file.size == Some(member.size) {
            ready.push(member.name.clone());
        }
    }
    (state == "ACTIVE").then_some(ready)
}

/// Ends the sessions of an item that earlier runs of this user left.
pub async fn end_all(session: &Session, item: &str, watch: &Watch) -> Result<()> {
    for (id, _) in all(session, item, watch).await? {
        watch.note("an update session that was left of another image is ended".to_owned());
        end(session, &id, watch).await?;
    }
    Ok(())
}

/// The sessions of an item with their states. vCenter lists those of this user alone.
async fn all(session: &Session, item: &str, watch: &Watch) -> Result<Vec<(String, String)>> {
    let ids: Option<Vec<String>> = session.ask(Method::GET, SESSION, None, watch).await?;
    let mut found = Vec::new();
    for id in ids.unwrap_or_default() {
        // One may have run out in between.
        let one = there(session, &id, watch).await?;
        if let Some(one) = one.filter(|one| one.library_item_id == item) {
            found.push((id, one.state));
        }
    }
    Ok(found)
}

async fn there(session: &Session, id: &str, watch: &Watch) -> Result<Option<UpdateSession>> {
    let path = format!("{SESSION}/id:{id}");
    session.ask_if_there(Method::GET, &path, watch).await
}

/// Ends a session without its files.
async fn end(session: &Session, id: &str, watch: &Watch) -> Result<()> {
    let path = format!("{SESSION}/id:{id}");
    let cancel = format!("{path}?~action=cancel");
    let cancelled = session.patiently(watch, async || {
        // One that has ended already is not cancelled.
        match there(session, id, watch).await? {
            Some(one) if one.state == "ACTIVE" => {
                let asked = session.ask_once(Method::POST, &cancel, None);
                asked.await.map(|_: Value| ())
            }
            _ => Ok(()),
        }
    });
    cancelled.await?;
    let deleted = session.ask_if_there::<Value>(Method::DELETE, &path, watch);
    deleted.await.map(drop)
}

/// What vCenter found when it looked at the files.
fn found(found: Validation) -> Result<()> {
    if !found.has_errors {
        return Ok(());
    }
    let missing = found
        .missing_files
        .iter()
        .map(|name| format!("{} is missing", unseen::line(name)));
    let invalid = found.invalid_files.iter().map(|file| {
        let words = unseen::line(&file.error_message.default_message);
        format!("{}: {words}", unseen::line(&file.name))
    });
    let error = Error::new(Kind::Publish, "vCenter does not take the files as an OVF");
    Err(error.lines(missing.chain(invalid)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use winimg_base::digest::Digest;

    #[test]
    fn a_session_is_taken_up_where_all_it_has_is_of_this_image() {
        let member = |name: &str| Member {
            name: name.into(),
            start: 512,
            size: 5,
            sha256: Digest::sha256_of(name.as_bytes()),
        };
        let members = [member("a.ovf"), member("a.vmdk")];
        let file = |name: &str, status: &str, size: u64, sum: &str| -> UpdateFile {
            let text = json!({
                "name": name, "status": status, "size": size, "source_type": "PUSH",
                "checksum_info": { "algorithm": "SHA256", "checksum": sum },
            });
            serde_json::from_value(text).unwrap()
        };
        let ovf = members[0].sha256.hex();
        let whole = || file("a.ovf", "READY", 5, &ovf);
        let judged = |files: &[UpdateFile]| ready("ACTIVE", files, &members);
        assert_eq!(judged(&[]), Some(vec![]));
        assert_eq!(judged(&[whole()]), Some(vec!["a.ovf".into()]));
        assert_eq!(ready("ERROR", &[whole()], &members), None);
        let half = file("a.ovf", "TRANSFERRING", 5, &ovf);
        assert_eq!(judged(&[half]), Some(vec![]));
        assert_eq!(judged(&[file("a.ovf", "READY", 4, &ovf)]), Some(vec![]));
        let other = file("a.ovf", "READY", 5, &members[1].sha256.hex());
        assert_eq!(judged(&[other]), None);
        assert_eq!(judged(&[whole(), file("b.vmdk", "READY", 5, "")]), None);
        let mut old = file("b.vmdk", "READY", 5, "");
        old.source_type = "NONE".into();
        assert_eq!(judged(&[whole(), old]), Some(vec!["a.ovf".into()]));
    }
}
