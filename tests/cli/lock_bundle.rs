//! Bundles: made in one place, built in another where there is no network; and those that are not what they should be.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use winimg_base::digest::Digest;

use crate::cli::site::{SEAL, Site};
use support::media;
use support::registry::{answer, pause};
use support::server::{Answer, Server};

/// Its local files are reached in every way that there is.
const STEPS: &str = r#"
[vars]
motd = { required = "a file with the message of the day" }
tier = "silver"

[[steps]]
name = "the tool"
copy = { component = "tool", to = 'C:\k\tool.exe' }

[[steps]]
name = "a folder"
copy = { path = "files", to = 'C:\k\files' }

[[steps]]
name = "the message"
copy = { path = "{{motd}}", to = 'C:\k\motd.txt' }

[[steps]]
name = "the tier"
registry = { key = 'HKLM\SOFTWARE\Example', name = "Tier", type = "sz", data = "{{tier}}" }

[[steps]]
name = "pause"
image = { image = "pause" }
"#;

const PACK: &str = r#"
schema = 1
[[steps]]
name = "from the pack"
copy = { path = "own.txt", to = 'C:\k\own.txt' }
"#;

/// A publisher and a registry in one, which can go away.
struct Origin {
    server: Server,
    is_up: Arc<AtomicBool>,
    public_key: String,
    index: String,
}

impl Origin {
    fn start() -> Self {
        let keys = minisign::KeyPair::generate_unencrypted_keypair().expect("keys");
        let tool = b"MZ the tool\n";
        let signature = minisign::sign(None, &keys.sk, &tool[..], None, None).expect("a signature");
        let signature = signature.into_string();
        let (held, index) = pause();
        let is_up = Arc::new(AtomicBool::new(true));
        let up = Arc::clone(&is_up);
        let server = Server::start(move |asked| match asked.path.as_str() {
            _ if !up.load(Ordering::SeqCst) => Answer::new("503 Service Unavailable", &[], ""),
            "/tool.exe" => Answer::new("200 OK", &[], &tool[..]),
            "/tool.exe.minisig" => Answer::new("200 OK", &[], signature.as_str()),
            _ => answer(&held, asked),
        });
        Self {
            server,
            is_up,
            public_key: keys.pk.to_box().expect("a key").to_string(),
            index,
        }
    }

    /// A site whose recipe needs all of it.
    fn site(&self) -> Site {
        let site = Site::new(&format!("{STEPS}\n{SEAL}"));
        let recipe = site.read("recipe.toml");
        let recipe = recipe
            .replacen(
                "schema = 1\n",
                "schema = 1\ninclude = [\"../pack-of-site.toml\"]\n",
                1,
            )
            .replace("../pack-of-site.toml", "packs/own/pack.toml")
            .replace(
                "url = \"tool.exe\"",
                &format!("url = \"{}\"", self.server.url("/tool.exe")),
            );
        let host = self.server.host();
        let more = format!(
            "[components.tool.signature]\nkind = \"minisign\"\nkey = \"keys/tool.pub\"\n\n\
             [images.pause]\nreference = \"http://{host}/pause:3.10.2\"\ndigest = \"{}\"\n",
            self.index
        );
        site.write("recipe.toml", &format!("{recipe}\n{more}"));
        site.write("keys/tool.pub", &self.public_key);
        site.write("packs/own/pack.toml", PACK.trim_start());
        site.write("packs/own/own.txt", "of the pack\n");
        site.write("files/a.txt", "a\n");
        site.write("files/deep/b.txt", "b\n");
        site.write("elsewhere/motd.txt", "hello\n");
        site
    }

    fn goes_down(&self) {
        self.is_up.store(false, Ordering::SeqCst);
    }
}

/// Where the message of the day comes from.
const MOTD: [&str; 2] = ["--var", "motd=elsewhere/motd.txt"];

fn bundled(site: &Site) -> PathBuf {
    let lock = [&["lock", "recipe.toml"], &MOTD[..]].concat();
    site.run(&lock).ended_well();
    let bundle = [&["bundle", "recipe.toml", "--to", "node.tar"], &MOTD[..]].concat();
    site.run(&[&bundle[..], &["--var", "tier=gold"]].concat())
        .ended_well();
    site.path("node.tar")
}

/// Another machine: an empty folder with a fake machine and the bundle, and nothing else.
fn away(from: &Site, bundle: &Path) -> Site {
    let site = Site::empty();
    for file in ["machine.toml", "sealed.qcow2"] {
        fs::copy(from.path(file), site.path(file)).expect("a copy");
    }
    fs::copy(bundle, site.path("node.tar")).expect("a copy");
    site
}

