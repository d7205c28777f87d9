//! Reads a target's file. Refuses unknown keys, a rule without exactly one demand, and a fact
//! without a source. Reports at most one error per file.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use super::{
    FactOrigin, FactProof, MetadataForm, Presence, RuleDemand, RuleSeverity, TargetCondition,
    TargetController, TargetHardware, TargetMetadata, TargetNic, TargetNote, TargetRule,
    TargetSpec,
};
use crate::{Firmware, OutputFormat};
use winimg_base::diag::Diagnostic;
use winimg_base::text::{Place, SourceText};

/// The supported schema.
const SCHEMA: i64 = 1;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "winimg target")]
struct TargetFile {
    #[schemars(with = "i64")]
    schema: Spanned<i64>,
    /// The file name without `.toml`.
    #[schemars(with = "String")]
    name: Spanned<String>,
    title: String,
    /// Files with rules that this target shares with others, from its folder.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    include: Vec<Spanned<String>>,
    /// Sources of every line that has no `source`.
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

/// A file that several targets include.
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
    controller: TargetController,
    #[serde(default)]
    also: Vec<TargetController>,
    nic: TargetNic,
    tpm: Presence,
    secure_boot: Presence,
    source: Option<String>,
    #[serde(default)]
    proof: FactProof,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MetadataTable {
    by: MetadataForm,
    agent: String,
    source: Option<String>,
    #[serde(default)]
    proof: FactProof,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    needs: Option<TargetCondition>,
    refuses: Option<TargetCondition>,
    when: Option<TargetCondition>,
    output: Option<OutputFormat>,
    why: String,
    source: Option<String>,
    #[serde(default)]
    proof: FactProof,
    report: Option<RuleSeverity>,
    cure: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoteTable {
    note: String,
    source: Option<String>,
    #[serde(default)]
    proof: FactProof,
}

/// Renders the JSON Schema of a target's file, for editors.
pub fn render_schema() -> String {
    format!("{:#}\n", schemars::schema_for!(TargetFile).as_value())
}

/// Reads a target without its includes, and the names of these with their places.
pub(super) fn read_target(
    name: &str,
    source: &Arc<SourceText>,
) -> Result<(TargetSpec, Vec<(String, Place)>), Diagnostic> {
    let file: TargetFile = parse(source)?;
    check_schema(&file.schema, source)?;
    if file.name.get_ref() != name {
        let own = file.name.get_ref();
        let fact = format!("the target in {name}.toml is named `{own}`, not `{name}`");
        let place = Place::new(source, file.name.span());
        return Err(Diagnostic::error(fact).at(&place, ""));
    }
    let facts = FactReader {
        source,
        sources: &file.sources,
    };
    let place = Place::new(source, file.hardware.span());
    let table = file.hardware.into_inner();
    let hardware = TargetHardware {
        origin: facts.read_origin(table.source, table.proof, &place)?,
        firmware: table.firmware,
        controller: table.controller,
        also: table.also,
        nic: table.nic,
        tpm: table.tpm,
        secure_boot: table.secure_boot,
    };
    let mut rules = of_hardware(&file.title, &hardware, &place);
    rules.extend(facts.read_rules(file.rules)?);
    let place = Place::new(source, file.metadata.span());
    let table = file.metadata.into_inner();
    let metadata = TargetMetadata {
        by: table.by,
        agent: table.agent,
        origin: facts.read_origin(table.source, table.proof, &place)?,
    };
    let notes = facts.read_notes(file.notes)?;
    let includes = file
        .include
        .into_iter()
        .map(|file| {
            let place = Place::new(source, file.span());
            (file.into_inner(), place)
        })
        .collect();
    let target = TargetSpec {
        name: name.to_owned(),
        title: file.title,
        hardware,
        metadata,
        rules,
        notes,
        place: Place::new(source, 0..0),
    };
    Ok((target, includes))
}

/// Reads a file that targets include.
pub(super) fn read_shared(
    source: &Arc<SourceText>,
) -> Result<(Vec<TargetRule>, Vec<TargetNote>), Diagnostic> {
    let file: SharedFile = parse(source)?;
    check_schema(&file.schema, source)?;
    let facts = FactReader {
        source,
        sources: &file.sources,
    };
    Ok((facts.read_rules(file.rules)?, facts.read_notes(file.notes)?))
}

fn parse<'s, T: Deserialize<'s>>(source: &'s Arc<SourceText>) -> Result<T, Diagnostic> {
    toml::from_str(&source.text).map_err(|error: toml::de::Error| {
        let place = Place::new(source, error.span().unwrap_or(0..0));
        Diagnostic::error(format!("{}: {}", source.name, error.message())).at(&place, "")
    })
}

fn check_schema(said: &Spanned<i64>, source: &Arc<SourceText>) -> Result<(), Diagnostic> {
    if *said.get_ref() == SCHEMA {
        return Ok(());
    }
    let fact = format!("schema {} is not supported by this version", said.get_ref());
    let help = format!("this version supports schema {SCHEMA}");
    let place = Place::new(source, said.span());
    Err(Diagnostic::error(fact).at(&place, "").help(help))
}

/// Derives rules from the hardware of the first boot. Their severity depends on the reliability of
/// the hardware's description.
fn of_hardware(title: &str, hardware: &TargetHardware, place: &Place) -> Vec<TargetRule> {
    let mut demands = Vec::new();
    if let [only] = hardware.firmware[..] {
        let (shown, word) = match only {
            Firmware::Uefi => ("UEFI", "uefi"),
            Firmware::Bios => ("BIOS", "bios"),
        };
        demands.push((
            RuleDemand::Needs(TargetCondition::Firmware(vec![only])),
            format!("{title} has only {shown} firmware"),
            format!("write `firmware = \"{word}\"` under `[machine]`"),
        ));
    }
    if hardware.secure_boot == Presence::None {
        demands.push((
            RuleDemand::Refuses(TargetCondition::SecureBoot(true)),
            format!("{title} does not accept images of machines with Secure Boot"),
            "remove `secure_boot`".to_owned(),
        ));
    }
    demands
        .into_iter()
        .map(|(demand, why, cure)| TargetRule {
            demand,
            when: None,
            output: None,
            why,
            origin: hardware.origin.clone(),
            report: report(None, hardware.origin.proof),
            cure: Some(cure),
            place: place.clone(),
        })
        .collect()
}

fn report(said: Option<RuleSeverity>, proof: FactProof) -> RuleSeverity {
    match (said, proof.can_refuse()) {
        (Some(RuleSeverity::Warn), _) | (_, false) => RuleSeverity::Warn,
        (_, true) => RuleSeverity::Refuse,
    }
}

/// Context of the facts in a file.
struct FactReader<'a> {
    source: &'a Arc<SourceText>,
    sources: &'a [String],
}

impl FactReader<'_> {
    fn read_origin(
        &self,
        own: Option<String>,
        proof: FactProof,
        place: &Place,
    ) -> Result<FactOrigin, Diagnostic> {
        let source = own.unwrap_or_else(|| self.sources.join("; "));
        if source.trim().is_empty() {
            let help = "add `source = \"…\"` to it, or `sources = […]` at the top of the file";
            let fact = "a fact of a target has no source";
            return Err(Diagnostic::error(fact).at(place, "").help(help));
        }
        Ok(FactOrigin { source, proof })
    }

