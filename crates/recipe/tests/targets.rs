//! Recipes that contradict their targets: each contradiction at its line, with the target's rule
//! and where it comes from.

mod contradictions;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use support::complaints::facts;
use support::golden;
use support::tree::{self, with_files};

use winimg_base::diag::{Diagnostic, Diagnostics, Severity};
use winimg_formats::wim::WindowsRelease;
use winimg_recipe::plan;
use winimg_recipe::target::{RuleSeverity, TargetSpec, list, load_all, render_target};
use winimg_recipe::{ReadOptions, Recipe};

/// winimg's own targets are found as an installation has them.
fn shipped() -> ReadOptions {
    let own = vec![tree::root().join("recipes")];
    ReadOptions {
        search: own.clone(),
        shipped: own,
        ..ReadOptions::default()
    }
}

fn read(path: &Path) -> (Option<Recipe>, Diagnostics) {
    let (recipe, mut found) = plan::read(path, &shipped());
    if let Some(recipe) = &recipe {
        found.0.extend(match plan::make(recipe) {
            Ok(plan) => plan.warnings.0,
            Err(complaints) => complaints.0,
        });
    }
    (recipe, found)
}

/// What is said of the files, of targets alone.
fn said(files: &[(&str, &str)]) -> String {
    let (dir, path) = with_files(files);
    let (_, mut found) = read(&path);
    found.0.retain(|d| d.problem.fact.contains("target"));
    let folder = format!("{}/", dir.path().display());
    found.render(false).replace(&folder, "")
}

fn own_targets() -> Vec<TargetSpec> {
    let (targets, problems) = load_all(&shipped());
    assert_eq!(problems.render(false), "");
    targets
}

/// A recipe for these targets that says no more than it has to.
fn small(targets: &str, more: &str) -> String {
    format!(
        "schema = 1\nname = \"small\"\ntarget = {targets}\n[media]\nimage = \"datacenter-core\"\n\
         [media.iso]\nurl = \"https://example.com/x.iso\"\nunverified = \"test\"\n{more}\
         [[steps]]\nname = \"seal\"\ngeneralize = {{}}\n"
    )
}

const HYPERV: &str =
    "[[steps]]\nname = \"features\"\nfeature = [\"Containers\", \"Microsoft-Hyper-V\"]\n";

#[test]
fn both_sides_of_a_contradiction_are_named() {
    let recipe = small(
        "[\"aws-import\"]",
        &format!("[outputs]\nami = {{}}\n{HYPERV}"),
    );
    let said = said(&[("recipe.toml", &recipe)]);
    let first = said.split("\n\n").find(|one| one.contains("Hyper-V role"));
    insta::assert_snapshot!("both_sides", first.expect("the complaint"));
}

#[test]
fn an_output_brings_the_rules_about_it_without_a_target() {
    let recipe = |outputs: &str| {
        let text = small("[]", &format!("[outputs]\n{outputs}\n{HYPERV}"));
        text.replace("target = []\n", "")
    };
    let found = said(&[("recipe.toml", &recipe("ami = {}"))]);
    insta::assert_snapshot!("by_output", found);
    assert_eq!(said(&[("recipe.toml", &recipe("raw = {}"))]), "");
}

#[test]
fn a_rule_that_two_targets_share_is_reported_once() {
    let user = "[[steps]]\nname = \"conf\"\nfile = { path = 'C:\\Program Files\\Cloudbase Solutions\\Cloudbase-Init\\conf\\cloudbase-init-unattend.conf', content = \"username=x\\n\" }\n";
    let recipe = small(
        "[\"openstack\", \"proxmox\"]",
        &format!("[outputs]\nqcow2 = {{}}\n{user}"),
    );
    let said = said(&[("recipe.toml", &recipe)]);
    let fact = "error: targets `openstack`, `proxmox`: without `reset_service_password=false`";
    assert_eq!(said.matches(fact).count(), 1, "{said}");
    assert_eq!(said.matches("restarted unexpectedly").count(), 1, "{said}");
}

