//! Update sessions: the files of an item are sent one by one, and become visible when the session
//! is completed. (vSphere Automation API: update session)
//!
//! vCenter has one active session per item. One that a killed run left is continued: files that
//! vCenter has completely are not sent again. An unusable one is ended.

use std::convert::Infallible;
use std::path::Path;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::answers::{self, UpdateFile, UpdateSession, ValidationResult};
use super::ova_content::OvaEntry;
use super::session::VcenterSession;
use crate::fetch::failure::FetchFailure;
use crate::store::ProgressWatch;
use winimg_base::display_text;
use winimg_base::error::{Error, Kind, Result};

const SESSION: &str = "com/vmware/content/library/item/update-session";
const FILE: &str = "com/vmware/content/library/item/updatesession/file";
/// Interval of keep-alive requests; an idle update session expires.
const ALIVE: Duration = Duration::from_secs(60);
/// Time limit to complete a session; vCenter reads all files again.
const COMPLETING: Duration = Duration::from_secs(3600);

pub struct ItemUpdate<'s> {
    session: &'s VcenterSession,
    watch: &'s ProgressWatch,
    /// vCenter's ID.
    id: String,
    /// Names of the files that vCenter has completely.
    ready: Vec<String>,
}

impl<'s> ItemUpdate<'s> {
    /// Continues an earlier run's session of this image or opens a new one, for the item with this
    /// ID and name.
    pub async fn open(
        session: &'s VcenterSession,
        (id, name): (&str, &str),
        members: &[OvaEntry],
        watch: &'s ProgressWatch,
    ) -> Result<Self> {
        let spec = json!({ "create_spec": { "library_item_id": id } });
        let opened = session.patiently(watch, async || {
            // Or an earlier attempt opened it, with a lost answer.
            match left(session, id, members, watch).await? {
                Some(found) => Ok(found),
                None => {
                    let created = session.ask_once(Method::POST, SESSION, Some(&spec));
                    Ok((created.await?, Vec::new()))
                }
            }
        });
        let (update, ready) = opened.await?;
        if !ready.is_empty() {
            watch.note(format!(
                "{}: continuing an interrupted upload: {} of {} files are there",
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

    pub async fn send(&self, member: &OvaEntry, ova: &Path) -> Result<()> {
        if self.ready.contains(&member.name) {
            return Ok(());
        }
        let watch = self.watch.with_name(&member.name);
        let sent = self
            .session
            .patiently(&watch, async || self.try_to_send(member, ova, &watch).await);
        tokio::select! {
            sent = sent => sent,
            never = self.keep_alive() => match never {},
        }
    }

    /// Sends a file; one that is already in the session starts over. (vSphere Automation API:
    /// updatesession file: add)
    async fn try_to_send(
        &self,
        member: &OvaEntry,
        ova: &Path,
        watch: &ProgressWatch,
    ) -> Result<(), FetchFailure> {
        let spec = json!({ "file_spec": {
            "name": member.name, "source_type": "PUSH", "size": member.size,
            "checksum_info": { "algorithm": "SHA256", "checksum": member.sha256.hex() },
        }});
        let file: UpdateFile = self.file("add", Some(&spec)).await?;
        let Some(endpoint) = file.upload_endpoint else {
            return Err(answers::unexpected(
                &member.name,
                "it has no address for an upload",
            ));
        };
        let part = (ova, member.start, member.size);
        let put = self.session.put(part, &endpoint.uri, watch).await;
        let asked = json!({ "file_name": member.name });
        let file: UpdateFile = self.file("get", Some(&asked)).await?;
        match file.status.as_str() {
            // Even if the answer to the upload was lost.
            "READY" => Ok(()),
            "ERROR" => {
                let words = file
                    .error_message
                    .map(|m| display_text::sanitize_line(&m.default_message));
                let fact = format!("vCenter rejected {}", member.name);
                let error = Error::new(Kind::Publish, fact).found(words.unwrap_or_default());
                Err(FetchFailure::retryable(error))
            }
            _ => put,
        }
    }

    /// Removes a file from the item when the session is completed.
    pub async fn remove(&self, name: &str) -> Result<()> {
        let asked = json!({ "file_name": name });
        self.file::<Value>("remove", Some(&asked)).await.map(drop)
    }

    /// Lets vCenter validate and publish the files, and waits for that.
    pub async fn complete(&self) -> Result<()> {
        found(self.file("validate", None).await?)?;
        let path = format!("{SESSION}/id:{}", self.id);
        let complete = format!("{path}?~action=complete");
        let asked = self.session.patiently(self.watch, async || {
            // An earlier attempt may have done it, with a lost answer.
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
        let (started, mut wait) = (Instant::now(), Duration::from_millis(100));
        loop {
            let now = self.state().await?;
            match now.state.as_str() {
                "DONE" => return Ok(()),
                "ACTIVE" if started.elapsed() < COMPLETING => {
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(Duration::from_secs(10));
                }
                state => {
                    let words = now
                        .error_message
                        .map(|m| display_text::sanitize_line(&m.default_message));
                    let state = display_text::sanitize_line(state);
                    return Err(
                        Error::new(Kind::Publish, "vCenter did not complete the item")
                            .at(&self.id)
                            .found(words.unwrap_or(state))
                            .cure("publish again"),
                    );
                }
            }
        }
    }

    /// Deletes the completed session, which vCenter would keep for a while.
    pub async fn forget(&self) {
        let path = format!("{SESSION}/id:{}", self.id);
        let deleted = self.session.ask_once::<Value>(Method::DELETE, &path, None);
        if deleted.await.is_err() {
            tracing::debug!("the update session was not deleted; it will expire");
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
            // If this fails, the upload fails, too, with its own error.
            let _ = self
                .session
                .ask_once::<Value>(Method::POST, &path, None)
                .await;
        }
    }
}

/// Finds a usable session that was left for this item, with its complete files. Other sessions are
/// ended.
async fn left(
    session: &VcenterSession,
    id: &str,
    members: &[OvaEntry],
    watch: &ProgressWatch,
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

/// Lists the complete files of a session. `None`: it is unusable.
fn ready(state: &str, files: &[UpdateFile], members: &[OvaEntry]) -> Option<Vec<String>> {
    let mut ready = Vec::new();
    // The others are the item's own, which the session does not change.
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

/// Ends the sessions that earlier runs of this user left for an item.
pub async fn end_all(session: &VcenterSession, item: &str, watch: &ProgressWatch) -> Result<()> {
    for (id, _) in all(session, item, watch).await? {
        watch.note("ending an update session that was left for another image".to_owned());
        end(session, &id, watch).await?;
    }
    Ok(())
}

/// Lists the sessions of an item with their states. vCenter lists only those of this user.
async fn all(
    session: &VcenterSession,
    item: &str,
    watch: &ProgressWatch,
) -> Result<Vec<(String, String)>> {
    let ids: Option<Vec<String>> = session.ask(Method::GET, SESSION, None, watch).await?;
    let mut found = Vec::new();
    for id in ids.unwrap_or_default() {
        // One may have expired in the meantime.
        let one = there(session, &id, watch).await?;
        if let Some(one) = one.filter(|one| one.library_item_id == item) {
            found.push((id, one.state));
        }
    }
    Ok(found)
}

async fn there(
    session: &VcenterSession,
    id: &str,
    watch: &ProgressWatch,
) -> Result<Option<UpdateSession>> {
    let path = format!("{SESSION}/id:{id}");
    session.ask_if_there(Method::GET, &path, watch).await
}

/// Ends a session without its files.
async fn end(session: &VcenterSession, id: &str, watch: &ProgressWatch) -> Result<()> {
    let path = format!("{SESSION}/id:{id}");
    let cancel = format!("{path}?~action=cancel");
    let cancelled = session.patiently(watch, async || {
        // A session that has ended cannot be cancelled.
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

/// Checks the result of vCenter's validation.
fn found(found: ValidationResult) -> Result<()> {
    if !found.has_errors {
        return Ok(());
    }
    let missing = found
        .missing_files
        .iter()
        .map(|name| format!("{} is missing", display_text::sanitize_line(name)));
    let invalid = found.invalid_files.iter().map(|file| {
        let words = display_text::sanitize_line(&file.error_message.default_message);
        format!("{}: {words}", display_text::sanitize_line(&file.name))
    });
    let error = Error::new(Kind::Publish, "vCenter rejected the files as an OVF");
    Err(error.lines(missing.chain(invalid)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use winimg_base::digest::Digest;

    #[test]
    fn a_session_is_taken_up_where_all_it_has_is_of_this_image() {
        let member = |name: &str| OvaEntry {
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
