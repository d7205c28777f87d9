//! What is shown of a build beside its events: `-v`, `-vv`, `-q`, `WINIMG_LOG`, and the `debug.jsonl` of a build that fails.

use serde_json::Value;

use crate::cli::site::{BUILD, SEAL, Site};

const STEP: &str = "[[steps]]\nname = \"hello\"\ncmd = \"echo hello\"\n";

fn site() -> Site {
    Site::new(&format!("{STEP}\n{SEAL}"))
}

/// The step ends with 5.
fn failing() -> Site {
    let site = site();
    site.machine(
        "",
        "[[run]]\ncommand = '*\\steps\\001.cmd'\nexit = 5\noutput = \"no\\r\\n\"\n",
    );
    site
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

/// Lines of this level, without their times.
fn traced(text: &str, level: &str) -> Vec<String> {
    let begin = format!("{level} winimg");
    text.lines()
        .filter_map(|line| line.trim_start().split_once(' '))
        .filter(|(_, rest)| rest.starts_with(&begin))
        .map(|(_, rest)| rest.to_owned())
        .collect()
}

#[test]
fn a_quiet_build_tells_its_warnings_and_its_result() {
    let site = site();
    let outcome = site.build(&["-q"]).ended_well();
    let said = outcome.stderr();
    assert!(
        said.contains("warning: the sealed disk was not checked"),
        "{said}"
    );
    for line in said.lines() {
        assert!(line.starts_with("[time] warning: "), "{line}");
    }
    assert!(
        outcome.stdout().contains("node.raw"),
        "{}",
        outcome.stdout()
    );
    let events = site.build(&["--quiet", "--fresh", "--log-format", "json"]);
    let kinds = lines(&events.ended_well().stderr());
    let mut kinds: Vec<_> = kinds.iter().map(|e| e["event"].clone()).collect();
    kinds.dedup();
    assert_eq!(kinds, ["started", "warning", "finished"]);
    let recorded = lines(&site.read("out/events.jsonl"));
    assert!(recorded.iter().any(|e| e["event"] == "step_finished"));
    let failed = failing();
    let said = failed.build(&["-q"]).stderr();
    assert!(said.contains("error: a step failed in the guest"), "{said}");
    let both = site.run(&["validate", "recipe.toml", "-q", "-v"]);
    assert_eq!(both.status(), Some(2));
    assert!(
        both.stderr().contains("cannot be used with"),
        "{}",
        both.stderr()
    );
}

#[test]
fn v_shows_the_decisions_and_vv_everything() {
    let site = site();
    let plain = site.build(&["--layers", "none"]).ended_well().stderr();
    let verbose = site
        .build(&["--layers", "none", "-v"])
        .ended_well()
        .stderr();
    let all = site
        .build(&["--layers", "none", "-vv"])
        .ended_well()
        .stderr();
    assert!(!plain.contains(" winimg::"), "{plain}");
    let decisions = traced(&verbose, "debug");
    for rendered in [
        "layer key part=step `hello` key=",
        "starting a VM disk=",
        "free space",
    ] {
        assert!(
            decisions.iter().any(|d| d.contains(rendered)),
            "{rendered}: {verbose}"
        );
    }
    assert_eq!(traced(&verbose, "trace"), Vec::<String>::new());
    assert!(
        traced(&all, "trace")
            .iter()
            .any(|t| t.contains("checked Setup")),
        "{all}"
    );
    // What is printed without the flag is printed with it, in the same order.
    let rest: Vec<&str> = verbose
        .lines()
        .filter(|l| !l.contains(" debug winimg"))
        .collect();
    assert_eq!(rest, plain.lines().collect::<Vec<_>>());
    let events = site.build(&["--layers", "none", "-vv", "--log-format", "json"]);
    for event in lines(&events.ended_well().stderr()) {
        assert!(event["event"].is_string(), "{event}");
    }
}

#[test]
fn the_variable_selects_parts_and_is_refused_where_it_says_nothing() {
    let site = site();
    let run = |value: &str| {
        let mut command = site.command(&BUILD);
        command.env("WINIMG_LOG", value);
        site.outcome(command)
    };
    let said = run("winimg::export=debug").ended_well().stderr();
    let debug = traced(&said, "debug");
    assert!(
        debug
            .iter()
            .any(|line| line.contains("written and read back file=node.raw")),
        "{said}"
    );
    assert!(
        debug
            .iter()
            .all(|line| line.starts_with("debug winimg::export")),
        "{said}"
    );
    let outcome = run("winimg=loud");
    assert_eq!(outcome.status(), Some(2));
    assert_eq!(
        outcome.stderr(),
        "error: WINIMG_LOG is invalid\n  \
         expected: TARGET=LEVEL, separated by commas: the target is winimg or one of its crates or modules, \
         the level is off, error, warn, info, debug or trace\n  found: winimg=loud\n  \
         cure: use for example WINIMG_LOG=winimg=debug,winimg_machine=trace\n"
    );
}

#[test]
fn a_failed_build_keeps_all_that_was_traced_and_a_good_one_nothing() {
    let site = failing();
    assert_eq!(site.build(&[]).status(), Some(7));
    let traced = lines(&site.read("out/failure/debug.jsonl"));
    let ended: Vec<&Value> = traced
        .iter()
        .filter(|line| line["message"] == "the program ended" && line["fields"]["code"] == 5)
        .collect();
    let [ended] = ended[..] else {
        panic!("{ended:?}");
    };
    let spans = &ended["spans"];
    assert_eq!(spans[0]["span"], "build");
    assert_eq!(
        (&spans[0]["recipe"], &spans[1]["phase"]),
        (&"node".into(), &"provision".into())
    );
    assert_eq!(
        (&spans[2]["number"], &spans[2]["name"]),
        (&1.into(), &"hello".into())
    );
    assert_eq!(spans[3]["op"], "run");
    // From the very beginning, and to the end of what was under way.
    for message in [
        "the recipe is read",
        "using a local file",
        "phase ended",
        "step ended",
    ] {
        assert!(
            traced.iter().any(|line| line["message"] == message),
            "{message}"
        );
    }
    for line in &traced {
        assert!(
            line["time"].is_string()
                && line["target"]
                    .as_str()
                    .is_some_and(|t| t.starts_with("winimg")),
            "{line}"
        );
    }
    let page = site.read("out/report.html");
    assert!(
        page.contains("<a href=\"failure/debug.jsonl\">failure/debug.jsonl</a>"),
        "{page}"
    );
    // Quiet or not: it does not depend on what is shown.
    assert_eq!(site.build(&["-q"]).status(), Some(7));
    assert!(site.path("out/failure/debug.jsonl").exists());
    site.machine("", "");
    site.build(&[]).ended_well();
    let left = site.files(".");
    assert!(
        !left.iter().any(|file| file.contains("debug.jsonl")),
        "{left:?}"
    );
}
