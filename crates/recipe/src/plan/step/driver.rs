//! `driver`: every driver package of a folder into the driver store, and onto the devices that are there (Microsoft:
//! PnPUtil command syntax, PnPUtil return values).
//!
//! Straight from the payload disc: `pnputil.exe` copies what a package names into the store, so nothing of the disc is
//! needed later.

use std::path::PathBuf;

use super::super::batch::{self, Script};
use super::super::check::Packages;
use super::super::site::{MINUTE, Site, on_disc};
use super::super::{DriverFolder, Entry, ExitRule, Planned};
use super::files::folder;
use crate::recipe::verb::Driver;
use crate::recipe::{Content, GuestPath};
use winimg_base::text::Located;
use winimg_formats::archive::Filter;
use winimg_formats::driver;

const PNPUTIL: &str = r"C:\Windows\System32\pnputil.exe";

pub(super) fn driver(site: &mut Site<'_>, driver: &Driver) -> Option<()> {
    // Whether there is such a folder or archive.
    folder(site, &driver.from, &driver.only)?;
    let (from, wanted) = match &driver.from {
        Content::Local(path) => {
            let packages = local_packages(site, path, &driver.only)?;
            (
                DriverFolder::Local(path.value.clone()),
                Some((path, packages)),
            )
        }
        // Which files an archive holds is known when it is there.
        Content::Component(name) => (DriverFolder::Component(name.value.clone()), None),
    };
    let entry = site.entry(Entry::Drivers {
        from,
        only: driver.only.clone(),
    });
    let mut script = Script::new();
    match wanted {
        Some((path, packages)) if !driver.only.is_empty() => {
            each(site, &mut script, entry, path, &packages)?;
        }
        _ => {
            let all = on_disc(entry, "*.inf");
            script.line(format!(
                "{PNPUTIL} /add-driver {all} /subdirs /install\nexit /b %errorlevel%"
            ));
        }
    }
    site.put_judged(script, ExitRule::Pnputil, 30 * MINUTE);
    site.guest_log = Some(GuestPath::known(r"C:\Windows\INF\setupapi.dev.log"));
    let only = driver.only.clone();
    site.expect(Planned::Driver {
        driver: Packages { entry, only },
    });
    Some(())
}

/// One call for each package. A failure ends the step, a restart is remembered.
fn each(
    site: &mut Site<'_>,
    script: &mut Script,
    entry: u32,
    from: &Located<PathBuf>,
    packages: &[String],
) -> Option<()> {
    script.line("set restart=0");
    for package in packages {
        let path = site.judged(batch::literal(&package.replace('/', "\\")), &from.place)?;
        script.line(format!(
            "{PNPUTIL} /add-driver {} /install\n\
             set code=%errorlevel%\n\
             if %code%==3010 set restart=3010\n\
             if not %code%==0 if not %code%==259 if not %code%==3010 exit /b %code%",
            on_disc(entry, &path)
        ));
    }
    script.line("exit /b %restart%");
    Some(())
}

/// The INFs of the folder that `only` takes, `/` between folders, sorted. None at all is a mistake, and so is a package
/// that is not complete.
fn local_packages(
    site: &mut Site<'_>,
    folder: &Located<PathBuf>,
    only: &[String],
) -> Option<Vec<String>> {
    let filter = Filter {
        strip: 0,
        only: only.to_vec(),
    };
    // A malformed pattern is an error of its own.
    site.judged(filter.takes("any"), &folder.place)?;
    let is_taken = |inf: &str| filter.takes(inf).unwrap_or(false);
    let found = driver::in_folder(&folder.value, is_taken);
    let found = found.map_err(|e| {
        let shown = folder.value.display();
        format!("the folder `{shown}` cannot be read: {}", e.with_causes())
    });
    let faults = match site.judged(found, &folder.place)? {
        Ok(chosen) => {
            let infs = chosen.packages.into_iter().map(|package| package.inf);
            return Some(infs.collect());
        }
        Err(faults) => faults,
    };
    let shown = folder.value.display();
    for fault in faults {
        if fault.inf.is_none() && !only.is_empty() {
            let message = format!("`{shown}` holds no `.inf` file that `only` takes");
            let help = "patterns are over the folder's paths: `only = [\"vioscsi/2k22/amd64/*\"]`";
            site.error_with_help(&folder.place, message, "looked for here", help);
            continue;
        }
        let message = format!("`{shown}`: {}", fault.problem.in_one_line());
        let help = fault.problem.cures.join("; ");
        site.error_with_help(&folder.place, message, "looked for here", help);
    }
    None
}
