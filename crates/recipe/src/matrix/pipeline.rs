//! `[pipeline]`: settings for building the variants in CI.
//!
//! Pure. Contains names of secrets, never their values. Refuses characters that an engine might
//! interpret, such as `$` in a label.

use std::time::Duration;

use url::Url;

use crate::document::value::{TomlData, TomlEntry, TomlTable};
use crate::fields::TableReader;
use crate::keys;
use crate::keys::names::is_environment_variable;
use crate::vars::template::{self, TemplatePart};
use winimg_base::text::{Located, Place};

/// Environment variable with the key that signs uploaded layers.
pub const SIGN_KEY: &str = "WINIMG_CACHE_SIGN_KEY";

/// The only variable in a template of an address.
const VARIANT: &str = "variant";

/// The `[pipeline]` table.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// Place of the table, for reporting settings that an engine requires.
    pub place: Place,
    /// The container image that jobs run in.
    pub image: Option<String>,
    /// Labels of GitHub and GitLab runners.
    pub labels: Vec<String>,
    /// Queue of Buildkite agents.
    pub queue: Option<String>,
    pub branch: String,
    /// Additional arguments of every `winimg build`.
    pub arguments: Vec<String>,
    /// Minimum timeout of an attempt.
    pub timeout: Duration,
    pub retries: u32,
    /// Names of environment variables.
    pub secrets: Vec<String>,
    pub cache: PipelineCache,
    /// Storage for finished images before their approval.
    pub store: Option<AddressTemplate>,
    pub publish: Option<PipelinePublish>,
    pub kubernetes: KubernetesSettings,
}

/// `[pipeline.cache]`
#[derive(Clone, Debug)]
pub struct PipelineCache {
    pub remote: String,
    /// Never empty.
    pub keys: Vec<String>,
}

/// `[pipeline.publish]`
#[derive(Clone, Debug)]
pub struct PipelinePublish {
    pub to: AddressTemplate,
    /// Names of environment variables.
    pub secrets: Vec<String>,
    pub environment: String,
}

/// `[pipeline.kubernetes]`
#[derive(Clone, Debug)]
pub struct KubernetesSettings {
    pub workdir: String,
    pub secret: String,
    pub kvm: String,
    /// In bytes.
    pub storage: u64,
    pub node_selector: Vec<(String, String)>,
}

/// Template of an address per variant.
#[derive(Clone, Debug)]
pub struct AddressTemplate {
    pub place: Place,
    parts: Vec<TemplatePart>,
}

impl AddressTemplate {
    pub fn render(&self, variant: &str) -> String {
        self.parts
            .iter()
            .map(|part| match part {
                TemplatePart::Text(text) => text.as_str(),
                TemplatePart::Name(_) => variant,
            })
            .collect()
    }
}

pub fn read(fields: &TableReader<'_>) -> Option<Pipeline> {
    let cache = fields.read_table("cache").and_then(|own| read_cache(&own));
    let publish = fields.read_table("publish").map(|own| publish(&own));
    let path = "matrix.pipeline.kubernetes";
    let (empty, what) = (TomlTable::default(), keys::find_table(path).title());
    let kubernetes = if fields.has("kubernetes") {
        fields.read_table("kubernetes")
    } else {
        Some(TableReader::from_table(
            fields.cx,
            &empty,
            path,
            what,
            &fields.place,
        ))
    };
    let kubernetes = kubernetes.and_then(|own| kubernetes_of(&own));
    let secrets = read_secrets(fields);
    let (labels, queue, image) = (
        read_words(fields, "labels", is_label),
        read_word(fields, "queue", is_label),
        read_word(fields, "image", is_image),
    );
    let (branch, timeout) = (read_word(fields, "branch", is_branch), read_timeout(fields));
    let (retries, store) = (fields.read_integer("retries"), read_target(fields, "store"));
    if !secrets.iter().any(|name| name == SIGN_KEY) {
        let fact = format!("`secrets` has no `{SIGN_KEY}`");
        let help = "it is the minisign secret key for uploaded layers: machines only accept signed \
                    layers";
        let place = fields.get("secrets").map_or(&fields.place, |v| &v.place);
        fields.cx.error(fact, place, "", help);
    }
    Some(Pipeline {
        place: fields.place.clone(),
        image,
        labels,
        queue,
        branch: branch?,
        arguments: fields.read_texts("arguments"),
        timeout: timeout?,
        retries: u32::try_from(retries?.value).ok()?,
        secrets,
        cache: cache?,
        store,
        publish: match publish {
            Some(publish) => Some(publish?),
            None => None,
        },
        kubernetes: kubernetes?,
    })
}

