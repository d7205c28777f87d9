//! Tests of `winimg matrix render`: the rendered files, as a review shows them, and the errors for
//! pipelines that cannot be rendered. `make pipelines-judged` validates those of `nodes.toml` and
//! `hostile.toml` with each engine's own tools, and `tests/kubernetes` with the API server.

mod hosts;
mod nightly;

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cli::site::{Outcome, Site};
use support::{golden, tree};

const ENGINES: [&str; 5] = ["github", "gitlab", "argo", "kubernetes", "buildkite"];

/// A folder with these files of this one, and no media: nothing is fetched or looked at.
fn site() -> Site {
    let site = Site::empty();
    for name in ["nodes.toml", "hostile.toml", "node.toml"] {
        let file = tree::root().join("tests/pipelines").join(name);
        site.write(name, &std::fs::read_to_string(file).expect("a file"));
    }
    site
}

fn render<'a>(site: &'a Site, file: &str, engine: &str, more: &[&str]) -> Outcome<'a> {
    let render = ["matrix", "render", file, "--engine", engine];
    site.run(&[&render, more].concat())
}

#[test]
fn the_pipelines_are_those_of_the_golden_files() {
    let site = site();
    for engine in ENGINES {
        render(&site, "nodes.toml", engine, &["--output", "made"]).ended_well();
    }
    // One file of it goes to standard output as well; again it is the same.
    for engine in ["github", "gitlab", "argo", "buildkite"] {
        let shown = render(&site, "nodes.toml", engine, &[]).ended_well();
        let name = match engine {
            "github" => "nodes.yml".to_owned(),
            "gitlab" => "nodes.gitlab-ci.yml".to_owned(),
            "argo" => "nodes.argo.yaml".to_owned(),
            other => format!("nodes.{other}.yml"),
        };
        assert_eq!(shown.stdout(), site.read(&format!("made/{name}")));
    }
    let made = site.files("made");
    for name in &made {
        let text = site.read(&format!("made/{name}"));
        golden::whole(&format!("tests/pipelines/golden/{name}"), &text);
    }
    let mut kept = tree::files("tests/pipelines/golden", &["yml", "yaml"]);
    kept.sort();
    let made: Vec<String> = made
        .iter()
        .map(|name| format!("tests/pipelines/golden/{name}"))
        .collect();
    assert_eq!(kept, made, "a file that nothing makes");
}

#[test]
fn a_committed_pipeline_is_checked() {
    let site = site();
    let check = ["--output", "ci", "--check"];
    let missing = render(&site, "nodes.toml", "kubernetes", &check);
    assert_eq!(missing.status(), Some(2), "{}", missing.whole());
    insta::assert_snapshot!("missing", missing.error());
    assert!(!site.path("ci").exists());
    render(&site, "nodes.toml", "kubernetes", &check[..2]).ended_well();
    let current = render(&site, "nodes.toml", "kubernetes", &check).ended_well();
    assert_eq!(current.stdout(), "");
    let warning = current.stderr();
    assert_eq!(warning.lines().count(), 1, "{warning}");
    assert!(
        warning.contains("warning: 3 variants without a lock: "),
        "{warning}"
    );

    let matrix = site.read("nodes.toml").replace("\"1.36.4\"", "\"1.36.5\"");
    site.write("nodes.toml", &matrix);
    let stale = render(&site, "nodes.toml", "kubernetes", &check);
    assert_eq!(stale.status(), Some(2), "{}", stale.whole());
    insta::assert_snapshot!("stale", stale.error());
    // A lock is obeyed, and said so in the pipeline.
    assert!(
        !site
            .read("ci/nodes-1-installations.yaml")
            .contains("\"--lock\"")
    );
}

