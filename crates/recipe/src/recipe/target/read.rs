//! A target's file, from TOML. Refuses unknown keys, a rule that asks for nothing or for two things, and a fact without a
//! source. At most one complaint a file.

use std::ops::Range;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use super::super::Firmware;
use super::{
    Condition, Controller, Demand, Form, Hardware, Metadata, Nic, Note, Origin, Output, Presence,
    Proof, Report, Rule, Target,
};
use winimg_base::diag::Diagnostic;
use winimg_base::text::{Place, Source};

/// The schema this version reads.
const SCHEMA: i64 = 1;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "winimg target")]
struct TargetFile {
    #[schemars(with = "i64")]
    schema: Spanned<i64>,
    /// That of the file, without `.toml`.
    #[schemars(with = "String")]
    name: Spanned<String>,
    title: String,
    /// Files with rules that this target shares with others, from its folder.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    include: Vec<Spanned<String>>,
    /// Of every line that has no `source`.
    #[serde(default)]
    sources: Vec<String>,
    #[schemars(with = "HardwareTable")]
    hardware: Spanned<HardwareTable>,
    #[schemars(with = "MetadataTable")]
    metadata: Spanned<MetadataTable>,
    #[serde(default, rename = "rule")]
    #[schemars(with = "Vec<RuleTable>")]
    rules: Vec<Spanned<RuleTable>>,
    #[serde(default, rename = "note")]
    #[schemars(with = "Vec<NoteTable>")]
    notes: Vec<Spanned<NoteTable>>,
}

