//! Publishes to a tag of a registry: an image's files as one artifact, or its containerDisk as a
//! container image, with the image's records attached.
//!
//! The registry computes each digest itself. The tag is pushed last, so that it never names an
//! incomplete image. Records refer to the manifest by `subject`; for registries without the
//! referrers API they are listed under a tag. (OCI Distribution Specification 1.1: referrers tag
//! schema)

mod blob;
mod container_disk;
mod oci_documents;
mod tag;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use oci_client::Reference;
use serde_json::{Value, json};

pub use tag::RegistryTag;

use super::body::ObjectBody;
use super::login::{OF_PUBLISH, ServerLogin};
use super::{
    FileRole, KnownBy, ObjectStatus, PublishFile, PublishHost, PublishImage, PublishObject,
    PublishedObject, RemoteObject, with_retries,
};
use crate::fetch::FetchOptions;
use crate::fetch::failure::FetchFailure;
use crate::fetch::registry::{
    Credentials, LoginLookup, LoginQuery, RegistryClient, RegistryConfig, RegistryError,
    find_stored_login, with_token_host,
};
use crate::fetch::shared_cache::make_descriptor;
use crate::store::ProgressWatch;
use container_disk::ContainerDiskLayout;
use oci_documents::{EMPTY, INDEX, MANIFEST, attach_record, build_artifact, to_json};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::OutputFormat;

/// Size of an upload piece in bytes; an interrupted piece is sent again.
const PIECE: u64 = 32 << 20;

pub struct RegistryRepository {
    client: RegistryClient,
    tag: RegistryTag,
    is_container_disk: bool,
    options: FetchOptions,
    /// Cure if the registry denies access.
    cure: String,
}

/// Kind of an object in a registry.
pub enum RegistrySlot {
    Blob,
    /// Under a tag or a digest.
    Manifest(String),
    /// The tag that lists the referrers of a manifest.
    Referrers(String),
}

impl RegistryRepository {
    pub fn new(tag: &RegistryTag, is_container_disk: bool, host: &PublishHost) -> Result<Self> {
        let login = ServerLogin::of_environment()?;
        let LoginLookup { credentials, cure } = find_login(tag, login, &host.registries)?;
        let options = host.fetch.clone();
        if credentials.is_some() && tag.plain && !tag.is_here {
            let fact = "the password for the registry would be sent unencrypted";
            let error = Error::new(Kind::Recipe, fact).at(tag);
            return Err(error.cure("omit +http to use https"));
        }
        let named = Reference::with_tag(
            tag.registry.clone(),
            tag.repository.clone(),
            tag.tag.clone(),
        );
        let (proxies, patience) = (&options.proxies, options.patience);
        Ok(Self {
            client: RegistryClient::new(&named, tag.plain, credentials, proxies, patience)?,
            tag: tag.clone(),
            is_container_disk,
            options,
            cure,
        })
    }

    pub async fn list_objects(
        self: &Arc<Self>,
        image: &PublishImage,
        watch: &ProgressWatch,
    ) -> Result<Vec<PublishObject>> {
        let (mut objects, manifest) = if self.is_container_disk {
            self.container_disk(image)?
        } else {
            self.list_artifact(image)?
        };
        let subject = make_descriptor(&manifest.media_type, &manifest.sha256, manifest.size);
        let records = image
            .files
            .iter()
            .filter(|file| file.role == FileRole::Record);
        let mut entries = Vec::new();
        objects.extend(records.clone().map(|file| self.make_blob(file)));
        objects.push(self.make_object(
            "empty configuration",
            EMPTY,
            b"{}".to_vec(),
            RegistrySlot::Blob,
        ));
        for file in records {
            let attached = attach_record(file, &subject);
            let bytes = to_json(&attached)?;
            let sha256 = Digest::sha256_of(&bytes);
            let mut entry = json!(make_descriptor(MANIFEST, &sha256, bytes.len() as u64));
            entry["artifactType"] = file.media_type.into();
            entry["annotations"] = json!(attached.annotations);
            entries.push(entry);
            let slot = RegistrySlot::Manifest(sha256.to_string());
            objects.push(self.make_object(
                &format!("{} attached", file.name),
                MANIFEST,
                bytes,
                slot,
            ));
        }
        let lists = with_retries(&self.options, watch, async || {
            let lists = self.client.lists_referrers(&manifest.sha256).await;
            lists.map_err(|e| self.classify_error("the list of referrers", e))
        });
        let lists = lists.await?;
        if !entries.is_empty() && !lists {
            objects.push(
                self.build_referrers(&manifest.sha256, entries, watch)
                    .await?,
            );
        }
        objects.push(manifest);
        // Parts with the same digest are one blob.
        let mut seen = BTreeSet::new();
        objects.retain(|object| seen.insert(object.at.clone()));
        Ok(objects)
    }

