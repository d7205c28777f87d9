//! Publishes an image as an AMI: its disk in a bucket, VM Import, copies to other regions, and
//! sharing with other accounts. (VM Import/Export User Guide; Amazon EC2: API Reference)
//!
//! Images are found by tags only, so a later run continues the import or copy of a killed one.
//! Never registers an image from a snapshot: such a Windows AMI has no billing code and does not
//! start (Amazon EC2: RegisterImage).

mod answers;
mod ec2;
mod form;
mod place;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use place::{AmiPlace, COPY_TO, FLAGS, take_regions};

use super::aws::AwsSettings;
use super::bucket::S3Bucket;
use super::{
    AcceptedOutputs, KnownBy, ObjectStatus, PublishFile, PublishHost, PublishImage, PublishObject,
    PublishedObject, RemoteObject,
};
use crate::store::ProgressWatch;
use answers::{Ec2ImageState, ImportTask, ImportTaskState};
use ec2::Ec2Client;
use form::{AmiIdentity, ImportRequest};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::OutputFormat;

/// The output is the request to VM Import, which names the disk.
pub const OUTPUTS: AcceptedOutputs = AcceptedOutputs::Alone {
    output: OutputFormat::Ami,
    refusal: "an AMI is created from the disk that its import request names",
};
/// Time limit of an import or copy without news; it continues at AWS.
const STILL: Duration = Duration::from_secs(3 * 3600);
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// An AMI to make in a region.
pub struct AmiObject {
    region: String,
    about: Arc<AmiIdentity>,
    how: AmiSource,
}

enum AmiSource {
    Imported {
        import: Box<ImportRequest>,
        bucket: String,
        key: String,
    },
    /// Copied from this region.
    Copied(String),
    /// Shared with this account.
    Shared(String),
}

/// A bucket, and the regions that get the image.
pub struct AmiRegions {
    bucket: Arc<S3Bucket>,
    place: AmiPlace,
    /// The bucket's region, then those of the copies.
    regions: Vec<Ec2Client>,
}

impl AmiRegions {
    pub fn new(place: &AmiPlace, host: &PublishHost) -> Result<Self> {
        let aws = AwsSettings::from_environment();
        let Some(home) = &aws.region else {
            return Err(Error::new(Kind::Recipe, "no AWS region is set")
                .at("--to")
                .cure("set AWS_REGION to the bucket's region: the image is imported there"));
        };
        let others = place.copies.iter().filter(|region| *region != home);
        let regions = std::iter::once(home).chain(others);
        Ok(Self {
            bucket: Arc::new(S3Bucket::new(&place.bucket, host)?),
            place: place.clone(),
            regions: regions
                .map(|region| Ec2Client::new(region, aws.compute.as_deref(), &host.fetch))
                .collect::<Result<_>>()?,
        })
    }

    /// The bucket publishes the disk.
    pub async fn list_objects(
        self: &Arc<Self>,
        image: &PublishImage,
        watch: &ProgressWatch,
    ) -> Result<Vec<PublishObject>> {
        let (file, import) = read_import(image)?;
        let mut objects = self.bucket.list_objects([file], watch).await?;
        let about = Arc::new(AmiIdentity {
            name: image.name.clone(),
            build: image.version.clone(),
            sha256: file.sha256.hex(),
        });
        let home = &self.regions[0].region;
        for Ec2Client { region, .. } in &self.regions {
            let how = if region == home {
                AmiSource::Imported {
                    import: Box::new(import.clone()),
                    bucket: self.place.bucket.bucket.clone(),
                    key: format!("{}{}", self.place.bucket.prefix, file.name),
                }
            } else {
                AmiSource::Copied(home.clone())
            };
            let shared = self.place.accounts.iter().cloned().map(AmiSource::Shared);
            for how in std::iter::once(how).chain(shared) {
                let made = AmiObject {
                    region: region.clone(),
                    about: Arc::clone(&about),
                    how,
                };
                objects.push(self.make_object(made, file));
            }
        }
        Ok(objects)
    }

    pub async fn check_status(
        &self,
        made: &AmiObject,
        watch: &ProgressWatch,
    ) -> Result<ObjectStatus> {
        let ec2 = self.find_client(made)?;
        let found = find_image(ec2, &made.about, watch).await?;
        let Some(ami) = found.filter(|ami| ami.state == Ec2ImageState::Available) else {
            return Ok(ObjectStatus::Absent);
        };
        if let AmiSource::Shared(account) = &made.how {
            let answer = ec2.ask(
                "DescribeImageAttribute",
                form::describe_permissions(&ami.id),
                watch,
            );
            if !answers::parse_accounts(&answer.await?)?.contains(account) {
                return Ok(ObjectStatus::Absent);
            }
            return Ok(ObjectStatus::Same(None));
        }
        Ok(ObjectStatus::Same(Some(ami.id)))
    }

