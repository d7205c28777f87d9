//! The logs of Windows Setup, Sysprep and servicing: where each lies, how it is written, which of its lines are errors.
//!
//! Pure. Sources: Microsoft, "Windows Setup log files and event logs", "Deployment troubleshooting and log files",
//! "Sysprep (Generalize)"; "SetupAPI text logs" (a line that begins with `!!!` is an error).

use std::collections::HashSet;

/// Who writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Setup,
    Sysprep,
    Servicing,
    Devices,
    /// winimg's own files in the guest.
    Bootstrap,
    /// What a step printed, or the error itself.
    Step,
}

/// Of two that repeat each other, the one with errors alone comes first.
const SETUP: &[&str] = &["setuperr.log", "setupact.log"];

/// Folders below the volume's root, their logs, who writes them, and what was going on then: in the order in which Windows
/// writes them.
pub const KNOWN: &[(&str, &[&str], Family, &str)] = &[
    (
        r"$WINDOWS.~BT\Sources\Panther",
        SETUP,
        Family::Setup,
        "Windows PE: disk, image, drivers",
    ),
    (
        r"$WINDOWS.~BT\Sources\Rollback",
        SETUP,
        Family::Setup,
        "rollback",
    ),
    (
        r"Windows\Panther",
        &["cbs_unattend.log"],
        Family::Servicing,
        "offline servicing",
    ),
    (
        r"Windows\INF",
        &["setupapi.offline.log"],
        Family::Devices,
        "drivers, offline",
    ),
    (r"Windows\Panther", SETUP, Family::Setup, "specialize"),
    (
        r"Windows\Panther\UnattendGC",
        SETUP,
        Family::Setup,
        "out-of-box experience and SetupComplete",
    ),
    (
        r"Windows\INF",
        &["setupapi.dev.log"],
        Family::Devices,
        "devices and drivers",
    ),
    (
        r"Windows\Logs\DISM",
        &["dism.log"],
        Family::Servicing,
        "servicing",
    ),
    (
        r"Windows\Logs\CBS",
        &["CBS.log"],
        Family::Servicing,
        "servicing",
    ),
    (
        r"Windows\System32\Sysprep\Panther",
        SETUP,
        Family::Sysprep,
        "sysprep",
    ),
    (
        r"Windows\Setup\State",
        &["State.ini"],
        Family::Setup,
        "state of Setup",
    ),
];

/// Answer files that Windows may have taken or kept; copied without their secrets.
pub const ANSWER_FILES: &[&str] = &[
    r"Autounattend.xml",
    r"Unattend.xml",
    r"Windows\Panther\unattend.xml",
    r"Windows\Panther\unattend-original.xml",
    r"Windows\Panther\Unattend\unattend.xml",
    r"Windows\System32\Sysprep\unattend.xml",
    r"Windows\System32\Sysprep\Panther\unattend.xml",
];

/// winimg's folder in the guest; each `*.log` and `bootstrap.done` in it is read.
pub const OWN_FOLDER: &str = "winimg";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    pub path: String,
    pub family: Family,
    pub phase: String,
    pub text: String,
    /// Only its end was taken.
    pub cut: bool,
}

/// A line that says that something went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorLine<'l> {
    pub log: &'l Log,
    pub line: &'l str,
}

/// What Windows writes in every good run, too.
const BENIGN: &[&[&str]] = &[
    &["mrtgeneralize"],
    &["compat-gentel"],
    &["bcd", "c000000d"],
    &["file operations pending"],
];

impl Log {
    fn has_errors_alone(&self) -> bool {
        self.path.to_ascii_lowercase().ends_with("setuperr.log")
    }

    fn is_error(&self, line: &str) -> bool {
        let lower = line.to_ascii_lowercase();
        let benign = |words: &&[&str]| words.iter().all(|word| lower.contains(word));
        if BENIGN.iter().any(benign) {
            return false;
        }
        let stamped = self.has_errors_alone() && time(line).is_some();
        stamped || lower.contains(", error ") || line.trim_start().starts_with("!!!")
    }

    /// The last line that says something.
    pub fn last_line(&self) -> Option<&str> {
        let mut lines = self.text.lines().rev();
        lines.find(|l| !l.trim().is_empty()).map(str::trim)
    }

    /// When the log was written last, by the guest's clock.
    pub fn last_time(&self) -> Option<&str> {
        self.text.lines().rev().find_map(time)
    }
}