    pub async fn check_status(
        &self,
        object: &PublishObject,
        slot: &RegistrySlot,
        watch: &ProgressWatch,
    ) -> Result<ObjectStatus> {
        with_retries(&self.options, watch, async || {
            let looked = match slot {
                RegistrySlot::Manifest(name) => self.check_manifest(name, object).await,
                // A different list is extended, not replaced.
                RegistrySlot::Referrers(tag) => match self.check_manifest(tag, object).await {
                    Ok(ObjectStatus::Other(_)) => Ok(ObjectStatus::Absent),
                    standing => standing,
                },
                RegistrySlot::Blob => self.has(object).await,
            };
            looked.map_err(|e| self.classify_error(&object.name, e))
        })
        .await
    }

    pub async fn send(
        &self,
        object: &PublishObject,
        slot: &RegistrySlot,
        watch: &ProgressWatch,
    ) -> Result<PublishedObject> {
        match slot {
            RegistrySlot::Manifest(name) | RegistrySlot::Referrers(name) => {
                let (bytes, _) = object.body.read(0, object.size).await?;
                self.send_manifest(name, object, bytes, watch).await?;
            }
            RegistrySlot::Blob if object.size > PIECE => self.send_in_pieces(object, watch).await?,
            RegistrySlot::Blob => self.send_blob(object, watch).await?,
        }
        Ok(KnownBy::Digest.into())
    }

    /// Lists the parts of the image's containerDisk, and its manifest.
    fn container_disk(
        self: &Arc<Self>,
        image: &PublishImage,
    ) -> Result<(Vec<PublishObject>, PublishObject)> {
        let file = image
            .files
            .iter()
            .find(|file| file.is_output(OutputFormat::ContainerDisk));
        let file = file.ok_or_else(|| {
            Error::new(Kind::Recipe, "the image has no containerDisk")
                .at(&self.tag)
                .cure(
                    "add container_disk = {} under [outputs] and build again, or make one: winimg \
                     export --to container_disk",
                )
        })?;
        let layout = ContainerDiskLayout::read(&file.path)?;
        let blobs = layout.blobs.into_iter().map(|blob| PublishObject {
            name: format!("{} {}", file.name, shorten(&blob.sha256)),
            at: self.format_address(&blob.sha256),
            size: blob.size,
            sha256: blob.sha256,
            media_type: blob.media_type,
            body: ObjectBody::File {
                path: file.path.clone(),
                start: blob.start,
            },
            done: "sent",
            remote: self.remote(RegistrySlot::Blob),
        });
        let slot = RegistrySlot::Manifest(self.tag.tag.clone());
        let manifest = self.make_object("manifest", &layout.media_type, layout.manifest, slot);
        Ok((blobs.collect(), manifest))
    }

    /// Lists the image's artifacts, and a manifest that names them.
    fn list_artifact(
        self: &Arc<Self>,
        image: &PublishImage,
    ) -> Result<(Vec<PublishObject>, PublishObject)> {
        let artifacts = image
            .files
            .iter()
            .filter(|file| file.role != FileRole::Record);
        let slot = RegistrySlot::Manifest(self.tag.tag.clone());
        let bytes = to_json(&build_artifact(image, artifacts.clone()))?;
        let manifest = self.make_object("manifest", MANIFEST, bytes, slot);
        Ok((
            artifacts.map(|file| self.make_blob(file)).collect(),
            manifest,
        ))
    }

