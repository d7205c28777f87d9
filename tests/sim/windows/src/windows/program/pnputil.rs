//! pnputil.exe: driver packages into the driver store and, with `/install`, onto the devices that are there.
//!
//! A package needs its catalog and every file of its SourceDisksFiles beside the INF. Codes: 0 done, 259 no device takes
//! it, 3010 a reboot finishes it; a package that can't be added gives Windows' error.

mod inf;

use std::hash::{DefaultHasher, Hash, Hasher};

use inf::Inf;

use super::Arguments;
use super::small::unknown;
use crate::windows::boot::strings;
use crate::windows::cmd::{below_fits, pattern_matches};
use crate::windows::process::Process;
use crate::windows::regf::same;
use crate::windows::registry::{dword_value, expand_sz, multi_sz, sz};
use crate::windows::service;
use crate::windows::volume::Located;

const STORE: &str = r"C:\Windows\System32\DriverStore\FileRepository";
const PUBLISHED: &str = r"HKLM\SYSTEM\DriverDatabase\DriverInfFiles";
const NO_DEVICE: u32 = 259;
/// "The third-party INF does not contain digital signature information."
const NO_CATALOG: u32 = 0xE000_022F;
/// "The required section was not found in the INF" and its kin.
const BAD_INF: u32 = 0xE000_0101;

pub fn run(p: &mut Process, args: &Arguments) -> u32 {
    let words: Vec<String> = args
        .list
        .iter()
        .map(|arg| arg.to_ascii_lowercase())
        .collect();
    let Some(verb) = words.first() else {
        return unknown(p, "pnputil", "no command", 87);
    };
    let options = |from: usize, known: &[&str]| {
        let odd = words[from.min(words.len())..]
            .iter()
            .find(|word| !known.contains(&word.as_str()));
        odd.cloned().map_or(Ok(()), Err)
    };
    let judged = match verb.as_str() {
        "/add-driver" if words.len() > 1 => options(2, &["/subdirs", "/install", "/reboot"]),
        "/delete-driver" if words.len() > 1 => options(2, &["/uninstall", "/force", "/reboot"]),
        "/enum-drivers" => options(1, &[]),
        other => Err(other.to_owned()),
    };
    if let Err(odd) = judged {
        return unknown(p, "pnputil", &odd, 87);
    }
    p.print("Microsoft PnP Utility\n\n");
    let has = |option: &str| words.iter().any(|word| word == option);
    match verb.as_str() {
        "/add-driver" => add(p, &args.list[1], has("/subdirs"), has("/install")),
        "/delete-driver" => delete(p, &args.list[1], has("/force")),
        _ => enumerate(p),
    }
}

// ------------------------------------------------------------------------------------------------------------- adding

fn add(p: &mut Process, pattern: &str, below: bool, install: bool) -> u32 {
    let mut found: Vec<Located> = pattern_matches(p, pattern)
        .into_iter()
        .filter(Located::is_file)
        .collect();
    if below {
        found.extend(below_fits(p, pattern));
    }
    found.retain(|file| file.name.to_ascii_lowercase().ends_with(".inf"));
    if found.is_empty() {
        let code = p
            .locate(pattern.trim_end_matches("*.inf").trim_end_matches('*'))
            .map_or_else(|e| e.0, |at| at.missing().0);
        p.print(
            "Failed to enumerate driver packages: The system cannot find the file specified.\n",
        );
        return code;
    }
    let (total, mut added, mut code) = (found.len(), 0, None);
    for inf in found {
        p.print(&format!("Adding driver package:  {}\n", inf.file_name()));
        let (message, one) = match stage(p, &inf) {
            Ok(package) => {
                added += 1;
                let text = format!(
                    "Driver package added successfully.{}\nPublished Name:         {}\n",
                    if package.known {
                        " (Already exists in the system)"
                    } else {
                        ""
                    },
                    package.oem
                );
                match install.then(|| attach(p, &package)) {
                    None => (text, 0),
                    Some(Ok(true)) => (text + "Driver package installed on matching devices.\n", 0),
                    Some(Ok(false)) => (text, NO_DEVICE),
                    Some(Err(why)) => (format!("{text}{why}\n"), BAD_INF),
                }
            }
            Err((code, why)) => (format!("Failed to add driver package: {why}\n"), code),
        };
        p.print(&format!("{message}\n"));
        // A failure outlasts everything, "installed" outlasts "no device".
        code = Some(match code {
            None => one,
            Some(old) if old > NO_DEVICE => old,
            Some(_) if one > NO_DEVICE => one,
            Some(old) => old.min(one),
        });
    }
    p.print(&format!(
        "Total driver packages:  {total}\nAdded driver packages:  {added}\n"
    ));
    code.unwrap_or(NO_DEVICE)
}

