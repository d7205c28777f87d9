//! `[media]` and `[setup]`: the installation media, and the installation itself.

use std::path::Path;
use std::time::Duration;

use super::{component, draft};
use crate::document::value::TomlData;
use crate::fields::{FileRequirement, TableReader};
use crate::model::guest_name;
use crate::{DownloadSpec, InputId, MediaSpec, SetupSpec, SignatureScope, is_driver_name};
use winimg_base::text::Located;

/// Reads `[media]`, with placeholders for wrong parts, and returns true if there are none.
pub fn read_media(top: &TableReader<'_>) -> (MediaSpec, bool) {
    let shape = "write `[media]` with `image = \"…\"`, and `[media.iso]` with `url` and `sha256`";
    if !top.has("media") {
        top.cx
            .report_missing("the recipe has no [media]", &top.place, shape);
    }
    let Some(fields) = top.read_table("media") else {
        return (draft::make_media(&top.place), false);
    };
    let iso = download(&fields, "iso", InputId::Iso);
    let has_virtio = fields.has("virtio");
    let virtio = download(&fields, "virtio", InputId::Virtio);
    let image = read_image_name(&fields);
    let product_key = product_key(&fields);
    let language = read_language(&fields);
    let time_zone = time_zone(&fields);
    let parts = [
        iso.is_some(),
        virtio.is_some() || !has_virtio,
        image.is_some(),
        language.is_some(),
        time_zone.is_some(),
    ];
    let place = &fields.place;
    let media = MediaSpec {
        iso: iso.unwrap_or_else(|| draft::make_origin(place)),
        virtio,
        image: image.unwrap_or_else(|| draft::make_text(place)),
        product_key,
        language: language.unwrap_or_else(|| draft::make_text(place)),
        time_zone: time_zone.unwrap_or_else(|| draft::make_text(place)),
    };
    (media, parts.iter().all(|whole| *whole))
}

fn download(fields: &TableReader<'_>, key: &str, input: InputId) -> Option<DownloadSpec> {
    let value = fields.get(key)?;
    let table = TableReader::open_as(fields.cx, value, "download", input.describe())?;
    component::read_origin(&table, &input, None)
}

/// A name, or an index that may be written as a number.
fn read_image_name(fields: &TableReader<'_>) -> Option<Located<String>> {
    if let Some(value) = fields.get("image")
        && let TomlData::Integer(index) = value.data
    {
        if index < 1 {
            fields.cx.error(
                "image indexes start at 1",
                &value.place,
                "",
                fields.help("image"),
            );
            return None;
        }
        return Some(Located::new(index.to_string(), value.place.clone()));
    }
    fields.read_string("image")
}

fn product_key(fields: &TableReader<'_>) -> Option<Located<String>> {
    // Packs pass an empty key for evaluation media.
    let key = fields
        .read_string("product_key")
        .filter(|k| !k.value.is_empty())?;
    let groups: Vec<&str> = key.value.split('-').collect();
    let has_form = groups.len() == 5
        && groups
            .iter()
            .all(|group| group.len() == 5 && group.chars().all(|c| c.is_ascii_alphanumeric()));
    if key.value == "kms" || has_form {
        return Some(key);
    }
    let fact = "`product_key` is not a product key";
    let help = "write five groups of five letters and digits, or \"kms\" for the edition's public \
                KMS client key; omit it for evaluation media";
    fields.cx.error(fact, &key.place, "", help);
    None
}

/// Reads the language and region that Setup expects.
fn read_language(fields: &TableReader<'_>) -> Option<Located<String>> {
    let tag = fields.read_string("language")?;
    let parts: Vec<&str> = tag.value.split('-').collect();
    let right = (2..=3).contains(&parts.len())
        && (2..=3).contains(&parts[0].len())
        && parts
            .iter()
            .all(|p| p.len() >= 2 && p.chars().all(|c| c.is_ascii_alphanumeric()));
    if right {
        return Some(tag);
    }
    let fact = format!("`language` is not a language and region: \"{}\"", tag.value);
    fields
        .cx
        .error(fact, &tag.place, "", "write it as en-US, de-DE, zh-CN");
    None
}

fn time_zone(fields: &TableReader<'_>) -> Option<Located<String>> {
    let zone = fields.read_string("time_zone")?;
    if zone.value.contains('/') {
        let fact = format!("`time_zone` is not a Windows time zone: \"{}\"", zone.value);
        let help = "Windows has its own names, such as \"W. Europe Standard Time\"; list them with \
                    `tzutil /l`";
        fields.cx.error(fact, &zone.place, "", help);
        return None;
    }
    Some(zone)
}

