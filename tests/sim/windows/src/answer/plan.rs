//! What Setup decides in the windowsPE pass: from the answer file, the medium, the firmware and the disks to one
//! installation, or to the screen that stops it.
//!
//! Decides in Windows' order: settings, language, product key, image, licence, disk, target. Nothing is touched here.
//!
//! Sources: Microsoft, Unattended Windows Setup Reference (Microsoft-Windows-Setup); field reports for the screens.

use super::document::{Answer, Element, Pass};
use super::{product_key, schema};
use crate::dialog::{self, Dialog};
use crate::layout::{self, DiskFacts, Format, Kind, Layout};
use crate::machine::Firmware;
use crate::medium::{Image, Medium};

/// Least room for an applied image. Windows Server asks for more; this only stops a partition that can't hold it.
const LEAST_TARGET: u64 = 10 << 30;

const SERVER_2025: u32 = 26100;

/// Everything Setup does afterwards follows from this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    pub layouts: Vec<Layout>,
    pub disk: u32,
    /// `PartitionID` of the Windows partition.
    pub partition: u32,
    /// `PartitionID` of the partition the firmware starts from.
    pub system: u32,
    /// 1-based index in install.wim.
    pub image: u32,
}

const PASS: Pass = Pass::WindowsPe;

/// What is checked before drivers are loaded: the settings themselves and the language page. `None`: no answer file.
pub fn start<'a>(answer: Option<&'a Answer>, medium: &Medium) -> Result<&'a Answer, Dialog> {
    let page = "Language to install:  English (United States)\nTime and currency format:  \nKeyboard or input method:  ";
    let Some(answer) = answer else {
        return Err(dialog::page(
            page,
            "no answer file with settings for pass windowsPE was found",
        ));
    };
    schema::check(answer, PASS)
        .map_err(|why| dialog::unknown_setting(&answer.path, PASS.name(), why))?;
    schema::not_modelled(answer, PASS).map_err(dialog::not_modelled)?;
    let international = answer.component(PASS, "International-Core-WinPE");
    let language = international.and_then(|component| component.text("SetupUILanguage/UILanguage"));
    let Some(language) = language else {
        return Err(dialog::page(page, "SetupUILanguage/UILanguage is missing"));
    };
    if !medium
        .languages
        .iter()
        .any(|held| held.eq_ignore_ascii_case(language))
    {
        return Err(dialog::page(
            page,
            format!(
                "language {language} is not on the medium ({})",
                medium.languages.join(", ")
            ),
        ));
    }
    Ok(answer)
}

/// The paths Setup searches for drivers, in the order of the file.
pub fn driver_paths(answer: &Answer, pass: Pass) -> Vec<&str> {
    let name = if pass == Pass::WindowsPe {
        "PnpCustomizationsWinPE"
    } else {
        "PnpCustomizationsNonWinPE"
    };
    let component = answer.component(pass, name);
    component
        .into_iter()
        .flat_map(|held| held.all("DriverPaths", "PathAndCredentials"))
        .filter_map(|item| item.text("Path"))
        .collect()
}

/// The installation that `answer` asks for on these disks.
pub fn install(
    answer: &Answer,
    medium: &Medium,
    firmware: Firmware,
    disks: &[DiskFacts],
) -> Result<Install, Dialog> {
    let empty = Element::default();
    let setup = answer.component(PASS, "Setup").unwrap_or(&empty);
    let key = read_key(setup, medium)?;
    let image = choose_image(setup, medium)?;
    if let Some(key) = key
        && !product_key::fits(key, medium.build, &image.edition_id)
    {
        return Err(dialog::cannot_read_key(format!(
            "the key is not one of {} build {}",
            image.edition_id, medium.build
        )));
    }
    if !setup.is_true("UserData/AcceptEula") {
        let text = "Applicable notices and license terms\n\n[ ] I accept the license terms";
        return Err(dialog::page(text, "UserData/AcceptEula is not true"));
    }
    let configuration = setup
        .get("DiskConfiguration")
        .filter(|found| found.all("", "Disk").next().is_some());
    let Some(configuration) = configuration else {
        return Err(dialog::page(
            "Where do you want to install Windows?",
            "DiskConfiguration names no disk",
        ));
    };
    let layouts = layout::plan(configuration, disks, firmware)
        .map_err(|why| dialog::cannot_apply("DiskConfiguration", why))?;
    let mut install = target(setup, layouts, image.index)?;
    if medium.build >= SERVER_2025 {
        let (disk, windows) = (install.disk, install.partition);
        let own = install.layouts.iter_mut().filter(|l| l.disk == disk);
        own.for_each(|layout| layout::recovery_of_2025(layout, windows));
    }
    Ok(install)
}

