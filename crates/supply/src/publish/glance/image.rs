//! One image of a project: found by name and by our property, created, uploaded, compared and
//! unhidden.

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

use super::super::{KnownBy, ObjectStatus, PublishObject, PublishedObject, check_unchanged};
use super::answers::{ImageInfo, ImagePage, read, read_failure};
use super::session::GlanceSession;
use crate::fetch::client::HttpAnswer;
use crate::fetch::failure::FetchFailure;
use crate::runtime;
use crate::store::ProgressWatch;
use winimg_base::digest::{Algorithm, Digest, Hasher};
use winimg_base::display_text;
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::OutputFormat;

/// The SHA-256 of the file, hex, as a property of the image.
const OURS: &str = "winimg_sha256";
const BARE: &str = "bare";
/// Glance notices after a while that an upload was interrupted, and resets the image to `queued`.
const SAVING: Duration = Duration::from_secs(15);
/// Maximum number of attempts to create the image.
const MADE: u32 = 3;

/// An image to create.
pub struct GlanceImage {
    pub name: String,
    pub format: OutputFormat,
    pub path: PathBuf,
    pub properties: BTreeMap<String, String>,
    /// The ids of other images of this name that the plan saw.
    pub previous_ids: Mutex<Vec<String>>,
}

impl GlanceImage {
    pub async fn check_status(
        &self,
        session: &GlanceSession,
        object: &PublishObject,
        watch: &ProgressWatch,
    ) -> Result<ObjectStatus> {
        let seen = session.with_retries(watch, async || self.list(session, object, false).await);
        let (ours, previous_ids): (Vec<_>, Vec<_>) = seen
            .await?
            .into_iter()
            .partition(|info| is_ours(info, object));
        if !previous_ids.is_empty() {
            let found: Vec<String> = previous_ids.iter().map(describe_other).collect();
            let mut ids = self
                .previous_ids
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *ids = previous_ids.into_iter().map(|info| info.id).collect();
            return Ok(ObjectStatus::Other(found.join("; ")));
        }
        let whole = ours
            .into_iter()
            .find(|info| info.status == "active" && info.size == Some(object.size));
        Ok(match whole {
            Some(info) => ObjectStatus::Same(Some(info.id)),
            None => ObjectStatus::Absent,
        })
    }

    /// Creates the image or continues an earlier upload; unhides it, and hides those that it
    /// replaces.
    pub async fn send(
        &self,
        session: &GlanceSession,
        object: &PublishObject,
        watch: &ProgressWatch,
    ) -> Result<PublishedObject> {
        let sha512 = hash_file(&self.path, object).await?;
        for _ in 0..MADE {
            let id = session
                .with_retries(watch, async || self.begin(session, object, watch).await)
                .await?;
            let filled =
                session.with_retries(watch, async || self.fill(session, object, &id, watch).await);
            let Some(info) = filled.await? else {
                watch.note(format!(
                    "{}: removing an incomplete or corrupt image",
                    object.name
                ));
                session
                    .with_retries(watch, async || self.delete(session, object, &id).await)
                    .await?;
                continue;
            };
            let known = match compare_digest(object, &info, &sha512) {
                Ok(known) => known,
                Err(error) => {
                    session
                        .with_retries(watch, async || self.delete(session, object, &id).await)
                        .await?;
                    return Err(error);
                }
            };
            self.hide(session, object, &id, false, watch).await?;
            let previous_ids = self
                .previous_ids
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            for other in previous_ids {
                self.hide(session, object, &other, true, watch).await?;
            }
            return Ok(PublishedObject {
                known,
                id: Some(id),
            });
        }
        let fact = format!(
            "{}: Glance rejected the image again after it was recreated",
            object.name
        );
        Err(Error::new(Kind::Publish, fact)
            .at(&object.at)
            .cure("check Glance's log, and publish again"))
    }

