//! Many builds from one file, on the scripted machine: six variants, two installations.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::cli::resume::STEPS;
use crate::cli::site::{Outcome, SEAL, Site};
use support::complaints::facts;
use support::server::{Files, Server};
use winimg::cmd::documents::{MatrixBuildResult, VariantState};

const LONGEST: Duration = Duration::from_secs(60);

/// Another disk is another installation.
pub const NODES: &str = r#"schema = 1

[matrix]
recipe = "recipe.toml"
name = "{{recipe}}-{{tier}}-{{windows}}"
set = { machine.cpus = 1 }

[matrix.axes]
tier = ["gold", "silver", "bronze"]
windows = [
    { name = "2022" },
    { name = "2025", set = { machine = { disk_size = "65 GiB" } } },
]
"#;

const NAMES: [&str; 6] = [
    "recipe-gold-2022",
    "recipe-silver-2022",
    "recipe-bronze-2022",
    "recipe-gold-2025",
    "recipe-silver-2025",
    "recipe-bronze-2025",
];

/// Arguments of each build: a scripted machine, without `verify`, since no Windows is on its disk.
const EACH: [&str; 4] = ["--", "--hypervisor", "fake:machine.toml", "--no-verify"];

fn site() -> Site {
    // What comes first is the same in all variants.
    let steps = STEPS.replace("\"gold\"", "\"{{tier}}\"");
    let site = Site::new(&format!("[vars]\ntier = \"none\"\n{steps}\n{SEAL}"));
    site.write("nodes.toml", NODES);
    site
}

fn build<'a>(site: &'a Site, more: &[&str]) -> Outcome<'a> {
    site.run(&[&["matrix", "build", "nodes.toml"], more, &EACH].concat())
}

fn plan(site: &Site) -> Outcome<'_> {
    let fake = ["--hypervisor", "fake:machine.toml"];
    site.run(&[&["matrix", "plan", "nodes.toml"], &fake[..]].concat())
}

/// How often Windows was installed, over all that was said of the variants.
fn installations(site: &Site) -> usize {
    let events = |name: &&str| {
        let path = site.path("out").join(name).join("events.jsonl");
        std::fs::read_to_string(path).unwrap_or_default()
    };
    let started = r#""event":"phase_started","phase":"install""#;
    NAMES
        .iter()
        .map(|name| events(name).matches(started).count())
        .sum()
}