#[test]
fn two_targets_at_once_are_both_judged() {
    let recipe = small(
        "[\"hyperv-gen1\", \"aws-import\"]",
        &format!("[outputs]\nraw = {{}}\n{HYPERV}"),
    );
    let said = said(&[("recipe.toml", &recipe)]);
    for fact in [
        "error: target `hyperv-gen1`: a machine of generation 1 needs a VHD",
        "error: target `hyperv-gen1`: Hyper-V, generation 1 has only BIOS firmware",
        "error: target `aws-import`: import-image rejects a Windows with the Hyper-V role",
    ] {
        assert!(said.contains(fact), "{fact}\n{said}");
    }
}

#[test]
fn contradictions_stand_beside_the_other_complaints() {
    let recipe = small(
        "[\"aws-import\"]",
        &format!("[outputs]\nami = {{}}\ncolour = \"red\"\n{HYPERV}"),
    );
    let (dir, path) = with_files(&[("recipe.toml", &recipe)]);
    let (none, found) = read(&path);
    assert!(none.is_none());
    let text = found.render(false);
    assert!(text.contains("unknown key `colour`"), "{text}");
    assert!(
        text.contains("rejects a Windows with the Hyper-V role"),
        "{text}"
    );
    drop(dir);
}

#[test]
fn what_a_recipe_with_mistakes_lacks_is_not_held_against_it() {
    let recipe = |ports: &str| {
        let rule = format!("firewall = {{ name = \"a\", ports = {ports} }}");
        let steps = format!("[outputs]\nraw = {{}}\n[[steps]]\nname = \"a\"\n{rule}\n");
        said(&[("recipe.toml", &small("[\"wmco-byoh\"]", &steps))])
    };
    assert!(recipe("[80]").contains("the operator needs TCP 22"));
    let broken = recipe("[\"many\"]");
    assert!(!broken.contains("the operator needs"), "{broken}");
}

const OWN: &str = "schema = 1\nname = \"desk\"\ntitle = \"A desk\"\nsources = [\"the desk's owner\"]\n\
                   [hardware]\nfirmware = [\"uefi\"]\ncontroller = \"ahci\"\nnic = \"e1000e\"\ntpm = \"none\"\nsecure_boot = \"none\"\n\
                   [metadata]\nby = \"none\"\nagent = \"none\"\n";

#[test]
fn a_target_of_ones_own_stands_beside_the_recipe() {
    let own = format!(
        "{}[[rule]]\nneeds = {{ user = [\"me\"] }}\nwhy = \"the desk is mine\"\ncure = \"make the user\"\n",
        OWN.replace("title", "include = [\"rules/clone.toml\"]\ntitle")
    );
    let recipe = small("[\"desk\"]", "[outputs]\nraw = {}\n");
    let found = said(&[("recipe.toml", &recipe), ("targets/desk.toml", &own)]);
    insta::assert_snapshot!("own", found);
    // A bundle carries what the recipe was judged by, and what that includes.
    let (_dir, path) = with_files(&[
        ("recipe.toml", &recipe.replace("raw", "ova")),
        ("targets/desk.toml", OWN),
    ]);
    let (recipe, _) = read(&path);
    let files = recipe.expect("a recipe").files;
    let names: Vec<_> = files.iter().filter_map(|f| f.path.file_name()).collect();
    assert_eq!(
        names,
        [
            "recipe.toml",
            "desk.toml",
            "vsphere.toml",
            "clone.toml",
            "cloudbase-init.toml"
        ]
    );
}

#[test]
fn an_unknown_target_is_answered_with_the_nearest() {
    for (target, help) in [
        ("vspere", "did you mean `vsphere`?"),
        ("openstak", "did you mean `openstack`?"),
        (
            "moon",
            "targets: aws-import, azure, gcp, hyperv-gen1, hyperv-gen2, ",
        ),
    ] {
        let recipe = small(&format!("[\"{target}\"]"), "[outputs]\nraw = {}\n");
        let said = said(&[("recipe.toml", &recipe)]);
        assert!(said.contains("--> recipe.toml:3:11"), "{said}");
        assert!(said.contains(help), "{said}");
    }
    let twice = small("[\"vagrant\", \"vagrant\"]", "[outputs]\nraw = {}\n");
    let twice = said(&[("recipe.toml", &twice)]);
    assert!(twice.contains("duplicate target `vagrant`"), "{twice}");
    let path = small("[\"../desk.toml\"]", "[outputs]\nraw = {}\n");
    let path = said(&[("recipe.toml", &path)]);
    assert!(
        path.contains("`../desk.toml` is not the name of a target"),
        "{path}"
    );
}