    pub async fn send(&self, made: &AmiObject, watch: &ProgressWatch) -> Result<PublishedObject> {
        let ec2 = self.find_client(made)?;
        let id = match &made.how {
            AmiSource::Imported {
                import,
                bucket,
                key,
            } => {
                let form = made.about.import(import, bucket, key, &create_token());
                import_image(ec2, &made.about, form, watch).await?
            }
            AmiSource::Copied(from) => self.copy_image(ec2, &made.about, from, watch).await?,
            AmiSource::Shared(account) => {
                share_image(ec2, &made.about, account, watch).await?;
                return Ok(PublishedObject::from(KnownBy::Size));
            }
        };
        Ok(PublishedObject {
            known: KnownBy::Size,
            id: Some(id),
        })
    }

    async fn copy_image(
        &self,
        ec2: &Ec2Client,
        about: &AmiIdentity,
        from: &str,
        watch: &ProgressWatch,
    ) -> Result<String> {
        let existing = find_image(ec2, about, watch).await?;
        let id = match existing.filter(|ami| !matches!(ami.state, Ec2ImageState::Other(_))) {
            Some(ami) => ami.id,
            None => {
                let source = require_image(&self.regions[0], about, watch).await?;
                let form = about.copy(&source.id, from, &create_token());
                answers::parse_copy(&ec2.ask("CopyImage", form, watch).await?)?
            }
        };
        wait_until_available(ec2, &id, watch)
            .await
            .map(|ami| ami.id)
    }

    fn make_object(self: &Arc<Self>, made: AmiObject, file: &PublishFile) -> PublishObject {
        let region = &made.region;
        let (name, at, size, done) = match &made.how {
            AmiSource::Imported { .. } => describe_ami(region, file, "imported"),
            AmiSource::Copied(_) => describe_ami(region, file, "copied"),
            AmiSource::Shared(account) => (
                format!("account {account} in {region}"),
                format!("ami://{region}/{account}"),
                0,
                "shared",
            ),
        };
        PublishObject {
            size,
            done,
            ..PublishObject::from_remote(
                name,
                at,
                file.sha256.clone(),
                RemoteObject::Ami(Arc::clone(self), made),
            )
        }
    }

    fn find_client(&self, made: &AmiObject) -> Result<&Ec2Client> {
        let mut regions = self.regions.iter();
        let found = regions.find(|ec2| ec2.region == made.region);
        found.ok_or_else(|| Error::failed("an image is in a region that is not configured"))
    }
}

/// Finds the disk, and reads its request to VM Import.
fn read_import(image: &PublishImage) -> Result<(&PublishFile, ImportRequest)> {
    let (requests, disks): (Vec<_>, Vec<_>) = image
        .files
        .iter()
        .partition(|file| file.is_output(OutputFormat::Ami));
    let (Some(request), Some(disk)) = (requests.first(), disks.first()) else {
        return Err(Error::failed(
            "the manifest lists no disk for its VM Import request",
        ));
    };
    let text = io::read_text_limited(&request.path, io::limit::TEXT)
        .map_err(|e| Error::io("read", &request.path, e))?;
    let import = serde_json::from_str(&text).map_err(|e| {
        Error::failed("this is not a VM Import request written by winimg")
            .at(request.path.display())
            .because(e)
            .cure("write it again with `winimg export`")
    })?;
    Ok((disk, import))
}

fn describe_ami(
    region: &str,
    file: &PublishFile,
    done: &'static str,
) -> (String, String, u64, &'static str) {
    let (name, at) = (format!("AMI in {region}"), format!("ami://{region}"));
    (name, at, file.size, done)
}

/// Finds the image of this disk in a region, an available one first.
async fn find_image(
    ec2: &Ec2Client,
    about: &AmiIdentity,
    watch: &ProgressWatch,
) -> Result<Option<answers::Ec2Image>> {
    let mut amis = answers::parse_images(
        &ec2.ask("DescribeImages", about.find_images(), watch)
            .await?,
    )?;
    amis.sort_by_key(|ami| match ami.state {
        Ec2ImageState::Available => 0,
        Ec2ImageState::Pending => 1,
        Ec2ImageState::Other(_) => 2,
    });
    Ok(amis.into_iter().next())
}

async fn require_image(
    ec2: &Ec2Client,
    about: &AmiIdentity,
    watch: &ProgressWatch,
) -> Result<answers::Ec2Image> {
    let found = find_image(ec2, about, watch).await?;
    found.ok_or_else(|| {
        let fact = format!("the image is no longer in {}", ec2.region);
        Error::new(Kind::Publish, fact).cure("publish again")
    })
}

