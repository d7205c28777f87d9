//! `--log-format json`: every line of standard error is an event, the failure as well.

use serde_json::Value;

use crate::cli::site::{SEAL, Site};

fn events(text: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(text);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

#[test]
fn a_failing_step_as_events() {
    let step = "[[steps]]\nname = \"hello\"\ncmd = \"echo hello\"\n";
    let site = Site::new(&format!("{step}\n{SEAL}"));
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
