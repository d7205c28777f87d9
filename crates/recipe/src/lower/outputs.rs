//! `[outputs]`: the files to write.

use crate::document::value::{TomlData, TomlValue};
use crate::fields::TableReader;
use crate::{
    AmiOptions, BoxOptions, Firmware, MachineSpec, OutputFormat, OutputOptions, Outputs, OvaOptions,
};
use winimg_formats::disk::vhd;

pub fn read_outputs(top: &TableReader<'_>, machine: Option<&MachineSpec>) -> Option<Outputs> {
    let help = format!(
        "write `[outputs]` with one or more of {}, such as `vhd = {{}}`",
        OutputFormat::list()
    );
    if !top.has("outputs") {
        top.cx
            .report_missing("the recipe has no [outputs]", &top.place, &help);
        return None;
    }
    let fields = top.read_table("outputs")?;
    if fields.table.entries.is_empty() {
        top.cx
            .error("[outputs] has no format", &fields.place, "", &help);
    }
    let mut outputs = Outputs::default();
    for format in OutputFormat::ALL {
        let Some(table) = read_format(&fields, format.name()) else {
            continue;
        };
        let options = match format.default_options() {
            OutputOptions::Plain => OutputOptions::Plain,
            OutputOptions::Ova(_) => OutputOptions::Ova(read_ova(&table)),
            OutputOptions::Ami(_) => OutputOptions::Ami(read_ami(&table, machine)),
            OutputOptions::Box(_) => OutputOptions::Box(read_box(&table, format)),
        };
        outputs.insert(format, options);
    }
    let too_large = machine.is_some_and(|m| m.disk_size > vhd::MOST);
    for key in ["vhd", "vhd_dynamic"] {
        if let Some(entry) = fields.table.find_entry(key).filter(|_| too_large) {
            let fact = "the disk exceeds 2040 GiB, the maximum size of a VHD";
            let help = "reduce `machine.disk_size`";
            top.cx.error(fact, &entry.key_place, "", help);
        }
    }
    Some(outputs)
}

/// Reads the format's table; refuses `true` in its place.
fn read_format<'c>(fields: &TableReader<'c>, key: &str) -> Option<TableReader<'c>> {
    let value = fields.get(key)?;
    if let TomlValue {
        data: TomlData::Bool(on),
        place,
        ..
    } = value
    {
        let fact = format!("`{key}` takes a table, not true or false");
        let help = if *on {
            format!("write `{key} = {{}}`")
        } else {
            format!("to turn this format off, remove `{key}`")
        };
        fields.cx.error(fact, place, "", &help);
        return None;
    }
    TableReader::open(fields.cx, value, key)
}

fn read_ova(table: &TableReader<'_>) -> OvaOptions {
    let version = table.read_integer("hardware_version");
    if version.is_none() && !table.has("hardware_version") {
        let (usual, of_2025) = (OvaOptions::USUAL, OvaOptions::OF_2025);
        let shown = format!("\"{usual}, or {of_2025} for Windows Server 2025\"");
        table.cx.default("outputs.ova.hardware_version", shown);
    }
    OvaOptions {
        hardware_version: version.map(|v| v.value as u32),
    }
}

fn read_box(table: &TableReader<'_>, format: OutputFormat) -> BoxOptions {
    let communicator = table.read_word("communicator");
    if !table.has("communicator") {
        let path = format!("outputs.{}.communicator", format.name());
        table.cx.default(&path, format!("{:?}", BoxOptions::USUAL));
    }
    BoxOptions {
        communicator: communicator.map_or(BoxOptions::USUAL, |c| c.value).into(),
    }
}

fn read_ami(table: &TableReader<'_>, machine: Option<&MachineSpec>) -> AmiOptions {
    let boot = table.read_word("boot_mode");
    let license = table.read_word("license_type");
    let firmware = machine.map_or(Firmware::Uefi, |m| m.firmware);
    let fits = AmiOptions::find_boot_mode(firmware);
    if let Some(boot) = &boot
        && machine.is_some()
        && boot.value != fits
    {
        let fact = format!("the image cannot boot as `{}`", boot.value);
        let help = format!("`machine.firmware` makes it a `{fits}` image");
        table.cx.error(fact, &boot.place, "", &help);
    }
    if !table.has("boot_mode") {
        table
            .cx
            .default("outputs.ami.boot_mode", format!("\"{fits}\""));
    }
    if !table.has("license_type") {
        let usual = format!("{:?}", AmiOptions::USUAL_LICENSE);
        table.cx.default("outputs.ami.license_type", usual);
    }
    AmiOptions {
        boot_mode: boot.map_or(fits, |b| b.value).into(),
        license_type: license
            .map_or(AmiOptions::USUAL_LICENSE, |l| l.value)
            .into(),
    }
}
