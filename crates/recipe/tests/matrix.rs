//! A matrix: which variants it makes, and every complaint at once.

use std::path::Path;
use support::complaints::facts;

use winimg_base::diag::{Diagnostic, Diagnostics};
use winimg_recipe::keys;
use winimg_recipe::matrix::{MatrixSpec, read};
use winimg_recipe::{ReadOptions, read as read_recipe};

use crate::plan::keys::written;

fn matrix(text: &str) -> (Option<MatrixSpec>, Diagnostics) {
    read(Path::new("team/nodes.toml"), text.to_owned())
}

/// Each variant as a command line.
fn lines(text: &str) -> String {
    let (matrix, found) = matrix(text);
    assert_eq!(found.render(false), "");
    let variants = matrix.expect("a matrix").variants;
    let line = |v: &winimg_recipe::matrix::VariantSpec| {
        let recipe = v.recipe.value.display();
        format!(
            "{}: {recipe} {}\n",
            v.name.value,
            v.overlay.to_flags().join(" ")
        )
    };
    variants.iter().map(line).collect()
}

const NODES: &str = r#"
schema = 1

[matrix]
recipe = "capi-ova.toml"
name = "{{recipe}}-{{kubernetes_version}}-{{windows}}"
vars = { team = "platform" }
set = { machine.memory = "8 GiB" }

[matrix.axes]
kubernetes_version = ["1.34.2", "1.35.1"]
windows = [
    { name = "2022", vars = { iso_url = "2022.iso" } },
    { name = "2025", vars = { iso_url = "2025.iso" }, set = { machine = { cpus = 8, tpm = true }, target = ["vsphere"] } },
]

[[matrix.exclude]]
kubernetes_version = ["1.34.2"]
windows = "2025"

[[matrix.include]]
kubernetes_version = "1.36.0"
windows = "2025"
recipe = "next.toml"
set = { steps."the \"first\" step".timeout = "1h" }

[[matrix.include]]
name = "plain"
vars = { team = "other", build = 7 }
"#;

#[test]
fn variants_are_the_combinations_and_the_rows() {
    insta::assert_snapshot!(lines(NODES));
}

#[test]
fn all_mistakes_are_told_at_once() {
    let (matrix, found) = matrix(
        r#"
schema = 2
extra = 1

[matrix]
name = "{{recipe}}-{{windws}}"
vars = { half = 1.5 }
set = { name = "mine", vars = { a = "b" } }

[matrix.axes]
kubernetes_version = ["1.34.2", "1.34.2", 1.35]
windows = [{ name = "2022", vars = { iso = "a" }, recipe = "a.toml" }, { vars = {}, sets = {} }]
edition = [{ name = "core", vars = { iso = "b" }, recipe = "b.toml" }]
recipe = ["a"]
password = ["b"]
empty = []
one = "two"

[[matrix.exclude]]
windos = "2022"
kubernetes_version = ["1.34.2", "1.33.0"]

[[matrix.exclude]]

[[matrix.include]]
windows = "2019"
nothing = "here"
set = 7
"#,
    );
    assert!(matrix.is_none());
    insta::assert_snapshot!(facts(&found.render(false)));
}

