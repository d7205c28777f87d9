//! Which cloud an image goes to and who sends it: `clouds.yaml` and `secure.yaml` by `OS_CLOUD`, or the variables `OS_…`.
//!
//! Pure but for the files that it reads. Refuses to guess: what names nobody, or two, is an error. (openstacksdk: configuring OpenStack SDK
//! applications; keystoneauth: plugin options)

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use url::Url;

use crate::fetch::client::is_here;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::{Secret, redact};
use winimg_base::unseen;

/// What is read of a cloud, as `clouds.yaml` names it; the variables are the same in capitals behind `OS_`.
const NAMES: [&str; 24] = [
    "auth_type",
    "auth_url",
    "username",
    "user_id",
    "password",
    "user_domain_name",
    "user_domain_id",
    "project_name",
    "project_id",
    "tenant_name",
    "tenant_id",
    "project_domain_name",
    "project_domain_id",
    "default_domain",
    "application_credential_id",
    "application_credential_name",
    "application_credential_secret",
    "token",
    "region_name",
    "interface",
    "endpoint_type",
    "image_endpoint_override",
    "cacert",
    "verify",
];

/// A cloud and who sends to it.
pub struct Cloud {
    /// Ends with `/v3/`.
    pub keystone: Url,
    /// The body of a request for a token. Holds a secret.
    pub login: Secret,
    /// `public`, `internal`, `admin`
    pub interface: String,
    pub region: Option<String>,
    /// Glance's address in place of the one that the catalog names.
    pub glance: Option<Url>,
    /// Of the certificates of the cloud something is set that is not heeded.
    pub is_unheeded: bool,
}

/// What the environment says.
pub trait Environment {
    fn set(&self, name: &str) -> Option<String>;
}

impl<F: Fn(&str) -> Option<String>> Environment for F {
    fn set(&self, name: &str) -> Option<String> {
        self(name).filter(|value| !value.is_empty())
    }
}

impl Cloud {
    pub fn of(environment: &impl Environment) -> Result<Self> {
        let values = match environment.set("OS_CLOUD") {
            Some(name) => {
                let mut values = named(&name, environment)?;
                // As the command line of OpenStack has them over the file's.
                for name in ["region_name", "interface"] {
                    values.extend(variable(name, environment));
                }
                values
            }
            None => {
                let all = NAMES.iter().filter_map(|name| variable(name, environment));
                all.collect()
            }
        };
        Values(values).cloud()
    }
}

fn variable(name: &str, environment: &impl Environment) -> Option<(String, String)> {
    let value = environment.set(&format!("OS_{}", name.to_ascii_uppercase()))?;
    Some((name.to_owned(), value))
}

/// A cloud of `clouds.yaml`, with what `secure.yaml` adds to it.
fn named(name: &str, environment: &impl Environment) -> Result<BTreeMap<String, String>> {
    let clouds = files("OS_CLIENT_CONFIG_FILE", "clouds.yaml", environment);
    let secure = files("OS_CLIENT_SECURE_FILE", "secure.yaml", environment);
    let missing = |fact: &str, found: String| {
        Error::new(Kind::Recipe, fact)
            .at(name)
            .found(found)
            .cure("mend OS_CLOUD, or OS_CLIENT_CONFIG_FILE, which names the file")
    };
    let Some(path) = clouds.iter().find(|path| path.exists()) else {
        let looked: Vec<_> = clouds.iter().map(|p| p.display().to_string()).collect();
        return Err(missing(
            "there is no clouds.yaml",
            format!("none of {}", looked.join(", ")),
        ));
    };
    let mut all = read(path)?;
    if let Some(secure) = secure.iter().find(|path| path.exists()) {
        merge(&mut all, read(secure)?);
    }
    let Some(entry) = all["clouds"].get(name) else {
        let known: Vec<_> = all["clouds"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(k, _)| k.as_str())
            .collect();
        let found = format!("{} has {}", path.display(), known.join(", "));
        return Err(missing(
            "clouds.yaml has no such cloud",
            unseen::line(&found),
        ));
    };
    if entry.get("profile").is_some_and(|p| !p.is_null()) && entry["auth"].get("auth_url").is_none()
    {
        return Err(Error::new(
            Kind::Recipe,
            "clouds.yaml names a cloud by a profile, which is not looked up",
        )
        .at(path.display())
        .cure("write the cloud's auth_url under its `auth`"));
    }
    let own = entry.as_object().into_iter().flatten();
    let auth = entry["auth"].as_object().into_iter().flatten();
    let plain = own.chain(auth).filter_map(|(name, value)| {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            _ => return None,
        };
        Some((name.clone(), text))
    });
    Ok(plain.collect())
}