fn read_cache(fields: &TableReader<'_>) -> Option<PipelineCache> {
    let remote = fields.read_string("remote").filter(|text| {
        let is_oci = Url::parse(&text.value).is_ok_and(|url| {
            ["oci", "oci+http"].contains(&url.scheme()) && url.username().is_empty()
        });
        let is_valid = is_oci && text.value.chars().all(is_of_address);
        if !is_valid {
            let fact = "`remote` is not an OCI repository";
            let help = "use a URL without a user name, such as \
                        \"oci://registry.example.com/team/winimg-cache\"";
            fields.cx.error(fact, &text.place, "", help);
        }
        is_valid
    });
    let keys = fields.read_texts("keys");
    let remote = remote?.value;
    Some(PipelineCache { remote, keys })
}

fn publish(fields: &TableReader<'_>) -> Option<PipelinePublish> {
    let secrets = read_secrets(fields);
    let environment = read_word(fields, "environment", is_label);
    Some(PipelinePublish {
        to: read_target(fields, "to")?,
        secrets,
        environment: environment?,
    })
}

fn kubernetes_of(fields: &TableReader<'_>) -> Option<KubernetesSettings> {
    let selector = fields
        .map("node_selector")
        .iter()
        .filter_map(|entry| read_selector(fields, entry))
        .collect();
    let (secret, kvm, storage) = (
        read_word(fields, "secret", is_object),
        read_word(fields, "kvm", is_resource),
        fields.size("storage"),
    );
    Some(KubernetesSettings {
        workdir: read_word(fields, "workdir", is_folder)?,
        secret: secret?,
        kvm: kvm?,
        storage: storage?.value,
        node_selector: selector,
    })
}

/// Reads a label of a node (Kubernetes: Labels and Selectors, syntax and character set).
fn read_selector(fields: &TableReader<'_>, entry: &TomlEntry) -> Option<(String, String)> {
    let (text, place) = match &entry.value.data {
        TomlData::String(text) => (text, &entry.value.place),
        TomlData::Unknown => return None,
        _ => {
            let fact = format!(
                "a node's label is a string, not {}",
                entry.value.kind_name()
            );
            let help = "put it in quotes";
            fields.cx.error(fact, &entry.value.place, "", help);
            return None;
        }
    };
    // "a" replaces a missing prefix; it is always valid.
    let (prefix, name) = entry.key.rsplit_once('/').unwrap_or(("a", &entry.key));
    let (fact, place) = if !is_object(prefix) || !is_label_value(name) {
        let fact = format!("\"{}\" is not a valid label name", entry.key);
        (fact, &entry.key_place)
    } else if !text.is_empty() && !is_label_value(text) {
        (format!("\"{text}\" is not a valid label value"), place)
    } else {
        return Some((entry.key.clone(), text.clone()));
    };
    let help = "use at most 63 letters, digits, `-`, `_` and `.`, a letter or digit first and \
                last; a name may have a prefix `example.com/`";
    fields.cx.error(fact, place, "", help);
    None
}

fn read_timeout(fields: &TableReader<'_>) -> Option<Duration> {
    let time = fields.read_duration("timeout")?;
    let seconds = time.value.as_secs();
    if seconds == 0 || seconds % 60 != 0 {
        let fact = "`timeout` is not a number of whole minutes";
        fields
            .cx
            .error(fact, &time.place, "", "such as \"8h\" or \"90m\"");
        return None;
    }
    Some(time.value)
}

/// Reads the names of the table's `secrets`, without duplicates.
fn read_secrets(fields: &TableReader<'_>) -> Vec<String> {
    let names = read_words(fields, "secrets", is_environment_variable);
    let mut known: Vec<String> = Vec::new();
    for name in names {
        if known.contains(&name) {
            let place = fields.get("secrets").map_or(&fields.place, |v| &v.place);
            let fact = format!("`secrets` has {name} twice");
            fields.cx.error(fact, place, "", "");
        } else {
            known.push(name);
        }
    }
    known
}

