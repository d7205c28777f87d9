//! The verb `driver`: every INF of a folder goes into the driver store, by `pnputil.exe`.

use std::path::PathBuf;

use crate::GuestPath;
use crate::document::value::TomlValue;
use crate::fields::{LoweringContext, TableReader};
use crate::ops::batch::{self, BatchScript};
use crate::ops::check::ExpectedDrivers;
use crate::ops::compiler::{MINUTE, StepCompiler, on_disc};
use crate::ops::{DriverFolder, ExitRule, PayloadEntry, PlannedCheck};
use crate::verbs::content::{StepContent, find_folder, read_content};
use crate::verbs::items::RecipeItems;
use winimg_base::text::Located;
use winimg_formats::archive::ArchiveFilter;

/// `driver`: every INF of a folder goes into the driver store.
#[derive(Clone, Debug)]
pub struct DriverSpec {
    pub from: StepContent,
    /// Glob patterns over the folder's paths; empty: all.
    pub only: Vec<String>,
}

const PNPUTIL: &str = r"C:\Windows\System32\pnputil.exe";

pub fn read(
    cx: &LoweringContext<'_>,
    value: &TomlValue,
    items: RecipeItems<'_>,
) -> Option<DriverSpec> {
    let fields = TableReader::open(cx, value, "driver")?;
    let from = read_content(&fields, items);
    let only = fields.read_texts("only");
    let driver = DriverSpec { from: from?, only };
    fields.is_whole().then_some(driver)
}

pub fn compile(site: &mut StepCompiler<'_>, driver: &DriverSpec) -> Option<()> {
    // Checks that the folder or archive exists.
    find_folder(site, &driver.from, &driver.only)?;
    let (from, wanted) = match &driver.from {
        StepContent::Local(path) => {
            let packages = local_packages(site, path, &driver.only)?;
            (
                DriverFolder::Local(path.value.clone()),
                Some((path, packages)),
            )
        }
        // The files of an archive are not known yet.
        StepContent::Component(name) => (DriverFolder::Component(name.value.clone()), None),
    };
    let entry = site.add_entry(PayloadEntry::Drivers {
        from,
        only: driver.only.clone(),
    });
    let mut script = BatchScript::new();
    match wanted {
        Some((path, packages)) if !driver.only.is_empty() => {
            add_packages(site, &mut script, entry, path, &packages)?;
        }
        _ => {
            let all = on_disc(entry, "*.inf");
            script.add_line(format!(
                "{PNPUTIL} /add-driver {all} /subdirs /install\nexit /b %errorlevel%"
            ));
        }
    }
    site.put_judged(script, ExitRule::Pnputil, 30 * MINUTE);
    site.guest_log = Some(GuestPath::from_static(r"C:\Windows\INF\setupapi.dev.log"));
    let only = driver.only.clone();
    site.expect(PlannedCheck::Driver {
        driver: ExpectedDrivers { entry, only },
    });
    Some(())
}

/// Adds one call per package. A failure ends the step; a needed restart is reported at the end.
fn add_packages(
    site: &mut StepCompiler<'_>,
    script: &mut BatchScript,
    entry: u32,
    from: &Located<PathBuf>,
    packages: &[String],
) -> Option<()> {
    script.add_line("set restart=0");
    for package in packages {
        let path = site.report_error(batch::escape(&package.replace('/', "\\")), &from.place)?;
        script.add_line(format!(
            "{PNPUTIL} /add-driver {} /install\n\
             set code=%errorlevel%\n\
             if %code%==3010 set restart=3010\n\
             if not %code%==0 if not %code%==259 if not %code%==3010 exit /b %code%",
            on_disc(entry, &path)
        ));
    }
    script.add_line("exit /b %restart%");
    Some(())
}

/// Returns the INFs of the folder that match `only`, separated by `/`, sorted. Reports an error if
/// there are none, or if a package is incomplete.
fn local_packages(
    site: &mut StepCompiler<'_>,
    folder: &Located<PathBuf>,
    only: &[String],
) -> Option<Vec<String>> {
    let filter = ArchiveFilter {
        strip: 0,
        only: only.to_vec(),
    };
    // A malformed pattern is a separate error.
    site.report_error(filter.should_include("any"), &folder.place)?;
    let found = winimg_formats::driver::in_folder(&folder.value, |inf: &str| {
        filter.should_include(inf).unwrap_or(false)
    })
    .map_err(|e| {
        let shown = folder.value.display();
        format!("cannot read the folder `{shown}`: {}", e.fact_with_causes())
    });
    let faults = match site.report_error(found, &folder.place)? {
        Ok(chosen) => {
            let infs = chosen.packages.into_iter().map(|package| package.inf);
            return Some(infs.collect());
        }
        Err(faults) => faults,
    };
    let shown = folder.value.display();
    for fault in faults {
        if fault.inf.is_none() && !only.is_empty() {
            let message = format!("`{shown}` contains no `.inf` file that matches `only`");
            let help = "patterns match paths in the folder: `only = [\"vioscsi/2k22/amd64/*\"]`";
            site.error_with_help(&folder.place, message, "searched here", help);
            continue;
        }
        let message = format!("`{shown}`: {}", fault.problem.in_one_line());
        let help = fault.problem.cures.join("; ");
        site.error_with_help(&folder.place, message, "searched here", help);
    }
    None
}