/// `2026-01-02 03:04:05` at the beginning of a line.
pub fn time(line: &str) -> Option<&str> {
    let stamp = line.get(..19)?;
    let shape = b"0000-00-00 00:00:00";
    let fits = |(c, like): (u8, &u8)| match like {
        b'0' => c.is_ascii_digit(),
        like => c == *like,
    };
    stamp.bytes().zip(shape).all(fits).then_some(stamp)
}

/// The error lines of all logs, oldest first as far as they have times, without repeats.
pub fn errors(logs: &[Log]) -> Vec<ErrorLine<'_>> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for log in logs {
        let lines = log.text.lines().filter(|line| log.is_error(line));
        for line in lines {
            let line = line.trim();
            if seen.insert(line) {
                found.push(ErrorLine { log, line });
            }
        }
    }
    found.sort_by(|a, b| time(a.line).cmp(&time(b.line)));
    found
}

pub fn last(logs: &[Log]) -> Option<&Log> {
    let timed = logs.iter().filter(|log| log.last_time().is_some());
    timed.max_by(|a, b| a.last_time().cmp(&b.last_time()))
}

/// UTF-16 by its mark or its zeros, otherwise UTF-8 with replacement characters. Zeros at the end are room that was never
/// written.
pub fn decode(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |n| n + 1);
    let bytes = &bytes[..end.next_multiple_of(2).min(bytes.len())];
    let odd_zeros = bytes.iter().skip(1).step_by(2).filter(|b| **b == 0).count();
    let wide =
        bytes.starts_with(&[0xff, 0xfe]) || (bytes.len() >= 4 && odd_zeros * 5 > bytes.len() * 2);
    let text = match (wide, bytes.starts_with(&[0xfe, 0xff])) {
        (true, _) => encoding_rs::UTF_16LE.decode(bytes).0,
        (_, true) => encoding_rs::UTF_16BE.decode(bytes).0,
        _ => encoding_rs::UTF_8.decode(bytes).0,
    };
    text.trim_end_matches('\0').replace("\r\n", "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(path: &str, text: &str) -> Log {
        Log {
            path: path.into(),
            family: Family::Setup,
            phase: "p".into(),
            text: text.into(),
            cut: false,
        }
    }

    #[test]
    fn error_lines_are_reported_once_in_the_order_of_their_times() {
        let logs = [
            log(
                r"Windows\Panther\setuperr.log",
                "2026-01-02 03:04:07, Error      [0x1] late\n\n  more of it\n",
            ),
            log(
                r"Windows\Panther\setupact.log",
                "2026-01-02 03:04:05, Info  fine\n2026-01-02 03:04:06, Error  early\n2026-01-02 03:04:07, Error      [0x1] late\n\
                 2026-01-02 03:04:08, Error  MRTGeneralize: Failed ConnectServer\n",
            ),
            log(
                r"Windows\INF\setupapi.dev.log",
                "!!!  sto: no\n!    ndv: hm\n",
            ),
        ];
        let lines: Vec<_> = errors(&logs).iter().map(|e| e.line.to_owned()).collect();
        assert_eq!(
            lines,
            [
                "!!!  sto: no",
                "2026-01-02 03:04:06, Error  early",
                "2026-01-02 03:04:07, Error      [0x1] late"
            ]
        );
        assert_eq!(
            last(&logs).map(|l| l.path.as_str()),
            Some(r"Windows\Panther\setupact.log")
        );
    }

    #[test]
    fn logs_are_read_in_every_encoding_that_windows_writes() {
        let wide =
            |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
        for bytes in [
            "Grüße\r\nzwei\r\n".as_bytes().to_vec(),
            "\u{feff}Grüße\r\nzwei\r\n".as_bytes().to_vec(),
            [&[0xff, 0xfe][..], &wide("Grüße\r\nzwei\r\n")].concat(),
            wide("Grüße\r\nzwei\r\n"),
            [wide("Grüße\r\nzwei\r\n"), vec![0; 6]].concat(),
            ["Grüße\r\nzwei\r\n".as_bytes(), &[0; 40]].concat(),
        ] {
            assert_eq!(decode(&bytes), "Grüße\nzwei\n", "{bytes:x?}");
        }
        assert_eq!(decode(&[0; 64]), "");
        assert_eq!(decode(b""), "");
    }
}
