//! NoCloud's disc (`nocloudservice.NoCloudConfigDriveService`).

use serde_json::Value;

use super::{Context, Fault, Found, Service, disc, failed, text};
use crate::windows::cloudbase::yaml;

pub struct NoCloud<'a> {
    c: Context<'a>,
    drive: String,
}

impl<'a> NoCloud<'a> {
    pub fn new(c: Context<'a>) -> Self {
        NoCloud {
            c,
            drive: String::new(),
        }
    }

    fn yaml(&self, file: &str) -> Found<Value> {
        let bytes = disc::read(self.c, &self.drive, file)?;
        let text =
            String::from_utf8(bytes).map_err(|_| failed(format!("Couldn't decode: {file}")))?;
        yaml::parse(&text).map_err(|why| Fault::NotModelled(format!("{file}: {why}")))
    }

    fn meta_data(&self) -> Found<Value> {
        match self.yaml(&self.c.settings.nocloud_metadata_file)? {
            value @ Value::Object(_) => Ok(value),
            other => Err(failed(format!("'{other}' object has no attribute 'get'"))),
        }
    }
}

impl Service for NoCloud<'_> {
    fn name(&self) -> &'static str {
        "NoCloudConfigDriveService"
    }

    fn load(&mut self) -> Found<bool> {
        let found = disc::find(self.c, "cidata", &self.c.settings.nocloud_metadata_file);
        self.drive = found.clone().unwrap_or_default();
        Ok(found.is_some())
    }

    fn instance_id(&self) -> Found<Option<String>> {
        Ok(text(&self.meta_data()?, "instance-id"))
    }

    fn host_name(&self) -> Found<Option<String>> {
        Ok(text(&self.meta_data()?, "local-hostname"))
    }

    fn public_keys(&self) -> Found<Vec<String>> {
        let word = |value: &Value| value.as_str().map(str::to_owned);
        Ok(match self.meta_data()?.get("public-keys") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(keys)) => keys.iter().filter_map(word).collect(),
            Some(Value::Object(keys)) => keys
                .values()
                .filter_map(|key| word(key).or_else(|| text(key, "openssh-key")))
                .collect(),
            Some(other) => {
                return Err(failed(format!(
                    "'{other}' object has no attribute 'values'"
                )));
            }
        })
    }

    fn user_data(&self) -> Found<Option<Vec<u8>>> {
        disc::read(self.c, &self.drive, &self.c.settings.nocloud_userdata_file).map(Some)
    }

    fn network(&self) -> Found<Option<Value>> {
        match self.yaml(&self.c.settings.nocloud_network_file) {
            Ok(Value::Object(map)) => Ok(Some(Value::Object(map))),
            Ok(_) => Ok(None),
            Err(Fault::Missing) => Ok(self.meta_data()?.get("network-interfaces").cloned()),
            Err(fault) => Err(fault),
        }
    }
}
