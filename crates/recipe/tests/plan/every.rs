//! Every mistake in one recipe: no complaint hides another, be it found when the recipe is read or
//! when it is planned.

use std::fs;

use winimg_base::diag::Severity;
use winimg_recipe::ReadOptions;
use winimg_recipe::plan;

/// Section and line. A key that the sound recipe has too takes its place.
const TABLES: &[(&str, &str)] = &[
    ("", "name = \"a b\""),
    ("", "colour = \"red\""),
    ("media", "image = 0"),
    ("media", "product_key = \"12345\""),
    ("media", "language = \"german\""),
    ("media", "time_zone = \"Europe/Berlin\""),
    ("media.iso", "url = \"gopher://example.com/x.iso\""),
    (
        "media.virtio",
        "url = \"http://example.com/virtio.iso\"\nunverified = \"a test\"",
    ),
    ("machine", "firmware = \"efi\""),
    ("machine", "disk_size = \"soon\""),
    ("machine", "cpus = 0"),
    ("machine", "memory = 4"),
    ("machine", "secure_boot = \"maybe\""),
    ("setup", "answer_file = \"none.xml\""),
    ("setup", "lint = \"never\""),
    ("setup", "computer_name = \"12345\""),
    ("setup", "timeout = \"soon\""),
    ("setup", "still_limit = \"0s\""),
    ("setup", "settle_time = \"0s\""),
    ("outputs", "vhd = true"),
    ("outputs", "ova = { hardware = 19 }"),
    (
        "components.\"media.iso\"",
        "url = \"https://example.com/x.exe\"\nunverified = \"a test\"",
    ),
    (
        "components.\"a b\"",
        "url = \"https://example.com/x.exe\"\nunverified = \"a test\"",
    ),
    ("components.nowhere", "unverified = \"a test\""),
    (
        "components.folder",
        "url = \"https://example.com/x/\"\nunverified = \"a test\"",
    ),
    (
        "components.user",
        "url = \"https://me:secret@example.com/x.exe\"\nunverified = \"a test\"",
    ),
    (
        "components.plain",
        "url = \"http://example.com/x.exe\"\nunverified = \"a test\"",
    ),
    (
        "components.sums",
        "url = \"https://example.com/x.exe\"\nchecksum_url = \"http://example.com/sums\"",
    ),
    (
        "components.twice",
        "url = \"https://example.com/x.exe\"\nunverified = \"a test\"\nsha256 = \"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\"",
    ),
    (
        "components.short",
        "url = \"https://example.com/x.exe\"\nsha256 = \"9f86\"",
    ),
    (
        "components.packed",
        "url = \"https://example.com/x.exe\"\nunverified = \"a test\"\nunpack = \"rar\"",
    ),
    (
        "components.signed",
        "url = \"https://example.com/x.exe\"\nsignature = { kind = \"pgp\" }",
    ),
    (
        "images.short",
        "reference = \"pause:3.10\"\nunverified = \"a test\"",
    ),
    ("images.loose", "reference = \"registry.k8s.io/pause:3.10\""),
    (
        "images.old",
        "reference = \"registry.k8s.io/pause:3.10\"\nunverified = \"a test\"\nos_version = \"2022\"",
    ),
];

