//! Reads a cloud from `clouds.yaml` and `secure.yaml`. (openstacksdk: configuring OpenStack SDK
//! applications)
//!
//! Values are kept as text: `0123` in a password is not a number. Shows no value, which may be a
//! password.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::setting_names::{find_set, is_read};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::{display_text, io};

/// File extensions in order of precedence.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];
/// Names of the setting with the profile of a public cloud, the second one from earlier versions.
const PROFILES: [&str; 2] = ["profile", "cloud"];

/// Settings of one cloud from the files.
pub struct CloudSettings {
    pub path: PathBuf,
    pub values: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
struct CloudsFile {
    #[serde(default)]
    clouds: Option<BTreeMap<String, Option<FileCloud>>>,
}

/// Settings of a cloud or of one of its regions.
#[derive(Clone, Default)]
struct FileCloud {
    /// Settings outside of `auth`.
    plain: BTreeMap<String, String>,
    auth: BTreeMap<String, String>,
    regions: Vec<CloudRegion>,
}

#[derive(Clone)]
struct CloudRegion {
    name: String,
    values: FileCloud,
}

/// Reads the cloud `name`. `region`: the one in the environment.
pub fn read(
    name: &str,
    region: Option<&str>,
    environment: &impl Fn(&str) -> Option<String>,
) -> Result<CloudSettings> {
    let clouds = list_paths("OS_CLIENT_CONFIG_FILE", "clouds", environment);
    let secure = list_paths("OS_CLIENT_SECURE_FILE", "secure", environment);
    let Some(path) = clouds.iter().find(|path| path.exists()) else {
        let looked: Vec<_> = clouds.iter().map(|p| p.display().to_string()).collect();
        let found = format!("none of {}", looked.join(", "));
        return Err(missing(name, "there is no clouds.yaml", found));
    };
    let mut all = clouds_of(path)?;
    let Some(mut cloud) = all.remove(name) else {
        let known: Vec<_> = all.into_keys().collect();
        let found = format!("{} has {}", path.display(), known.join(", "));
        return Err(missing(
            name,
            "clouds.yaml has no such cloud",
            display_text::sanitize_line(&found),
        ));
    };
    if let Some(secure) = secure.iter().find(|path| path.exists())
        && let Some(more) = clouds_of(secure)?.remove(name)
    {
        cloud.take(more);
    }
    let values = cloud.in_region(region, path)?;
    let is_profile = PROFILES.iter().any(|name| values.contains_key(*name));
    if is_profile && !values.contains_key("auth_url") {
        return Err(Error::new(
            Kind::Recipe,
            "the cloud in clouds.yaml uses a profile, which is not supported",
        )
        .at(path.display())
        .cure("set auth_url under `auth` of the cloud"));
    }
    Ok(CloudSettings {
        path: path.clone(),
        values,
    })
}

fn missing(name: &str, fact: &str, found: String) -> Error {
    Error::new(Kind::Recipe, fact)
        .at(name)
        .found(found)
        .cure("correct OS_CLOUD, or OS_CLIENT_CONFIG_FILE, which names the file")
}

impl FileCloud {
    /// Merges the values of another file, which take precedence.
    fn take(&mut self, other: Self) {
        self.plain.extend(other.plain);
        self.auth.extend(other.auth);
        self.regions.extend(other.regions);
    }

    /// Merges all values into one map; those of the region take precedence.
    fn in_region(mut self, wanted: Option<&str>, path: &Path) -> Result<BTreeMap<String, String>> {
        // Earlier versions list several in one text.
        let listed = self
            .plain
            .get("region_name")
            .filter(|text| text.contains(','));
        if let Some(listed) = listed
            && self.regions.is_empty()
        {
            self.regions = listed
                .split(',')
                .map(|name| CloudRegion::new(name.trim()))
                .collect();
        }
        let regions = std::mem::take(&mut self.regions);
        let own = self.plain.get("region_name").map(String::as_str);
        let wanted = wanted.or(own.filter(|own| !own.contains(',')));
        let chosen = match wanted {
            _ if regions.is_empty() => None,
            None => regions.first(),
            Some(wanted) => {
                let found = regions.iter().find(|region| region.name == wanted);
                Some(found.ok_or_else(|| {
                    let known: Vec<_> = regions.iter().map(|r| r.name.as_str()).collect();
                    Error::new(Kind::Recipe, "clouds.yaml has no such region of the cloud")
                        .at(path.display())
                        .expected(display_text::sanitize_line(&format!(
                            "one of {}",
                            known.join(", ")
                        )))
                        .found(display_text::sanitize_line(wanted))
                        .cure("set OS_REGION_NAME to one of them")
                })?)
            }
        };
        if let Some(region) = chosen.cloned() {
            self.take(region.values);
            self.plain.insert("region_name".into(), region.name);
        }
        self.plain.extend(self.auth);
        Ok(self.plain)
    }
}

impl CloudRegion {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            values: FileCloud::default(),
        }
    }
}