    /// Returns the ID of an image with this digest, complete or not, or creates one.
    async fn begin(
        &self,
        session: &GlanceSession,
        object: &PublishObject,
        watch: &ProgressWatch,
    ) -> Result<String, FetchFailure> {
        let mut there = self.list(session, object, true).await?;
        there.extend(self.list(session, object, false).await?);
        // An earlier attempt may have created it, with a lost answer.
        there.retain(|info| is_ours(info, object));
        there.sort_by_key(|info| match info.status.as_str() {
            "active" => 0,
            "queued" => 1,
            _ => 2,
        });
        if let Some(info) = there.into_iter().next() {
            watch.note(format!(
                "{}: continuing the image of an earlier run",
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
            .read_body(asked.await?, &object.name, &object.at)
            .await?;
        let made: ImageInfo = read("Glance", &bytes)?;
        Ok(made.id)
    }

    /// Uploads the file to an image that is waiting for it. `None`: the image is unusable.
    async fn fill(
        &self,
        session: &GlanceSession,
        object: &PublishObject,
        id: &str,
        watch: &ProgressWatch,
    ) -> Result<Option<ImageInfo>, FetchFailure> {
        let info = wait_until_settled(session, object, id).await?;
        match info.as_ref().map(|info| info.status.as_str()) {
            Some("active") => return Ok(info),
            Some("queued") => {}
            _ => return Ok(None),
        }
        let path = format!("images/{id}/file");
        let answer = session.put(&path, (&self.path, object.size), watch).await?;
        // A store may keep the data of a rejected upload and accept no other; Glance then answers
        // 500.
        if answer.status() == StatusCode::INTERNAL_SERVER_ERROR {
            return Ok(None);
        }
        if !answer.status().is_success() {
            return Err(read_failure(answer, "Glance", &object.name, &object.at).await);
        }
        wait_until_settled(session, object, id).await
    }

    /// Lists the images of this name and project, hidden or not, that exist or are being created.
    async fn list(
        &self,
        session: &GlanceSession,
        object: &PublishObject,
        hidden: bool,
    ) -> Result<Vec<ImageInfo>, FetchFailure> {
        let query = Serializer::new(String::new())
            .append_pair("owner", &session.find_project().await?)
            .append_pair("name", &self.name)
            .append_pair("os_hidden", if hidden { "true" } else { "false" })
            .finish();
        let mut path = format!("images?{query}");
        let mut all = Vec::new();
        loop {
            let answer = session.ask(Method::GET, &path, |r| r).await?;
            if answer.status() == StatusCode::BAD_REQUEST {
                return Err(self.explain_list_failure(answer, object).await);
            }
            let bytes = session.read_body(answer, &object.name, &object.at).await?;
            let page: ImagePage = read("Glance", &bytes)?;
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
        all.retain(|info| {
            let is_gone = matches!(
                info.status.as_str(),
                "deleted" | "pending_delete" | "killed"
            );
            info.name.as_deref() == Some(&self.name) && !is_gone
        });
        Ok(all)
    }

    /// Explains a failed list: an old Glance does not support hidden images.
    async fn explain_list_failure(
        &self,
        answer: HttpAnswer,
        object: &PublishObject,
    ) -> FetchFailure {
        match read_failure(answer, "Glance", &object.name, &object.at).await {
            FetchFailure::Final(error) => error
                .cure(
                    "if the message mentions os_hidden, this Glance is older than OpenStack Rocky, \
                     or its proxy does not support Image API 2.7: upload the file with `openstack \
                     image create`",
                )
                .into(),
            again => again,
        }
    }

    async fn hide(
        &self,
        session: &GlanceSession,
        object: &PublishObject,
        id: &str,
        hidden: bool,
        watch: &ProgressWatch,
    ) -> Result<()> {
        let change =
            json!([{ "op": "replace", "path": "/os_hidden", "value": hidden }]).to_string();
        let path = format!("images/{id}");
        let asked = session.with_retries(watch, async || {
            let asked = session.ask(Method::PATCH, &path, |request| {
                request
                    .header(CONTENT_TYPE, "application/openstack-images-v2.1-json-patch")
                    .body(change.clone())
            });
            session
                .read_body(asked.await?, &object.name, &object.at)
                .await
        });
        asked.await.map(drop)
    }

    async fn delete(
        &self,
        session: &GlanceSession,
        object: &PublishObject,
        id: &str,
    ) -> Result<(), FetchFailure> {
        let answer = session
            .ask(Method::DELETE, &format!("images/{id}"), |r| r)
            .await?;
        match answer.status() {
            StatusCode::NOT_FOUND => Ok(()),
            _ => session
                .read_body(answer, &object.name, &object.at)
                .await
                .map(drop),
        }
    }
}

fn describe_other(info: &ImageInfo) -> String {
    let id = display_text::sanitize_line(&info.id);
    match info.find_property(OURS) {
        Some(digest) => format!("image {id}, sha256:{}", display_text::sanitize_line(digest)),
        None => format!("image {id}, which winimg did not create"),
    }
}

fn is_ours(info: &ImageInfo, object: &PublishObject) -> bool {
    info.find_property(OURS) == Some(&object.sha256.hex())
}

/// Waits until no upload to the image is running, or a time limit; `None`: it is gone.
async fn wait_until_settled(
    session: &GlanceSession,
    object: &PublishObject,
    id: &str,
) -> Result<Option<ImageInfo>, FetchFailure> {
    let (started, mut wait) = (Instant::now(), Duration::from_millis(200));
    loop {
        let answer = session
            .ask(Method::GET, &format!("images/{id}"), |r| r)
            .await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        let bytes = session.read_body(answer, &object.name, &object.at).await?;
        let info: ImageInfo = read("Glance", &bytes)?;
        if info.status != "saving" || started.elapsed() > SAVING {
            return Ok(Some(info));
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(Duration::from_secs(5));
    }
}

/// Computes the SHA-512 of the file, and checks its SHA-256.
async fn hash_file(path: &Path, object: &PublishObject) -> Result<Digest> {
    let at = path.to_owned();
    let summed = runtime::run_blocking(move || {
        let mut file = File::open(&at).map_err(|e| Error::io("read", &at, e))?;
        let (mut sha256, mut sha512) = (
            Hasher::new(Algorithm::Sha256),
            Hasher::new(Algorithm::Sha512),
        );
        let mut chunk = vec![0; 1 << 20];
        loop {
            match file
                .read(&mut chunk)
                .map_err(|e| Error::io("read", &at, e))?
            {
                0 => return Ok((sha256.finish(), sha512.finish())),
                read => {
                    sha256.update(&chunk[..read]);
                    sha512.update(&chunk[..read]);
                }
            }
        }
    });
    let (sha256, sha512) = summed.await?;
    check_unchanged(&path.display().to_string(), &object.sha256, &sha256)?;
    Ok(sha512)
}

/// Compares the size and digest that Glance computed. (OpenStack: Image API v2, multihash)
fn compare_digest(object: &PublishObject, info: &ImageInfo, sha512: &Digest) -> Result<KnownBy> {
    if info.size != Some(object.size) {
        let found = info
            .size
            .map_or("no size".into(), |size| format!("{size} bytes"));
        let expected = format!("{} bytes", object.size);
        return Err(report_corrupt(object, &expected, &found));
    }
    let ours = match info.os_hash_algo.as_deref() {
        Some("sha512") => sha512,
        Some("sha256") => &object.sha256,
        _ => return Ok(KnownBy::Size),
    };
    match &info.os_hash_value {
        Some(value) if *value == ours.hex() => Ok(KnownBy::Digest),
        Some(value) => Err(report_corrupt(object, &ours.to_string(), value)),
        None => Ok(KnownBy::Size),
    }
}

fn report_corrupt(object: &PublishObject, expected: &str, found: &str) -> Error {
    object
        .report_corrupt("Glance", expected, found)
        .cure("publish again")
}