#[test]
fn a_file_of_a_stage_that_is_gone_does_not_stay() {
    let site = site();
    let all = ["--output", "ci"];
    render(&site, "nodes.toml", "kubernetes", &all).ended_well();
    let matrix = site.read("nodes.toml");
    let (before, rest) = matrix.split_once("[pipeline.publish]").expect("a table");
    let (_, after) = rest.split_once("\n\n").expect("another table");
    site.write("nodes.toml", &format!("{before}{after}"));
    // Not of our making.
    site.write("ci/nodes-4-more.yaml", "# mine\n");

    let check = ["--output", "ci", "--check"];
    let stale = render(&site, "nodes.toml", "kubernetes", &check);
    assert_eq!(stale.status(), Some(2), "{}", stale.whole());
    insta::assert_snapshot!("gone", stale.error());
    let said = render(&site, "nodes.toml", "kubernetes", &all).ended_well();
    assert!(
        said.stdout()
            .ends_with("ci/nodes-3-publish.yaml: removed\n")
    );
    assert_eq!(
        site.files("ci"),
        [
            "nodes-1-installations.yaml",
            "nodes-2-variants.yaml",
            "nodes-4-more.yaml"
        ]
    );
    render(&site, "nodes.toml", "kubernetes", &check).ended_well();
}

/// A variable in the shell of the person who renders is not set on the machines of the cluster, so it must not change the pipeline.
#[test]
fn the_environment_of_who_renders_is_not_that_of_the_machines() {
    let site = site();
    let recipe = site.read("node.toml");
    let recipe = recipe.replace("[vars]", "[vars]\nmemory = \"8 GiB\"");
    let recipe = recipe.replace(
        "memory = \"8 GiB\"\n\n[[steps]]",
        "memory = \"{{memory}}\"\n\n[[steps]]",
    );
    assert!(recipe.contains("{{memory}}"));
    site.write("node.toml", &recipe);
    let words = ["matrix", "render", "nodes.toml", "--engine", "argo"];
    let plain = site.run(&words).ended_well().stdout();
    let mut command = site.command(&words);
    command.env("WINIMG_VAR_memory", "16 GiB");
    assert_eq!(site.outcome(command).ended_well().stdout(), plain);
}

#[test]
fn what_an_engine_lacks_is_said_at_once() {
    let site = site();
    let matrix = site.read("nodes.toml");
    let refused = |name: &str, engine: &str, text: &str, more: &[&str]| {
        site.write("nodes.toml", text);
        let outcome = render(&site, "nodes.toml", engine, more);
        assert_eq!(outcome.status(), Some(2), "{}", outcome.whole());
        assert_eq!(outcome.stdout(), "");
        insta::assert_snapshot!(name, outcome.error());
    };
    let without = |key: &str| {
        let other = |line: &&str| !line.starts_with(&format!("{key} ="));
        let lines: Vec<&str> = matrix.lines().filter(other).collect();
        lines.join("\n") + "\n"
    };
    let wrong = without("labels")
        .replace("s3://staging/", "ftp://staging/")
        .replace("WINIMG_PUBLISH_USER", "GITHUB_USER");
    refused("github", "github", &wrong, &[]);
    refused("buildkite", "buildkite", &without("queue"), &[]);
    refused("kubernetes", "kubernetes", &without("image"), &[]);
    refused("several_files", "kubernetes", &matrix, &[]);
    let (before, _) = matrix.split_once("[pipeline]").expect("the table");
    refused("no_pipeline", "gitlab", before, &[]);
    let given = matrix.replace("\"--builder-id\"", "\"--fresh\", \"--builder-id\"");
    refused("arguments", "gitlab", &given, &[]);
    let tag = matrix.replace(
        "2025.iso\" }",
        "2025.iso\", motd = \"on {{kubernetes_version}}\" }",
    );
    refused("argo", "argo", &tag, &[]);
}