/// Lists the possible paths of a file. (openstacksdk: config files)
fn list_paths(
    variable: &str,
    name: &str,
    environment: &impl Fn(&str) -> Option<String>,
) -> Vec<PathBuf> {
    if let Some(path) = find_set(environment, variable) {
        return vec![path.into()];
    }
    let home = find_set(environment, "HOME").map(PathBuf::from);
    let of_home = home.map(|home| home.join(".config"));
    let config = find_set(environment, "XDG_CONFIG_HOME").map(PathBuf::from);
    let mut folders = vec![PathBuf::new()];
    folders.extend(
        [config, of_home]
            .into_iter()
            .flatten()
            .map(|f| f.join("openstack")),
    );
    folders.extend(["/etc/xdg/openstack", "/etc/openstack"].map(PathBuf::from));
    folders.dedup();
    folders
        .iter()
        .flat_map(|folder| ENDINGS.map(|ending| folder.join(format!("{name}.{ending}"))))
        .collect()
}

fn clouds_of(path: &Path) -> Result<BTreeMap<String, FileCloud>> {
    let text = io::read_text_argument(path, io::limit::TEXT);
    let text = text.map_err(|e| Error::io("read", path, e))?;
    let clouds = parse(&text).map_err(|e| e.at(path.display()))?;
    Ok(clouds
        .into_iter()
        .map(|(name, cloud)| (name, cloud.unwrap_or_default()))
        .collect())
}

/// Parses the file; JSON is YAML, too.
fn parse(text: &str) -> Result<BTreeMap<String, Option<FileCloud>>> {
    let parsed: std::result::Result<Option<CloudsFile>, _> = serde_saphyr::from_str(text);
    let clouds = parsed.map_err(|e| {
        // The parser's message shows lines of the file, which contains passwords.
        let place = e
            .location()
            .map(|at| format!("line {}, column {}", at.line(), at.column()));
        Error::new(Kind::Recipe, "a clouds.yaml file cannot be parsed")
            .expected("YAML or JSON with the clouds by their names under `clouds`")
            .lines(place)
            .cure("fix the file there: quote texts with special characters")
    })?;
    Ok(clouds.and_then(|all| all.clouds).unwrap_or_default())
}

/// A value as text. `None`: null.
struct TextValue(Option<String>);

impl<'de> Deserialize<'de> for TextValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Option::<String>::deserialize(deserializer).map(Self)
    }
}

/// Normalizes a name; some are written with hyphens.
fn plain_name(name: &str) -> String {
    name.replace('-', "_")
}

impl<'de> Deserialize<'de> for FileCloud {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(CloudVisitor)
    }
}

struct CloudVisitor;

impl<'de> Visitor<'de> for CloudVisitor {
    type Value = FileCloud;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a cloud")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<FileCloud, A::Error> {
        let mut cloud = FileCloud::default();
        while let Some(name) = map.next_key::<String>()? {
            let name = plain_name(&name);
            match name.as_str() {
                "auth" => {
                    let auth: Option<BTreeMap<String, TextValue>> = map.next_value()?;
                    let auth = auth.unwrap_or_default().into_iter();
                    let values =
                        auth.filter_map(|(name, value)| Some((plain_name(&name), value.0?)));
                    cloud.auth.extend(values);
                }
                "regions" => {
                    let regions: Option<Vec<CloudRegion>> = map.next_value()?;
                    cloud.regions = regions.unwrap_or_default();
                }
                name if is_read(name) || PROFILES.contains(&name) => {
                    if let TextValue(Some(value)) = map.next_value()? {
                        cloud.plain.insert(name.to_owned(), value);
                    }
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(cloud)
    }
}

impl<'de> Deserialize<'de> for CloudRegion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(RegionVisitor)
    }
}

/// Accepts a name, or a name with values.
struct RegionVisitor;

