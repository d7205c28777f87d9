//! cloudbase-init's metadata services: in the order of `metadata_services`, the first that loads is used.
//!
//! Sources: cloudbase-init 1.1.9 `metadata/factory.py`, `metadata/services/*.py`.

mod azure;
mod custom_data;
mod disc;
mod ec2;
mod guest_info;
mod nocloud;
mod openstack;
mod ovf;
mod xml;

use serde_json::Value;

use super::config::Settings;
use super::http;
use super::log::Log;
use crate::windows::process::Process;

/// Why something could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// NotExistingMetadataException.
    Missing,
    /// Any other exception, with its text.
    Failed(String),
    /// The stand-in would have to pretend.
    NotModelled(String),
}

pub type Found<T> = Result<T, Fault>;

pub fn failed(why: impl Into<String>) -> Fault {
    Fault::Failed(why.into())
}

/// What a service needs of the run.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub p: &'a Process,
    pub settings: &'a Settings,
    pub log: &'a Log,
}

/// How far provisioning is, for services that want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    Started,
    Completed,
    Failed,
}

/// What a plugin can ask a service; the answers are `BaseMetadataService`'s where a service has none of its own.
pub trait Service {
    fn name(&self) -> &'static str;
    /// Whether this service is there.
    fn load(&mut self) -> Found<bool>;
    fn instance_id(&self) -> Found<Option<String>>;
    fn host_name(&self) -> Found<Option<String>>;
    fn public_keys(&self) -> Found<Vec<String>>;
    fn user_data(&self) -> Found<Option<Vec<u8>>>;

    fn admin_username(&self) -> Found<Option<String>> {
        Ok(None)
    }

    fn admin_password(&self) -> Found<Option<String>> {
        Ok(None)
    }

    /// User data, unpacked when it is gzip.
    fn decoded_user_data(&self) -> Found<Option<Vec<u8>>> {
        let data = self.user_data()?;
        match data {
            Some(data) if data.starts_with(&[0x1f, 0x8b]) => http::gunzip(&data)
                .map(Some)
                .map_err(|e| failed(e.to_string())),
            data => Ok(data),
        }
    }

    /// A network configuration for NetworkConfigPlugin.
    fn network(&self) -> Found<Option<Value>> {
        Ok(None)
    }

    fn can_post_password(&self) -> Found<bool> {
        Ok(false)
    }

    fn is_password_set(&self) -> Found<bool> {
        Ok(false)
    }

    /// Base64.
    fn post_password(&self, _encrypted: &str) -> Found<()> {
        Ok(())
    }

    fn data_loss_warning(&self) -> Found<Vec<u8>> {
        Err(Fault::Missing)
    }

    /// Whether Azure's guest agent is to be provisioned, and its package's name.
    fn guest_agent(&self) -> Found<Option<(bool, Option<String>)>> {
        Ok(None)
    }

    fn report(&self, _: Report) -> Found<()> {
        Ok(())
    }
}

/// EmptyMetadataService: for plugins that need none.
struct Empty;

impl Service for Empty {
    fn name(&self) -> &'static str {
        "EmptyMetadataService"
    }

    fn load(&mut self) -> Found<bool> {
        Ok(true)
    }

    fn instance_id(&self) -> Found<Option<String>> {
        Ok(None)
    }

    fn host_name(&self) -> Found<Option<String>> {
        Ok(None)
    }

    fn public_keys(&self) -> Found<Vec<String>> {
        Ok(Vec::new())
    }

    fn user_data(&self) -> Found<Option<Vec<u8>>> {
        Ok(None)
    }

    fn admin_username(&self) -> Found<Option<String>> {
        Err(Fault::Missing)
    }

    fn admin_password(&self) -> Found<Option<String>> {
        Err(Fault::Missing)
    }
}

