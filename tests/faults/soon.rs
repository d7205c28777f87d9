//! How long after a box was seen its build ended, by the times of the events.

use jiff::Timestamp;
use serde_json::Value;

use crate::faults::site::Site;

/// Seconds from the picture of the box to the end of the build.
const LIMIT: f64 = 60.0;

/// What is wrong with the times of `events.jsonl`.
pub fn soon(site: &Site) -> Vec<String> {
    let events = site.read("out/events.jsonl");
    let events: Vec<Value> = events
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let time = |kind: &str| {
        let event = events.iter().rfind(|e| e["event"] == kind)?;
        let time: Timestamp = event["time"].as_str()?.parse().ok()?;
        Some(time.as_millisecond() as f64 / 1000.0)
    };
    match (time("screen"), time("failed")) {
        (Some(shown), Some(failed)) if failed - shown <= LIMIT => Vec::new(),
        (Some(shown), Some(failed)) => vec![format!(
            "named {:.1} s after the box was seen",
            failed - shown
        )],
        _ => vec!["no events of a picture and of the end".into()],
    }
}
