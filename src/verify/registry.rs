//! Registry values.

use winimg_formats::hive;

use super::finding::{Verdict, VerifyFinding};
use super::image::InspectedImage;
use winimg_recipe::{GuestPath, RegistryKey, RegistryValueData as Data};

const ENVIRONMENT: RegistryKey =
    RegistryKey::from_static(r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment");

/// Checks a value; `name` is empty for the default value. [`Data::Absent`] without a name requires
/// the key itself to be absent.
pub fn check_value(
    image: &InspectedImage<'_>,
    key: &RegistryKey,
    name: &str,
    data: &Data,
) -> Verdict {
    let shown = match name {
        "" => format!("{key}, the default value"),
        name => format!("{key}, {name}"),
    };
    let there = image.open_key(key)?;
    let found = match &there {
        Some(there) => there.find_value(name)?,
        None => None,
    };
    let cure = "find the later step or program that sets it";
    let Some(expected) = as_read(data) else {
        return match (there, found) {
            (None, _) => Ok(()),
            (Some(_), _) if name.is_empty() => {
                Err(VerifyFinding::error(format!("{key} still exists")).cure(cure))
            }
            (Some(_), None) => Ok(()),
            (Some(_), Some(found)) => Err(VerifyFinding::error(format!("{shown} still exists"))
                .found(found)
                .cure(cure)),
        };
    };
    match (there, found) {
        (_, Some(found)) if found == expected => Ok(()),
        (_, Some(found)) => Err(VerifyFinding::error(format!("{shown} has another value"))
            .expected(expected)
            .found(found)
            .cure(cure)),
        (there, None) => {
            let what = match there {
                Some(_) => "no such value",
                None => "no such key",
            };
            Err(VerifyFinding::error(format!("{shown} is missing"))
                .expected(expected)
                .found(what)
                .cure("check whether a later step removes it"))
        }
    }
}

/// Converts the expected data; `None` if the value must be absent.
fn as_read(data: &Data) -> Option<hive::HiveValueData> {
    Some(match data {
        Data::Sz(text) => hive::HiveValueData::Sz(text.clone()),
        Data::ExpandSz(text) => hive::HiveValueData::ExpandSz(text.clone()),
        Data::MultiSz(list) => hive::HiveValueData::MultiSz(list.clone()),
        Data::Dword(n) => hive::HiveValueData::Dword(*n),
        Data::Qword(n) => hive::HiveValueData::Qword(*n),
        Data::Binary(bytes) => hive::HiveValueData::Binary(bytes.clone()),
        Data::Absent => return None,
    })
}

/// Checks that the machine's `Path` lists a folder, with or without a trailing slash and in any
/// case. Variables are only expanded in REG_EXPAND_SZ.
pub fn path_folder(image: &InspectedImage<'_>, folder: &GuestPath) -> Verdict {
    const CURE: &str = "find the later step that overwrites Path";
    match image.read_value(&ENVIRONMENT, "Path")? {
        // The same for every folder, so that it is reported once (see `Report::add`).
        None => Err(VerifyFinding::error("the machine has no Path")
            .expected("REG_EXPAND_SZ")
            .cure(CURE)),
        Some(hive::HiveValueData::ExpandSz(list)) => {
            let is_listed = list.split(';').any(|listed| {
                let listed = listed.trim_matches('"').parse::<GuestPath>();
                listed.is_ok_and(|listed| listed == *folder)
            });
            if is_listed {
                Ok(())
            } else {
                Err(VerifyFinding::error(format!("Path does not list {folder}"))
                    .expected(format!("REG_EXPAND_SZ with {folder}"))
                    .found(list)
                    .cure(CURE))
            }
        }
        Some(other) => Err(
            VerifyFinding::error("Windows does not expand the machine's Path")
                .expected("REG_EXPAND_SZ")
                .found(other)
                .cure(CURE),
        ),
    }
}
