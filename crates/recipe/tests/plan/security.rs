//! The verbs about accounts, access, the firewall, tasks and Defender, from TOML to the plan.

use std::fs;
use std::path::Path;
use support::tree;

use winimg_recipe::plan::check::ServiceCheck;
use winimg_recipe::plan::{self, BuildPlan, PayloadEntry, PlannedCheck, PlannedOp};
use winimg_recipe::{ReadOptions, Recipe, read};

fn folder() -> std::path::PathBuf {
    tree::root().join("crates/recipe/tests/plan")
}

fn recipe_of(path: &Path) -> Recipe {
    let (recipe, rendered) = read(path, &ReadOptions::default());
    recipe.unwrap_or_else(|| panic!("no recipe:\n{}", rendered.render(false)))
}

fn whole() -> (Recipe, BuildPlan) {
    let recipe = recipe_of(&folder().join("security.toml"));
    let plan = match plan::make(&recipe) {
        Ok(plan) => plan,
        Err(rendered) => panic!("no plan:\n{}", rendered.render(false)),
    };
    (recipe, plan)
}

const HEAD: &str = "schema = 1\nname = \"x\"\n[media]\nimage = \"datacenter-core\"\n[media.iso]\n\
                    url = \"https://example.com/x.iso\"\nunverified = \"test\"\n[outputs]\nraw = {}\n";

/// A recipe of these verbs, one a step, sealed.
fn steps(verbs: &[&str]) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("recipe.toml");
    let mut text = HEAD.to_owned();
    for (number, verb) in verbs.iter().enumerate() {
        text += &format!("[[steps]]\nname = \"s{number}\"\n{verb}\n");
    }
    text += "[[steps]]\nname = \"seal\"\ngeneralize = {}\n";
    fs::write(&path, text).expect("a file");
    (dir, path)
}

/// What is said about them: first line, and the help, a line each.
fn complaints(verbs: &[&str]) -> String {
    let (_dir, path) = steps(verbs);
    let (recipe, mut rendered) = read(&path, &ReadOptions::default());
    if let Some(recipe) = recipe {
        match plan::make(&recipe) {
            Ok(plan) => rendered.0.extend(plan.warnings.0),
            Err(more) => rendered.0.extend(more.0),
        }
    }
    crate::plan::said(&rendered)
        .lines()
        .filter(|line| !line.contains("[media.iso]"))
        .map(|line| line.split_once("recipe.toml:").map_or(line, |(_, l)| l))
        .map(|line| format!("{line}\n"))
        .collect()
}

#[test]
fn who_may_do_what() {
    let (recipe, plan) = whole();
    let mut text = plan::render_text(&recipe, &plan);
    text.push_str("\nwarnings\n");
    text.push_str(&crate::plan::said(&plan.warnings));
    let here = folder().display().to_string();
    let text = text.replace(&format!("{here}/"), "");
    // Columns are as wide as the folder's name was long.
    let columns = regex::Regex::new(r"(?m)^(\d{3}  .*?) {2,}").expect("a pattern");
    let text = columns.replace_all(&text, "$1  ").into_owned();
    let (_, from) = text.split_once("\nPayload disc\n").expect("a payload");
    let (before, seal) = from.split_once("  seal ").expect("the seal step");
    let (_, warnings) = seal.split_once("\nwarnings\n").expect("warnings");
    let (before, _) = before.rsplit_once("\n\n").expect("a step");
    insta::assert_snapshot!("security", &format!("{before}\n\nwarnings\n{warnings}"));
}

