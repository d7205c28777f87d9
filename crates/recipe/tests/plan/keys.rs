//! Every key of every table (`src/recipe/keys.toml`, `verbs/*.toml`) with each kind of value that
//! it does not take, every table with a key that it does not have, and every one without those that
//! it needs: all of it in as few recipes as TOML allows, and each mistake has its complaint.

use std::collections::BTreeSet;
use std::fs;

use support::tree;
use winimg_base::diag::{Diagnostic, Severity};
use winimg_recipe::keys::{self, KeyKind};
use winimg_recipe::{ReadOptions, read};

/// No key takes a date.
const DATE: &str = "1979-05-27";

/// One line of TOML with one mistake.
struct Mistake {
    /// The table's header.
    section: String,
    /// What stands before it there, so that the table is looked at.
    before: String,
    line: String,
    expected: Expected,
}

enum Expected {
    /// A complaint that points at this value.
    At(String),
    /// A complaint of these words.
    Fact(String),
}

/// Values that a key of this kind does not take.
fn wrong(kind: &KeyKind) -> Vec<String> {
    let mut wrong = match kind {
        KeyKind::Anything => return Vec::new(),
        KeyKind::String => vec!["\" \"".to_owned()],
        KeyKind::Word(_) | KeyKind::Size | KeyKind::Time | KeyKind::GuestPath => {
            vec!["\"qqqq\"".to_owned()]
        }
        KeyKind::Integer(_, most) => vec![(most + 1).to_string()],
        KeyKind::Nonempty(_) | KeyKind::Signatures(_) => vec!["[]".to_owned()],
        _ => Vec::new(),
    };
    wrong.push(DATE.to_owned());
    wrong
}

/// The same, each as it is written: in a list or a table where the kind is one, and where the
/// complaint points.
pub fn written(kind: &KeyKind) -> Vec<(String, String)> {
    let plain = wrong(kind).into_iter().map(|value| (value.clone(), value));
    let mut all: Vec<(String, String)> = plain.collect();
    let inner = |of: &KeyKind| match of {
        KeyKind::Word(_) | KeyKind::GuestPath | KeyKind::Time => wrong(of),
        KeyKind::Anything | KeyKind::Signature | KeyKind::Table(_) => Vec::new(),
        _ => vec![DATE.to_owned()],
    };
    match kind {
        KeyKind::List(of) | KeyKind::Nonempty(of) => {
            all.extend(inner(of).into_iter().map(|v| (format!("[{v}]"), v)));
        }
        KeyKind::Map(of) => {
            all.extend(inner(of).into_iter().map(|v| (format!("{{ A = {v} }}"), v)))
        }
        _ => {}
    }
    all
}

