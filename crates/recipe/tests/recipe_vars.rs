//! Variables as a user gives them: names that nothing reads, other names, values that are not
//! allowed, image-builder's files.

use std::fs;
use std::path::PathBuf;
use support::complaints::facts;
use support::tree;

use winimg_recipe::{ReadOptions, Recipe, UndecidedValue, read};

/// A pack that declares variables in every way.
const PACK: &str = r#"schema = 1
name = "pack"
[vars]
tool_semver = { default = "v1.36.1", alias = ["tool_version"], prefix = "v" }
backend = { default = "vxlan", one_of = ["vxlan", "host-gw"] }
manager = { default = "own", one_of = ["own"], hint = "for \"other\" include packs/other.toml" }
release = { required = "the release: 2019 or 2022", one_of = ["2019", "2022"] }
nobody = "reads this"
spare_url = "https://example.com/{{nobody}}"
[[steps]]
name = "tool"
cmd = "tool {{tool_semver}} {{backend}} {{manager}} {{release}}"
"#;

struct Case {
    folder: tempfile::TempDir,
    options: ReadOptions,
}

impl Case {
    /// The recipe includes the pack, sets `vars` and has `more` behind them.
    fn new(vars: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let recipe = format!(
            "schema = 1\nname = \"mine\"\ninclude = [\"pack.toml\"]\n[vars]\n{vars}\n[media]\nimage = \"datacenter-core\"\n\
             [media.iso]\nurl = \"https://example.com/x.iso\"\nunverified = \"test\"\n[outputs]\nraw = {{}}\n{more}"
        );
        fs::write(folder.path().join("recipe.toml"), recipe).expect("the recipe");
        fs::write(folder.path().join("pack.toml"), PACK).expect("the pack");
        Self {
            folder,
            options: ReadOptions::default(),
        }
    }

    fn flag(mut self, name: &str, value: &str) -> Self {
        self.options.vars.push((name.into(), value.into()));
        self
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        let name = format!("WINIMG_VAR_{name}");
        self.options.env.push((name, value.into()));
        self
    }

    fn path(&self, file: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(file);
        fs::write(&path, text).expect("a file");
        path
    }

    fn var_file(mut self, file: &str, text: &str) -> Self {
        self.options.var_files.push(self.path(file, text));
        self
    }

    fn image_builder(mut self, text: &str) -> Self {
        let path = self.path("image-builder.json", text);
        self.options.image_builder_vars.push(path);
        self
    }

    fn read(&self) -> (Option<Recipe>, String) {
        let folder = format!("{}/", self.folder.path().display());
        let (recipe, said) = read(&self.folder.path().join("recipe.toml"), &self.options);
        (recipe, said.render(false).replace(&folder, ""))
    }

    fn said(&self) -> String {
        self.read().1
    }

    /// The commands of the steps, of a recipe that nothing is said about.
    fn commands(&self) -> String {
        let (recipe, said) = self.read();
        assert_eq!(said, "");
        let effective = recipe.expect("a recipe").effective;
        let commands = effective.iter().filter(|e| e.path.ends_with(".cmd"));
        let commands: Vec<&str> = commands.map(|e| e.value.trim_matches('"')).collect();
        commands.join("; ")
    }
}

#[test]
fn what_the_user_gives_and_nothing_reads_is_a_warning() {
    let case = Case::new(
        "release = \"2022\"\ntool_semvre = \"v1.35.0\"\nquite_another = \"x\"\nbase = \"a\"\nspare_url = \"{{base}}\"",
        "[[steps]]\nname = \"skipped\"\nwhen = \"{{base}} == b\"\ncmd = \"ver\"\n",
    );
    let case = case
        .var_file("vars.toml", "nobody = \"1\"\n")
        .flag("quite_another", "y")
        .env("spare_url", "z");
    insta::assert_snapshot!(facts(&case.said()));
}

/// Near to a name that has a value everywhere: that is no reason to say nothing.
#[test]
fn an_unread_variable_with_a_name_like_those_of_a_download_is_a_warning() {
    let case = Case::new(
        "release = \"2022\"\nurls = \"x\"\nversions = \"1\"",
        "[components.a]\nversion = \"1\"\nurl = \"https://example.com/{{version}}/a\"\nchecksum_url = \"{{url}}.sha256\"\n\
         [[steps]]\nname = \"a\"\ncopy = { component = \"a\", to = 'C:\\a' }\n",
    );
    let said = case.said();
    for name in ["urls", "versions"] {
        let warning = format!("warning: the variable `{name}` is not used\n");
        assert!(said.contains(&warning), "{said}");
    }
    assert!(!said.contains("did you mean"), "{said}");
}

