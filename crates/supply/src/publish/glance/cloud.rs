//! Cloud and login for Glance: `clouds.yaml` and `secure.yaml` by `OS_CLOUD`, or the variables
//! `OS_…`.
//!
//! Pure except for reading files. Does not guess: a missing or ambiguous login is an error.
//! (openstacksdk: configuring OpenStack SDK applications; keystoneauth: plugin options)

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use url::Url;

use super::clouds_file::{self, CloudSettings};
use super::setting_names::{NAMES, find_set, read_variable};
use crate::publish::service::keeps_secrets;
use winimg_base::display_text;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::{Secret, redact};

/// Settings that the environment may add to a cloud in a file: secrets do not belong in every file.
const SECRETS: [&str; 3] = ["password", "application_credential_secret", "token"];

/// A cloud with its login.
pub struct OpenStackCloud {
    /// Ends with `/v3/`.
    pub keystone: Url,
    /// Body of a token request. Contains a secret.
    pub login: Secret,
    /// `public`, `internal`, `admin`
    pub interface: String,
    pub region: Option<String>,
    /// Glance's address in place of the catalog's.
    pub glance: Option<Url>,
    /// A certificate setting of the cloud is ignored.
    pub is_unheeded: bool,
}

impl OpenStackCloud {
    pub fn from_environment(environment: &impl Fn(&str) -> Option<String>) -> Result<Self> {
        let Some(name) = find_set(environment, "OS_CLOUD") else {
            let all = NAMES
                .iter()
                .filter_map(|name| read_variable(name, environment));
            let values = CloudValues {
                said: all.collect(),
                secrets: BTreeMap::new(),
                file: None,
            };
            return values.to_cloud();
        };
        let region = find_set(environment, "OS_REGION_NAME");
        let CloudSettings { path, mut values } =
            clouds_file::read(&name, region.as_deref(), environment)?;
        // They take precedence over the file, as in OpenStack's command line.
        for name in ["region_name", "interface"] {
            values.extend(read_variable(name, environment));
        }
        let secrets = SECRETS
            .iter()
            .filter_map(|name| read_variable(name, environment));
        let values = CloudValues {
            said: values,
            secrets: secrets.collect(),
            file: Some((name, path)),
        };
        values.to_cloud()
    }
}

struct CloudValues {
    said: BTreeMap<String, String>,
    /// Secrets that the file does not have.
    secrets: BTreeMap<String, String>,
    /// The cloud's name and its file; `None`: it is configured by the environment.
    file: Option<(String, PathBuf)>,
}

impl CloudValues {
    fn get(&self, name: &str) -> Option<&str> {
        let value = self.said.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    fn is_one_of(&self, name: &str, words: &[&str]) -> bool {
        let value = self.get(name).map(str::to_ascii_lowercase);
        value.is_some_and(|value| words.contains(&value.as_str()))
    }

    fn find_first(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.get(name))
    }

    fn to_cloud(&self) -> Result<OpenStackCloud> {
        let address = match &self.file {
            Some(_) => self.require("auth_url")?,
            None => self.get("auth_url").ok_or_else(|| {
                Error::new(Kind::Recipe, "no cloud is configured").cure(
                    "set OS_CLOUD to a cloud of clouds.yaml, or OS_AUTH_URL and the other \
                     variables of an openrc file",
                )
            })?,
        };
        let interface = self.get("interface").or_else(|| self.get("endpoint_type"));
        let interface = interface.unwrap_or("public").trim_end_matches("URL");
        let is_checked = !self.is_one_of("verify", &["false", "no", "off", "n", "0"])
            && !self.is_one_of("insecure", &["true", "yes", "on", "y", "1"]);
        Ok(OpenStackCloud {
            keystone: parse_keystone_url(address)?,
            login: Secret::new(json!({ "auth": self.build_auth()? }).to_string()),
            interface: interface.to_owned(),
            region: self.get("region_name").map(str::to_owned),
            glance: self
                .get("image_endpoint_override")
                .map(address_of)
                .transpose()?,
            is_unheeded: !is_checked || self.get("cacert").is_some(),
        })
    }