/// The header and the line of a table with this in it; nothing for one that no recipe holds by
/// itself.
fn placed(table: &str, within: &str, n: usize) -> Option<(String, String, String)> {
    let step = |verb: String| Some(("[steps]".to_owned(), format!("name = \"n{n}\""), verb));
    let own = |header: String, line: String| Some((header, String::new(), line));
    let component = |before: &str, key: &str, table: String| {
        let header = format!("components.c{n}");
        let before = format!("url = \"https://example.com/x\"\n{before}");
        Some((header, before, format!("{key} = {{ {table} }}")))
    };
    let joined = |first: &str| match within {
        "" => first.to_owned(),
        _ => format!("{first}, {within}"),
    };
    let verbs = keys::list_verbs();
    match table {
        "recipe" => own(String::new(), within.to_owned()),
        "media" | "machine" | "setup" | "outputs" | "lock" => {
            own(table.to_owned(), within.to_owned())
        }
        "raw" | "vhd" | "vhd_dynamic" | "vhdx" | "vhdx_fixed" | "qcow2" | "ova" | "vmdk"
        | "vmdk_flat" | "vma" | "ami" | "box_hyperv" | "box_libvirt" | "box_virtualbox"
        | "container_disk" => own("outputs".to_owned(), format!("{table} = {{ {within} }}")),
        "variable" => own("vars".to_owned(), format!("v{n} = {{ {within} }}")),
        "component" => own(format!("components.c{n}"), within.to_owned()),
        "images" => own(format!("images.i{n}"), within.to_owned()),
        "step" if within.starts_with("name =") => Some((
            "[steps]".to_owned(),
            "cmd = \"ver\"".to_owned(),
            within.to_owned(),
        )),
        "step" => {
            let is_verb = verbs
                .iter()
                .any(|verb| within.starts_with(&format!("{verb} =")));
            let other = if is_verb { "" } else { "\ncmd = \"ver\"" };
            let before = format!("name = \"n{n}\"{other}");
            Some(("[steps]".to_owned(), before, within.to_owned()))
        }
        "clone" => {
            let claims: Vec<&str> = keys::find_table(table).alternatives().collect();
            let has = |key: &str| within.starts_with(&format!("{key} ="));
            let why = if has("why") || within.is_empty() {
                ""
            } else {
                "why = \"n\"\n"
            };
            let other = if claims.into_iter().any(has) {
                ""
            } else {
                "missing = 'C:\\n'"
            };
            Some((
                "[clone]".to_owned(),
                format!("{why}{other}"),
                within.to_owned(),
            ))
        }
        "clone.service" | "clone.user" | "clone.group" => {
            let key = table.trim_start_matches("clone.");
            Some((
                "[clone]".to_owned(),
                "why = \"n\"".to_owned(),
                format!("{key} = {{ {within} }}"),
            ))
        }
        "online" => step(format!("update = {{ online = {{ {within} }} }}")),
        "exit_codes" => step(format!(
            "cmd = {{ script = \"ver\", exit_codes = {{ {within} }} }}"
        )),
        "assert.registry" => step(format!("assert = {{ registry = {{ {within} }} }}")),
        "versions" if within.starts_with("prefix =") => component(
            "",
            "versions",
            joined("atom = \"https://example.com/releases.atom\""),
        ),
        "versions" => component("", "versions", within.to_owned()),
        "signature" | "signature.any" => component("", "signature", within.to_owned()),
        "signature.sigstore" if within.starts_with("log =") => {
            let first = "kind = \"sigstore\", certificate = \"x\"";
            component("", "signature", joined(first))
        }
        "checksum_signature.openpgp" => component(
            "checksum_url = \"https://example.com/sums\"",
            "checksum_signature",
            joined("kind = \"openpgp\""),
        ),
        // What other tables have too, and what no recipe has: tests/host.rs, tests/matrix.rs.
        "download" | "chain" => None,
        host if keys::find_table(host).is_of_host() => None,
        matrix if keys::find_table(matrix).is_of_matrix() => None,
        _ => match table.strip_prefix("signature.") {
            Some(kind) => component("", "signature", joined(&format!("kind = \"{kind}\""))),
            None => {
                assert!(verbs.contains(&table), "where does `{table}` stand?");
                step(format!("{table} = {{ {within} }}"))
            }
        },
    }
}

/// Of every row of every table. A new row's are here by themselves.
fn mistakes() -> Vec<Mistake> {
    let mut all: Vec<Mistake> = Vec::new();
    let mut add = |table: &str, within: &str, expected: Expected| {
        let Some((section, before, line)) = placed(table, within, all.len()) else {
            return;
        };
        all.push(Mistake {
            section,
            before,
            line: format!("{line} # {}", all.len()),
            expected,
        });
    };
    for spec in keys::list_tables() {
        let is_signature = spec.name.contains("signature.");
        for key in &spec.keys {
            let is_dispatched = is_signature && key.name == "kind";
            for (value, at) in written(&key.takes) {
                let is_free = match (spec.name.as_str(), key.name.as_str()) {
                    // Read before the tables are. What an include may hold is missed nowhere.
                    ("recipe", key) => ["schema", "include", "vars"].contains(&key),
                    // The text that is shown has no password.
                    (_, key) => key == "password",
                };
                if !is_dispatched && !is_free {
                    let within = format!("{} = {value}", key.name);
                    add(&spec.name, &within, Expected::At(at));
                }
            }
            // Those that every recipe has, and the key that makes a signature's table one of
            // alternatives.
            let is_there = ["recipe", "media", "step", "signature.any"].contains(&&*spec.name);
            if key.needed.is_some() && !is_there {
                let fact = format!("has no `{}`", key.name);
                add(&spec.name, "", Expected::Fact(fact));
            }
        }
        if !["signature", "signature.any"].contains(&&*spec.name) {
            let fact = "unknown key `qqqq`".to_owned();
            add(&spec.name, "qqqq = 1", Expected::Fact(fact));
        }
    }
    all
}

