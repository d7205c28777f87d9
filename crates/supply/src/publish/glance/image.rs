//! One image of a project: found by its name and by our property, made, filled, compared and shown.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};
use url::form_urlencoded::Serializer;

use super::super::{Arrived, DiskFormat, Known, Object, Standing};
use super::answers::{Info, Page, read, refused};
use super::session::Session;
use crate::fetch;
use crate::fetch::client::Answer;
use crate::fetch::failure::Failure;
use crate::store::Watch;
use winimg_base::digest::{Algorithm, Digest, Hasher};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::unseen;

/// The SHA-256 of the file, hex, as a property of the image.
const OURS: &str = "winimg_sha256";
const BARE: &str = "bare";
/// Glance sees after a while that nobody sends any more, and makes the image `queued` again.
const SAVING: Duration = Duration::from_secs(15);
/// An image that is of no use is made anew as often.
const MADE: u32 = 3;

/// An image as it shall be.
pub struct Slot {
    pub name: String,
    pub format: DiskFormat,
    pub path: PathBuf,
    pub properties: BTreeMap<String, String>,
    /// The ids of other images of this name that the plan saw.
    pub others: Mutex<Vec<String>>,
}

impl Slot {
    pub async fn standing(
        &self,
        session: &Session,
        object: &Object,
        watch: &Watch,
    ) -> Result<Standing> {
        let seen = session.patiently(watch, async || self.list(session, object, false).await);
        let (ours, others): (Vec<_>, Vec<_>) = seen
            .await?
            .into_iter()
            .partition(|info| is_ours(info, object));
        let named = |info: &Info| match info.property(OURS) {
            Some(digest) => format!(
                "image {}, sha256:{}",
                unseen::line(&info.id),
                unseen::line(digest)
            ),
            None => format!(
                "image {}, which winimg did not make",
                unseen::line(&info.id)
            ),
        };
        if !others.is_empty() {
            let found: Vec<String> = others.iter().map(named).collect();
            let mut ids = self.others.lock().unwrap_or_else(PoisonError::into_inner);
            *ids = others.into_iter().map(|info| info.id).collect();
            return Ok(Standing::Other(found.join("; ")));
        }
        let whole = ours
            .into_iter()
            .find(|info| info.status == "active" && info.size == Some(object.size));
        Ok(match whole {
            Some(info) => Standing::Same(Some(info.id)),
            None => Standing::Absent,
        })
    }

    /// Makes the image, or goes on with what is there of it; shows it, and hides those that it replaces.
    pub async fn send(&self, session: &Session, object: &Object, watch: &Watch) -> Result<Arrived> {
        let sha512 = summed(&self.path, object).await?;
        for _ in 0..MADE {
            let id = session
                .patiently(watch, async || self.begin(session, object, watch).await)
                .await?;
            let filled =
                session.patiently(watch, async || self.fill(session, object, &id, watch).await);
            let Some(info) = filled.await? else {
                watch.note(format!(
                    "{}: an image that was left half sent or spoilt is removed",
                    object.name
                ));
                session
                    .patiently(watch, async || self.delete(session, object, &id).await)
                    .await?;
                continue;
            };
            let known = match compared(object, &info, &sha512) {
                Ok(known) => known,
                Err(error) => {
                    session
                        .patiently(watch, async || self.delete(session, object, &id).await)
                        .await?;
                    return Err(error);
                }
            };
            self.hide(session, object, &id, false, watch).await?;
            let others = self
                .others
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            for other in others {
                self.hide(session, object, &other, true, watch).await?;
            }
            return Ok(Arrived {
                known,
                id: Some(id),
            });
        }
        let fact = format!(
            "{}: Glance did not take it, though it was made anew",
            object.name
        );
        Err(Error::new(Kind::Publish, fact)
            .at(&object.at)
            .cure("look into Glance's log, and publish it again"))
    }

