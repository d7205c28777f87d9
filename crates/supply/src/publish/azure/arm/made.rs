//! An image that Azure makes from a disk in a storage account: a managed image, or a version in a gallery.
//!
//! What is there is known by its tag alone, so a run that was killed goes on with what it began. Removes no version of a gallery that
//! is of another disk: machines may be made from it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::super::super::{Arrived, Known, Standing};
use super::place::Version;
use super::{Arm, AzurePlace, FIRST_WAIT, Path, State, failed, pause};
use crate::store::Watch;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::unseen;
use winimg_recipe::recipe::Firmware;

/// The SHA-256 of the disk, hex. (Azure Resource Manager: tags, limitations)
const OURS: &str = "winimg-sha256";
const IMAGES: &str = "2024-11-01";
const GALLERIES: &str = "2024-03-03";
const ACCOUNTS: &str = "2024-01-01";

/// What an image is made of.
#[derive(Clone)]
pub struct About {
    pub place: AzurePlace,
    /// Of the image: the recipe's.
    pub name: String,
    /// Of Windows.
    pub build: String,
    /// Of the disk, hex.
    pub sha256: String,
    pub firmware: Firmware,
    /// The disk, without a signature.
    pub disk: Url,
    /// `None`: a managed image.
    pub version: Option<Version>,
    /// Regions that get the version beside the account's.
    pub regions: Vec<String>,
    /// In each of them.
    pub replicas: u32,
}

pub struct Made {
    pub arm: Arc<Arm>,
    pub about: About,
}

#[derive(Deserialize)]
struct Resource {
    id: String,
    #[serde(default)]
    location: String,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    #[serde(default)]
    properties: Properties,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Properties {
    provisioning_state: Option<String>,
    os_type: Option<String>,
    os_state: Option<String>,
    hyper_v_generation: Option<String>,
}

impl Resource {
    fn state(&self) -> State {
        match self.properties.provisioning_state.as_deref() {
            Some("Succeeded") => State::Done,
            Some(words @ ("Failed" | "Canceled" | "Deleting")) => State::Ended(words.into()),
            words => State::Active(unseen::line(words.unwrap_or("Creating"))),
        }
    }
}

impl About {
    /// (Azure virtual machines: support for generation 2)
    fn generation(&self) -> &'static str {
        match self.firmware {
            Firmware::Uefi => "V2",
            Firmware::Bios => "V1",
        }
    }

    /// The id of what is made.
    pub fn id(&self) -> String {
        self.path().id
    }

    fn path(&self) -> Path {
        let compute = format!("{}/providers/Microsoft.Compute", self.place.id());
        match &self.version {
            None => Path {
                id: format!("{compute}/images/{}", self.name),
                version: IMAGES,
            },
            Some(Version { version, .. }) => Path {
                id: format!("{}/versions/{version}", self.definition().id),
                version: GALLERIES,
            },
        }
    }

    fn definition(&self) -> Path {
        let (gallery, definition) = match &self.version {
            Some(version) => (version.gallery.as_str(), version.definition.as_str()),
            None => ("", ""),
        };
        let group = self.place.id();
        Path {
            id: format!(
                "{group}/providers/Microsoft.Compute/galleries/{gallery}/images/{definition}"
            ),
            version: GALLERIES,
        }
    }

    fn account(&self) -> Path {
        let (group, account) = (self.place.id(), &self.place.blobs.account);
        Path {
            id: format!("{group}/providers/Microsoft.Storage/storageAccounts/{account}"),
            version: ACCOUNTS,
        }
    }

