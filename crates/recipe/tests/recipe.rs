//! Recipes as a user meets them: what is read, who wins, and what is complained about.

use std::fs;
use std::path::{Path, PathBuf};
use support::complaints::facts;
use support::tree::{self, with_files};

use winimg_base::diag::DiagnosticsRecord;
use winimg_recipe::plan;
use winimg_recipe::verbs::{GeneralizeSpec, SealAnswer};
use winimg_recipe::{ProofSpec, ReadOptions, Recipe, UndecidedValue, Verb, read};

fn fixtures() -> PathBuf {
    tree::root().join("crates/recipe/tests/recipes")
}

/// The complaints with the fixture folder taken out of file names.
fn complaints(path: &Path, options: &ReadOptions) -> (Option<Recipe>, String) {
    let (recipe, diagnostics) = read(path, options);
    let folder = path.parent().unwrap_or(Path::new("")).display().to_string();
    let text = diagnostics.render(false).replace(&format!("{folder}/"), "");
    (recipe, text)
}

/// A recipe that is right, with more lines after it.
fn small(more: &str) -> String {
    format!(
        r#"schema = 1
name = "small"
[media]
image = "datacenter-core"
[media.iso]
url = "https://example.com/x.iso"
unverified = "test"
[outputs]
raw = {{}}
{more}"#
    )
}

fn small_complaints(more: &str, options: &ReadOptions) -> String {
    let (_dir, path) = with_files(&[("recipe.toml", &small(more))]);
    complaints(&path, options).1
}

fn good(files: &[(&str, &str)], options: &ReadOptions) -> Recipe {
    let (_dir, path) = with_files(files);
    let (recipe, text) = complaints(&path, options);
    assert_eq!(text, "");
    recipe.expect("a recipe")
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter()
        .map(|(a, b)| (a.to_string(), b.to_string()))
        .collect()
}

#[test]
fn a_recipe_with_every_key_is_read_without_a_complaint() {
    // By the path that the plan's columns are as wide as.
    let (recipe, text) = complaints(
        Path::new("tests/recipes/complete.toml"),
        &ReadOptions::default(),
    );
    assert_eq!(text, "");
    let recipe = recipe.expect("a recipe");
    let plan = plan::make(&recipe).expect("a plan");
    let text = plan::render_text(&recipe, &plan);
    // The tests of each verb's plan compare its scripts; here only the values of the recipe in them
    // count.
    let (scripts, plan): (Vec<&str>, Vec<&str>) = text
        .lines()
        .partition(|line| line.trim_start().starts_with('|'));
    insta::assert_snapshot!("complete", plan.join("\n"));
    for line in [
        "version = 2.3.0",
        "echo one",
        "echo two",
        "ver",
        "crictl inspect -o go-template --template '{{.Id}}'",
    ] {
        let in_a_script = scripts
            .iter()
            .any(|script| script.trim_start() == format!("| {line}"));
        assert!(in_a_script, "{line}");
    }
}

#[test]
fn twelve_mistakes_give_twelve_diagnostics_in_one_run() {
    let path = fixtures().join("twelve-mistakes.toml");
    let (recipe, diagnostics) = read(&path, &ReadOptions::default());
    assert!(recipe.is_none());
    let (_, text) = complaints(&path, &ReadOptions::default());
    insta::assert_snapshot!("twelve-mistakes", &text);
    assert_eq!(diagnostics.count(), (12, 0));
    // Each of the twelve lines that a comment numbers is pointed at once.
    let source = fs::read_to_string(&path).expect("the recipe");
    let pointed: Vec<usize> = DiagnosticsRecord::from(&diagnostics)
        .diagnostics
        .iter()
        .filter_map(|d| Some(d.place.as_ref()?.line))
        .collect();
    let numbered = (1..=12).map(|n| {
        let line = source.lines().position(|l| l.contains(&format!("# {n}: ")));
        line.expect("a numbered line") + 1
    });
    assert_eq!(pointed, numbered.collect::<Vec<_>>());
}

#[test]
fn a_checksum_file_and_a_signature_are_named_by_their_downloads_url() {
    let checksum = |recipe: &Recipe| match &recipe.components[0].origin.proof {
        ProofSpec::ChecksumFile { url, .. } => url.value.to_string(),
        other => panic!("{other:?}"),
    };
    let component = "[components.tool]\nversion = \"1.2\"\nurl = \"https://example.com/{{version}}/t.exe\"\n\
                     checksum_url = \"{{url}}.sha256\"\n";
    let recipe = good(
        &[("recipe.toml", &small(component))],
        &ReadOptions::default(),
    );
    assert_eq!(checksum(&recipe), "https://example.com/1.2/t.exe.sha256");
    // A mirror has both.
    let mirror = ReadOptions {
        set: vec!["components.tool.url=https://mirror.example.com/t.exe".into()],
        ..ReadOptions::default()
    };
    let recipe = good(&[("recipe.toml", &small(component))], &mirror);
    assert_eq!(checksum(&recipe), "https://mirror.example.com/t.exe.sha256");
    // A path starts where the URL's does: from the folder of the file that says it.
    let pack = "schema = 1\nname = \"pack\"\n[components.tool]\nurl = \"tool.exe\"\n";
    let own = small("[components.tool]\nchecksum_url = \"{{url}}.sha256\"\n");
    let own = own.replacen(
        "schema = 1",
        "schema = 1\ninclude = [\"packs/tool.toml\"]",
        1,
    );
    let (dir, path) = with_files(&[("recipe.toml", &own), ("packs/tool.toml", pack)]);
    let recipe = complaints(&path, &ReadOptions::default())
        .0
        .expect("a recipe");
    let packs = dir.path().join("packs/tool.exe.sha256");
    assert_eq!(checksum(&recipe), packs.display().to_string());
    // Media are downloads, too.
    let medium = small("").replace("unverified = \"test\"", "checksum_url = \"{{url}}.sha256\"");
    let recipe = good(&[("recipe.toml", &medium)], &ReadOptions::default());
    match &recipe.media.iso.proof {
        ProofSpec::ChecksumFile { url, .. } => {
            assert_eq!(url.value.to_string(), "https://example.com/x.iso.sha256");
        }
        other => panic!("{other:?}"),
    }
    // A recipe's own variable of that name means what it meant.
    let declared = "[vars]\nurl = \"https://base.example.com\"\n[components.tool]\n\
                    url = \"{{url}}/t.exe\"\nchecksum_url = \"{{url}}/SUMS\"\n";
    let recipe = good(
        &[("recipe.toml", &small(declared))],
        &ReadOptions::default(),
    );
    assert_eq!(checksum(&recipe), "https://base.example.com/SUMS");
}

