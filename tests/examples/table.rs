//! `table.toml`: what each block is.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::examples::blocks::Block;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// How many there are: a reader that finds fewer proves nothing.
    pub blocks: usize,
    /// Programs other than winimg in commands, and why they are not run here.
    pub programs: BTreeMap<String, String>,
    pub block: Vec<Row>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub file: String,
    /// How the block's first line begins.
    pub first: String,
    pub is: Kind,
    /// How many blocks of the page begin so.
    #[serde(default = "one")]
    pub times: usize,
    /// Lines that stand at the end of the recipe, after the frame's.
    #[serde(default)]
    pub with: String,
    /// What stands in the block for something of the reader's own.
    #[serde(default)]
    pub swap: Vec<(String, String)>,
    /// In the plan of the recipe.
    #[serde(default)]
    pub plan_has: Vec<String>,
    /// The recipe still asks for values; nothing else is wrong with it.
    #[serde(default)]
    pub asks: bool,
    /// What stands before each line to make it a command.
    #[serde(default)]
    pub before: String,
    /// The file whose text it is.
    pub from: Option<String>,
    /// Why it is not tried.
    pub why: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `winimg plan` takes it as it is.
    Recipe,
    /// `winimg plan` takes it within the frame: `judge::FRAME`.
    Fragment,
    /// A target's file, by which `winimg plan` judges the frame.
    Target,
    /// Commands after `$ `; those of winimg must be accepted by its command line. Such a block
    /// needs no row.
    #[default]
    Commands,
    /// A script of the scripted QEMU, which reads it.
    FakeQemuScript,
    Json,
    /// A pipeline; winimg's own command line takes each line of it that calls winimg.
    Pipeline,
    /// It parses.
    Powershell,
    /// The same text is in the file `from`.
    Quoted,
    /// It is not tried; `why` says why.
    Shown,
}

fn one() -> usize {
    1
}

impl Row {
    pub fn is_of(&self, block: &Block) -> bool {
        block.file == self.file && block.first_line().starts_with(&self.first)
    }
}

pub fn read() -> Table {
    toml::from_str(include_str!("table.toml")).expect("tests/examples/table.toml")
}
