//! An image as an AMI: its disk in a bucket, VM Import, copies in other regions, other accounts that may start it.
//! (VM Import/Export User Guide; Amazon EC2: API Reference)
//!
//! What is there is found by tags alone, so a run that was killed goes on with the import or the copy that it began. Never registers
//! an image from a snapshot: a Windows AMI made so has no billing code and does not start (Amazon EC2: RegisterImage).

mod answers;
mod ec2;
mod form;

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::bucket::Bucket;
use super::destination::AmiPlace;
use super::{Arrived, Image, Known, Object, Role, Settings, Standing, Target};
use crate::store::Watch;
use answers::{State, Task, TaskState};
use ec2::Ec2;
use form::About;
use winimg_base::error::{Error, Kind, Result};

pub use form::Import;

/// An import or a copy that says nothing new for so long is given up; it goes on at AWS.
const STILL: Duration = Duration::from_secs(3 * 3600);
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// What an AMI is made from, and in which region.
pub struct Made {
    region: String,
    about: Arc<About>,
    how: How,
}

enum How {
    Imported {
        import: Box<Import>,
        bucket: String,
        key: String,
    },
    /// From this region.
    Copied(String),
    /// Started by this account.
    Shared(String),
}

/// A bucket, and the regions that get its image.
pub struct Regions {
    bucket: Arc<Bucket>,
    place: AmiPlace,
    /// The bucket's region, then those of the copies.
    regions: Vec<Ec2>,
    accounts: Vec<String>,
}

impl Target for Regions {
    type Slot = Made;

    /// The files are the bucket's own.
    async fn objects(self: &Arc<Self>, image: &Image, watch: &Watch) -> Result<Vec<Object>> {
        let mut objects = self.bucket.objects(image, watch).await?;
        let disks = image.files.iter().filter_map(|file| match &file.role {
            Role::Imported(import) => Some((file, import)),
            _ => None,
        });
        for (file, import) in disks {
            let about = Arc::new(About {
                name: image.name.clone(),
                build: image.version.clone(),
                sha256: file.sha256.hex(),
            });
            let home = &self.regions[0].region;
            for Ec2 { region, .. } in &self.regions {
                let how = match region == home {
                    true => How::Imported {
                        import: import.clone(),
                        bucket: self.place.0.bucket.clone(),
                        key: format!("{}{}", self.place.0.prefix, file.name),
                    },
                    false => How::Copied(home.clone()),
                };
                let shared = self.accounts.iter().cloned().map(How::Shared);
                for how in std::iter::once(how).chain(shared) {
                    let made = Made {
                        region: region.clone(),
                        about: Arc::clone(&about),
                        how,
                    };
                    objects.push(self.object(made, file));
                }
            }
        }
        Ok(objects)
    }

    async fn standing(&self, _: &Object, made: &Made, watch: &Watch) -> Result<Standing> {
        let ec2 = self.ec2(made)?;
        let found = found(ec2, &made.about, watch).await?;
        let Some(ami) = found.filter(|ami| ami.state == State::Available) else {
            return Ok(Standing::Absent);
        };
        if let How::Shared(account) = &made.how {
            let answer = ec2.ask("DescribeImageAttribute", form::permissions(&ami.id), watch);
            if !answers::accounts(&answer.await?)?.contains(account) {
                return Ok(Standing::Absent);
            }
            return Ok(Standing::Same(None));
        }
        Ok(Standing::Same(Some(ami.id)))
    }

    async fn send(&self, _: &Object, made: &Made, watch: &Watch) -> Result<Arrived> {
        let ec2 = self.ec2(made)?;
        let id = match &made.how {
            How::Imported {
                import,
                bucket,
                key,
            } => {
                let begin = |token: &str| made.about.import(import, bucket, key, token);
                imported(ec2, &made.about, begin, watch).await?
            }
            How::Copied(from) => self.copied(ec2, &made.about, from, watch).await?,
            How::Shared(account) => {
                shared(ec2, &made.about, account, watch).await?;
                return Ok(Arrived::from(Known::Size));
            }
        };
        Ok(Arrived {
            known: Known::Size,
            id: Some(id),
        })
    }
}