const DRIVERS: &[&str] = &["viostor", "vioscsi", "NetKVM", "vioserial"];

pub fn setup(top: &TableReader<'_>) -> Option<SetupSpec> {
    let empty = Default::default();
    let fields = top.table_or("setup", &empty)?;
    let answer_file = fields.read_local_path("answer_file", FileRequirement::MustExist);
    let lint_is_advice = fields.is("lint", "warn");
    let computer_name = computer_name(&fields);
    let timeout = read_time(&fields, "timeout");
    let still_limit = read_time(&fields, "still_limit");
    let settle_time = read_time(&fields, "settle_time");
    let own_drivers =
        Some(top.cx.sources.resolve_local(&top.place, "drivers")).filter(|p| p.is_dir());
    let drivers = read_drivers(&fields, top, own_drivers.as_deref());
    let setup = SetupSpec {
        answer_file,
        lint_is_advice,
        computer_name: computer_name?,
        timeout: timeout?,
        still_limit: still_limit?,
        settle_time: settle_time?,
        drivers,
        own_drivers,
    };
    fields.is_whole().then_some(setup)
}

/// Sets the drivers that catalog signatures cover: those from the medium, not those beside the
/// recipe.
pub fn name_drivers(media: &mut MediaSpec, setup: &SetupSpec) {
    let own = setup.own_drivers.as_deref();
    let taken: Vec<String> = setup
        .drivers
        .iter()
        .filter(|name| !has_driver(own, name))
        .cloned()
        .collect();
    let signatures = media.virtio.iter_mut().flat_map(|v| &mut v.signatures);
    for signature in signatures.flatten() {
        if let SignatureScope::Drivers(drivers) = &mut signature.covers {
            drivers.clone_from(&taken);
        }
    }
}

fn computer_name(fields: &TableReader<'_>) -> Option<String> {
    let name = fields.read_string("computer_name")?;
    match guest_name::computer_name(&name.value) {
        Ok(()) => Some(name.value),
        Err((why, help)) => {
            let fact = format!("`computer_name` cannot be \"{}\": {why}", name.value);
            fields.cx.error(fact, &name.place, "", &help);
            None
        }
    }
}

fn read_time(fields: &TableReader<'_>, key: &str) -> Option<Duration> {
    let time = fields.read_duration(key)?;
    if time.value.is_zero() {
        fields
            .cx
            .error(format!("`{key}` must not be zero"), &time.place, "", "");
        return None;
    }
    Some(time.value)
}

/// Returns true if the recipe's own `drivers` folder has this driver.
fn has_driver(own: Option<&Path>, name: &str) -> bool {
    own.is_some_and(|own| own.join(name).is_dir())
}

/// Reads the driver folders, of the recipe's own `drivers` or of the virtio-win ISO.
fn read_drivers(
    fields: &TableReader<'_>,
    top: &TableReader<'_>,
    own: Option<&Path>,
) -> Vec<String> {
    let media = top.table.get("media").and_then(|m| m.as_table());
    let virtio = media.is_some_and(|m| m.contains("virtio"));
    if !fields.has("drivers") {
        if !virtio {
            return Vec::new();
        }
        let names: Vec<String> = DRIVERS.iter().map(|d| d.to_string()).collect();
        fields.cx.default("setup.drivers", serde_json::json!(names));
        return names;
    }
    let drivers = fields.read_strings("drivers");
    for driver in drivers.iter().filter(|d| !is_driver_name(&d.value)) {
        let fact = format!("\"{}\" is not a driver folder", driver.value);
        let help = "use letters, digits, `-` and `_`, such as \"viostor\"";
        fields.cx.error(fact, &driver.place, "", help);
    }
    let missing = drivers
        .iter()
        .find(|driver| !virtio && !has_driver(own, &driver.value));
    if let Some(missing) = missing {
        let fact = "drivers come from the virtio-win ISO, but the recipe has none";
        let help = format!(
            "add it under `[media.virtio]`, or put the driver into drivers/{} beside the recipe",
            missing.value
        );
        fields.cx.report_missing(fact, &missing.place, &help);
    }
    drivers.into_iter().map(|d| d.value).collect()
}
