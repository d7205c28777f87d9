//! VMware's guestinfo, through `rpctool.exe` (`vmwareguestinfoservice.py`). Without VMware Tools there is none.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Context, Fault, Found, Service, disc, failed, text};
use crate::windows::cloudbase::{http, yaml};
use crate::windows::process;

const MODULE: &str = "metadata.services.vmwareguestinfoservice";

pub struct GuestInfo<'a> {
    c: Context<'a>,
    meta_data: Value,
    user_data: Option<Vec<u8>>,
}

impl<'a> GuestInfo<'a> {
    pub fn new(c: Context<'a>) -> Self {
        GuestInfo {
            c,
            meta_data: Value::Null,
            user_data: None,
        }
    }

    fn value(&self, tool: &str, key: &str) -> Option<Vec<u8>> {
        let out = process::buffer();
        let mut p = self.c.p.clone();
        p.out = out.clone();
        let code = p.create(&format!(r#""{tool}" "info-get guestinfo.{key}""#));
        (code == Ok(0)).then(|| process::taken(&out))
    }

    fn data(&self, tool: &str, key: &str) -> Found<Option<Vec<u8>>> {
        let Some(raw) = self.value(tool, key).filter(|raw| !raw.is_empty()) else {
            return Ok(None);
        };
        let encoding = self
            .value(tool, &format!("{key}.encoding"))
            .unwrap_or_default();
        let encoding = String::from_utf8_lossy(&encoding).trim().to_owned();
        decode(raw, &encoding).map(Some).map_err(failed)
    }
}

fn decode(raw: Vec<u8>, encoding: &str) -> Result<Vec<u8>, String> {
    let base64 = |raw: Vec<u8>| {
        let kept: Vec<u8> = raw
            .into_iter()
            .filter(|byte| !byte.is_ascii_whitespace())
            .collect();
        STANDARD.decode(kept).map_err(|e| e.to_string())
    };
    match encoding {
        "" | "plaintext" => Ok(raw),
        "base64" | "b64" => base64(raw),
        "gzip+base64" | "gz+b64" => http::gunzip(&base64(raw)?).map_err(|e| e.to_string()),
        other => Err(format!("Encoding {other} not supported")),
    }
}

impl Service for GuestInfo<'_> {
    fn name(&self) -> &'static str {
        "VMwareGuestInfoService"
    }

    fn load(&mut self) -> Found<bool> {
        let tool = self
            .c
            .p
            .env
            .expand(&self.c.settings.rpctool_path)
            .replace('/', r"\");
        if tool.is_empty() {
            self.c.log.info(
                MODULE,
                "rpctool_path is empty. Please provide a value for VMware rpctool path.",
            );
            return Ok(false);
        }
        if !disc::exists(self.c, &tool) {
            self.c.log.info(
                MODULE,
                &format!(
                    "{tool} does not exist. Please provide a valid value for VMware rpctool path."
                ),
            );
            return Ok(false);
        }
        if let Some(bytes) = self.data(&tool, "metadata")? {
            let text = String::from_utf8(bytes).map_err(|e| failed(e.to_string()))?;
            let value = yaml::parse(&text)
                .map_err(|why| Fault::NotModelled(format!("guestinfo.metadata: {why}")))?;
            if value.is_object() {
                self.meta_data = value;
            } else {
                self.c
                    .log
                    .warning(MODULE, "Instance metadata is not a dictionary.");
            }
        }
        self.user_data = self.data(&tool, "userdata")?;
        let some = self
            .meta_data
            .as_object()
            .is_some_and(|map| !map.is_empty());
        Ok(some || self.user_data.is_some())
    }

    fn instance_id(&self) -> Found<Option<String>> {
        Ok(text(&self.meta_data, "instance-id"))
    }

    fn host_name(&self) -> Found<Option<String>> {
        Ok(text(&self.meta_data, "local-hostname"))
    }

    fn public_keys(&self) -> Found<Vec<String>> {
        let data = text(&self.meta_data, "public-keys-data").unwrap_or_default();
        let mut keys: Vec<String> = data.lines().map(|key| key.trim().to_owned()).collect();
        keys.sort();
        keys.dedup();
        Ok(keys)
    }

    fn user_data(&self) -> Found<Option<Vec<u8>>> {
        Ok(self.user_data.clone())
    }

    fn admin_username(&self) -> Found<Option<String>> {
        Ok(text(&self.meta_data, "admin-username"))
    }

    fn admin_password(&self) -> Found<Option<String>> {
        Ok(text(&self.meta_data, "admin-password"))
    }

    fn network(&self) -> Found<Option<Value>> {
        Ok(self.meta_data.get("network").cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings() {
        assert_eq!(decode(b"plain".to_vec(), ""), Ok(b"plain".to_vec()));
        assert_eq!(decode(b"cGxh\naW4=".to_vec(), "b64"), Ok(b"plain".to_vec()));
        assert_eq!(
            decode(Vec::new(), "rot13"),
            Err("Encoding rot13 not supported".into())
        );
    }
}