#[test]
fn mistakes_in_a_targets_file_are_reported_there() {
    let rule = |rule: &str| format!("{OWN}[[rule]]\nwhy = \"so\"\n{rule}\n");
    let files = [
        format!("colour = \"red\"\n{OWN}"),
        OWN.replace("\"ahci\"", "\"floppy\""),
        OWN.replace("\"desk\"", "\"table\""),
        OWN.replace("schema = 1", "schema = 2"),
        OWN.replace("sources = [\"the desk's owner\"]\n", ""),
        rule(""),
        rule("needs = { firmware = [\"uefi\"] }\nrefuses = { firmware = [\"bios\"] }"),
        rule("needs = { colour = \"red\" }"),
        rule("needs = { windows = [\"2016\"] }"),
        rule("needs = { disk_multiple = \"1\" }"),
        rule("needs = { port = [1] }\nproof = \"mem\"\nreport = \"refuse\""),
        rule("needs = { port = [1] }\nproof = \"rumour\""),
        OWN.replace("title", "include = [\"rules/none.toml\"]\ntitle"),
    ];
    let recipe = small("[\"desk\"]", "[outputs]\nraw = {}\n");
    let mut found = String::new();
    for own in &files {
        let (dir, path) = with_files(&[("recipe.toml", &recipe), ("targets/desk.toml", own)]);
        let (_, problems) = read(&path);
        let folder = format!("{}/", dir.path().display());
        let root = format!("{}/", tree::root().display());
        let text = problems.render(false).replace(&folder, "");
        writeln!(found, "{}", text.replace(&root, "")).expect("text");
    }
    insta::assert_snapshot!("mistakes", facts(&found));
}

#[test]
fn what_the_medium_alone_shows_is_judged_when_it_was_read() {
    let recipe = small(
        "[\"vsphere\"]",
        "[outputs]\nova = { hardware_version = 19 }\n",
    );
    let (_dir, path) = with_files(&[("recipe.toml", &recipe)]);
    let (recipe, _) = read(&path);
    let recipe = recipe.expect("a recipe");
    let facts = |release| {
        let found = plan::on_release(&recipe, release);
        let facts = found.0.into_iter().map(|d| d.problem.fact);
        facts.collect::<Vec<_>>()
    };
    assert_eq!(facts(WindowsRelease::Server2022), Vec::<String>::new());
    assert_eq!(
        facts(WindowsRelease::Server2025),
        [
            "target `vsphere`: the OVA of Server 2025 names the guest windows2022srvNext_64Guest, which needs hardware \
             version 20 (vSphere 8) or later"
        ]
    );
}

/// Every rule of every file: its reason, and what breaking it does.
fn rules() -> BTreeSet<(String, bool)> {
    let targets = own_targets();
    let rules = targets.iter().flat_map(|target| &target.rules);
    rules
        .map(|rule| (rule.why.clone(), rule.report == RuleSeverity::Refuse))
        .collect()
}

/// The reader refuses such disks for every target.
const REFUSED_BEFORE: [&str; 2] = [
    "the disk size must be a whole number of MiB",
    "a system disk of generation 1 has at most 2048 GiB",
];

#[test]
fn disks_that_azure_does_not_take_are_refused_when_the_recipe_is_read() {
    for (machine, fact) in [
        (
            "disk_size = \"70000000 KiB\"",
            "`disk_size` is not a whole number of MiB",
        ),
        (
            "firmware = \"bios\"\ndisk_size = \"3 TiB\"",
            "BIOS firmware needs an MBR disk of at most 2 TiB",
        ),
    ] {
        let recipe = small(
            "[\"azure\"]",
            &format!("[machine]\n{machine}\n[outputs]\nvhd = {{}}\n"),
        );
        let (_dir, path) = with_files(&[("recipe.toml", &recipe)]);
        let text = read(&path).1.render(false);
        assert!(text.contains(fact), "{text}");
    }
}

