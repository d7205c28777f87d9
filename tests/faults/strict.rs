//! The scripted QEMU refuses what QEMU refuses; a stand-in that takes anything would prove nothing.

use std::process::{Command, Output};

use crate::site::fake_qemu;

fn run(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(fake_qemu());
    command
        .args(arguments)
        .current_dir(folder.path())
        .env_remove("FAKE_QEMU_SCRIPT");
    command.output().expect("it starts")
}

#[test]
fn command_lines_that_qemu_refuses() {
    let said: Vec<String> = [
        &["-frobnicate"][..],
        &["-no-reboot"],
        &["-machine", "q35,bogus=1"],
        &["-accel", "kvm"],
        &["-smp", "cpus=4,cores=3"],
        &["-device", "frob"],
        &["-device", "nvme,id=a"],
        &["-device", "ide-cd,id=a,drive=zz"],
        &["-drive", "if=none,id=a", "-device", "ide-hd,drive=a"],
        &["-drive", "if=none,id=a,frob=1"],
        &["-chardev", "null,id=a", "-device", "isa-serial,chardev=b"],
    ]
    .into_iter()
    .map(|arguments| {
        let output = run(arguments);
        let code = output.status.code().unwrap_or(-1);
        format!("{code} {}", String::from_utf8_lossy(&output.stderr))
    })
    .collect();
    assert_eq!(
        said.concat(),
        "1 qemu-system-x86_64: -frobnicate: invalid option\n\
         1 qemu-system-x86_64: -no-reboot: no installation of Windows survives this option\n\
         1 qemu-system-x86_64: Property 'pc-q35-7.2-machine.bogus' not found\n\
         1 qemu-system-x86_64: invalid accelerator kvm\n\
         1 qemu-system-x86_64: Invalid CPU topology: product of the hierarchy must match maxcpus: 3 != maxcpus (4)\n\
         1 qemu-system-x86_64: -device frob: 'frob' is not a valid device model name\n\
         1 qemu-system-x86_64: -device nvme,id=a: serial property not set\n\
         1 qemu-system-x86_64: -device ide-cd: Property 'ide-cd.drive' can't find value 'zz'\n\
         1 qemu-system-x86_64: -device ide-hd: Device needs media, but drive is empty\n\
         1 qemu-system-x86_64: -drive if=none,id=a,frob=1: Invalid parameter 'frob'\n\
         1 qemu-system-x86_64: -device isa-serial: Property 'isa-serial.chardev' can't find value 'b'\n"
    );
}