#[test]
fn a_download_knows_its_own_url_and_no_other() {
    let more = "[components.a]\nurl = \"{{url}}\"\nunverified = \"test\"\n\
                [[steps]]\nname = \"s\"\ncmd = \"{{url}}\"\n";
    let text = small_complaints(more, &ReadOptions::default());
    assert_eq!(
        text.matches("error: there is no variable `url`").count(),
        2,
        "{text}"
    );
}

#[test]
fn a_digest_beside_unverified_names_the_line_to_delete() {
    let more = format!(
        "[components.a]\nurl = \"https://example.com/a\"\nunverified = \"test\"\nsha256 = \"{}\"\n",
        "0".repeat(64)
    );
    let text = small_complaints(&more, &ReadOptions::default());
    assert!(
        text.contains("component `a` has both `sha256` and `unverified`"),
        "{text}"
    );
    let cure = "help: remove `unverified`: it is for a file without a proof";
    assert!(text.contains(cure), "{text}");
}

#[test]
fn a_step_that_is_skipped_needs_none_of_its_files() {
    let step = |when: &str| {
        format!(
            "[[steps]]\nname = \"cabinets\"\nwhen = \"{when}\"\n\
             capability = {{ name = \"OpenSSH.Server~~~~0.0.1.0\", path = \"cabinets\" }}\n"
        )
    };
    assert_eq!(small_complaints(&step("no"), &ReadOptions::default()), "");
    for verb in [
        "powershell = { file = \"none.ps1\" }",
        "task = { name = '\\none', xml = \"none.xml\" }",
        "update = { path = \"none/\" }",
    ] {
        let more = format!("[[steps]]\nname = \"none\"\nwhen = \"no\"\n{verb}\n");
        assert_eq!(
            small_complaints(&more, &ReadOptions::default()),
            "",
            "{verb}"
        );
    }
    let needed = small_complaints(&step("yes"), &ReadOptions::default());
    assert!(
        needed.contains("error: no such file or folder: cabinets"),
        "{needed}"
    );
    for verb in [
        "powershell = { file = \"missing\" }",
        "task = { name = '\\Example\\clean', xml = \"missing\" }",
    ] {
        let step = |when: &str| format!("[[steps]]\nname = \"one\"\nwhen = \"{when}\"\n{verb}\n");
        assert_eq!(small_complaints(&step("no"), &ReadOptions::default()), "");
        let needed = small_complaints(&step("yes"), &ReadOptions::default());
        assert!(
            needed.contains("error: no such file or folder: missing"),
            "{needed}"
        );
    }
}

/// A slot of a pack that nobody filled; where it is filled, or where the text is the recipe's own,
/// it is judged.
#[test]
fn a_step_that_is_skipped_may_have_an_empty_variable() {
    let slot = |folder: &str, when: &str, path: &str| {
        let more = format!(
            "[vars]\nfolder = \"{folder}\"\n[[steps]]\nname = \"slot\"\nwhen = \"{when}\"\nupdate = {{ path = \"{path}\" }}\n"
        );
        small_complaints(&more, &ReadOptions::default())
    };
    let own = "{{folder}}";
    assert_eq!(slot("", own, own), "");
    let needed = slot("none", own, own);
    assert!(needed.contains("no such file or folder: none"), "{needed}");
    for empty in [slot("", "yes", own), slot("", own, "")] {
        assert!(empty.contains("error: `path` is empty"), "{empty}");
    }
}

#[test]
fn a_recipe_overrides_only_what_differs_and_names_another_proof() {
    let pack = r#"schema = 1
name = "the pack"
[components.kubelet]
version = "1.36.1"
url = "https://dl.k8s.io/{{version}}/kubelet.exe"
checksum_url = "https://dl.k8s.io/{{version}}/kubelet.exe.sha256"
checksum_entry = "kubelet.exe"
license = "Apache-2.0"
[[steps]]
name = "from the pack"
cmd = "ver"
"#;
    let own = small(
        r#"
[components.kubelet]
url = "https://mirror.example.com/{{version}}/{{name}}.exe"
sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
[[steps]]
name = "own"
cmd = "ver"
"#,
    );
    let own = own.replacen(
        "schema = 1",
        "schema = 1\ninclude = [\"packs/kubelet.toml\"]",
        1,
    );
    let recipe = good(
        &[("recipe.toml", &own), ("packs/kubelet.toml", pack)],
        &ReadOptions::default(),
    );
    assert_eq!(recipe.name.value, "small");
    let effective: Vec<String> = recipe
        .effective
        .iter()
        .filter(|e| e.path.starts_with("components") || e.path.starts_with("steps"))
        .map(|e| {
            let origin = e
                .origin
                .rsplit_once('/')
                .map_or(e.origin.as_str(), |(_, o)| o);
            format!("{} = {} <- {origin}", e.path, e.value)
        })
        .collect();
    assert_eq!(
        effective,
        [
            r#"components.kubelet.version = "1.36.1" <- kubelet.toml:4:11"#,
            r#"components.kubelet.url = "https://mirror.example.com/1.36.1/kubelet.exe" <- recipe.toml:13:7"#,
            r#"components.kubelet.license = "Apache-2.0" <- kubelet.toml:8:11"#,
            r#"components.kubelet.sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" <- recipe.toml:14:10"#,
            r#"steps."from the pack".name = "from the pack" <- kubelet.toml:10:8"#,
            r#"steps."from the pack".cmd = "ver" <- kubelet.toml:11:7"#,
            r#"steps.own.name = "own" <- recipe.toml:16:8"#,
            r#"steps.own.cmd = "ver" <- recipe.toml:17:7"#,
        ]
    );
    let defaults: Vec<String> = recipe
        .effective
        .iter()
        .filter(|e| e.origin == "default")
        .map(|e| format!("{} = {}", e.path, e.value))
        .collect();
    assert_eq!(
        defaults,
        [
            r#"media.language = "en-US""#,
            r#"media.time_zone = "UTC""#,
            r#"machine.firmware = "uefi""#,
            "machine.secure_boot = false",
            r#"machine.disk_bus = "nvme""#,
            r#"machine.disk_size = "64 GiB""#,
            "machine.cpus = 4",
            r#"machine.memory = "4 GiB""#,
            "machine.network = false",
            "machine.tpm = false",
            r#"setup.computer_name = "winimg-build""#,
            r#"setup.timeout = "60m""#,
            r#"setup.still_limit = "180s""#,
            r#"setup.settle_time = "90s""#,
        ]
    );
}

