//! A stream of events as it is written and read: `events.jsonl`, and standard error under `--log-format json`.
//!
//! Reads streams of its own version alone. A line that it does not know, of a later winimg, is passed over, and so is a last line
//! that was cut off.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Event, SCHEMA};

/// One line of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "a line of winimg's events, version 1")]
pub struct Line {
    /// When it happened, in UTC, to the millisecond.
    #[serde(with = "milliseconds")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub time: Timestamp,
    #[serde(flatten)]
    pub event: Event,
}

impl Line {
    pub fn now(event: Event) -> Self {
        let time = Timestamp::now();
        Self { time, event }
    }
}

mod milliseconds {
    use jiff::Timestamp;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{time:.3}"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// The lines of a stream, whose first one names its version.
pub fn read(text: &str) -> Result<Vec<Line>> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first: Option<Line> = lines
        .next()
        .and_then(|line| serde_json::from_str(line).ok());
    let (Some(first), Some(schema)) = (&first, first.as_ref().and_then(schema_of)) else {
        return Err(
            Error::new(Kind::Failed, "this is not a stream of winimg's events")
                .expected(format!("a first line that names {SCHEMA}")),
        );
    };
    if schema != SCHEMA {
        return Err(
            Error::new(Kind::Failed, "these events are of another version")
                .expected(SCHEMA)
                .found(schema)
                .cure("use the winimg that wrote them, or a later one"),
        );
    }
    let known = lines.filter_map(|line| serde_json::from_str(line).ok());
    Ok([first.clone()].into_iter().chain(known).collect())
}

fn schema_of(line: &Line) -> Option<&str> {
    match &line.event {
        Event::Started { schema, .. } => Some(schema),
        _ => None,
    }
}

/// The JSON Schema of a line, as `schemas/events-1.json` holds it.
pub fn schema() -> String {
    format!("{:#}\n", schemars::schema_for!(Line).as_value())
}
