//! A tag of a registry: an image's files as one artifact, or its containerDisk as a container image; with the image's records attached.
//!
//! The registry computes each digest itself. The tag is given last, so that it never names what is not all there. Attached is what
//! refers to the manifest by `subject`; a registry that lists no referrers has them listed under a tag. (OCI Distribution
//! Specification 1.1: referrers tag schema)

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use oci_client::Reference;
use serde_json::{Value, json};

use super::body::Body;
use super::container_disk::Layout;
use super::destination::Tag;
use super::documents::{EMPTY, INDEX, MANIFEST, artifact, attached, descriptor, json as written};
use super::server::OF_PUBLISH;
use super::{
    Arrived, File, Image, Known, Login, Object, Role, Settings, Standing, Target, patiently,
};
use crate::fetch::FetchOptions;
use crate::fetch::failure::Failure;
use crate::fetch::registry::{
    Client, Credentials, Error as Said, Lookup, Places, Upload, Wanted, logged_in, with_token_host,
};
use crate::fetch::retry::Tries;
use crate::fetch::upload;
use crate::store::Watch;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};

/// Bytes that are given at once: what breaks off is sent again from there.
const PIECE: u64 = 32 << 20;

pub struct Repository {
    client: Client,
    tag: Tag,
    is_container_disk: bool,
    options: FetchOptions,
    /// What helps where the registry denies access.
    cure: String,
}

/// What a registry has an object as.
pub enum Slot {
    Blob,
    /// Under a tag or a digest.
    Manifest(String),
    /// The tag that lists what refers to a manifest.
    Referrers(String),
}

impl Target for Repository {
    type Slot = Slot;

    async fn objects(self: &Arc<Self>, image: &Image, watch: &Watch) -> Result<Vec<Object>> {
        let (mut objects, manifest) = match self.is_container_disk {
            true => self.container_disk(image)?,
            false => self.artifact(image)?,
        };
        let subject = descriptor(&manifest.media_type, &manifest.sha256, manifest.size);
        let records = image.files.iter().filter(|file| file.role == Role::Record);
        let mut entries = Vec::new();
        objects.extend(records.clone().map(|file| self.blob(file)));
        objects.push(self.made("empty configuration", EMPTY, b"{}".to_vec(), Slot::Blob));
        for file in records {
            let attached = attached(file, &subject);
            let bytes = written(&attached)?;
            let sha256 = Digest::sha256_of(&bytes);
            let mut entry = json!(descriptor(MANIFEST, &sha256, bytes.len() as u64));
            entry["artifactType"] = file.media_type.into();
            entry["annotations"] = json!(attached.annotations);
            entries.push(entry);
            let slot = Slot::Manifest(sha256.to_string());
            objects.push(self.made(&format!("{} attached", file.name), MANIFEST, bytes, slot));
        }
        let lists = patiently(&self.options, watch, async || {
            let lists = self.client.lists_referrers(&manifest.sha256).await;
            lists.map_err(|e| self.failure("the list of referrers", e))
        });
        let lists = lists.await?;
        if !entries.is_empty() && !lists {
            objects.push(self.referrers(&manifest.sha256, entries, watch).await?);
        }
        objects.push(manifest);
        // Two parts of one digest are one blob.
        let mut seen = BTreeSet::new();
        objects.retain(|object| seen.insert(object.at.clone()));
        Ok(objects)
    }

    async fn standing(&self, object: &Object, slot: &Slot, watch: &Watch) -> Result<Standing> {
        patiently(&self.options, watch, async || {
            let looked = match slot {
                Slot::Manifest(name) => self.manifest(name, object).await,
                // It keeps what the one that is there lists.
                Slot::Referrers(tag) => match self.manifest(tag, object).await {
                    Ok(Standing::Other(_)) => Ok(Standing::Absent),
                    standing => standing,
                },
                Slot::Blob => self.has(object).await,
            };
            looked.map_err(|e| self.failure(&object.name, e))
        })
        .await
    }