#[test]
fn what_a_lock_names_is_enough_to_fetch_from_a_pruned_cache_without_a_network() {
    let origin = Origin::start();
    let site = origin.site();
    site.run(&[&["lock", "recipe.toml"], &MOTD[..]].concat())
        .ended_well();
    site.run(&["cache", "prune", "--older-than", "0s"])
        .ended_well();
    origin.goes_down();
    let fetch = [&["fetch", "recipe.toml", "--offline"], &MOTD[..]].concat();
    site.run(&fetch).ended_well();
    fs::remove_file(site.path("recipe.lock")).expect("the lock");
    site.run(&["cache", "prune", "--older-than", "0s"])
        .ended_well();
    assert_eq!(site.files("cache/blobs"), [""; 0]);
}

#[test]
fn a_bundle_builds_elsewhere_without_a_network() {
    let origin = Origin::start();
    let here = origin.site();
    let bundle = bundled(&here);
    let build = [&crate::cli::site::BUILD[..], &MOTD, &["--var", "tier=gold"]].concat();
    here.run(&build).ended_well();
    let manifest = |site: &Site| -> Value {
        serde_json::from_str(&site.read("out/manifest.json")).expect("JSON")
    };
    let made_here = manifest(&here);
    let asked_here = here.asked();

    let there = away(&here, &bundle);
    drop(here);
    origin.goes_down();
    let asked = origin.server.log().len();
    for command in ["validate", "plan", "fetch"] {
        there.run(&[command, "node.tar"]).ended_well();
    }
    let mut build = crate::cli::site::BUILD.to_vec();
    build[1] = "node.tar";
    there.run(&build).ended_well();
    assert_eq!(origin.server.log().len(), asked, "the network was asked");

    let made_there = manifest(&there);
    for key in ["inputs", "windows", "warnings"] {
        assert_eq!(made_there[key], made_here[key], "{key}");
    }
    for key in ["name", "digest", "lock"] {
        assert_eq!(made_there["recipe"][key], made_here["recipe"][key], "{key}");
    }
    let tool = made_here["inputs"].as_array().expect("inputs");
    let tool = tool.iter().find(|i| i["name"] == "tool").expect("the tool");
    assert_eq!(tool["signers"][0]["scheme"], "minisign");
    assert_eq!(there.asked(), asked_here);
    let plan = there.run(&["plan", "node.tar"]).ended_well().stdout();
    let inputs = plan.find("\nInputs\n").expect("the inputs");
    insta::assert_snapshot!(&plan[inputs..]);
    assert!(plan.contains("tier = gold"), "{plan}");
}

#[test]
fn the_same_recipe_gives_the_same_bundle() {
    let origin = Origin::start();
    let here = origin.site();
    let first = fs::read(bundled(&here)).expect("a bundle");
    let names = media::run("tar", &["tf", media::text(&here.path("node.tar"))]);
    insta::assert_snapshot!(here.filtered(&names));
    // The same files in another folder, with another cache and other times.
    let there = Site::empty();
    media::run(
        "cp",
        &[
            "-R",
            &format!("{}/.", media::text(&here.path(""))),
            media::text(&there.path("")),
        ],
    );
    for left in ["node.tar", "cache"] {
        media::run("rm", &["-r", media::text(&there.path(left))]);
    }
    let bundle = [
        &["bundle", "recipe.toml", "--to", "node.tar"],
        &MOTD[..],
        &["--var", "tier=gold"],
    ];
    there.run(&bundle.concat()).ended_well();
    let second = fs::read(there.path("node.tar")).expect("a bundle");
    assert!(first == second, "two bundles of one recipe differ");
}

#[test]
fn what_a_bundle_cannot_be_made_of_is_reported() {
    let site = Site::new(SEAL);
    let unlocked = site.run(&["bundle", "recipe.toml", "--to", "node.tar"]);
    insta::assert_snapshot!(unlocked.failure());
    site.run(&["lock", "recipe.toml"]).ended_well();
    site.run(&["bundle", "recipe.toml", "--to", "node.tar"])
        .ended_well();
    let mut said = String::new();
    for arguments in [
        &["bundle", "node.tar", "--to", "again.tar"][..],
        &["lock", "node.tar"],
        &["plan", "node.tar", "--no-lock"],
        &["plan", "node.tar", "--set", "components.tool.version=9"],
    ] {
        let refused = site.run(arguments);
        assert_eq!(refused.status(), Some(2), "{}", refused.whole());
        said += &format!("--- {}\n{}", arguments.join(" "), refused.stderr());
    }
    let place = regex::Regex::new(r"/site/cache/bundles/[0-9a-f]{32}").expect("a pattern");
    insta::assert_snapshot!(place.replace_all(&said, "/bundle"));
    assert!(!site.path("again.tar").exists());
}

