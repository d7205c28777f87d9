//! Format of an event stream: `events.jsonl`, and standard error under `--log-format json`.
//!
//! Reads only streams of its own version. Unknown lines of a later winimg and a truncated last line
//! are ignored.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Event, SCHEMA};

/// One line of a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "a line of winimg's events, version 1")]
pub struct EventLine {
    /// When it happened, in UTC, to the millisecond.
    #[serde(with = "milliseconds")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub time: Timestamp,
    #[serde(flatten)]
    pub event: Event,
}

impl EventLine {
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

/// Reads the lines of a stream. The first one names its version.
pub fn parse_stream(text: &str) -> Result<Vec<EventLine>> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first: Option<EventLine> = lines
        .next()
        .and_then(|line| serde_json::from_str(line).ok());
    let (Some(first), Some(schema)) = (&first, first.as_ref().and_then(find_schema)) else {
        return Err(
            Error::new(Kind::Failed, "this is not a stream of winimg's events")
                .expected(format!("a first line with {SCHEMA}")),
        );
    };
    if schema != SCHEMA {
        return Err(
            Error::new(Kind::Failed, "these events have an unsupported version")
                .expected(SCHEMA)
                .found(schema)
                .cure("use the winimg that wrote them, or a later one"),
        );
    }
    let known = lines.filter_map(|line| serde_json::from_str(line).ok());
    Ok([first.clone()].into_iter().chain(known).collect())
}

fn find_schema(line: &EventLine) -> Option<&str> {
    match &line.event {
        Event::Started { schema, .. } => Some(schema),
        _ => None,
    }
}

/// Returns the JSON Schema of a line, the text of `schemas/events-1.json`.
pub fn render_schema() -> String {
    format!("{:#}\n", schemars::schema_for!(EventLine).as_value())
}