#[test]
fn a_variable_is_read_by_the_value_of_another_and_by_a_skipped_step() {
    let case = Case::new(
        "release = \"{{year}}\"\nyear = \"2022\"\nwanted = \"no\"\nwhat = \"x\"",
        "[[steps]]\nname = \"skipped\"\nwhen = \"{{wanted}}\"\ncmd = \"echo {{what}}\"\n",
    );
    assert_eq!(case.commands(), "tool v1.36.1 vxlan own 2022; echo x");
}

#[test]
fn a_value_counts_by_either_name_with_its_prefix_or_without() {
    for (vars, want) in [
        ("tool_version = \"1.35.0\"", "v1.35.0"),
        ("tool_version = \"v1.35.0\"", "v1.35.0"),
        ("tool_semver = \"1.35.0\"", "v1.35.0"),
        ("tool_semver = \"v1.35.0\"", "v1.35.0"),
        (
            "tool_semver = \"v1.35.0\"\ntool_version = \"1.35.0\"",
            "v1.35.0",
        ),
        // As recipes wrote before there were two names.
        (
            "tool_version = \"1.35.0\"\ntool_semver = \"v{{tool_version}}\"",
            "v1.35.0",
        ),
        ("tool_version = \"{{tool_semver}}\"", "v1.36.1"),
    ] {
        let case = Case::new(&format!("release = \"2022\"\n{vars}"), "");
        let want = format!("tool {want} vxlan own 2022");
        assert_eq!(case.commands(), want, "{vars}");
    }
}

#[test]
fn the_last_source_wins_whichever_name_they_use() {
    let step = "[[steps]]\nname = \"mine\"\ncmd = \"mine {{tool_version}}\"\n";
    let recipe = || Case::new("release = \"2022\"\ntool_version = \"1.35.0\"", step);
    for (case, tool, mine) in [
        (recipe(), "v1.35.0", "1.35.0"),
        (recipe().flag("tool_semver", "1.37.0"), "v1.37.0", "1.37.0"),
        (recipe().flag("tool_version", "1.37.0"), "v1.37.0", "1.37.0"),
        (recipe().env("tool_semver", "v1.37.0"), "v1.37.0", "v1.37.0"),
        (
            recipe().image_builder(r#"{"tool_semver": "v1.37.0"}"#),
            "v1.37.0",
            "v1.37.0",
        ),
        (Case::new("release = \"2022\"", step), "v1.36.1", "v1.36.1"),
    ] {
        let want = format!("tool {tool} vxlan own 2022; mine {mine}");
        assert_eq!(case.commands(), want);
    }
}

#[test]
fn two_names_of_one_variable_with_two_values_are_refused_at_both_places() {
    let recipe = Case::new(
        "release = \"2022\"\ntool_semver = \"v1.36.1\"\ntool_version = \"1.35.0\"",
        "",
    );
    let flags = Case::new("release = \"2022\"", "")
        .flag("tool_semver", "v1.36.1")
        .flag("tool_version", "1.35.0");
    insta::assert_snapshot!(facts(&format!("{}\n{}", recipe.said(), flags.said())));
}

#[test]
fn a_value_that_is_not_allowed_is_refused_where_it_was_given() {
    let cases = [
        Case::new(
            "release = \"2022\"\nbackend = \"vxlna\"\nmanager = \"other\"",
            "",
        ),
        Case::new("release = \"2016\"", ""),
        Case::new(
            "kind = \"{{year}}\"\nyear = \"2020\"\nrelease = \"{{kind}}\"",
            "",
        ),
        Case::new("", "")
            .flag("release", "r2")
            .flag("backend", "host_gw"),
        Case::new("", "").var_file("vars.json", "{\n  \"release\": 2016\n}"),
        Case::new("", "").env("release", "2016"),
        Case::new("release = \"2022\"", "").image_builder("{\n  \"backend\": \"none\"\n}"),
    ];
    let mut found = String::new();
    for case in &cases {
        assert!(case.read().0.is_none());
        found.push_str(&case.said());
        found.push('\n');
    }
    insta::assert_snapshot!(facts(&found));
    // A word that does not win is not asked.
    let overruled = Case::new("release = \"2016\"", "").flag("release", "2022");
    assert_eq!(overruled.commands(), "tool v1.36.1 vxlan own 2022");
}

#[test]
fn an_alias_of_what_is_asked_for_asks_for_it() {
    let step = "[[steps]]\nname = \"mine\"\ncmd = \"{{edition}}\"\n";
    let case = Case::new(
        "release = { required = \"the release\", alias = [\"edition\"] }",
        step,
    );
    let (recipe, said) = case.read();
    assert_eq!(said, "");
    let undecided = recipe.expect("a recipe").undecided;
    let open = undecided.iter().filter_map(|one| match one {
        UndecidedValue::Variable {
            variable, steps, ..
        } => Some(format!("{} for {}", variable.name, steps.join(", "))),
        UndecidedValue::Proof(_) => None,
    });
    let open: Vec<String> = open.collect();
    assert_eq!(open, ["release for tool", "edition for mine"]);
    let case = case.flag("edition", "2022");
    assert_eq!(case.commands(), "tool v1.36.1 vxlan own 2022; 2022");
}

#[test]
fn mistakes_in_declarations() {
    let vars = r#"release = "2022"
a = {}
b = { default = "1", required = "both" }
c = { defualt = "1" }
d = { default = "1", one_of = "1" }
e = { default = "1", one_of = [] }
f = { default = ["1"] }
g = { required = 1 }
h = { default = "1", alias = ["name", "tool_version"] }
i = { default = "2", one_of = ["1"] }
"#;
    let step = "[[steps]]\nname = \"mine\"\ncmd = \"{{a}} {{b}} {{c}} {{d}} {{e}} {{f}} {{g}} {{h}} {{i}}\"\n";
    insta::assert_snapshot!(facts(&Case::new(vars, step).said()));
}

#[test]
fn image_builder_names_that_are_passed_over_and_would_change_the_image() {
    let case = Case::new("release = \"2022\"", "").image_builder(
        r#"{
  "additional_executables": "false",
  "additional_registry_images_list": "example.com/a:1,example.com/b:1",
  "backend": null,
  "build_name": "windows-2022",
  "build_timestamp": "{{timestamp}}",
  "containerd_sha256": "",
  "containerd_additional_settings": null,
  "http_proxy": "{{user `proxy`}}",
  "iso_checksum": "none",
  "load_additional_components": true,
  "no_proxy": "{{user `empty`}}",
  "empty": "",
  "proxy": "http://proxy.example.com:3128",
  "runtime": "containerd",
  "windows_updates_kbs": "KB5012637 KB5013944"
}"#,
    );
    let (recipe, said) = case.read();
    assert!(recipe.is_some(), "{said}");
    insta::assert_snapshot!(said);
}

