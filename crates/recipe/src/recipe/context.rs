//! What the lowering of all tables shares: where things stand, and what was found until now.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use super::Effective;
use super::sources::Sources;
use super::undecided::{self, MissingProof, Undecided};
use super::value::Wanting;
use super::vars::Scope;
use winimg_base::diag::Diagnostic;
use winimg_base::digest::Digest;
use winimg_base::text::{Located, Place};

/// What the whole lowering shares.
pub struct Context<'a> {
    pub sources: &'a Sources,
    pub scope: &'a Scope,
    /// Not all files could be read: what is missing may be there, so nothing is called missing.
    pub incomplete: bool,
    /// `policy = "signed"`: a component without a signature is complained about, but for these, with the reasons.
    pub unsigned: RefCell<Option<BTreeMap<String, Located<String>>>>,
    /// What is read is a step that is skipped: its local files may be missing.
    pub is_skipped: Cell<bool>,
    /// The components that steps name, skipped ones too.
    pub used: RefCell<BTreeSet<String>>,
    problems: RefCell<Vec<Diagnostic>>,
    defaults: RefCell<Vec<Effective>>,
    key_files: RefCell<Vec<(String, Digest)>>,
    /// Texts of scripts from files that may not be quoted.
    pub unquotable_scripts: RefCell<BTreeSet<String>>,
    undecided: RefCell<Vec<Undecided>>,
}

impl<'a> Context<'a> {
    pub fn new(sources: &'a Sources, scope: &'a Scope, incomplete: bool) -> Self {
        Self {
            sources,
            scope,
            incomplete,
            unsigned: RefCell::default(),
            is_skipped: Cell::new(false),
            used: RefCell::default(),
            problems: RefCell::default(),
            defaults: RefCell::default(),
            key_files: RefCell::default(),
            unquotable_scripts: RefCell::default(),
            undecided: RefCell::default(),
        }
    }

    pub fn problem(&self, diagnostic: Diagnostic) {
        self.problems.borrow_mut().push(diagnostic);
    }

    pub fn error(&self, fact: impl Into<String>, place: &Place, label: &str, help: &str) {
        let diagnostic = Diagnostic::error(fact).at(place, label);
        self.problem(match help {
            "" => diagnostic,
            help => diagnostic.help(help),
        });
    }

    pub fn has_problems(&self) -> bool {
        !self.problems.borrow().is_empty()
    }

    /// A complaint about something that is not there; held back while files are unreadable.
    pub fn missing(&self, fact: impl Into<String>, place: &Place, help: &str) {
        if !self.incomplete {
            self.error(fact, place, "", help);
        }
    }

    /// A value nobody gave, for the list of effective values.
    pub fn default(&self, path: impl Into<String>, value: impl ToString) {
        self.defaults.borrow_mut().push(Effective {
            path: path.into(),
            value: value.to_string(),
            origin: "default".into(),
        });
    }

    /// A key file that was read, by its path as it is written: its content is a part of the recipe.
    pub fn key_file(&self, path: &str, digest: Digest) {
        self.key_files.borrow_mut().push((path.into(), digest));
    }

    /// The key files that were read, in an order that does not depend on that of the text.
    pub fn key_files(&self) -> Vec<(String, Digest)> {
        let mut files = self.key_files.borrow().clone();
        files.sort();
        files.dedup();
        files
    }

    /// Nothing proves this input yet.
    pub fn unproved(&self, missing: &MissingProof) {
        let missing = Undecided::Proof(missing.clone());
        self.undecided.borrow_mut().push(missing);
    }

    /// A step, or a clone check, names this variable, which has no value.
    pub fn undecided(&self, step: Option<&str>, variable: Wanting, place: &Place) {
        undecided::add(&mut self.undecided.borrow_mut(), variable, step, place);
    }

    pub fn all_undecided(&self) -> Vec<Undecided> {
        self.undecided.borrow().clone()
    }

    /// The complaints, the defaults that were taken, and what a person must still decide.
    pub fn into_parts(self) -> (Vec<Diagnostic>, Vec<Effective>, Vec<Undecided>) {
        (
            self.problems.into_inner(),
            self.defaults.into_inner(),
            self.undecided.into_inner(),
        )
    }
}
