//! `[pipeline]`: the settings with which a cluster builds the variants.
//!
//! Pure. Holds names of secrets and never their values. Every word that an engine might take for more than a word, such as `$` in a
//! label, is refused here.

use std::time::Duration;

use url::Url;

use crate::recipe::fields::Fields;
use crate::recipe::keys;
use crate::recipe::template::{self, Part};
use crate::recipe::value::{Data, Entry, Table};
use crate::recipe::words::is_environment_variable;
use winimg_base::text::{Located, Place};

/// With it a job signs the layers that it uploads.
pub const SIGN_KEY: &str = "WINIMG_CACHE_SIGN_KEY";

/// The one name of an address' template.
const VARIANT: &str = "variant";

/// The table.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// Of the table: where what an engine misses is said.
    pub place: Place,
    /// The container image that jobs run in.
    pub image: Option<String>,
    /// Of GitHub's and GitLab's runners.
    pub labels: Vec<String>,
    /// Of Buildkite's agents.
    pub queue: Option<String>,
    pub branch: String,
    /// What every `winimg build` is given besides.
    pub arguments: Vec<String>,
    /// Of one attempt, not less.
    pub timeout: Duration,
    pub retries: u32,
    /// Environment variables.
    pub secrets: Vec<String>,
    pub cache: SharedCache,
    /// Where finished images are put before they are approved.
    pub store: Option<Target>,
    pub publish: Option<Publish>,
    pub kubernetes: Kubernetes,
}

/// `[pipeline.cache]`
#[derive(Clone, Debug)]
pub struct SharedCache {
    pub remote: String,
    /// Never empty.
    pub keys: Vec<String>,
}

/// `[pipeline.publish]`
#[derive(Clone, Debug)]
pub struct Publish {
    pub to: Target,
    /// Environment variables.
    pub secrets: Vec<String>,
    pub environment: String,
}

/// `[pipeline.kubernetes]`
#[derive(Clone, Debug)]
pub struct Kubernetes {
    pub workdir: String,
    pub secret: String,
    pub kvm: String,
    /// Bytes.
    pub storage: u64,
    pub node_selector: Vec<(String, String)>,
}

/// An address for each variant.
#[derive(Clone, Debug)]
pub struct Target {
    pub place: Place,
    parts: Vec<Part>,
}

impl Target {
    pub fn of(&self, variant: &str) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Name(_) => variant.to_owned(),
        };
        self.parts.iter().map(part).collect()
    }
}

