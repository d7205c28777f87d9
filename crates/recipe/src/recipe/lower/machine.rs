//! `[machine]`: what the image is built on.

use crate::recipe::fields::Fields;
use crate::recipe::quantity::show_size;
use crate::recipe::{DiskBus, Firmware, MachineSpec, Media};
use winimg_base::diag::Diagnostic;
use winimg_base::text::Located;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The machine; every key has a default.
pub fn machine(top: &Fields<'_>, media: Option<&Media>) -> Option<MachineSpec> {
    let empty = Default::default();
    let fields = top.table_or("machine", &empty)?;
    let firmware = fields.choice("firmware");
    let secure_boot = fields.boolean("secure_boot");
    let disk_bus = match fields.has("disk_bus") {
        true => fields.choice("disk_bus"),
        false => Some(usual_bus(&fields, media)),
    };
    let disk_size = fields.size("disk_size");
    let cpus = fields.integer("cpus");
    let memory = fields.size("memory");
    let network = fields.boolean("network");
    let tpm = fields.boolean("tpm");
    check_bus(&fields, disk_bus.as_ref(), top, media);
    let firmware_is = firmware
        .as_ref()
        .map_or(Firmware::Uefi, |f: &Located<_>| f.value);
    let wants_uefi = [
        (
            "secure_boot",
            &secure_boot,
            "BIOS firmware has no Secure Boot",
        ),
        ("tpm", &tpm, "a virtual TPM needs UEFI firmware"),
    ];
    for (key, given, fact) in wants_uefi {
        if let Some(on) = given.as_ref().filter(|on| on.value)
            && firmware_is == Firmware::Bios
        {
            let help = format!("write `firmware = \"uefi\"`, or leave `{key}` out");
            fields.cx.error(fact, &on.place, "", &help);
        }
    }
    let sized = check_sizes(&fields, disk_size.as_ref(), memory.as_ref(), firmware_is);
    let spec = MachineSpec {
        firmware: firmware?.value,
        secure_boot: secure_boot?.value,
        disk_bus: disk_bus?.value,
        disk_size: disk_size?.value,
        cpus: cpus?.value as u32,
        memory: memory?.value,
        network: network?.value,
        tpm: tpm?.value,
    };
    (fields.is_whole() && sized).then_some(spec)
}

fn usual_bus(fields: &Fields<'_>, media: Option<&Media>) -> Located<DiskBus> {
    let (bus, shown) = match media.is_some_and(|m| m.virtio.is_some()) {
        true => (DiskBus::Virtio, "\"virtio\""),
        false => (DiskBus::Nvme, "\"nvme\""),
    };
    fields.cx.default("machine.disk_bus", shown);
    Located::new(bus, fields.place.clone())
}

/// Windows has no virtio driver of its own.
fn check_bus(
    fields: &Fields<'_>,
    bus: Option<&Located<DiskBus>>,
    top: &Fields<'_>,
    media: Option<&Media>,
) {
    let Some(bus) = bus.filter(|b| b.value == DiskBus::Virtio) else {
        return;
    };
    let tree = top.table.get("media").and_then(|m| m.as_table());
    let named = tree.is_some_and(|m| m.contains("virtio")) || tree.is_none();
    if media.is_none_or(|m| m.virtio.is_none()) && !named {
        let fact = "Windows Setup sees no virtio disk without its driver";
        let help = "name the virtio-win ISO under `[media.virtio]`, or write `disk_bus = \"nvme\"`";
        fields.cx.missing(fact, &bus.place, help);
    }
}

fn check_sizes(
    fields: &Fields<'_>,
    disk: Option<&Located<u64>>,
    memory: Option<&Located<u64>>,
    firmware: Firmware,
) -> bool {
    let mut right = true;
    let mut refuse = |fact: &str, at: &Located<u64>, help: &str| {
        fields.cx.error(fact, &at.place, "", help);
        right = false;
    };
    for (key, size) in [("disk_size", disk), ("memory", memory)] {
        if let Some(size) = size
            && (size.value == 0 || !size.value.is_multiple_of(MIB))
        {
            let help = "write it in MiB or GiB";
            refuse(&format!("`{key}` is not a whole number of MiB"), size, help);
        }
    }
    if let Some(disk) = disk {
        if firmware == Firmware::Bios && disk.value > 2048 * GIB {
            let help = "write `firmware = \"uefi\"`, or a smaller disk";
            refuse(
                "an MBR disk, as BIOS firmware needs, ends at 2 TiB",
                disk,
                help,
            );
        } else if disk.value < 32 * GIB {
            warn(
                fields,
                disk,
                "Windows Server needs a disk of 32 GiB or more",
            );
        }
    }
    if let Some(memory) = memory.filter(|m| m.value < 2 * GIB) {
        warn(
            fields,
            memory,
            "Windows Setup needs 2 GiB of memory or more",
        );
    }
    right
}

fn warn(fields: &Fields<'_>, size: &Located<u64>, fact: &str) {
    let label = format!("{} here", show_size(size.value));
    fields
        .cx
        .problem(Diagnostic::warning(fact).at(&size.place, label));
}