struct Package {
    inf: Inf,
    oem: String,
    store: String,
    known: bool,
}

fn stage(p: &Process, file: &Located) -> Result<Package, (u32, String)> {
    let bytes = std::fs::read(&file.host).map_err(|e| (5, e.to_string()))?;
    let inf = Inf::parse(&bytes);
    let signature = inf.get("Version", "Signature").unwrap_or_default();
    if !["$windows nt$", "$chicago$"].contains(&signature.to_ascii_lowercase().as_str()) {
        return Err((
            BAD_INF,
            "The INF has no [Version] section with a Signature.".into(),
        ));
    }
    let catalog = ["CatalogFile.NTamd64", "CatalogFile.NT", "CatalogFile"]
        .iter()
        .find_map(|key| inf.get("Version", key));
    let catalog = catalog.ok_or_else(|| {
        (
            NO_CATALOG,
            "The third-party INF does not contain digital signature information.".to_owned(),
        )
    })?;
    let dir = file.name.rsplit_once('\\').map_or("", |(dir, _)| dir);
    let mut names = vec![catalog];
    names.extend(
        ["SourceDisksFiles", "SourceDisksFiles.amd64"]
            .iter()
            .flat_map(|section| inf.keys(section)),
    );
    let mut sources = Vec::new();
    for name in names {
        let found = p
            .locate(&format!("{dir}\\{name}"))
            .and_then(|found| found.existing());
        sources.push((
            name.clone(),
            found.map_err(|error| (error.0, format!("{name}: {}", error.text())))?,
        ));
    }
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let name = file.file_name().to_ascii_lowercase();
    let store = format!("{STORE}\\{name}_amd64_{:016x}", hasher.finish());
    let folder = store.rsplit('\\').next().unwrap_or("").to_owned();
    let published = published(p);
    if let Some((oem, _)) = published.iter().find(|(_, at)| same(at, &folder)) {
        return Ok(Package {
            inf,
            oem: oem.clone(),
            store,
            known: true,
        });
    }
    let number = (0..)
        .find(|n| {
            !published
                .iter()
                .any(|(oem, _)| same(oem, &format!("oem{n}.inf")))
        })
        .unwrap_or(0);
    let oem = format!("oem{number}.inf");
    let copied = || -> std::io::Result<()> {
        let at = |path: &str| {
            p.locate(path)
                .map(|found| found.host)
                .map_err(|error| std::io::Error::other(error.text()))
        };
        std::fs::create_dir_all(at(&store)?)?;
        std::fs::write(at(&format!("{store}\\{name}"))?, &bytes)?;
        for (name, source) in &sources {
            std::fs::write(
                at(&format!("{store}\\{name}"))?,
                std::fs::read(&source.host)?,
            )?;
        }
        std::fs::write(at(&format!(r"C:\Windows\INF\{oem}"))?, &bytes)
    };
    copied().map_err(|e| (5, e.to_string()))?;
    let mut registry = p.machine.registry();
    let written = registry
        .set(&format!("{PUBLISHED}\\{oem}"), "", multi_sz(&[&folder]))
        .and_then(|()| registry.set(&format!("{PUBLISHED}\\{oem}"), "Active", sz(&folder)));
    written.map_err(|e| (5, e))?;
    Ok(Package {
        inf,
        oem,
        store,
        known: false,
    })
}

/// Published names and the store folders they stand for.
fn published(p: &Process) -> Vec<(String, String)> {
    let registry = p.machine.registry();
    let Some(key) = registry.key(PUBLISHED) else {
        return Vec::new();
    };
    let names = key.subkeys.values().map(|key| key.name.clone());
    names
        .map(|oem| {
            (
                oem.clone(),
                strings(&registry, &format!("{PUBLISHED}\\{oem}"), "")
                    .into_iter()
                    .next()
                    .unwrap_or_default(),
            )
        })
        .collect()
}