#[test]
fn every_rule_is_broken_by_a_recipe_at_its_line() {
    let mut tried = BTreeSet::new();
    let mut all = String::new();
    for case in contradictions::all() {
        let found = complaints(&case, true);
        let [complaint] = &found[..] else {
            panic!("{}: {}\n{found:#?}", case.target, case.why);
        };
        let place = complaint.problem.place.as_ref().expect("a place");
        let (line, _) = place.line_column();
        let line = place.source.text.lines().nth(line - 1).expect("a line");
        assert!(line.contains("# here"), "{}: {line}", case.why);
        let sides = complaint.problem.cures.join("\n");
        assert!(sides.contains("its rule is at winimg:targets/"), "{sides}");
        assert!(sides.contains(case.source), "{}: {sides}", case.why);
        let folder = place.source.name.replace("recipe.toml", "");
        let text = Diagnostics(vec![complaint.clone()]).render(false);
        let text = text.replace(&folder, "");
        let (text, _) = text.rsplit_once("\n\n").expect("a count at the end");
        all += &format!("{text}\n\n");
        let refuses = complaint.severity == Severity::Error;
        tried.insert((case.why.to_owned(), refuses));
        let other = complaints(&case, false);
        assert!(other.is_empty(), "{}: {other:#?}", case.why);
    }
    let mut untried: Vec<_> = rules().difference(&tried).cloned().collect();
    untried.retain(|(why, _)| !REFUSED_BEFORE.contains(&why.as_str()));
    assert!(untried.is_empty(), "{untried:#?}");
    insta::assert_snapshot!("contradictions", facts(&all));
}

/// What is said of the case's rule, of the recipe that breaks it or of the one that does not.
fn complaints(case: &contradictions::Case, breaks: bool) -> Vec<Diagnostic> {
    let recipe = case.recipe(breaks);
    let mut files = vec![("recipe.toml", recipe.as_str())];
    files.extend(case.files());
    let (_dir, path) = with_files(&files);
    let (_, found) = read(&path);
    let about =
        |d: &Diagnostic| d.problem.fact == format!("target `{}`: {}", case.target, case.why);
    found.0.into_iter().filter(about).collect()
}

#[test]
fn the_list_and_a_target_whole() {
    let targets = own_targets();
    insta::assert_snapshot!("list", list(&targets));
    let vsphere = targets.iter().find(|target| target.name == "vsphere");
    insta::assert_snapshot!("vsphere", render_target(vsphere.expect("the target")));
}

/// docs/targets.md, between its markers.
#[test]
fn the_reference_of_targets_is_made_of_the_files() {
    let mut made = String::new();
    for target in own_targets() {
        section(&target, &mut made).expect("text");
    }
    golden::section("docs/targets.md", "targets", &made);
}

fn section(target: &TargetSpec, to: &mut String) -> std::fmt::Result {
    let cell = |text: &str| text.replace('|', "\\|");
    writeln!(to, "### `{}`\n\n{}.", target.name, target.title)?;
    let whole = render_target(target);
    let boot = whole.split("\n\n").nth(1).expect("the first boot");
    writeln!(to, "\n| first boot | |\n|---|---|")?;
    for line in boot.lines().skip(1) {
        match line.trim_start().strip_prefix("source") {
            Some(source) => writeln!(to, "| | source{} |", cell(source))?,
            None => {
                // As `text` lines them up.
                let (name, value) = line.split_at(15);
                writeln!(to, "| {} | {} |", name.trim(), cell(value))?;
            }
        }
    }
    writeln!(to)?;
    writeln!(to, "| | why | source |\n|---|---|---|")?;
    for rule in &target.rules {
        let does = match rule.report {
            RuleSeverity::Refuse => "refused",
            RuleSeverity::Warn => "warned about",
        };
        let (why, source) = (cell(&rule.why), cell(&rule.origin.describe()));
        writeln!(
            to,
            "| {does} | {why} ({}) | {source} |",
            cell(&rule.describe_demand())
        )?;
    }
    for note in &target.notes {
        let source = cell(&note.origin.describe());
        writeln!(to, "| note | {} | {source} |", cell(&note.note))?;
    }
    writeln!(to)
}