#[test]
fn no_secret_goes_into_a_bundle() {
    let site = Site::new(SEAL);
    let recipe = site.read("recipe.toml");
    let recipe = recipe
        .replace("[media]\n", "[vars]\nsas = \"\"\n\n[media]\n")
        .replace(
            "url = \"tool.exe\"",
            "url = \"https://h.invalid/tool.exe?sig={{sas}}\"",
        );
    site.write("recipe.toml", &recipe);
    let secret = "sv=2026&sig=c2lnbmF0dXJl";
    let key = "AAAAA-BBBBB-CCCCC-DDDDD-EEEEE";
    // As if it had been fetched with that token before.
    let digest = Digest::sha256_of(b"MZ the tool\n").hex();
    site.write(
        &format!("cache/blobs/sha256/{}/{digest}", &digest[..2]),
        "MZ the tool\n",
    );
    let sas = format!("sas={secret}");
    let set = format!("media.product_key={key}");
    let more = ["--var", sas.as_str(), "--set", set.as_str()];
    site.run(&[&["lock", "recipe.toml"], &more[..]].concat())
        .ended_well();
    let made = site
        .run(&[&["bundle", "recipe.toml", "--to", "node.tar"], &more[..]].concat())
        .ended_well();
    insta::assert_snapshot!(made.stderr());
    let bytes = fs::read(site.path("node.tar")).expect("a bundle");
    for secret in [secret, key, "c2lnbmF0dXJl"] {
        let found = bytes.windows(secret.len()).any(|w| w == secret.as_bytes());
        assert!(!found, "{secret} is in the bundle");
    }
    site.run(&["validate", "node.tar"]).ended_well();
}

/// A member of a made-up bundle: type, name, content, and the link's target.
struct Made(tar::EntryType, String, Vec<u8>, Option<&'static str>);

fn file(name: &str, bytes: &[u8]) -> Made {
    Made(tar::EntryType::Regular, name.into(), bytes.to_vec(), None)
}

/// Names are written as they are: libraries refuse to write what strangers do.
fn tar_of(members: &[Made]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for Made(kind, name, bytes, link) in members {
        let mut header = tar::Header::new_ustar();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        if let Some(link) = link {
            header.set_link_name(link).expect("a link");
        }
        header.set_entry_type(*kind);
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append(&header, &bytes[..]).expect("a member");
    }
    tar.into_inner().expect("a tar file")
}

/// The members of a bundle, and its index.
fn members_of(bundle: &Path) -> (Vec<Made>, String) {
    let bytes = fs::read(bundle).expect("a bundle");
    let mut archive = tar::Archive::new(&bytes[..]);
    let members = archive.entries().expect("members").map(|entry| {
        let mut entry = entry.expect("a member");
        let name = entry.path().expect("a name").display().to_string();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut bytes).expect("its bytes");
        file(&name, &bytes)
    });
    let members: Vec<Made> = members.collect();
    let index = String::from_utf8(members[0].2.clone()).expect("text");
    (members, index)
}