/// What `packs/kubernetes.toml` and its neighbours ask of their variables, as a recipe of one's own
/// meets it.
#[test]
fn the_packs_refuse_what_would_leave_a_node_without_a_service() {
    let packs = tree::root().join("recipes/packs");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("recipe.toml");
    let said = |packs_named: &[&str], vars: &str| {
        let include: Vec<PathBuf> = packs_named.iter().map(|p| packs.join(p)).collect();
        let text = format!(
            "schema = 1\nname = \"mine\"\ninclude = {include:?}\n[vars]\n{vars}\n[media]\nimage = \"datacenter-core\"\n\
             [media.iso]\nurl = \"https://example.com/x.iso\"\nunverified = \"test\"\n[outputs]\nraw = {{}}\n"
        );
        fs::write(&path, text).expect("the recipe");
        let (recipe, said) = read(&path, &ReadOptions::default());
        let folder = format!("{}/", folder.path().display());
        (recipe, said.render(false).replace(&folder, ""))
    };
    let digest = format!("nssm_sha256 = \"{}\"", "5a".repeat(32));
    let mut refused = String::new();
    for (names, vars) in [
        (
            &["kubernetes.toml"][..],
            "windows_service_manager = \"nssm\"".to_string(),
        ),
        (
            &["kubernetes.toml"],
            "windows_service_manager = \"nonsense\"".into(),
        ),
        (
            &["kubernetes.toml"],
            "kubernetes_kube_proxy = \"ture\"".into(),
        ),
        (
            &["kubernetes.toml", "nssm.toml"],
            format!("{digest}\nwindows_service_manager = \"windows_service\""),
        ),
        (
            &["kubernetes.toml", "kubeadm-wins.toml"],
            "flannel_backend = \"vxlann\"".into(),
        ),
    ] {
        let (recipe, text) = said(names, &vars);
        assert!(recipe.is_none(), "{vars}");
        refused.push_str(&format!("{text}\n"));
    }
    insta::assert_snapshot!(facts(&refused));
    let (recipe, text) = said(&["kubernetes.toml", "nssm.toml"], &digest);
    assert_eq!(text, "");
    let steps = recipe.expect("a recipe").steps;
    let running = |name: &str| steps.iter().any(|s| s.name == name && s.skipped.is_none());
    assert!(running("kubelet service under nssm") && !running("kubelet service"));

    let (recipe, text) = said(&["kubernetes.toml"], "kubernetes_version = \"1.35.4\"");
    assert_eq!(text, "");
    let components = recipe.expect("a recipe").components;
    let kubelet = components.iter().find(|c| c.name.value == "kubelet");
    let url = kubelet.expect("kubelet").origin.url.value.to_string();
    assert_eq!(
        url,
        "https://dl.k8s.io/release/v1.35.4/bin/windows/amd64/kubelet.exe"
    );
}
