//! What cmdlets put out: an object with properties, and what it stands for when it is kept.

use serde_json::{Map, Value};

use crate::refusal::Refusal;

/// What a kept object stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Thing {
    Vm(String),
    HardDisk {
        vm: String,
    },
    Dvd {
        vm: String,
        number: u32,
        location: u32,
    },
    Credential {
        user: String,
        password: String,
    },
    Session(u32),
    Disk,
    Host,
    Plain,
}

impl Thing {
    /// Whether a parameter of this type takes it.
    pub fn is_a(&self, kind: &str) -> bool {
        match kind {
            "VirtualMachine" => matches!(self, Self::Vm(_)),
            "DvdDrive" => matches!(self, Self::Dvd { .. }),
            "VMComponentObject" => matches!(self, Self::Dvd { .. } | Self::HardDisk { .. }),
            "PSCredential" => matches!(self, Self::Credential { .. }),
            "PSSession" => matches!(self, Self::Session(_)),
            "Object" => true,
            _ => false,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Object {
    pub thing: Thing,
    pub properties: Map<String, Value>,
}

impl Object {
    pub fn new(thing: Thing, properties: Value) -> Self {
        let Value::Object(properties) = properties else {
            return Self {
                thing,
                properties: Map::new(),
            };
        };
        Self { thing, properties }
    }

    /// The properties that were asked for. One that the real object does not have is a mistake of who asks.
    pub fn select(&self, names: &[String]) -> Result<Value, Refusal> {
        if names.iter().any(|n| n == "*") {
            return Ok(Value::Object(self.properties.clone()));
        }
        let mut out = Map::new();
        for name in names {
            let found = self
                .properties
                .iter()
                .find(|(n, _)| n.eq_ignore_ascii_case(name));
            let Some((_, value)) = found else {
                return Err(Refusal::stand_in(format!(
                    "{:?} has no property {name}",
                    self.thing
                )));
            };
            out.insert(name.clone(), value.clone());
        }
        Ok(Value::Object(out))
    }
}
