//! Sizes and times as people write them: "64 GiB", "1h30m".
//!
//! Refuses a number without a unit: 64 of what is not for us to guess.

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

/// Bytes; the error is a help line. Binary units (GiB) and decimal ones (GB) mean what they say.
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
        None if unit.is_empty() => Err(format!(
            "say the unit: \"{number} GiB\" or \"{number} MiB\""
        )),
        None if ["k", "m", "g", "t"].contains(&&*unit) => {
            let unit = unit.to_uppercase();
            Err(format!(
                "say which: \"{number} {unit}iB\" or \"{number} {unit}B\""
            ))
        }
        None => Err("the units are B, KiB, MiB, GiB, TiB (and KB, MB, GB, TB)".into()),
    }
}

/// A time; the error is a help line.
pub fn duration(text: &str) -> Result<Duration, String> {
    let shape = || "write it as \"90s\", \"45m\", \"2h\" or \"1h30m\"".to_string();
    let mut rest = text.trim();
    let mut seconds: f64 = 0.0;
    if rest.is_empty() {
        return Err(shape());
    }
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u32 = rest[..digits].parse().map_err(|_| shape())?;
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
            "" => return Err(format!("say the unit: \"{number}s\" or \"{number}m\"")),
            _ => return Err(shape()),
        };
        seconds += f64::from(number) * factor;
        rest = rest[letters..].trim_start();
    }
    Ok(Duration::from_millis((seconds * 1000.0).round() as u64))
}

/// "64 GiB", the largest unit that divides.
pub fn show_size(bytes: u64) -> String {
    let binary = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let fits = |shift: &u32| bytes > 0 && bytes.is_multiple_of(1 << shift);
    match binary.iter().find(|(_, shift)| fits(shift)) {
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
            Err("say the unit: \"64 GiB\" or \"64 MiB\"".into())
        );
        assert_eq!(
            size("64G"),
            Err("say which: \"64 GiB\" or \"64 GB\"".into())
        );
        assert!(size("99999999999 TiB").is_err());
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(
            duration("45"),
            Err("say the unit: \"45s\" or \"45m\"".into())
        );
        assert!(duration("soon").is_err());
        assert_eq!(show_size(64 << 30), "64 GiB");
    }
}
