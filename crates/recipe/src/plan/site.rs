//! Where one step is built: the ops so far, the payload it shares with the other steps, and the complaints.

use std::path::Path;
use std::time::Duration;

use super::batch::{self, Script};
use super::{Entry, ExitRule, Op, Planned, Put, Run, Settle};
use crate::recipe::{Component, Encoding, ExitCodes, GuestPath, Recipe, Step};
use winimg_base::diag::{Diagnostic, Diagnostics};
use winimg_base::text::{Located, Place};

pub(super) const MINUTE: Duration = Duration::from_secs(60);
/// `sc.exe`, `reg.exe` and the like answer at once; this is for a guest that is very busy.
pub(super) const QUICK: Duration = Duration::from_secs(5 * 60);
const PUT: Duration = Duration::from_secs(20 * 60);

pub(super) struct Site<'a> {
    pub(super) recipe: &'a Recipe,
    pub(super) step: &'a Step,
    /// Counted from 1; names the step's script and files in the guest.
    pub(super) number: u32,
    pub(super) payload: &'a mut Vec<Entry>,
    pub(super) complaints: &'a mut Diagnostics,
    pub(super) ops: Vec<Op>,
    pub(super) entries: Vec<u32>,
    pub(super) expects: Vec<Planned>,
    pub(super) guest_log: Option<GuestPath>,
}

impl<'a> Site<'a> {
    pub(super) fn error(&mut self, place: &Place, message: impl Into<String>, label: &str) {
        let error = Diagnostic::error(self.named(message)).at(place, label);
        self.complaints.push(error);
    }

    pub(super) fn error_with_help(
        &mut self,
        place: &Place,
        message: impl Into<String>,
        label: &str,
        help: impl Into<String>,
    ) {
        let error = Diagnostic::error(self.named(message)).at(place, label);
        self.complaints.push(error.help(help));
    }

    pub(super) fn warning(
        &mut self,
        place: &Place,
        message: impl Into<String>,
        label: &str,
        help: impl Into<String>,
    ) {
        let warning = Diagnostic::warning(self.named(message)).at(place, label);
        self.complaints.push(warning.help(help));
    }

    fn named(&self, message: impl Into<String>) -> String {
        format!("step `{}`: {}", self.step.name, message.into())
    }

    /// The step's `timeout`, or what the verb has.
    pub(super) fn timeout(&self, own: Duration) -> Duration {
        self.step.timeout.unwrap_or(own)
    }

    /// The step's `timeout` where it is longer than `least`.
    pub(super) fn timeout_of_at_least(&self, least: Duration) -> Duration {
        self.step.timeout.map_or(least, |own| own.max(least))
    }

    /// A wait until Windows is at rest.
    pub(super) fn settle(&mut self) {
        let settle = Settle::asked_for(self.recipe, self.step.timeout);
        self.ops.push(Op::Settle(settle));
    }

    /// A path quoted for batch text.
    pub(super) fn quoted_path(&mut self, path: &Located<GuestPath>) -> Option<String> {
        self.quoted(path.value.as_str(), &path.place)
    }

    /// A value quoted for batch text; what cannot be is complained about at `place`.
    pub(super) fn quoted(&mut self, text: &str, place: &Place) -> Option<String> {
        self.judged(batch::quoted(text), place)
    }

    pub(super) fn judged<T>(&mut self, result: Result<T, String>, place: &Place) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(why) => {
                self.error(place, why, "");
                None
            }
        }
    }

    /// A component that the step names: a step that names none of the recipe's is not planned.
    pub(super) fn component(&self, name: &Located<String>) -> Option<&'a Component> {
        let mut components = self.recipe.components.iter();
        components.find(|c| c.name.value == name.value)
    }

    /// The entry's index on the payload disc; equal entries are there once.
    pub(super) fn entry(&mut self, entry: Entry) -> u32 {
        let index = match self.payload.iter().position(|e| *e == entry) {
            Some(index) => index,
            None => {
                self.payload.push(entry);
                self.payload.len() - 1
            }
        };
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        if let Err(at) = self.entries.binary_search(&index) {
            self.entries.insert(at, index);
        }
        index
    }

    /// A text file on the disc and the batch text's name for it.
    pub(super) fn text_entry(&mut self, file: &str, text: String, encoding: Encoding) -> String {
        let entry = self.entry(Entry::Text {
            file: file.to_owned(),
            text,
            encoding,
        });
        on_disc(entry, file)
    }

    /// `C:\winimg\steps\007.cmd`
    pub(super) fn file(&self, extension: &str) -> String {
        format!(r"C:\winimg\steps\{:03}.{extension}", self.number)
    }

    /// `C:\winimg\steps\007`: where the step's own files go.
    pub(super) fn folder(&self) -> GuestPath {
        GuestPath::known(r"C:\winimg\steps").join(&format!("{:03}", self.number))
    }

    /// Puts a script of the step's on the disc and runs it.
    pub(super) fn put(&mut self, script: Script) {
        self.put_judged(script, ExitRule::Zero, PUT);
    }

    /// As `put`, for a script whose exit code says more.
    pub(super) fn put_judged(&mut self, script: Script, exit: ExitRule, own_timeout: Duration) {
        let timeout = self.timeout(own_timeout);
        let earlier = self.ops.iter().filter(|op| matches!(op, Op::Put(_)));
        let part = u32::try_from(earlier.count()).unwrap_or(u32::MAX);
        self.ops.push(Op::Put(Put {
            script: self.number,
            part,
            text: script.finish(),
            exit,
            timeout,
        }));
    }

    pub(super) fn run(
        &mut self,
        program: &str,
        arguments: Vec<String>,
        exit: ExitRule,
        own_timeout: Duration,
    ) {
        let timeout = self.timeout(own_timeout);
        self.ops.push(Op::Run(Run {
            program: program.to_owned(),
            arguments,
            exit,
            timeout,
        }));
    }

    pub(super) fn expect(&mut self, expectation: Planned) {
        self.expects.push(expectation);
    }
}

/// An entry's file in batch text, quoted. `%~d0` is the disc's drive, as the script runs from it.
/// `name` must be fit for batch text; `""` names the entry's folder.
pub(super) fn on_disc(entry: u32, name: &str) -> String {
    let slash = if name.is_empty() { "" } else { "\\" };
    format!("\"%~d0\\p\\{entry:04}{slash}{name}\"")
}

/// The recipe's lists where it gives them, the verb's rule otherwise.
pub(super) fn exit_rule(codes: &ExitCodes, own: ExitRule, reboot: &[i64]) -> ExitRule {
    match codes {
        ExitCodes {
            ok: None,
            reboot: None,
        } => own,
        given => ExitRule::Listed {
            ok: given.ok.clone().unwrap_or_else(|| vec![0]),
            reboot: given.reboot.clone().unwrap_or_else(|| reboot.to_vec()),
        },
    }
}

/// The last part of a host path, where there is one that can be shown as text.
pub(super) fn host_name(path: &Path) -> Option<&str> {
    path.file_name().and_then(|name| name.to_str())
}
