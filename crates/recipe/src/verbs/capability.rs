//! The verb `capability`: a feature on demand.

use crate::document::value::TomlValue;
use crate::fields::{LoweringContext, TableReader};
use crate::ops::PlannedCheck;
use crate::ops::batch::BatchScript;
use crate::ops::compiler::{MINUTE, StepCompiler};
use crate::ops::programs::{DISM, FIND, to_arguments};
use crate::verbs::content::{StepContent, read_source};
use crate::verbs::dism::{DISM_LOG, dism_rule, run_dism};
use crate::verbs::items::RecipeItems;
use winimg_base::text::Located;

/// `capability`: a feature on demand.
#[derive(Clone, Debug)]
pub struct CapabilitySpec {
    /// `OpenSSH.Server~~~~0.0.1.0`
    pub name: Located<String>,
    pub present: bool,
    /// A folder of cabinets; without it Windows has the files or downloads them.
    pub source: Option<StepContent>,
}

pub fn read(
    cx: &LoweringContext<'_>,
    value: &TomlValue,
    items: RecipeItems<'_>,
) -> Option<CapabilitySpec> {
    let fields = TableReader::open(cx, value, "capability")?;
    let name = fields.read_string("name").and_then(|name| {
        let is_plain = name
            .value
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.~".contains(c));
        if name.value.matches('~').count() == 4 && is_plain {
            return Some(name);
        }
        let fact = format!("`{}` is not the name of a capability", name.value);
        cx.error(fact, &name.place, "", fields.help("name"));
        None
    });
    let present = fields.is("state", "present");
    let source = read_source(&fields, items);
    if !present && let Some(entry) = fields.find_first(&["component", "path"]) {
        let fact = format!(
            "`{}` has no effect on a capability with `state = \"absent\"`",
            entry.key
        );
        cx.error(fact, &entry.key_place, "", "remove it");
        return None;
    }
    let capability = CapabilitySpec {
        name: name?,
        present,
        source: source.ok()?,
    };
    fields.is_whole().then_some(capability)
}

pub fn compile(site: &mut StepCompiler<'_>, capability: &CapabilitySpec) -> Option<()> {
    let named = format!("/capabilityname:{}", capability.name.value);
    if !capability.present {
        remove_capability(site, &named);
    } else {
        let arguments =
            to_arguments(["/online", "/add-capability", &named, "/norestart", "/quiet"]);
        run_dism(site, arguments, capability.source.as_ref())?;
    }
    site.guest_log = Some(DISM_LOG);
    site.expect(PlannedCheck::Capability {
        name: capability.name.value.clone(),
        present: capability.present,
    });
    Some(())
}

/// Removes a capability if it is present. DISM is queried first, in English.
fn remove_capability(site: &mut StepCompiler<'_>, named: &str) {
    let script = BatchScript::from_lines(format!(
        "{DISM} /english /online /get-capabilityinfo {named} | {FIND} \"State : Not Present\" >nul \
         && exit /b 0\n\
         {DISM} /online /remove-capability {named} /norestart /quiet\n\
         exit /b %errorlevel%"
    ));
    site.put_judged(script, dism_rule(), 60 * MINUTE);
}
