//! Makes an image from a disk in a storage account: a managed image, or a gallery version.
//!
//! Images are recognized by their tag only, so a later run continues the work of a killed one.
//! Never removes a gallery version of another disk: machines may be made from it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::super::super::{KnownBy, ObjectStatus, PublishedObject};
use super::place::GalleryVersion;
use super::{ArmClient, AzurePlace, FIRST_WAIT, OperationState, ResourcePath, failed, pause};
use crate::store::ProgressWatch;
use winimg_base::display_text;
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::Firmware;

/// The SHA-256 of the disk, hex. (Azure Resource Manager: tags, limitations)
const OURS: &str = "winimg-sha256";
const IMAGES: &str = "2024-11-01";
const GALLERIES: &str = "2024-03-03";
const ACCOUNTS: &str = "2024-01-01";

/// Description of an image to make.
#[derive(Clone)]
pub struct AzureImageSpec {
    pub place: AzurePlace,
    /// Name of the image: the recipe's.
    pub name: String,
    /// Windows version.
    pub build: String,
    /// SHA-256 of the disk, hex.
    pub sha256: String,
    pub firmware: Firmware,
    /// Address of the disk, without a signature.
    pub disk: Url,
}

pub struct AzureImage {
    pub arm: Arc<ArmClient>,
    pub about: AzureImageSpec,
}

#[derive(Deserialize)]
struct ArmResource {
    id: String,
    #[serde(default)]
    location: String,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    #[serde(default)]
    properties: ArmProperties,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArmProperties {
    provisioning_state: Option<String>,
    os_type: Option<String>,
    os_state: Option<String>,
    hyper_v_generation: Option<String>,
}

impl ArmResource {
    fn state(&self) -> OperationState {
        match self.properties.provisioning_state.as_deref() {
            Some("Succeeded") => OperationState::Done,
            Some(words @ ("Failed" | "Canceled" | "Deleting")) => {
                OperationState::Ended(words.into())
            }
            words => {
                OperationState::Active(display_text::sanitize_line(words.unwrap_or("Creating")))
            }
        }
    }
}

impl AzureImageSpec {
    /// (Azure virtual machines: support for generation 2)
    fn generation(&self) -> &'static str {
        match self.firmware {
            Firmware::Uefi => "V2",
            Firmware::Bios => "V1",
        }
    }

    /// Returns the ID of the image.
    pub fn id(&self) -> String {
        self.path().id
    }

    fn path(&self) -> ResourcePath {
        let compute = format!("{}/providers/Microsoft.Compute", self.place.id());
        match &self.place.version {
            None => ResourcePath {
                id: format!("{compute}/images/{}", self.name),
                version: IMAGES,
            },
            Some(GalleryVersion { version, .. }) => ResourcePath {
                id: format!("{}/versions/{version}", self.definition().id),
                version: GALLERIES,
            },
        }
    }

    fn definition(&self) -> ResourcePath {
        let (gallery, definition) = match &self.place.version {
            Some(version) => (version.gallery.as_str(), version.definition.as_str()),
            None => ("", ""),
        };
        let group = self.place.id();
        ResourcePath {
            id: format!(
                "{group}/providers/Microsoft.Compute/galleries/{gallery}/images/{definition}"
            ),
            version: GALLERIES,
        }
    }

    fn account(&self) -> ResourcePath {
        let (group, account) = (self.place.id(), &self.place.blobs.account);
        ResourcePath {
            id: format!("{group}/providers/Microsoft.Storage/storageAccounts/{account}"),
            version: ACCOUNTS,
        }
    }

    /// Renders the request body. The location is the account's region: Azure does not read a disk
    /// from another one.
    fn body(&self, location: &str) -> Value {
        let properties = match &self.place.version {
            None => json!({
                "hyperVGeneration": self.generation(),
                "storageProfile": {"osDisk": {
                    "osType": "Windows",
                    "osState": "Generalized",
                    "blobUri": self.disk.as_str(),
                }},
            }),
            Some(version) => {
                let others = version.regions.iter().map(String::as_str);
                let others = others.filter(|region| *region != location);
                let regions = std::iter::once(location).chain(others);
                let targets = regions
                    .map(|name| json!({"name": name, "regionalReplicaCount": version.replicas}));
                json!({
                    "publishingProfile": {"targetRegions": targets.collect::<Vec<_>>()},
                    "storageProfile": {"osDiskImage": {"source": {
                        "storageAccountId": self.account().id,
                        "uri": self.disk.as_str(),
                    }}},
                })
            }
        };
        json!({
            "location": location,
            "tags": {OURS: self.sha256, "winimg-build": self.build},
            "properties": properties,
        })
    }
}