#[test]
fn values_that_windows_would_not_take_are_refused_at_their_place() {
    let rendered = complaints(&[
        r#"firewall = { name = "all" }"#,
        r#"firewall = { name = "a|b", ports = [70000, "9-1", "x"], remote = ["here"] }"#,
        r#"firewall = { name = "p", protocol = "icmpv4", ports = [1] }"#,
        r#"firewall = { name = "p", protocol = 256 }"#,
        r#"firewall = { name = "p", direction = "out", edge = "yes" }"#,
        r#"firewall = { name = "p", state = "absent", ports = [1] }"#,
        r#"firewall = { name = "p", profiles = ["home"], program = 'k.exe', port = 1 }"#,
        r#"user = { name = "a-name-of-twenty-one-c", password = "s3cret-Value" }"#,
        r#"user = { name = "x", password = "published:" }"#,
        r#"user = { name = "x", state = "absent", groups = ["y"] }"#,
        r#"user = { name = "x", description = "123456789 123456789 123456789 123456789 123456789" }"#,
        r#"group = { name = "a/b", members = [""] }"#,
        r#"acl = { path = 'C:\k' }"#,
        r#"acl = { path = 'C:\k', grant = { SYSTEM = "all", "S-1-x" = "full", 'EXAMPLE\me' = "read" } }"#,
        r#"task = { name = "clean", command = 'C:\k\x.exe', trigger = "hourly" }"#,
        r#"task = { name = '\a', command = 'C:\k\x.exe' }"#,
        r#"task = { name = '\a', command = 'C:\k\x.exe', trigger = "daily 3:00", delay = "1m" }"#,
        r#"task = { name = '\a', command = 'C:\k\x.exe', trigger = "none", delay = "1m" }"#,
        r#"task = { name = '\a', xml = "recipe.toml" }"#,
        r#"task = { name = '\Microsoft\Windows\x', state = "absent", trigger = "none" }"#,
        "defender = {}",
        r#"defender = { exclude_processes = ["kubelet.exe"], exclude_extensions = ["*"] }"#,
        r#"service = { name = "x", start = "auto", failure_reset = "1h" }"#,
        r#"acl = { path = 'C:\winimg\x', grant = { SYSTEM = "full" } }"#,
        r#"service = { name = "x" }"#,
        r#"service = { name = "x", depends = ["a/b"], account = '.\me' }"#,
        r#"service = { name = "x", state = "absent", description = "y" }"#,
        r#"environment = { name = "X", value = "" }"#,
        r#"msi = { path = "recipe.toml", properties = { lower = "1", 2B = "x", A = "x\ny" } }"#,
    ]);
    insta::assert_snapshot!("security-mistakes", &rendered);
}