impl<'de> Visitor<'de> for RegionVisitor {
    type Value = CloudRegion;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a region: its name, or `name` and `values`")
    }

    fn visit_str<E>(self, name: &str) -> std::result::Result<CloudRegion, E> {
        Ok(CloudRegion::new(name))
    }

    fn visit_u64<E>(self, name: u64) -> std::result::Result<CloudRegion, E> {
        Ok(CloudRegion::new(&name.to_string()))
    }

    fn visit_i64<E>(self, name: i64) -> std::result::Result<CloudRegion, E> {
        Ok(CloudRegion::new(&name.to_string()))
    }

    fn visit_map<A: MapAccess<'de>>(
        self,
        mut map: A,
    ) -> std::result::Result<CloudRegion, A::Error> {
        let (mut name, mut values) = (None, FileCloud::default());
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "name" => name = Some(map.next_value::<String>()?),
                "values" => values = map.next_value::<Option<FileCloud>>()?.unwrap_or_default(),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let name = name.ok_or_else(|| serde::de::Error::missing_field("name"))?;
        Ok(CloudRegion { name, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str, region: Option<&str>) -> Result<BTreeMap<String, String>> {
        let cloud = parse(text)?.remove("lab").flatten().unwrap();
        cloud.in_region(region, Path::new("clouds.yaml"))
    }

    fn value(auth: &str, name: &str) -> Option<String> {
        let text = format!("clouds:\n  lab:\n    auth:\n      {auth}\n");
        values(&text, None).unwrap().remove(name)
    }

    #[test]
    #[cfg(unix)]
    fn a_file_without_end_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let huge = folder.path().join("huge.yaml");
        std::fs::File::create(&huge)
            .unwrap()
            .set_len(3 << 30)
            .unwrap();
        let zero = PathBuf::from("/dev/zero");
        for (path, why) in [
            (huge, "larger than the limit of 4 MiB for this kind of file"),
            (zero, "not a regular file (a device)"),
        ] {
            let refused = clouds_of(&path).err().unwrap().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn a_value_stays_as_it_is_written() {
        for text in [
            "0123456789",
            "12345678901234567890123456789012",
            "00000000000000000000000000000007",
            "1e5",
            "0x1F",
            "1_000",
            "1.50",
            "yes",
            "true",
            "2026-01-01",
            ".inf",
            "p#w",
        ] {
            let found = value(&format!("password: {text}"), "password");
            assert_eq!(found.as_deref(), Some(text));
        }
        assert_eq!(
            value("password: '0123 # x'", "password").as_deref(),
            Some("0123 # x")
        );
        assert_eq!(value("password:", "password"), None);
        assert_eq!(
            value("auth-url: https://k/v3", "auth_url").as_deref(),
            Some("https://k/v3")
        );
    }

    #[test]
    fn what_stands_beside_auth_is_read_and_foreign_things_are_passed_over() {
        let text = "clouds:\n  other:\n  lab:\n    auth: {username: u}\n    region-name: one\n    networks:\n    - name: n\n\
                    \x20   identity_api_version: 3\n    verify: False\ncache:\n  auth: true\n";
        let found = values(text, None).unwrap();
        let shown: Vec<_> = found.iter().map(|(n, v)| format!("{n}={v}")).collect();
        assert_eq!(shown, ["region_name=one", "username=u", "verify=False"]);
        let json = r#"{"clouds": {"lab": {"auth": {"password": 12}, "verify": false}}}"#;
        assert_eq!(values(json, None).unwrap()["password"], "12");
    }

    #[test]
    fn a_region_has_values_of_its_own() {
        let text = "clouds:\n  lab:\n    auth: {username: u}\n    regions:\n    - one\n    - name: two\n      values:\n\
                    \x20       auth: {auth_url: https://two/v3}\n        interface: internal\n";
        let of = |region| {
            let found = values(text, region).unwrap();
            (found["region_name"].clone(), found.get("auth_url").cloned())
        };
        assert_eq!(of(None), ("one".into(), None));
        assert_eq!(
            of(Some("two")),
            ("two".into(), Some("https://two/v3".into()))
        );
        let error = values(text, Some("three")).unwrap_err().to_string();
        assert!(
            error.contains("expected: one of one, two\n  found: three"),
            "{error}"
        );
        // As earlier versions list them.
        let text = "clouds:\n  lab:\n    region_name: one, two\n";
        assert_eq!(values(text, None).unwrap()["region_name"], "one");
        assert_eq!(values(text, Some("two")).unwrap()["region_name"], "two");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_without_its_lines() {
        for text in [
            "clouds: [hunter2",
            "hunter2",
            "clouds:\n  lab:\n    auth:\n      password: [hunter2]\n",
        ] {
            let error = parse(text).map(drop).unwrap_err().to_string();
            assert!(
                error.starts_with("a clouds.yaml file cannot be parsed"),
                "{error}"
            );
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert!(parse("").unwrap().is_empty());
    }
}
