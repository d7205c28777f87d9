//! `feature` and `capability`: through `dism.exe /online` (Microsoft: DISM Windows features and DISM capabilities
//! package servicing command-line options).
//!
//! Good are 0 and 3010 alone: an unknown name, a missing source or a damaged store is never passed over. With a source
//! the step's script runs on the payload disc, so that nothing is copied into the image.

use super::super::batch::Script;
use super::super::settle::PENDING;
use super::super::site::{MINUTE, QUICK, Site, on_disc};
use super::super::{ExitRule, Planned};
use super::files::folder;
use super::registry::REG;
use super::{FIND, args};
use crate::recipe::verb::{Capability, Feature};
use crate::recipe::{Content, GuestPath};
use winimg_base::text::Located;

pub(super) const DISM: &str = r"C:\Windows\System32\dism.exe";
pub(super) const DISM_LOG: GuestPath = GuestPath::known(r"C:\Windows\Logs\DISM\dism.log");

/// Done, or done once Windows has restarted.
pub(super) fn rule() -> ExitRule {
    ExitRule::Listed {
        ok: vec![0],
        reboot: vec![3010],
    }
}

/// Ends with 3010 while servicing waits for a restart, so that the engine restarts the guest before what follows.
pub(super) fn restart_if_pending(site: &mut Site<'_>) {
    let script = Script::of(format!(
        "{REG} query \"{PENDING}\" >nul 2>&1 || exit /b 0\necho Windows waits for a restart\nexit /b 3010"
    ));
    site.put_judged(script, rule(), QUICK);
}

pub(super) fn feature(site: &mut Site<'_>, feature: &Feature) -> Option<()> {
    let command = match feature.enabled {
        true => "/enable-feature",
        false => "/disable-feature",
    };
    let mut arguments = args(["/online", command]);
    for name in &feature.names {
        arguments.push(format!("/featurename:{}", name.value));
    }
    if feature.enabled && feature.all {
        arguments.push("/all".to_owned());
    }
    arguments.extend(args(["/norestart", "/quiet"]));
    match feature.without.as_slice() {
        [] => dism(site, arguments, feature.source.as_ref())?,
        without => enable_without(site, &arguments, without, feature.source.as_ref())?,
    }
    site.guest_log = Some(DISM_LOG);
    let enabled = feature.names.iter().map(|name| (name, feature.enabled));
    let without = feature.without.iter().map(|name| (name, false));
    for (name, enabled) in enabled.chain(without) {
        site.expect(Planned::Feature {
            name: name.value.clone(),
            enabled,
        });
    }
    Some(())
}

/// Both calls before the one restart: Windows never starts with the parts that are disabled again (image-builder does
/// the same with Hyper-V's hypervisor).
fn enable_without(
    site: &mut Site<'_>,
    enable: &[String],
    without: &[Located<String>],
    source: Option<&Content>,
) -> Option<()> {
    let mut enable = enable.join(" ");
    if let Some(source) = source {
        let entry = folder(site, source, &[])?;
        let entry = site.entry(entry);
        enable += &format!(" /source:{} /limitaccess", on_disc(entry, ""));
    }
    let mut disable = args(["/online", "/disable-feature"]);
    disable.extend(
        without
            .iter()
            .map(|name| format!("/featurename:{}", name.value)),
    );
    disable.extend(args(["/norestart", "/quiet"]));
    let mut script = Script::of("set restart=");
    for arguments in [enable, disable.join(" ")] {
        script.line(format!(
            "{DISM} {arguments}\n\
             set code=%errorlevel%\n\
             if %code%==3010 set restart=1\n\
             if not %code%==0 if not %code%==3010 exit /b %code%"
        ));
    }
    script.line("if defined restart exit /b 3010");
    site.put_judged(script, rule(), 60 * MINUTE);
    Some(())
}

pub(super) fn capability(site: &mut Site<'_>, capability: &Capability) -> Option<()> {
    let named = format!("/capabilityname:{}", capability.name.value);
    if !capability.present {
        absent(site, &named);
    } else {
        let arguments = args(["/online", "/add-capability", &named, "/norestart", "/quiet"]);
        dism(site, arguments, capability.source.as_ref())?;
    }
    site.guest_log = Some(DISM_LOG);
    site.expect(Planned::Capability {
        name: capability.name.value.clone(),
        present: capability.present,
    });
    Some(())
}

/// DISM; with a source on its files and on nothing else. The names in `arguments` are fit for batch text.
fn dism(site: &mut Site<'_>, arguments: Vec<String>, source: Option<&Content>) -> Option<()> {
    let Some(source) = source else {
        site.run(DISM, arguments, rule(), 60 * MINUTE);
        return Some(());
    };
    let entry = folder(site, source, &[])?;
    let entry = site.entry(entry);
    let script = Script::of(format!(
        "{DISM} {} /source:{} /limitaccess\nexit /b %errorlevel%",
        arguments.join(" "),
        on_disc(entry, "")
    ));
    site.put_judged(script, rule(), 60 * MINUTE);
    Some(())
}

/// What is not there is not removed: DISM is asked first, in English.
fn absent(site: &mut Site<'_>, named: &str) {
    let script = Script::of(format!(
        "{DISM} /english /online /get-capabilityinfo {named} | {FIND} \"State : Not Present\" >nul && exit /b 0\n\
         {DISM} /online /remove-capability {named} /norestart /quiet\n\
         exit /b %errorlevel%"
    ));
    site.put_judged(script, rule(), 60 * MINUTE);
}
