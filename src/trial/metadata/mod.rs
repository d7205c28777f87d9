//! The metadata for a clone's first boot, in the form of its platform: discs, and services at the
//! platform's own addresses. docs/try.md lists the contents of each form and their sources.
//!
//! Pure, except `server`. Rejects requests like the platform: 404 for unknown pages, and the
//! platform's own status for a request without its header or token. No form has network settings: a
//! clone uses DHCP.

mod azure;
mod disc;
mod ec2;
mod openstack;
mod pages;
#[cfg(unix)]
pub mod server;

use std::net::{Ipv4Addr, SocketAddrV4};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use winimg_base::text::Secret;
use winimg_formats::iso::DiscTree;

use self::ec2::Ec2TokenPolicy;
use super::user_data::UserData;
use crate::http::{HttpRequest, HttpResponse};
use winimg_recipe::target::MetadataForm;

/// The identity of a clone.
#[derive(Clone, Debug)]
pub struct CloneIdentity {
    /// The platform's ID of this machine. For EC2 and Azure, which require a format, the ID is
    /// derived from it.
    pub instance: String,
    pub host_name: String,
    /// The account that the agent is to create. NoCloud and EC2 have no field for it.
    pub user: String,
    /// Lines of `authorized_keys`. For OpenStack's service, cloudbase-init encrypts its generated
    /// password with an arbitrary one of them, and fails if that is not RSA.
    pub ssh_keys: Vec<String>,
    /// The user data. Empty means none, which in some forms differs from an empty file.
    pub user_data: UserData,
    /// Password of `user`. Required by Azure, unused by the other forms.
    pub password: Secret,
}

/// The network of a clone: the smallest one with every `Endpoint`. QEMU forwards only connections
/// to addresses in the guest's own network (`-netdev user,net=…,guestfwd=…`; seen with QEMU 7.2).
pub const NETWORK: &str = "168.0.0.0/7";

/// The address of a service on the clone's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetadataEndpoint {
    /// 169.254.169.254
    Metadata,
    /// 168.63.129.16, the same on every network of Azure (Microsoft: What is IP address
    /// 168.63.129.16?).
    WireServer,
}

impl MetadataEndpoint {
    pub fn address(self) -> SocketAddrV4 {
        let host = match self {
            Self::Metadata => Ipv4Addr::new(169, 254, 169, 254),
            Self::WireServer => Ipv4Addr::new(168, 63, 129, 16),
        };
        SocketAddrV4::new(host, 80)
    }
}

/// Creates the disc for the clone's drive.
pub fn create_disc(form: MetadataForm, identity: &CloneIdentity) -> Option<DiscTree> {
    match form {
        MetadataForm::ConfigDrive => Some(disc::config_drive(identity)),
        MetadataForm::NoCloud => Some(disc::no_cloud(identity, ["meta-data", "user-data"])),
        MetadataForm::NoCloudUpperCase => {
            Some(disc::no_cloud(identity, ["META_DATA", "USER_DATA"]))
        }
        MetadataForm::OvfEnvironment => Some(disc::ovf_environment(identity)),
        MetadataForm::Azure => Some(azure::create_disc(identity)),
        MetadataForm::OpenStack
        | MetadataForm::Ec2
        | MetadataForm::Ec2TokensOptional
        | MetadataForm::None => None,
    }
}

/// Describes the difference between a form and the real platform.
pub fn describe_difference(form: MetadataForm) -> Option<&'static str> {
    match form {
        MetadataForm::Azure => Some(
            "Azure's answer file and provisioning agent are not public: the clone used winimg's \
             substitutes, which install no guest agent and report nothing to Azure",
        ),
        MetadataForm::ConfigDrive
        | MetadataForm::NoCloud
        | MetadataForm::NoCloudUpperCase
        | MetadataForm::OvfEnvironment
        | MetadataForm::OpenStack
        | MetadataForm::Ec2
        | MetadataForm::Ec2TokensOptional
        | MetadataForm::None => None,
    }
}

