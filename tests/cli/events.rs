//! `--log-format json`: every line of standard error is an event, the failure as well; and what reads them.

use serde_json::Value;

use crate::cli::site::{SEAL, Site};
use support::golden::schema_is_current;
use winimg::report::stream::{self, EventLine};
use winimg_base::event::Event;
use winimg_base::io;

const SCHEMA_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/events-1.json");
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/events.md");
const HELLO: &str = "[[steps]]\nname = \"hello\"\ncmd = \"echo hello\"\n";

fn events(text: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(text);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

#[test]
fn a_failing_step_as_events() {
    let site = Site::new(&format!("{HELLO}\n{SEAL}"));
    site.machine(
        "",
        "[[run]]\ncommand = '*\\steps\\001.cmd'\nexit = 5\noutput = \"no\\r\\n\"\n",
    );
    let outcome = site.build(&["--log-format", "json"]);
    assert_eq!(outcome.status(), Some(7));
    let rendered = events(&outcome.output.stderr);
    assert!(rendered.iter().all(|e| e["time"].is_string()));
    let recorded = events(site.read("out/events.jsonl").as_bytes());
    let without_time = |events: &[Value]| -> Vec<Value> {
        let mut events = events.to_vec();
        for event in &mut events {
            event
                .as_object_mut()
                .expect("an object")
                .shift_remove("time");
        }
        // What is left of other builds is not written to the file.
        events.retain(|e| !e["text"].as_str().unwrap_or("").starts_with("removing "));
        events
    };
    assert_eq!(without_time(&rendered), without_time(&recorded));
    let lines: Vec<String> = without_time(&rendered)
        .iter()
        .map(Value::to_string)
        .collect();
    insta::assert_snapshot!(site.filtered(&lines.join("\n")));
}

#[test]
fn complaints_about_a_recipe_as_events() {
    let site = Site::new("[[steps]]\nname = \"later\"\nfirewal = { port = 10250 }\n");
    let outcome = site.run(&["--log-format", "json", "validate", "recipe.toml"]);
    assert_eq!(outcome.status(), Some(2));
    let rendered = events(&outcome.output.stderr);
    let shown = serde_json::to_string_pretty(&rendered).expect("JSON");
    insta::assert_snapshot!(site.filtered(&shown));
}

#[test]
fn a_sound_recipe_says_nothing_on_standard_error() {
    let steps = "[[steps]]\nname = \"tool\"\ncopy = { component = \"tool\", to = 'C:\\tool.exe' }\n\
                 [[steps]]\nname = \"agent\"\nmsi = { component = \"agent\" }\n";
    let site = Site::new(&format!("{steps}{SEAL}"));
    let outcome = site.run(&["--log-format", "json", "validate", "recipe.toml"]);
    assert_eq!(outcome.status(), Some(0));
    assert_eq!(outcome.stderr(), "");
    assert_eq!(
        outcome.stdout(),
        "recipe.toml is valid: 2 components, 3 steps\n"
    );
}

/// After a change of the types: `WINIMG_WRITE_SCHEMA=1 cargo test --test winimg cli::events`.
#[test]
fn the_schema_in_the_repository_is_current() {
    schema_is_current(SCHEMA_FILE, &stream::render_schema());
}

/// Writes them anew after a change of the types, as the schema.
#[test]
fn the_page_lists_every_event_with_its_fields() {
    let schema: Value = serde_json::from_str(&stream::render_schema()).expect("JSON");
    let rows = schema["oneOf"].as_array().expect("events").iter().map(row);
    let rows: String = rows.collect();
    let page = std::fs::read_to_string(PAGE).expect("the page");
    let head = "| event | fields | what happened |\n|---|---|---|\n";
    let (above, _) = page.split_once(head).expect("the table");
    schema_is_current(PAGE, &format!("{above}{head}{rows}"));
}

fn row(event: &Value) -> String {
    let names = event["properties"].as_object().expect("fields").keys();
    let required = event["required"].as_array().expect("a list");
    let fields = names.filter(|name| *name != "event").map(|name| {
        let mark = if required.contains(&Value::from(name.as_str())) {
            ""
        } else {
            "?"
        };
        format!("`{name}`{mark}")
    });
    let name = event["properties"]["event"]["const"]
        .as_str()
        .expect("a name");
    let fields: Vec<String> = fields.collect();
    let about = event["description"].as_str().unwrap_or_default();
    let about = about.replace('\n', " ");
    format!("| `{name}` | {} | {about} |\n", fields.join(", "))
}

/// Holds every line against the schema, and reads the stream back; its lines.
fn held_to_the_schema(site: &Site, text: &str) -> Vec<EventLine> {
    let schema = std::fs::read_to_string(SCHEMA_FILE).expect("the schema");
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).expect(line);
        let wrong: Vec<String> = validator
            .iter_errors(&value)
            .map(|e| e.to_string())
            .collect();
        assert_eq!(wrong, Vec::<String>::new(), "{line}");
    }
    let read = stream::parse_stream(text).expect("a stream");
    let again = read.iter().map(|l| serde_json::to_string(l).expect("JSON"));
    let again: Vec<String> = again.collect();
    // Numbers are read to the last digit but one.
    let kept = |text: &str| site.filtered(text);
    assert_eq!(kept(&again.join("\n")), kept(text));
    read
}

