//! Compiles `feature` and `capability` to `dism.exe /online` (Microsoft: DISM Windows features and
//! DISM capabilities package servicing command-line options).
//!
//! Only 0 and 3010 count as success: an unknown name, a missing source or a damaged store is always
//! an error. With a source the step's script runs on the payload disc, so that nothing is copied
//! into the image.

use super::super::batch::BatchScript;
use super::super::settle::PENDING;
use super::super::step_compiler::{MINUTE, QUICK, StepCompiler, on_disc};
use super::super::{ExitRule, PlannedCheck};
use super::files::find_folder;
use super::registry::REG;
use super::{FIND, to_arguments};
use crate::recipe::verb::{CapabilitySpec, FeatureSpec};
use crate::recipe::{GuestPath, StepContent};
use winimg_base::text::Located;

pub(super) const DISM: &str = r"C:\Windows\System32\dism.exe";
pub(super) const DISM_LOG: GuestPath = GuestPath::from_static(r"C:\Windows\Logs\DISM\dism.log");

/// Returns the rule for DISM: success, or success after a restart.
pub(super) fn dism_rule() -> ExitRule {
    ExitRule::Listed {
        ok: vec![0],
        reboot: vec![3010],
    }
}

/// Exits with 3010 while servicing waits for a restart, so that the engine restarts the guest
/// first.
pub(super) fn restart_if_pending(site: &mut StepCompiler<'_>) {
    let script = BatchScript::from_lines(format!(
        "{REG} query \"{PENDING}\" >nul 2>&1 || exit /b 0\necho Windows waits for a restart\nexit \
         /b 3010"
    ));
    site.put_judged(script, dism_rule(), QUICK);
}

pub(super) fn compile_feature(site: &mut StepCompiler<'_>, feature: &FeatureSpec) -> Option<()> {
    let command = if feature.enabled {
        "/enable-feature"
    } else {
        "/disable-feature"
    };
    let mut arguments = to_arguments(["/online", command]);
    for name in &feature.names {
        arguments.push(format!("/featurename:{}", name.value));
    }
    if feature.enabled && feature.all {
        arguments.push("/all".to_owned());
    }
    arguments.extend(to_arguments(["/norestart", "/quiet"]));
    match feature.without.as_slice() {
        [] => run_dism(site, arguments, feature.source.as_ref())?,
        without => enable_without(site, &arguments, without, feature.source.as_ref())?,
    }
    site.guest_log = Some(DISM_LOG);
    let enabled = feature.names.iter().map(|name| (name, feature.enabled));
    let without = feature.without.iter().map(|name| (name, false));
    for (name, enabled) in enabled.chain(without) {
        site.expect(PlannedCheck::Feature {
            name: name.value.clone(),
            enabled,
        });
    }
    Some(())
}

/// Enables features and disables parts of them before a single restart, so that Windows never
/// starts with those parts (image-builder does the same with Hyper-V's hypervisor).
fn enable_without(
    site: &mut StepCompiler<'_>,
    enable: &[String],
    without: &[Located<String>],
    source: Option<&StepContent>,
) -> Option<()> {
    let mut enable = enable.join(" ");
    if let Some(source) = source {
        let entry = find_folder(site, source, &[])?;
        let entry = site.add_entry(entry);
        enable += &format!(" /source:{} /limitaccess", on_disc(entry, ""));
    }
    let mut disable = to_arguments(["/online", "/disable-feature"]);
    disable.extend(
        without
            .iter()
            .map(|name| format!("/featurename:{}", name.value)),
    );
    disable.extend(to_arguments(["/norestart", "/quiet"]));
    let mut script = BatchScript::from_lines("set restart=");
    for arguments in [enable, disable.join(" ")] {
        script.add_line(format!(
            "{DISM} {arguments}\n\
             set code=%errorlevel%\n\
             if %code%==3010 set restart=1\n\
             if not %code%==0 if not %code%==3010 exit /b %code%"
        ));
    }
    script.add_line("if defined restart exit /b 3010");
    site.put_judged(script, dism_rule(), 60 * MINUTE);
    Some(())
}

pub(super) fn compile_capability(
    site: &mut StepCompiler<'_>,
    capability: &CapabilitySpec,
) -> Option<()> {
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

/// Runs DISM; with a source, it uses only the source's files. The names in `arguments` are safe in
/// batch text.
fn run_dism(
    site: &mut StepCompiler<'_>,
    arguments: Vec<String>,
    source: Option<&StepContent>,
) -> Option<()> {
    let Some(source) = source else {
        site.run(DISM, arguments, dism_rule(), 60 * MINUTE);
        return Some(());
    };
    let entry = find_folder(site, source, &[])?;
    let entry = site.add_entry(entry);
    let script = BatchScript::from_lines(format!(
        "{DISM} {} /source:{} /limitaccess\nexit /b %errorlevel%",
        arguments.join(" "),
        on_disc(entry, "")
    ));
    site.put_judged(script, dism_rule(), 60 * MINUTE);
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