    /// (Identity API v3: authentication and token management)
    fn build_auth(&self) -> Result<Value> {
        let kind = self.find_first(&["auth_type", "auth_plugin"]);
        let kind = kind.map(|kind| kind.trim_start_matches("v3"));
        let credential =
            ["id", "name", "secret"].map(|part| format!("application_credential_{part}"));
        let has_credential = credential.iter().any(|name| self.get(name).is_some());
        let has_token = self.find_first(&["token", "auth_token"]).is_some();
        let is_token = has_token && self.get("password").is_none();
        match kind {
            Some("applicationcredential") => self.application_credential(),
            Some("token") => self.build_token_auth(),
            Some("password") => self.build_password_auth(),
            None if has_credential => self.application_credential(),
            None if is_token => self.build_token_auth(),
            None => self.build_password_auth(),
            Some(other) => Err(Error::new(
                Kind::Recipe,
                "winimg does not support this kind of login to OpenStack",
            )
            .expected("v3password, v3applicationcredential or v3token")
            .found(display_text::sanitize_line(other))
            .cure(
                "create an application credential: openstack application credential create winimg",
            )),
        }
    }

    fn build_password_auth(&self) -> Result<Value> {
        let mut user = self.build_user()?;
        user["password"] = self.require("password")?.into();
        Ok(json!({
            "identity": { "methods": ["password"], "password": { "user": user } },
            "scope": { "project": self.build_project()? },
        }))
    }

    fn build_token_auth(&self) -> Result<Value> {
        let id = self.token_itself()?;
        let mut auth = json!({ "identity": { "methods": ["token"], "token": { "id": id } } });
        // The default is the token's project.
        if let Ok(project) = self.build_project() {
            auth["scope"] = json!({ "project": project });
        }
        Ok(auth)
    }

    fn token_itself(&self) -> Result<&str> {
        match self.get("auth_token") {
            Some(token) if self.get("token").is_none() => Ok(token),
            _ => self.require("token"),
        }
    }

    fn application_credential(&self) -> Result<Value> {
        let secret = self.require("application_credential_secret")?;
        let credential = match self.get("application_credential_id") {
            Some(id) => json!({ "id": id, "secret": secret }),
            None => json!({
                "name": self.require("application_credential_name")?,
                "secret": secret,
                "user": self.build_user()?,
            }),
        };
        Ok(json!({ "identity": {
            "methods": ["application_credential"], "application_credential": credential,
        } }))
    }

    fn build_user(&self) -> Result<Value> {
        match self.get("user_id") {
            Some(id) => Ok(json!({ "id": id })),
            None => {
                Ok(json!({ "name": self.require("username")?, "domain": self.find_domain("user") }))
            }
        }
    }

    fn build_project(&self) -> Result<Value> {
        if let Some(id) = self.get("project_id").or_else(|| self.get("tenant_id")) {
            return Ok(json!({ "id": id }));
        }
        let name = self.get("project_name").or_else(|| self.get("tenant_name"));
        match name {
            Some(name) => Ok(json!({ "name": name, "domain": self.find_domain("project") })),
            None => self.require("project_name").map(Value::from),
        }
    }

    /// Finds the domain of a user or project; one setting may apply to both. (openstacksdk:
    /// `domain_name`; keystoneauth: `default_domain_id`)
    fn find_domain(&self, whose: &str) -> Value {
        let own_id = self.get(&format!("{whose}_domain_id"));
        let own_name = self.get(&format!("{whose}_domain_name"));
        let default = ["default_domain_id", "default_domain"];
        let (kind, value) = match (own_id, own_name) {
            (Some(id), _) => ("id", id),
            (None, Some(name)) => ("name", name),
            (None, None) => match (self.get("domain_id"), self.get("domain_name")) {
                (Some(id), _) => ("id", id),
                (None, Some(name)) => ("name", name),
                (None, None) => {
                    match (self.find_first(&default), self.get("default_domain_name")) {
                        (Some(id), _) => ("id", id),
                        (None, Some(name)) => ("name", name),
                        (None, None) => ("id", "default"),
                    }
                }
            },
        };
        json!({ kind: value })
    }

