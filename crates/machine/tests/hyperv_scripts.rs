//! The PowerShell that Hyper-V builds need parses without an error, and takes the calls that winimg
//! makes (tree-sitter's grammar; no PowerShell runs here).

use std::collections::BTreeSet;
use std::path::Path;

use winimg_machine::guest::direct;
use winimg_machine::vm::hyperv::call;

fn faults(text: &str) -> bool {
    let mut parser = tree_sitter::Parser::new();
    let language = tree_sitter_powershell::LANGUAGE.into();
    parser.set_language(&language).expect("the grammar loads");
    let tree = parser.parse(text, None).expect("a tree");
    tree.root_node().has_error()
}

fn host() -> &'static str {
    let (name, text) = call::SCRIPTS[0];
    assert_eq!(name, "host");
    text
}

/// The texts in single quotes between `$name = @(` and its end.
fn list(name: &str) -> Vec<&'static str> {
    let (_, rest) = host()
        .split_once(&format!("${name} = @("))
        .expect("the list begins");
    let (list, _) = rest.split_once(')').expect("the list ends");
    list.split('\'').skip(1).step_by(2).collect()
}

/// The cmdlets that Hyper-V's module names outside its tests.
fn called() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/vm/hyperv");
    let mut names = BTreeSet::new();
    for file in winimg_base::io::files_below(&root).expect("listed") {
        if !file.ends_with(".rs") || file.ends_with("tests.rs") {
            continue;
        }
        let text = std::fs::read_to_string(root.join(&file)).expect("read");
        let (code, _) = text.split_once("#[cfg(test)]").unwrap_or((&text, ""));
        let modules = [r"Hyper-V\", r"Microsoft.PowerShell.Core\"];
        let calls = code
            .split('"')
            .filter(|text| modules.iter().any(|module| text.starts_with(module)));
        names.extend(calls.map(String::from));
    }
    names
}

/// Those of the host and of the guest, as they are written out.
fn all() -> Vec<(&'static str, String)> {
    let own = call::SCRIPTS.iter().chain(&[("job", direct::JOB)]);
    let own = own.map(|(name, text)| (*name, (*text).to_string()));
    own.chain(direct::list_scripts()).collect()
}

#[test]
fn every_script_parses() {
    let wrong: Vec<&str> = all()
        .iter()
        .filter(|(_, text)| faults(text))
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(wrong, [""; 0]);
    // Without its last brace one is told to be wrong, so the parser does look.
    let (broken, _) = host().rsplit_once('}').expect("a brace");
    assert!(faults(broken));
}

#[test]
fn the_host_takes_the_calls_that_winimg_makes_and_no_other() {
    let allowed: BTreeSet<String> = list("Allowed").into_iter().map(String::from).collect();
    assert_eq!(allowed, called());
    let own: Vec<&str> = call::SCRIPTS[1..].iter().map(|(name, _)| *name).collect();
    assert_eq!(list("Scripts"), own);
    let guest: Vec<&str> = direct::list_scripts()
        .iter()
        .map(|(name, _)| *name)
        .collect();
    assert_eq!(list("Blocks"), guest);
}

#[test]
fn every_guest_script_reports_which_start_of_windows_answers() {
    for (name, text) in direct::list_scripts() {
        assert!(text.contains("boot = "), "{name}");
        assert_eq!(text.matches("function Get-Boot {").count(), 1, "{name}");
    }
}

/// Lines above 127 would be read in the host's code page: Windows PowerShell takes a file without a
/// mark for ANSI.
#[test]
fn scripts_are_ascii() {
    for (name, text) in all() {
        assert!(text.is_ascii(), "{name}");
    }
}
