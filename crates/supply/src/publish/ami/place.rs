//! `ami://bucket/folder` and its flags: the folder of a bucket from which AWS imports an image, and
//! who gets the image. Pure.

use super::super::bucket::BucketPlace;
use super::super::flags::{DestinationFlag, FlagArity, FlagValues};
use winimg_base::error::{Error, Kind, Result};

pub const FLAGS: &[DestinationFlag] = &[COPY_TO, SHARE];

/// The versions in an Azure gallery take it, too.
pub const COPY_TO: DestinationFlag = DestinationFlag {
    name: "copy-to",
    value_name: "REGION",
    help: "Regions to copy the AMI or gallery version to, separated by commas",
    details: "",
    values: FlagArity::Separated,
    refusal: "only an AMI or a gallery version can be copied to other regions",
};

const SHARE: DestinationFlag = DestinationFlag {
    name: "share",
    value_name: "ACCOUNT",
    help: "AWS accounts that may launch the AMI, separated by commas",
    details: "",
    values: FlagArity::Separated,
    refusal: "only an AMI can be shared with accounts",
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmiPlace {
    pub bucket: BucketPlace,
    /// Regions that get a copy.
    pub copies: Vec<String>,
    /// Accounts that may start the image.
    pub accounts: Vec<String>,
}

impl From<BucketPlace> for AmiPlace {
    fn from(bucket: BucketPlace) -> Self {
        Self {
            bucket,
            copies: Vec::new(),
            accounts: Vec::new(),
        }
    }
}

impl AmiPlace {
    pub fn take_flags(&mut self, flags: &mut FlagValues) -> Result<()> {
        self.copies = take_regions(flags)?;
        self.accounts = flags.take_all(&SHARE);
        match self.accounts.iter().find(|account| !is_account(account)) {
            None => Ok(()),
            Some(account) => Err(Error::new(Kind::Recipe, "invalid AWS account id")
                .at("--share")
                .expected("12 digits")
                .found(account)),
        }
    }
}

pub fn take_regions(flags: &mut FlagValues) -> Result<Vec<String>> {
    let regions = flags.take_all(&COPY_TO);
    match regions.iter().find(|region| !is_region(region)) {
        None => Ok(regions),
        Some(region) => Err(Error::new(Kind::Recipe, "invalid region")
            .at("--copy-to")
            .expected("such as eu-west-1 (AWS) or westeurope (Azure)")
            .found(region)),
    }
}

/// Checks that a region can be part of a host name.
fn is_region(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn is_account(text: &str) -> bool {
    text.len() == 12 && text.chars().all(|c| c.is_ascii_digit())
}