#[test]
fn what_no_variant_could_be_is_refused() {
    let refused = |axes: &str| {
        let text = format!("schema = 1\n[matrix]\nrecipe = \"r.toml\"\n{axes}");
        let (matrix, found) = matrix(&text);
        assert!(matrix.is_none(), "{text}");
        found.render(false)
    };
    let same = "name = \"{{recipe}}\"\n[matrix.axes]\na = [\"x\", \"y\"]\n";
    let slash = "name = \"{{a}}\"\n[matrix.axes]\na = [\"x/y\", \"con\", \"X\", \"x\", \"-x\"]\n";
    let long = format!(
        "name = \"{{{{a}}}}\"\n[matrix.axes]\na = [\"{}\"]\n",
        "x".repeat(64)
    );
    let none = "name = \"{{recipe}}\"\n";
    let gone = "name = \"{{a}}\"\n[matrix.axes]\na = [\"x\"]\n[[matrix.exclude]]\na = \"x\"\n";
    let lacks =
        "name = \"{{a}}\"\n[matrix.axes]\na = [\"x\"]\n[[matrix.include]]\nvars = { b = \"c\" }\n";
    let idle = "name = \"{{a}}-{{b}}\"\n[matrix.axes]\na = [\"x\", \"y\"]\nb = [\"x\", \"y\"]\n[[matrix.exclude]]\na = \"x\"\n[[matrix.exclude]]\na = \"x\"\nb = []\n";
    let both = "name = \"{{a}}-{{b}}\"\n[matrix.axes]\na = [{ name = \"x\", recipe = \"x.toml\", vars = { v = \"1\" } }]\nb = [{ name = \"y\", recipe = \"y.toml\", vars = { v = \"2\" } }]\n";
    let many: Vec<String> = (0..17).map(|n| format!("\"{n}\"")).collect();
    let many = many.join(", ");
    let many =
        format!("name = \"{{{{a}}}}-{{{{b}}}}\"\n[matrix.axes]\na = [{many}]\nb = [{many}]\n");
    let texts = [same, slash, &long, none, gone, lacks, idle, both, &many];
    let texts: Vec<String> = texts.iter().map(|text| refused(text)).collect();
    insta::assert_snapshot!(facts(&texts.join("\n")));
}

/// Its places are those of the matrix's file, not of a command line that nobody typed.
#[test]
fn a_recipes_complaints_about_a_variant_stand_in_the_matrix() {
    let (matrix, _) = matrix(
        r#"
schema = 1
[matrix]
recipe = "r.toml"
name = "{{recipe}}-{{windows}}"
[matrix.axes]
windows = [{ name = "2022", vars = { iso_utl = "x" }, set = { machine = { cpus = "many", disk = 3 } } }]
"#,
    );
    let variant = &matrix.expect("a matrix").variants[0];
    let options = ReadOptions {
        piped: Some(b"schema = 1\n[vars]\niso_url = \"y\"\n".to_vec()),
        overlay: variant.overlay.clone(),
        ..ReadOptions::default()
    };
    let (_, found) = read_recipe(Path::new("r.toml"), &options);
    let of_matrix = |d: &&Diagnostic| {
        let place = d.problem.place.as_ref();
        place.is_some_and(|p| p.source.name == "team/nodes.toml")
    };
    let own: Vec<Diagnostic> = found.0.iter().filter(of_matrix).cloned().collect();
    insta::assert_snapshot!(facts(&Diagnostics(own).render(false)));
}

const PIPELINE: &str = r#"
[pipeline]
labels = ["kvm"]
secrets = ["WINIMG_CACHE_SIGN_KEY"]
store = "s3://staging/{{variant}}/x"
[pipeline.cache]
remote = "oci://registry.example.com/cache"
keys = ["cache.pub"]
"#;

#[test]
fn a_pipeline_is_read_with_its_defaults() {
    let (matrix, found) = matrix(&format!("{NODES}{PIPELINE}"));
    assert_eq!(found.render(false), "");
    let pipeline = matrix.expect("a matrix").pipeline.expect("a pipeline");
    assert_eq!(pipeline.timeout.as_secs(), 8 * 3600);
    assert_eq!((pipeline.retries, &*pipeline.branch), (2, "main"));
    assert!(pipeline.publish.is_none() && pipeline.image.is_none());
    assert_eq!(pipeline.kubernetes.secret, "winimg");
    assert_eq!(pipeline.kubernetes.workdir, "/recipes");
    let store = pipeline.store.expect("a store");
    assert_eq!(store.render("node-1"), "s3://staging/node-1/x");
    let (without, _) = self::matrix(NODES);
    assert!(without.expect("a matrix").pipeline.is_none());
}