/// Found when the recipe is read.
const READ: &[&str] = &[
    "",
    "frobnicate = {}",
    "cmd = \"ver\"\npowershell = \"Get-Date\"",
    "cmd = \"ver\"\nwhen = \"a && b\"",
    "cmd = \"ver\"\ntimeout = \"soon\"",
    "cmd = { script = \"ver\", exit_codes = { ok = [99999999999] } }",
    r"copy = { component = 'kubelt', to = 'C:\k\' }",
    r"copy = { component = 'tool', to = 'k' }",
    r"copy = { component = 'tool', to = 'D:\k' }",
    r"copy = { component = 'tool', to = 'C:\winimg\x' }",
    r"copy = { component = 'tool', path = 'x', to = 'C:\k\' }",
    r"copy = { path = 'no/such', to = 'C:\k\' }",
    r"extract = { component = 'tool', to = 'C:\k' }",
    r"file = { path = 'C:\nul', content = '' }",
    r"file = { path = 'C:\k\x' }",
    r"directory = { path = '%ProgramData%\x' }",
    r"directory = { path = 'C:\' }",
    r"registry = { key = 'HKLM:\SOFTWARE\X', name = 'a', type = 'sz', data = '' }",
    r"registry = { key = 'HKCU\X', name = 'a', type = 'sz', data = '' }",
    r"registry = { key = 'HKLM\SOFTWARE\X', name = 'a', type = 'word', data = 1 }",
    r"registry = { key = 'HKLM\SOFTWRE\X', name = 'a', type = 'sz', data = '' }",
    r"registry = { key = 'HKU\S-1-5-21-1\X', name = 'a', type = 'sz', data = '' }",
    r"environment = { name = 'Path', value = 'x' }",
    r"path = { add = ['C:\a;C:\b'] }",
    r"path = { add = ['C:\a!'] }",
    r"assert = { exists = 'C:\x', missing = 'C:\y' }",
    r"exe = { arguments = ['/quiet'] }",
    r"feature = []",
    r"feature = ['Hyper V']",
    r"feature = { names = ['Containers'], without = ['Hyper V'] }",
    r"feature = { names = ['Containers'], without = [] }",
    r"feature = { names = ['Containers'], state = 'disabled', without = ['Hyper-V'] }",
    r"capability = { name = 'OpenSSH.Server' }",
    r"driver = { only = 'vioscsi/*' }",
    r"update = {}",
    r"update = { online = { kbs = ['kb5012637'], rounds = 0 } }",
    r"cleanup = { temp = false }",
    r"image = 'pose'",
    r"firewall = { name = 'all' }",
    r"firewall = { name = 'p', protocol = 256 }",
    r"user = { name = 'x', password = 's3cret-Value' }",
    r"user = { name = 'x', state = 'absent', groups = ['y'] }",
    r"acl = { path = 'C:\k' }",
    r"task = { name = 'clean', command = 'C:\k\x.exe', trigger = 'startup' }",
    r"task = { name = '\a', command = 'C:\k\x.exe' }",
    r"defender = {}",
    r"environment = { name = 'X', value = '' }",
    r"service = { name = 'x' }",
    r"service = { name = 'x', start = 'auto', depends = ['a/b'] }",
    r"service = { name = 'x', start = 'auto', failure_reset = '1h' }",
];

/// Found when it is planned.
const PLANNED: &[&str] = &[
    r"remove = { path = 'C:\Windows\', recursive = true }",
    r"copy = { component = 'tool', to = 'C:\żółć\' }",
    r"registry = { key = 'HKLM\SOFTWARE', absent = true }",
    r"registry = { key = 'HKLM\SOFTWARE\X', name = 'a', type = 'multi_sz', data = [''] }",
    r"msi = { component = 'setup', properties = { A = 'ż b' } }",
    r"service = { name = '100%', state = 'running' }",
    r"exe = { program = 'C:\k\x' }",
    r"driver = { component = 'tool' }",
    r"update = { component = 'tool' }",
    r"cleanup = { paths = ['C:\Windows\'] }",
    r"cleanup = { paths = ['C:\100%'] }",
    r"group = { name = 'Administrators', state = 'absent' }",
    r"user = { name = 'x', groups = ['Everyone'] }",
    r"user = { name = 'zoë' }",
    r"acl = { path = 'C:\Windows', grant = { SYSTEM = 'full' } }",
];

/// Of checks of clones, read and planned.
const CLONE: &[&str] = &[
    "",
    "why = \"\"",
    "frobnicate = true",
    "exists = 'k'",
    "exists = 'C:\\x'\nmissing = 'C:\\y'",
    "exists = 'C:\\x'\nwhen = \"a && b\"",
    "exists = 'C:\\x'\ntargets = []",
    "exists = 'C:\\x'\ntargets = [\"moon\"]",
    "registry = { key = 'HKLM\\SOFTWRE\\X', absent = true }",
    "registry = { key = 'HKLM\\SYSTEM', absent = true }",
    "registry = { key = 'HKLM\\SOFTWARE\\X', name = 'a', type = 'multi_sz', data = [''] }",
    "service = { name = \"a/b\" }",
    "service = { name = \"x\", state = \"running\" }",
    "service = { name = \"x\", state = \"absent\", start = \"auto\" }",
    "firewall = { name = 'all' }",
    "user = { name = \"a/b\" }",
    "group = { name = \"x\", state = \"absent\", members = [\"y\"] }",
];

