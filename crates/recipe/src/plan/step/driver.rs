//! `driver`: every driver package of a folder into the driver store, and onto the devices that are there (Microsoft:
//! PnPUtil command syntax, PnPUtil return values).
//!
//! Straight from the payload disc: `pnputil.exe` copies what a package names into the store, so nothing of the disc is
//! needed later.

use std::path::PathBuf;

use super::super::batch::{self, Script};
use super::super::check::Packages;
use super::super::site::{MINUTE, Site, on_disc};
use super::super::{ExitRule, Planned};
use super::files::folder;
use crate::recipe::verb::Driver;
use crate::recipe::{Content, GuestPath};
use winimg_base::io;
use winimg_base::text::Located;
use winimg_formats::archive::Filter;

const PNPUTIL: &str = r"C:\Windows\System32\pnputil.exe";

pub(super) fn driver(site: &mut Site<'_>, driver: &Driver) -> Option<()> {
    let entry = folder(site, &driver.from, &driver.only)?;
    let wanted = match &driver.from {
        Content::Local(path) => Some((path, local_packages(site, path, &driver.only)?)),
        // Which files an archive holds is known when it is there.
        Content::Component(_) => None,
    };
    let entry = site.entry(entry);
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

/// The `.inf` files of the folder that `only` takes, `/` between folders, sorted. None at all is a mistake.
fn local_packages(
    site: &mut Site<'_>,
    folder: &Located<PathBuf>,
    only: &[String],
) -> Option<Vec<String>> {
    let filter = Filter {
        strip: 0,
        only: only.to_vec(),
    };
    let listed = io::files_below(&folder.value).map_err(|e| {
        format!(
            "the folder `{}` cannot be read: {e}",
            folder.value.display()
        )
    });
    let files = site.judged(listed, &folder.place)?;
    let mut packages = Vec::new();
    for file in files {
        let taken = site.judged(filter.takes(&file), &folder.place)?;
        if taken && file.to_ascii_lowercase().ends_with(".inf") {
            packages.push(file);
        }
    }
    if packages.is_empty() {
        let shown = folder.value.display();
        let (message, help) = match only.is_empty() {
            true => (
                format!("`{shown}` holds no driver package"),
                "a driver package has an `.inf` file",
            ),
            false => (
                format!("`{shown}` holds no `.inf` file that `only` takes"),
                "patterns are over the folder's paths: `only = [\"vioscsi/2k22/amd64/*\"]`",
            ),
        };
        site.error_with_help(&folder.place, message, "looked for here", help);
        return None;
    }
    Some(packages)
}
