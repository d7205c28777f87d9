//! QEMU's argument list for a virtual machine. Pure. QEMU starts in the machine's folder: sockets have names only, since an address is short; the disk has
//! its whole path, by which tests find a process that was left.

use std::path::Path;

use super::DISK;
use crate::engine::{Boot, Spec};

/// The session's port: its character device's label, and the socket's name.
pub const SESSIONS: &str = "sessions";
pub const MONITOR: &str = "qmp";
pub const PID: &str = "pid";
pub const VARIABLES: &str = "vars.fd";
pub const CODE: &str = "/usr/share/OVMF/OVMF_CODE_4M.fd";
pub const VARIABLES_NEW: &str = "/usr/share/OVMF/OVMF_VARS_4M.fd";

/// A DVD drive, as QMP names it.
pub fn dvd(slot: usize) -> String {
    format!("dvd{slot}")
}

/// A comma inside of a value is written twice.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

pub fn of(spec: &Spec, folder: &Path) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut add = |option: &str, value: String| all.extend([option.to_owned(), value]);
    let place = |wanted: Boot| {
        let found = spec.boot.iter().position(|boot| *boot == wanted);
        found.map_or(String::new(), |index| format!(",bootindex={}", index + 1))
    };
    add("-name", format!("guest={}", spec.id));
    add("-uuid", spec.id.clone());
    add("-machine", "q35,smm=off,hpet=off,vmport=off".into());
    add("-accel", "tcg,thread=multi".into());
    add("-cpu", "max".into());
    add("-smp", format!("cpus={0},sockets=1,cores={0}", spec.cpus));
    add("-m", format!("{}M", spec.memory >> 20));
    add("-rtc", "base=utc".into());
    add("-boot", "menu=off,strict=on".into());
    add("-display", "none".into());
    add("-vga", "std".into());
    add("-nic", "none".into());
    // What Windows reads in Win32_ComputerSystem under Hyper-V.
    add(
        "-smbios",
        "type=1,manufacturer=Microsoft Corporation,product=Virtual Machine".into(),
    );
    if spec.generation == 2 {
        add(
            "-drive",
            format!("if=pflash,unit=0,format=raw,readonly=on,file={CODE}"),
        );
        add(
            "-drive",
            format!("if=pflash,unit=1,format=raw,file={VARIABLES}"),
        );
    }
    // cache=unsafe: the file is read only after QEMU closed it. Zeroed and trimmed blocks become holes.
    add(
        "-drive",
        format!(
            "if=none,id=disk,format=raw,cache=unsafe,discard=unmap,detect-zeroes=unmap,file={}",
            escaped(&folder.join(DISK))
        ),
    );
    add(
        "-device",
        format!("ide-hd,bus=ide.0,drive=disk{}", place(Boot::Disk)),
    );
    for (slot, disc) in spec.dvds.iter().enumerate() {
        let file = disc.as_deref().map_or(String::new(), |disc| {
            format!(",format=raw,file={}", escaped(disc))
        });
        add(
            "-drive",
            format!("if=none,id=disc{slot},media=cdrom,readonly=on{file}"),
        );
        add(
            "-device",
            format!(
                "ide-cd,id={},bus=ide.{},drive=disc{slot}{}",
                dvd(slot),
                slot + 1,
                place(Boot::Dvd(slot))
            ),
        );
    }
    add("-device", "virtio-serial-pci".into());
    add(
        "-chardev",
        format!("socket,id={SESSIONS},path={SESSIONS},server=on,wait=off"),
    );
    add(
        "-device",
        format!("virtserialport,chardev={SESSIONS},name=standin.vmicvmsession"),
    );
    add("-serial", "file:com1.log".into());
    add("-qmp", format!("unix:{MONITOR},server=on,wait=off"));
    add("-pidfile", PID.into());
    for flag in ["-nodefaults", "-no-user-config", "-daemonize"] {
        all.push(flag.into());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_firmware_follows_the_boot_order() {
        let spec = Spec {
            id: "0f0f".into(),
            generation: 2,
            memory: 2 << 30,
            cpus: 2,
            disk: "disk.vhdx".into(),
            dvds: vec![Some("/a,b.iso".into()), None],
            boot: vec![Boot::Disk, Boot::Dvd(0)],
            secure_boot: false,
            com1: None,
        };
        let devices = |spec: &Spec| -> Vec<String> {
            let all = of(spec, Path::new("/vm"));
            let about = |text: &&String| text.contains("ide-") || text.contains("media=cdrom");
            all.iter().filter(about).cloned().collect()
        };
        assert_eq!(
            devices(&spec),
            [
                "ide-hd,bus=ide.0,drive=disk,bootindex=1",
                "if=none,id=disc0,media=cdrom,readonly=on,format=raw,file=/a,,b.iso",
                "ide-cd,id=dvd0,bus=ide.1,drive=disc0,bootindex=2",
                "if=none,id=disc1,media=cdrom,readonly=on",
                "ide-cd,id=dvd1,bus=ide.2,drive=disc1",
            ]
        );
        let bios = Spec {
            generation: 1,
            boot: vec![Boot::Dvd(1)],
            ..spec
        };
        assert!(
            !of(&bios, Path::new("/vm"))
                .iter()
                .any(|text| text.contains("pflash"))
        );
        assert_eq!(devices(&bios)[0], "ide-hd,bus=ide.0,drive=disk");
    }
}
