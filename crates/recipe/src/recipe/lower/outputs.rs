//! `[outputs]`: which files are made.

use crate::recipe::fields::Fields;
use crate::recipe::value::{Data, Value};
use crate::recipe::{AmiSpec, BoxSpec, Firmware, MachineSpec, Outputs, OvaSpec};
use winimg_base::text::Located;
use winimg_formats::disk::vhd;

pub fn outputs(top: &Fields<'_>, machine: Option<&MachineSpec>) -> Option<Outputs> {
    let help = "write `[outputs]` with one or more of raw, vhd, vhd_dynamic, vhdx, vhdx_fixed, ova, vmdk, vmdk_flat, ami, qcow2, vma, box_hyperv, box_libvirt, box_virtualbox, container_disk, such as `vhd = {}`";
    if !top.has("outputs") {
        top.cx
            .missing("the recipe has no [outputs]", &top.place, help);
        return None;
    }
    let fields = top.table("outputs")?;
    if fields.table.entries.is_empty() {
        top.cx
            .error("[outputs] names no format", &fields.place, "", help);
    }
    let outputs = Outputs {
        raw: plain(&fields, "raw"),
        vhd: plain(&fields, "vhd"),
        vhd_dynamic: plain(&fields, "vhd_dynamic"),
        vhdx: plain(&fields, "vhdx"),
        vhdx_fixed: plain(&fields, "vhdx_fixed"),
        ova: ova(&fields),
        vmdk: plain(&fields, "vmdk"),
        vmdk_flat: plain(&fields, "vmdk_flat"),
        ami: ami(&fields, machine),
        qcow2: plain(&fields, "qcow2"),
        vma: plain(&fields, "vma"),
        box_hyperv: vagrant_box(&fields, "box_hyperv"),
        box_libvirt: vagrant_box(&fields, "box_libvirt"),
        box_virtualbox: vagrant_box(&fields, "box_virtualbox"),
        container_disk: plain(&fields, "container_disk"),
    };
    let too_large = machine.is_some_and(|m| m.disk_size > vhd::MOST);
    for key in ["vhd", "vhd_dynamic"] {
        if let Some(entry) = fields.table.entry(key).filter(|_| too_large) {
            let fact = "a VHD holds at most 2040 GiB, and the disk is larger";
            let help = "make `machine.disk_size` smaller";
            top.cx.error(fact, &entry.key_place, "", help);
        }
    }
    Some(outputs)
}

/// The format's table; `true` in its place is refused.
fn format<'c>(fields: &Fields<'c>, key: &str) -> Option<Fields<'c>> {
    let value = fields.get(key)?;
    if let Value {
        data: Data::Bool(on),
        place,
        ..
    } = value
    {
        let fact = format!("`{key}` takes a table, not true or false");
        let help = match on {
            true => format!("write `{key} = {{}}`"),
            false => format!("to leave this format out, remove `{key}`"),
        };
        fields.cx.error(fact, place, "", &help);
        return None;
    }
    Fields::open(fields.cx, value, key)
}

fn plain(fields: &Fields<'_>, key: &str) -> bool {
    format(fields, key).is_some()
}

fn ova(fields: &Fields<'_>) -> Option<OvaSpec> {
    let table = format(fields, "ova")?;
    let version = table.integer("hardware_version");
    if version.is_none() && !table.has("hardware_version") {
        let (usual, of_2025) = (OvaSpec::USUAL, OvaSpec::OF_2025);
        let shown = format!("\"{usual}, or {of_2025} for Windows Server 2025\"");
        table.cx.default("outputs.ova.hardware_version", shown);
    }
    Some(OvaSpec {
        hardware_version: version.map(|v| v.value as u32),
    })
}

fn vagrant_box(fields: &Fields<'_>, key: &str) -> Option<BoxSpec> {
    let table = format(fields, key)?;
    let communicator = table.word("communicator");
    if !table.has("communicator") {
        let path = format!("outputs.{key}.communicator");
        table.cx.default(&path, format!("{:?}", BoxSpec::USUAL));
    }
    Some(BoxSpec {
        communicator: communicator.map_or(BoxSpec::USUAL, |c| c.value).into(),
    })
}

fn ami(fields: &Fields<'_>, machine: Option<&MachineSpec>) -> Option<AmiSpec> {
    let table = format(fields, "ami")?;
    let boot = table.word("boot_mode");
    let license = table.word("license_type");
    let fits = match machine.map(|m| m.firmware) {
        Some(Firmware::Bios) => "legacy-bios",
        Some(Firmware::Uefi) | None => "uefi",
    };
    let wrong = |b: &&Located<&str>| machine.is_some() && b.value != fits;
    if let Some(boot) = boot.as_ref().filter(wrong) {
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
    Some(AmiSpec {
        boot_mode: boot.map_or(fits, |b| b.value).into(),
        license_type: license.map_or("AWS", |l| l.value).into(),
    })
}