/// As few recipes as TOML allows: in none is a key said twice.
fn recipes(mistakes: &[Mistake]) -> Vec<Vec<&Mistake>> {
    let mut recipes: Vec<(BTreeSet<String>, Vec<&Mistake>)> = Vec::new();
    for mistake in mistakes {
        let key = mistake.line.split([' ', '=']).next().unwrap_or_default();
        let dotted = match mistake.section.as_str() {
            "" => key.to_owned(),
            // Each table of a list is one of its own.
            "[steps]" => "steps[]".to_owned(),
            "[clone]" => "clone[]".to_owned(),
            section => format!("{section}.{key}"),
        };
        let clashes = |said: &BTreeSet<String>| {
            let is_list = dotted.ends_with("[]");
            said.iter().any(|other| {
                let below = |a: &str, b: &str| {
                    a.strip_prefix(b)
                        .is_some_and(|rest| rest.starts_with(['.', '[']))
                };
                *other == dotted && !is_list || below(other, &dotted) || below(&dotted, other)
            })
        };
        match recipes.iter_mut().find(|(said, _)| !clashes(said)) {
            Some((said, all)) => {
                said.insert(dotted);
                all.push(mistake);
            }
            None => recipes.push((BTreeSet::from([dotted]), vec![mistake])),
        }
    }
    recipes.into_iter().map(|(_, all)| all).collect()
}

fn text(mistakes: &[&Mistake]) -> String {
    let mut sections: Vec<&str> = mistakes.iter().map(|m| m.section.as_str()).collect();
    sections.sort_unstable();
    sections.dedup();
    let mut text = "schema = 1\n".to_owned();
    for section in sections {
        let own = mistakes.iter().filter(|m| m.section == section);
        for (n, mistake) in own.enumerate() {
            if !section.is_empty() && (n == 0 || section.starts_with('[')) {
                text += &format!("[{section}]\n");
            }
            text += &format!("{}\n{}\n", mistake.before, mistake.line);
        }
    }
    text
}

fn is_said(mistake: &Mistake, said: &[Diagnostic]) -> bool {
    said.iter().any(|diagnostic| {
        let Some(place) = &diagnostic.problem.place else {
            return false;
        };
        let text = &place.source.text;
        let number = mistake.line.rsplit(" # ").next().unwrap_or_default();
        let start = text[..place.span.start].rfind('\n').map_or(0, |at| at + 1);
        let line = text[start..].lines().next().unwrap_or_default();
        let is_header = line == format!("[{}]", mistake.section);
        (is_header || line.ends_with(&format!(" # {number}")))
            && match &mistake.expected {
                Expected::At(value) => text.get(place.span.clone()) == Some(value),
                Expected::Fact(fact) => diagnostic.problem.fact.contains(fact.as_str()),
            }
    })
}

#[test]
fn every_key_of_every_table_has_its_complaints() {
    let mistakes = mistakes();
    assert!(mistakes.len() > 500, "{}", mistakes.len());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("recipe.toml");
    let mut silent = Vec::new();
    for recipe in recipes(&mistakes) {
        let text = text(&recipe);
        fs::write(&path, &text).expect("the recipe");
        let (_, found) = read(&path, &ReadOptions::default());
        let errors = found.0.into_iter();
        let errors: Vec<_> = errors.filter(|d| d.severity == Severity::Error).collect();
        assert!(!errors.iter().any(|d| d.is_syntax), "no TOML:\n{text}");
        let missed = recipe.iter().filter(|mistake| !is_said(mistake, &errors));
        silent.extend(missed.map(|m| format!("[{}] {}", m.section, m.line)));
    }
    assert_eq!(silent, Vec::<String>::new());
}

/// A word that the reader's type does not have would be a panic.
#[test]
fn every_word_of_every_key_is_understood() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("recipe.toml");
    for spec in keys::list_tables() {
        for key in spec.keys.iter().filter(|key| key.name != "kind") {
            let KeyKind::Word(words) = &key.takes else {
                continue;
            };
            for word in words {
                let within = format!("{} = \"{word}\"", key.name);
                let Some((section, before, line)) = placed(&spec.name, &within, 0) else {
                    continue;
                };
                let header = match section.as_str() {
                    "" => String::new(),
                    _ => format!("[{section}]\n"),
                };
                let text = format!("schema = 1\n{header}{before}\n{line}\n");
                fs::write(&path, &text).expect("the recipe");
                let (_, found) = read(&path, &ReadOptions::default());
                let refused = format!("`{}` cannot be \"{word}\"", key.name);
                assert!(found.0.iter().all(|d| d.problem.fact != refused), "{text}");
            }
        }
    }
}

#[test]
fn the_keys_of_every_verb_are_read() {
    let folder = tree::root().join("crates/recipe/src/verbs");
    let files = fs::read_dir(folder).expect("the verbs");
    let mut files: Vec<String> = files
        .map(|file| file.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into())
        .collect();
    files.sort();
    let mut verbs = keys::list_verbs();
    verbs.sort_unstable();
    assert_eq!(files, verbs);
}
