//! Recipes of a few lines, or of very many, that ask for more than any host has: `validate` ends soon and takes little memory.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::tree;

const LONGEST: Duration = Duration::from_secs(10);
/// MiB.
const MOST: u64 = 256;

const HEAD: &str = r#"
name = "node"
[media]
image = "datacenter-core"
[media.iso]
url = "a.iso"
unverified = "a test"
[media.virtio]
url = "b.iso"
unverified = "a test"
[outputs]
vhd = {}
"#;

struct Ended {
    status: Option<i32>,
    said: String,
    /// Processor time: on a busy machine a clock shows what others took.
    took: Duration,
    /// MiB.
    memory: u64,
}

/// Validates `recipe` in a folder of its own, which `more` fills. Ended by force when it takes too long.
fn validated(recipe: &Path) -> Ended {
    let folder = recipe.parent().expect("a folder");
    let said = folder.join("said");
    let began = Instant::now();
    let mut winimg = Command::new(tree::winimg())
        .arg("validate")
        .arg(recipe)
        .current_dir(folder)
        .env("WINIMG_CACHE_DIR", folder.join("cache"))
        .env("WINIMG_CONFIG", "none")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&said).expect("a file"))
        .spawn()
        .expect("the program runs");
    let (mut memory, mut took) = (0, Duration::ZERO);
    let status = loop {
        memory = memory.max(peak(winimg.id()).unwrap_or(0));
        took = took.max(processor_time(winimg.id()).unwrap_or_default());
        if let Some(status) = winimg.try_wait().expect("its status") {
            break status.code();
        }
        if began.elapsed() > 12 * LONGEST || memory > 4 * MOST {
            winimg.kill().expect("it is killed");
            winimg.wait().expect("it ends");
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Ended {
        status,
        said: fs::read_to_string(&said).expect("what it said"),
        took,
        memory,
    }
}

/// Returns the processor time that a process has used, in steps of 10 ms (proc(5): utime and stime
/// in /proc/PID/stat, in the 100 ticks a second that Linux shows to programs).
fn processor_time(process: u32) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, after_name) = text.rsplit_once(')')?;
    let ticks: u64 = after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Some(Duration::from_millis(ticks * 10))
}

/// The most memory that a process had, in MiB.
fn peak(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib >> 10)
}

/// Asserts that a recipe is refused for `why`, soon and with little memory.
fn refused(what: &str, folder: &Path, recipe: &str, why: &str) {
    let path = folder.join("recipe.toml");
    fs::write(&path, format!("schema = 1\n{recipe}")).expect("a recipe");
    judged(what, &validated(&path), 2, why);
}

fn judged(what: &str, ended: &Ended, status: i32, why: &str) {
    let beginning: String = ended.said.chars().take(2000).collect();
    assert_eq!(ended.status, Some(status), "{what}: {beginning}");
    assert!(ended.said.contains(why), "{what}: {beginning}");
    assert!(ended.took < LONGEST, "{what}: {:?}", ended.took);
    assert!(ended.memory < MOST, "{what}: {} MiB", ended.memory);
}

#[test]
fn files_without_end_and_of_other_types_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let made = Command::new("mkfifo").arg(at("pipe")).status();
    assert!(made.expect("mkfifo").success());
    let sparse = fs::File::create(at("huge.toml")).expect("a file");
    sparse.set_len(3 << 30).expect("its length");
    for (file, why) in [
        ("/dev/zero", "not a regular file (a device)"),
        ("pipe", "not a regular file (a named pipe)"),
        ("huge.toml", "larger than the limit of "),
    ] {
        let answers = format!("{HEAD}\n[setup]\nanswer_file = \"{file}\"\n");
        refused("an answer file", folder.path(), &answers, why);
        let step = "name = \"s\"\npowershell = { file";
        let script = format!("{HEAD}\n[[steps]]\n{step} = \"{file}\" }}\n");
        refused("a script", folder.path(), &script, why);
        if file == "huge.toml" {
            let include = format!("include = [\"{file}\"]\n{HEAD}");
            refused("an include", folder.path(), &include, why);
        }
        let path = folder.path().join(file);
        judged("the recipe itself", &validated(&path), 2, why);
    }
}

#[test]
fn texts_that_double_and_names_that_nest_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let component = |url: &str| {
        let digest = "0".repeat(64);
        format!("[components.z]\nversion = \"1\"\nurl = \"{url}\"\nsha256 = \"{digest}\"\n")
    };
    let mut doubling = format!("{HEAD}\n[vars]\na0 = \"xxxxxxxxxx\"\n");
    for n in 1..=30 {
        let before = n - 1;
        doubling += &format!("a{n} = \"{{{{a{before}}}}}{{{{a{before}}}}}\"\n");
    }
    doubling += &component("https://h.example/{{a30}}");
    refused("doubling", folder.path(), &doubling, "exceeds 64 KiB");
    let mut chain = format!("{HEAD}\n[vars]\nb0 = \"x\"\n");
    for n in (1..=5000).rev() {
        chain += &format!("b{n} = \"{{{{b{}}}}}\"\n", n - 1);
    }
    refused("a chain", folder.path(), &chain, "more than 32 levels deep");
    let mut many = format!("{HEAD}\n[vars]\nlong = \"{}\"\n", "x".repeat(60_000));
    for n in 0..5000 {
        many +=
            &format!("[[steps]]\nname = \"s{n}\"\ndirectory = {{ path = 'C:\\{{{{long}}}}' }}\n");
    }
    refused("many", folder.path(), &many, "texts exceed 16 MiB");
    for n in 0..3000 {
        let text = format!("schema = 1\ninclude = [\"{}.toml\"]\n", n + 1);
        fs::write(folder.path().join(format!("{n}.toml")), text).expect("an include");
    }
    fs::write(folder.path().join("3000.toml"), "schema = 1\n").expect("an include");
    let deep = format!("include = [\"0.toml\"]\n{HEAD}");
    refused(
        "includes",
        folder.path(),
        &deep,
        "nested more than 32 levels deep",
    );
    let nested = format!(
        "{HEAD}\n[vars]\nx = {}1{}\n",
        "[".repeat(50_000),
        "]".repeat(50_000)
    );
    refused("lists in lists", folder.path(), &nested, "error");
}

#[test]
fn many_mistakes_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut keys = format!("{HEAD}\n[machine]\n");
    for n in 0..50_000 {
        keys += &format!("k{n} = 1\n");
    }
    refused("unknown keys", folder.path(), &keys, "error");
    let mut names = format!("{HEAD}\n[setup]\ncomputer_name = \"");
    for n in 0..20_000 {
        names += &format!("{{{{v{n}}}}}");
    }
    refused(
        "unknown variables",
        folder.path(),
        &format!("{names}\"\n"),
        "error",
    );
}

/// Twenty times the components take about twenty times as long, not four hundred times.
#[test]
fn the_time_grows_with_the_recipe_and_no_faster() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("recipe.toml");
    let mut took = Vec::new();
    for count in [1_000, 20_000] {
        let mut recipe = format!("schema = 1\n{HEAD}");
        for n in 0..count {
            let digest = "0".repeat(64);
            recipe += &format!("[components.c{n}]\nurl = \"https://h.example/{n}.exe\"\n");
            recipe += &format!("sha256 = \"{digest}\"\n");
        }
        fs::write(&path, recipe).expect("a recipe");
        let ended = validated(&path);
        judged(&format!("{count} components"), &ended, 0, "");
        took.push(ended.took);
    }
    // The program's own start is in both.
    assert!(took[1] < 40 * took[0] + Duration::from_secs(1), "{took:?}");
}