fn read_key<'a>(setup: &'a Element, medium: &Medium) -> Result<Option<&'a str>, Dialog> {
    let key = setup.text("UserData/ProductKey/Key");
    match key {
        None if medium.evaluation => Ok(None),
        None => Err(dialog::page(
            "Enter the product key to activate Windows",
            "retail medium and no UserData/ProductKey/Key",
        )),
        Some("") => Err(dialog::cannot_read_key("<Key> is empty")),
        Some(key) if !product_key::well_formed(key) => {
            Err(dialog::cannot_read_key("<Key> is not five groups of five"))
        }
        Some(_) if medium.evaluation => {
            Err(dialog::cannot_read_key("evaluation medium takes no key"))
        }
        Some(key) => Ok(Some(key)),
    }
}

fn choose_image<'a>(setup: &Element, medium: &'a Medium) -> Result<&'a Image, Dialog> {
    let names: Vec<&str> = medium
        .images
        .iter()
        .map(|image| image.display_name.as_str())
        .collect();
    let text = format!(
        "Select the operating system you want to install\n\n{}",
        names.join("\n")
    );
    let page = |why: String| dialog::page(text.clone(), why);
    let items: Vec<&Element> = setup
        .all("ImageInstall/OSImage/InstallFrom", "MetaData")
        .collect();
    if items.is_empty() {
        return Err(page("no InstallFrom/MetaData names an image".to_owned()));
    }
    let mut found = None;
    for item in &items {
        let (Some(key), Some(value)) = (item.text("Key"), item.text("Value")) else {
            return Err(page("a MetaData lacks Key or Value".to_owned()));
        };
        let matches = |image: &&Image| match key.to_ascii_uppercase().as_str() {
            "/IMAGE/NAME" => image.name == value,
            "/IMAGE/DESCRIPTION" => image.description == value,
            "/IMAGE/INDEX" => value.parse() == Ok(image.index),
            _ => false,
        };
        let image = medium.images.iter().find(matches);
        let image =
            image.ok_or_else(|| page(format!("no image of install.wim has {key} = {value:?}")))?;
        if found.is_some_and(|other: &Image| other.index != image.index) {
            return Err(page(
                "the MetaData entries name different images".to_owned(),
            ));
        }
        found = Some(image);
    }
    found.ok_or_else(|| page("no image".to_owned()))
}

fn target(setup: &Element, layouts: Vec<Layout>, image: u32) -> Result<Install, Dialog> {
    let refuse = |why: String| dialog::cannot_apply("ImageInstall", why);
    let os = setup.get("ImageInstall/OSImage");
    let available = os.is_some_and(|os| os.is_true("InstallToAvailablePartition"));
    let wanted = os.and_then(|os| os.get("InstallTo"));
    let installable = |layout: &Layout, id: u64| {
        let fits = |held: &&layout::Partition| {
            held.kind == Kind::Primary
                && held.format == Some(Format::Ntfs)
                && held.length >= LEAST_TARGET
        };
        layout
            .partitions
            .iter()
            .filter(|held| id == 0 || u64::from(held.number) == id)
            .find(fits)
            .map(|held| held.number)
    };
    let (disk, partition) = match (wanted, available) {
        (Some(_), true) => {
            return Err(refuse(
                "InstallTo and InstallToAvailablePartition exclude each other".to_owned(),
            ));
        }
        (None, false) => {
            return Err(dialog::page(
                "Where do you want to install Windows?",
                "no InstallTo",
            ));
        }
        (None, true) => {
            let first = layouts
                .iter()
                .find_map(|layout| Some((layout.disk, installable(layout, 0)?)));
            first.ok_or_else(|| refuse("no partition is large enough and NTFS".to_owned()))?
        }
        (Some(to), false) => {
            let (Some(disk), Some(id)) = (to.number("DiskID"), to.number("PartitionID")) else {
                return Err(refuse("InstallTo needs DiskID and PartitionID".to_owned()));
            };
            let layout = layouts.iter().find(|layout| u64::from(layout.disk) == disk);
            let layout = layout.ok_or_else(|| {
                refuse(format!(
                    "InstallTo names disk {disk}, which is not configured"
                ))
            })?;
            let number = installable(layout, id.max(1)).ok_or_else(|| {
                refuse(format!("InstallTo names partition {id}, which is not a primary NTFS partition of 10 GiB or more"))
            })?;
            (layout.disk, number)
        }
    };
    // The firmware starts the first disk it can; Setup only writes boot files to the disk it installs to.
    let layout = layouts
        .iter()
        .find(|layout| layout.disk == disk)
        .ok_or_else(|| refuse("no layout".to_owned()))?;
    let system = layout::system_partition(layout)
        .map_err(dialog::no_system_partition)?
        .number;
    Ok(Install {
        disk,
        partition,
        system,
        image,
        layouts,
    })
}
