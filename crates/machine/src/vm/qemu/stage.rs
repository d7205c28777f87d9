//! What the firmware's log says about where booting has got to.
//!
//! Sources: EDK II `BdsDxe` messages as OVMF prints them to COM1; SeaBIOS `boot.c` messages on its debug port. Both are
//! ASCII in every language of Windows. Refuses to guess from anything that Windows itself prints.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use crate::vm::driver::Line;
use winimg_base::error::{Error, Result};

/// Judges one line or the unfinished rest of one. ANSI sequences may still be in it.
pub fn judge(line: &str) -> Option<Line> {
    let line = without_ansi(line);
    let line = line.trim();
    if line.contains("Press any key to boot from CD") {
        return Some(Line::KeyPrompt);
    }
    if let Some(text) = line.strip_prefix("BdsDxe: ") {
        return judge_uefi(text);
    }
    judge_bios(line)
}

fn judge_uefi(text: &str) -> Option<Line> {
    if text.starts_with("failed to ") {
        let line = match text.ends_with(": Access Denied") {
            true => Line::Refused,
            false => Line::Failed,
        };
        return Some(line(text.to_string()));
    }
    if text.starts_with("No bootable option") {
        return Some(Line::NothingBoots);
    }
    let option = text.strip_prefix("starting ")?;
    Some(if option.contains("DVD-ROM") || option.contains("CD-ROM") {
        Line::DiscStarts
    } else if option.contains("EFI Internal Shell") || option.contains("\"UiApp\"") {
        Line::NothingBoots
    } else {
        Line::DiskStarts
    })
}

fn judge_bios(line: &str) -> Option<Line> {
    match line {
        "Booting from Hard Disk..." => Some(Line::DiskStarts),
        "Booting from DVD/CD..." => Some(Line::DiscStarts),
        _ if line.starts_with("Boot failed: ") => Some(Line::Failed(line.to_string())),
        _ if line.starts_with("No bootable device.") => Some(Line::NothingBoots),
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

/// Splits a growing log into lines that matter.
#[derive(Debug, Default)]
pub struct Reader {
    rest: Vec<u8>,
    prompted: bool,
}

impl Reader {
    /// The next bytes of the log, in any pieces. A prompt is reported once, although its line never ends.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        for &byte in bytes {
            if byte == b'\n' || byte == b'\r' || self.rest.len() >= 4096 {
                self.end_line(&mut lines);
            } else {
                self.rest.push(byte);
            }
        }
        if !self.prompted && judge(&String::from_utf8_lossy(&self.rest)) == Some(Line::KeyPrompt) {
            self.prompted = true;
            lines.push(Line::KeyPrompt);
        }
        lines
    }

    fn end_line(&mut self, lines: &mut Vec<Line>) {
        let found = judge(&String::from_utf8_lossy(&self.rest));
        let known = std::mem::take(&mut self.prompted) && found == Some(Line::KeyPrompt);
        self.rest.clear();
        lines.extend(found.filter(|_| !known));
    }
}

/// Follows a file that QEMU appends to.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    offset: u64,
    reader: Reader,
}

impl Tail {
    /// From `offset` on: before it lies what an earlier machine wrote.
    pub fn after(path: PathBuf, offset: u64) -> Self {
        Self {
            path,
            offset,
            reader: Reader::default(),
        }
    }

    /// What came since the last call. A file that does not exist yet is empty.
    pub fn read(&mut self) -> Result<Vec<Line>> {
        match self.read_on() {
            Ok(bytes) => {
                self.offset += bytes.len() as u64;
                Ok(self.reader.feed(&bytes))
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(e) => Err(Error::io("read", &self.path, e)),
        }
    }

    /// At most 1 MiB: what the guest floods the port with beyond it waits for the next call.
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

    fn expected() -> Vec<Line> {
        vec![
            Line::Failed("failed to load Boot0002 \"UEFI QEMU NVMe Ctrl w 1\" from PciRoot(0x0)/Pci(0x2,0x0)/NVMe(0x1,00-00-00-00-00-00-00-00): Not Found".into()),
            Line::DiscStarts,
            Line::KeyPrompt,
            Line::Failed("failed to start Boot0001 \"UEFI QEMU DVD-ROM QM00003 \" from PciRoot(0x0)/Pci(0x1F,0x2)/Sata(0x1,0xFFFF,0x0): Time out".into()),
            Line::NothingBoots,
            Line::DiskStarts,
            Line::NothingBoots,
        ]
    }

    #[test]
    fn the_same_lines_however_the_log_arrives() {
        for size in [1, 2, 7, 64, OVMF.len()] {
            let mut reader = Reader::default();
            let mut lines = Vec::new();
            for piece in OVMF.as_bytes().chunks(size) {
                lines.extend(reader.feed(piece));
            }
            assert_eq!(lines, expected(), "pieces of {size}");
        }
    }

    #[test]
    fn a_prompt_is_seen_before_its_line_ends_and_again_after_a_restart() {
        let mut reader = Reader::default();
        assert_eq!(
            reader.feed(b"Press any key to boot from CD"),
            [Line::KeyPrompt]
        );
        assert_eq!(reader.feed(b" or DVD.."), Vec::<Line>::new());
        assert_eq!(reader.feed(b"\r\n"), Vec::<Line>::new());
        assert_eq!(
            reader.feed(b"Press any key to boot from CD or DVD."),
            [Line::KeyPrompt]
        );
    }

    /// What Debian's OVMF says with Secure Boot. That its own shell is refused is no word about the disc.
    #[test]
    fn a_program_that_secure_boot_refuses() {
        let log = b"BdsDxe: failed to load Boot0001 \"UEFI QEMU DVD-ROM QM00003 \" from PciRoot(0x0)/Pci(0x1F,0x2)/Sata(0x1,0xFFFF,0x0): Access Denied\r\n\
            BdsDxe: failed to start Boot0003 \"EFI Internal Shell\" from Fv(7CB8)/FvFile(7C04): Security Violation\r\n";
        assert_eq!(
            Reader::default().feed(log),
            [
                Line::Refused("failed to load Boot0001 \"UEFI QEMU DVD-ROM QM00003 \" from PciRoot(0x0)/Pci(0x1F,0x2)/Sata(0x1,0xFFFF,0x0): Access Denied".into()),
                Line::Failed("failed to start Boot0003 \"EFI Internal Shell\" from Fv(7CB8)/FvFile(7C04): Security Violation".into()),
            ]
        );
    }

    #[test]
    fn seabios_lines() {
        let log = b"enter handle_19:\n  NULL\nBooting from Hard Disk...\nBoot failed: not a bootable disk\n\n\
            Booting from DVD/CD...\nBoot failed: Could not read from CDROM (code 0005)\nNo bootable device.\n";
        assert_eq!(
            Reader::default().feed(log),
            [
                Line::DiskStarts,
                Line::Failed("Boot failed: not a bootable disk".into()),
                Line::DiscStarts,
                Line::Failed("Boot failed: Could not read from CDROM (code 0005)".into()),
                Line::NothingBoots,
            ]
        );
    }
}
