//! Which folders of one tree have another size in another.
//!
//! Pure. A folder is named where it changed most by itself: one whose change is that of a single folder in it is left out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Folder;

/// Of all that changed, what a folder has to have part in.
const SHARE: u64 = 50;
/// A change of fewer bytes is not worth a line.
const LEAST: u64 = 1 << 20;
/// The most lines.
const MOST: usize = 12;

/// A folder whose size is another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// `\Windows\System32`; the root is `\`.
    pub path: String,
    /// Bytes; absent: the folder is not there, or too small to be listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// Bytes; absent: the folder is not there, or too small to be listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

impl Change {
    /// Bytes, as far as they are known.
    pub fn difference(&self) -> i128 {
        i128::from(self.after.unwrap_or(0)) - i128::from(self.before.unwrap_or(0))
    }
}

/// The folders that changed most, the largest change first.
pub fn changes(before: &Folder, after: &Folder) -> Vec<Change> {
    let mut found = Vec::new();
    compare("", Some(before), Some(after), &mut found);
    let all: u64 = before.bytes.abs_diff(after.bytes);
    let least = u128::from((all / SHARE).max(LEAST));
    found.retain(|change| change.difference().unsigned_abs() >= least);
    found.sort_by_key(|change| std::cmp::Reverse(change.difference().unsigned_abs()));
    found.truncate(MOST);
    found
}

fn compare(path: &str, before: Option<&Folder>, after: Option<&Folder>, found: &mut Vec<Change>) {
    let bytes = |folder: Option<&Folder>| folder.map(|folder| folder.bytes);
    let own = Change {
        path: match path {
            "" => "\\".into(),
            path => path.to_owned(),
        },
        before: bytes(before),
        after: bytes(after),
    };
    let mut pairs: Vec<(&str, Option<&Folder>, Option<&Folder>)> = Vec::new();
    for folder in inner(after) {
        let earlier = inner(before).iter().find(|f| f.name == folder.name);
        pairs.push((&folder.name, earlier, Some(folder)));
    }
    for folder in inner(before) {
        if inner(after).iter().all(|f| f.name != folder.name) {
            pairs.push((&folder.name, Some(folder), None));
        }
    }
    let mut explained = false;
    for (name, one, other) in pairs {
        let part = bytes(other).unwrap_or(0).abs_diff(bytes(one).unwrap_or(0));
        explained |= u128::from(part) * 10 >= own.difference().unsigned_abs() * 9;
        compare(&format!("{path}\\{name}"), one, other, found);
    }
    if !explained {
        found.push(own);
    }
}

fn inner(folder: Option<&Folder>) -> &[Folder] {
    folder.map_or(&[], |folder| &folder.folders)
}