    fn read_rules(&self, tables: Vec<Spanned<RuleTable>>) -> Result<Vec<TargetRule>, Diagnostic> {
        tables
            .into_iter()
            .map(|table| self.read_rule(table))
            .collect()
    }

    fn read_rule(&self, table: Spanned<RuleTable>) -> Result<TargetRule, Diagnostic> {
        let place = Place::new(self.source, table.span());
        let table = table.into_inner();
        let demand = match (table.needs, table.refuses) {
            (Some(needs), None) => RuleDemand::Needs(needs),
            (None, Some(refuses)) => RuleDemand::Refuses(refuses),
            _ => {
                let fact = "a rule has one of `needs` and `refuses`";
                return Err(Diagnostic::error(fact).at(&place, ""));
            }
        };
        if table.report == Some(RuleSeverity::Refuse) && !table.proof.can_refuse() {
            let fact = "a rule that is not confirmed cannot refuse a recipe";
            let help = "omit `report`: the rule becomes a warning";
            return Err(Diagnostic::error(fact).at(&place, "").help(help));
        }
        Ok(TargetRule {
            demand,
            when: table.when,
            output: table.output,
            why: table.why,
            report: report(table.report, table.proof),
            origin: self.read_origin(table.source, table.proof, &place)?,
            cure: table.cure,
            place,
        })
    }

    fn read_notes(&self, tables: Vec<Spanned<NoteTable>>) -> Result<Vec<TargetNote>, Diagnostic> {
        tables
            .into_iter()
            .map(|table| {
                let place = Place::new(self.source, table.span());
                let table = table.into_inner();
                Ok(TargetNote {
                    note: table.note,
                    origin: self.read_origin(table.source, table.proof, &place)?,
                })
            })
            .collect()
    }
}
