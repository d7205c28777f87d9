//! The user's own user data for the clones of a trial: `winimg try --user-data`.
//!
//! It may contain secrets, such as a join token, and is never shown. Data that is too large for a
//! target's platform is rejected before anything is started.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::target::{MetadataForm, TargetSpec};

/// Cluster API passes user data in a Secret of at most this size (Kubernetes: Secrets, "Restriction
/// on Secret size").
const MAX_SIZE: usize = 1 << 20;
/// AWS: EC2 user guide, "Run commands when you launch an EC2 instance with user data input".
const MAX_SIZE_EC2: usize = 16 << 10;
/// Limit in base64 (OpenStack: nova/api/openstack/compute/schemas/servers.py, `user_data`).
const MAX_SIZE_NOVA: usize = 65_535;
/// Microsoft: Custom data and cloud-init on Azure virtual machines.
const MAX_SIZE_AZURE: usize = 65_535;

/// The bytes of the user data. Empty if there is none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UserData(Vec<u8>);

impl UserData {
    pub fn read(file: &Path) -> Result<Self> {
        match io::read_argument(file, MAX_SIZE as u64) {
            Ok(data) if data.is_empty() => {
                let fact = "the user data file is empty";
                Err(Error::new(Kind::Recipe, fact).at(file.display()))
            }
            Ok(data) => Ok(Self(data)),
            Err(e) if e.kind() == ErrorKind::FileTooLarge => {
                let fact = "the user data file is too large";
                Err(Error::new(Kind::Recipe, fact)
                    .at(file.display())
                    .expected(format!("at most {MAX_SIZE} bytes"))
                    .found("more"))
            }
            Err(e) => Err(Error::io("read the user data", file, e)),
        }
    }

    /// Exposes the data, which may contain secrets: review every caller.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Fails if the data is too large for a target's platform, with a line for each such target.
    pub fn check<'t>(&self, targets: impl IntoIterator<Item = &'t TargetSpec>) -> Result<()> {
        let targets = targets.into_iter();
        let refused: Vec<String> = targets
            .filter_map(|target| {
                let why = explain_limit(target.metadata.by, self.len())?;
                Some(format!("as {}: {why}", target.name))
            })
            .collect();
        if refused.is_empty() {
            return Ok(());
        }
        let fact = "a target's platform does not accept this user data";
        Err(Error::new(Kind::Recipe, fact)
            .at("--user-data")
            .found(format!("{} bytes", self.len()))
            .lines(refused)
            .cure("use smaller user data that fetches the rest, or choose other targets with --as"))
    }
}

impl From<&[u8]> for UserData {
    fn from(data: &[u8]) -> Self {
        Self(data.to_vec())
    }
}

impl fmt::Debug for UserData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{} bytes]", self.0.len())
    }
}

/// Explains why the platform of a form does not accept user data of this size; `None` if it does.
fn explain_limit(form: MetadataForm, size: usize) -> Option<String> {
    let (most, unit) = match form {
        MetadataForm::None => return Some("it does not support user data".into()),
        MetadataForm::Ec2 | MetadataForm::Ec2TokensOptional => (MAX_SIZE_EC2, ""),
        // Four characters for three bytes, padded.
        MetadataForm::OpenStack => (MAX_SIZE_NOVA / 4 * 3, " (65535 characters of base64)"),
        MetadataForm::Azure => (MAX_SIZE_AZURE, ""),
        MetadataForm::ConfigDrive
        | MetadataForm::NoCloud
        | MetadataForm::NoCloudUpperCase
        | MetadataForm::OvfEnvironment => (MAX_SIZE, ""),
    };
    (size > most).then(|| format!("at most {most} bytes{unit}"))
}