#[test]
fn all_mistakes_of_a_pipeline_are_told_at_once() {
    let pipeline = r#"
[pipeline]
image = "win img"
labels = ["$(id)", ""]
queue = "a b"
branch = "main\"\n"
timeout = "90s"
retries = 3
secrets = ["hunter2", "WINIMG_SIGN_PASSWORD", "WINIMG_SIGN_PASSWORD"]
store = "s3://staging"
[pipeline.cache]
remote = "oci://user:hunter3@registry.example.com/cache"
keys = []
[pipeline.publish]
to = "s3://images/{{name}}/${X}"
environment = "{{x}}"
[pipeline.kubernetes]
workdir = "recipes"
secret = "Winimg_1"
kvm = "kvm"
node_selector = { "-x" = "y", "example.com/kvm" = "a b", "kvm" = 1.5 }
"#;
    let (matrix, found) = matrix(&format!("{NODES}{pipeline}"));
    assert!(matrix.is_none());
    assert!(!found.render(false).contains("hunter"));
    insta::assert_snapshot!(facts(&found.render(false)));
    let (_, found) = self::matrix(&format!("{NODES}[pipeline]\n"));
    insta::assert_snapshot!("an_empty_pipeline", facts(&found.render(false)));
}

#[test]
fn no_complaint_shows_what_may_be_a_secret() {
    let text = r#"
schema = 1
[matrix]
name = "{{a}}"
recipe = "x.toml"
vars = { admin_password = "hunter1", base_url = "https://me:hunter2@h.example/" } bad
[matrix.axes]
a = [{ name = "x", vars = { token = "hunter3" }, set = { steps.log-in.user.password = "hunter4" }, sets = 1 }]
"#;
    let (_, found) = matrix(text);
    let shown = found.render(false);
    assert!(
        shown.contains("nodes.toml:6") && shown.contains("`sets`"),
        "{shown}"
    );
    assert!(!shown.contains("hunter"), "{shown}");
    let open = r#"[matrix]
name = "x"
recipe = "x.toml"
set = { steps.log-in.user.password = "random" }
[[matrix.include]]
"#;
    assert!(lines(&format!("schema = 1\n{open}")).contains("random"));
}

/// As for recipes: every kind of value that a key does not take, and a key that is not there.
#[test]
fn every_key_that_takes_something_else_is_told() {
    let mut silent = Vec::new();
    let mut tried = 0;
    let mut ask = |before: &str, line: String, fact: &str| {
        let text = format!("{before}{line}\n");
        let (_, found) = matrix(&text);
        tried += 1;
        if !found.0.iter().any(|d| d.problem.fact.contains(fact)) {
            silent.push(text);
        }
    };
    for spec in keys::list_tables().filter(|spec| spec.is_of_matrix()) {
        let (before, after) = match spec.name.as_str() {
            "matrix.file" => ("", ""),
            "matrix" => ("[matrix]\n", ""),
            "matrix.value" => ("[matrix]\naxes = { a = [{", "}] }"),
            "matrix.include" => ("[[matrix.include]]\n", ""),
            "matrix.exclude" => ("[[matrix.exclude]]\n", ""),
            "matrix.pipeline" => ("[pipeline]\n", ""),
            "matrix.pipeline.cache" => ("[pipeline.cache]\n", ""),
            "matrix.pipeline.publish" => ("[pipeline.publish]\n", ""),
            "matrix.pipeline.kubernetes" => ("[pipeline.kubernetes]\n", ""),
            other => panic!("where does `{other}` stand?"),
        };
        for key in &spec.keys {
            for (value, _) in written(&key.takes) {
                ask(before, format!("{} = {value}{after}", key.name), "");
            }
        }
        ask(before, format!("qqqq = 1{after}"), "`qqqq`");
    }
    assert!(tried > 20, "{tried}");
    assert_eq!(silent, Vec::<String>::new());
}