/// What several targets include.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SharedFile {
    schema: Spanned<i64>,
    #[serde(default)]
    sources: Vec<String>,
    #[serde(default, rename = "rule")]
    rules: Vec<Spanned<RuleTable>>,
    #[serde(default, rename = "note")]
    notes: Vec<Spanned<NoteTable>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HardwareTable {
    firmware: Vec<Firmware>,
    controller: Controller,
    #[serde(default)]
    also: Vec<Controller>,
    nic: Nic,
    tpm: Presence,
    secure_boot: Presence,
    source: Option<String>,
    #[serde(default)]
    proof: Proof,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MetadataTable {
    by: Form,
    agent: String,
    source: Option<String>,
    #[serde(default)]
    proof: Proof,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    needs: Option<Condition>,
    refuses: Option<Condition>,
    when: Option<Condition>,
    output: Option<Output>,
    why: String,
    source: Option<String>,
    #[serde(default)]
    proof: Proof,
    report: Option<Report>,
    cure: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoteTable {
    note: String,
    source: Option<String>,
    #[serde(default)]
    proof: Proof,
}

/// The JSON Schema of a target's file, for editors.
pub fn schema() -> String {
    format!("{:#}\n", schemars::schema_for!(TargetFile).as_value())
}

/// The target, without what it includes; and the files that it includes, each with its place.
pub(super) fn target(
    name: &str,
    source: &Arc<Source>,
) -> Result<(Target, Vec<(String, Place)>), Diagnostic> {
    let file: TargetFile = parse(source)?;
    let at = |span: Range<usize>| Place::new(source, span);
    check_schema(&file.schema, source)?;
    if file.name.get_ref() != name {
        let own = file.name.get_ref();
        let fact = format!("the target in {name}.toml is called `{own}`, not `{name}`");
        let place = at(file.name.span());
        return Err(Diagnostic::error(fact).at(&place, ""));
    }
    let facts = Facts {
        source,
        sources: &file.sources,
    };
    let place = at(file.hardware.span());
    let table = file.hardware.into_inner();
    let hardware = Hardware {
        origin: facts.origin(table.source, table.proof, &place)?,
        firmware: table.firmware,
        controller: table.controller,
        also: table.also,
        nic: table.nic,
        tpm: table.tpm,
        secure_boot: table.secure_boot,
    };
    let mut rules = of_hardware(&file.title, &hardware, &place);
    rules.extend(facts.rules(file.rules)?);
    let place = at(file.metadata.span());
    let table = file.metadata.into_inner();
    let metadata = Metadata {
        by: table.by,
        agent: table.agent,
        origin: facts.origin(table.source, table.proof, &place)?,
    };
    let notes = facts.notes(file.notes)?;
    let includes = file.include.into_iter();
    let includes = includes.map(|file| (at(file.span()), file.into_inner()));
    let includes = includes.map(|(place, file)| (file, place)).collect();
    let target = Target {
        name: name.to_owned(),
        title: file.title,
        hardware,
        metadata,
        rules,
        notes,
        place: at(0..0),
    };
    Ok((target, includes))
}

/// What a target includes.
pub(super) fn shared(source: &Arc<Source>) -> Result<(Vec<Rule>, Vec<Note>), Diagnostic> {
    let file: SharedFile = parse(source)?;
    check_schema(&file.schema, source)?;
    let facts = Facts {
        source,
        sources: &file.sources,
    };
    Ok((facts.rules(file.rules)?, facts.notes(file.notes)?))
}

fn parse<'s, T: Deserialize<'s>>(source: &'s Arc<Source>) -> Result<T, Diagnostic> {
    toml::from_str(&source.text).map_err(|error: toml::de::Error| {
        let place = Place::new(source, error.span().unwrap_or(0..0));
        Diagnostic::error(format!("{}: {}", source.name, error.message())).at(&place, "")
    })
}

fn check_schema(said: &Spanned<i64>, source: &Arc<Source>) -> Result<(), Diagnostic> {
    if *said.get_ref() == SCHEMA {
        return Ok(());
    }
    let fact = format!("schema {} is not known to this version", said.get_ref());
    let help = format!("this version reads schema {SCHEMA}");
    let place = Place::new(source, said.span());
    Err(Diagnostic::error(fact).at(&place, "").help(help))
}

/// What the machine of the first boot asks of the image. How well the hardware is known decides whether it is refused.
fn of_hardware(title: &str, hardware: &Hardware, place: &Place) -> Vec<Rule> {
    let rule = |demand: Demand, why: String, cure: &str| Rule {
        demand,
        when: None,
        output: None,
        why,
        origin: hardware.origin.clone(),
        report: report(None, hardware.origin.proof),
        cure: Some(cure.to_owned()),
        place: place.clone(),
    };
    let mut rules = Vec::new();
    if let [only] = hardware.firmware[..] {
        let (shown, word) = match only {
            Firmware::Uefi => ("UEFI", "uefi"),
            Firmware::Bios => ("BIOS", "bios"),
        };
        rules.push(rule(
            Demand::Needs(Condition::Firmware(vec![only])),
            format!("{title} has only {shown} firmware"),
            &format!("write `firmware = \"{word}\"` under `[machine]`"),
        ));
    }
    if hardware.secure_boot == Presence::None {
        rules.push(rule(
            Demand::Refuses(Condition::SecureBoot(true)),
            format!("{title} takes no image of a machine with Secure Boot"),
            "leave `secure_boot` out",
        ));
    }
    rules
}

fn report(said: Option<Report>, proof: Proof) -> Report {
    match (said, proof.refuses()) {
        (Some(Report::Warn), _) | (_, false) => Report::Warn,
        (_, true) => Report::Refuse,
    }
}

/// What a fact of a file takes from the file itself.
struct Facts<'a> {
    source: &'a Arc<Source>,
    sources: &'a [String],
}

impl Facts<'_> {
    fn origin(
        &self,
        own: Option<String>,
        proof: Proof,
        place: &Place,
    ) -> Result<Origin, Diagnostic> {
        let source = own.unwrap_or_else(|| self.sources.join("; "));
        if source.trim().is_empty() {
            let help =
                "write `source = \"…\"` beside it, or `sources = […]` at the top of the file";
            let fact = "a fact of a target has no source";
            return Err(Diagnostic::error(fact).at(place, "").help(help));
        }
        Ok(Origin { source, proof })
    }

    fn rules(&self, tables: Vec<Spanned<RuleTable>>) -> Result<Vec<Rule>, Diagnostic> {
        tables.into_iter().map(|table| self.rule(table)).collect()
    }

    fn rule(&self, table: Spanned<RuleTable>) -> Result<Rule, Diagnostic> {
        let place = Place::new(self.source, table.span());
        let table = table.into_inner();
        let demand = match (table.needs, table.refuses) {
            (Some(needs), None) => Demand::Needs(needs),
            (None, Some(refuses)) => Demand::Refuses(refuses),
            _ => {
                let fact = "a rule has one of `needs` and `refuses`";
                return Err(Diagnostic::error(fact).at(&place, ""));
            }
        };
        if table.report == Some(Report::Refuse) && !table.proof.refuses() {
            let fact = "what is not known for sure refuses no recipe";
            let help = "leave `report` out: it is warned about";
            return Err(Diagnostic::error(fact).at(&place, "").help(help));
        }
        Ok(Rule {
            demand,
            when: table.when,
            output: table.output,
            why: table.why,
            report: report(table.report, table.proof),
            origin: self.origin(table.source, table.proof, &place)?,
            cure: table.cure,
            place,
        })
    }

    fn notes(&self, tables: Vec<Spanned<NoteTable>>) -> Result<Vec<Note>, Diagnostic> {
        let note = |table: Spanned<NoteTable>| {
            let place = Place::new(self.source, table.span());
            let table = table.into_inner();
            Ok(Note {
                note: table.note,
                origin: self.origin(table.source, table.proof, &place)?,
            })
        };
        tables.into_iter().map(note).collect()
    }
}
