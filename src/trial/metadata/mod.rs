//! What a clone is given at its first boot, in the form of the platform that it is tried as: discs, and services at the platform's
//! own addresses. docs/try.md says what each form holds and where that is known from.
//!
//! Pure, but for `server`. Refuses what the platform refuses: what it does not serve is 404, a request without the platform's
//! header or token is what the platform makes of it. Network settings are in no form: a clone takes its address by DHCP.

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
use winimg_formats::iso::Tree;

use self::ec2::Tokens;
use super::user_data::UserData;
use crate::http::{Request, Response};
use winimg_recipe::recipe::target::Form;

/// What makes one clone another machine than the next.
#[derive(Clone, Debug)]
pub struct Identity {
    /// What the platform calls this machine. EC2 and Azure have a grammar for it: there it is derived from this.
    pub instance: String,
    pub host_name: String,
    /// The account that the platform asks the agent to make. NoCloud and EC2 have no place for it.
    pub user: String,
    /// Lines of `authorized_keys`. cloudbase-init encrypts the password that it made with one of them for OpenStack's service, and
    /// fails where that one is not RSA; which one it takes is chance.
    pub ssh_keys: Vec<String>,
    /// Empty: the clone is given none, which is not the same as an empty file everywhere.
    pub user_data: UserData,
    /// Of `user`. Azure asks for one, the other forms leave it out.
    pub password: Secret,
}

/// The network that a clone stands in: the smallest with every `Endpoint` in it. QEMU forwards connections to addresses of the
/// guest's own network alone (`-netdev user,net=…,guestfwd=…`; seen with QEMU 7.2).
pub const NETWORK: &str = "168.0.0.0/7";

/// Where a service listens, as the clone knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// 169.254.169.254
    Metadata,
    /// 168.63.129.16, which is Azure's on every network (Microsoft: What is IP address 168.63.129.16?).
    WireServer,
}

impl Endpoint {
    pub fn address(self) -> SocketAddrV4 {
        let host = match self {
            Self::Metadata => Ipv4Addr::new(169, 254, 169, 254),
            Self::WireServer => Ipv4Addr::new(168, 63, 129, 16),
        };
        SocketAddrV4::new(host, 80)
    }
}

/// The disc that stands in the clone's drive.
pub fn disc(form: Form, identity: &Identity) -> Option<Tree> {
    match form {
        Form::ConfigDrive => Some(disc::config_drive(identity)),
        Form::NoCloud => Some(disc::no_cloud(identity, ["meta-data", "user-data"])),
        Form::NoCloudUpperCase => Some(disc::no_cloud(identity, ["META_DATA", "USER_DATA"])),
        Form::OvfEnvironment => Some(disc::ovf_environment(identity)),
        Form::Azure => Some(azure::disc(identity)),
        Form::OpenStack | Form::Ec2 | Form::Ec2TokensOptional | Form::None => None,
    }
}

/// In what a form is not what the platform gives.
pub fn remark(form: Form) -> Option<&'static str> {
    match form {
        Form::Azure => Some(
            "Azure's answer file and provisioning agent are not published: the clone had winimg's imitation of them, which installs no \
             guest agent and reports nothing to Azure",
        ),
        Form::ConfigDrive
        | Form::NoCloud
        | Form::NoCloudUpperCase
        | Form::OvfEnvironment
        | Form::OpenStack
        | Form::Ec2
        | Form::Ec2TokensOptional
        | Form::None => None,
    }
}

/// A platform's services as one clone sees them, with what they remember.
#[derive(Debug)]
pub struct Service {
    platform: Platform,
    reports: Vec<Report>,
}

#[derive(Debug)]
enum Platform {
    OpenStack(openstack::Service),
    Ec2(ec2::Service),
    Azure(azure::Service),
}

/// One request, as the result of a trial shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// Since the service began.
    pub seconds: f64,
    /// `169.254.169.254:80`
    pub address: String,
    /// Empty where the request could not be read.
    pub method: String,
    /// Path and query.
    pub target: String,
    pub status: u16,
}

/// What a clone said to its platform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// Azure's health report of a role instance: `Ready`, or `NotReady` with what is going on.
    Health {
        state: String,
        sub_status: Option<String>,
        description: Option<String>,
    },
    /// A property of an Azure role instance, such as the thumbprint of the certificate of remote desktop.
    Property { name: String, value: String },
    /// OpenStack was given the password that the clone made, encrypted for its first key.
    EncryptedPassword,
}

impl Service {
    /// What answers on the clone's network.
    pub fn of(form: Form, identity: &Identity) -> Option<Self> {
        let ec2 = |tokens| Platform::Ec2(ec2::Service::new(identity, tokens));
        let platform = match form {
            Form::OpenStack => Platform::OpenStack(openstack::Service::new(identity)),
            Form::Ec2 => ec2(Tokens::Required),
            Form::Ec2TokensOptional => ec2(Tokens::Optional),
            Form::Azure => Platform::Azure(azure::Service::new(identity)),
            Form::ConfigDrive
            | Form::NoCloud
            | Form::NoCloudUpperCase
            | Form::OvfEnvironment
            | Form::None => return None,
        };
        Some(Self {
            platform,
            reports: Vec::new(),
        })
    }

    pub fn endpoints(&self) -> &'static [Endpoint] {
        match self.platform {
            Platform::OpenStack(_) | Platform::Ec2(_) => &[Endpoint::Metadata],
            Platform::Azure(_) => &[Endpoint::Metadata, Endpoint::WireServer],
        }
    }

    pub fn answer(&mut self, at: Endpoint, request: &Request) -> Response {
        let reports = &mut self.reports;
        match (&mut self.platform, at) {
            (Platform::OpenStack(service), Endpoint::Metadata) => service.answer(request, reports),
            (Platform::Ec2(service), Endpoint::Metadata) => service.answer(request),
            (Platform::Azure(service), Endpoint::Metadata) => service.instance(request),
            (Platform::Azure(service), Endpoint::WireServer) => service.wire(request, reports),
            (Platform::OpenStack(_) | Platform::Ec2(_), Endpoint::WireServer) => {
                Response::not_found()
            }
        }
    }

    /// What the clone reported, in its order.
    pub fn reports(&self) -> &[Report] {
        &self.reports
    }
}

/// The same UUID for the same instance, for platforms whose identifiers have a grammar.
fn guid(instance: &str, what: &str) -> Uuid {
    Uuid::new_v5(
        &Uuid::NAMESPACE_OID,
        format!("{what} {instance}").as_bytes(),
    )
}
