//! `registry`, `environment`, `path`: every type, through reg.exe's arguments and through .reg files, looked at in the
//! registry itself.

use crate::wine::glib::Glib;
use crate::wine::node::Node;
use crate::wine::prefix::Prefix;
use crate::wine::registry::Registry;

const ENVIRONMENT: &str = r"HKLM\System\CurrentControlSet\Control\Session Manager\Environment";

fn path(prefix: &Prefix) -> String {
    let look = prefix.look();
    let kept = look.registry.value(ENVIRONMENT, "PATH").expect("a Path");
    kept.to_owned()
}

#[test]
#[ignore = "needs Wine: make wine"]
fn values_of_every_type_are_in_the_registry_as_the_recipe_has_them() {
    let mut node = Node::new(Glib::New);
    let text = include_str!("recipes/values.toml");
    insta::assert_snapshot!("values", &node.twice("values", text, &Prefix::untouched()),);
    let mut older = Node::new(Glib::Old);
    older.build("values", text).expect("a build");
    let differs = older.prefix.look().since(&node.prefix.look());
    assert_eq!(differs, "", "an older agent writes other values");
}

/// `setx` would cut at 1,024 characters; other ways at 2,048.
#[test]
#[ignore = "needs Wine: make wine"]
fn a_long_search_path_is_neither_cut_nor_expanded() {
    let mut node = Node::new(Glib::New);
    for target in [1_000, 2_000, 4_000] {
        let before = path(&node.prefix);
        let folders: Vec<String> = (0..)
            .map(|n| format!(r"C:\Program Files\folder number {target} {n:03}"))
            .take((target - before.len().min(target)) / 42 + 3)
            .collect();
        let list: Vec<String> = folders.iter().map(|f| format!("'{f}'")).collect();
        let text = format!(
            "[[steps]]\nname = \"long\"\npath = {{ add = [{}] }}\n",
            list.join(", ")
        );
        node.build("long", &text).expect("a longer Path");
        let escaped = folders.join(";").replace('\\', r"\\");
        let expected = format!("{};{escaped}\"", before.trim_end_matches('"'));
        assert_eq!(path(&node.prefix), expected);
        assert!(
            expected.starts_with(r#"expand_sz "%SystemRoot%\\system32;"#)
                && expected.len() > target
        );
        node.build("again", &text).expect("nothing to add");
        assert_eq!(path(&node.prefix), expected);
    }
}

/// What a program finds in its environment: the old values until a restart, the new ones after it.
#[test]
#[ignore = "needs Wine: make wine"]
fn variables_are_seen_by_programs_after_a_restart() {
    let mut node = Node::new(Glib::New);
    let text = include_str!("recipes/variables.toml");
    node.build("variables", text).expect("a build");
    assert_eq!(
        node.prefix.read(r"C:\seen.txt").as_deref(),
        Some("before []\r\nafter [C:\\k] [C:\\users\\Public]\r\n")
    );
    node.prefix.stop();
    let registry = Registry::read(node.prefix.path());
    assert_eq!(
        registry.value(ENVIRONMENT, "HOME_OF_ALL"),
        Some(r#"expand_sz "%PUBLIC%""#)
    );
}