#[test]
fn streams_hold_to_their_schema_and_are_read_back() {
    let site = Site::with_every_output(HELLO);
    let built = |what: &str, more: &[&str], status: i32| {
        let outcome = site.build(&[&["--log-format", "json"], more].concat());
        assert_eq!(
            outcome.status(),
            Some(status),
            "{what}: {}",
            outcome.whole()
        );
        let rendered = String::from_utf8_lossy(&outcome.output.stderr).into_owned();
        let rendered = held_to_the_schema(&site, &rendered);
        let recorded = held_to_the_schema(&site, &site.read("out/events.jsonl"));
        for lines in [&rendered, &recorded] {
            let Some(Event::Started {
                command, recipe, ..
            }) = lines.first().map(|l| &l.event)
            else {
                panic!("{what}: {lines:?}");
            };
            assert_eq!(
                (command.as_str(), recipe.as_deref()),
                ("build", Some("recipe.toml"))
            );
        }
        let last = |lines: Vec<EventLine>| lines.into_iter().last().expect("a line").event;
        (last(rendered), last(recorded))
    };
    for (what, unchanged) in [("a build", false), ("the same build", true)] {
        let (rendered, recorded) = built(what, &[], 0);
        assert_eq!(rendered, recorded, "{what}");
        let Event::Finished {
            output,
            artifacts,
            unchanged: is,
            ..
        } = rendered
        else {
            panic!("{what}: {rendered:?}");
        };
        assert_eq!(
            (output.as_str(), is),
            (site.path("out").to_str().expect("text"), unchanged)
        );
        let files: Vec<&str> = artifacts.iter().map(|a| a.file.as_str()).collect();
        assert_eq!(
            files,
            [
                "node.raw",
                "node.vhd",
                "node.ova",
                "node.qcow2",
                "node.ami/import-image.json"
            ]
        );
        for artifact in &artifacts {
            let (digest, bytes) =
                io::compute_sha256(&site.path("out").join(&artifact.file)).expect("a file");
            assert_eq!(
                (artifact.sha256.as_str(), artifact.bytes),
                (digest.hex().as_str(), bytes)
            );
        }
    }
    let failing = "[[run]]\ncommand = '*\\steps\\001.cmd'\nexit = 5\noutput = \"no\\r\\n\"\n";
    for (what, head, answers, more, status) in [
        ("a step that fails", "", failing, &[][..], 7),
        (
            "a step that fails and is kept",
            "",
            failing,
            &["--on-error", "keep", "--keep-for", "1s"],
            7,
        ),
        (
            "a Setup that fails",
            "[install]\noutcome = \"stands-still\"\n",
            "",
            &[],
            6,
        ),
    ] {
        site.machine(head, answers);
        let (rendered, recorded) = built(what, more, status);
        assert_eq!(rendered, recorded, "{what}");
        assert!(
            matches!(rendered, Event::Failed { status: is, .. } if i32::from(is) == status),
            "{what}"
        );
    }
}

#[test]
fn complaints_and_findings_hold_to_the_schema() {
    let site = Site::new("[[steps]]\nname = \"later\"\nfirewal = { port = 10250 }\n");
    for (arguments, kind) in [
        (&["validate", "recipe.toml"][..], "diagnostics"),
        (&["verify", "sealed.qcow2"], "failed"),
        (&["build", "absent.toml"], "failed"),
    ] {
        let outcome = site.run(&[&["--log-format", "json"], arguments].concat());
        assert_ne!(outcome.status(), Some(0));
        let text = String::from_utf8_lossy(&outcome.output.stderr).into_owned();
        held_to_the_schema(&site, &text);
        assert!(text.contains(&format!("\"event\":\"{kind}\"")), "{text}");
    }
}

#[test]
fn wrong_lines_are_refused_by_the_schema() {
    let schema: Value = serde_json::from_str(&stream::render_schema()).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let time = "\"time\":\"2026-01-02T03:04:05.678Z\"";
    for (line, is_right) in [
        (r#""event":"phase_started","phase":"fetch""#, true),
        (r#""event":"phase_started","phase":"fetch","later":1"#, true),
        (r#""event":"phase_started","phase":"lunch""#, false),
        (r#""event":"phase_finished","phase":"fetch""#, false),
        (r#""event":"resumed","choice":"go-on","seconds":1"#, true),
        (r#""event":"resumed","choice":"GoOn","seconds":1"#, false),
        (
            r#""event":"step_started","step":1,"of":2,"name":"a","place":"recipe.toml""#,
            false,
        ),
        (
            r#""event":"started","schema":"winimg/events/2","winimg":"1","command":"lock""#,
            false,
        ),
    ] {
        let value: Value = serde_json::from_str(&format!("{{{time},{line}}}")).expect(line);
        assert_eq!(validator.is_valid(&value), is_right, "{line}");
    }
}

#[test]
fn what_a_later_winimg_adds_is_passed_over_and_another_version_is_named() {
    let started = r#"{"time":"2026-01-02T03:04:05.678Z","event":"started","schema":"winimg/events/1","winimg":"9.9.9","command":"build","later":{}}"#;
    let note = r#"{"time":"2026-01-02T03:04:06.000Z","event":"note","text":"x"}"#;
    let strange = note.replace("note", "lunch_served");
    let phase = r#"{"time":"2026-01-02T03:04:06.000Z","event":"phase_finished","phase":"lunch","seconds":1}"#;
    let text = [started, &strange, phase, note, &note[..30]].join("\n");
    let read = stream::parse_stream(&text).expect("a stream");
    assert_eq!(read.len(), 2, "{read:?}");
    assert_eq!(read[1].event, Event::Note { text: "x".into() });
    let other = text.replace("events/1", "events/2");
    assert_eq!(
        stream::parse_stream(&other).unwrap_err().to_string(),
        "these events have an unsupported version\n  expected: winimg/events/1\n  found: winimg/events/2\n  \
         cure: use the winimg that wrote them, or a later one"
    );
    for text in ["", note, "<html>"] {
        assert_eq!(
            stream::parse_stream(text).unwrap_err().fact(),
            "this is not a stream of winimg's events"
        );
    }
}