/// Continues an earlier run's import or starts a new one; tags and returns the image.
async fn import_image(
    ec2: &Ec2Client,
    about: &AmiIdentity,
    form: ec2::Ec2Form,
    watch: &ProgressWatch,
) -> Result<String> {
    let asked = ec2.ask("DescribeImportImageTasks", about.find_tasks(), watch);
    let tasks = answers::parse_tasks(&asked.await?)?;
    let mut image = None;
    for task in &tasks {
        if let ImportTaskState::Completed(id) = &task.state {
            image = find_by_id(ec2, id, watch)
                .await?
                .map(|ami| ami.id)
                .or(image);
        }
    }
    let active = tasks
        .iter()
        .find(|task| matches!(task.state, ImportTaskState::Active(_)));
    let id = match (image, active) {
        (Some(id), _) => id,
        (None, Some(task)) => {
            watch.note(format!(
                "{}: waiting for the import of an earlier run",
                task.id
            ));
            wait_for_import(ec2, task.clone(), watch).await?
        }
        (None, None) => {
            let answer = ec2.ask("ImportImage", form, watch).await?;
            wait_for_import(ec2, answers::parse_import(&answer)?, watch).await?
        }
    };
    let ami = wait_until_available(ec2, &id, watch).await?;
    let resources = std::iter::once(&ami.id).chain(&ami.snapshots);
    let tags = about.create_tags(resources.map(String::as_str));
    ec2.ask("CreateTags", tags, watch).await?;
    Ok(ami.id)
}

/// Waits for an import; returns its image.
async fn wait_for_import(
    ec2: &Ec2Client,
    mut task: ImportTask,
    watch: &ProgressWatch,
) -> Result<String> {
    let (mut wait, mut last, mut since) = (FIRST_WAIT, String::new(), Instant::now());
    loop {
        match task.state {
            ImportTaskState::Completed(image) => return Ok(image),
            ImportTaskState::Ended(words) => {
                let fact = format!("AWS did not import the image in {}", ec2.region);
                return Err(Error::new(Kind::Publish, fact)
                    .at(task.id)
                    .found(words)
                    .cure(
                        "look the message up in the VM Import/Export User Guide, \
                         \"Troubleshooting\"; the next run starts a new import",
                    ));
            }
            ImportTaskState::Active(words) if words != last => {
                watch.note(format!("{}: {words}", task.id));
                (last, since) = (words, Instant::now());
            }
            ImportTaskState::Active(_) if since.elapsed() > STILL => {
                return Err(report_stalled(&task.id, &last));
            }
            ImportTaskState::Active(_) => {}
        }
        Ec2Client::pause(&mut wait).await;
        let form = form::make_form(&[("ImportTaskId.1", &task.id)]);
        let answer = ec2.ask("DescribeImportImageTasks", form, watch).await?;
        let mut tasks = answers::parse_tasks(&answer)?.into_iter();
        let same = tasks.find(|one| one.id == task.id);
        task = same.ok_or_else(|| {
            Error::new(Kind::Publish, "EC2 no longer lists the import").at(&task.id)
        })?;
    }
}

/// Waits until the image is available.
async fn wait_until_available(
    ec2: &Ec2Client,
    id: &str,
    watch: &ProgressWatch,
) -> Result<answers::Ec2Image> {
    let (mut wait, since) = (FIRST_WAIT, Instant::now());
    loop {
        match find_by_id(ec2, id, watch).await? {
            Some(ami) if ami.state == Ec2ImageState::Available => return Ok(ami),
            Some(answers::Ec2Image {
                state: Ec2ImageState::Other(words),
                ..
            }) => {
                let fact = format!("the image in {} is not available", ec2.region);
                return Err(Error::new(Kind::Publish, fact).at(id).found(words));
            }
            _ if since.elapsed() > STILL => return Err(report_stalled(id, "pending")),
            _ => Ec2Client::pause(&mut wait).await,
        }
    }
}

async fn find_by_id(
    ec2: &Ec2Client,
    id: &str,
    watch: &ProgressWatch,
) -> Result<Option<answers::Ec2Image>> {
    // By a filter, so that a deregistered image is not an error.
    let form = form::make_form(&[("Filter.1.Name", "image-id"), ("Filter.1.Value.1", id)]);
    let answer = ec2.ask("DescribeImages", form, watch).await?;
    Ok(answers::parse_images(&answer)?.into_iter().next())
}

/// Lets an account launch the image and copy its snapshots.
async fn share_image(
    ec2: &Ec2Client,
    about: &AmiIdentity,
    account: &str,
    watch: &ProgressWatch,
) -> Result<()> {
    let ami = require_image(ec2, about, watch).await?;
    let image = form::allow_launch(&ami.id, account);
    ec2.ask("ModifyImageAttribute", image, watch).await?;
    for snapshot in &ami.snapshots {
        let snapshot = form::allow_copy(snapshot, account);
        ec2.ask("ModifySnapshotAttribute", snapshot, watch).await?;
    }
    Ok(())
}

fn report_stalled(id: &str, words: &str) -> Error {
    Error::new(Kind::Publish, "AWS reported no progress for three hours")
        .at(id)
        .found(words)
        .cure("check it in the AWS console; the same command waits for it again")
}

/// Creates a token for a request and all its retries.
fn create_token() -> String {
    uuid::Uuid::new_v4().to_string()
}
