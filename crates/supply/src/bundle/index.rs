//! `BUNDLE.toml`: what is in a bundle, and how its recipe is read.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{BLOBS, FILES, LOCK};
use winimg_base::digest::{Algorithm, Digest};
use winimg_base::filename;

pub const SCHEMA: i64 = 1;

/// Members at most.
const MOST: usize = 50_000;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    pub schema: i64,
    /// Of the recipe, among the files.
    pub recipe: String,
    /// Folders in which includes are looked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub search: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_builder_vars: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub var_files: Vec<String>,
    /// `--set`, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// Folders that may have no file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<String>,
    /// From the environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<Variable>,
    /// `--var`, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vars: Vec<Variable>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<Moved>,
    /// Sorted by path.
    pub files: Vec<File>,
    /// Sorted by digest.
    #[serde(default)]
    pub blobs: Vec<Blob>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    pub name: String,
    pub value: String,
}

/// A file that the recipe looks for where it is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moved {
    pub from: String,
    pub to: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub path: String,
    pub size: u64,
    pub digest: Digest,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blob {
    pub size: u64,
    pub digest: Digest,
}

/// What has to stand under a member's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    pub size: u64,
    pub digest: &'a Digest,
    /// Of one of the recipe's files; `None`: an input.
    pub path: Option<&'a str>,
}

impl Index {
    /// Reads it; the error is what is wrong, in sentences.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        let broken = |e: toml::de::Error| vec![format!("its index is not TOML: {}", e.message())];
        let table: toml::Table = toml::from_str(text).map_err(broken)?;
        // Of another version nothing else can be read.
        match table.get("schema").and_then(toml::Value::as_integer) {
            Some(SCHEMA) => {}
            Some(other) => {
                return Err(vec![format!(
                    "schema {other} is not known to this version, which reads schema {SCHEMA}"
                )]);
            }
            None => return Err(vec!["its index does not say its schema".into()]),
        }
        let index: Self = toml::from_str(text).map_err(broken)?;
        let problems = index.problems();
        match problems.is_empty() {
            true => Ok(index),
            false => Err(problems),
        }
    }

    /// The member's name and what has to stand under it.
    pub fn members(&self) -> impl Iterator<Item = (String, Member<'_>)> {
        let member = |size, digest, path| Member { size, digest, path };
        let blobs = self.blobs.iter();
        let blobs = blobs.map(move |b| {
            let name = format!("{BLOBS}{}", b.digest.hex());
            (name, member(b.size, &b.digest, None))
        });
        let files = self.files.iter();
        blobs.chain(files.map(move |f| {
            let name = format!("{FILES}{}", f.path);
            (name, member(f.size, &f.digest, Some(f.path.as_str())))
        }))
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.files.len() + self.blobs.len() > MOST {
            return vec![format!("it has more than {MOST} members")];
        }
        let mut seen = BTreeSet::new();
        for file in &self.files {
            if let Err(why) = relative(&file.path) {
                problems.push(format!("{:?} {why}", file.path));
            }
            // Two names that differ in case are one on Windows.
            if !seen.insert(file.path.to_lowercase()) {
                problems.push(format!("{:?} is there twice", file.path));
            }
        }
        let mut seen = BTreeSet::new();
        for blob in self.blobs.iter().filter(|b| !seen.insert(&b.digest)) {
            problems.push(format!("{} is there twice", blob.digest));
        }
        let digests = self.members().map(|(_, member)| member.digest);
        for digest in digests.filter(|d| d.algorithm != Algorithm::Sha256) {
            problems.push(format!("{digest} is no SHA-256"));
        }
        let mut sizes = self.members().map(|(_, member)| member.size);
        if sizes.try_fold(0, u64::checked_add).is_none() {
            problems.push("its members are longer than any file can be".into());
        }
        let moved = self.moved.iter().map(|m| &m.to);
        let folders = self.search.iter().chain(&self.folders).chain(moved);
        for path in folders {
            if let Err(why) = relative(path) {
                problems.push(format!("{path:?} {why}"));
            }
        }
        let named = self.var_files.iter().chain(&self.image_builder_vars);
        let named = named
            .map(String::as_str)
            .chain([self.recipe.as_str(), LOCK]);
        for path in named.filter(|path| !self.files.iter().any(|f| f.path == **path)) {
            problems.push(format!("{path:?} is named, and is not among its files"));
        }
        problems
    }
}

/// Whether a path stays below where it starts, on every system; the error fits after the path.
pub fn relative(path: &str) -> Result<(), String> {
    for segment in path.split('/') {
        match filename::fault(segment) {
            None => {}
            Some(filename::Fault::Dots) => return Err("leads elsewhere".into()),
            Some(filename::Fault::Empty) => return Err("is not a relative path".into()),
            Some(_) => return Err("cannot be a path on every system".into()),
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
        let refused = Index::parse(&text).unwrap_err();
        assert_eq!(refused, ["its members are longer than any file can be"]);
    }

    #[test]
    fn paths_stay_below() {
        for good in ["recipe/recipe.toml", "a", "recipe/files/x y.txt"] {
            assert_eq!(relative(good), Ok(()), "{good}");
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
            assert!(relative(bad).is_err(), "{bad:?}");
        }
    }
}
