//! Parses the firmware's log to follow the boot process.
//!
//! Sources: `BdsDxe` messages of EDK II, which OVMF prints to COM1; `boot.c` messages of SeaBIOS on
//! its debug port. Both are ASCII in every language of Windows. Ignores anything printed by
//! Windows.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use crate::vm::supervisor::driver::FirmwareEvent;
use winimg_base::error::{Error, Result};

/// Parses a complete or unfinished line, which may contain ANSI sequences.
pub fn judge(line: &str) -> Option<FirmwareEvent> {
    let line = without_ansi(line);
    let line = line.trim();
    if line.contains("Press any key to boot from CD") {
        return Some(FirmwareEvent::KeyPrompt);
    }
    if let Some(text) = line.strip_prefix("BdsDxe: ") {
        return judge_uefi(text);
    }
    judge_bios(line)
}

fn judge_uefi(text: &str) -> Option<FirmwareEvent> {
    if text.starts_with("failed to ") {
        let line = if text.ends_with(": Access Denied") {
            FirmwareEvent::Refused
        } else {
            FirmwareEvent::Failed
        };
        return Some(line(text.to_string()));
    }
    if text.starts_with("No bootable option") {
        return Some(FirmwareEvent::NothingBoots);
    }
    let option = text.strip_prefix("starting ")?;
    Some(if option.contains("DVD-ROM") || option.contains("CD-ROM") {
        FirmwareEvent::DiscStarts
    } else if option.contains("EFI Internal Shell") || option.contains("\"UiApp\"") {
        FirmwareEvent::NothingBoots
    } else {
        FirmwareEvent::DiskStarts
    })
}

fn judge_bios(line: &str) -> Option<FirmwareEvent> {
    match line {
        "Booting from Hard Disk..." => Some(FirmwareEvent::DiskStarts),
        "Booting from DVD/CD..." => Some(FirmwareEvent::DiscStarts),
        _ if line.starts_with("Boot failed: ") => Some(FirmwareEvent::Failed(line.to_string())),
        _ if line.starts_with("No bootable device.") => Some(FirmwareEvent::NothingBoots),
        _ => None,
    }
}

/// Drops escape sequences (ECMA-48 CSI) and other control characters.
fn without_ansi(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\x1b' {
            if chars.next_if_eq(&'[').is_some() {
                for c in chars.by_ref() {
                    if ('@'..='~').contains(&c) {
                        break;
                    }
                }
            }
        } else if !c.is_control() {
            out.push(c);
        }
    }
    out
}

/// Splits a growing log and keeps the relevant lines.
#[derive(Debug, Default)]
pub struct FirmwareLogParser {
    rest: Vec<u8>,
    prompted: bool,
}

impl FirmwareLogParser {
    /// Parses the next bytes of the log, split anywhere. A prompt is reported once, although its
    /// line never ends.
    pub fn parse_bytes(&mut self, bytes: &[u8]) -> Vec<FirmwareEvent> {
        let mut lines = Vec::new();
        for &byte in bytes {
            if byte == b'\n' || byte == b'\r' || self.rest.len() >= 4096 {
                self.end_line(&mut lines);
            } else {
                self.rest.push(byte);
            }
        }
        if !self.prompted
            && judge(&String::from_utf8_lossy(&self.rest)) == Some(FirmwareEvent::KeyPrompt)
        {
            self.prompted = true;
            lines.push(FirmwareEvent::KeyPrompt);
        }
        lines
    }

    fn end_line(&mut self, lines: &mut Vec<FirmwareEvent>) {
        let found = judge(&String::from_utf8_lossy(&self.rest));
        let known = std::mem::take(&mut self.prompted) && found == Some(FirmwareEvent::KeyPrompt);
        self.rest.clear();
        lines.extend(found.filter(|_| !known));
    }
}

/// Follows a file that QEMU appends to.
#[derive(Debug)]
pub struct FirmwareLogTail {
    path: PathBuf,
    offset: u64,
    reader: FirmwareLogParser,
}

impl FirmwareLogTail {
    /// Starts at `offset`, after the output of earlier machines.
    pub fn from_offset(path: PathBuf, offset: u64) -> Self {
        Self {
            path,
            offset,
            reader: FirmwareLogParser::default(),
        }
    }