    async fn send(&self, object: &Object, slot: &Slot, watch: &Watch) -> Result<Arrived> {
        match slot {
            Slot::Manifest(name) | Slot::Referrers(name) => {
                let (bytes, _) = object.body.read(0, object.size).await?;
                self.send_manifest(name, object, bytes, watch).await?;
            }
            Slot::Blob if object.size > PIECE => self.send_in_pieces(object, watch).await?,
            Slot::Blob => self.send_blob(object, watch).await?,
        }
        Ok(Known::Digest.into())
    }
}

impl Repository {
    pub fn new(tag: &Tag, is_container_disk: bool, settings: Settings) -> Result<Self> {
        let Lookup { credentials, cure } = login(tag, settings.login, &settings.places)?;
        let options = settings.options;
        if credentials.is_some() && tag.plain && !tag.is_here {
            let fact = "a password for the registry would be readable on its way";
            let error = Error::new(Kind::Recipe, fact).at(tag);
            return Err(error.cure("leave out +http: https is used"));
        }
        let named = Reference::with_tag(
            tag.registry.clone(),
            tag.repository.clone(),
            tag.tag.clone(),
        );
        let (proxies, patience) = (&options.proxies, options.patience);
        Ok(Self {
            client: Client::new(&named, tag.plain, credentials, proxies, patience)?,
            tag: tag.clone(),
            is_container_disk,
            options,
            cure,
        })
    }

    /// The parts of the image's containerDisk, and its manifest.
    fn container_disk(self: &Arc<Self>, image: &Image) -> Result<(Vec<Object>, Object)> {
        let file = image.files.iter().find(|f| f.role == Role::ContainerDisk);
        let file = file.ok_or_else(|| {
            Error::new(Kind::Recipe, "the image has no containerDisk")
                .at(&self.tag)
                .cure("add container_disk = {} under [outputs] and build again, or make one: winimg export --to container_disk")
        })?;
        let layout = Layout::read(&file.path)?;
        let blobs = layout.blobs.into_iter().map(|blob| Object {
            name: format!("{} {}", file.name, short(&blob.sha256)),
            at: self.address(&blob.sha256),
            size: blob.size,
            sha256: blob.sha256,
            media_type: blob.media_type,
            body: Body::File {
                path: file.path.clone(),
                start: blob.start,
            },
            done: "sent",
            place: self.slot(Slot::Blob),
        });
        let slot = Slot::Manifest(self.tag.tag.clone());
        let manifest = self.made("manifest", &layout.media_type, layout.manifest, slot);
        Ok((blobs.collect(), manifest))
    }

    /// The image's artifacts, and a manifest that names them.
    fn artifact(self: &Arc<Self>, image: &Image) -> Result<(Vec<Object>, Object)> {
        let artifacts = || image.files.iter().filter(|file| file.role != Role::Record);
        let slot = Slot::Manifest(self.tag.tag.clone());
        let manifest = self.made(
            "manifest",
            MANIFEST,
            written(&artifact(image, artifacts()))?,
            slot,
        );
        Ok((artifacts().map(|file| self.blob(file)).collect(), manifest))
    }

    /// The list of what refers to a manifest, with these entries and those that are in it.
    async fn referrers(
        self: &Arc<Self>,
        subject: &Digest,
        entries: Vec<Value>,
        watch: &Watch,
    ) -> Result<Object> {
        let name = "list of attached records";
        let tag = format!("sha256-{}", subject.hex());
        let listed = patiently(&self.options, watch, async || {
            let listed = self.listed(&tag).await;
            listed.map_err(|e| self.failure(name, e))
        });
        let bytes = match listed.await? {
            (Some(bytes), all) if entries.iter().all(|e| all.iter().any(|a| is_same(a, e))) => {
                bytes
            }
            (_, mut all) => {
                all.retain(|one| !entries.iter().any(|entry| is_same(one, entry)));
                all.extend(entries);
                let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": all });
                index.to_string().into_bytes()
            }
        };
        let at = format!("{}/{}:{tag}", self.tag.registry, self.tag.repository);
        let list = self.made(name, INDEX, bytes, Slot::Referrers(tag));
        Ok(Object { at, ..list })
    }

