//! Forms in which platforms provide metadata to a machine. winimg's `trial` makes and serves them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Form of the metadata, by its name in a target's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Form")]
pub enum MetadataForm {
    /// OpenStack's config drive.
    ConfigDrive,
    /// cloud-init's NoCloud disc: `meta-data`, as its documentation has it, and cloudbase-init by
    /// default.
    #[serde(rename = "nocloud")]
    NoCloud,
    /// The same as `META_DATA`: what Windows sees of a disc without Joliet, as Proxmox VE and
    /// CAPMOX write it (cloudbase-init#89, kubernetes-sigs/image-builder#1976).
    #[serde(rename = "nocloud-upper-case")]
    NoCloudUpperCase,
    /// An OVF environment by vSphere's ISO transport.
    OvfEnvironment,
    /// OpenStack's metadata service, with the one of EC2 that it has as well.
    #[serde(rename = "openstack")]
    OpenStack,
    /// EC2's instance metadata service, IMDSv2 alone (AWS: `HttpTokens` of an instance's metadata
    /// options is `required`).
    Ec2,
    /// EC2's, which answers a request without a token as well (`HttpTokens` is `optional`).
    Ec2TokensOptional,
    /// Azure's provisioning disc, wire server and instance metadata service.
    Azure,
    /// A machine gets no metadata.
    None,
}

impl MetadataForm {
    pub const ALL: [Self; 9] = [
        Self::ConfigDrive,
        Self::NoCloud,
        Self::NoCloudUpperCase,
        Self::OvfEnvironment,
        Self::OpenStack,
        Self::Ec2,
        Self::Ec2TokensOptional,
        Self::Azure,
        Self::None,
    ];
}
