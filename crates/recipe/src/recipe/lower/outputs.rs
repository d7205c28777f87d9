//! `[outputs]`: the files to write.

use crate::recipe::fields::TableReader;
use crate::recipe::value::{TomlData, TomlValue};
use crate::recipe::{AmiOptions, BoxOptions, Firmware, MachineSpec, Outputs, OvaOptions};
use winimg_formats::disk::vhd;

pub fn read_outputs(top: &TableReader<'_>, machine: Option<&MachineSpec>) -> Option<Outputs> {
    let help = "write `[outputs]` with one or more of raw, vhd, vhd_dynamic, vhdx, vhdx_fixed, \
                ova, vmdk, vmdk_flat, ami, qcow2, vma, box_hyperv, box_libvirt, box_virtualbox, \
                container_disk, such as `vhd = {}`";
    if !top.has("outputs") {
        top.cx
            .report_missing("the recipe has no [outputs]", &top.place, help);
        return None;
    }
    let fields = top.read_table("outputs")?;
    if fields.table.entries.is_empty() {
        top.cx
            .error("[outputs] has no format", &fields.place, "", help);
    }
    let outputs = Outputs {
        raw: has_format(&fields, "raw"),
        vhd: has_format(&fields, "vhd"),
        vhd_dynamic: has_format(&fields, "vhd_dynamic"),
        vhdx: has_format(&fields, "vhdx"),
        vhdx_fixed: has_format(&fields, "vhdx_fixed"),
        ova: read_ova(&fields),
        vmdk: has_format(&fields, "vmdk"),
        vmdk_flat: has_format(&fields, "vmdk_flat"),
        ami: read_ami(&fields, machine),
        qcow2: has_format(&fields, "qcow2"),
        vma: has_format(&fields, "vma"),
        box_hyperv: vagrant_box(&fields, "box_hyperv"),
        box_libvirt: vagrant_box(&fields, "box_libvirt"),
        box_virtualbox: vagrant_box(&fields, "box_virtualbox"),
        container_disk: has_format(&fields, "container_disk"),
    };
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
fn format<'c>(fields: &TableReader<'c>, key: &str) -> Option<TableReader<'c>> {
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

fn has_format(fields: &TableReader<'_>, key: &str) -> bool {
    format(fields, key).is_some()
}

fn read_ova(fields: &TableReader<'_>) -> Option<OvaOptions> {
    let table = format(fields, "ova")?;
    let version = table.read_integer("hardware_version");
    if version.is_none() && !table.has("hardware_version") {
        let (usual, of_2025) = (OvaOptions::USUAL, OvaOptions::OF_2025);
        let shown = format!("\"{usual}, or {of_2025} for Windows Server 2025\"");
        table.cx.default("outputs.ova.hardware_version", shown);
    }
    Some(OvaOptions {
        hardware_version: version.map(|v| v.value as u32),
    })
}

fn vagrant_box(fields: &TableReader<'_>, key: &str) -> Option<BoxOptions> {
    let table = format(fields, key)?;
    let communicator = table.read_word("communicator");
    if !table.has("communicator") {
        let path = format!("outputs.{key}.communicator");
        table.cx.default(&path, format!("{:?}", BoxOptions::USUAL));
    }
    Some(BoxOptions {
        communicator: communicator.map_or(BoxOptions::USUAL, |c| c.value).into(),
    })
}

fn read_ami(fields: &TableReader<'_>, machine: Option<&MachineSpec>) -> Option<AmiOptions> {
    let table = format(fields, "ami")?;
    let boot = table.read_word("boot_mode");
    let license = table.read_word("license_type");
    let fits = match machine.map(|m| m.firmware) {
        Some(Firmware::Bios) => "legacy-bios",
        Some(Firmware::Uefi) | None => "uefi",
    };
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
        table.cx.default("outputs.ami.license_type", "\"AWS\"");
    }
    Some(AmiOptions {
        boot_mode: boot.map_or(fits, |b| b.value).into(),
        license_type: license.map_or("AWS", |l| l.value).into(),
    })
}
