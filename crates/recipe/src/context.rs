//! State shared while lowering all tables: the sources, and the problems found so far.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::EffectiveValue;
use crate::document::sources::RecipeSources;
use crate::document::value::MissingVariable;
use crate::undecided::{self, MissingProof, UndecidedValue};
use crate::vars::VariableScope;
use winimg_base::diag::Diagnostic;
use winimg_base::digest::Digest;
use winimg_base::text::{Located, Place};

/// An error that was already reported; a key that is absent is not one.
#[derive(Debug)]
pub struct ReportedError;

/// State shared by the whole lowering.
pub struct LoweringContext<'a> {
    pub sources: &'a RecipeSources,
    pub scope: &'a VariableScope,
    /// Some files could not be read, so nothing is reported as missing.
    pub incomplete: bool,
    /// `policy = "signed"`: an unsigned component is an error, except these, with their reasons.
    pub unsigned: RefCell<Option<BTreeMap<String, Located<String>>>>,
    /// The components that steps name, skipped ones too.
    pub used: RefCell<BTreeSet<String>>,
    problems: RefCell<Vec<Diagnostic>>,
    defaults: RefCell<Vec<EffectiveValue>>,
    key_files: RefCell<Vec<(String, Digest)>>,
    /// Texts of scripts from files that messages must not quote.
    pub unquotable_scripts: RefCell<BTreeSet<String>>,
    undecided: RefCell<Vec<UndecidedValue>>,
}

impl<'a> LoweringContext<'a> {
    pub fn new(sources: &'a RecipeSources, scope: &'a VariableScope, incomplete: bool) -> Self {
        Self {
            sources,
            scope,
            incomplete,
            unsigned: RefCell::default(),
            used: RefCell::default(),
            problems: RefCell::default(),
            defaults: RefCell::default(),
            key_files: RefCell::default(),
            unquotable_scripts: RefCell::default(),
            undecided: RefCell::default(),
        }
    }

    pub fn report(&self, diagnostic: Diagnostic) {
        self.problems.borrow_mut().push(diagnostic);
    }

    pub fn error(&self, fact: impl Into<String>, place: &Place, label: &str, help: &str) {
        let diagnostic = Diagnostic::error(fact).at(place, label);
        self.report(match help {
            "" => diagnostic,
            help => diagnostic.help(help),
        });
    }

    pub fn has_problems(&self) -> bool {
        !self.problems.borrow().is_empty()
    }

    /// Reports something missing, unless some files could not be read.
    pub fn report_missing(&self, fact: impl Into<String>, place: &Place, help: &str) {
        if !self.incomplete {
            self.error(fact, place, "", help);
        }
    }

    /// Records a default that was used, for the list of effective values.
    pub fn default(&self, path: impl Into<String>, value: impl ToString) {
        self.defaults.borrow_mut().push(EffectiveValue {
            path: path.into(),
            value: value.to_string(),
            origin: "default".into(),
        });
    }

    /// Records a key file that was read, by its path as written: its content is part of the recipe.
    pub fn key_file(&self, path: &str, digest: Digest) {
        self.key_files.borrow_mut().push((path.into(), digest));
    }

    /// Returns the key files that were read, sorted and without duplicates.
    pub fn key_files(&self) -> Vec<(String, Digest)> {
        let mut files = self.key_files.borrow().clone();
        files.sort();
        files.dedup();
        files
    }

    /// Records an input that has no proof yet.
    pub fn record_missing_proof(&self, missing: &MissingProof) {
        let missing = UndecidedValue::Proof(missing.clone());
        self.undecided.borrow_mut().push(missing);
    }

    /// Records that a step or a clone check uses this variable, which has no value.
    pub fn record_undecided(&self, step: Option<&str>, variable: MissingVariable, place: &Place) {
        undecided::add(&mut self.undecided.borrow_mut(), variable, step, place);
    }

    /// Takes what the user must still decide.
    pub fn take_undecided(&self) -> Vec<UndecidedValue> {
        self.undecided.take()
    }

    /// Returns the problems, and the defaults that were used.
    pub fn into_parts(self) -> (Vec<Diagnostic>, Vec<EffectiveValue>) {
        (self.problems.into_inner(), self.defaults.into_inner())
    }
}
