//! User data that a person gives the clones of a trial: `winimg try --user-data`.
//!
//! They may hold secrets, such as the token of a join: nothing shows them. Refuses what a target's platform has no room for, before
//! anything is started.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_recipe::recipe::target::{Form, Target};

/// Cluster API hands user data on in a Secret, which holds no more (Kubernetes: Secrets, "Restriction on Secret size").
const MOST: usize = 1 << 20;
/// AWS: EC2 user guide, "Run commands when you launch an EC2 instance with user data input".
const MOST_OF_EC2: usize = 16 << 10;
/// In base64 (OpenStack: nova/api/openstack/compute/schemas/servers.py, `user_data`).
const MOST_OF_NOVA: usize = 65_535;
/// Microsoft: Custom data and cloud-init on Azure virtual machines.
const MOST_OF_AZURE: usize = 65_535;

/// Empty: none are given.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UserData(Vec<u8>);

impl UserData {
    pub fn read(file: &Path) -> Result<Self> {
        let refused = |fact| Error::new(Kind::Recipe, fact).at(file.display());
        match io::read_given(file, MOST as u64) {
            Ok(data) if data.is_empty() => Err(refused("the file with the user data is empty")),
            Ok(data) => Ok(Self(data)),
            Err(e) if e.kind() == ErrorKind::FileTooLarge => {
                Err(refused("the file with the user data is too large")
                    .expected(format!("{MOST} bytes at most"))
                    .found("more"))
            }
            Err(e) => Err(Error::io("read the user data", file, e)),
        }
    }

    /// The data themselves. Every caller of this is a place to review.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether each target's platform has room for them; otherwise what is wrong with each.
    pub fn check<'t>(&self, targets: impl IntoIterator<Item = &'t Target>) -> Result<()> {
        let targets = targets.into_iter();
        let refused: Vec<String> = targets
            .filter_map(|target| {
                let why = refusal(target.metadata.by, self.len())?;
                Some(format!("as {}: {why}", target.name))
            })
            .collect();
        if refused.is_empty() {
            return Ok(());
        }
        let fact = "a target's platform does not take these user data";
        Err(Error::new(Kind::Recipe, fact)
            .at("--user-data")
            .found(format!("{} bytes", self.len()))
            .lines(refused)
            .cure("give smaller ones that fetch the rest, or name other targets with --as"))
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

/// Why the platform behind a form does not take user data of this size.
fn refusal(form: Form, size: usize) -> Option<String> {
    let above =
        |most: usize, unit: &str| (size > most).then(|| format!("{most} bytes at most{unit}"));
    match form {
        Form::None => Some("it gives its machines no user data".into()),
        Form::Ec2 | Form::Ec2TokensOptional => above(MOST_OF_EC2, ""),
        // Four characters for three bytes, the last ones filled up.
        Form::OpenStack => above(
            MOST_OF_NOVA / 4 * 3,
            ", which are 65535 characters of base64",
        ),
        Form::Azure => above(MOST_OF_AZURE, ""),
        Form::ConfigDrive | Form::NoCloud | Form::NoCloudUpperCase | Form::OvfEnvironment => {
            above(MOST, "")
        }
    }
}
