//! The logs of Windows Setup, Sysprep and servicing: their paths, encodings and error lines.
//!
//! No I/O. Sources: Microsoft, "Windows Setup log files and event logs", "Deployment
//! troubleshooting and log files", "Sysprep (Generalize)"; "SetupAPI text logs" (a line that begins
//! with `!!!` is an error).

use std::collections::HashSet;

use winimg_machine::vm::symptoms::LogFamily;

/// The log with only errors comes first: setupact.log repeats them.
const SETUP: &[&str] = &["setuperr.log", "setupact.log"];

/// Folder below the volume's root, log files, component and phase, in the order in which Windows
/// writes them.
pub const KNOWN: &[(&str, &[&str], LogFamily, &str)] = &[
    (
        r"$WINDOWS.~BT\Sources\Panther",
        SETUP,
        LogFamily::Setup,
        "Windows PE: disk, image, drivers",
    ),
    (
        r"$WINDOWS.~BT\Sources\Rollback",
        SETUP,
        LogFamily::Setup,
        "rollback",
    ),
    (
        r"Windows\Panther",
        &["cbs_unattend.log"],
        LogFamily::Servicing,
        "offline servicing",
    ),
    (
        r"Windows\INF",
        &["setupapi.offline.log"],
        LogFamily::Devices,
        "drivers, offline",
    ),
    (r"Windows\Panther", SETUP, LogFamily::Setup, "specialize"),
    (
        r"Windows\Panther\UnattendGC",
        SETUP,
        LogFamily::Setup,
        "out-of-box experience and SetupComplete",
    ),
    (
        r"Windows\INF",
        &["setupapi.dev.log"],
        LogFamily::Devices,
        "devices and drivers",
    ),
    (
        r"Windows\Logs\DISM",
        &["dism.log"],
        LogFamily::Servicing,
        "servicing",
    ),
    (
        r"Windows\Logs\CBS",
        &["CBS.log"],
        LogFamily::Servicing,
        "servicing",
    ),
    (
        r"Windows\System32\Sysprep\Panther",
        SETUP,
        LogFamily::Sysprep,
        "sysprep",
    ),
    (
        r"Windows\Setup\State",
        &["State.ini"],
        LogFamily::Setup,
        "state of Setup",
    ),
];

/// Answer files that Windows may have used or kept; copied without their secrets.
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
pub struct WindowsLog {
    pub path: String,
    pub family: LogFamily,
    pub phase: String,
    pub text: String,
    /// Only the end was read.
    pub cut: bool,
}

/// A line that reports an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorLine<'l> {
    pub log: &'l WindowsLog,
    pub line: &'l str,
}

/// Error lines that Windows also writes in successful runs. An entry matches a line that contains
/// all its words.
const BENIGN: &[&[&str]] = &[
    &["mrtgeneralize"],
    &["compat-gentel"],
    &["bcd", "c000000d"],
    &["file operations pending"],
];

impl WindowsLog {
    fn has_errors_alone(&self) -> bool {
        self.path.to_ascii_lowercase().ends_with("setuperr.log")
    }

    fn is_error(&self, line: &str) -> bool {
        let lower = line.to_ascii_lowercase();
        let is_benign = BENIGN
            .iter()
            .any(|words| words.iter().all(|word| lower.contains(word)));
        if is_benign {
            return false;
        }
        let is_stamped_error = self.has_errors_alone() && parse_time(line).is_some();
        is_stamped_error || lower.contains(", error ") || line.trim_start().starts_with("!!!")
    }

    /// Returns the last line that is not blank.
    pub fn last_line(&self) -> Option<&str> {
        let mut lines = self.text.lines().rev();
        lines.find(|l| !l.trim().is_empty()).map(str::trim)
    }

    /// Returns the last time in the log, by the guest's clock.
    pub fn last_time(&self) -> Option<&str> {
        self.text.lines().rev().find_map(parse_time)
    }
}

/// Returns the time at the start of a line: `2026-01-02 03:04:05`.
pub fn parse_time(line: &str) -> Option<&str> {
    let stamp = line.get(..19)?;
    let shape = b"0000-00-00 00:00:00";
    stamp
        .bytes()
        .zip(shape)
        .all(|(c, like)| match like {
            b'0' => c.is_ascii_digit(),
            like => c == *like,
        })
        .then_some(stamp)
}

/// Returns the error lines of all logs, sorted by time and without duplicates.
pub fn collect_errors(logs: &[WindowsLog]) -> Vec<ErrorLine<'_>> {
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
    found.sort_by(|a, b| parse_time(a.line).cmp(&parse_time(b.line)));
    found
}

pub fn find_last_written(logs: &[WindowsLog]) -> Option<&WindowsLog> {
    let timed = logs.iter().filter(|log| log.last_time().is_some());
    timed.max_by(|a, b| a.last_time().cmp(&b.last_time()))
}

/// Decodes UTF-16, recognized by its BOM or its zeros, otherwise UTF-8 with replacement characters.
/// Ignores zeros at the end, which are preallocated space.
pub fn decode(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |n| n + 1);
    let bytes = &bytes[..end.next_multiple_of(2).min(bytes.len())];
    let odd_zeros = bytes.iter().skip(1).step_by(2).filter(|b| **b == 0).count();
    let is_utf16_le =
        bytes.starts_with(&[0xff, 0xfe]) || (bytes.len() >= 4 && odd_zeros * 5 > bytes.len() * 2);
    let text = match (is_utf16_le, bytes.starts_with(&[0xfe, 0xff])) {
        (true, _) => encoding_rs::UTF_16LE.decode(bytes).0,
        (_, true) => encoding_rs::UTF_16BE.decode(bytes).0,
        _ => encoding_rs::UTF_8.decode(bytes).0,
    };
    text.trim_end_matches('\0').replace("\r\n", "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(path: &str, text: &str) -> WindowsLog {
        WindowsLog {
            path: path.into(),
            family: LogFamily::Setup,
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
        let lines: Vec<_> = collect_errors(&logs)
            .iter()
            .map(|e| e.line.to_owned())
            .collect();
        assert_eq!(
            lines,
            [
                "!!!  sto: no",
                "2026-01-02 03:04:06, Error  early",
                "2026-01-02 03:04:07, Error      [0x1] late"
            ]
        );
        assert_eq!(
            find_last_written(&logs).map(|l| l.path.as_str()),
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
