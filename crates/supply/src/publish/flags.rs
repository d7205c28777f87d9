//! Flags of `winimg publish` that only some destinations accept. Each is declared beside its
//! destination, which takes its values; all others are refused.

use std::fmt::Display;
use std::ops::RangeInclusive;

use winimg_base::error::{Error, Kind, Result};

/// A flag, as the command line shows it.
#[derive(Debug)]
pub struct DestinationFlag {
    /// Without its dashes.
    pub name: &'static str,
    pub value_name: &'static str,
    /// One line, complete by itself.
    pub help: &'static str,
    /// Further text for `--help`, or nothing.
    pub details: &'static str,
    pub values: FlagArity,
    /// Why a destination that does not know the flag refuses it.
    pub refusal: &'static str,
}

#[derive(Debug)]
pub enum FlagArity {
    One,
    /// One number in this range.
    Number(RangeInclusive<i64>),
    /// Any number of values, separated by commas.
    Separated,
    /// The flag may be repeated.
    Repeated,
}

/// The flags that a user gave, until a destination takes them.
#[derive(Clone, Debug, Default)]
pub struct FlagValues(Vec<GivenFlag>);

#[derive(Clone, Debug)]
struct GivenFlag {
    name: &'static str,
    values: Vec<String>,
    refusal: &'static str,
}

impl FlagValues {
    pub fn add(&mut self, flag: &DestinationFlag, values: Vec<String>) {
        self.0.push(GivenFlag {
            name: flag.name,
            values,
            refusal: flag.refusal,
        });
    }

    /// Takes all values of a flag.
    pub(super) fn take_all(&mut self, flag: &DestinationFlag) -> Vec<String> {
        match self.0.iter().position(|given| given.name == flag.name) {
            Some(at) => self.0.remove(at).values,
            None => Vec::new(),
        }
    }

    /// Takes the value of a flag that has only one.
    pub(super) fn take(&mut self, flag: &DestinationFlag) -> Option<String> {
        self.take_all(flag).pop()
    }

    /// Replaces the reason why a flag is refused.
    pub(super) fn explain(&mut self, flag: &DestinationFlag, refusal: &'static str) {
        for given in self.0.iter_mut().filter(|given| given.name == flag.name) {
            given.refusal = refusal;
        }
    }

    /// Refuses the first flag that is left.
    pub(super) fn refuse_rest(&self, destination: &impl Display) -> Result<()> {
        match self.0.first() {
            None => Ok(()),
            Some(given) => Err(refuse_flag(given.name, given.refusal, destination)),
        }
    }
}

/// Reports a flag that a destination does not accept.
pub fn refuse_flag(name: &str, fact: &str, destination: &impl Display) -> Error {
    Error::new(Kind::Recipe, fact)
        .at(format!("--{name}"))
        .found(destination)
        .cure(format!("omit --{name}"))
}
