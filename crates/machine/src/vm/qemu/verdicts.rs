//! What the canary said, kept until the host restarts: it costs a second or two, and a build that has little to do is not
//! much longer.
//!
//! That an accelerator works is believed as long as nothing about the question changes and machines come up with it. That it
//! does not, only for an hour: a host that was overloaded must not emulate for ever. A file that can't be read or written is
//! as good as none.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::choice::Choice;
use crate::vm::Accel;
use winimg_base::io::write_atomically;
use winimg_recipe::recipe::Firmware;

/// The name in the store.
const FILE: &str = "accelerator.json";
/// Seconds.
const DOUBT: i64 = 3600;

#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    file: Option<PathBuf>,
}

/// Everything that an accelerator's choice depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// [`host`]
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
struct Verdict {
    question: Question,
    /// Seconds since 1970.
    asked: i64,
    choice: Choice,
}

impl Verdicts {
    pub fn kept_in(folder: &Path) -> Self {
        Self {
            file: Some(folder.join(FILE)),
        }
    }

    /// `now` is in seconds since 1970.
    pub fn find(&self, question: &Question, now: i64) -> Option<Choice> {
        let mut all = self.read().into_iter();
        let found = all.find(|v| v.question == *question)?;
        let age = now - found.asked;
        let is_good = found.choice.remarks.is_empty() || (0..DOUBT).contains(&age);
        is_good.then_some(found.choice)
    }

    /// In place of an earlier answer. What was asked before the last restart goes.
    pub fn keep(&self, question: &Question, choice: &Choice, now: i64) {
        let mut verdicts = self.read();
        verdicts.retain(|v| v.question != *question && v.question.host == question.host);
        verdicts.push(Verdict {
            question: question.clone(),
            asked: now,
            choice: choice.clone(),
        });
        self.write(&verdicts);
    }

    /// A machine that ran by this answer did not come up: the next build asks again.
    pub fn forget(&self, question: &Question) {
        let mut verdicts = self.read();
        let before = verdicts.len();
        verdicts.retain(|v| v.question != *question);
        if verdicts.len() < before {
            self.write(&verdicts);
        }
    }

    fn write(&self, verdicts: &[Verdict]) {
        if let (Some(file), Ok(text)) = (&self.file, serde_json::to_vec_pretty(verdicts)) {
            let _ = write_atomically(file, &text);
        }
    }

    fn read(&self) -> Vec<Verdict> {
        let text = self.file.as_ref().and_then(|f| std::fs::read(f).ok());
        text.and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default()
    }
}

/// The host as it is since its last start (Linux: proc(5), random/boot_id). `None`: nothing can be remembered.
pub fn host() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_string()).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::args::Acceleration;
    use super::*;

    fn choice(accel: &str, remarks: &[&str]) -> Choice {
        Choice {
            how: Acceleration {
                accel: accel.into(),
                cpu: "max".into(),
            },
            remarks: remarks.iter().map(|r| r.to_string()).collect(),
            slowness: 1,
        }
    }

    fn question(host: &str, firmware: Firmware) -> Question {
        Question {
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
        let verdicts = Verdicts::kept_in(folder.path());
        let accel = |question: &Question, now| verdicts.find(question, now).map(|c| c.how.accel);
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

    /// Torn, and of an earlier winimg.
    #[test]
    fn a_file_that_cannot_be_read_is_as_good_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let verdicts = Verdicts::kept_in(folder.path());
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
