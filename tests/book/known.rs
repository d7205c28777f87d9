//! Tables that people write and the code decides: environment variables, exit statuses, messages.

use std::collections::{BTreeMap, BTreeSet};

use clap::CommandFactory as _;
use regex::Regex;
use support::tree::root;

use super::links::{read, sources};

/// What winimg's own code reads of the environment, beside `winimg`'s own names.
const OTHERS: [&str; 42] = [
    "ALL_PROXY",
    "APPDATA",
    "AWS_ACCESS_KEY_ID",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_EC2",
    "AWS_ENDPOINT_URL_S3",
    "AWS_PROFILE",
    "AWS_REGION",
    "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE",
    "CLOUDSDK_CONFIG",
    "DOCKER_AUTH_CONFIG",
    "DOCKER_CONFIG",
    "GCE_METADATA_HOST",
    "GITHUB_ACTIONS",
    "GITHUB_WORKSPACE",
    "GITLAB_CI",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOVC_INSECURE",
    "GOVC_PASSWORD",
    "GOVC_TLS_CA_CERTS",
    "GOVC_USERNAME",
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LOCALAPPDATA",
    "NO_COLOR",
    "NO_PROXY",
    "OS_AUTH_URL",
    "OS_CLOUD",
    "OS_PASSWORD",
    "OS_USERNAME",
    "PATH",
    "REGISTRY_AUTH_FILE",
    "SOURCE_DATE_EPOCH",
    "SSL_CERT_FILE",
    "SystemRoot",
    "TMPDIR",
    "USERPROFILE",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
];
/// Labels of discs, and what only a compiler reads.
const NO_VARIABLES: [&str; 3] = ["WINIMG_ANSWER", "WINIMG_COMMIT", "WINIMG_PAYLOAD"];

fn first_cells(page: &str) -> BTreeSet<String> {
    let cell = Regex::new(r"(?m)^\| ((?:`[^`]+`(?:, )?)+) \|").expect("a pattern");
    let code = Regex::new("`([^`]+)`").expect("a pattern");
    let text = read(page);
    let cells = cell.captures_iter(&text).map(|c| c[1].to_owned());
    let cells: Vec<String> = cells.collect();
    let names = cells.iter().flat_map(|cell| code.captures_iter(cell));
    names.map(|c| c[1].to_owned()).collect()
}

#[test]
fn the_environment_variables_are_those_of_the_code() {
    let named = Regex::new("\"(WINIMG_[A-Z_]*[A-Z])\"").expect("a pattern");
    let mut read_by_code: BTreeSet<String> = BTreeSet::new();
    for file in sources().into_iter().filter(|f| f.ends_with(".rs")) {
        let text = read(&file);
        read_by_code.extend(named.captures_iter(&text).map(|c| c[1].to_owned()));
    }
    let mut todo = vec![winimg::cli::Cli::command()];
    while let Some(command) = todo.pop() {
        let variables = command.get_arguments().filter_map(|a| a.get_env());
        read_by_code.extend(variables.map(|v| v.to_string_lossy().into_owned()));
        todo.extend(command.get_subcommands().cloned());
    }
    read_by_code
        .retain(|name| !NO_VARIABLES.contains(&&**name) && !name.starts_with("WINIMG_TEST_"));
    read_by_code.insert("WINIMG_VAR_NAME".into());
    let others: BTreeSet<String> = OTHERS.iter().map(|name| name.to_string()).collect();
    let written = first_cells("docs/environment.md");
    let own: BTreeSet<&String> = written.difference(&others).collect();
    assert_eq!(
        own,
        read_by_code.iter().collect(),
        "left: docs/environment.md, right: the code"
    );
    let missing: Vec<&String> = others.difference(&written).collect();
    assert_eq!(missing, Vec::<&String>::new(), "not in docs/environment.md");
}

/// `Kind` of crates/base/src/error.rs: each variant's number and its word in events.
#[test]
fn the_exit_statuses_are_those_of_the_code() {
    let variant = Regex::new(r"(?m)^    ([A-Z][a-z]+) = (\d+),$").expect("a pattern");
    let code = read("crates/base/src/error.rs");
    let kinds: BTreeMap<u8, String> = variant
        .captures_iter(&code)
        .map(|c| (c[2].parse().expect("a status"), c[1].to_lowercase()))
        .collect();
    assert!(kinds.len() > 8, "{kinds:?}");
    let page = read("docs/exit-status.md");
    let status = Regex::new(r"(?m)^\| (\d+) \|").expect("a pattern");
    let written: BTreeSet<u8> = status
        .captures_iter(&page)
        .map(|c| c[1].parse().expect("a status"))
        .collect();
    // Of `winimg diff` and `winimg outdated`, for which what they find is no failure.
    let found = Regex::new(r"(?m)^const [A-Z]+: u8 = (\d+);").expect("a pattern");
    let found = ["src/cmd/diff.rs", "src/cmd/outdated.rs"].map(|file| {
        let code = read(file);
        let all = found.captures_iter(&code).map(|c| c[1].parse());
        all.collect::<Result<Vec<u8>, _>>().expect("statuses")
    });
    let found = found.concat();
    assert_eq!(found.len(), 3, "{found:?}");
    let all: BTreeSet<u8> = kinds.keys().copied().chain([0]).chain(found).collect();
    assert_eq!(written, all, "left: docs/exit-status.md, right: the code");
    let (_, words) = page.split_once("`kind` is ").expect("the words");
    let (words, _) = words.split_once(". ").expect("an end");
    let words: BTreeSet<&str> = words.split('`').skip(1).step_by(2).collect();
    assert_eq!(words, kinds.values().map(String::as_str).collect());
}

/// Each message that docs/troubleshooting.md explains is one of the program's: the parts around what varies stand in its source.
#[test]
fn the_messages_that_are_explained_are_the_programs() {
    let page = read("docs/troubleshooting.md");
    let (own, _) = page
        .split_once("\n## What Windows' screen shows")
        .expect("the next part");
    let headings: Vec<&str> = own.lines().filter_map(|l| l.strip_prefix("### ")).collect();
    assert!(headings.len() > 15, "{headings:?}");
    let spaces = Regex::new(r"\\\n\s*").expect("a pattern");
    let mut source = String::new();
    for file in sources().into_iter().filter(|f| f.ends_with(".rs")) {
        source += &spaces.replace_all(&read(&file), "").replace('\\', "");
    }
    let missing: Vec<&str> = headings
        .into_iter()
        .filter(|heading| {
            let parts = heading.split('…').map(|part| part.trim().trim_matches('`'));
            !parts
                .filter(|part| part.len() > 3)
                .all(|part| source.contains(part))
        })
        .collect();
    assert_eq!(
        missing,
        Vec::<&str>::new(),
        "no message of {}",
        root().display()
    );
}