    /// The id of an image of this digest that is there, whole or not, or of a new one.
    async fn begin(
        &self,
        session: &Session,
        object: &Object,
        watch: &Watch,
    ) -> Result<String, Failure> {
        let mut there = self.list(session, object, true).await?;
        there.extend(self.list(session, object, false).await?);
        // An earlier try may have made it, and its answer was lost.
        there.retain(|info| is_ours(info, object));
        let rank = |info: &Info| match info.status.as_str() {
            "active" => 0,
            "queued" => 1,
            _ => 2,
        };
        there.sort_by_key(rank);
        if let Some(info) = there.into_iter().next() {
            watch.note(format!(
                "{}: one that an earlier run began is gone on with",
                object.name
            ));
            return Ok(info.id);
        }
        let mut image = Map::new();
        for (name, value) in &self.properties {
            image.insert(name.clone(), value.clone().into());
        }
        for (name, value) in [
            ("name", self.name.as_str()),
            ("disk_format", self.format.name()),
            ("container_format", BARE),
            (OURS, &object.sha256.hex()),
        ] {
            image.insert(name.to_owned(), value.into());
        }
        image.insert("os_hidden".to_owned(), true.into());
        let body = Value::from(image).to_string();
        let asked = session.ask(Method::POST, "images", |request| {
            request
                .header(CONTENT_TYPE, "application/json")
                .body(body.clone())
        });
        let bytes = session
            .whole(asked.await?, &object.name, &object.at)
            .await?;
        let made: Info = read("Glance", &bytes)?;
        Ok(made.id)
    }

    /// Sends the file to an image that waits for it. `None`: it is of no use.
    async fn fill(
        &self,
        session: &Session,
        object: &Object,
        id: &str,
        watch: &Watch,
    ) -> Result<Option<Info>, Failure> {
        let info = settled(session, object, id).await?;
        match info.as_ref().map(|info| info.status.as_str()) {
            Some("active") => return Ok(info),
            Some("queued") => {}
            _ => return Ok(None),
        }
        let path = format!("images/{id}/file");
        let answer = session.put(&path, (&self.path, object.size), watch).await?;
        // Of an image whose data it refused, a store keeps them and takes no others: Glance has no better word for that.
        if answer.status() == StatusCode::INTERNAL_SERVER_ERROR {
            return Ok(None);
        }
        if !answer.status().is_success() {
            return Err(refused(answer, "Glance", &object.name, &object.at).await);
        }
        settled(session, object, id).await
    }

    /// Images of this name and project, hidden or not, that are there or may come to be.
    async fn list(
        &self,
        session: &Session,
        object: &Object,
        hidden: bool,
    ) -> Result<Vec<Info>, Failure> {
        let query = Serializer::new(String::new())
            .append_pair("owner", &session.project().await?)
            .append_pair("name", &self.name)
            .append_pair("os_hidden", if hidden { "true" } else { "false" })
            .finish();
        let mut path = format!("images?{query}");
        let mut all = Vec::new();
        loop {
            let answer = session.ask(Method::GET, &path, |r| r).await?;
            if answer.status() == StatusCode::BAD_REQUEST {
                return Err(self.unlisted(answer, object).await);
            }
            let bytes = session.whole(answer, &object.name, &object.at).await?;
            let page: Page = read("Glance", &bytes)?;
            let is_last = page.images.is_empty();
            all.extend(page.images);
            match page
                .next
                .as_deref()
                .and_then(|next| next.split_once("images?"))
            {
                Some((_, query)) if !is_last => path = format!("images?{query}"),
                _ => break,
            }
        }
        let lives =
            |info: &Info| !["deleted", "pending_delete", "killed"].contains(&info.status.as_str());
        all.retain(|info| info.name.as_deref() == Some(&self.name) && lives(info));
        Ok(all)
    }

    /// Images are made hidden and shown when they are whole, which an old Glance cannot do.
    async fn unlisted(&self, answer: Answer, object: &Object) -> Failure {
        match refused(answer, "Glance", &object.name, &object.at).await {
            Failure::Final(error) => error
                .cure(
                    "if the words are about os_hidden, this Glance is older than OpenStack Rocky or its front lacks a part of it (Image API 2.7): \
                     upload the file with `openstack image create`",
                )
                .into(),
            again => again,
        }
    }