    fn require(&self, name: &str) -> Result<&str> {
        if let Some(value) = self.get(name) {
            return Ok(value);
        }
        if let Some(secret) = self.secrets.get(name) {
            return Ok(secret);
        }
        let error = Error::new(Kind::Recipe, format!("the cloud has no {name}"));
        let variable = format!("OS_{}", name.to_ascii_uppercase());
        Err(match &self.file {
            None => error.at("OS_AUTH_URL").cure(format!("set {variable}")),
            Some((cloud, path)) => {
                let error = error.at(display_text::sanitize_line(&format!(
                    "{}: {cloud}",
                    path.display()
                )));
                let written = format!("set {name} under `auth` of the cloud in clouds.yaml");
                if SECRETS.contains(&name) {
                    error.cure(format!("{written} or secure.yaml, or set {variable}"))
                } else {
                    error.cure(written)
                }
            }
        })
    }
}

/// Parses the address of Keystone's API v3: https, or on this machine.
fn parse_keystone_url(text: &str) -> Result<Url> {
    let mut url = address_of(text)?;
    let path = url.path().trim_end_matches('/').to_owned();
    let path = match path.rsplit_once('/') {
        Some((before, "v3")) => before.to_owned(),
        Some((_, "v2.0")) => {
            return Err(
                Error::new(Kind::Recipe, "Keystone's API v2.0 is not supported")
                    .at(redact(text))
                    .cure("set OS_AUTH_URL to the address of its API v3: it ends with /v3"),
            );
        }
        _ => path,
    };
    url.set_path(&format!("{path}/v3/"));
    Ok(url)
}

fn address_of(text: &str) -> Result<Url> {
    let url = Url::parse(text).map_err(|e| refuse_address(text, &format!("is malformed: {e}")))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse_address(text, "contains a user name or password")
            .cure("set OS_USERNAME and OS_PASSWORD"));
    }
    if keeps_secrets(&url) {
        return Ok(url);
    }
    let fact = "does not use https: a password would be sent unencrypted";
    Err(refuse_address(text, fact).cure("use https"))
}

