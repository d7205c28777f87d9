//! Compares the folder sizes of two trees.
//!
//! Pure. A folder whose change is mostly that of a single folder inside of it is omitted in favour
//! of that one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::UsageFolder;

/// Changes below 1/SHARE of the total change are omitted.
const SHARE: u64 = 50;
/// Smaller changes are omitted, in bytes.
const LEAST: u64 = 1 << 20;
/// Maximum number of changes.
const MAX_CHANGES: usize = 12;

/// A folder whose size changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FolderChange {
    /// `\Windows\System32`; the root is `\`.
    pub path: String,
    /// Bytes; absent if the folder does not exist or is too small to be listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// Bytes; absent if the folder does not exist or is too small to be listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

impl FolderChange {
    /// Difference in bytes; an absent size counts as 0.
    pub fn difference(&self) -> i128 {
        i128::from(self.after.unwrap_or(0)) - i128::from(self.before.unwrap_or(0))
    }
}

/// Returns the folders that changed most, the largest change first.
pub fn compare_folders(before: &UsageFolder, after: &UsageFolder) -> Vec<FolderChange> {
    let mut found = Vec::new();
    compare("", Some(before), Some(after), &mut found);
    let all: u64 = before.bytes.abs_diff(after.bytes);
    let least = u128::from((all / SHARE).max(LEAST));
    found.retain(|change| change.difference().unsigned_abs() >= least);
    found.sort_by_key(|change| std::cmp::Reverse(change.difference().unsigned_abs()));
    found.truncate(MAX_CHANGES);
    found
}

fn compare(
    path: &str,
    before: Option<&UsageFolder>,
    after: Option<&UsageFolder>,
    found: &mut Vec<FolderChange>,
) {
    let own = FolderChange {
        path: match path {
            "" => "\\".into(),
            path => path.to_owned(),
        },
        before: before.map(|folder| folder.bytes),
        after: after.map(|folder| folder.bytes),
    };
    let mut pairs: Vec<(&str, Option<&UsageFolder>, Option<&UsageFolder>)> = Vec::new();
    for folder in subfolders(after) {
        let earlier = subfolders(before).iter().find(|f| f.name == folder.name);
        pairs.push((&folder.name, earlier, Some(folder)));
    }
    for folder in subfolders(before) {
        if subfolders(after).iter().all(|f| f.name != folder.name) {
            pairs.push((&folder.name, Some(folder), None));
        }
    }
    let mut explained = false;
    for (name, one, other) in pairs {
        let part = size(other).abs_diff(size(one));
        explained |= u128::from(part) * 10 >= own.difference().unsigned_abs() * 9;
        compare(&format!("{path}\\{name}"), one, other, found);
    }
    if !explained {
        found.push(own);
    }
}

fn size(folder: Option<&UsageFolder>) -> u64 {
    folder.map_or(0, |folder| folder.bytes)
}

fn subfolders(folder: Option<&UsageFolder>) -> &[UsageFolder] {
    folder.map_or(&[], |folder| &folder.folders)
}
