//! The verb `environment`: a machine environment variable.

use crate::document::value::TomlValue;
use crate::fields::{LoweringContext, TableReader};
use crate::ops::compiler::StepCompiler;
use crate::verbs::registry::set;
use crate::{RegistryKey, RegistryValueData};
use winimg_base::text::Located;

/// Values of `environment`.
#[derive(Clone, Debug)]
pub struct EnvironmentSpec {
    pub name: Located<String>,
    /// Removed when `None`.
    pub value: Option<String>,
}

pub const ENVIRONMENT: RegistryKey =
    RegistryKey::from_static(r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment");

pub fn read(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<EnvironmentSpec> {
    let fields = TableReader::open(cx, value, "environment")?;
    let name = fields
        .read_string("name")
        .and_then(|name| variable_name(&fields, name));
    let absent = fields.read_bool("absent").filter(|a| a.value);
    if let (Some(_), Some(entry)) = (&absent, fields.table.find_entry("value")) {
        let fact = "`absent` and `value` exclude each other";
        cx.error(fact, &entry.key_place, "", "keep one of them");
    }
    if absent.is_none() {
        fields.require(
            "value",
            "set its value: `value = \"…\"`; to remove it, `absent = true`",
        );
    }
    let text = fields.read_string("value");
    if let Some(empty) = text.as_ref().filter(|t| t.value.is_empty()) {
        let fact = "Windows has no empty environment variables";
        cx.error(
            fact,
            &empty.place,
            "",
            "to remove it, write `absent = true`",
        );
    }
    if let Some(text) = text.as_ref().filter(|t| t.value.contains('\0')) {
        cx.error("the value contains a NUL character", &text.place, "", "");
    }
    let value = match absent {
        Some(_) => None,
        None => Some(text?.value),
    };
    Some(EnvironmentSpec { name: name?, value })
}

fn variable_name(fields: &TableReader<'_>, name: Located<String>) -> Option<Located<String>> {
    let text = name.value.as_str();
    let (fact, help) = if text.eq_ignore_ascii_case("path") {
        (
            "`environment` would replace the whole Path",
            "add folders with `path = { add = ['C:\\k'] }`",
        )
    } else if text.contains(['=', '"']) || text.chars().any(char::is_control) {
        (
            "the variable's name contains `=`, `\"` or a control character",
            "",
        )
    } else {
        return Some(name);
    };
    fields.cx.error(fact, &name.place, "", help);
    None
}

pub fn compile(site: &mut StepCompiler<'_>, environment: &EnvironmentSpec) {
    let data = match &environment.value {
        None => RegistryValueData::Absent,
        Some(value) if value.contains('%') => RegistryValueData::ExpandSz(value.clone()),
        Some(value) => RegistryValueData::Sz(value.clone()),
    };
    set(site, &ENVIRONMENT, Some(&environment.name.value), &data);
}
