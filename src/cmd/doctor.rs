//! `winimg doctor`: what this host has, what is missing, and the package to install for it.

use crate::cli;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io::without_secrets;
use winimg_machine::vm::{Platform, screen::ocr};

use super::{Context, hypervisor, print};

mod hyperv;

pub fn run(args: &cli::Doctor, context: &Context) -> Result<()> {
    if hypervisor::platform(&args.hypervisor, context)? == Platform::HyperV {
        return hyperv::run(args, context);
    }
    let mut lacking = 0;
    let mut text = String::new();
    machines(args, context, &mut text, &mut lacking);
    let mut tool = std::process::Command::new("qemu-img");
    without_secrets(&mut tool);
    text += &match tool.arg("--version").output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout)
            .lines()
            .take(1)
            .map(|l| format!("{l}\n"))
            .collect(),
        Err(_) => {
            lacking += 1;
            "qemu-img: not found; install qemu-utils\n".to_string()
        }
    };
    text += &reader();
    end(&text, lacking)
}

/// What reads screens; a build goes on without it.
fn reader() -> String {
    match ocr::version() {
        Some(version) => format!("{version}: reads the screen of a VM that stops\n"),
        None => "tesseract: not found; install tesseract-ocr to have errors quote the screen of a stopped VM\n".to_string(),
    }
}

fn end(text: &str, lacking: u32) -> Result<()> {
    print(text)?;
    if lacking > 0 {
        return Err(Error::new(
            Kind::Host,
            match lacking {
                1 => "1 requirement is missing on this host".into(),
                n => format!("{n} requirements are missing on this host"),
            },
        ));
    }
    Ok(())
}

/// What starts here.
#[cfg(not(unix))]
fn machines(_: &cli::Doctor, _: &Context, text: &mut String, lacking: &mut u32) {
    *lacking += 1;
    *text +=
        "QEMU: winimg does not start it on a Windows host; leave --hypervisor away for Hyper-V\n";
}

/// What starts here, with each firmware.
#[cfg(unix)]
fn machines(args: &cli::Doctor, context: &Context, text: &mut String, lacking: &mut u32) {
    use winimg_machine::vm::{Hypervisor as _, qemu::Qemu};
    use winimg_recipe::recipe::Firmware;

    let qemu = match Qemu::find() {
        Ok(qemu) => qemu,
        Err(error) => {
            *lacking += 1;
            *text += &format!("QEMU: {error}\n");
            return;
        }
    };
    let cancel = &context.cancel;
    for (name, firmware) in [("UEFI", Firmware::Uefi), ("BIOS", Firmware::Bios)] {
        match qemu.probe(args.accel.into(), firmware, cancel) {
            Ok(probe) => {
                *text += &format!("{name}: {} with {}\n", probe.version, probe.accel);
                for remark in probe.remarks {
                    *text += &format!("  {remark}\n");
                }
            }
            Err(error) => {
                *lacking += 1;
                *text += &format!("{name}: {error}\n");
            }
        }
    }
    *text += &extras();
}

/// What machines have that ask for it; a build of another recipe goes on without.
#[cfg(unix)]
fn extras() -> String {
    use winimg_machine::vm::qemu::{firmware, tpm};

    let secure_boot = match firmware::find(&firmware::Places::system(), true) {
        Ok(pair) => pair.code.display().to_string(),
        Err(error) => error.to_string(),
    };
    let tpm = match tpm::find() {
        Ok(program) => format!("swtpm {}", program.version),
        Err(error) => error.to_string(),
    };
    format!("Secure Boot: {secure_boot}\nTPM: {tpm}\n")
}