const BASE: &str = "cloudbaseinit.metadata.services.";
const NOT_MODELLED: [&str; 7] = [
    "maasservice.MaaSHttpService",
    "cloudstack.CloudStack",
    "opennebulaservice.OpenNebulaService",
    "oraclecloudservice.OracleCloudService",
    "packet.PacketService",
    "gceservice.GCEService",
    "nocloudservice.NoCloudHttpService",
];

fn make<'a>(c: Context<'a>, path: &str) -> Found<Box<dyn Service + 'a>> {
    let Some(class) = path.strip_prefix(BASE) else {
        return Ok(Box::new(custom_data::CustomData::import(c, path)?));
    };
    Ok(match class {
        "base.EmptyMetadataService" => Box::new(Empty),
        "configdrive.ConfigDriveService" => Box::new(openstack::ConfigDrive::new(c)),
        "httpservice.HttpService" => Box::new(openstack::Http::new(c)),
        "nocloudservice.NoCloudConfigDriveService" => Box::new(nocloud::NoCloud::new(c)),
        "ec2service.EC2Service" => Box::new(ec2::Ec2::new(c)),
        "ovfservice.OvfService" => Box::new(ovf::Ovf::new(c)),
        "azureservice.AzureService" => Box::new(azure::Azure::new(c)),
        "vmwareguestinfoservice.VMwareGuestInfoService" => Box::new(guest_info::GuestInfo::new(c)),
        class if NOT_MODELLED.contains(&class) => {
            return Err(Fault::NotModelled(format!("metadata service {path}")));
        }
        _ => return Err(failed(format!("Import error: {path}"))),
    })
}

/// The first service that loads. A class that cannot be imported ends the program, as it does there: `load_class` stands
/// outside of the `try`.
pub fn find(c: Context<'_>) -> Found<Option<Box<dyn Service + '_>>> {
    for path in &c.settings.metadata_services {
        let mut service = make(c, path)?;
        match service.load() {
            Ok(true) => return Ok(Some(service)),
            Ok(false) | Err(Fault::Missing) => {}
            Err(Fault::Failed(why)) => {
                c.log.error(
                    "metadata.factory",
                    &format!("Failed to load metadata service '{path}'"),
                );
                c.log.error("metadata.factory", &why);
            }
            Err(not_modelled) => return Err(not_modelled),
        }
    }
    Ok(None)
}

/// An HTTP service: every request again while it fails otherwise than with 404.
struct Endpoint<'a> {
    c: Context<'a>,
    base: String,
    headers: Vec<(String, String)>,
}

impl Endpoint<'_> {
    fn get(&self, path: &str) -> Found<Vec<u8>> {
        self.request(path, None)
    }

    fn text(&self, path: &str) -> Found<String> {
        // Bytes that are no UTF-8 give None there, and whoever uses it fails.
        String::from_utf8(self.get(path)?).map_err(|_| failed(format!("Couldn't decode: {path}")))
    }

    fn request(&self, path: &str, body: Option<&[u8]>) -> Found<Vec<u8>> {
        let mut tries = 0;
        loop {
            let verb = if body.is_some() { "POST" } else { "GET" };
            self.c.log.debug(
                "metadata.services.base",
                &format!(
                    "Executing http request {verb} at {}/{path}",
                    self.base.trim_end_matches('/')
                ),
            );
            match http::request(&self.base, path, &self.headers, body) {
                Ok(body) => return Ok(body),
                Err(http::Fault::Status(404)) => return Err(Fault::Missing),
                Err(fault) if tries == self.c.settings.retry_count => {
                    return Err(failed(match fault {
                        http::Fault::Status(code) => format!("{code} Error for url: {path}"),
                        http::Fault::Connection(why) => why,
                    }));
                }
                Err(_) => {
                    tries += 1;
                    let wait = self.c.settings.retry_count_interval.clamp(0.0, 3600.0);
                    std::thread::sleep(std::time::Duration::from_secs_f64(wait));
                }
            }
        }
    }
}

/// A string of a JSON object; null and absence are the same.
fn text(value: &Value, name: &str) -> Option<String> {
    match value.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