    async fn hide(
        &self,
        session: &Session,
        object: &Object,
        id: &str,
        hidden: bool,
        watch: &Watch,
    ) -> Result<()> {
        let change =
            json!([{ "op": "replace", "path": "/os_hidden", "value": hidden }]).to_string();
        let path = format!("images/{id}");
        let asked = session.patiently(watch, async || {
            let asked = session.ask(Method::PATCH, &path, |request| {
                request
                    .header(CONTENT_TYPE, "application/openstack-images-v2.1-json-patch")
                    .body(change.clone())
            });
            session.whole(asked.await?, &object.name, &object.at).await
        });
        asked.await.map(drop)
    }

    async fn delete(&self, session: &Session, object: &Object, id: &str) -> Result<(), Failure> {
        let answer = session
            .ask(Method::DELETE, &format!("images/{id}"), |r| r)
            .await?;
        match answer.status() {
            StatusCode::NOT_FOUND => Ok(()),
            _ => session
                .whole(answer, &object.name, &object.at)
                .await
                .map(drop),
        }
    }
}

fn is_ours(info: &Info, object: &Object) -> bool {
    info.property(OURS) == Some(&object.sha256.hex())
}

/// The image when nobody sends to it, or after a while as it is; `None`: it is gone.
async fn settled(session: &Session, object: &Object, id: &str) -> Result<Option<Info>, Failure> {
    let (begun, mut wait) = (Instant::now(), Duration::from_millis(200));
    loop {
        let answer = session
            .ask(Method::GET, &format!("images/{id}"), |r| r)
            .await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let bytes = session.whole(answer, &object.name, &object.at).await?;
        let info: Info = read("Glance", &bytes)?;
        if info.status != "saving" || begun.elapsed() > SAVING {
            return Ok(Some(info));
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(Duration::from_secs(5));
    }
}

/// The SHA-512 of a file that is the one of the manifest.
async fn summed(path: &Path, object: &Object) -> Result<Digest> {
    let at = path.to_owned();
    let summed = fetch::blocking(move || {
        let unread = |e| Error::io("read", &at, e);
        let mut file = File::open(&at).map_err(unread)?;
        let (mut sha256, mut sha512) = (
            Hasher::new(Algorithm::Sha256),
            Hasher::new(Algorithm::Sha512),
        );
        let mut chunk = vec![0; 1 << 20];
        loop {
            match file.read(&mut chunk).map_err(unread)? {
                0 => return Ok((sha256.finish(), sha512.finish())),
                read => {
                    sha256.update(&chunk[..read]);
                    sha512.update(&chunk[..read]);
                }
            }
        }
    });
    let (sha256, sha512) = summed.await?;
    if sha256 == object.sha256 {
        return Ok(sha512);
    }
    let fact = format!("{} was changed while it was sent", path.display());
    Err(Error::new(Kind::Publish, fact)
        .expected(&object.sha256)
        .found(sha256))
}

/// What Glance computed beside what it should be. (OpenStack: Image API v2, multihash)
fn compared(object: &Object, info: &Info, sha512: &Digest) -> Result<Known> {
    let other = |expected: String, found: String| {
        let fact = format!("{} arrived at Glance with other bytes", object.name);
        let error = Error::new(Kind::Publish, fact).at(&object.at);
        Err(error
            .expected(expected)
            .found(unseen::line(&found))
            .cure("publish it again"))
    };
    if info.size != Some(object.size) {
        let found = info
            .size
            .map_or("no size".into(), |size| format!("{size} bytes"));
        return other(format!("{} bytes", object.size), found);
    }
    let ours = match info.os_hash_algo.as_deref() {
        Some("sha512") => sha512,
        Some("sha256") => &object.sha256,
        _ => return Ok(Known::Size),
    };
    match &info.os_hash_value {
        Some(value) if *value == ours.hex() => Ok(Known::Digest),
        Some(value) => other(ours.to_string(), value.clone()),
        None => Ok(Known::Size),
    }
}