pub fn read(fields: &Fields<'_>) -> Option<Pipeline> {
    let cache = fields.table("cache").and_then(|own| cache(&own));
    let publish = fields.table("publish").map(|own| publish(&own));
    let pods = "matrix.pipeline.kubernetes";
    let (empty, what) = (Table::default(), keys::of(pods).title());
    let kubernetes = match fields.has("kubernetes") {
        true => fields.table("kubernetes"),
        false => Some(Fields::of(fields.cx, &empty, pods, what, &fields.place)),
    };
    let kubernetes = kubernetes.and_then(|own| kubernetes_of(&own));
    let secrets = variables(fields);
    let (labels, queue, image) = (
        words(fields, "labels", is_label),
        word(fields, "queue", is_label),
        word(fields, "image", is_image),
    );
    let (branch, timeout) = (word(fields, "branch", is_branch), timeout(fields));
    let (retries, store) = (fields.integer("retries"), target(fields, "store"));
    if !secrets.iter().any(|name| name == SIGN_KEY) {
        let fact = format!("`secrets` has no `{SIGN_KEY}`");
        let help = "it is the minisign secret key that signs uploaded layers: machines take no others from each other";
        let place = fields.get("secrets").map_or(&fields.place, |v| &v.place);
        fields.cx.error(fact, place, "", help);
    }
    Some(Pipeline {
        place: fields.place.clone(),
        image,
        labels,
        queue,
        branch: branch?,
        arguments: fields.texts("arguments"),
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

fn cache(fields: &Fields<'_>) -> Option<SharedCache> {
    let remote = fields.string("remote").filter(|text| {
        let url = Url::parse(&text.value).ok();
        let is_oci = |url: &Url| ["oci", "oci+http"].contains(&url.scheme());
        let is_right = url.is_some_and(|url| is_oci(&url) && url.username().is_empty());
        let is_right = is_right && text.value.chars().all(is_of_address);
        if !is_right {
            let fact = "`remote` is no repository of a registry";
            let help = "such as \"oci://registry.example.com/team/winimg-cache\", without a user";
            fields.cx.error(fact, &text.place, "", help);
        }
        is_right
    });
    let keys = fields.texts("keys");
    let remote = remote?.value;
    Some(SharedCache { remote, keys })
}

fn publish(fields: &Fields<'_>) -> Option<Publish> {
    let secrets = variables(fields);
    let environment = word(fields, "environment", is_label);
    Some(Publish {
        to: target(fields, "to")?,
        secrets,
        environment: environment?,
    })
}

fn kubernetes_of(fields: &Fields<'_>) -> Option<Kubernetes> {
    let selector = fields.map("node_selector").iter();
    let selector = selector
        .filter_map(|entry| selected(fields, entry))
        .collect();
    let (secret, kvm, storage) = (
        word(fields, "secret", is_object),
        word(fields, "kvm", is_resource),
        fields.size("storage"),
    );
    Some(Kubernetes {
        workdir: word(fields, "workdir", is_folder)?,
        secret: secret?,
        kvm: kvm?,
        storage: storage?.value,
        node_selector: selector,
    })
}

/// A node's label, as Kubernetes takes it (Kubernetes: Labels and Selectors, syntax and character set).
fn selected(fields: &Fields<'_>, entry: &Entry) -> Option<(String, String)> {
    let (text, place) = match &entry.value.data {
        Data::String(text) => (text, &entry.value.place),
        Data::Unknown => return None,
        _ => {
            let fact = format!("a node's label is a string, not {}", entry.value.kind());
            let help = "put it in quotes";
            fields.cx.error(fact, &entry.value.place, "", help);
            return None;
        }
    };
    let (prefix, name) = entry.key.rsplit_once('/').unwrap_or(("a", &entry.key));
    let complain = |fact: String, place: &Place| {
        let help = "letters, digits, `-`, `_` and `.`, at most 63, a letter or digit first and last; before a name `example.com/`";
        fields.cx.error(fact, place, "", help);
        None
    };
    if !is_object(prefix) || !is_label_value(name) {
        let fact = format!("a node has no label \"{}\"", entry.key);
        return complain(fact, &entry.key_place);
    }
    if !text.is_empty() && !is_label_value(text) {
        let fact = format!("no label of a node is \"{text}\"");
        return complain(fact, place);
    }
    Some((entry.key.clone(), text.clone()))
}

fn timeout(fields: &Fields<'_>) -> Option<Duration> {
    let time = fields.duration("timeout")?;
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

/// The names of the table's `secrets`, each there once.
fn variables(fields: &Fields<'_>) -> Vec<String> {
    let names = words(fields, "secrets", is_environment_variable);
    let mut known: Vec<String> = Vec::new();
    for name in names {
        match known.contains(&name) {
            true => {
                let place = fields.get("secrets").map_or(&fields.place, |v| &v.place);
                let fact = format!("`secrets` has {name} twice");
                fields.cx.error(fact, place, "", "");
            }
            false => known.push(name),
        }
    }
    known
}

fn target(fields: &Fields<'_>, key: &str) -> Option<Target> {
    let text = fields.string(key)?;
    let complain = |fact: String, help: &str| {
        fields.cx.error(fact, &text.place, "", help);
        None
    };
    let parts = match template::parse(&text.value) {
        Ok(parts) => parts,
        Err(fact) => return complain(fact, ""),
    };
    let named = |part: &Part| matches!(part, Part::Name(name) if name == VARIANT);
    let other = parts.iter().find_map(|part| match part {
        Part::Name(name) if name != VARIANT => Some(name),
        _ => None,
    });
    if let Some(name) = other {
        let help = "`{{variant}}` is all that an address is made with";
        return complain(format!("there is no `{name}` here"), help);
    }
    if !parts.iter().any(named) {
        let help =
            "otherwise one variant would replace the other: such as \"s3://images/{{variant}}\"";
        return complain(format!("`{key}` has no `{{{{variant}}}}`"), help);
    }
    let plain = |part: &Part| match part {
        Part::Text(text) => text.chars().all(is_of_address),
        Part::Name(_) => true,
    };
    if !parts.iter().all(plain) {
        let help = "letters, digits and `-._~:/@%+=,` stand in it";
        return complain(format!("`{key}` is no address"), help);
    }
    Some(Target {
        place: text.place,
        parts,
    })
}

/// What a word has to look like.
type Form = fn(&str) -> bool;

fn word(fields: &Fields<'_>, key: &str, form: Form) -> Option<String> {
    let text = fields.string(key)?;
    fits(fields, key, &text, form).then_some(text.value)
}

fn words(fields: &Fields<'_>, key: &str, form: Form) -> Vec<String> {
    let all = fields.strings(key).into_iter();
    let all = all.filter(|text| fits(fields, key, text, form));
    all.map(|text| text.value).collect()
}

fn fits(fields: &Fields<'_>, key: &str, text: &Located<String>, form: Form) -> bool {
    let is_right = form(&text.value);
    if !is_right {
        let (fact, help) = match key {
            // What was written instead may be the secret itself.
            "secrets" => (
                "`secrets` takes names of environment variables".into(),
                "capitals, digits and `_`, as in `WINIMG_CACHE_SIGN_KEY`; the engine keeps the values",
            ),
            _ => (
                format!("`{key}` cannot be \"{}\"", text.value),
                fields.help(key),
            ),
        };
        fields.cx.error(fact, &text.place, "", help);
    }
    is_right
}

fn is_of_address(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~:/@%+=,".contains(c)
}

fn has_only(text: &str, more: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(fits)
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

/// The name of an object (Kubernetes: Object Names and IDs, DNS subdomain names).
fn is_object(text: &str) -> bool {
    let is_part = |part: &str| {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let ends_well = part.starts_with(fits) && part.ends_with(fits);
        ends_well && part.chars().all(|c| fits(c) || c == '-')
    };
    text.len() <= 253 && text.split('.').all(is_part)
}

fn is_resource(text: &str) -> bool {
    let parts = text.split_once('/');
    parts.is_some_and(|(domain, name)| is_object(domain) && is_label_value(name))
}

fn is_label_value(text: &str) -> bool {
    text.len() <= 63 && has_only(text, "-._") && text.ends_with(|c: char| c.is_ascii_alphanumeric())
}