fn refuse_address(text: &str, fact: &str) -> Error {
    Error::new(Kind::Recipe, format!("an address of the cloud {fact}"))
        .at(redact(text))
        .expected("such as https://keystone.example.com:5000/v3")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENVIRONMENT: [(&str, &str); 4] = [
        ("OS_AUTH_URL", "https://k.example/v3"),
        ("OS_USERNAME", "u"),
        ("OS_PASSWORD", "p"),
        ("OS_PROJECT_NAME", "img"),
    ];

    fn of(set: &[(&str, &str)]) -> Result<Value> {
        let set = |name: &str| {
            let found = set.iter().find(|(set, _)| *set == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let cloud = OpenStackCloud::from_environment(&set)?;
        Ok(serde_json::from_str(cloud.login.expose()).unwrap())
    }

    /// With this text as `clouds.yaml` and its cloud `lab`.
    fn of_file(text: &str, more: &[(&str, &str)]) -> Result<Value> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clouds.yaml");
        std::fs::write(&path, text).unwrap();
        let path = path.display().to_string();
        let own = [("OS_CLOUD", "lab"), ("OS_CLIENT_CONFIG_FILE", &path)];
        of(&[&own, more].concat())
    }

    /// The domains of the user and of the project.
    fn domains(auth: &Value) -> (String, String) {
        let user = &auth["auth"]["identity"]["password"]["user"]["domain"];
        let project = &auth["auth"]["scope"]["project"]["domain"];
        (user.to_string(), project.to_string())
    }

    #[test]
    fn one_domain_stands_for_that_of_user_and_project() {
        let (corp, by_id) = (r#"{"name":"Corp"}"#, r#"{"id":"c0"}"#);
        for (more, user, project) in [
            (&[][..], r#"{"id":"default"}"#, r#"{"id":"default"}"#),
            (&[("OS_DOMAIN_NAME", "Corp")], corp, corp),
            (&[("OS_DOMAIN_ID", "c0")], by_id, by_id),
            (&[("OS_DEFAULT_DOMAIN_ID", "c0")], by_id, by_id),
            (&[("OS_DEFAULT_DOMAIN_NAME", "Corp")], corp, corp),
            (&[("OS_DEFAULT_DOMAIN", "c0")], by_id, by_id),
            (
                &[("OS_DOMAIN_NAME", "Corp"), ("OS_USER_DOMAIN_ID", "c0")],
                by_id,
                corp,
            ),
            (
                &[("OS_PROJECT_DOMAIN_NAME", "Corp")],
                r#"{"id":"default"}"#,
                corp,
            ),
        ] {
            let auth = of(&[&ENVIRONMENT, more].concat()).unwrap();
            assert_eq!(domains(&auth), (user.into(), project.into()), "{more:?}");
        }
        let file = "clouds:\n  lab:\n    auth: {auth_url: https://k/v3, username: u, password: p, \
                    project_name: img, domain_name: Corp}\n";
        assert_eq!(
            domains(&of_file(file, &[]).unwrap()),
            (corp.into(), corp.into())
        );
    }

    #[test]
    fn a_secret_that_a_file_leaves_out_is_one_of_the_environment() {
        let file =
            "clouds:\n  lab:\n    auth: {auth_url: https://k/v3, user_id: '1', project_id: '2'}\n";
        let auth = of_file(file, &[("OS_PASSWORD", "p")]).unwrap();
        let user = &auth["auth"]["identity"]["password"]["user"];
        assert_eq!(user, &json!({ "id": "1", "password": "p" }));
        // What the file has counts.
        let own = file.replace("user_id", "password: own, user_id");
        let auth = of_file(&own, &[("OS_PASSWORD", "p")]).unwrap();
        assert_eq!(
            auth["auth"]["identity"]["password"]["user"]["password"],
            "own"
        );
        let credential = "clouds:\n  lab:\n    auth_type: v3applicationcredential\n    auth: {auth_url: https://k/v3, application_credential_id: a}\n";
        let auth = of_file(credential, &[("OS_APPLICATION_CREDENTIAL_SECRET", "s")]).unwrap();
        let credential = &auth["auth"]["identity"]["application_credential"];
        assert_eq!(credential, &json!({ "id": "a", "secret": "s" }));
    }

    #[test]
    fn no_cure_names_what_is_set_already() {
        let cures = |result: Result<Value>| {
            let error = result.unwrap_err();
            format!(
                "{}: {}",
                error.fact(),
                error.cure_text().unwrap_or_default()
            )
        };
        let file = |auth: &str| format!("clouds:\n  lab:\n    auth: {{{auth}}}\n");
        assert_eq!(
            cures(of_file(&file("username: u"), &[])),
            "the cloud has no auth_url: set auth_url under `auth` of the cloud in clouds.yaml"
        );
        assert_eq!(
            cures(of_file(
                &file("auth_url: https://k/v3, user_id: '1', project_id: '2'"),
                &[]
            )),
            "the cloud has no password: set password under `auth` of the cloud in clouds.yaml or secure.yaml, or set OS_PASSWORD"
        );
        let without = &ENVIRONMENT[..3];
        assert_eq!(
            cures(of(without)),
            "the cloud has no project_name: set OS_PROJECT_NAME"
        );
    }
}
