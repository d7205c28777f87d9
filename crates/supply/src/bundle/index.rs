//! `BUNDLE.toml`: the members of a bundle and the options for reading its recipe.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{BLOBS, FILES, LOCK};
use winimg_base::digest::{Algorithm, Digest};
use winimg_base::filename;

pub const SCHEMA: i64 = 1;

/// Maximum number of members.
const MAX_MEMBERS: usize = 50_000;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleIndex {
    pub schema: i64,
    /// Path of the recipe among the files.
    pub recipe: String,
    /// Search folders for includes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub search: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_builder_vars: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub var_files: Vec<String>,
    /// `--set`, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// Folders that may be empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<String>,
    /// From the environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<BundleVariable>,
    /// `--var`, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vars: Vec<BundleVariable>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<MovedFile>,
    /// Sorted by path.
    pub files: Vec<BundleFile>,
    /// Sorted by digest.
    #[serde(default)]
    pub blobs: Vec<BundleBlob>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleVariable {
    pub name: String,
    pub value: String,
}

/// File that the recipe refers to by a path outside the bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MovedFile {
    pub from: String,
    pub to: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleFile {
    pub path: String,
    pub size: u64,
    pub digest: Digest,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleBlob {
    pub size: u64,
    pub digest: Digest,
}

/// Expected content of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleMember<'a> {
    pub size: u64,
    pub digest: &'a Digest,
    /// Path of a file of the recipe; `None` for an input.
    pub path: Option<&'a str>,
}

impl BundleIndex {
    /// Parses the index. The error lists all problems.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        let table: toml::Table = toml::from_str(text).map_err(report_invalid)?;
        // Nothing else of another version can be read.
        match table.get("schema").and_then(toml::Value::as_integer) {
            Some(SCHEMA) => {}
            Some(other) => {
                return Err(vec![format!(
                    "schema {other} is not supported by this version, \
                     which reads schema {SCHEMA}"
                )]);
            }
            None => return Err(vec!["its index has no schema".into()]),
        }
        let index: Self = toml::from_str(text).map_err(report_invalid)?;
        let problems = index.find_problems();
        if problems.is_empty() {
            Ok(index)
        } else {
            Err(problems)
        }
    }

    /// Returns the names and expected contents of all members except the index.
    pub fn iter_members(&self) -> impl Iterator<Item = (String, BundleMember<'_>)> {
        let blobs = self.blobs.iter().map(|blob| {
            let member = BundleMember {
                size: blob.size,
                digest: &blob.digest,
                path: None,
            };
            (format!("{BLOBS}{}", blob.digest.hex()), member)
        });
        let files = self.files.iter().map(|file| {
            let member = BundleMember {
                size: file.size,
                digest: &file.digest,
                path: Some(file.path.as_str()),
            };
            (format!("{FILES}{}", file.path), member)
        });
        blobs.chain(files)
    }

    fn find_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.files.len() + self.blobs.len() > MAX_MEMBERS {
            return vec![format!("it has more than {MAX_MEMBERS} members")];
        }
        let mut seen = BTreeSet::new();
        for file in &self.files {
            if let Err(why) = check_relative(&file.path) {
                problems.push(format!("{:?} {why}", file.path));
            }
            // Names that differ only in case are equal on Windows.
            if !seen.insert(file.path.to_lowercase()) {
                problems.push(format!("{:?} is listed twice", file.path));
            }
        }
        let mut seen = BTreeSet::new();
        for blob in self.blobs.iter().filter(|b| !seen.insert(&b.digest)) {
            problems.push(format!("{} is listed twice", blob.digest));
        }
        let digests = self.iter_members().map(|(_, member)| member.digest);
        for digest in digests.filter(|d| d.algorithm != Algorithm::Sha256) {
            problems.push(format!("{digest} is not a SHA-256"));
        }
        let mut sizes = self.iter_members().map(|(_, member)| member.size);
        if sizes.try_fold(0, u64::checked_add).is_none() {
            problems.push("the total size of its members is too large".into());
        }
        let moved = self.moved.iter().map(|m| &m.to);
        let folders = self.search.iter().chain(&self.folders).chain(moved);
        for path in folders {
            if let Err(why) = check_relative(path) {
                problems.push(format!("{path:?} {why}"));
            }
        }
        let named = self.var_files.iter().chain(&self.image_builder_vars);
        let named = named
            .map(String::as_str)
            .chain([self.recipe.as_str(), LOCK]);
        for path in named.filter(|path| !self.files.iter().any(|f| f.path == **path)) {
            problems.push(format!("{path:?} is referenced but not among its files"));
        }
        problems
    }
}

fn report_invalid(error: toml::de::Error) -> Vec<String> {
    vec![format!("its index is not TOML: {}", error.message())]
}

/// Checks that a path is relative and stays inside its folder, on every system. The error continues
/// a sentence that begins with the path.
pub fn check_relative(path: &str) -> Result<(), String> {
    for segment in path.split('/') {
        match filename::find_fault(segment) {
            None => {}
            Some(filename::FilenameFault::Dots) => return Err("leads outside its folder".into()),
            Some(filename::FilenameFault::Empty) => return Err("is not a relative path".into()),
            Some(_) => return Err("is not a valid path on every system".into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_no_file_can_have_are_refused() {
        let blob = |digit: &str, size: u64| {
            let digest = digit.repeat(64);
            format!("[[blobs]]\nsize = {size}\ndigest = \"sha256:{digest}\"\n")
        };
        let recipe = |path: &str| {
            let digest = "0".repeat(64);
            format!("[[files]]\npath = \"{path}\"\nsize = 1\ndigest = \"sha256:{digest}\"\n")
        };
        let longest = i64::MAX as u64;
        let text = format!(
            "schema = 1\nrecipe = \"recipe.toml\"\n{}{}{}{}{}",
            recipe("recipe.toml"),
            recipe(LOCK),
            blob("1", longest),
            blob("2", longest),
            blob("3", longest),
        );
        let refused = BundleIndex::parse(&text).unwrap_err();
        assert_eq!(refused, ["the total size of its members is too large"]);
    }

    #[test]
    fn paths_stay_below() {
        for good in ["recipe/recipe.toml", "a", "recipe/files/x y.txt"] {
            assert_eq!(check_relative(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "/etc/passwd",
            "a//b",
            "../a",
            "a/../../b",
            "a/.",
            "C:/a",
            "a\\..\\b",
            "a/NUL",
            "a/b.",
            "a\0b",
        ] {
            assert!(check_relative(bad).is_err(), "{bad:?}");
        }
    }
}