/// Installs the package on the devices that match; whether there were any.
fn attach(p: &Process, package: &Package) -> Result<bool, String> {
    let devices = p.machine.devices();
    let inf = &package.inf;
    for models in inf
        .keys("Manufacturer")
        .iter()
        .filter_map(|maker| inf.get("Manufacturer", maker))
    {
        let mut parts = models.split(',').map(str::trim);
        let base = parts.next().unwrap_or("").to_owned();
        let sections: Vec<String> = parts
            .map(|decoration| format!("{base}.{decoration}"))
            .chain([base.clone()])
            .collect();
        for section in sections {
            for (_, model) in inf.entries(&section) {
                let mut ids = model.split(',').map(str::trim);
                let install = ids.next().unwrap_or("").to_owned();
                if ids.any(|id| devices.iter().any(|device| matches_id(device, id))) {
                    services(p, package, &install)?;
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

/// A device's full id begins with the id of the INF: `PCI\VEN_1AF4&DEV_1003&SUBSYS_…`.
fn matches_id(device: &str, id: &str) -> bool {
    let (device, id) = (device.to_ascii_uppercase(), id.to_ascii_uppercase());
    !id.is_empty()
        && device
            .strip_prefix(&id)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('&'))
}

/// Copies the driver into `System32\drivers` and registers the services of the install section.
fn services(p: &Process, package: &Package, install: &str) -> Result<(), String> {
    let inf = &package.inf;
    let section = ["NTamd64", "NT", ""].iter().find_map(|end| {
        let name = if end.is_empty() {
            format!("{install}.Services")
        } else {
            format!("{install}.{end}.Services")
        };
        (!inf.entries(&name).is_empty()).then_some(name)
    });
    let Some(section) = section else {
        return Ok(());
    };
    for (_, line) in inf
        .entries(&section)
        .iter()
        .filter(|(key, _)| same(key, "AddService"))
    {
        let parts: Vec<&str> = line.split(',').map(str::trim).collect();
        let (Some(name), Some(settings)) =
            (parts.first().filter(|name| !name.is_empty()), parts.get(2))
        else {
            continue;
        };
        let number = |key: &str, other: u32| {
            let text = inf
                .get(settings, key)
                .unwrap_or_default()
                .to_ascii_lowercase();
            text.strip_prefix("0x")
                .map_or_else(
                    || text.parse().ok(),
                    |hex| u32::from_str_radix(hex, 16).ok(),
                )
                .unwrap_or(other)
        };
        let binary = inf
            .get(settings, "ServiceBinary")
            .ok_or("the INF names no ServiceBinary")?;
        let file = binary.rsplit('\\').next().unwrap_or("").to_owned();
        let from = p
            .locate(&format!("{}\\{file}", package.store))
            .map_err(|error| error.text())?;
        let to = p
            .locate(&format!(r"C:\Windows\System32\drivers\{file}"))
            .map_err(|error| error.text())?;
        std::fs::copy(from.host, to.host).map_err(|e| e.to_string())?;
        let key = service::key(name);
        let mut registry = p.machine.registry();
        registry.set(&key, "Type", dword_value(number("ServiceType", 1)))?;
        registry.set(&key, "Start", dword_value(number("StartType", 3)))?;
        registry.set(&key, "ErrorControl", dword_value(number("ErrorControl", 1)))?;
        registry.set(
            &key,
            "ImagePath",
            expand_sz(&format!(r"\SystemRoot\System32\drivers\{file}")),
        )?;
        registry.set(&key, "Owners", multi_sz(&[&package.oem]))?;
    }
    Ok(())
}

fn delete(p: &mut Process, name: &str, force: bool) -> u32 {
    let Some((oem, folder)) = published(p).into_iter().find(|(oem, _)| same(oem, name)) else {
        p.print("Failed to delete driver package: The system cannot find the file specified.\n");
        return 2;
    };
    let registry = p.machine.registry();
    let owned = |name: &String| {
        strings(&registry, &service::key(name), "Owners")
            .iter()
            .any(|owner| same(owner, &oem))
    };
    let in_use = service::names(&registry).iter().any(owned);
    drop(registry);
    if in_use && !force {
        p.print("Failed to delete driver package: One or more devices are presently installed using the specified INF.\n");
        return 0xE000_023D;
    }
    for path in [
        format!("{STORE}\\{folder}"),
        format!(r"C:\Windows\INF\{oem}"),
    ] {
        if let Ok(found) = p.locate(&path) {
            let gone = if found.is_dir() {
                std::fs::remove_dir_all(found.host)
            } else {
                std::fs::remove_file(found.host)
            };
            if let Err(e) = gone {
                p.print(&format!("Failed to delete driver package: {e}\n"));
                return 5;
            }
        }
    }
    p.machine.registry().remove(&format!("{PUBLISHED}\\{oem}"));
    p.print("Driver package deleted successfully.\n");
    0
}

fn enumerate(p: &mut Process) -> u32 {
    for (oem, folder) in published(p) {
        let original = folder.split("_amd64_").next().unwrap_or("").to_owned();
        let inf = p
            .locate(&format!(r"C:\Windows\INF\{oem}"))
            .ok()
            .and_then(|found| std::fs::read(found.host).ok());
        let inf = Inf::parse(&inf.unwrap_or_default());
        let get = |key: &str| inf.get("Version", key).unwrap_or_default();
        p.print(&format!(
            "Published Name:     {oem}\nOriginal Name:      {original}\nProvider Name:      {}\nClass Name:         {}\nDriver Version:     {}\n\n",
            get("Provider"),
            get("Class"),
            get("DriverVer").replace(',', " ")
        ));
    }
    0
}