    /// Builds the list of referrers of a manifest: the current entries and these.
    async fn build_referrers(
        self: &Arc<Self>,
        subject: &Digest,
        entries: Vec<Value>,
        watch: &ProgressWatch,
    ) -> Result<PublishObject> {
        let name = "list of attached records";
        let tag = format!("sha256-{}", subject.hex());
        let listed = with_retries(&self.options, watch, async || {
            let listed = self.fetch_referrers(&tag).await;
            listed.map_err(|e| self.classify_error(name, e))
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
        let list = self.make_object(name, INDEX, bytes, RegistrySlot::Referrers(tag));
        Ok(PublishObject { at, ..list })
    }

    fn make_blob(self: &Arc<Self>, file: &PublishFile) -> PublishObject {
        let at = self.format_address(&file.sha256);
        PublishObject::from_file(file, at, self.remote(RegistrySlot::Blob))
    }

    fn remote(self: &Arc<Self>, slot: RegistrySlot) -> RemoteObject {
        RemoteObject::Registry(Arc::clone(self), slot)
    }

    fn make_object(
        self: &Arc<Self>,
        name: &str,
        media_type: &str,
        bytes: Vec<u8>,
        slot: RegistrySlot,
    ) -> PublishObject {
        let sha256 = Digest::sha256_of(&bytes);
        PublishObject {
            name: name.to_owned(),
            at: match &slot {
                RegistrySlot::Manifest(name) if *name == self.tag.tag => self.tag.to_string(),
                _ => self.format_address(&sha256),
            },
            size: bytes.len() as u64,
            sha256,
            media_type: media_type.to_owned(),
            body: ObjectBody::Made(bytes.into()),
            done: "sent",
            remote: self.remote(slot),
        }
    }

    fn format_address(&self, digest: &Digest) -> String {
        format!("{}/{}@{digest}", self.tag.registry, self.tag.repository)
    }

    async fn has(&self, object: &PublishObject) -> Result<ObjectStatus, RegistryError> {
        match self.client.has_blob(&object.sha256).await {
            Ok(true) => Ok(ObjectStatus::Same(None)),
            Ok(false) => Ok(ObjectStatus::Absent),
            Err(e) if e.is_absent() => Ok(ObjectStatus::Absent),
            Err(e) => Err(e),
        }
    }

    async fn check_manifest(
        &self,
        name: &str,
        object: &PublishObject,
    ) -> Result<ObjectStatus, RegistryError> {
        match self.client.fetch_manifest(name, &[MANIFEST, INDEX]).await {
            Ok(bytes) => Ok(match Digest::sha256_of(&bytes) {
                digest if digest == object.sha256 => ObjectStatus::Same(None),
                digest => ObjectStatus::Other(format!("the manifest {digest}")),
            }),
            Err(e) if e.is_absent() => Ok(ObjectStatus::Absent),
            Err(e) => Err(e),
        }
    }

    /// Fetches the list of referrers under a tag, and its entries.
    async fn fetch_referrers(
        &self,
        tag: &str,
    ) -> Result<(Option<Vec<u8>>, Vec<Value>), RegistryError> {
        let bytes = match self.client.fetch_manifest(tag, &[INDEX]).await {
            Ok(bytes) => bytes,
            Err(e) if e.is_absent() => return Ok((None, Vec::new())),
            Err(e) => return Err(e),
        };
        let index: Value =
            serde_json::from_slice(&bytes).map_err(|e| RegistryError::Unexpected(e.to_string()))?;
        let listed = index.get("manifests").and_then(Value::as_array);
        let listed = listed.cloned().unwrap_or_default();
        Ok((Some(bytes.to_vec()), listed))
    }

    async fn send_manifest(
        &self,
        name: &str,
        object: &PublishObject,
        bytes: Bytes,
        watch: &ProgressWatch,
    ) -> Result<()> {
        with_retries(&self.options, watch, async || {
            let given = self
                .client
                .give_manifest(name, &object.media_type, bytes.to_vec());
            given
                .await
                .map_err(|e| self.classify_error(&object.name, e))
        })
        .await
    }

    fn error(&self, what: &str, fact: &str) -> Error {
        Error::new(Kind::Publish, format!("{what}: the registry {fact}")).at(&self.tag)
    }

    fn classify_error(&self, what: &str, said: RegistryError) -> FetchFailure {
        let passes = said.is_passing();
        let error = match (said.status(), said) {
            (_, RegistryError::Own(error)) => return error.into(),
            (Some(401 | 403), said)
            | (_, said @ (RegistryError::Unauthorized | RegistryError::NoToken(_))) => self
                .error(what, "denies access")
                .found(said)
                .cure(&self.cure),
            (Some(404), said) => self
                .error(what, "has no such repository")
                .found(said)
                .cure("create the repository first; not every registry creates it on push"),
            (_, said) => self.error(what, "rejected it").found(said),
        };
        if passes {
            FetchFailure::retryable(error)
        } else {
            error.into()
        }
    }
}

/// Finds the login: from the environment, else a stored one.
fn find_login(
    tag: &RegistryTag,
    login: Option<ServerLogin>,
    places: &RegistryConfig,
) -> Result<LoginLookup> {
    let wanted = LoginQuery {
        registry: &tag.registry,
        repository: &tag.repository,
        variables: &OF_PUBLISH,
    };
    match login {
        None => find_stored_login(wanted, places),
        Some(ServerLogin::Password { user, password }) => {
            let credentials = with_token_host(Credentials::new(user, password), places)?;
            Ok(LoginLookup::from_variables(credentials, &OF_PUBLISH))
        }
        Some(ServerLogin::Token(_)) => {
            let fact = "a token for a registry needs a user";
            let error = Error::new(Kind::Recipe, fact).at("WINIMG_PUBLISH_TOKEN");
            Err(error.cure(
                "set WINIMG_PUBLISH_USER, and WINIMG_PUBLISH_PASSWORD to the token, or run \
                 `docker login`",
            ))
        }
    }
}

/// Returns true for a status that refuses pieces, not the blob.
fn is_refusal(status: u16) -> bool {
    (400..500).contains(&status) && ![401, 403, 408, 425, 429].contains(&status)
}

fn is_same(one: &Value, other: &Value) -> bool {
    one.get("digest") == other.get("digest")
}

fn shorten(digest: &Digest) -> String {
    digest.hex().chars().take(12).collect()
}
