//! `[media]` and `[setup]`: what Windows is installed from, and how.

use std::path::Path;
use std::time::Duration;

use super::{component, draft};
use crate::recipe::fields::Fields;
use crate::recipe::value::Data;
use crate::recipe::{Covers, InputId, Media, Origin, SetupSpec, guest_name, is_driver_name};
use winimg_base::text::Located;

/// What is right of it, and whether that is all.
pub fn media(top: &Fields<'_>) -> (Media, bool) {
    let shape = "write `[media]` with `image = \"…\"`, and `[media.iso]` with `url` and `sha256`";
    if !top.has("media") {
        top.cx
            .missing("the recipe has no [media]", &top.place, shape);
    }
    let Some(fields) = top.table("media") else {
        return (draft::media(&top.place), false);
    };
    let iso = download(&fields, "iso", InputId::Iso);
    let has_virtio = fields.has("virtio");
    let virtio = download(&fields, "virtio", InputId::Virtio);
    let image = image(&fields);
    let product_key = product_key(&fields);
    let language = language(&fields);
    let time_zone = time_zone(&fields);
    let parts = [
        iso.is_some(),
        virtio.is_some() || !has_virtio,
        image.is_some(),
        language.is_some(),
        time_zone.is_some(),
    ];
    let place = &fields.place;
    let media = Media {
        iso: iso.unwrap_or_else(|| draft::origin(place)),
        virtio,
        image: image.unwrap_or_else(|| draft::text(place)),
        product_key,
        language: language.unwrap_or_else(|| draft::text(place)),
        time_zone: time_zone.unwrap_or_else(|| draft::text(place)),
    };
    (media, parts.iter().all(|whole| *whole))
}

fn download(fields: &Fields<'_>, key: &str, input: InputId) -> Option<Origin> {
    let value = fields.get(key)?;
    let table = Fields::called(fields.cx, value, "download", input.described())?;
    component::origin(&table, &input, None)
}

/// A name, or an index that may be written as a number.
fn image(fields: &Fields<'_>) -> Option<Located<String>> {
    if let Some(value) = fields.get("image")
        && let Data::Integer(index) = value.data
    {
        if index < 1 {
            fields.cx.error(
                "images are counted from 1",
                &value.place,
                "",
                fields.help("image"),
            );
            return None;
        }
        return Some(Located::new(index.to_string(), value.place.clone()));
    }
    fields.string("image")
}

fn product_key(fields: &Fields<'_>) -> Option<Located<String>> {
    // A pack has one text for all media: without a key for evaluation ones.
    let key = fields
        .string("product_key")
        .filter(|k| !k.value.is_empty())?;
    let plain = |s: &str| s.len() == 5 && s.chars().all(|c| c.is_ascii_alphanumeric());
    let groups: Vec<&str> = key.value.split('-').collect();
    if key.value == "kms" || (groups.len() == 5 && groups.iter().all(|g| plain(g))) {
        return Some(key);
    }
    let fact = "`product_key` is not a product key";
    let help = "five groups of five letters and digits, or \"kms\" for the edition's public KMS client key; \
                on evaluation media leave it out";
    fields.cx.error(fact, &key.place, "", help);
    None
}

/// Language and region, as Setup wants them.
fn language(fields: &Fields<'_>) -> Option<Located<String>> {
    let tag = fields.string("language")?;
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

fn time_zone(fields: &Fields<'_>) -> Option<Located<String>> {
    let zone = fields.string("time_zone")?;
    if zone.value.contains('/') {
        let fact = format!(
            "`time_zone` is not Windows's name for a zone: \"{}\"",
            zone.value
        );
        let help = "Windows has its own names, such as \"W. Europe Standard Time\"; `tzutil /l` lists them";
        fields.cx.error(fact, &zone.place, "", help);
        return None;
    }
    Some(zone)
}

const DRIVERS: &[&str] = &["viostor", "vioscsi", "NetKVM", "vioserial"];

pub fn setup(top: &Fields<'_>) -> Option<SetupSpec> {
    let empty = Default::default();
    let fields = top.table_or("setup", &empty)?;
    let answer_file = fields.local("answer_file");
    let lint_is_advice = fields.is("lint", "warn");
    let computer_name = computer_name(&fields);
    let timeout = time(&fields, "timeout");
    let still_limit = time(&fields, "still_limit");
    let settle_time = time(&fields, "settle_time");
    let own_drivers = top.cx.sources.local(&top.place, "drivers");
    let own_drivers = own_drivers.is_dir().then_some(own_drivers);
    let drivers = drivers(&fields, top, own_drivers.as_deref());
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

/// Which drivers a signature by catalogs is about: those that are taken from the medium, and not from beside the recipe.
pub fn name_drivers(media: &mut Media, setup: &SetupSpec) {
    let own = setup.own_drivers.as_deref();
    let is_own = |name: &str| own.is_some_and(|own| own.join(name).is_dir());
    let taken = setup.drivers.iter().filter(|name| !is_own(name));
    let taken: Vec<String> = taken.cloned().collect();
    let signatures = media.virtio.iter_mut().flat_map(|v| &mut v.signatures);
    for signature in signatures.flatten() {
        if let Covers::Drivers(drivers) = &mut signature.covers {
            drivers.clone_from(&taken);
        }
    }
}

fn computer_name(fields: &Fields<'_>) -> Option<String> {
    let name = fields.string("computer_name")?;
    match guest_name::computer_name(&name.value) {
        Ok(()) => Some(name.value),
        Err((why, help)) => {
            let fact = format!("`computer_name` cannot be \"{}\": {why}", name.value);
            fields.cx.error(fact, &name.place, "", &help);
            None
        }
    }
}

fn time(fields: &Fields<'_>, key: &str) -> Option<Duration> {
    let time = fields.duration(key)?;
    if time.value.is_zero() {
        fields
            .cx
            .error(format!("`{key}` is no time at all"), &time.place, "", "");
        return None;
    }
    Some(time.value)
}

/// Folders of the team's own `drivers` or of the virtio-win ISO.
fn drivers(fields: &Fields<'_>, top: &Fields<'_>, own: Option<&Path>) -> Vec<String> {
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
    let drivers = fields.strings("drivers");
    for driver in drivers.iter().filter(|d| !is_driver_name(&d.value)) {
        let fact = format!("\"{}\" is no driver folder", driver.value);
        let help = "letters, digits, `-` and `_`: names such as \"viostor\"";
        fields.cx.error(fact, &driver.place, "", help);
    }
    let here = |name: &str| own.is_some_and(|own| own.join(name).is_dir());
    let lacking = drivers.iter().find(|d| !virtio && !here(&d.value));
    if let Some(lacking) = lacking {
        let fact = "drivers are taken from the virtio-win ISO, and the recipe names none";
        let help = format!(
            "name it under `[media.virtio]`, or put the driver into drivers/{} beside the recipe",
            lacking.value
        );
        fields.cx.missing(fact, &lacking.place, &help);
    }
    drivers.into_iter().map(|d| d.value).collect()
}