#[test]
fn a_new_version_with_the_old_digest_is_warned_about_and_a_mirror_is_not() {
    let component = r#"
[components.x]
version = "1.0"
url = "https://example.com/x.exe"
sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
"#;
    let set = |set: &str| ReadOptions {
        set: vec![set.into()],
        ..ReadOptions::default()
    };
    let mirror = set("components.x.url=https://mirror.example.com/x.exe");
    assert_eq!(small_complaints(component, &mirror), "");
    assert_eq!(
        small_complaints(component, &set("components.x.version=2.0")),
        "\
warning: `components.x` has a new version, but still the sha256 of 1.0
 --> --set:1:22
  |
1 | components.x.version=2.0
  |                      ^^^
  |
  = help: set the sha256 of the new version, or a `checksum_url`

1 warning in --set
"
    );
}

#[test]
fn the_last_word_about_a_variable_wins() {
    let recipe = small(
        r#"
[vars]
a = "recipe"
b = "recipe"
c = "recipe"
d = "recipe"
e = "{{a}} and {{d}}"
[[steps]]
name = "reads them"
cmd = "echo {{b}} {{c}} {{e}}"
"#,
    );
    let dir = [
        ("recipe.toml", recipe.as_str()),
        ("one.json", r#"{ "c": "one.json", "d": "one.json" }"#),
        ("two.toml", "d = \"two.toml\"\n"),
    ];
    let (folder, path) = with_files(&dir);
    let options = ReadOptions {
        env: pairs(&[
            ("WINIMG_VAR_b", "env"),
            ("WINIMG_VAR_c", "env"),
            ("WINIMG_VAR_d", "env"),
            ("WINIMG_VAR_nobody_declared_me", "env"),
            ("PATH", "/bin"),
        ]),
        var_files: vec![
            folder.path().join("one.json"),
            folder.path().join("two.toml"),
        ],
        vars: pairs(&[("d", "first"), ("d", "{{a}}")]),
        ..ReadOptions::default()
    };
    let (recipe, text) = complaints(&path, &options);
    assert_eq!(text, "");
    let shown: Vec<String> = recipe
        .expect("a recipe")
        .vars
        .iter()
        .map(|v| {
            let origin = v
                .origin
                .rsplit_once('/')
                .map_or(v.origin.as_str(), |(_, o)| o);
            format!("{} = {} <- {origin}", v.name, v.value)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "a = recipe <- recipe.toml:12:5",
            "b = env <- environment WINIMG_VAR_b",
            "c = one.json <- one.json:1:3",
            // What comes from outside is taken as it is.
            "d = {{a}} <- --var",
            "e = recipe and {{a}} <- recipe.toml:16:5",
        ]
    );
}

#[test]
fn variables_that_nobody_declared_circles_and_secrets() {
    let recipe = small(
        r#"
[vars]
kubernetes_version = 1.36
one = "{{two}}"
two = "{{one}}"
admin_password = "hunter2"
name = "x"
[[steps]]
name = "x"
cmd = "echo {{onne}} {{#if one}}{{/if}}"
[[steps]]
name = "y"
cmd = "echo {{onne}}"
"#,
    );
    let files = [
        ("recipe.toml", recipe.as_str()),
        (
            "vars.json",
            "{\n  \"kubernetes_semver\": \"v1\",\n  \"windows_admin_password\": \"hunter2\",\n  \"one\": [1]\n}\n",
        ),
    ];
    let (dir, path) = with_files(&files);
    let options = ReadOptions {
        var_files: vec![dir.path().join("vars.json"), dir.path().join("none.json")],
        vars: pairs(&[("kubernetes_versoin", "1"), ("token", "hunter2")]),
        ..ReadOptions::default()
    };
    let text = complaints(&path, &options).1;
    assert!(!text.contains("hunter2"), "{text}");
    insta::assert_snapshot!(facts(&text));
}

#[test]
fn a_value_is_set_from_the_command_line_and_a_wrong_path_is_pointed_at() {
    let more = r#"
[vars]
v = "1"
[components.x]
version = "0"
url = "https://example.com/{{version}}/x.exe"
unverified = "test"
[[steps]]
name = "long step"
cmd = "echo {{v}}"
"#;
    let own = small(more);
    let set = |sets: &[&str]| ReadOptions {
        set: sets.iter().map(|s| s.to_string()).collect(),
        ..ReadOptions::default()
    };
    let recipe = good(
        &[("recipe.toml", &own)],
        &set(&[
            "machine.cpus=8",
            "machine.memory=8 GiB",
            // TOML reads a number here; a version is a string.
            "components.x.version=1.36",
            "components.x.checksum_url=https://example.com/sums",
            "steps.\"long step\".timeout=2h",
            "outputs.ova={hardware_version=20}",
        ]),
    );
    assert_eq!((recipe.machine.cpus, recipe.machine.memory), (8, 8 << 30));
    let x = &recipe.components[0];
    assert_eq!(x.version.as_deref(), Some("1.36"));
    assert_eq!(
        x.origin.url.value.to_string(),
        "https://example.com/1.36/x.exe"
    );
    assert!(matches!(
        x.origin.proof,
        winimg_recipe::ProofSpec::ChecksumFile { .. }
    ));
    let hours = recipe.steps[0].timeout.map(|t| t.as_secs() / 3600);
    assert_eq!(hours, Some(2));
    assert_eq!(
        recipe.outputs.ova().map(|o| o.hardware_version),
        Some(Some(20))
    );

    let wrong = set(&[
        "machin.cpus=8",
        "machine.cpu=8",
        "components.y.url=x",
        "steps.\"lang step\".timeout=2h",
        "steps=[]",
        "vars.v=2",
        "machine.cpus=many",
        "nothing",
    ]);
    insta::assert_snapshot!(facts(&small_complaints(more, &wrong)));
}

#[test]
fn files_that_cannot_be_included() {
    let own = small("").replacen(
        "schema = 1",
        "schema = 1\ninclude = [\"packs/a.toml\", \"packs/kubelte.toml\", \"broken.toml\", \"{{x}}.toml\"]",
        1,
    );
    let (dir, path) = with_files(&[
        ("recipe.toml", &own),
        ("packs/a.toml", "schema = 1\ninclude = [\"b.toml\"]\n"),
        (
            "packs/b.toml",
            "schema = 2\ninclude = [\"../packs/a.toml\"]\n",
        ),
        ("packs/kubelet.toml", "schema = 1\n"),
        (
            "broken.toml",
            "schema = 1\n[components.x]\nurl = \"C:\\k\"\nfile = name\nverzion = \"1\"\n",
        ),
    ]);
    let folder = format!("{}/", dir.path().display());
    insta::assert_snapshot!(facts(
        &complaints(&path, &ReadOptions::default())
            .1
            .replace(&folder, "")
    ));
}

#[test]
fn an_include_is_looked_for_in_the_given_folders_and_read_once() {
    let own = small("").replacen(
        "schema = 1",
        "schema = 1\ninclude = [\"a.toml\", \"b.toml\"]",
        1,
    );
    let (dir, path) = with_files(&[
        ("recipe.toml", &own),
        ("b.toml", "schema = 1\ninclude = [\"a.toml\"]\n"),
        (
            "packs/a.toml",
            "schema = 1\n[[steps]]\nname = \"once\"\ncmd = \"ver\"\n",
        ),
    ]);
    let options = ReadOptions {
        search: vec![dir.path().join("packs")],
        ..ReadOptions::default()
    };
    let (recipe, text) = complaints(&path, &options);
    assert_eq!(text, "");
    assert_eq!(recipe.expect("a recipe").steps.len(), 1);
}

/// An unknown key in every table there is: each is refused, and a near one is named.
#[test]
fn unknown_keys_are_refused_everywhere() {
    let own = small(
        r#"
qcow = {}
ova = { hardware = 19 }
ami = { bootmode = "uefi" }
[machine]
cpu = 4
[setup]
driver = []
[components.x]
url = "https://example.com/x.zip"
unverified = "test"
unpack = "zip"
sha1 = "x"
[[steps]]
name = "copy"
tiemout = "1m"
copy = { component = "x", too = 'C:\x', to = 'C:\x' }
[[steps]]
name = "extract"
extract = { component = "x", to = 'C:\x', stripe = 1 }
[[steps]]
name = "file"
file = { path = 'C:\x', content = "", encode = "utf-8" }
[[steps]]
name = "directory"
directory = { path = 'C:\x', mode = 7 }
[[steps]]
name = "remove"
remove = { path = 'C:\x', recurse = true }
[[steps]]
name = "cmd"
cmd = { script = "ver", file = "x" }
[[steps]]
name = "powershell"
powershell = { inline = ["x"], exit_codes = { good = [1] } }
[[steps]]
name = "service"
service = { name = "x", startup = "auto" }
[[steps]]
name = "registry"
registry = { key = 'HKLM\SOFTWARE\X', value = "x", type = "sz", data = "" }
[[steps]]
name = "environment"
environment = { name = "x", value = "y", scope = "machine" }
[[steps]]
name = "path"
path = { add = ['C:\x'], remove = [] }
[[steps]]
name = "msi"
msi = { component = "x", property = {} }
[[steps]]
name = "reboot"
reboot = { timeout = "1m" }
[[steps]]
name = "assert"
assert = { exist = 'C:\x' }
[[steps]]
name = "assert registry"
assert = { registry = { key = 'HKLM\SOFTWARE\X', name = "x", kind = "sz", type = "sz", data = "" } }
[[steps]]
name = "generalize"
generalize = { vm = true }
"#,
    )
    .replacen("[media]", "disk_size = 1\n[media]\nlang = \"x\"", 1)
    .replacen("[media.iso]", "[media.iso]\nchecksum = \"x\"", 1);
    let (_dir, path) = with_files(&[("recipe.toml", &own)]);
    let (_, diagnostics) = read(&path, &ReadOptions::default());
    let lines: Vec<String> = diagnostics
        .0
        .iter()
        .map(|d| format!("{}; {}", d.problem.fact, d.problem.cures.join("; ")))
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn the_word_none_is_no_path_of_an_answer_file() {
    let seal = |answer: &str| {
        small(&format!(
            "[[steps]]\nname = \"seal\"\ngeneralize = {{ answer_file = \"{answer}\" }}\n"
        ))
    };
    let answer = |text: &str| {
        let files = [("recipe.toml", text), ("none", "<unattend/>")];
        let recipe = good(&files, &ReadOptions::default());
        match &recipe.steps[0].verb {
            Verb::Generalize(GeneralizeSpec { answer_file, .. }) => answer_file.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(answer(&seal("none")), SealAnswer::None));
    assert!(matches!(answer(&seal("./none")), SealAnswer::Own(_)));
    assert!(matches!(
        answer(&small(
            "[vars]\nwhich = \"none\"\n[[steps]]\nname = \"seal\"\ngeneralize = { answer_file = \"{{which}}\" }\n"
        )),
        SealAnswer::None
    ));
}

#[test]
fn the_digest_is_that_of_the_meaning_not_of_the_writing() {
    let digest = |text: &str, options: &ReadOptions| good(&[("recipe.toml", text)], options).digest;
    let plain = ReadOptions::default();
    let one = small("[machine]\ncpus = 2\nmemory = \"8 GiB\"\n");
    let two = small("# a remark\n[vars]\nn = 8\n[machine]\nmemory = '{{n}} GiB'\ncpus = 2\n");
    assert_eq!(digest(&one, &plain), digest(&two, &plain));
    let set = ReadOptions {
        set: vec!["machine.cpus=3".into()],
        ..ReadOptions::default()
    };
    assert_ne!(digest(&one, &plain), digest(&one, &set));
}

#[test]
fn when_decides_with_one_comparison() {
    for (when, runs) in [
        ("{{yes}}", Some(true)),
        ("{{no}}", Some(false)),
        ("{{empty}}", Some(false)),
        ("0", Some(false)),
        ("No", Some(false)),
        ("{{os}} == 2022", Some(true)),
        ("{{os}} == '2022'", Some(true)),
        ("{{os}} != 2022", Some(false)),
        ("{{tricky}} == a == b", None),
        ("{{tricky}}", Some(true)),
        ("{{os}} = 2022", None),
        ("!{{yes}}", None),
        ("{{yes}} && {{no}}", None),
        ("{{os}} >= 2022", Some(true)),
        ("{{os}} < 2022", Some(false)),
        ("{{v}} >= 2.9", Some(true)),
        ("{{v}} >= 2.10.0", Some(true)),
        ("{{v}} < 2.10.1", Some(true)),
        ("{{v}} < 2", Some(false)),
        ("{{yes}} >= 2", None),
        ("{{os}} > 2022", None),
        ("{{os}} <= 2022", None),
    ] {
        let own = small(&format!(
            "[vars]\nyes = true\nno = false\nempty = \"\"\nos = 2022\ntricky = \"a == c\"\nv = \"v2.10-rc.1\"\n\
             [[steps]]\nname = \"x\"\nwhen = \"{when}\"\ncmd = \"ver\"\n"
        ));
        let (_dir, path) = with_files(&[("recipe.toml", &own)]);
        let (recipe, _) = read(&path, &ReadOptions::default());
        let ran = recipe.map(|r| r.steps[0].skipped.is_none());
        assert_eq!(ran, runs, "{when}");
    }
}

#[test]
fn complaints_about_values_are_whole_sentences_with_a_cure() {
    let more = r#"
ami = { boot_mode = "legacy-bios" }
vhd = true
[machine]
disk_bus = "virtio"
disk_size = "16 GiB"
memory = "512"
secure_boot = "yes"
cpus = 0
[setup]
answer_file = "none.xml"
timeout = "soon"
drivers = ["viostor"]
[components.kubelet]
url = "ftp://example.com/kubelet.exe"
sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
sha512 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
[components.nameless]
url = "https://user:hunter2@example.com/"
unverified = ""
[components.signed]
url = "https://example.com/x.exe"
signature = { kind = "authenticode" }
[[steps]]
name = "seal"
generalize = {}
[[steps]]
name = "seal"
cmd = "ver"
[[steps]]
cmd = "ver"
[[steps]]
name = "nothing"
[[steps]]
name = "firewall"
firewall = { port = 1 }
[[steps]]
name = "codes"
cmd = { script = "ver", exit_codes = { ok = [0, 99999999999], reboot = [0] } }
[[steps]]
name = "three"
assert = { exists = 'C:\x', missing = 'C:\y' }
[[steps]]
name = "types"
registry = { key = 'HKLM:\X', type = "REG_DWORD", data = 1 }
[[steps]]
name = "paths"
path = { add = ["C:/k", 'k', '%SystemRoot%\x', 'C:\a;C:\b'] }
[[steps]]
name = "env"
environment = { name = "Path", value = "x" }
[[steps]]
name = "windows"
remove = { path = 'C:\', recursive = true }
[[steps]]
name = "msi"
msi = { component = "signed", properties = { InstallDir = 'C:\x' } }
[[steps]]
name = "unpack"
extract = { component = "kubelet", to = 'C:\x' }
"#;
    let text = small_complaints(more, &ReadOptions::default());
    assert!(!text.contains("hunter2"), "{text}");
    insta::assert_snapshot!(facts(&text));
}

#[test]
fn mistakes_in_verbs_about_windows_itself_are_reported() {
    let more = r#"
[machine]
network = false
[components.x]
url = "https://example.com/x.exe"
unverified = "a test"
[[steps]]
name = "no program"
exe = { arguments = ["/quiet"] }
[[steps]]
name = "two programs"
exe = { component = "x", program = 'C:\k\x.exe' }
[[steps]]
name = "unknown program"
exe = { component = "y", creates = 'k\x.exe' }
[[steps]]
name = "no feature"
feature = []
[[steps]]
name = "odd features"
feature = ["Containers", "Hyper V", 3]
[[steps]]
name = "nameless"
feature = { state = "on", source = "x" }
[[steps]]
name = "off with all"
feature = { names = ["SMB1Protocol"], state = "disabled", all = true }
[[steps]]
name = "short capability"
capability = { name = "OpenSSH.Server" }
[[steps]]
name = "absent with files"
capability = { name = "OpenSSH.Server~~~~0.0.1.0", state = "absent", component = "x" }
[[steps]]
name = "no drivers"
driver = { only = "vioscsi/*" }
[[steps]]
name = "no updates"
update = {}
[[steps]]
name = "an empty list"
update = { components = [] }
[[steps]]
name = "unknown updates"
update = { components = ["x", "lcu"] }
[[steps]]
name = "both ways"
update = { component = "x", online = {} }
[[steps]]
name = "no packages"
update = { path = "." }
[[steps]]
name = "odd categories"
update = { online = { categories = ["Security", "SecurityUpdate"], kbs = ["5012637", "KB1"], rounds = 0 } }
[[steps]]
name = "without a network"
update = { online = { kbs = ["kb5012637"] } }
[[steps]]
name = "skipped, so nothing is missing"
when = "false"
update = { online = {} }
[[steps]]
name = "place"
checkpoint = { name = "a" }
[[steps]]
name = "nothing to clean"
cleanup = { temp = false }
[[steps]]
name = "base"
cleanup = { reset_base = true, paths = ["/tmp"] }
"#;
    insta::assert_snapshot!(facts(&small_complaints(more, &ReadOptions::default())));
}

#[test]
fn an_empty_file_says_all_that_a_recipe_needs() {
    let (_dir, path) = with_files(&[("recipe.toml", "")]);
    insta::assert_snapshot!(complaints(&path, &ReadOptions::default()).1);
}

#[test]
fn a_recipe_that_is_not_there() {
    let (recipe, diagnostics) = read(
        Path::new("/nonexistent/recipe.toml"),
        &ReadOptions::default(),
    );
    assert!(recipe.is_none());
    let text = diagnostics.render(false);
    assert!(
        text.starts_with("error: cannot read /nonexistent/recipe.toml: "),
        "{text}"
    );
    assert!(text.ends_with("\n1 error\n"), "{text}");
}

#[test]
fn var_files_that_are_not_flat_objects_do_not_show_what_they_hold() {
    for text in [
        "\"hunter2\"",
        "{ \"a\": hunter2 }",
        "{ \"token\": \"hunter2\", ",
        "[\"hunter2\"]",
        "token = \"hunter2",
    ] {
        let own = small("");
        let (dir, path) = with_files(&[("recipe.toml", own.as_str()), ("vars.json", text)]);
        let options = ReadOptions {
            var_files: vec![dir.path().join("vars.json")],
            ..ReadOptions::default()
        };
        let (recipe, text) = complaints(&path, &options);
        assert!(recipe.is_none());
        assert!(
            text.starts_with("error: cannot read the var file vars.json: "),
            "{text}"
        );
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn line_ends_of_windows_and_a_byte_order_mark_are_read() {
    let own = format!(
        "\u{feff}{}",
        small("[machine]\ncpu = 2\n").replace('\n', "\r\n")
    );
    let (_dir, path) = with_files(&[("recipe.toml", &own)]);
    let text = complaints(&path, &ReadOptions::default()).1;
    assert_eq!(
        text,
        "\
error: unknown key `cpu` in [machine]
  --> recipe.toml:11:1
   |
11 | cpu = 2
   | ^^^
   |
   = help: did you mean `cpus`?

1 error in recipe.toml
"
    );
}

#[test]
fn a_secret_on_a_broken_line_is_not_shown() {
    let own = small("[vars]\nadmin_password = \"hunter2\nx = \n");
    let (dir, path) = with_files(&[
        ("recipe.toml", own.as_str()),
        ("vars.toml", "token = hunter2\n"),
    ]);
    let options = ReadOptions {
        var_files: vec![dir.path().join("vars.toml")],
        ..ReadOptions::default()
    };
    let (_, text) = complaints(&path, &options);
    assert!(text.contains("11 | admin_password = \"*******\n"), "{text}");
    assert!(text.contains("1 | token = "), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

/// `winimg plan` shows what stands here, and a plan ends up in a CI log.
#[test]
fn signed_urls_and_product_keys_are_not_shown() {
    let own = small(
        r#"
[components.x]
url = "https://blob.example.com/x.exe?sig=s3cret"
unverified = "no digest"
"#,
    );
    let own = own.replacen(
        "[media]",
        "[media]\nproduct_key = \"ABCDE-12345-FGHIJ-67890-KLMNO\"",
        1,
    );
    let recipe = good(&[("recipe.toml", &own)], &ReadOptions::default());
    let shown = |path: &str| {
        let found = recipe.effective.iter().find(|e| e.path == path);
        found.map(|e| e.value.clone()).unwrap_or_default()
    };
    assert_eq!(
        shown("components.x.url"),
        r#""https://blob.example.com/x.exe?…""#
    );
    assert_eq!(shown("media.product_key"), r#""***""#);
}

#[test]
fn a_required_variable_is_asked_for_where_it_is_used() {
    let pack = r#"schema = 1
[vars]
iso_url = { required = "the Windows Server ISO: a path or a URL" }
unused = { required = "nothing" }
wrong = { needed = "a typing mistake" }
[media.iso]
url = "{{iso_url}}"
"#;
    let recipe = small("").replace("[media]", "include = [\"pack.toml\"]\n[media]");
    let recipe = recipe.replace("url = \"https://example.com/x.iso\"\n", "");
    let (_dir, path) = with_files(&[("recipe.toml", &recipe), ("pack.toml", pack)]);
    insta::assert_snapshot!(facts(&complaints(&path, &ReadOptions::default()).1));
    let pack = pack.replace("wrong = { needed = \"a typing mistake\" }\n", "");
    for options in [
        ReadOptions {
            vars: pairs(&[("iso_url", "ws.iso")]),
            ..ReadOptions::default()
        },
        ReadOptions {
            env: pairs(&[("WINIMG_VAR_iso_url", "ws.iso")]),
            ..ReadOptions::default()
        },
    ] {
        let recipe = good(&[("recipe.toml", &recipe), ("pack.toml", &pack)], &options);
        assert!(recipe.media.iso.url.value.file_name().ends_with("ws.iso"));
    }
}

/// What is listed at the end of a plan: who needs it and what it is.
fn open(recipe: &Recipe) -> String {
    let lines = recipe.undecided.iter().map(|one| match one {
        UndecidedValue::Proof(missing) => format!(
            "{} of {} at {}: {}",
            missing.algorithm.name(),
            missing.input,
            missing.place,
            missing.variable.as_ref().map_or(&missing.fact, |v| &v.name)
        ),
        UndecidedValue::Variable {
            variable, steps, ..
        } => format!("{} for {}", variable.name, steps.join(", ")),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_proof_or_a_step_that_waits_for_a_value_stops_no_plan() {
    let more = r#"
[vars]
digest = { required = "the digest" }
said = "{{digest}}"
other = { required = "the other digest" }
key = { required = "a key" }
on = "false"
[components.one]
url = "https://example.com/one.zip"
sha256 = "{{said}}"
[components.two]
url = "https://example.com/two.zip"
sha512 = "{{other}}"
[components.three]
url = "https://example.com/three.zip"
[[steps]]
name = "a key"
file = { path = 'C:\k\a', content = "{{key}}" }
[[steps]]
name = "if there is a key"
when = "{{key}}"
reboot = {}
[[steps]]
name = "skipped"
when = "{{on}}"
file = { path = 'C:\k\b', content = "{{key}}" }
"#;
    let (_dir, path) = with_files(&[("recipe.toml", &small(more))]);
    let (recipe, said) = complaints(&path, &ReadOptions::default());
    assert_eq!(said, "");
    let recipe = recipe.expect("a recipe");
    let folder = format!("{}/", path.parent().expect("a folder").display());
    assert_eq!(
        open(&recipe).replace(&folder, ""),
        "sha256 of one at recipe.toml:19:10: digest\n\
         sha512 of two at recipe.toml:22:13: other\n\
         sha256 of three at recipe.toml:24:7: component `three` has no proof\n\
         key for a key, if there is a key"
    );
    // Its layers have no keys: the chain ends before the first step that waits.
    let plan = winimg_recipe::plan::make(&recipe).expect("a plan");
    let digest = winimg_base::digest::Digest::sha256_of(b"");
    let from = winimg_recipe::plan::chain::InstallationPart {
        hypervisor: "qemu".into(),
        iso: digest.clone(),
        virtio: None,
        image: "x".into(),
        answer_file: digest.clone(),
        bootstrap: digest.clone(),
        machine: recipe.machine.clone(),
    };
    let known =
        winimg_recipe::plan::key::build_chain(&recipe, &plan, from, &|_, _| Ok(digest.clone()));
    assert_eq!(known.chain.links().len(), 1);
    assert_eq!(
        known.unknown.as_deref(),
        Some("step `a key`: key has no value")
    );
    // With a mistake beside them they are told with it.
    let (_dir, path) =
        self::with_files(&[("recipe.toml", &small(more).replace("raw = {}", "rwa = {}"))]);
    let (recipe, said) = complaints(&path, &ReadOptions::default());
    assert!(recipe.is_none());
    insta::assert_snapshot!(facts(&said));
}

#[test]
fn every_variable_behind_another_is_listed() {
    let more = r#"
[vars]
left = { required = "the left half" }
right = { required = "the right half" }
both = "{{left}}{{right}}"
[[steps]]
name = "both"
cmd = "echo {{both}} {{left}}"
[[steps]]
name = "again"
cmd = ["echo {{right}}", "echo {{both}}"]
"#;
    let (_dir, path) = with_files(&[("recipe.toml", &small(more))]);
    let (recipe, said) = complaints(&path, &ReadOptions::default());
    assert_eq!(said, "");
    assert_eq!(
        open(&recipe.expect("a recipe")),
        "left for both, again\nright for both, again"
    );
    // No single value would be the digest.
    let proof = "[components.one]\nurl = \"https://example.com/one\"\nsha256 = \"{{both}}\"\n";
    let said = small_complaints(&format!("{more}{proof}"), &ReadOptions::default());
    for name in ["left", "right"] {
        let fact = format!("error: the variable `{name}` has no value\n");
        assert_eq!(said.matches(&fact).count(), 1, "{said}");
    }
}

/// Without them the steps would stand in another order.
#[test]
fn where_a_step_stands_is_never_left_open() {
    for step in [
        "name = \"seal\"\nwhen = \"{{open}}\"\ngeneralize = {}",
        "name = \"seal\"\ntimeout = \"{{open}}\"\ngeneralize = {}",
        "name = \"last\"\nbefore_seal = \"{{open}}\"\ncmd = \"ver\"",
    ] {
        let more = format!("[vars]\nopen = {{ required = \"a value\" }}\n[[steps]]\n{step}\n");
        let said = small_complaints(&more, &ReadOptions::default());
        assert!(
            said.starts_with("error: the variable `open` has no value\n"),
            "{said}"
        );
        assert!(said.ends_with("1 error in recipe.toml\n"), "{said}");
    }
}

#[test]
fn what_no_plan_can_do_without_is_asked_for_as_before() {
    insta::assert_snapshot!(facts(&small_complaints(
        r#"
[vars]
where = { required = "where it is" }
size = { required = "how large the disk is" }
release = { required = "the release" }
what = { required = "what the step is called" }
half = { required = "half of a digest" }
[machine]
disk_size = "{{size}}"
[components.one]
version = "{{release}}"
url = "{{where}}/one-{{version}}.zip"
sha256 = "{{half}}{{half}}{{where}}"
[[steps]]
name = "{{what}}"
reboot = {}
[[steps]]
name = "seal"
generalize = { answer_file = "{{where}}" }
"#,
        &ReadOptions::default()
    )));
}

#[test]
fn image_builders_var_files_are_read_as_they_are() {
    let vars = r#"{
  "build_name": "windows-2022",
  "containerd_url": "https://example.com/v{{user `containerd_version`}}/{{user `build_name`}}.tgz",
  "containerd_version": "2.3.2",
  "kubernetes_semver": "v1.36.1",
  "pause_image": "{{env `PAUSE_IMAGE`}}",
  "admin_password": "hunter2-is-not-told"
}"#;
    let recipe = small(
        r#"description = "{{containerd_url}} {{kubernetes_semver}} {{pause_image}}"
"#,
    );
    // A top-level key stands before the tables.
    let (start, description) = recipe.split_once("description").expect("a description");
    let recipe = format!(
        "description{description}{start}[vars]\ncontainerd_url = \"\"\ncontainerd_version = \"1\"\nkubernetes_semver = \"\"\npause_image = \"pause\"\n"
    );
    let (dir, path) = with_files(&[("recipe.toml", &recipe), ("vars.json", vars)]);
    let options = ReadOptions {
        image_builder_vars: vec![dir.path().join("vars.json")],
        ..ReadOptions::default()
    };
    let (recipe, text) = complaints(&path, &options);
    insta::assert_snapshot!(text);
    assert_eq!(
        recipe.expect("a recipe").description.as_deref(),
        Some("https://example.com/v2.3.2/windows-2022.tgz v1.36.1 pause")
    );
}

#[test]
fn powershell_that_does_not_parse_is_reported_at_its_line() {
    let more = r#"
[[steps]]
name = "long"
powershell = { script = '''
$a = 1
if $a { exit 1 }
''' }
[[steps]]
name = "lines"
powershell = ["$a = 1", "foreach ($x in 1..3) { $x", "exit 0"]
[[steps]]
name = "file"
powershell = { file = "broken.ps1" }
[[steps]]
name = "good"
powershell = "Get-Service | Where-Object { $_.Status -eq 'Running' }"
"#;
    let (_dir, path) = with_files(&[
        ("recipe.toml", &small(more)),
        ("broken.ps1", "function x {\n  if (1 { 2 }\n}\n"),
    ]);
    let (recipe, text) = complaints(&path, &ReadOptions::default());
    insta::assert_snapshot!(text);
    assert!(recipe.is_some(), "a warning stops nothing");
}

/// What a pack does at the very end stays there, whatever steps a recipe adds, and whether it is
/// sealed or not.
#[test]
fn a_step_before_the_seal_stands_behind_all_others() {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("a file");
    write(
        "pack.toml",
        "schema = 1\nname = \"pack\"\n\
         [[steps]]\nname = \"at the end\"\nbefore_seal = true\ncmd = \"exit /b 0\"\n\
         [[steps]]\nname = \"also\"\nbefore_seal = true\ncmd = \"exit /b 0\"\n\
         [[steps]]\nname = \"first\"\nbefore_seal = false\nreboot = {}\n",
    );
    let head = "schema = 1\nname = \"x\"\ninclude = [\"pack.toml\"]\n[media]\nimage = \"standard-core\"\n[media.iso]\n\
                url = \"https://example.com/x.iso\"\nunverified = \"test\"\n[outputs]\nraw = {}\n\
                [[steps]]\nname = \"own\"\nreboot = {}\n";
    let seal = "[[steps]]\nname = \"seal\"\ngeneralize = {}\n";
    for (more, wanted) in [
        ("", "first, own, at the end, also"),
        // A restart would undo some of what is done right before the seal.
        (seal, "first, own, Windows at rest, at the end, also, seal"),
    ] {
        write("recipe.toml", &format!("{head}{more}"));
        let path = dir.path().join("recipe.toml");
        let (recipe, rendered) = read(&path, &ReadOptions::default());
        assert!(!rendered.has_errors(), "{}", rendered.render(false));
        let recipe = recipe.expect("a recipe");
        let names: Vec<&str> = recipe.steps.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names.join(", "), wanted);
    }
}

#[test]
fn a_key_of_the_recipe_under_a_table_says_where_it_belongs() {
    let help = |key: &str| {
        format!(
            "help: `{key}` is a key of the top level: move it above the first [table] of the file\n"
        )
    };
    let step = "[[steps]]\nname = \"one\"\ncmd = \"ver\"\n";
    for (table, fact) in [
        ("[machine]\n", "error: unknown key `policy` in [machine]\n"),
        (step, "error: unknown key `policy` in step `one`\n"),
        ("[components]\n", "error: `policy` is inside a table\n"),
        ("[images]\n", "error: `policy` is inside a table\n"),
        (
            "[vars]\n",
            "warning: `policy` under [vars] is only a variable\n",
        ),
    ] {
        let text = small_complaints(
            &format!("{table}policy = \"signed\"\n"),
            &ReadOptions::default(),
        );
        assert!(text.starts_with(fact), "{text}");
        assert!(text.contains(&help("policy")), "{text}");
    }
    // Between braces it is meant for that table.
    let text = small_complaints(
        "[[steps]]\nname = \"one\"\ncheckpoint = { name = \"a\" }\n",
        &ReadOptions::default(),
    );
    assert!(text.contains("help: it has no keys\n"), "{text}");
    // After [outputs], the last table of most recipes.
    for line in [
        "schema = 1",
        "name = \"b\"",
        "description = \"b\"",
        "include = []",
    ] {
        let key = line.split(' ').next().expect("a key");
        let text = small_complaints(line, &ReadOptions::default());
        assert!(text.contains(&help(key)), "{text}");
    }
}

#[test]
fn a_digest_with_a_digit_too_few_is_counted() {
    for (key, digits) in [("sha256", 63), ("sha256", 65), ("sha512", 127)] {
        let digest = "a".repeat(digits);
        let more =
            format!("[components.a]\nurl = \"https://example.com/a\"\n{key} = \"{digest}\"\n");
        let text = small_complaints(&more, &ReadOptions::default());
        let fact = format!(
            "error: the {key} of component `a` has {digits} hex digits; SHA-256 has 64, SHA-512 has 128\n"
        );
        assert!(text.contains(&fact), "{text}");
    }
}

#[test]
fn files_that_come_with_winimg_are_called_by_their_name_there() {
    let (dir, path) = with_files(&[
        (
            "own/recipe.toml",
            &small("").replacen("schema = 1", "schema = 1\ninclude = [\"packs/a.toml\"]", 1),
        ),
        (
            "shipped/packs/a.toml",
            "schema = 1\ninclude = [\"b.toml\"]\nodd = 1\n",
        ),
        ("shipped/packs/b.toml", "schema = 1\nodder = 1\n"),
    ]);
    // As the program finds it beside itself.
    let shipped = dir.path().join("shipped/packs/..");
    let options = ReadOptions {
        search: vec![shipped.clone()],
        shipped: vec![shipped.clone()],
        ..ReadOptions::default()
    };
    let (_, text) = complaints(&path, &options);
    assert!(text.contains(" --> winimg:packs/a.toml:3:1\n"), "{text}");
    assert!(text.contains(" --> winimg:packs/b.toml:2:1\n"), "{text}");
    // A folder of one's own keeps its path.
    let options = ReadOptions {
        search: vec![shipped],
        ..ReadOptions::default()
    };
    let (_, text) = complaints(&path, &options);
    assert!(text.contains("/shipped/packs/a.toml:3:1\n"), "{text}");
}

#[test]
fn a_component_with_the_name_of_a_medium_is_refused_where_it_stands() {
    for name in ["media.iso", "media.virtio"] {
        let table = format!(
            "[components.\"{name}\"]\nurl = \"https://example.com/x.exe\"\nunverified = \"test\"\n"
        );
        let text = small_complaints(&table, &ReadOptions::default());
        assert_eq!(
            text,
            format!(
                "error: a component cannot be named \"{name}\"\n  --> recipe.toml:10:13\n   |\n\
                 10 | [components.\"{name}\"]\n   |             {} the name is reserved for [{name}]\n   |\n   \
                 = help: rename it; the medium itself is described in that table\n\n1 error in recipe.toml\n",
                "^".repeat(name.len() + 2)
            )
        );
    }
}

#[test]
fn the_inputs_are_one_list_and_each_is_asked_for_once() {
    let path = fixtures().join("complete.toml");
    let (recipe, text) = complaints(&path, &ReadOptions::default());
    let recipe = recipe.unwrap_or_else(|| panic!("{text}"));
    let inputs: Vec<String> = recipe.inputs().map(|i| i.id.to_string()).collect();
    let asked: Vec<String> = recipe
        .lock_requests
        .iter()
        .map(|a| a.id.to_string())
        .collect();
    assert_eq!(inputs, asked);
    assert_eq!(inputs[..2], ["media.iso", "media.virtio"]);
    assert!(inputs.len() > 4, "{inputs:?}");
}

#[test]
fn what_is_fetched_is_called_by_its_decoded_name() {
    let table = "[components.tool]\nurl = \"https://example.com/x/a%20b.exe?sig=s\"\nunverified = \"test\"\n\
                 [[steps]]\nname = \"copy\"\ncopy = { component = \"tool\", to = 'C:\\k\\' }\n";
    let recipe = good(&[("recipe.toml", &small(table))], &ReadOptions::default());
    assert_eq!(recipe.components[0].file, "a b.exe");
    let plan = winimg_recipe::plan::make(&recipe)
        .unwrap_or_else(|found| panic!("{}", found.render(false)));
    let text = winimg_recipe::plan::render_text(&recipe, &plan);
    assert!(text.contains(r"C:\k\a b.exe"), "{text}");
    // Only where it is asked for does the URL's own spelling count.
    assert!(text.contains("https://example.com/x/a%20b.exe?…"), "{text}");
}

#[test]
fn an_address_that_leads_nowhere_is_refused_where_it_stands() {
    for (url, fact) in [
        ("gopher://h.example/d", "`url` has the scheme `gopher`"),
        (
            "https://me:PLANTED@[h/a?sig=PLANTED",
            "`url` is not a URL: invalid IPv6 address",
        ),
        #[cfg(unix)]
        (
            "file://server/share/a.exe",
            "`url` is not a file on this machine",
        ),
    ] {
        let table = format!("[components.tool]\nurl = \"{url}\"\nunverified = \"test\"\n");
        let text = small_complaints(&table, &ReadOptions::default());
        assert!(
            text.starts_with(&format!("error: {fact}\n  --> recipe.toml:11:7\n")),
            "{text}"
        );
    }
}