    fn blob(self: &Arc<Self>, file: &File) -> Object {
        Object {
            name: file.name.clone(),
            at: self.address(&file.sha256),
            size: file.size,
            sha256: file.sha256.clone(),
            media_type: file.media_type.into(),
            body: Body::file(&file.path),
            done: "sent",
            place: self.slot(Slot::Blob),
        }
    }

    fn made(self: &Arc<Self>, name: &str, media_type: &str, bytes: Vec<u8>, slot: Slot) -> Object {
        let sha256 = Digest::sha256_of(&bytes);
        Object {
            name: name.to_owned(),
            at: match &slot {
                Slot::Manifest(name) if *name == self.tag.tag => self.tag.to_string(),
                _ => self.address(&sha256),
            },
            size: bytes.len() as u64,
            sha256,
            media_type: media_type.to_owned(),
            body: Body::Made(bytes.into()),
            done: "sent",
            place: self.slot(slot),
        }
    }

    fn address(&self, digest: &Digest) -> String {
        format!("{}/{}@{digest}", self.tag.registry, self.tag.repository)
    }

    async fn has(&self, object: &Object) -> Result<Standing, Said> {
        match self.client.has_blob(&object.sha256).await {
            Ok(true) => Ok(Standing::Same(None)),
            Ok(false) => Ok(Standing::Absent),
            Err(e) if e.is_absent() => Ok(Standing::Absent),
            Err(e) => Err(e),
        }
    }

    async fn manifest(&self, name: &str, object: &Object) -> Result<Standing, Said> {
        match self.client.manifest(name, &[MANIFEST, INDEX]).await {
            Ok(bytes) => Ok(match Digest::sha256_of(&bytes) {
                digest if digest == object.sha256 => Standing::Same(None),
                digest => Standing::Other(format!("the manifest {digest}")),
            }),
            Err(e) if e.is_absent() => Ok(Standing::Absent),
            Err(e) => Err(e),
        }
    }

    /// The list under a tag of referrers, and its entries.
    async fn listed(&self, tag: &str) -> Result<(Option<Vec<u8>>, Vec<Value>), Said> {
        let bytes = match self.client.manifest(tag, &[INDEX]).await {
            Ok(bytes) => bytes,
            Err(e) if e.is_absent() => return Ok((None, Vec::new())),
            Err(e) => return Err(e),
        };
        let index: Value =
            serde_json::from_slice(&bytes).map_err(|e| Said::Unexpected(e.to_string()))?;
        let listed = index.get("manifests").and_then(Value::as_array);
        let listed = listed.cloned().unwrap_or_default();
        Ok((Some(bytes.to_vec()), listed))
    }

    async fn send_manifest(
        &self,
        name: &str,
        object: &Object,
        bytes: Bytes,
        watch: &Watch,
    ) -> Result<()> {
        patiently(&self.options, watch, async || {
            let given = self
                .client
                .give_manifest(name, &object.media_type, bytes.to_vec());
            given.await.map_err(|e| self.failure(&object.name, e))
        })
        .await
    }

    /// In one request.
    async fn send_blob(&self, object: &Object, watch: &Watch) -> Result<()> {
        patiently(&self.options, watch, async || {
            let Body::File { path, start } = &object.body else {
                let (bytes, _) = object.body.read(0, object.size).await?;
                let given = self.client.give_blob(bytes, &object.sha256, object.size);
                return given.await.map_err(|e| self.failure(&object.name, e));
            };
            let (body, moved) = upload::body(path, *start, object.size, watch)?;
            let stall = self.options.patience.stall;
            tokio::select! {
                given = self.client.give_blob(body, &object.sha256, object.size) => {
                    given.map_err(|e| self.failure(&object.name, e))
                }
                () = moved.stands_still(stall) => {
                    let silent = crate::fetch::client::Fault::Silent(stall);
                    Err(self.failure(&object.name, silent.into()))
                }
            }
        })
        .await
    }

