//! Times of certificates and timestamps. Refuses local times and invalid dates. (RFC 5280 4.1.2.5)

use std::fmt;
use std::time::{Duration, SystemTime};

use der::DateTime;

use super::tlv::{GENERALIZED_TIME, Tlv, UTC_TIME, refuse_malformed};
use crate::SignatureRefusal;

/// Seconds since 1970. Displayed as RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// Parses UTCTime (`260920120000Z`) or GeneralizedTime, dropping fractions of a second.
    pub fn read(tlv: &Tlv<'_>, what: &'static str) -> Result<Self, SignatureRefusal> {
        Self::parse(tlv).ok_or_else(|| refuse_malformed(what, "has a bad time"))
    }

    fn parse(tlv: &Tlv<'_>) -> Option<Self> {
        let text = std::str::from_utf8(tlv.value).ok()?.strip_suffix('Z')?;
        let whole = match tlv.tag {
            UTC_TIME => {
                let year: u8 = text.get(..2)?.parse().ok()?;
                format!("{}{text}", if year < 50 { "20" } else { "19" })
            }
            GENERALIZED_TIME => match text.split_once('.') {
                Some((whole, fraction)) if is_digits(fraction) => whole.to_string(),
                Some(_) => return None,
                None => text.to_string(),
            },
            _ => return None,
        };
        if whole.len() != 14 || !is_digits(&whole) {
            return None;
        }
        let date = DateTime::new(
            whole[..4].parse().ok()?,
            whole[4..6].parse().ok()?,
            whole[6..8].parse().ok()?,
            whole[8..10].parse().ok()?,
            whole[10..12].parse().ok()?,
            whole[12..].parse().ok()?,
        );
        Some(Self(date.ok()?.unix_duration().as_secs()))
    }

    pub fn since_1970(self) -> Duration {
        Duration::from_secs(self.0)
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

impl From<SystemTime> for Moment {
    fn from(time: SystemTime) -> Self {
        Self(
            time.duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |d| d.as_secs()),
        )
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match DateTime::from_unix_duration(self.since_1970()) {
            Ok(date) => write!(f, "{date}"),
            Err(_) => write!(f, "{} seconds after 1970", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tag: u8, text: &str) -> String {
        let value = text.as_bytes();
        let tlv = Tlv {
            tag,
            value,
            raw: value,
        };
        match Moment::read(&tlv, "the certificate") {
            Ok(moment) => moment.to_string(),
            Err(refusal) => refusal.problem.fact,
        }
    }

    #[test]
    fn times_as_they_stand_in_files() {
        let bad = "it cannot be read: the certificate has a bad time";
        let cases = [
            (UTC_TIME, "260920120000Z", "2026-09-20T12:00:00Z"),
            (UTC_TIME, "990101000000Z", "1999-01-01T00:00:00Z"),
            (GENERALIZED_TIME, "20260920120000Z", "2026-09-20T12:00:00Z"),
            (
                GENERALIZED_TIME,
                "20260920120000.123Z",
                "2026-09-20T12:00:00Z",
            ),
            (GENERALIZED_TIME, "20260920120000.Z", bad),
            (GENERALIZED_TIME, "20261320120000Z", bad),
            (GENERALIZED_TIME, "202609201200+1Z", bad),
            (GENERALIZED_TIME, "2026092012000é", bad),
            (UTC_TIME, "260920120000+0100", bad),
            (UTC_TIME, "é0920120000Z", bad),
            (0x0c, "20260920120000Z", bad),
        ];
        for (tag, text, expected) in cases {
            assert_eq!(read(tag, text), expected, "{text}");
        }
    }
}