impl AzureImage {
    /// Checks that the image can be made there, before anything is sent.
    pub async fn admitted(&self, watch: &ProgressWatch) -> Result<()> {
        self.location(watch).await?;
        if self.about.place.version.is_none() {
            return Ok(());
        }
        let path = self.about.definition();
        let Some(definition) = self.arm.get::<ArmResource>(&path, watch).await? else {
            let fact = "the gallery has no such image definition";
            return Err(Error::new(Kind::Publish, fact)
                .at(path.id)
                .cure("create it first: az sig image-definition create"));
        };
        let ArmProperties {
            os_type,
            os_state,
            hyper_v_generation,
            ..
        } = definition.properties;
        let expected = format!("Windows, Generalized, {}", self.about.generation());
        // (Azure REST API: gallery images: the default is V1)
        let found = display_text::sanitize_line(&format!(
            "{}, {}, {}",
            os_type.unwrap_or_default(),
            os_state.unwrap_or_default(),
            hyper_v_generation.as_deref().unwrap_or("V1"),
        ));
        if found == expected {
            return Ok(());
        }
        Err(
            Error::new(Kind::Publish, "the image definition is for other machines")
                .at(path.id)
                .expected(expected)
                .found(found)
                .cure(
                    "name another definition in --gallery, or create one: az sig image-definition \
                     create",
                ),
        )
    }

    /// Fetches the region of the account.
    async fn location(&self, watch: &ProgressWatch) -> Result<String> {
        let path = self.about.account();
        let account = self.arm.get::<ArmResource>(&path, watch).await?;
        let account = account.ok_or_else(|| {
            let fact = "the resource group has no such storage account";
            Error::new(Kind::Publish, fact)
                .at(&path.id)
                .cure("fix --to: the account must be in the group in which the image is made")
        })?;
        Ok(account.location)
    }

    async fn found(&self, watch: &ProgressWatch) -> Result<Option<ArmResource>> {
        self.arm.get(&self.about.path(), watch).await
    }

    fn is_ours(&self, resource: &ArmResource) -> bool {
        resource.tags.get(OURS) == Some(&self.about.sha256)
    }

    pub async fn check_status(&self, watch: &ProgressWatch) -> Result<ObjectStatus> {
        let Some(resource) = self.found(watch).await? else {
            return Ok(ObjectStatus::Absent);
        };
        if self.is_ours(&resource) {
            return Ok(match resource.state() {
                OperationState::Done => ObjectStatus::Same(Some(resource.id)),
                OperationState::Active(_) | OperationState::Ended(_) => ObjectStatus::Absent,
            });
        }
        if self.about.place.version.is_some() {
            return Err(taken(resource.id));
        }
        let digest = resource.tags.get(OURS).map_or("unknown", String::as_str);
        let words = format!("an image of a disk with SHA-256 {digest}");
        Ok(ObjectStatus::Other(display_text::sanitize_line(&words)))
    }

    /// Makes the image, or continues the work of an earlier run.
    pub async fn send(&self, watch: &ProgressWatch) -> Result<PublishedObject> {
        let path = self.about.path();
        if let Some(resource) = self.found(watch).await? {
            match (self.is_ours(&resource), resource.state()) {
                (true, OperationState::Done) => return Ok(arrived(resource)),
                (true, OperationState::Active(_)) => {
                    let name = &self.about.name;
                    watch.note(format!("{name}: waiting for an earlier run's operation"));
                    return self.made(watch).await.map(arrived);
                }
                (false, _) if self.about.place.version.is_some() => return Err(taken(resource.id)),
                (true, OperationState::Ended(_)) | (false, _) => {
                    self.arm.delete(&path, watch).await?
                }
            }
        }
        let location = self.location(watch).await?;
        let operation = self
            .arm
            .put(&path, &self.about.body(&location), watch)
            .await?;
        if let Some(operation) = operation {
            self.arm.ended(&path, &operation, watch).await?;
        }
        self.made(watch).await.map(arrived)
    }

    /// Waits until the resource is ready.
    async fn made(&self, watch: &ProgressWatch) -> Result<ArmResource> {
        let path = self.about.path();
        let (mut wait, since) = (FIRST_WAIT, Instant::now());
        loop {
            let found = self.found(watch).await?;
            let words = match found {
                None => return Err(failed(&path.id, "it is no longer there")),
                Some(resource) => match resource.state() {
                    OperationState::Done => return Ok(resource),
                    OperationState::Ended(words) => return Err(failed(&path.id, &words)),
                    OperationState::Active(words) => words,
                },
            };
            pause(&mut wait, None, &path.id, &words, since).await?;
        }
    }
}

fn taken(id: String) -> Error {
    Error::new(
        Kind::Publish,
        "the gallery already has this version, with a different disk",
    )
    .at(id)
    .cure("name a later version in --gallery: existing versions are not replaced")
}

fn arrived(resource: ArmResource) -> PublishedObject {
    PublishedObject {
        known: KnownBy::Size,
        id: Some(resource.id),
    }
}
