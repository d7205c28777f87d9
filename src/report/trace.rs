//! Debug log: spans and events of `tracing`.
//!
//! Separate from the events of `event`: nothing depends on a trace. `-v`, `-vv` and `WINIMG_LOG`
//! select the part for the terminal; the recording of a build gets all of it. Only winimg's own
//! crates are traced: others log request headers, which contain passwords.

use std::fmt::Debug;
use std::sync::{Arc, Weak};
use std::time::Instant;

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::{LookupSpan, SpanRef};
use tracing_subscriber::{Layer, Registry};

use super::Terminal;
use crate::engine::evidence::TraceRecording;
use winimg_base::error::{Error, Kind, Result};

/// Prefix of the targets of winimg's crates.
const OURS: &str = "winimg";
/// The variable that selects targets and levels.
pub const VARIABLE: &str = "WINIMG_LOG";
const MAX_VALUE: usize = 2000;

/// Selects the targets for the terminal. `verbose` counts `-v`; `given` is [`VARIABLE`]'s value,
/// which takes precedence.
pub fn parse_targets(verbose: u8, given: Option<&str>) -> Result<Targets> {
    let base = match verbose {
        0 => LevelFilter::OFF,
        1 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let targets = Targets::new().with_target(OURS, base);
    let Some(given) = given.map(str::trim).filter(|given| !given.is_empty()) else {
        return Ok(targets);
    };
    let mut all = targets;
    for directive in given.split(',').map(str::trim) {
        let read: Targets = directive
            .parse()
            .map_err(|_| invalid_target_error(directive))?;
        if let Some(level) = read.default_level() {
            all = all.with_target(OURS, level);
        }
        for (target, level) in read.iter() {
            // A single word is parsed as a target, even if it is a misspelt level.
            if target.split("::").next().is_none_or(|name| !is_ours(name)) {
                return Err(invalid_target_error(directive));
            }
            all = all.with_target(target, level);
        }
    }
    Ok(all)
}

fn invalid_target_error(found: &str) -> Error {
    Error::new(Kind::Recipe, format!("{VARIABLE} is invalid"))
        .found(found)
        .expected(
            "TARGET=LEVEL, separated by commas: the target is winimg or one of its crates or \
             modules, the level is off, error, warn, info, debug or trace",
        )
        .cure(format!(
            "use for example {VARIABLE}=winimg=debug,winimg_machine=trace"
        ))
}

fn is_ours(name: &str) -> bool {
    name.strip_prefix(OURS)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
}

/// Installs the subscriber. `shown` is the terminal with its targets; `records` sends everything to
/// the recording too.
pub fn install(
    shown: Option<(&Arc<Terminal>, Targets)>,
    recording: &TraceRecording,
    records: bool,
) {
    let shown = shown.map(|(terminal, targets)| {
        let layer = TerminalLayer {
            terminal: Arc::downgrade(terminal),
            recording: recording.clone(),
        };
        layer.with_filter(targets)
    });
    let recorded = records.then(|| {
        let everything = Targets::new().with_target(OURS, LevelFilter::TRACE);
        RecordingLayer(recording.clone()).with_filter(everything)
    });
    if shown.is_some() || recorded.is_some() {
        let all = Registry::default().with(shown).with(recorded);
        // This fails only if it is called twice.
        let _ = tracing::subscriber::set_global_default(all);
    }
}

/// Prints a line on the terminal for each event. Spans are omitted: the terminal already shows
/// phases and steps.
struct TerminalLayer {
    /// Weak, because dropping the terminal removes its live line, and this lives until the process
    /// ends.
    terminal: Weak<Terminal>,
    recording: TraceRecording,
}

impl<S: Subscriber> Layer<S> for TerminalLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some(terminal) = self.terminal.upgrade() else {
            return;
        };
        let fields = TraceFields::collect(&self.recording, |fields| event.record(fields));
        let about = event.metadata();
        let level = about.level().as_str().to_ascii_lowercase();
        let mut line = format!("{level} {}: {}", about.target(), fields.message);
        for (name, value) in &fields.values {
            line += &match value {
                Value::String(text) => format!(" {name}={text}"),
                other => format!(" {name}={other}"),
            };
        }
        terminal.print_line(&line.replace(['\r', '\n'], " "));
    }
}

/// Records a line of JSON for each event, and for the end of each span.
struct RecordingLayer(TraceRecording);

/// Data stored with a span.
struct SpanData {
    at: Instant,
    shown: Value,
}

impl RecordingLayer {
    fn add<'a, S: for<'l> LookupSpan<'l> + 'a>(
        &self,
        about: &Metadata<'_>,
        scope: impl Iterator<Item = SpanRef<'a, S>>,
        fields: TraceFields<'_>,
    ) {
        let spans: Vec<Value> = scope
            .filter_map(|span| Some(span.extensions().get::<SpanData>()?.shown.clone()))
            .collect();
        let line = json!({
            "time": format!("{:.3}", jiff::Timestamp::now()),
            "level": about.level().as_str(),
            "target": about.target(),
            "spans": spans,
            "message": fields.message,
            "fields": fields.values,
        });
        self.0.add(line.to_string());
    }
}

