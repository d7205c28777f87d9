//! The PowerShell that winimg writes itself parses without an error (tree-sitter's grammar; no
//! PowerShell runs here).

use winimg_recipe::Verb;
use winimg_recipe::plan::{self, PayloadEntry};
use winimg_recipe::verbs::{ExitCodes, PowershellSpec};

use crate::plan::recipe::Maker;

pub fn faults(text: &str) -> bool {
    let mut parser = tree_sitter::Parser::new();
    let language = tree_sitter_powershell::LANGUAGE.into();
    parser.set_language(&language).expect("the grammar loads");
    parser
        .parse(text, None)
        .expect("a tree")
        .root_node()
        .has_error()
}

fn texts(script: &str) -> Vec<(String, String)> {
    let recipe = Maker::new()
        .step("script", |_| {
            Verb::Powershell(PowershellSpec {
                script: script.into(),
                exit_codes: ExitCodes::default(),
            })
        })
        .made();
    let plan = plan::make(&recipe).expect("a plan");
    plan.payload
        .into_iter()
        .filter_map(|entry| match entry {
            PayloadEntry::Text { file, text, .. } => Some((file, text)),
            _ => None,
        })
        .collect()
}

#[test]
fn the_wrapper_parses_and_never_depends_on_the_script() {
    let scripts = [
        "exit 1",
        "param([int] $x = 1)\n$x",
        "@'\n}\n'@",
        "} catch {",
    ];
    let wrappers: Vec<String> = scripts.iter().map(|s| texts(s)[0].1.clone()).collect();
    assert!(wrappers.iter().all(|w| *w == wrappers[0]));
    assert!(!faults(&wrappers[0]), "{}", wrappers[0]);
    // Without its last brace it is told to be wrong, so the parser does look.
    let (broken, _) = wrappers[0].rsplit_once('}').expect("a brace");
    assert!(faults(broken));
}

#[test]
fn a_script_is_laid_down_as_it_is_but_for_its_line_ends() {
    let script =
        "param(\n  [string] $x = 'é'\n)\n$text = @\"\n  $x \"quoted\"\n\"@\r\n# no wrapper in here";
    let [(_, _), (file, text)] = &texts(script)[..] else {
        panic!("a wrapper and a script");
    };
    assert_eq!(file, "step.ps1");
    assert_eq!(
        text,
        "param(\r\n  [string] $x = 'é'\r\n)\r\n$text = @\"\r\n  $x \"quoted\"\r\n\"@\r\n# no wrapper in here\r\n"
    );
}

#[test]
fn the_rounds_of_windows_update_parse() {
    let recipe = Maker::new()
        .step("updates", |m| {
            Verb::Update(winimg_recipe::verbs::UpdateSpec::Online {
                place: m.at("").place,
                categories: vec![],
                kbs: vec!["KB5012637".into()],
                rounds: 1,
            })
        })
        .made();
    let plan = plan::make(&recipe).expect("a plan");
    let text = plan.payload.iter().find_map(|entry| match entry {
        PayloadEntry::Text { file, text, .. } if file == "update.ps1" => Some(text),
        _ => None,
    });
    let text = text.expect("update.ps1");
    assert!(!faults(text), "{text}");
    let (broken, _) = text.rsplit_once('}').expect("a brace");
    assert!(faults(broken));
}