impl Regions {
    pub fn new(place: &AmiPlace, settings: &Settings) -> Result<Self> {
        let Some(home) = &settings.region else {
            return Err(Error::new(Kind::Recipe, "no region of AWS is named")
                .at("--to")
                .cure("set AWS_REGION to the bucket's region: the image is imported there"));
        };
        let others = settings.copies.iter().filter(|region| *region != home);
        let regions = std::iter::once(home).chain(others);
        Ok(Self {
            bucket: Arc::new(Bucket::new(&place.0, settings)?),
            place: place.clone(),
            regions: regions
                .map(|region| Ec2::new(region, settings))
                .collect::<Result<_>>()?,
            accounts: settings.accounts.clone(),
        })
    }

    async fn copied(&self, ec2: &Ec2, about: &About, from: &str, watch: &Watch) -> Result<String> {
        let begun = found(ec2, about, watch).await?;
        let id = match begun.filter(|ami| !matches!(ami.state, State::Other(_))) {
            Some(ami) => ami.id,
            None => {
                let source = there(&self.regions[0], about, watch).await?;
                let form = about.copy(&source.id, from, &token());
                answers::copied(&ec2.ask("CopyImage", form, watch).await?)?
            }
        };
        available(ec2, &id, watch).await.map(|ami| ami.id)
    }

    fn object(self: &Arc<Self>, made: Made, file: &super::File) -> Object {
        let region = &made.region;
        let (name, at, size, done) = match &made.how {
            How::Imported { .. } => ami(region, file, "imported"),
            How::Copied(_) => ami(region, file, "copied"),
            How::Shared(account) => (
                format!("account {account} in {region}"),
                format!("ami://{region}/{account}"),
                0,
                "shared",
            ),
        };
        Object {
            size,
            done,
            ..Object::made(name, at, file.sha256.clone(), self.slot(made))
        }
    }

    fn ec2(&self, made: &Made) -> Result<&Ec2> {
        let mut regions = self.regions.iter();
        let found = regions.find(|ec2| ec2.region == made.region);
        found.ok_or_else(|| Error::failed("an image is in a region that was not named"))
    }
}

fn ami(
    region: &str,
    file: &super::File,
    done: &'static str,
) -> (String, String, u64, &'static str) {
    let (name, at) = (format!("AMI in {region}"), format!("ami://{region}"));
    (name, at, file.size, done)
}

/// The image of this disk in a region: one that can be started, if there is one.
async fn found(ec2: &Ec2, about: &About, watch: &Watch) -> Result<Option<answers::Ami>> {
    let mut amis = answers::amis(&ec2.ask("DescribeImages", about.images(), watch).await?)?;
    amis.sort_by_key(|ami| match ami.state {
        State::Available => 0,
        State::Pending => 1,
        State::Other(_) => 2,
    });
    Ok(amis.into_iter().next())
}

async fn there(ec2: &Ec2, about: &About, watch: &Watch) -> Result<answers::Ami> {
    let found = found(ec2, about, watch).await?;
    found.ok_or_else(|| {
        let fact = format!("the image is no longer in {}", ec2.region);
        Error::new(Kind::Publish, fact).cure("publish it again")
    })
}

/// The image of an import that an earlier run began, or of a new one, with its tags.
async fn imported(
    ec2: &Ec2,
    about: &About,
    begin: impl Fn(&str) -> ec2::Form,
    watch: &Watch,
) -> Result<String> {
    let asked = ec2.ask("DescribeImportImageTasks", about.tasks(), watch);
    let begun = answers::tasks(&asked.await?)?;
    let active = |task: &&Task| matches!(task.state, TaskState::Active(_));
    let mut image = None;
    for task in &begun {
        if let TaskState::Completed(id) = &task.state {
            image = exists(ec2, id, watch).await?.map(|ami| ami.id).or(image);
        }
    }
    let id = match (image, begun.iter().find(active)) {
        (Some(id), _) => id,
        (None, Some(task)) => {
            watch.note(format!(
                "{}: an import that was begun is waited for",
                task.id
            ));
            completed(ec2, task.clone(), watch).await?
        }
        (None, None) => {
            let answer = ec2.ask("ImportImage", begin(&token()), watch).await?;
            completed(ec2, answers::begun(&answer)?, watch).await?
        }
    };
    let ami = available(ec2, &id, watch).await?;
    let resources = std::iter::once(&ami.id).chain(&ami.snapshots);
    let tags = about.tag(resources.map(String::as_str));
    ec2.ask("CreateTags", tags, watch).await?;
    Ok(ami.id)
}