    /// Returns the new lines since the last call. A file that does not exist yet is empty.
    pub fn read(&mut self) -> Result<Vec<FirmwareEvent>> {
        match self.read_on() {
            Ok(bytes) => {
                self.offset += bytes.len() as u64;
                Ok(self.reader.parse_bytes(&bytes))
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(Error::io("read", &self.path, e)),
        }
    }

    /// Reads at most 1 MiB; the rest is read by the next call.
    fn read_on(&self) -> std::io::Result<Vec<u8>> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut bytes = Vec::new();
        file.take(1 << 20).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OVMF: &str = "\x1b[2J\x1b[01;01H\x1b[=3h\x1b[2J\x1b[01;01HBdsDxe: failed to load Boot0002 \"UEFI QEMU NVMe Ctrl w 1\" from PciRoot(0x0)/Pci(0x2,0x0)/NVMe(0x1,00-00-00-00-00-00-00-00): Not Found\r\n\
        BdsDxe: loading Boot0001 \"UEFI QEMU DVD-ROM QM00003 \" from PciRoot(0x0)/Pci(0x1F,0x2)/Sata(0x1,0xFFFF,0x0)\r\n\
        BdsDxe: starting Boot0001 \"UEFI QEMU DVD-ROM QM00003 \" from PciRoot(0x0)/Pci(0x1F,0x2)/Sata(0x1,0xFFFF,0x0)\r\n\
        Press any key to boot from CD or DVD......\r\n\
        BdsDxe: failed to start Boot0001 \"UEFI QEMU DVD-ROM QM00003 \" from PciRoot(0x0)/Pci(0x1F,0x2)/Sata(0x1,0xFFFF,0x0): Time out\r\n\
        BdsDxe: starting Boot0003 \"EFI Internal Shell\" from Fv(7CB8BDC9-F8EB-4F34-AAEA-3EE4AF6516A1)/FvFile(7C04A583-9E3E-4F1C-AD65-E05268D0B4D1)\r\n\
        \x1b[01;01HPress \x1b[1mESC\x1b[0m in 5 seconds to skip startup.nsh or any other key to continue.\r\n\
        BdsDxe: starting Boot0004 \"Windows Boot Manager\" from HD(1,GPT,A,0x800,0x82000)/\\EFI\\Microsoft\\Boot\\bootmgfw.efi\r\n\
        BdsDxe: No bootable option or device was found.\r\n\
        BdsDxe: Press any key to enter the Boot Manager Menu.\r\n";

    fn expected() -> Vec<FirmwareEvent> {
        vec![
            FirmwareEvent::Failed("failed to load Boot0002 \"UEFI QEMU NVMe Ctrl w 1\" from PciRoot(0x0)/Pci(0x2,0x0)/NVMe(0x1,00-00-00-00-00-00-00-00): Not Found".into()),
            FirmwareEvent::DiscStarts,
            FirmwareEvent::KeyPrompt,
            FirmwareEvent::Failed("failed to start Boot0001 \"UEFI QEMU DVD-ROM QM00003 \" from PciRoot(0x0)/Pci(0x1F,0x2)/Sata(0x1,0xFFFF,0x0): Time out".into()),
            FirmwareEvent::NothingBoots,
            FirmwareEvent::DiskStarts,
            FirmwareEvent::NothingBoots,
        ]
    }

    #[test]
    fn the_same_lines_however_the_log_arrives() {
        for size in [1, 2, 7, 64, OVMF.len()] {
            let mut reader = FirmwareLogParser::default();
            let mut lines = Vec::new();
            for piece in OVMF.as_bytes().chunks(size) {
                lines.extend(reader.parse_bytes(piece));
            }
            assert_eq!(lines, expected(), "pieces of {size}");
        }
    }

    #[test]
    fn a_prompt_is_seen_before_its_line_ends_and_again_after_a_restart() {
        let mut reader = FirmwareLogParser::default();
        assert_eq!(
            reader.parse_bytes(b"Press any key to boot from CD"),
            [FirmwareEvent::KeyPrompt]
        );
        assert_eq!(
            reader.parse_bytes(b" or DVD.."),
            Vec::<FirmwareEvent>::new()
        );
        assert_eq!(reader.parse_bytes(b"\r\n"), Vec::<FirmwareEvent>::new());
        assert_eq!(
            reader.parse_bytes(b"Press any key to boot from CD or DVD."),
            [FirmwareEvent::KeyPrompt]
        );
    }

    /// Messages of Debian's OVMF with Secure Boot. The rejected shell is unrelated to the disc.
    #[test]
    fn a_program_that_secure_boot_refuses() {
        let log = b"BdsDxe: failed to load Boot0001 \"UEFI QEMU DVD-ROM QM00003 \" from PciRoot(0x0)/Pci(0x1F,0x2)/Sata(0x1,0xFFFF,0x0): Access Denied\r\n\
            BdsDxe: failed to start Boot0003 \"EFI Internal Shell\" from Fv(7CB8)/FvFile(7C04): Security Violation\r\n";
        assert_eq!(
            FirmwareLogParser::default().parse_bytes(log),
            [
                FirmwareEvent::Refused("failed to load Boot0001 \"UEFI QEMU DVD-ROM QM00003 \" from PciRoot(0x0)/Pci(0x1F,0x2)/Sata(0x1,0xFFFF,0x0): Access Denied".into()),
                FirmwareEvent::Failed("failed to start Boot0003 \"EFI Internal Shell\" from Fv(7CB8)/FvFile(7C04): Security Violation".into()),
            ]
        );
    }

    #[test]
    fn seabios_lines() {
        let log = b"enter handle_19:\n  NULL\nBooting from Hard Disk...\nBoot failed: not a bootable disk\n\n\
            Booting from DVD/CD...\nBoot failed: Could not read from CDROM (code 0005)\nNo bootable device.\n";
        assert_eq!(
            FirmwareLogParser::default().parse_bytes(log),
            [
                FirmwareEvent::DiskStarts,
                FirmwareEvent::Failed("Boot failed: not a bootable disk".into()),
                FirmwareEvent::DiscStarts,
                FirmwareEvent::Failed("Boot failed: Could not read from CDROM (code 0005)".into()),
                FirmwareEvent::NothingBoots,
            ]
        );
    }
}