/// Where a file of clouds may be. (openstacksdk: config files)
fn files(variable: &str, name: &str, environment: &impl Environment) -> Vec<PathBuf> {
    if let Some(path) = environment.set(variable) {
        return vec![path.into()];
    }
    let home = environment.set("HOME").map(PathBuf::from);
    let config = environment.set("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(home?.join(".config")));
    let mut all = vec![PathBuf::from(name)];
    all.extend(config.map(|folder| folder.join("openstack").join(name)));
    all.push(PathBuf::from("/etc/openstack").join(name));
    all
}

fn read(path: &PathBuf) -> Result<Value> {
    let text = fs::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
    serde_saphyr::from_str(&text).map_err(|e| {
        // Its own words show lines of the file, which holds passwords.
        let place = e
            .location()
            .map(|at| format!(":{}:{}", at.line(), at.column()));
        Error::new(Kind::Recipe, "this is not YAML")
            .cure("mend the file there")
            .at(format!("{}{}", path.display(), place.unwrap_or_default()))
    })
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

struct Values(BTreeMap<String, String>);

impl Values {
    fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    fn cloud(&self) -> Result<Cloud> {
        let Some(address) = self.get("auth_url") else {
            return Err(Error::new(Kind::Recipe, "no cloud is named").cure(
                "set OS_CLOUD to a cloud of clouds.yaml, or OS_AUTH_URL and the other variables of an openrc file",
            ));
        };
        let interface = self.get("interface").or_else(|| self.get("endpoint_type"));
        let interface = interface.unwrap_or("public").trim_end_matches("URL");
        let is_checked = !matches!(self.get("verify"), Some("false" | "False" | "no"));
        Ok(Cloud {
            keystone: keystone(address)?,
            login: Secret::new(json!({ "auth": self.auth()? }).to_string()),
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
    fn auth(&self) -> Result<Value> {
        let kind = self
            .get("auth_type")
            .map(|kind| kind.trim_start_matches("v3"));
        let has_credential = self.get("application_credential_secret").is_some();
        let is_token = self.get("token").is_some() && self.get("password").is_none();
        match kind {
            Some("applicationcredential") => self.application_credential(),
            Some("token") => self.token(),
            Some("password") => self.password(),
            None if has_credential => self.application_credential(),
            None if is_token => self.token(),
            None => self.password(),
            Some(other) => Err(Error::new(
                Kind::Recipe,
                "winimg does not log in to OpenStack in this way",
            )
            .expected("v3password, v3applicationcredential or v3token")
            .found(unseen::line(other))
            .cure(
                "make an application credential: openstack application credential create winimg",
            )),
        }
    }

    fn password(&self) -> Result<Value> {
        let mut user = self.user()?;
        user["password"] = self.needed("password")?.into();
        Ok(json!({
            "identity": { "methods": ["password"], "password": { "user": user } },
            "scope": { "project": self.project()? },
        }))
    }

    fn token(&self) -> Result<Value> {
        let mut auth = json!({ "identity": { "methods": ["token"], "token": { "id": self.needed("token")? } } });
        // Without one it has that of the token.
        if let Ok(project) = self.project() {
            auth["scope"] = json!({ "project": project });
        }
        Ok(auth)
    }

    fn application_credential(&self) -> Result<Value> {
        let secret = self.needed("application_credential_secret")?;
        let credential = match self.get("application_credential_id") {
            Some(id) => json!({ "id": id, "secret": secret }),
            None => json!({
                "name": self.needed("application_credential_name")?,
                "secret": secret,
                "user": self.user()?,
            }),
        };
        Ok(json!({ "identity": {
            "methods": ["application_credential"], "application_credential": credential,
        } }))
    }

    fn user(&self) -> Result<Value> {
        match self.get("user_id") {
            Some(id) => Ok(json!({ "id": id })),
            None => Ok(json!({ "name": self.needed("username")?, "domain": self.domain("user") })),
        }
    }

    fn project(&self) -> Result<Value> {
        if let Some(id) = self.get("project_id").or_else(|| self.get("tenant_id")) {
            return Ok(json!({ "id": id }));
        }
        let name = self.get("project_name").or_else(|| self.get("tenant_name"));
        match name {
            Some(name) => Ok(json!({ "name": name, "domain": self.domain("project") })),
            None => self.needed("project_name").map(Value::from),
        }
    }

    fn domain(&self, whose: &str) -> Value {
        let by = |what: &str| self.get(&format!("{whose}_domain_{what}"));
        match (by("id"), by("name"), self.get("default_domain")) {
            (Some(id), _, _) => json!({ "id": id }),
            (None, Some(name), _) => json!({ "name": name }),
            (None, None, Some(id)) => json!({ "id": id }),
            (None, None, None) => json!({ "id": "default" }),
        }
    }

    fn needed(&self, name: &str) -> Result<&str> {
        self.get(name).ok_or_else(|| {
            Error::new(Kind::Recipe, format!("the cloud has no {name}"))
                .at("OS_CLOUD or OS_AUTH_URL")
                .cure(format!(
                    "set OS_{}, or write {name} into clouds.yaml or secure.yaml",
                    name.to_ascii_uppercase()
                ))
        })
    }
}

/// Keystone's third version: over https, or of this machine.
fn keystone(text: &str) -> Result<Url> {
    let mut url = address_of(text)?;
    let path = url.path().trim_end_matches('/').to_owned();
    let path = match path.rsplit_once('/') {
        Some((before, "v3")) => before.to_owned(),
        Some((_, "v2.0")) => {
            return Err(
                Error::new(Kind::Recipe, "Keystone's second version is not spoken")
                    .at(redact(text))
                    .cure("set OS_AUTH_URL to the address of its third version: it ends with /v3"),
            );
        }
        _ => path,
    };
    url.set_path(&format!("{path}/v3/"));
    Ok(url)
}

fn address_of(text: &str) -> Result<Url> {
    let wrong = |fact: &str| {
        let error = Error::new(Kind::Recipe, format!("an address of the cloud {fact}"));
        error
            .at(redact(text))
            .expected("such as https://keystone.example.com:5000/v3")
    };
    let url = Url::parse(text).map_err(|e| wrong(&format!("is malformed: {e}")))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("holds a user").cure("set OS_USERNAME and OS_PASSWORD"));
    }
    let here = url.host().is_some_and(|host| is_here(&host));
    match (url.scheme(), here) {
        ("https", _) | ("http", true) => Ok(url),
        _ => Err(
            wrong("is not one of https: a password would be readable on its way").cure("use https"),
        ),
    }
}
