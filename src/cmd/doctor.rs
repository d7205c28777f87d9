//! `winimg doctor`: what this host has, what it lacks, and the package that brings it.

use crate::cli;
use crate::error::{Error, Kind, Result};
use crate::event::Cancel;
use crate::io::without_secrets;
use crate::recipe::Firmware;
use crate::vm::{Hypervisor as _, qemu::Qemu, screen::ocr};

use super::{Context, print};

pub fn run(args: &cli::Doctor, context: &Context) -> Result<()> {
    let mut lacking = 0;
    let mut text = String::new();
    match Qemu::find() {
        Ok(qemu) => machines(&qemu, args, &context.cancel, &mut text, &mut lacking),
        Err(error) => {
            lacking += 1;
            text += &format!("QEMU: {error}\n");
        }
    }
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
    text += &match ocr::version() {
        Some(version) => format!("{version}: reads the screen of a machine that stops\n"),
        None => "tesseract: not found; with tesseract-ocr, errors also tell what a stopped machine's screen says\n".to_string(),
    };
    print(&text)?;
    if lacking > 0 {
        return Err(Error::new(
            Kind::Host,
            match lacking {
                1 => "a build on this host lacks one thing".into(),
                n => format!("a build on this host lacks {n} things"),
            },
        ));
    }
    Ok(())
}

/// What starts here, with each firmware.
fn machines(
    qemu: &Qemu,
    args: &cli::Doctor,
    cancel: &Cancel,
    text: &mut String,
    lacking: &mut u32,
) {
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
}