    async fn send_in_pieces(&self, object: &Object, watch: &Watch) -> Result<()> {
        let mut tries = Tries::default();
        let (mut upload, mut done): (Option<Upload>, u64) = (None, 0);
        loop {
            let failure = match self.go_on(object, &mut upload, &mut done, watch).await {
                Ok(()) => return Ok(()),
                // Not every registry takes pieces.
                Err(Said::Status(status, _)) if done == 0 && is_refusal(status.as_u16()) => {
                    return self.send_blob(object, watch).await;
                }
                Err(e) => self.failure(&object.name, e),
            };
            tries.wait(failure, done, &self.options, watch).await?;
            let Some(begun) = upload.take() else {
                continue;
            };
            let reached = patiently(&self.options, watch, async || {
                match self.client.reached(&begun).await {
                    Ok(reached) => Ok(Some(reached)),
                    Err(e) if e.is_passing() => Err(self.failure(&object.name, e)),
                    Err(_) => Ok(None),
                }
            });
            match reached.await? {
                Some((next, have)) if have <= object.size => (upload, done) = (Some(next), have),
                // Some forget an upload that broke off: in one request there is less to break.
                _ => return self.send_blob(object, watch).await,
            }
        }
    }

    /// Gives piece after piece, from where the upload is.
    async fn go_on(
        &self,
        object: &Object,
        upload: &mut Option<Upload>,
        done: &mut u64,
        watch: &Watch,
    ) -> Result<(), Said> {
        let mut at = match upload.take() {
            Some(begun) => upload.insert(begun),
            None => upload.insert(self.client.begin_upload().await?),
        };
        while *done < object.size {
            let length = PIECE.min(object.size - *done);
            let (bytes, _) = object.body.read(*done, length).await?;
            let next = self.client.give_piece(at, *done, bytes).await?;
            at = upload.insert(next);
            *done += length;
            watch.bytes(*done, Some(object.size))?;
        }
        self.client
            .end_upload(at, Bytes::new(), &object.sha256, 0)
            .await
    }

    fn error(&self, what: &str, fact: &str) -> Error {
        Error::new(Kind::Publish, format!("{what}: the registry {fact}")).at(&self.tag)
    }

    fn failure(&self, what: &str, said: Said) -> Failure {
        let passes = said.is_passing();
        let error = match (said.status(), said) {
            (_, Said::Own(error)) => return error.into(),
            (Some(401 | 403), said) | (_, said @ (Said::Unauthorized | Said::NoToken(_))) => self
                .error(what, "denies access")
                .found(said)
                .cure(&self.cure),
            (Some(404), said) => self
                .error(what, "has no such repository")
                .found(said)
                .cure("make the repository first; not every registry makes one that is pushed to"),
            (_, said) => self.error(what, "did not take it").found(said),
        };
        match passes {
            true => Failure::again(error),
            false => error.into(),
        }
    }
}

/// Who publishes: as the environment says, else as a login left it.
fn login(tag: &Tag, login: Option<Login>, places: &Places) -> Result<Lookup> {
    let wanted = Wanted {
        registry: &tag.registry,
        repository: &tag.repository,
        variables: &OF_PUBLISH,
    };
    match login {
        None => logged_in(wanted, places),
        Some(Login::Password { user, password }) => {
            let credentials = with_token_host(Credentials::new(user, password), places)?;
            Ok(Lookup::of_variables(credentials, &OF_PUBLISH))
        }
        Some(Login::Token(_)) => {
            let fact = "a registry is given no token without a user";
            let error = Error::new(Kind::Recipe, fact).at("WINIMG_PUBLISH_TOKEN");
            Err(error.cure(
                "set WINIMG_PUBLISH_USER and WINIMG_PUBLISH_PASSWORD, whose place a registry's token takes, or `docker login` to it",
            ))
        }
    }
}

/// A status that says no to pieces, and not to the blob.
fn is_refusal(status: u16) -> bool {
    (400..500).contains(&status) && ![401, 403, 408, 425, 429].contains(&status)
}

fn is_same(one: &Value, other: &Value) -> bool {
    one.get("digest") == other.get("digest")
}

fn short(digest: &Digest) -> String {
    digest.hex().chars().take(12).collect()
}