#[test]
fn a_bundle_reads_nothing_outside_of_itself() {
    let site = Site::new(SEAL);
    site.run(&["lock", "recipe.toml"]).ended_well();
    site.run(&["bundle", "recipe.toml", "--to", "node.tar"])
        .ended_well();
    site.write("host.toml", "root = \"of this host alone\"\n");
    let here = site.path("host.toml").display().to_string();
    let digest = Digest::sha256_of(site.read("host.toml").as_bytes()).hex();
    let recipe = site.read("recipe.toml");
    let bundle = |recipe: &str, more: &str| {
        let (mut members, index) = members_of(&site.path("node.tar"));
        let own = members
            .iter_mut()
            .find(|m| m.1 == "files/recipe/recipe.toml")
            .expect("the recipe");
        let said = |bytes: &[u8]| {
            let digest = Digest::sha256_of(bytes);
            format!("size = {}\ndigest = \"{digest}\"", bytes.len())
        };
        let (before, after) = (said(&own.2), said(recipe.as_bytes()));
        assert!(index.contains(&before), "{index}");
        own.2 = recipe.as_bytes().to_vec();
        let index = index.replace(&before, &after);
        let index = index.replacen("schema = 1\n", &format!("schema = 1\n{more}"), 1);
        members[0].2 = index.into_bytes();
        fs::write(site.path("theirs.tar"), tar_of(&members)).expect("a bundle");
    };
    let included = |path: &str| {
        recipe.replacen(
            "schema = 1\n",
            &format!("schema = 1\ninclude = [{path:?}]\n"),
            1,
        )
    };
    let copied =
        |path: &str| format!("{recipe}\n[[steps]]\ncopy = {{ path = {path:?}, to = 'C:\\x' }}\n");
    let signed =
        format!("signature = {{ kind = \"minisign\", key = {here:?} }}\nfile = \"tool.exe\"\n");
    let named = format!("{}\n[vars]\nmine = {here:?}\n", copied("{{mine}}"));
    let up = "../../../../host.toml";
    let cases = [
        ("an include", included(&here), String::new()),
        ("an include that climbs", included(up), String::new()),
        ("a file", copied(&here), String::new()),
        ("a file that climbs", copied(up), String::new()),
        ("a file that a variable names", named, String::new()),
        (
            "a key",
            recipe.replacen(
                "url = \"tool.exe\"\n",
                &format!("url = \"tool.exe\"\n{signed}"),
                1,
            ),
            String::new(),
        ),
        (
            "a flag that came with it",
            recipe.clone(),
            format!("set = ['setup.answer_file={here:?}']\n"),
        ),
    ];
    for (what, recipe, more) in cases {
        bundle(&recipe, &more);
        for command in ["validate", "plan"] {
            let run = site.run(&[command, "theirs.tar"]);
            assert_eq!(run.status(), Some(2), "{what}: {}", run.whole());
            let rendered = run.stderr();
            let fact = "error: the path leads outside the bundle\n";
            assert!(rendered.contains(fact), "{what}: {rendered}");
            assert!(
                rendered.contains("help: put the file beside the recipe"),
                "{rendered}"
            );
            for secret in ["of this host alone", &digest, "\n1 | root"] {
                assert!(!rendered.contains(secret), "{what}: {rendered}");
            }
        }
    }
    // Of a step that is skipped nothing is read.
    let mut skipped = recipe.clone();
    for (name, verb) in [
        (
            "a file",
            format!("copy = {{ path = {here:?}, to = 'C:\\x' }}"),
        ),
        ("a script", format!("powershell = {{ file = {here:?} }}")),
        (
            "a task",
            format!("task = {{ name = '\\x', xml = {here:?} }}"),
        ),
        (
            "updates",
            format!("update = {{ path = {:?} }}", site.path("")),
        ),
    ] {
        skipped += &format!("\n[[steps]]\nname = \"{name}\"\nwhen = \"no\"\n{verb}\n");
    }
    bundle(&skipped, "");
    for command in ["validate", "plan"] {
        let rendered = site.run(&[command, "theirs.tar"]).ended_well().whole();
        assert!(!rendered.contains("of this host alone"), "{rendered}");
    }
    // An input comes from the bundle, whatever stands at its place here.
    bundle(
        &recipe.replace(
            "url = \"tool.exe\"",
            &format!("url = {here:?}\nfile = \"tool.exe\""),
        ),
        "",
    );
    let rendered = site.run(&["fetch", "theirs.tar"]).whole();
    assert!(!rendered.contains(&digest), "{rendered}");
}

