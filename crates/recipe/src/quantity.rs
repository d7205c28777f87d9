//! Parses sizes and durations: "64 GiB", "1h30m".
//!
//! Refuses a number without a unit, which would be ambiguous.

use std::time::Duration;

const SIZE_UNITS: &[(&str, u64)] = &[
    ("b", 1),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
];

/// Parses a size in binary (GiB) or decimal units (GB); returns bytes. The error is a help text.
pub fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_lowercase();
    let number: u64 = match number.parse() {
        Ok(number) => number,
        Err(_) => return Err("write a whole number and a unit: \"64 GiB\"".into()),
    };
    match SIZE_UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => number.checked_mul(*factor).ok_or("it is too large".into()),
        None if unit.is_empty() => Err(format!("add a unit: \"{number} GiB\" or \"{number} MiB\"")),
        None if ["k", "m", "g", "t"].contains(&&*unit) => {
            let unit = unit.to_uppercase();
            Err(format!(
                "write \"{number} {unit}iB\" or \"{number} {unit}B\""
            ))
        }
        None => Err("the units are B, KiB, MiB, GiB, TiB (and KB, MB, GB, TB)".into()),
    }
}

const DURATION_HELP: &str = "write it as \"90s\", \"45m\", \"2h\" or \"1h30m\"";

/// Parses a duration. The error is a help text.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    let mut seconds: f64 = 0.0;
    if rest.is_empty() {
        return Err(DURATION_HELP.into());
    }
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u32 = rest[..digits].parse().map_err(|_| DURATION_HELP)?;
        rest = rest[digits..].trim_start();
        let letters = rest.len()
            - rest
                .trim_start_matches(|c: char| c.is_ascii_alphabetic())
                .len();
        let factor = match &rest[..letters] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            "" => return Err(format!("add a unit: \"{number}s\" or \"{number}m\"")),
            _ => return Err(DURATION_HELP.into()),
        };
        seconds += f64::from(number) * factor;
        rest = rest[letters..].trim_start();
    }
    Ok(Duration::from_millis((seconds * 1000.0).round() as u64))
}

/// Renders a size in the largest unit that divides it: "64 GiB".
pub fn format_size(bytes: u64) -> String {
    let binary = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = binary
        .iter()
        .find(|(_, shift)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    match unit {
        Some((unit, shift)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times() {
        assert_eq!(size("64 GiB"), Ok(64 << 30));
        assert_eq!(size("512MiB"), Ok(512 << 20));
        assert_eq!(size("2 GB"), Ok(2_000_000_000));
        assert_eq!(
            size("64"),
            Err("add a unit: \"64 GiB\" or \"64 MiB\"".into())
        );
        assert_eq!(size("64G"), Err("write \"64 GiB\" or \"64 GB\"".into()));
        assert!(size("99999999999 TiB").is_err());
        assert_eq!(parse_duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(
            parse_duration("45"),
            Err("add a unit: \"45s\" or \"45m\"".into())
        );
        assert!(parse_duration("soon").is_err());
        assert_eq!(format_size(64 << 30), "64 GiB");
    }
}