impl<S: Subscriber + for<'l> LookupSpan<'l>> Layer<S> for RecordingLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else {
            return;
        };
        let fields = TraceFields::collect(&self.0, |fields| attributes.record(fields));
        let mut shown = json!({"span": span.name()});
        if let Value::Object(object) = &mut shown {
            object.extend(fields.values);
        }
        let at = Instant::now();
        span.extensions_mut().insert(SpanData { at, shown });
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let fields = TraceFields::collect(&self.0, |fields| event.record(fields));
        let scope = context
            .event_scope(event)
            .into_iter()
            .flat_map(|scope| scope.from_root());
        self.add(event.metadata(), scope, fields);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else {
            return;
        };
        let opened = span.extensions().get::<SpanData>().map(|opened| opened.at);
        let mut fields = TraceFields::collect(&self.0, |_| {});
        fields.message = format!("{} ended", span.name());
        if let Some(at) = opened {
            fields.add("seconds", at.elapsed().as_secs_f64().into());
        }
        self.add(span.metadata(), span.scope().from_root(), fields);
    }
}

/// Message and values of an event or a span, with redacted and truncated texts.
struct TraceFields<'r> {
    recording: &'r TraceRecording,
    message: String,
    values: Map<String, Value>,
}

impl<'r> TraceFields<'r> {
    fn collect(recording: &'r TraceRecording, record: impl FnOnce(&mut Self)) -> Self {
        let mut fields = Self {
            recording,
            message: String::new(),
            values: Map::new(),
        };
        record(&mut fields);
        fields
    }

    fn add(&mut self, name: &str, value: Value) {
        self.values.insert(name.to_owned(), value);
    }

    fn add_text(&mut self, field: &Field, text: &str) {
        let text = truncate(self.recording.redact(text));
        match field.name() {
            "message" => self.message = text,
            name => self.add(name, text.into()),
        }
    }
}

impl Visit for TraceFields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add_text(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add_text(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field.name(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field.name(), value.into());
    }
}

/// Truncates a long text and appends its length.
fn truncate(text: String) -> String {
    if text.len() <= MAX_VALUE {
        text
    } else {
        let head = &text[..text.floor_char_boundary(MAX_VALUE)];
        format!("{head}… ({} bytes)", text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;
    use winimg_base::text::Secret;

    fn shows(verbose: u8, given: &str, target: &str, level: Level) -> bool {
        let targets = parse_targets(verbose, Some(given)).expect("directives");
        targets.would_enable(target, &level)
    }

    #[test]
    fn flags_and_the_variable_together_say_what_is_shown() {
        let (fetch, machine) = ("winimg_supply::fetch", "winimg_machine::qemu");
        for (verbose, given, target, level, shown) in [
            (0, "", fetch, Level::ERROR, false),
            (1, "", fetch, Level::DEBUG, true),
            (1, "", machine, Level::TRACE, false),
            (2, "", machine, Level::TRACE, true),
            (0, "trace", fetch, Level::TRACE, true),
            (0, "winimg_machine=trace", fetch, Level::DEBUG, false),
            (0, "winimg_machine=trace", machine, Level::TRACE, true),
            (
                2,
                "winimg_supply::fetch=off, debug",
                fetch,
                Level::DEBUG,
                false,
            ),
            (
                2,
                "winimg_supply::fetch=off, debug",
                "winimg::vm",
                Level::DEBUG,
                true,
            ),
            (2, "trace", "hyper::proto", Level::ERROR, false),
        ] {
            assert_eq!(
                shows(verbose, given, target, level),
                shown,
                "{verbose} {given:?} {target} {level}"
            );
        }
    }

    #[test]
    fn a_directive_that_says_nothing_is_refused() {
        for wrong in [
            "debgu",
            "winimg=loud",
            "hyper=trace",
            "winimgs=debug",
            "winimg=debug,reqwest",
        ] {
            let error = parse_targets(0, Some(wrong)).expect_err(wrong).to_string();
            let last = wrong.rsplit(',').next().unwrap_or(wrong);
            assert!(error.contains("WINIMG_LOG is invalid"), "{error}");
            assert!(error.contains(&format!("found: {last}")), "{error}");
        }
    }

    #[test]
    fn a_recorded_line_has_its_spans_and_values_and_no_secret() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("debug.jsonl");
        let recording = TraceRecording::default();
        recording.hide([Secret::new("Open-Sesame-42!")]);
        let everything = Targets::new().with_target(OURS, LevelFilter::TRACE);
        let all =
            Registry::default().with(RecordingLayer(recording.clone()).with_filter(everything));
        tracing::subscriber::with_default(all, || {
            let _build = tracing::debug_span!("build", recipe = "node").entered();
            let _step = tracing::debug_span!("step", number = 3, name = "kubelet").entered();
            tracing::trace!(code = 5, line = "net user x Open-Sesame-42!", long = %"y".repeat(5000), "it ran");
            tracing::error!(target: "hyper", "not heard");
        });
        recording.write(&path).expect("written");
        let text = std::fs::read_to_string(&path).expect("the lines");
        let mut lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        for line in &mut lines {
            let object = line.as_object_mut().expect("an object");
            assert!(object.shift_remove("time").is_some());
            if let Some(long) = object["fields"].get_mut("long") {
                let shown = long.as_str().expect("text").trim_start_matches('y');
                *long = shown.into();
            }
            if let Some(seconds) = object["fields"].get_mut("seconds") {
                *seconds = seconds.is_f64().into();
            }
        }
        let (build, step) = (
            json!({"span": "build", "recipe": "node"}),
            json!({"span": "step", "number": 3, "name": "kubelet"}),
        );
        let target = module_path!();
        assert_eq!(
            lines,
            [
                json!({"level": "TRACE", "target": target, "spans": [build, step], "message": "it ran",
                    "fields": {"code": 5, "line": "net user x •••", "long": "… (5000 bytes)"}}),
                json!({"level": "DEBUG", "target": target, "spans": [build, step], "message": "step ended",
                    "fields": {"seconds": true}}),
                json!({"level": "DEBUG", "target": target, "spans": [build], "message": "build ended",
                    "fields": {"seconds": true}}),
            ]
        );
    }
}
