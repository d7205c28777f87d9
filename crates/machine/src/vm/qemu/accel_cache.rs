//! Caches the canary's result until the host restarts. The canary takes a second or two, which is
//! long for a build with little to do.
//!
//! A good result is valid while its inputs do not change and machines start with it. A bad one is
//! valid for an hour, because the host may only have been overloaded. A file that cannot be read or
//! written is ignored.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::accel_choice::AccelChoice;
use crate::vm::Accel;
use winimg_base::io::write_atomically;
use winimg_recipe::Firmware;

/// File name in the store.
const FILE: &str = "accelerator.json";
/// Lifetime of a bad result, in seconds.
const DOUBT: i64 = 3600;

#[derive(Clone, Debug, Default)]
pub struct AccelCache {
    file: Option<PathBuf>,
}

/// Inputs of the choice of an accelerator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccelQuery {
    /// Boot id from [`read_boot_id`].
    pub host: String,
    pub accel: Accel,
    pub firmware: Firmware,
    pub program: PathBuf,
    pub version: String,
    pub kvm_obstacle: Option<String>,
    #[serde(default)]
    pub is_amd: bool,
}

#[derive(Serialize, Deserialize)]
struct CachedVerdict {
    question: AccelQuery,
    /// Seconds since 1970.
    asked: i64,
    choice: AccelChoice,
}

impl AccelCache {
    pub fn kept_in(folder: &Path) -> Self {
        Self {
            file: Some(folder.join(FILE)),
        }
    }

    /// `now` is in seconds since 1970.
    pub fn find(&self, question: &AccelQuery, now: i64) -> Option<AccelChoice> {
        let mut all = self.read().into_iter();
        let found = all.find(|v| v.question == *question)?;
        let age = now - found.asked;
        let is_good = found.choice.remarks.is_empty() || (0..DOUBT).contains(&age);
        is_good.then_some(found.choice)
    }

    /// Replaces an earlier answer, and removes those from before the last restart.
    pub fn keep(&self, question: &AccelQuery, choice: &AccelChoice, now: i64) {
        let mut verdicts = self.read();
        verdicts.retain(|v| v.question != *question && v.question.host == question.host);
        verdicts.push(CachedVerdict {
            question: question.clone(),
            asked: now,
            choice: choice.clone(),
        });
        self.write(&verdicts);
    }

    /// Removes an answer after a machine failed to start with it: the next build runs the canary
    /// again.
    pub fn forget(&self, question: &AccelQuery) {
        let mut verdicts = self.read();
        let before = verdicts.len();
        verdicts.retain(|v| v.question != *question);
        if verdicts.len() < before {
            self.write(&verdicts);
        }
    }

    fn write(&self, verdicts: &[CachedVerdict]) {
        if let (Some(file), Ok(text)) = (&self.file, serde_json::to_vec_pretty(verdicts)) {
            let _ = write_atomically(file, &text);
        }
    }

    fn read(&self) -> Vec<CachedVerdict> {
        let text = self.file.as_ref().and_then(|f| std::fs::read(f).ok());
        text.and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default()
    }
}

/// Returns the host's boot id (Linux: proc(5), random/boot_id). With `None` nothing is cached.
pub fn read_boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_string()).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::args::Acceleration;
    use super::*;

    fn choice(accel: &str, remarks: &[&str]) -> AccelChoice {
        AccelChoice {
            how: Acceleration {
                accel: accel.into(),
                cpu: "max".into(),
            },
            remarks: remarks.iter().map(|r| r.to_string()).collect(),
            slowness: 1,
        }
    }

    fn question(host: &str, firmware: Firmware) -> AccelQuery {
        AccelQuery {
            host: host.into(),
            accel: Accel::Auto,
            firmware,
            program: "/usr/bin/qemu-system-x86_64".into(),
            version: "7.2.22".into(),
            kvm_obstacle: None,
            is_amd: false,
        }
    }

    #[test]
    fn good_news_lasts_until_the_host_restarts_and_bad_news_an_hour() {
        let folder = tempfile::tempdir().unwrap();
        let verdicts = AccelCache::kept_in(folder.path());
        let accel = |question: &AccelQuery, now| verdicts.find(question, now).map(|c| c.how.accel);
        let uefi = question("boot-1", Firmware::Uefi);
        let bios = question("boot-1", Firmware::Bios);
        let restarted = question("boot-2", Firmware::Uefi);
        verdicts.keep(&uefi, &choice("kvm", &[]), 1000);
        verdicts.keep(&bios, &choice("tcg", &["KVM crawls"]), 1000);
        assert_eq!(accel(&uefi, 900_000).as_deref(), Some("kvm"));
        assert_eq!(accel(&bios, 4599).as_deref(), Some("tcg"));
        assert_eq!(accel(&bios, 4600), None);
        // A clock that was set back proves nothing about age.
        assert_eq!(accel(&bios, 999), None);
        assert_eq!(accel(&restarted, 1001), None);
        verdicts.forget(&bios);
        assert_eq!(accel(&bios, 1001), None);
        assert_eq!(accel(&uefi, 1001).as_deref(), Some("kvm"));
        verdicts.keep(&restarted, &choice("kvm", &[]), 1001);
        assert_eq!(accel(&uefi, 1001), None);
    }

    /// A truncated file, and one of an earlier version.
    #[test]
    fn a_file_that_cannot_be_read_is_as_good_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let verdicts = AccelCache::kept_in(folder.path());
        let asked = question("boot-1", Firmware::Uefi);
        for text in [
            "[{\"question\":",
            "[{\"question\":\"boot-1 Auto Uefi\",\"asked\":0}]",
        ] {
            std::fs::write(folder.path().join(FILE), text).unwrap();
            assert_eq!(verdicts.find(&asked, 0), None);
        }
        verdicts.keep(&asked, &choice("kvm", &[]), 0);
        assert!(verdicts.find(&asked, 0).is_some());
    }
}