/// What YAML, the engine and the shell make of a command is what was meant, whatever is in it.
#[test]
fn a_build_gets_its_values_as_the_matrix_has_them() {
    let site = site();
    let plan = site.run(&["matrix", "plan", "hostile.toml", "--json"]);
    let plan: Value = serde_json::from_slice(&plan.ended_well().output.stdout).expect("JSON");
    let variants = plan["variants"].as_array().expect("a list");
    let meant = variants.iter().flat_map(|v| motds(&v["arguments"]));
    let mut meant: Vec<String> = meant.collect();
    meant.sort();
    assert_eq!(meant.len(), 1, "{plan:#}");
    assert!(meant[0].contains("second line: ${X}"), "{meant:?}");

    for engine in ENGINES {
        render(&site, "hostile.toml", engine, &["--output", "made"]).ended_well();
    }
    // The first variant, which makes the installation, has none.
    let made = site.files("made");
    assert_eq!(made.len(), 6, "{made:?}");
    // Nothing is tried again or published.
    for name in &made {
        let text = site.read(&format!("made/{name}"));
        for word in ["retry", "attempt-2", "winimg publish"] {
            assert!(!text.contains(word), "{name}: {word}");
        }
    }
    for name in made.iter().filter(|name| !name.contains("-1-")) {
        let said = yaml(&site.read(&format!("made/{name}")));
        let mut found = Vec::new();
        strings(&said, &mut found);
        let lines = found.iter().filter(|text| text.contains("second line"));
        let lines: Vec<&&str> = lines.collect();
        assert_eq!(lines.len(), 1, "{name}: {said:#}");
        let line: &str = lines[0];
        let motd = match () {
            () if name.contains("argo") || name.contains("-2-") => line.replace("$$", "$"),
            () if name.contains("buildkite") => motd_of_shell(&line.replace("$$", "$")),
            () => motd_of_shell(line),
        };
        assert_eq!(motd, meant[0], "{name}");
    }
}

fn motds(arguments: &Value) -> Vec<String> {
    let words = arguments.as_array().expect("a list").iter();
    let words = words.filter_map(Value::as_str);
    let motds = words.filter(|word| word.starts_with("motd="));
    motds.map(String::from).collect()
}

/// The word that a shell reads in the line.
fn motd_of_shell(line: &str) -> String {
    let script = format!(
        "winimg() {{ for w; do case $w in motd=*) printf %s \"$w\";; esac; done; }}\n{line}"
    );
    let output = Command::new("sh")
        .args(["-euc", &script])
        .output()
        .expect("sh");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// All documents of the text, by a reader that is not ours.
pub fn yaml(text: &str) -> Value {
    let script =
        "import json, sys, yaml\njson.dump(list(yaml.safe_load_all(sys.stdin.buffer)), sys.stdout)";
    let mut child = Command::new("/usr/bin/python3")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 with python3-yaml: tests/install-packages.sh");
    let mut stdin = child.stdin.take().expect("piped");
    std::io::Write::write_all(&mut stdin, text.as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "no YAML:\n{text}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn strings<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(all) => all.iter().for_each(|value| strings(value, found)),
        Value::Object(all) => all.values().for_each(|value| strings(value, found)),
        _ => {}
    }
}

#[test]
fn actions_of_others_are_named_by_the_commits_that_our_own_workflows_name() {
    let site = site();
    let used = |text: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.split_once("uses: "));
        let lines = lines.map(|(_, used)| used.to_owned());
        lines.filter(|used| used.starts_with("actions/")).collect()
    };
    let pinned = regex::Regex::new(r"^actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$");
    let pinned = pinned.expect("a pattern");
    let mut own = Vec::new();
    for name in tree::files(".github/workflows", &["yml"]) {
        let text = std::fs::read_to_string(tree::root().join(name)).expect("a workflow");
        own.extend(used(&text));
    }
    let docs = std::fs::read_to_string(tree::root().join("docs/ci.md")).expect("the page");
    for file in ["nodes.toml", "hostile.toml"] {
        let rendered = render(&site, file, "github", &[]).ended_well();
        let mut all = used(&rendered.stdout());
        assert!(all.len() > 2, "{all:?}");
        all.extend(used(&docs));
        for used in all {
            assert!(pinned.is_match(&used), "{used}");
            assert!(own.contains(&used), "{used} is in no workflow of ours");
        }
    }
}