/// What the steps need, and what a recipe has to have.
const SOUND: &[(&str, &str)] = &[
    ("", "schema = 1"),
    ("", "name = \"every\""),
    ("media", "image = \"datacenter-core\""),
    ("media.iso", "url = \"https://example.com/x.iso\""),
    ("media.iso", "unverified = \"a test\""),
    ("outputs", "raw = {}"),
    (
        "components.tool",
        "url = \"https://example.com/tool.exe\"\nunverified = \"a test\"",
    ),
    (
        "components.setup",
        "url = \"https://example.com/setup.msi\"\nunverified = \"a test\"",
    ),
];

fn recipe(tables: &[(&str, &str)], steps: &[(usize, &str)], clone: &[&str]) -> String {
    let key = |line: &str| line.split(" =").next().map(str::to_owned);
    let replaced = |section: &str, line: &str| {
        let mut own = tables.iter();
        own.any(|(s, l)| *s == section && key(l) == key(line))
    };
    let sound = SOUND
        .iter()
        .filter(|(section, line)| !replaced(section, line));
    let lines: Vec<&(&str, &str)> = sound.chain(tables).collect();
    let mut sections: Vec<&str> = lines.iter().map(|(section, _)| *section).collect();
    sections.sort_unstable();
    sections.dedup();
    let mut text = String::new();
    for section in sections {
        if !section.is_empty() {
            text += &format!("[{section}]\n");
        }
        for (_, line) in lines.iter().filter(|(s, _)| *s == section) {
            text += &format!("{line}\n");
        }
    }
    for (number, verb) in steps {
        text += &format!("[[steps]]\nname = \"step {number}\"\n{verb}\n");
    }
    for check in clone {
        let why = if check.contains("why") {
            ""
        } else {
            "why = \"a test\"\n"
        };
        text += &format!("[[clone]]\n{why}{check}\n");
    }
    text + "[[steps]]\nname = \"seal\"\ngeneralize = {}\n"
}

/// The errors of one run, sorted.
fn errors(text: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("recipe.toml");
    fs::write(&path, text).expect("the recipe");
    let (recipe, mut found) = plan::read(&path, &ReadOptions::default());
    if let Some(recipe) = recipe {
        let more = plan::make(&recipe).err();
        found.0.extend(more.into_iter().flat_map(|more| more.0));
    }
    let errors = found.0.iter().filter(|d| d.severity == Severity::Error);
    let mut errors: Vec<String> = errors.map(|d| d.problem.fact.clone()).collect();
    errors.sort();
    errors
}

#[test]
fn a_recipe_with_every_mistake_shows_all_of_them() {
    assert_eq!(errors(&recipe(&[], &[], &[])), Vec::<String>::new());
    let steps: Vec<(usize, &str)> = READ.iter().chain(PLANNED).copied().enumerate().collect();
    let mut single = Vec::new();
    let mut silent = Vec::new();
    let tables = TABLES.iter().map(|table| (vec![*table], vec![], vec![]));
    let alone = tables
        .chain(steps.iter().map(|step| (vec![], vec![*step], vec![])))
        .chain(CLONE.iter().map(|check| (vec![], vec![], vec![*check])));
    for (tables, steps, clone) in alone {
        let found = errors(&recipe(&tables, &steps, &clone));
        if found.is_empty() {
            silent.push((tables, steps, clone));
        }
        single.extend(found);
    }
    assert!(silent.is_empty(), "these are no mistakes: {silent:#?}");
    single.sort();
    let together = errors(&recipe(TABLES, &steps, CLONE));
    let lacking: Vec<&String> = single.iter().filter(|e| !together.contains(e)).collect();
    let added: Vec<&String> = together.iter().filter(|e| !single.contains(e)).collect();
    assert!(
        lacking.is_empty() && added.is_empty(),
        "lacking {lacking:#?}\nadded {added:#?}"
    );
    assert_eq!(together.len(), single.len());
    assert!(together.len() >= TABLES.len() + READ.len() + PLANNED.len() + CLONE.len());
}