/// A platform's services for one clone, with their state.
#[derive(Debug)]
pub struct MetadataService {
    platform: PlatformService,
    reports: Vec<CloneReport>,
}

#[derive(Debug)]
enum PlatformService {
    OpenStack(openstack::OpenStackService),
    Ec2(ec2::Ec2Service),
    Azure(azure::AzureService),
}

/// A request to the metadata services.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetadataRequest {
    /// Time since the service started.
    pub seconds: f64,
    /// `169.254.169.254:80`
    pub address: String,
    /// Empty if the request could not be read.
    pub method: String,
    /// Path and query.
    pub target: String,
    pub status: u16,
}

/// A report of a clone to its platform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CloneReport {
    /// Health of an Azure role instance: `Ready`, or `NotReady` with details.
    Health {
        state: String,
        sub_status: Option<String>,
        description: Option<String>,
    },
    /// A property of an Azure role instance, such as the thumbprint of the remote desktop
    /// certificate.
    Property { name: String, value: String },
    /// The clone's generated password for OpenStack, encrypted with one of its SSH keys.
    EncryptedPassword,
}

impl MetadataService {
    /// Creates the services on the clone's network, if the form has any.
    pub fn from_form(form: MetadataForm, identity: &CloneIdentity) -> Option<Self> {
        let platform = match form {
            MetadataForm::OpenStack => {
                PlatformService::OpenStack(openstack::OpenStackService::new(identity))
            }
            MetadataForm::Ec2 => {
                PlatformService::Ec2(ec2::Ec2Service::new(identity, Ec2TokenPolicy::Required))
            }
            MetadataForm::Ec2TokensOptional => {
                PlatformService::Ec2(ec2::Ec2Service::new(identity, Ec2TokenPolicy::Optional))
            }
            MetadataForm::Azure => PlatformService::Azure(azure::AzureService::new(identity)),
            MetadataForm::ConfigDrive
            | MetadataForm::NoCloud
            | MetadataForm::NoCloudUpperCase
            | MetadataForm::OvfEnvironment
            | MetadataForm::None => return None,
        };
        Some(Self {
            platform,
            reports: Vec::new(),
        })
    }

    pub fn endpoints(&self) -> &'static [MetadataEndpoint] {
        match self.platform {
            PlatformService::OpenStack(_) | PlatformService::Ec2(_) => {
                &[MetadataEndpoint::Metadata]
            }
            PlatformService::Azure(_) => {
                &[MetadataEndpoint::Metadata, MetadataEndpoint::WireServer]
            }
        }
    }

    pub fn handle(&mut self, at: MetadataEndpoint, request: &HttpRequest) -> HttpResponse {
        let reports = &mut self.reports;
        match (&mut self.platform, at) {
            (PlatformService::OpenStack(service), MetadataEndpoint::Metadata) => {
                service.handle(request, reports)
            }
            (PlatformService::Ec2(service), MetadataEndpoint::Metadata) => service.handle(request),
            (PlatformService::Azure(service), MetadataEndpoint::Metadata) => {
                service.handle_instance(request)
            }
            (PlatformService::Azure(service), MetadataEndpoint::WireServer) => {
                service.handle_wire(request, reports)
            }
            (
                PlatformService::OpenStack(_) | PlatformService::Ec2(_),
                MetadataEndpoint::WireServer,
            ) => HttpResponse::not_found(),
        }
    }

    /// Returns the clone's reports, in order.
    pub fn reports(&self) -> &[CloneReport] {
        &self.reports
    }
}

/// Derives a UUID from the instance, for platforms whose identifiers have a fixed format.
fn derive_uuid(instance: &str, what: &str) -> Uuid {
    Uuid::new_v5(
        &Uuid::NAMESPACE_OID,
        format!("{what} {instance}").as_bytes(),
    )
}
