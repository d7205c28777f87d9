//! The OVF environment on a disc (`ovfservice.py`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use roxmltree::Document;

use super::{Context, Fault, Found, Service, disc, failed, xml};

pub struct Ovf<'a> {
    c: Context<'a>,
    text: String,
}

impl<'a> Ovf<'a> {
    pub fn new(c: Context<'a>) -> Self {
        Ovf {
            c,
            text: String::new(),
        }
    }

    /// The disc with the label; of several the last.
    fn read(&self) -> Found<String> {
        let settings = self.c.settings;
        let labels = self.c.p.machine.labels();
        let drive = labels
            .iter()
            .rfind(|(_, label)| label.to_lowercase() == settings.ovf_label.to_lowercase())
            .map(|(letter, _)| format!("{letter}:"))
            .ok_or(Fault::Missing)?;
        let bytes = disc::read(self.c, &drive, &settings.ovf_file)?;
        String::from_utf8(bytes).map_err(|e| failed(e.to_string()))
    }

    fn value(&self, key: &str) -> Found<Option<String>> {
        Ok(self.values(key)?.into_iter().next())
    }

    fn values(&self, key: &str) -> Found<Vec<String>> {
        let found = values(&self.text, &self.c.settings.ovf_prefix, key).map_err(failed)?;
        if found.is_empty() {
            self.c.log.warning(
                "metadata.services.ovfservice",
                &format!("Property {key} not found in PropertySection in ovf file"),
            );
        }
        Ok(found)
    }
}

/// The values of a property, as untangle and the service find them.
fn values(text: &str, prefix: &str, key: &str) -> Result<Vec<String>, String> {
    let document = Document::parse(text).map_err(|e| e.to_string())?;
    let environment = xml::at(&document, &["Environment"])?;
    let sections = xml::children(&document, environment, "PropertySection");
    let [section] = sections[..] else {
        // None or a list has no Property, and the service takes the length of None.
        return Err("object of type 'NoneType' has no len()".to_owned());
    };
    let properties = xml::children(&document, section, "Property");
    if properties.is_empty() {
        return Err("object of type 'NoneType' has no len()".to_owned());
    }
    let attribute = |node, name: &str| xml::attribute(&document, node, &format!("{prefix}:{name}"));
    Ok(properties
        .into_iter()
        .filter(|property| attribute(*property, "key") == Some(key))
        .filter_map(|property| attribute(property, "value"))
        .filter(|value| !value.is_empty())
        .map(|value| value.trim().to_owned())
        .collect())
}

impl Service for Ovf<'_> {
    fn name(&self) -> &'static str {
        "OvfService"
    }

    fn load(&mut self) -> Found<bool> {
        let read = self.read().and_then(|text| {
            Document::parse(&text).map_err(|e| failed(e.to_string()))?;
            Ok(text)
        });
        match read {
            Ok(text) => {
                self.text = text;
                Ok(true)
            }
            Err(fault) => {
                self.c
                    .log
                    .error("metadata.services.ovfservice", &format!("{fault:?}"));
                Ok(false)
            }
        }
    }

    fn instance_id(&self) -> Found<Option<String>> {
        Ok(Some(
            self.value("instance-id")?
                .unwrap_or_else(|| "iid-ovf".to_owned()),
        ))
    }

    fn host_name(&self) -> Found<Option<String>> {
        self.value("hostname")
    }

    fn public_keys(&self) -> Found<Vec<String>> {
        self.values("public-keys")
    }

    fn user_data(&self) -> Found<Option<Vec<u8>>> {
        Ok(self.value("user-data")?.map(String::into_bytes))
    }

    /// Base64, and never gzip.
    fn decoded_user_data(&self) -> Found<Option<Vec<u8>>> {
        match self.value("user-data")? {
            None => Ok(None),
            Some(text) => STANDARD
                .decode(text.replace(char::is_whitespace, ""))
                .map(Some)
                .map_err(|e| failed(e.to_string())),
        }
    }

    fn admin_username(&self) -> Found<Option<String>> {
        self.value("username")
    }

    fn admin_password(&self) -> Found<Option<String>> {
        self.value("password")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#"<Environment xmlns="http://schemas.dmtf.org/ovf/environment/1" xmlns:oe="http://schemas.dmtf.org/ovf/environment/1">"#;

    #[test]
    fn properties_are_found_by_their_prefix() {
        let text = format!(
            r#"{HEAD}<PropertySection><Property oe:key="hostname" oe:value=" node-1 "/><Property oe:key="public-keys" oe:value="one"/><Property oe:key="public-keys" oe:value="two"/><Property key="bare" value="x"/></PropertySection></Environment>"#
        );
        assert_eq!(values(&text, "oe", "hostname"), Ok(vec!["node-1".into()]));
        assert_eq!(
            values(&text, "oe", "public-keys"),
            Ok(vec!["one".into(), "two".into()])
        );
        assert_eq!(values(&text, "oe", "bare"), Ok(Vec::new()));
        assert_eq!(values(&text, "ovfenv", "hostname"), Ok(Vec::new()));
    }

    #[test]
    fn an_environment_that_the_service_cannot_use() {
        let empty = format!("{HEAD}</Environment>");
        assert_eq!(
            values(&empty, "oe", "hostname"),
            Err("object of type 'NoneType' has no len()".into())
        );
        let prefixed = r#"<oe:Environment xmlns:oe="x"><oe:PropertySection/></oe:Environment>"#;
        assert_eq!(
            values(prefixed, "oe", "hostname"),
            Err("'None' has no attribute 'Environment'".into())
        );
    }
}