    /// What it is made with, in the region of the account: neither takes a disk from another one.
    fn body(&self, location: &str) -> Value {
        let properties = match &self.version {
            None => json!({
                "hyperVGeneration": self.generation(),
                "storageProfile": {"osDisk": {
                    "osType": "Windows",
                    "osState": "Generalized",
                    "blobUri": self.disk.as_str(),
                }},
            }),
            Some(_) => {
                let others = self.regions.iter().map(String::as_str);
                let others = others.filter(|region| *region != location);
                let regions = std::iter::once(location).chain(others);
                let targets = regions
                    .map(|name| json!({"name": name, "regionalReplicaCount": self.replicas}));
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

impl Made {
    /// Whether the image can be made there: before anything is sent.
    pub async fn admitted(&self, watch: &Watch) -> Result<()> {
        self.location(watch).await?;
        if self.about.version.is_none() {
            return Ok(());
        }
        let path = self.about.definition();
        let Some(definition) = self.arm.get::<Resource>(&path, watch).await? else {
            let fact = "the gallery has no such image definition";
            return Err(Error::new(Kind::Publish, fact)
                .at(path.id)
                .cure("make it first: az sig image-definition create"));
        };
        let Properties {
            os_type,
            os_state,
            hyper_v_generation,
            ..
        } = definition.properties;
        let of = |os: &str, state: &str, generation: &str| format!("{os}, {state}, {generation}");
        let expected = of("Windows", "Generalized", self.about.generation());
        let word = |word: Option<String>| unseen::line(&word.unwrap_or_default());
        // (Azure REST API: gallery images: V1 where none is named)
        let generation = hyper_v_generation.unwrap_or("V1".into());
        let found = of(&word(os_type), &word(os_state), &word(Some(generation)));
        if found == expected {
            return Ok(());
        }
        Err(
            Error::new(Kind::Publish, "the image definition is for other machines")
                .at(path.id)
                .expected(expected)
                .found(found)
                .cure("name another definition in --gallery, or make one: az sig image-definition create"),
        )
    }

    /// The region of the account.
    async fn location(&self, watch: &Watch) -> Result<String> {
        let path = self.about.account();
        let account = self.arm.get::<Resource>(&path, watch).await?;
        let account = account.ok_or_else(|| {
            let fact = "the resource group has no such storage account";
            Error::new(Kind::Publish, fact)
                .at(&path.id)
                .cure("mend --to: the account is in the group in which the image is made")
        })?;
        Ok(account.location)
    }

    async fn found(&self, watch: &Watch) -> Result<Option<Resource>> {
        self.arm.get(&self.about.path(), watch).await
    }

    fn is_ours(&self, resource: &Resource) -> bool {
        resource.tags.get(OURS) == Some(&self.about.sha256)
    }

    pub async fn standing(&self, watch: &Watch) -> Result<Standing> {
        let Some(resource) = self.found(watch).await? else {
            return Ok(Standing::Absent);
        };
        if self.is_ours(&resource) {
            return Ok(match resource.state() {
                State::Done => Standing::Same(Some(resource.id)),
                State::Active(_) | State::Ended(_) => Standing::Absent,
            });
        }
        if self.about.version.is_some() {
            return Err(taken(resource.id));
        }
        let digest = resource.tags.get(OURS).map_or("unknown", String::as_str);
        let words = format!("an image of a disk of SHA-256 {digest}");
        Ok(Standing::Other(unseen::line(&words)))
    }

    /// Makes it, or goes on with what an earlier run began.
    pub async fn send(&self, watch: &Watch) -> Result<Arrived> {
        let path = self.about.path();
        if let Some(resource) = self.found(watch).await? {
            match (self.is_ours(&resource), resource.state()) {
                (true, State::Done) => return Ok(arrived(resource)),
                (true, State::Active(_)) => {
                    watch.note(format!("{}: what was begun is waited for", self.about.name));
                    return self.made(watch).await.map(arrived);
                }
                (false, _) if self.about.version.is_some() => return Err(taken(resource.id)),
                (true, State::Ended(_)) | (false, _) => self.arm.delete(&path, watch).await?,
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

    /// The resource when it can be used.
    async fn made(&self, watch: &Watch) -> Result<Resource> {
        let path = self.about.path();
        let (mut wait, since) = (FIRST_WAIT, Instant::now());
        loop {
            let found = self.found(watch).await?;
            let words = match found {
                None => return Err(failed(&path.id, "it is no longer there")),
                Some(resource) => match resource.state() {
                    State::Done => return Ok(resource),
                    State::Ended(words) => return Err(failed(&path.id, &words)),
                    State::Active(words) => words,
                },
            };
            pause(&mut wait, None, &path.id, &words, since).await?;
        }
    }
}

fn taken(id: String) -> Error {
    Error::new(
        Kind::Publish,
        "the gallery has this version of another disk",
    )
    .at(id)
    .cure("name a later version in --gallery: one that machines may be made from is not replaced")
}

fn arrived(resource: Resource) -> Arrived {
    Arrived {
        known: Known::Size,
        id: Some(resource.id),
    }
}
