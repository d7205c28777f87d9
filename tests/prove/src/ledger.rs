//! `docs/fidelity.toml`, parsed once. Pure but for nothing: what files exist, the tests ask.

use std::collections::BTreeSet;

use serde::Deserialize;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    #[serde(rename = "section")]
    pub sections: Vec<Section>,
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
    /// Media that are known to be Microsoft's.
    #[serde(rename = "medium", default)]
    pub media: Vec<Medium>,
    /// Runs of `make prove` on Windows; none yet is an empty list.
    #[serde(rename = "run", default)]
    pub runs: Vec<Run>,
}

/// One table of the page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    pub id: String,
    /// The heads of its two or three columns.
    pub columns: Vec<String>,
    /// Whether its lines are about Windows and wait for a run; otherwise the third column, if any, holds remarks.
    pub to_prove: bool,
}

/// One line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Stable: docs, messages and runs name it. It is the anchor `fidelity.md#ID` as well.
    pub id: String,
    /// The section's id.
    #[serde(rename = "in")]
    pub section: String,
    /// One sentence without a full stop.
    pub claim: String,
    /// What shows it here; or `not_shown`.
    pub shown: Option<String>,
    /// Nothing shows it here; why not, where that is worth a word.
    pub not_shown: Option<String>,
    /// Files of the tests that show it.
    #[serde(default)]
    pub tests: Vec<String>,
    /// What is left open until a run, or what to do where it does not hold.
    pub note: Option<String>,
    /// Whose word it is.
    pub source: Option<String>,
    /// Instead of being proved: what is to be known, where no run of Windows has to show the claim.
    pub remark: Option<String>,
    /// The probe whose answer on Windows decides it; without one a person has to.
    pub probe: Option<String>,
    /// Files of `recipes/targets` with a fact that is `unproven`, `mem` or `inferred` and is this claim.
    #[serde(default)]
    pub facts: Vec<String>,
}

/// A medium whose digest is known to be that of one of Microsoft's. Only a run from such a one counts: a signature of Microsoft's covers single
/// files of a medium, never the Windows in its WIM.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Medium {
    /// Lower-case hex.
    pub sha256: String,
    /// For people: release and file name.
    pub name: String,
    /// Whose word the digest is.
    pub source: String,
}

/// One run on Windows, written by `prove enter`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Build and revision: `20348.587`.
    pub build: String,
    /// The day, UTC: `2026-12-01`.
    pub date: String,
    /// Where its proof lies: a file of this tree or an address.
    pub record: String,
    pub proved: Vec<String>,
    #[serde(default)]
    pub refuted: Vec<String>,
}

/// What runs say of a claim.
pub struct Standing<'a> {
    pub proved: Vec<&'a Run>,
    pub refuted: Vec<&'a Run>,
}

impl Ledger {
    /// # Errors
    /// What is no TOML of this form, with its line.
    pub fn read(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// What is known of a medium with this digest.
    pub fn medium(&self, sha256: &str) -> Option<&Medium> {
        self.media.iter().find(|medium| medium.sha256 == sha256)
    }

    pub fn section(&self, id: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.id == id)
    }

    /// The lines of one table, in the file's order.
    pub fn lines(&self, section: &str) -> impl Iterator<Item = &Claim> {
        self.claims
            .iter()
            .filter(move |claim| claim.section == section)
    }

    pub fn standing(&self, id: &str) -> Standing<'_> {
        let having = |names: fn(&Run) -> &Vec<String>| {
            let runs = self.runs.iter();
            runs.filter(|run| names(run).iter().any(|name| name == id))
                .collect()
        };
        Standing {
            proved: having(|run| &run.proved),
            refuted: having(|run| &run.refuted),
        }
    }

    /// Everything that the form alone does not forbid; nothing where all is well.
    pub fn complaints(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        let ids = self.sections.iter().map(|section| &section.id);
        for id in ids.chain(self.claims.iter().map(|claim| &claim.id)) {
            let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if id.is_empty() || !id.chars().all(is_word) {
                found.push(format!("{id}: an id is lower-case letters, digits and -"));
            }
            if !seen.insert(id) {
                found.push(format!("{id}: is there twice"));
            }
        }
        for section in &self.sections {
            let columns = section.columns.len();
            if columns != 3 && (columns != 2 || section.to_prove) {
                found.push(format!("{}: has {columns} columns", section.id));
            }
        }
        for claim in &self.claims {
            let wrong = self.wrong(claim);
            found.extend(
                wrong
                    .into_iter()
                    .map(|what| format!("{}: {what}", claim.id)),
            );
        }
        for run in &self.runs {
            let named = run.proved.iter().chain(&run.refuted);
            let unknown = named.filter(|id| !self.claims.iter().any(|claim| claim.id == **id));
            found.extend(unknown.map(|id| format!("run on {}: no claim {id}", run.build)));
        }
        found
    }

    fn wrong(&self, claim: &Claim) -> Vec<&'static str> {
        let mut found = Vec::new();
        let mut say = |is_wrong: bool, what| {
            if is_wrong {
                found.push(what);
            }
        };
        let (shown, not_shown) = (claim.shown.is_some(), claim.not_shown.is_some());
        say(shown == not_shown, "needs either `shown` or `not_shown`");
        say(shown && claim.tests.is_empty(), "is shown by no test");
        say(
            not_shown && !claim.tests.is_empty(),
            "has tests that do not show it",
        );
        say(
            claim.claim.trim_end().ends_with('.'),
            "ends with a full stop",
        );
        let texts = [&claim.shown, &claim.not_shown, &claim.note];
        let texts = texts.into_iter().chain([&claim.source, &claim.remark]);
        let mut texts = texts.flatten().chain([&claim.claim]);
        say(
            texts.any(|text| text.contains('\n') || text.replace("\\|", "").contains('|')),
            "breaks its table",
        );
        let open = claim.note.is_some() || claim.source.is_some() || claim.probe.is_some();
        say(
            open && claim.remark.is_some(),
            "has a `remark` beside what is to be proved",
        );
        match self.section(&claim.section) {
            None => say(true, "is in no section"),
            Some(section) => {
                say(
                    open && !section.to_prove,
                    "is in a section that waits for no run",
                );
                say(
                    claim.remark.is_some() && section.columns.len() < 3,
                    "has a `remark` that its section has no column for",
                );
            }
        }
        found
    }
}