fn read_target(fields: &TableReader<'_>, key: &str) -> Option<AddressTemplate> {
    let text = fields.read_string(key)?;
    match address_parts(key, &text.value) {
        Ok(parts) => Some(AddressTemplate {
            place: text.place,
            parts,
        }),
        Err((fact, help)) => {
            fields.cx.error(fact, &text.place, "", help);
            None
        }
    }
}

/// Parses the template of an address. The error is a fact and its help.
fn address_parts(key: &str, text: &str) -> Result<Vec<TemplatePart>, (String, &'static str)> {
    let parts = template::parse(text).map_err(|fact| (fact, ""))?;
    let other = parts.iter().find_map(|part| match part {
        TemplatePart::Name(name) if name != VARIANT => Some(name),
        _ => None,
    });
    if let Some(name) = other {
        let fact = format!("unknown variable `{name}`");
        return Err((fact, "only `{{variant}}` is available here"));
    }
    if !parts.contains(&TemplatePart::Name(VARIANT.into())) {
        let fact = format!("`{key}` has no `{{{{variant}}}}`");
        let help = "without it variants would overwrite each other; use for example \
                    \"s3://images/{{variant}}\"";
        return Err((fact, help));
    }
    let is_plain = parts.iter().all(|part| match part {
        TemplatePart::Text(text) => text.chars().all(is_of_address),
        TemplatePart::Name(_) => true,
    });
    if !is_plain {
        let fact = format!("`{key}` is not an address");
        return Err((fact, "use letters, digits and `-._~:/@%+=,`"));
    }
    Ok(parts)
}

/// Returns true if a word is allowed.
type WordCheck = fn(&str) -> bool;

fn read_word(fields: &TableReader<'_>, key: &str, is_allowed: WordCheck) -> Option<String> {
    let text = fields.read_string(key)?;
    fits(fields, key, &text, is_allowed).then_some(text.value)
}

fn read_words(fields: &TableReader<'_>, key: &str, is_allowed: WordCheck) -> Vec<String> {
    fields
        .read_strings(key)
        .into_iter()
        .filter(|text| fits(fields, key, text, is_allowed))
        .map(|text| text.value)
        .collect()
}

fn fits(
    fields: &TableReader<'_>,
    key: &str,
    text: &Located<String>,
    is_allowed: WordCheck,
) -> bool {
    let is_valid = is_allowed(&text.value);
    if !is_valid {
        let (fact, help) = match key {
            // The text may be the secret itself, so it is not shown.
            "secrets" => (
                "`secrets` takes names of environment variables".into(),
                "use capitals, digits and `_`, such as `WINIMG_CACHE_SIGN_KEY`; the CI system \
                 stores the values",
            ),
            _ => (
                format!("`{key}` cannot be \"{}\"", text.value),
                fields.help(key),
            ),
        };
        fields.cx.error(fact, &text.place, "", help);
    }
    is_valid
}

fn is_of_address(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~:/@%+=,".contains(c)
}

fn has_only(text: &str, more: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || more.contains(c))
}

fn is_image(text: &str) -> bool {
    has_only(text, "-._:/@")
}

fn is_label(text: &str) -> bool {
    has_only(text, "-._:/")
}

fn is_branch(text: &str) -> bool {
    has_only(text, "-._/")
}

fn is_folder(text: &str) -> bool {
    text.strip_prefix('/')
        .is_some_and(|rest| has_only(rest, "-._/"))
}

/// Returns true for a name of an object (Kubernetes: Object Names and IDs, DNS subdomain names).
fn is_object(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_label)
}

fn is_dns_label(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn is_resource(text: &str) -> bool {
    let parts = text.split_once('/');
    parts.is_some_and(|(domain, name)| is_object(domain) && is_label_value(name))
}

fn is_label_value(text: &str) -> bool {
    text.len() <= 63 && has_only(text, "-._") && text.ends_with(|c: char| c.is_ascii_alphanumeric())
}
