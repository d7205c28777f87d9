//! What the keys of a recipe's layers are made from, as whole text.

use std::fs;

use super::super::make;
use super::*;
use crate::{self as recipe, ReadOptions};
use winimg_base::digest::to_canonical_json;

/// One step of each kind of payload and op.
const RECIPE: &str = r#"
schema = 1
name = "node"
description = "A sentence about the whole recipe"
[media]
image = "datacenter-core"
[media.iso]
url = "https://example.com/windows.iso"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
[outputs]
raw = {}
[components.tool]
version = "1.2.0"
url = "https://example.com/tool.exe"
sha256 = "1111111111111111111111111111111111111111111111111111111111111111"
[components.set]
url = "https://example.com/set.zip"
sha256 = "2222222222222222222222222222222222222222222222222222222222222222"
unpack = "zip"
[[steps]]
name = "the tool, as a sentence calls it"
copy = { component = "tool", to = 'C:\k\tool.exe' }
timeout = "7 min"
[[steps]]
name = "the set"
extract = { component = "set", to = 'C:\k\set', strip = 1, only = ["bin/*"] }
[[steps]]
name = "the own file"
copy = { path = "own.txt", to = 'C:\k\own.txt' }
[[steps]]
name = "the settings"
file = { path = 'C:\k\settings', content = "a = 1\n" }
[[steps]]
name = "nobody's"
when = "no"
reboot = {}
[[steps]]
name = "the installer"
exe = { program = 'C:\k\tool.exe', arguments = ["/quiet"], exit_codes = { ok = [0, 5] } }
[[steps]]
name = "again"
reboot = {}
"#;

/// The chain of a recipe whose files are all called `own.txt`; every digest is that of nothing.
fn known(recipe: &str) -> KnownChain {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recipe.toml");
    fs::write(&path, recipe).unwrap();
    fs::write(folder.path().join("own.txt"), "own").unwrap();
    let (recipe, complaints) = recipe::read(&path, &ReadOptions::default());
    let recipe = recipe.unwrap_or_else(|| panic!("{}", complaints.render(false)));
    let plan = make(&recipe).unwrap();
    let nothing = Digest::sha256_of(b"");
    let installation = InstallationPart {
        hypervisor: "qemu".into(),
        iso: nothing.clone(),
        virtio: None,
        image: "Windows Server 2022 SERVERDATACENTERCORE".into(),
        answer_file: nothing.clone(),
        bootstrap: nothing.clone(),
        machine: recipe.machine.clone(),
    };
    build_chain(&recipe, &plan, installation, &|_, _| Ok(nothing.clone()))
}

fn parts(recipe: &str) -> String {
    let known = known(recipe);
    assert_eq!(known.unknown, None);
    // The last step, which every plan has, takes back what the bootstrap set.
    let links = known.chain.links().split_last().unwrap().1.iter();
    let lines =
        links.map(|link| to_canonical_json(&link.part).replace(&Digest::sha256_of(b"").hex(), "…"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Who changes this text makes every layer that people have useless: that takes another `FORMAT`.
#[test]
fn the_parts_of_a_recipe_hold_values_and_no_words() {
    let all = parts(RECIPE);
    assert_eq!(all, include_str!("parts.jsonl").trim_end());
    for word in [
        "sentence",
        "the settings",
        "the installation",
        "step `",
        "recipe.toml",
        "good",
        "420",
        "version of",
        "exit 0",
    ] {
        let json: Vec<&str> = all.lines().filter(|line| line.contains(word)).collect();
        assert_eq!(json, Vec::<&str>::new(), "{word}");
    }
}

#[test]
fn a_key_is_the_digest_of_its_format_the_key_before_and_the_part() {
    let known = known(RECIPE);
    let links = known.chain.links();
    for (number, link) in links.iter().enumerate() {
        let before = number.checked_sub(1).map(|n| &links[n].key);
        let before = before.map_or("null".into(), |key| format!("\"{key}\""));
        let text = format!(
            "{{\"before\":{before},\"format\":3,\"part\":{}}}",
            to_canonical_json(&link.part)
        );
        assert_eq!(link.key, Digest::sha256_of(text.as_bytes()), "{text}");
    }
}

/// Names of steps, descriptions, places, timeouts: nothing of them is on the disk.
#[test]
fn what_people_read_is_in_no_part() {
    let said = RECIPE
        .replace("the tool, as a sentence calls it", "other words")
        .replace("A sentence about the whole recipe", "Another one")
        .replace("7 min", "8 min")
        .replace("name = \"node\"", "# a line more\nname = \"node\"");
    assert_eq!(parts(&said), parts(RECIPE));
    let done = RECIPE.replace("\"a = 1", "\"a = 2");
    assert_ne!(parts(&done), parts(RECIPE));
}