#[test]
fn bundles_of_strangers_are_refused_and_leave_nothing() {
    let site = Site::new(SEAL);
    site.run(&["lock", "recipe.toml"]).ended_well();
    site.run(&["bundle", "recipe.toml", "--to", "node.tar"])
        .ended_well();
    let good = fs::read(site.path("node.tar")).expect("a bundle");
    let mut archive = tar::Archive::new(&good[..]);
    let members: Vec<Made> = archive
        .entries()
        .expect("members")
        .map(|entry| {
            let mut entry = entry.expect("a member");
            let name = entry.path().expect("a name").display().to_string();
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut bytes).expect("its bytes");
            file(&name, &bytes)
        })
        .collect();
    let index = String::from_utf8(members[0].2.clone()).expect("text");
    // Builds a bundle from the good one's members.
    let with = |change: &dyn Fn(&mut Vec<Made>)| {
        let mut changed: Vec<Made> = members
            .iter()
            .map(|Made(kind, name, bytes, link)| Made(*kind, name.clone(), bytes.clone(), *link))
            .collect();
        change(&mut changed);
        tar_of(&changed)
    };
    let of_index = |text: String| with(&|m| m[0].2 = text.clone().into_bytes());
    let recipe = index
        .find("[[files]]\npath = \"recipe/recipe.toml\"")
        .expect("it");
    let recipe_entry = &index[recipe..recipe + index[recipe + 1..].find("[[").expect("more") + 1];
    let escape =
        |path: &str| of_index(index.replace("\"recipe/recipe.toml\"", &format!("{path:?}")));
    let add = |made: Made| {
        with(&|m: &mut Vec<Made>| {
            m.push(Made(made.0, made.1.clone(), made.2.clone(), made.3));
        })
    };
    let first_blob = members
        .iter()
        .position(|m| m.1.starts_with("blobs/"))
        .expect("a blob");
    let long = vec![b'a'; 100 << 10];
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("a path that climbs out", escape("../../escaped.toml")),
        ("an absolute path", escape("/tmp/escaped.toml")),
        ("a path of Windows", escape("C:/escaped.toml")),
        (
            "a file twice",
            of_index(format!("{index}\n{recipe_entry}").replace("[[blobs]]", "[[blobs]]")),
        ),
        (
            "a member that climbs out",
            add(file("files/../../escaped.txt", b"x")),
        ),
        (
            "a member that the index does not name",
            add(file("files/more.txt", b"x")),
        ),
        (
            "a member twice",
            with(&|m| {
                let Made(kind, name, bytes, _) = &m[first_blob];
                let again = Made(*kind, name.clone(), bytes.clone(), None);
                m.push(again);
            }),
        ),
        (
            "a symbolic link",
            add(Made(
                tar::EntryType::Symlink,
                "files/link".into(),
                vec![],
                Some("/etc/passwd"),
            )),
        ),
        (
            "a hard link",
            add(Made(
                tar::EntryType::Link,
                "files/link".into(),
                vec![],
                Some("/etc/passwd"),
            )),
        ),
        (
            "a device",
            add(Made(
                tar::EntryType::Char,
                "files/null".into(),
                vec![],
                None,
            )),
        ),
        (
            "an input that is another file",
            with(&|m| m[first_blob].2[0] ^= 1),
        ),
        (
            "an input of another size",
            with(&|m| m[first_blob].2.push(0)),
        ),
        (
            "a recipe that is another file",
            with(&|m| {
                let recipe = m
                    .iter_mut()
                    .find(|m| m.1.ends_with("recipe.toml"))
                    .expect("it");
                recipe.2[0] ^= 1;
            }),
        ),
        (
            "an input that is not there",
            with(&|m| drop(m.remove(first_blob))),
        ),
        ("cut off", good[..good.len() / 2].to_vec()),
        ("no index", with(&|m| drop(m.remove(0)))),
        (
            "another schema",
            of_index(index.replace("schema = 1", "schema = 7")),
        ),
        (
            "an index that is none",
            of_index("schema = 1\n<html>".into()),
        ),
        ("an endless name", {
            let mut bytes = tar_of(&[
                file("BUNDLE.toml", index.as_bytes()),
                Made(
                    tar::EntryType::GNULongName,
                    "././@LongLink".into(),
                    long.clone(),
                    None,
                ),
            ]);
            bytes.extend_from_slice(&good[..1024]);
            bytes
        }),
        (
            "an extension that renames",
            tar_of(&[
                file("BUNDLE.toml", index.as_bytes()),
                Made(
                    tar::EntryType::XHeader,
                    "x".into(),
                    b"22 path=../escaped.txt\n".to_vec(),
                    None,
                ),
                file("files/more.txt", b"x"),
            ]),
        ),
    ];
    // The store has none of it, so that nothing is passed over.
    fs::remove_dir_all(site.path("cache")).expect("the cache");
    let before = site.files("");
    let mut said = String::new();
    for (what, bytes) in cases {
        fs::write(site.path("hostile.tar"), bytes).expect("a file");
        let refused = site.run(&["validate", "hostile.tar"]);
        said += &format!("--- {what}\n{}", refused.failure());
        fs::remove_file(site.path("hostile.tar")).expect("it");
        assert_eq!(site.files("cache/bundles"), Vec::<String>::new(), "{what}");
        assert_eq!(
            site.files("cache/quarantine"),
            Vec::<String>::new(),
            "{what}"
        );
        let after: Vec<String> = site
            .files("")
            .into_iter()
            .filter(|f| !f.starts_with("cache/"))
            .collect();
        assert_eq!(after, before, "{what}");
        let _ = fs::remove_dir_all(site.path("cache"));
    }
    // Which input comes first is a matter of its digest.
    let size = regex::Regex::new(r"(expected|found): \d+ bytes").expect("a pattern");
    insta::assert_snapshot!(size.replace_all(&said, "$1: [size] bytes"));
    assert!(!Path::new("/tmp/escaped.toml").exists());
}
