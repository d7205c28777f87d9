//! Lines of Windows' logs and of a step's output that have a known cause.

use serde::Deserialize;

use super::CATALOGUE;

/// The component that writes a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFamily {
    Setup,
    Sysprep,
    Servicing,
    Devices,
    /// winimg's own files in the guest.
    Bootstrap,
    /// A step's output, or the error itself.
    Step,
}

/// A line of a log with its cause and cure.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSymptom {
    pub id: String,
    /// Fragments that must all occur in one line, in lower case; one list of them suffices.
    #[serde(rename = "match")]
    pub(super) lines: Vec<Vec<String>>,
    /// Log families to match. Empty: all.
    #[serde(default)]
    pub(super) families: Vec<LogFamily>,
    pub cause: String,
    pub cure: String,
    pub source: String,
}

/// Returns the first row that matches a line, with its rank in the catalogue.
pub fn find_in_line(family: LogFamily, line: &str) -> Option<(usize, &'static LogSymptom)> {
    let line = with_codes(&line.to_ascii_lowercase());
    CATALOGUE.log.iter().enumerate().find(|(_, row)| {
        (row.families.is_empty() || row.families.contains(&family))
            && row
                .lines
                .iter()
                .any(|words| words.iter().all(|word| line.contains(word)))
    })
}

/// Returns the cause behind an exit code that is a known HRESULT.
pub fn find_code_cause(code: i64) -> Option<&'static str> {
    let (_, row) = find_in_line(LogFamily::Step, &code.to_string())?;
    Some(&row.cause)
}

/// Appends each number that can be an HRESULT in hexadecimal, as in the rows: an exit code is the
/// same number, signed.
fn with_codes(line: &str) -> String {
    let mut all = line.to_owned();
    for word in line.split(|c: char| !c.is_ascii_digit() && c != '-') {
        if let Ok(code @ (-0x8000_0000..0 | 0x8000_0000..0x1_0000_0000)) = word.parse::<i64>() {
            all.push_str(&format!(" {:#010x}", code as u32));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_hides_behind_an_earlier_one() {
        for row in &CATALOGUE.log {
            let family = row.families.first().copied().unwrap_or(LogFamily::Setup);
            for words in &row.lines {
                let line = words.join(" ... ");
                let (_, found) = find_in_line(family, &line).expect("itself");
                assert_eq!(found.id, row.id, "{line}");
            }
        }
    }
}
