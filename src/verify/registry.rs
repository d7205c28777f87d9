//! Values of the registry.

use winimg_formats::hive;

use super::finding::{Finding, Verdict};
use super::image::Image;
use winimg_recipe::recipe::{GuestPath, RegistryData as Data, RegistryKey};

const ENVIRONMENT: RegistryKey =
    RegistryKey::known(r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment");

/// `name` is empty for the default value. For [`Data::Absent`] without a name the key itself must not be there.
pub fn value(image: &Image<'_>, key: &RegistryKey, name: &str, data: &Data) -> Verdict {
    let shown = match name {
        "" => format!("{key}, the default value"),
        name => format!("{key}, {name}"),
    };
    let there = image.key(key)?;
    let found = match &there {
        Some(there) => there.value(name)?,
        None => None,
    };
    let cure = "see which later step or program sets it";
    let Some(expected) = as_read(data) else {
        return match (there, found) {
            (None, _) => Ok(()),
            (Some(_), _) if name.is_empty() => {
                Err(Finding::error(format!("{key} is still there")).cure(cure))
            }
            (Some(_), None) => Ok(()),
            (Some(_), Some(found)) => Err(Finding::error(format!("{shown} is still there"))
                .found(found)
                .cure(cure)),
        };
    };
    match (there, found) {
        (_, Some(found)) if found == expected => Ok(()),
        (_, Some(found)) => Err(Finding::error(format!("{shown} is something else"))
            .expected(expected)
            .found(found)
            .cure(cure)),
        (there, None) => {
            let what = match there {
                Some(_) => "no such value",
                None => "no such key",
            };
            Err(Finding::error(format!("{shown} is missing"))
                .expected(expected)
                .found(what)
                .cure("see whether a later step removes it"))
        }
    }
}

/// `None`: nothing has to be there.
fn as_read(data: &Data) -> Option<hive::Data> {
    Some(match data {
        Data::Sz(text) => hive::Data::Sz(text.clone()),
        Data::ExpandSz(text) => hive::Data::ExpandSz(text.clone()),
        Data::MultiSz(list) => hive::Data::MultiSz(list.clone()),
        Data::Dword(n) => hive::Data::Dword(*n),
        Data::Qword(n) => hive::Data::Qword(*n),
        Data::Binary(bytes) => hive::Data::Binary(bytes.clone()),
        Data::Absent => return None,
    })
}

/// Windows takes the folder with or without a slash at its end, in any case; unexpanded names only help in REG_EXPAND_SZ.
pub fn path_folder(image: &Image<'_>, folder: &GuestPath) -> Verdict {
    let found = image.value(&ENVIRONMENT, "Path")?;
    let wrong = |what: String, expected: String| {
        Finding::error(what)
            .expected(expected)
            .cure("see which later step sets Path as a whole")
    };
    // Of the value as a whole, whatever folder is asked for: reported once (see `Report::add`).
    let kind = || "REG_EXPAND_SZ".to_owned();
    let is_it = |listed: &str| {
        let listed = listed.trim_matches('"').parse::<GuestPath>();
        listed.is_ok_and(|listed| listed == *folder)
    };
    match found {
        None => Err(wrong("the machine has no Path".to_owned(), kind())),
        Some(hive::Data::ExpandSz(list)) => match list.split(';').any(is_it) {
            true => Ok(()),
            false => Err(wrong(
                format!("Path does not list {folder}"),
                format!("REG_EXPAND_SZ with {folder}"),
            )
            .found(list)),
        },
        Some(other) => {
            let what = "the machine's Path is not expanded by Windows".to_owned();
            Err(wrong(what, kind()).found(other))
        }
    }
}