fn states(outcome: &Outcome<'_>) -> Vec<(String, VariantState)> {
    let built: MatrixBuildResult = serde_json::from_slice(&outcome.output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", outcome.whole()));
    let states = built.variants.into_iter();
    states
        .map(|variant| (variant.name, variant.state))
        .collect()
}

fn all(state: VariantState) -> Vec<(String, VariantState)> {
    NAMES.map(|name| (name.to_owned(), state)).to_vec()
}

#[test]
fn six_variants_install_windows_twice() {
    let site = site();
    insta::assert_snapshot!("plan_before", plan(&site).ended_well().stdout());
    let built = build(&site, &["--json"]).ended_well();
    assert_eq!(states(&built), all(VariantState::Built));
    assert_eq!(installations(&site), 2);
    for name in NAMES {
        // A build as any other: its records, its page and its log.
        let file = |end: &str| site.read(&format!("out/{name}{end}"));
        assert!(site.path(&format!("out/{name}/{name}.raw")).exists());
        assert!(file("/report.html").contains(&format!("<title>{name}: {name} is built</title>")));
        assert!(file(".log").contains("[4/4] seal"), "{}", file(".log"));
        let manifest: Value = serde_json::from_str(&file("/manifest.json")).expect("JSON");
        assert_eq!(manifest["recipe"]["name"], name);
    }
    let page = site.read("out/matrix.html");
    assert!(
        page.contains("<title>nodes.toml: 6 variants: all are built</title>"),
        "{page}"
    );
    for name in NAMES {
        assert!(
            page.contains(&format!("<a href=\"{name}/report.html\">")),
            "{page}"
        );
    }
    let plan_after = plan(&site).ended_well().stdout();
    let times = regex::Regex::new(r"\d+\.\d s").expect("a pattern");
    insta::assert_snapshot!("plan_after", times.replace_all(&plan_after, "[s]"));

    let again = build(&site, &["--json"]).ended_well();
    assert_eq!(states(&again), all(VariantState::Unchanged));
    // One axis gets a value more: its variants begin where the shared parts end.
    site.write(
        "nodes.toml",
        &NODES.replace("\"bronze\"]", "\"bronze\", \"tin\"]"),
    );
    let more = build(&site, &["--json"]).ended_well();
    let new: Vec<String> = states(&more)
        .into_iter()
        .filter(|(_, state)| *state == VariantState::Built)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(new, ["recipe-tin-2022", "recipe-tin-2025"]);
    for name in new {
        let events = site.read(&format!("out/{name}/events.jsonl"));
        assert!(events.contains(r#""event":"layer_used""#), "{events}");
        assert!(events.contains(r#""parts":3,"of":5"#), "{events}");
    }
}

#[test]
fn the_plan_as_json_has_the_schedule() {
    let site = site();
    let outcome = site
        .run(&[
            "matrix",
            "plan",
            "nodes.toml",
            "--json",
            "--hypervisor",
            "fake:machine.toml",
        ])
        .ended_well();
    insta::assert_snapshot!(outcome.stdout());
}

/// What is written after each end, on a host of any size: one line a variant that starts, one that ends.
#[test]
fn a_log_has_a_few_lines_for_each_variant() {
    let site = site();
    let built = build(&site, &["--jobs", "1"]).ended_well();
    let times = regex::Regex::new(r"\d+\.\d s").expect("a pattern");
    let whole = built.whole();
    let sizes = regex::Regex::new(r"[0-9.]+ [KM]iB").expect("a pattern");
    let whole = sizes.replace_all(&whole, "[size]");
    insta::assert_snapshot!(times.replace_all(&whole, "[s]"));
}

#[test]
fn one_that_fails_stops_those_behind_it_or_none() {
    let site = site();
    // The settings of the silver ones.
    let fails = "[[run]]\ncommand = '*silver*'\nexit = 1\n";
    site.machine("", fails);
    let stopped = build(&site, &["--jobs", "1"]);
    assert_eq!(stopped.status(), Some(7), "{}", stopped.whole());
    insta::assert_snapshot!("stopped", stopped.error());

    let goes_on = build(&site, &["--jobs", "1", "--keep-going", "--json"]);
    assert_eq!(goes_on.status(), Some(7), "{}", goes_on.whole());
    let of = |name: &str| match name {
        "recipe-gold-2022" => VariantState::Unchanged,
        name if name.contains("silver") => VariantState::Failed,
        _ => VariantState::Built,
    };
    let expected: Vec<_> = NAMES.map(|name| (name.to_owned(), of(name))).to_vec();
    assert_eq!(states(&goes_on), expected);
    insta::assert_snapshot!("gone_on", goes_on.error());
    assert_eq!(
        installations(&site),
        1,
        "the second was made by the first of its own"
    );
    let page = site.read("out/matrix.html");
    assert!(page.contains("<h2>Failures</h2>"), "{page}");
    let title = "<title>nodes.toml: 2 of 6 variants failed, 4 are built</title>";
    assert!(page.contains(title), "{page}");
}

/// What is said, and not the command line that an event repeats.
fn warnings(events: &str) -> Vec<&str> {
    let events = events.lines();
    let said = events.filter(|line| !line.contains("\"event\":\"build_started\""));
    said.filter(|line| line.contains("lock")).collect()
}

#[test]
fn a_flag_that_nobody_gave_is_named_by_no_command_and_no_build() {
    let site = site();
    // That of the recipe, which is none of the variants'.
    site.run(&["lock", "recipe.toml"]).ended_well();
    let planned = plan(&site).ended_well().whole();
    assert!(!planned.contains("no-lock"), "{planned}");
    let name = "recipe-gold-2022";
    let built = build(&site, &["--only", name]).ended_well().whole();
    assert!(!built.contains("no-lock"), "{built}");
    let log = site.read(&format!("out/{name}.log"));
    let said = warnings(&log).join("\n");
    assert!(!said.contains("no-lock"), "{said}");
    let manifest = site.read(&format!("out/{name}/manifest.json"));
    assert!(!manifest.contains("no-lock"), "{manifest}");

    let recipe = site.read("recipe.toml");
    site.write("recipe.toml", &format!("{recipe}\n[lock]\nserial = 1\n"));
    let refused = build(&site, &["--only", name]);
    let said = refused.failure();
    assert_eq!(refused.status(), Some(5), "{said}");
    assert!(
        said.contains("a lock is required, but this variant has none"),
        "{said}"
    );
    let log = site.read(&format!("out/{name}.log"));
    assert!(log.contains("winimg matrix lock nodes.toml"), "{log}");
    assert!(!warnings(&log).join("\n").contains("no-lock"), "{log}");
}

#[test]
fn a_pipeline_of_variants_without_locks_is_warned_about() {
    let site = site();
    let pipeline = "\n[pipeline]\nimage = \"winimg\"\nlabels = [\"kvm\"]\n\
                    secrets = [\"WINIMG_CACHE_SIGN_KEY\"]\n\n\
                    [pipeline.cache]\nremote = \"oci://registry.example.com/team/cache\"\n\
                    keys = [\"cache.pub\"]\n";
    site.write("nodes.toml", &format!("{NODES}{pipeline}"));
    let render = ["matrix", "render", "nodes.toml", "--engine", "github"];
    let lines = |outcome: &Outcome<'_>| {
        let said = outcome.stderr();
        said.lines()
            .filter_map(|line| Some(&line[line.find("warning: ")?..]))
            .filter(|line| line.contains("without a lock"))
            .map(str::to_owned)
            .collect::<Vec<String>>()
    };
    let before = site.run(&render).ended_well();
    assert_eq!(
        lines(&before),
        [
            "warning: 6 variants without a lock: run `winimg matrix lock nodes.toml` and commit \
             nodes.locks before running the pipeline"
        ]
    );
    site.run(&["matrix", "lock", "nodes.toml"]).ended_well();
    fs::remove_file(site.path("nodes.locks/recipe-gold-2025.lock")).expect("a lock");
    let one = lines(&site.run(&render).ended_well());
    assert!(
        one[0].starts_with("warning: 1 variant without a lock: "),
        "{one:?}"
    );
    site.run(&["matrix", "lock", "nodes.toml"]).ended_well();
    assert_eq!(lines(&site.run(&render).ended_well()), [""; 0]);
}

#[test]
fn only_the_named_ones_are_built() {
    let site = site();
    let only = "recipe-silver-2022,recipe-gold-2025";
    let built = build(&site, &["--only", only, "--json"]).ended_well();
    let expected: Vec<_> = NAMES
        .map(|name| {
            if only.contains(name) {
                (name.to_owned(), VariantState::Built)
            } else {
                (name.to_owned(), VariantState::Left)
            }
        })
        .to_vec();
    assert_eq!(states(&built), expected);
    let unknown = build(&site, &["--only", "recipe-gold-2026"]);
    insta::assert_snapshot!(unknown.failure());
}

#[test]
fn an_interrupt_reaches_every_build() {
    let site = site();
    site.machine("", "[[run]]\ncommand = '* gold *'\noutcome = \"hangs\"\n");
    let more = [
        "matrix",
        "build",
        "nodes.toml",
        "--only",
        "recipe-gold-2022,recipe-gold-2025",
    ];
    let mut command = site.command(&[&more[..], &EACH].concat());
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("winimg starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    // A host for one machine at once never starts the second.
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    let names = &["recipe-gold-2022", "recipe-gold-2025"][..cpus.min(2)];
    let asked = || std::fs::read_to_string(site.path("asked.txt")).unwrap_or_default();
    let deadline = Instant::now() + LONGEST;
    while asked().matches(" gold ").count() < names.len() {
        assert!(
            Instant::now() < deadline,
            "it does not hang where it should"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a number"));
    kill(pid, Signal::SIGINT).expect("the signal is sent");
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        assert!(Instant::now() < deadline, "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut said = String::new();
    let mut first = String::new();
    stderr.read_line(&mut first).expect("UTF-8");
    stderr.read_to_string(&mut said).expect("UTF-8");
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(said.ends_with("error: interrupted\n"), "{said}");
    // In order: the machines were stopped, and the pages say what became of the builds.
    assert_eq!(
        asked().matches("stop\n").count(),
        names.len(),
        "{}",
        asked()
    );
    for name in names {
        let page = site.read(&format!("out/{name}/report.html"));
        assert!(page.contains("was interrupted"), "{page}");
    }
    assert!(!site.files("out").iter().any(|f| f.contains(".winimg-work")));
}

#[test]
fn complaints_of_all_variants_are_one_list() {
    let site = site();
    site.write(
        "nodes.toml",
        &NODES
            .replace(
                "{ name = \"2022\" }",
                "{ name = \"2022\", vars = { teir = \"x\" } }",
            )
            .replace("\"bronze\"", "\"{{nothing}}\"")
            .replace("cpus = 1", "cpus = 1, cpuss = 2"),
    );
    let refused = build(&site, &[]);
    assert_eq!(refused.status(), Some(2));
    insta::assert_snapshot!("of_the_matrix", facts(&refused.stderr()));
    site.write("nodes.toml", &NODES.replace("windows}}", "window}}"));
    insta::assert_snapshot!("of_the_name", facts(&build(&site, &[]).stderr()));
    site.write("nodes.toml", NODES);
    let given = ["--", "--hypervisor", "fake:machine.toml", "--fresh"];
    let fresh = site.run(&[&["matrix", "build", "nodes.toml"], &given[..]].concat());
    insta::assert_snapshot!("fresh", fresh.failure());
    let given = ["--", "--hypervisor", "fake:machine.toml", "--no-verfy"];
    let slip = site.run(&[&["matrix", "build", "nodes.toml"], &given[..]].concat());
    insta::assert_snapshot!("slip", slip.failure());
    assert!(!site.path("out").exists());
}

#[test]
fn each_variant_has_a_lock_and_each_input_is_asked_for_once() {
    let site = site();
    // A file of the network without a digest: what asks for it twice fetches it twice.
    let files = Files::default();
    files.put("/tool.exe", "MZ the tool\n");
    let (server, certificate) = Server::start_tls(move |asked| files.answer(asked));
    site.write("server.pem", &certificate);
    let run = |arguments: &[&str]| {
        let mut command = site.command(arguments);
        command.env("SSL_CERT_FILE", site.path("server.pem"));
        site.ended(command.output().expect("winimg starts"))
    };
    let asked = || {
        server
            .log()
            .iter()
            .filter(|l| l.starts_with("GET /tool.exe"))
            .count()
    };
    let recipe = site.read("recipe.toml");
    let at = recipe.find("[components.tool]").expect("the tool");
    let end = at + recipe[at..].find("[components.agent]").expect("the next");
    let tool = format!(
        "[components.tool]\nversion = \"1.2.0\"\nurl = \"{}\"\nunverified = \"of the test\"\n\n",
        server.url("/tool.exe")
    );
    site.write(
        "recipe.toml",
        &format!("{}{tool}{}", &recipe[..at], &recipe[end..]),
    );
    let check = run(&["matrix", "lock", "nodes.toml", "--check"]);
    assert_eq!(check.status(), Some(2), "{}", check.whole());
    assert!(!site.path("nodes.locks").exists());
    let locked = run(&["matrix", "lock", "nodes.toml"]).ended_well();
    let mut files = NAMES.map(|name| format!("{name}.lock")).to_vec();
    files.sort();
    assert_eq!(site.files("nodes.locks"), files, "{}", locked.whole());
    assert_eq!(asked(), 1);
    run(&["matrix", "lock", "nodes.toml", "--check"]).ended_well();
    let shown = plan(&site).ended_well().stdout();
    assert_eq!(shown.matches("  yes\n").count(), 6, "{shown}");
    run(&[&["matrix", "build", "nodes.toml"], &EACH[..]].concat()).ended_well();
    let manifest: Value =
        serde_json::from_str(&site.read("out/recipe-gold-2025/manifest.json")).expect("JSON");
    assert_eq!(manifest["recipe"]["lock"]["serial"], 1, "{manifest:#}");

    site.write("nodes.toml", &NODES.replace("\"bronze\"", "\"tin\""));
    let renamed = run(&["matrix", "lock", "nodes.toml"]).ended_well();
    let said =
        "warning: nodes.locks/recipe-bronze-2022.lock does not belong to any variant: remove it";
    assert!(renamed.stderr().contains(said), "{}", renamed.whole());
    assert_eq!(asked(), 1);
}

/// The matrix of the page, over a recipe that has what it names.
#[test]
fn the_pages_example_makes_the_variants_that_it_says() {
    let page = include_str!("../../docs/matrix.md");
    let (_, rest) = page.split_once("```toml\n").expect("the example");
    let (example, _) = rest.split_once("```").expect("its end");
    let site = site();
    let vars = "kubernetes_version = \"none\"\niso = \"windows.iso\"\ntier = \"none\"";
    let recipe = site.read("recipe.toml").replace("tier = \"none\"", vars);
    let recipe = recipe.replace("data = \"{{tier}}\"", "data = \"{{kubernetes_version}}\"");
    let recipe = recipe.replace("url = \"windows.iso\"", "url = \"{{iso}}\"");
    site.write("node.toml", &recipe);
    site.write("nodes.toml", example);
    for medium in ["2022.iso", "2025.iso"] {
        std::fs::copy(site.path("windows.iso"), site.path(medium)).expect("a copy");
    }
    let shown = plan(&site).ended_well().stdout();
    let names = [
        "node-1.35.7-2022",
        "node-1.36.4-2022",
        "node-1.36.4-2025",
        "node-next",
    ];
    for name in names {
        assert!(shown.contains(&format!("\n{name} ")), "{shown}");
    }
    assert!(
        shown.contains("\n4 variants, 2 installations of Windows in total\n"),
        "{shown}"
    );
}