/// Complaints quote the line; the password on it is overwritten.
#[test]
fn a_password_in_a_recipe_is_refused_and_not_shown() {
    let (_dir, path) =
        steps(&[r#"user = { name = "x", password = "s3cret-Value", groups = [1] }"#]);
    let (_, rendered) = read(&path, &ReadOptions::default());
    let text = rendered.render(false);
    assert!(text.contains("a recipe contains no secrets"), "{text}");
    assert!(text.contains(r#"password = "************""#), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
}

#[test]
fn what_only_the_plan_can_know_is_refused_too() {
    let rendered = complaints(&[
        r#"group = { name = "Administrators", state = "absent" }"#,
        r#"user = { name = "x", groups = ["Everyone"] }"#,
        r#"user = { name = "zoë" }"#,
        r#"group = { name = "g", members = ["u1378"] }"#,
        r#"acl = { path = 'C:\Windows', grant = { SYSTEM = "full" } }"#,
        r#"acl = { path = 'C:\k', grant = { SYSTEM = "full", 'NT AUTHORITY\SYSTEM' = "read" } }"#,
        r#"acl = { path = 'C:\k', grant = { Users = "read" } }"#,
    ]);
    insta::assert_snapshot!("security-refusals", &rendered);
}

/// Microsoft: Task Scheduler Schema; its elements in the order in which Windows exports them.
#[test]
fn task_definitions_are_well_formed_and_in_the_schemas_order() {
    let (_, plan) = whole();
    let order = [
        "RegistrationInfo",
        "Triggers",
        "Principals",
        "Settings",
        "Actions",
    ];
    let mut seen = 0;
    for entry in &plan.payload {
        let PayloadEntry::Text { file, text, .. } = entry else {
            continue;
        };
        if file != "task.xml" {
            continue;
        }
        seen += 1;
        let document = roxmltree::Document::parse(text).expect("well-formed XML");
        let root = document.root_element();
        let names: Vec<&str> = root
            .children()
            .filter(|n| n.is_element())
            .map(|n| n.tag_name().name())
            .collect();
        assert_eq!(names, order);
        let find = |name: &str| root.descendants().find(|n| n.tag_name().name() == name);
        let principal = find("Principal").and_then(|n| n.attribute("id"));
        assert_eq!(
            find("Actions").expect("actions").attribute("Context"),
            principal
        );
        if let Some(description) = find("Description") {
            assert_eq!(description.text(), Some("Räumt <auf> & schweigt"));
            let arguments = find("Arguments").and_then(|n| n.text());
            assert_eq!(arguments, Some(r#""a b" --x=<&>"#));
        }
        let base = ["Enabled", "StartBoundary"];
        let trigger = find("Triggers").and_then(|n| n.first_element_child());
        let trigger = trigger.expect("a trigger");
        let parts: Vec<&str> = trigger
            .children()
            .filter(|n| n.is_element())
            .map(|n| n.tag_name().name())
            .collect();
        let known = parts.iter().take_while(|p| base.contains(p)).count();
        assert!(
            parts[known..].iter().all(|p| !base.contains(p)),
            "{parts:?}"
        );
    }
    assert_eq!(seen, 2);
}

/// The password of an account is on no command line and in no text, unless it is one that everybody
/// knows.
#[test]
fn a_random_password_is_made_in_the_guest_alone() {
    let (_dir, path) = steps(&[r#"user = { name = "agent" }"#]);
    let plan = plan::make(&recipe_of(&path)).expect("a plan");
    let step = &plan.steps[0];
    let runs: Vec<String> = step
        .ops
        .iter()
        .filter_map(|op| match op {
            PlannedOp::Run(run) => Some(run.arguments.join(" ")),
            _ => None,
        })
        .collect();
    assert_eq!(runs, ["user agent /active:yes /expires:never"]);
    let script = plan.payload.iter().find_map(|entry| match entry {
        PayloadEntry::Text { file, text, .. } if file == "account.ps1" => Some(text),
        _ => None,
    });
    let script = script.expect("the script");
    assert!(!crate::plan::powershell::faults(script), "{script}");
    // What PowerShell's own logs would keep: parameters of cmdlets, and what is printed.
    for line in script.lines().filter(|l| l.contains("$text")) {
        assert!(
            line.contains("= [Convert]::") || line.contains("$text.ToCharArray()"),
            "{line}"
        );
    }
}

/// It got a membership in Users and a password without an end, as if it had just been made.
#[test]
fn windows_own_account_is_only_switched_off() {
    let (_dir, path) = steps(&[r#"user = { name = "administrator", state = "disabled" }"#]);
    let plan = plan::make(&recipe_of(&path)).expect("a plan");
    let runs: Vec<String> = plan.steps[0]
        .ops
        .iter()
        .map(|op| match op {
            PlannedOp::Run(run) => run.arguments.join(" "),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(runs, ["user administrator /active:no"]);
    let disabled = PlannedCheck::User {
        name: "administrator".into(),
        present: true,
        disabled: true,
    };
    assert_eq!(plan.steps[0].expects, [disabled]);
}

#[test]
fn later_steps_change_what_is_expected() {
    let (_dir, path) = steps(&[
        r#"firewall = { name = "kubelet", ports = [10250] }"#,
        r#"firewall = { name = "Kubelet", state = "absent" }"#,
        r#"user = { name = "a", groups = ["G"] }"#,
        r#"group = { name = "G", members = ["b"] }"#,
        r#"user = { name = "A", state = "absent" }"#,
        r#"acl = { path = 'C:\k', grant = { SYSTEM = "full" } }"#,
        r#"acl = { path = 'C:\K', grant = { SYSTEM = "full", Users = "read" } }"#,
        r#"service = { name = "s", program = 'C:\k\s.exe', start = "auto", depends = ["Tcpip"], restart_delays = ["5s"] }"#,
        r#"service = { name = "S", start = "demand" }"#,
    ]);
    let plan = plan::make(&recipe_of(&path)).expect("a plan");
    let kept: Vec<usize> = plan.steps[..9].iter().map(|s| s.expects.len()).collect();
    assert_eq!(kept, [0, 1, 1, 1, 1, 0, 1, 1, 1]);
    let group = PlannedCheck::Group {
        name: "G".into(),
        present: true,
        members: vec![],
    };
    assert_eq!(plan.steps[2].expects, [group]);
    let service = PlannedCheck::Service(ServiceCheck {
        name: "s".into(),
        command_line: Some(r"C:\k\s.exe".into()),
        start: None,
        depends: vec!["Tcpip".into()],
        account: None,
        restart_delays: vec![5000],
        may_fail: false,
    });
    assert_eq!(plan.steps[7].expects, [service]);
}