/// The image of an import, when it has ended.
async fn completed(ec2: &Ec2, mut task: Task, watch: &Watch) -> Result<String> {
    let (mut wait, mut last, mut since) = (FIRST_WAIT, String::new(), Instant::now());
    loop {
        match task.state {
            TaskState::Completed(image) => return Ok(image),
            TaskState::Ended(words) => {
                let fact = format!("AWS did not import the image in {}", ec2.region);
                return Err(Error::new(Kind::Publish, fact)
                    .at(task.id)
                    .found(words)
                    .cure("look the message up in the VM Import/Export User Guide, \"Troubleshooting\"; the next run begins a new import"));
            }
            TaskState::Active(words) if words != last => {
                watch.note(format!("{}: {words}", task.id));
                (last, since) = (words, Instant::now());
            }
            TaskState::Active(_) if since.elapsed() > STILL => return Err(still(&task.id, &last)),
            TaskState::Active(_) => {}
        }
        Ec2::pause(&mut wait).await;
        let form = form::one("ImportTaskId.1", &task.id);
        let answer = ec2.ask("DescribeImportImageTasks", form, watch).await?;
        let mut tasks = answers::tasks(&answer)?.into_iter();
        let same = tasks.find(|one| one.id == task.id);
        task = same.ok_or_else(|| {
            Error::new(Kind::Publish, "EC2 no longer knows the import").at(&task.id)
        })?;
    }
}

/// The image when it can be started.
async fn available(ec2: &Ec2, id: &str, watch: &Watch) -> Result<answers::Ami> {
    let (mut wait, since) = (FIRST_WAIT, Instant::now());
    loop {
        match exists(ec2, id, watch).await? {
            Some(ami) if ami.state == State::Available => return Ok(ami),
            Some(answers::Ami {
                state: State::Other(words),
                ..
            }) => {
                let fact = format!("the image in {} cannot be started", ec2.region);
                return Err(Error::new(Kind::Publish, fact).at(id).found(words));
            }
            _ if since.elapsed() > STILL => return Err(still(id, "pending")),
            _ => Ec2::pause(&mut wait).await,
        }
    }
}

async fn exists(ec2: &Ec2, id: &str, watch: &Watch) -> Result<Option<answers::Ami>> {
    // By a filter: an image that was deregistered is no error so.
    let mut form = form::one("Filter.1.Name", "image-id");
    form.extend(form::one("Filter.1.Value.1", id));
    let answer = ec2.ask("DescribeImages", form, watch).await?;
    Ok(answers::amis(&answer)?.into_iter().next())
}

/// Lets an account start the image and copy its snapshots.
async fn shared(ec2: &Ec2, about: &About, account: &str, watch: &Watch) -> Result<()> {
    let ami = there(ec2, about, watch).await?;
    let image = form::launch(&ami.id, account);
    ec2.ask("ModifyImageAttribute", image, watch).await?;
    for snapshot in &ami.snapshots {
        let snapshot = form::volume(snapshot, account);
        ec2.ask("ModifySnapshotAttribute", snapshot, watch).await?;
    }
    Ok(())
}

fn still(id: &str, words: &str) -> Error {
    Error::new(Kind::Publish, "AWS says nothing new of it for three hours")
        .at(id)
        .found(words)
        .cure("look at it in AWS' console; the same command waits for it again")
}

/// One a request, the same in each try of it.
fn token() -> String {
    uuid::Uuid::new_v4().to_string()
}
