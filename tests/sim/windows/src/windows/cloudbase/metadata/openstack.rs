//! OpenStack's metadata, from a config drive and over HTTP (`baseopenstackservice.py`, `configdrive.py`,
//! `httpservice.py`).

use serde_json::Value;

use super::{Context, Endpoint, Fault, Found, Service, disc, failed, text};

/// Version whose presence says that a password can be posted.
const POST_PASSWORD: &str = "2013-04-04";
const PASSWORD: &str = "openstack/2013-04-04/password";

/// Where the files of OpenStack's tree come from.
pub trait Source {
    fn name(&self) -> &'static str;
    fn load(&mut self) -> Found<bool>;
    fn get(&self, path: &str) -> Found<Vec<u8>>;
    /// A service that passwords can be posted to.
    fn takes_passwords(&self) -> bool;
    fn post(&self, path: &str, body: &[u8]) -> Found<()>;
}

fn json(source: &impl Source, version: &str, file: &str) -> Found<Value> {
    let bytes = source.get(&format!("openstack/{version}/{file}"))?;
    serde_json::from_slice(&bytes).map_err(|e| failed(format!("{file}: {e}")))
}

fn meta_data(source: &impl Source) -> Found<Value> {
    json(source, "latest", "meta_data.json")
}

fn public_keys(source: &impl Source) -> Found<Vec<String>> {
    let meta = meta_data(source)?;
    let mut keys: Vec<String> = Vec::new();
    if let Some(Value::Object(named)) = meta.get("public_keys") {
        keys.extend(
            named
                .values()
                .filter_map(|key| key.as_str().map(str::to_owned)),
        );
    }
    if let Some(Value::Array(list)) = meta.get("keys") {
        for key in list {
            let kind = text(key, "type").ok_or_else(|| failed("'type'"))?;
            if kind == "ssh" {
                keys.push(text(key, "data").ok_or_else(|| failed("'data'"))?);
            }
        }
    }
    // A set there: without order and doubles.
    let mut keys: Vec<String> = keys.iter().map(|key| key.trim().to_owned()).collect();
    keys.sort();
    keys.dedup();
    Ok(keys)
}

fn admin_password(source: &impl Source) -> Found<Option<String>> {
    let data = meta_data(source)?;
    let in_meta = data.get("meta").and_then(|meta| text(meta, "admin_pass"));
    Ok(in_meta.or_else(|| text(&data, "admin_pass")))
}

fn network(source: &impl Source) -> Found<Option<Value>> {
    match json(source, "latest", "network_data.json") {
        Ok(value) => Ok(Some(value)),
        Err(Fault::Missing) => Ok(meta_data(source)?.get("network_config").cloned()),
        Err(fault) => Err(fault),
    }
}

impl<T: Source> Service for T {
    fn name(&self) -> &'static str {
        Source::name(self)
    }

    fn load(&mut self) -> Found<bool> {
        Source::load(self)
    }

    fn instance_id(&self) -> Found<Option<String>> {
        Ok(text(&meta_data(self)?, "uuid"))
    }

    fn host_name(&self) -> Found<Option<String>> {
        Ok(text(&meta_data(self)?, "hostname"))
    }

    fn public_keys(&self) -> Found<Vec<String>> {
        public_keys(self)
    }

    fn user_data(&self) -> Found<Option<Vec<u8>>> {
        self.get("openstack/latest/user_data").map(Some)
    }

    fn admin_username(&self) -> Found<Option<String>> {
        let data = meta_data(self)?;
        Ok(data
            .get("meta")
            .and_then(|meta| text(meta, "admin_username")))
    }

    fn admin_password(&self) -> Found<Option<String>> {
        admin_password(self)
    }

    fn network(&self) -> Found<Option<Value>> {
        network(self)
    }

    fn can_post_password(&self) -> Found<bool> {
        if !self.takes_passwords() {
            return Ok(false);
        }
        match json(self, POST_PASSWORD, "meta_data.json") {
            Ok(_) => Ok(true),
            Err(Fault::Missing) => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    fn is_password_set(&self) -> Found<bool> {
        Ok(!self.get(PASSWORD)?.is_empty())
    }

    fn post_password(&self, encrypted: &str) -> Found<()> {
        self.post(PASSWORD, encrypted.as_bytes())
    }
}

pub struct ConfigDrive<'a> {
    c: Context<'a>,
    drive: String,
}

impl<'a> ConfigDrive<'a> {
    pub fn new(c: Context<'a>) -> Self {
        ConfigDrive {
            c,
            drive: String::new(),
        }
    }
}

impl Source for ConfigDrive<'_> {
    fn get(&self, path: &str) -> Found<Vec<u8>> {
        disc::read(self.c, &self.drive, path)
    }

    fn takes_passwords(&self) -> bool {
        false
    }

    fn post(&self, _: &str, _: &[u8]) -> Found<()> {
        Err(Fault::Missing)
    }

    fn name(&self) -> &'static str {
        "ConfigDriveService"
    }

    fn load(&mut self) -> Found<bool> {
        let found = disc::find(self.c, "config-2", r"openstack\latest\meta_data.json");
        self.drive = found.clone().unwrap_or_default();
        Ok(found.is_some())
    }
}

pub struct Http<'a>(Endpoint<'a>);

impl<'a> Http<'a> {
    pub fn new(c: Context<'a>) -> Self {
        Http(Endpoint {
            c,
            base: c.settings.openstack_url.clone(),
            headers: Vec::new(),
        })
    }
}

impl Source for Http<'_> {
    fn get(&self, path: &str) -> Found<Vec<u8>> {
        self.0.get(path)
    }

    fn takes_passwords(&self) -> bool {
        true
    }

    fn post(&self, path: &str, body: &[u8]) -> Found<()> {
        self.0.request(path, Some(body)).map(drop)
    }

    fn name(&self) -> &'static str {
        "HttpService"
    }

    fn load(&mut self) -> Found<bool> {
        let found = meta_data(self).is_ok();
        if !found {
            self.0.c.log.debug(
                "metadata.services.httpservice",
                &format!("Metadata not found at URL '{}'", self.0.base),
            );
        }
        Ok(found)
    }
}
