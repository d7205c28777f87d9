//! The state of compiling one step: its ops so far, the shared payload, and the diagnostics.

use std::path::Path;
use std::time::Duration;

use super::batch::{self, BatchScript};
use super::{
    Encoding, ExitRule, PayloadEntry, PayloadScript, PlannedCheck, PlannedOp, ProgramRun,
    SettleWait,
};
use crate::{ComponentSpec, GuestPath, Recipe, RecipeStep};
use winimg_base::diag::{Diagnostic, Diagnostics};
use winimg_base::text::{Located, Place};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
/// Limit for `sc.exe`, `reg.exe` and similar programs, which are fast unless the guest is very
/// busy.
pub(crate) const QUICK: Duration = Duration::from_secs(5 * 60);
const PUT: Duration = Duration::from_secs(20 * 60);

pub(crate) struct StepCompiler<'a> {
    pub(crate) recipe: &'a Recipe,
    pub(crate) step: &'a RecipeStep,
    /// Counted from 1; names the step's script and files in the guest.
    pub(crate) number: u32,
    pub(crate) payload: &'a mut Vec<PayloadEntry>,
    pub(crate) complaints: &'a mut Diagnostics,
    pub(crate) ops: Vec<PlannedOp>,
    pub(crate) entries: Vec<u32>,
    pub(crate) expects: Vec<PlannedCheck>,
    pub(crate) guest_log: Option<GuestPath>,
}

impl<'a> StepCompiler<'a> {
    pub(crate) fn error(&mut self, place: &Place, message: impl Into<String>, label: &str) {
        let error = Diagnostic::error(self.prefix_step(message)).at(place, label);
        self.complaints.push(error);
    }

    pub(crate) fn error_with_help(
        &mut self,
        place: &Place,
        message: impl Into<String>,
        label: &str,
        help: impl Into<String>,
    ) {
        let error = Diagnostic::error(self.prefix_step(message)).at(place, label);
        self.complaints.push(error.help(help));
    }

    pub(crate) fn warn(
        &mut self,
        place: &Place,
        message: impl Into<String>,
        label: &str,
        help: impl Into<String>,
    ) {
        let warning = Diagnostic::warning(self.prefix_step(message)).at(place, label);
        self.complaints.push(warning.help(help));
    }

    fn prefix_step(&self, message: impl Into<String>) -> String {
        format!("step `{}`: {}", self.step.name, message.into())
    }

    /// Returns the step's `timeout`, or the verb's default.
    pub(crate) fn timeout_or(&self, own: Duration) -> Duration {
        self.step.timeout.unwrap_or(own)
    }

    /// Returns the step's `timeout`, or `least` if that is longer.
    pub(crate) fn timeout_of_at_least(&self, least: Duration) -> Duration {
        self.step.timeout.map_or(least, |own| own.max(least))
    }

    /// Adds a wait until Windows is idle.
    pub(crate) fn add_settle(&mut self) {
        let settle = SettleWait::asked_for(self.recipe, self.step.timeout);
        self.ops.push(PlannedOp::Settle(settle));
    }

    /// Quotes a path for batch text.
    pub(crate) fn quoted_path(&mut self, path: &Located<GuestPath>) -> Option<String> {
        self.quote(path.value.as_str(), &path.place)
    }

    /// Quotes a value for batch text, or reports an error at `place`.
    pub(crate) fn quote(&mut self, text: &str, place: &Place) -> Option<String> {
        self.report_error(batch::quote(text), place)
    }

    pub(crate) fn report_error<T>(
        &mut self,
        result: Result<T, String>,
        place: &Place,
    ) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(why) => {
                self.error(place, why, "");
                None
            }
        }
    }

    /// Finds a component of the recipe. Steps that name an unknown component are not planned.
    pub(crate) fn find_component(&self, name: &Located<String>) -> Option<&'a ComponentSpec> {
        let mut components = self.recipe.components.iter();
        components.find(|c| c.name.value == name.value)
    }

    /// Adds an entry to the payload disc, unless it is already there, and returns its index.
    pub(crate) fn add_entry(&mut self, entry: PayloadEntry) -> u32 {
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

    /// Adds a text file to the disc and returns its quoted path for batch text.
    pub(crate) fn text_entry(&mut self, file: &str, text: String, encoding: Encoding) -> String {
        let entry = self.add_entry(PayloadEntry::Text {
            file: file.to_owned(),
            text,
            encoding,
        });
        on_disc(entry, file)
    }

    /// `C:\winimg\steps\007.cmd`
    pub(crate) fn step_file(&self, extension: &str) -> String {
        format!(r"C:\winimg\steps\{:03}.{extension}", self.number)
    }

    /// Returns the folder of the step's own files: `C:\winimg\steps\007`.
    pub(crate) fn step_folder(&self) -> GuestPath {
        GuestPath::from_static(r"C:\winimg\steps").join(&format!("{:03}", self.number))
    }

    /// Adds a script to the disc and runs it.
    pub(crate) fn put(&mut self, script: BatchScript) {
        self.put_judged(script, ExitRule::Zero, PUT);
    }

    /// Like `put`, with an exit rule and a timeout.
    pub(crate) fn put_judged(
        &mut self,
        script: BatchScript,
        exit: ExitRule,
        own_timeout: Duration,
    ) {
        let timeout = self.timeout_or(own_timeout);
        let earlier = self.ops.iter().filter(|op| matches!(op, PlannedOp::Put(_)));
        let part = u32::try_from(earlier.count()).unwrap_or(u32::MAX);
        self.ops.push(PlannedOp::Put(PayloadScript {
            script: self.number,
            part,
            text: script.finish(),
            exit,
            timeout,
        }));
    }

    pub(crate) fn run(
        &mut self,
        program: &str,
        arguments: Vec<String>,
        exit: ExitRule,
        own_timeout: Duration,
    ) {
        let timeout = self.timeout_or(own_timeout);
        self.ops.push(PlannedOp::Run(ProgramRun {
            program: program.to_owned(),
            arguments,
            exit,
            timeout,
        }));
    }

    pub(crate) fn expect(&mut self, expectation: PlannedCheck) {
        self.expects.push(expectation);
    }
}

/// Returns the quoted path of an entry's file for batch text. `%~d0` is the disc's drive, as the
/// script runs from it. `name` must be escaped for batch text; `""` names the entry's folder.
pub(crate) fn on_disc(entry: u32, name: &str) -> String {
    let slash = if name.is_empty() { "" } else { "\\" };
    format!("\"%~d0\\p\\{entry:04}{slash}{name}\"")
}

/// Returns the last part of a host path, if it is Unicode.
pub(crate) fn host_name(path: &Path) -> Option<&str> {
    path.file_name().and_then(|name| name.to_str())
}
