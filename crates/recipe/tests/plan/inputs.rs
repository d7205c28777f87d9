//! What a recipe alone decides about its inputs, as `validate` and `plan` say it.

use support::complaints::facts;
use support::tree;
use winimg_base::diag::Diagnostics;
use winimg_recipe::plan;
use winimg_recipe::{LockSource, LockedInput, ReadOptions, Recipe, read};

const DIGEST: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

fn lock_source() -> LockSource {
    LockSource {
        name: "recipe.lock".into(),
        refresh: None,
    }
}

fn recipe(text: &str) -> Recipe {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("recipe.toml");
    std::fs::write(&path, text).expect("a recipe");
    // The targets' rules about outputs are among what is said.
    let recipes = vec![tree::root().join("recipes")];
    let options = ReadOptions {
        search: recipes.clone(),
        shipped: recipes,
        ..ReadOptions::default()
    };
    let (recipe, said) = read(&path, &options);
    assert_eq!(said.render(false), "");
    recipe.expect("a recipe")
}

/// With a medium that is proved as `proof` says, and a seal.
fn with(iso: &str, outputs: &str, more: &str) -> Recipe {
    recipe(&format!(
        "schema = 1\nname = \"node\"\n[media]\nimage = \"datacenter-core\"\n[media.iso]\n{iso}\n[outputs]\n{outputs}\n{more}\n\
         [[steps]]\nname = \"seal\"\ngeneralize = {{}}\n"
    ))
}

/// What the plan warns about, or why there is none; without the folder.
fn said(recipe: &Recipe) -> String {
    let said = match plan::make(recipe) {
        Ok(plan) => plan.warnings,
        Err(complaints) => complaints,
    };
    rendered(recipe, said)
}

fn rendered(recipe: &Recipe, said: Diagnostics) -> String {
    let file = &recipe.name.place.source.name;
    let folder = file.strip_suffix("recipe.toml").expect("the recipe's name");
    said.render(false).replace(folder, "")
}

#[test]
fn evaluation_media_that_are_known_by_their_digest() {
    let eval = |digest: &str| format!("url = \"https://example.com/x.iso\"\nsha256 = \"{digest}\"");
    let of_2022 = eval("3e4fa6d8507b554856fc9ca6079cc402df11a8b79344871669f0251535255325");
    let of_2025 = eval("7b052573ba7894c9924e3e87ba732ccd354d18cb75a883efa9b900ea125bfd51");
    let written = "ami = { license_type = \"AWS\" }";
    let mut all = String::new();
    for (what, iso, outputs) in [
        ("an image that ends", &of_2022, "raw = {}"),
        ("an AMI of AWS, by default", &of_2022, "ami = {}"),
        ("an AMI of AWS, as it is written", &of_2022, written),
        (
            "an own licence",
            &of_2022,
            "ami = { license_type = \"BYOL\" }",
        ),
        (
            "an OVA of 2025 with the release's version",
            &of_2025,
            "ova = {}",
        ),
        (
            "an OVA of 2025 that is too old",
            &of_2025,
            "ova = { hardware_version = 19 }",
        ),
        (
            "the same of 2022",
            &of_2022,
            "ova = { hardware_version = 19 }",
        ),
    ] {
        all += &format!("== {what}\n{}\n", said(&with(iso, outputs, "")));
    }
    insta::assert_snapshot!("evaluation", facts(&all));
    // Another digest says nothing, unless a lock names the medium's.
    let unverified = "url = \"https://example.com/x.iso\"\nunverified = \"test\"";
    assert_eq!(said(&with(&eval(DIGEST), "ami = {}", "")), "");
    let mut locked = with(unverified, "raw = {}", "");
    assert_eq!(said(&locked), "");
    locked.media.iso.locked = Some(LockedInput {
        digest: "sha256:549bca46c055157291be6c22a3aaaed8330e78ef4382c99ee82c896426a1cee1"
            .parse()
            .expect("a digest"),
        size: 1,
        evidence: Default::default(),
        source: lock_source(),
    });
    assert!(said(&locked).contains("Windows Server 2019 from it runs for 180 days"));
}

#[test]
fn plain_http() {
    let https = "url = \"https://example.com/x.iso\"\nunverified = \"test\"";
    let component = |lines: &str| {
        let step = "[[steps]]\nname = \"x\"\ncopy = { component = \"x\", to = 'C:\\x.exe' }";
        format!("[components.x]\n{lines}\n{step}")
    };
    let key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
    let pinned = format!("url = \"http://example.com/x.exe\"\nsha256 = \"{DIGEST}\"");
    let signed = format!(
        "url = \"http://example.com/x.exe\"\nsignature = {{ kind = \"minisign\", key = \"{key}\" }}"
    );
    let sums = "url = \"https://example.com/x.exe\"\nchecksum_url = \"HTTP://example.com/SUMS\"";
    let signed_sums =
        format!("{sums}\nchecksum_signature = {{ kind = \"minisign\", key = \"{key}\" }}");
    let mut all = String::new();
    for (what, more) in [
        ("a digest", component(&pinned)),
        ("a signature", component(&signed)),
        (
            "nothing",
            component("url = \"http://example.com/x.exe\"\nunverified = \"test\""),
        ),
        ("a checksum file over http", component(sums)),
        ("one that is signed", component(&signed_sums)),
        (
            "an image",
            format!(
                "[images.x]\nreference = \"http://example.com/x:1\"\ndigest = \"sha256:{DIGEST}\""
            ),
        ),
        (
            "this machine's own server",
            component(&pinned.replace("example.com", "127.0.0.1:8080")),
        ),
    ] {
        all += &format!("== {what}\n{}\n", said(&with(https, "raw = {}", &more)));
    }
    let media = "url = \"http://example.com/x.iso\"\nunverified = \"test\"";
    let virtio = format!("[media.virtio]\nurl = \"http://[::1]:80/v.iso\"\nsha256 = \"{DIGEST}\"");
    all += &format!("== media\n{}", said(&with(media, "raw = {}", &virtio)));
    insta::assert_snapshot!("plain-http", facts(&all));
}

/// A lock names the bytes that nothing else proves.
#[test]
fn what_is_locked_may_come_over_http() {
    let media = "url = \"http://example.com/x.iso\"\nunverified = \"test\"";
    let mut locked = with(media, "raw = {}", "");
    assert!(plan::make(&locked).is_err());
    locked.media.iso.locked = Some(LockedInput {
        digest: DIGEST.parse().expect("a digest"),
        size: 1,
        evidence: Default::default(),
        source: lock_source(),
    });
    let warned = said(&locked);
    assert!(
        warned.starts_with("warning: [media.iso] comes over plain http\n"),
        "{warned}"
    );
}

/// No digest would refuse what was changed on the way.
#[test]
fn http_without_a_proof_yet_is_warned_of() {
    let https = "url = \"https://example.com/x.iso\"\nunverified = \"test\"";
    let more = "[components.a]\nurl = \"http://example.com/a\"\n";
    let warned = said(&with(https, "raw = {}", more));
    for line in [
        "warning: component `a` comes over plain http, and its digest is not set yet\n",
        "anyone on the network path can change it\n",
        "= help: use https before you pin it\n",
    ] {
        assert!(warned.contains(line), "{warned}");
    }
}

#[test]
fn a_component_that_no_step_uses() {
    let https = "url = \"https://example.com/x.iso\"\nunverified = \"test\"";
    let component = |name: &str| {
        format!(
            "[components.{name}]\nurl = \"https://example.com/{name}.msu\"\nsha256 = \"{DIGEST}\"\n"
        )
    };
    let names = ["forgotten", "skipped", "one", "two", "run"];
    let components: String = names.iter().map(|n| component(n)).collect();
    let steps = "[[steps]]\nname = \"a\"\nwhen = \"no\"\nmsi = { component = \"skipped\" }\n\
         [[steps]]\nname = \"b\"\nupdate = { components = [\"one\", \"two\"] }\n\
         [[steps]]\nname = \"c\"\ncopy = { component = \"run\", to = 'C:\\run.msu' }\n";
    let recipe = with(https, "raw = {}", &format!("{components}{steps}"));
    assert_eq!(
        rendered(&recipe, Diagnostics(plan::warn_unused(&recipe))),
        "\
warning: no step uses component `forgotten`
  --> recipe.toml:10:13
   |
10 | [components.forgotten]
   |             ^^^^^^^^^ not fetched, and not in the image
   |
   = help: add a step such as `copy = { component = \"forgotten\", to = 'C:\\…' }`, or remove the component

1 warning in recipe.toml
"
    );
}

/// Two packs of one kind, or packs in the wrong order.
#[test]
fn two_steps_that_give_a_service_different_programs() {
    let proved = format!("url = \"https://example.com/x.iso\"\nsha256 = \"{DIGEST}\"");
    let step =
        |name: &str, keys: &str| format!("[[steps]]\nname = \"{name}\"\nservice = {{ {keys} }}\n");
    let said = |steps: &[String]| said(&with(&proved, "raw = {}", &steps.concat()));
    let first = step("agent", r"name = 'agent', program = 'C:\a\agent.exe'");
    let again = step("agent again", r"name = 'Agent', program = 'c:\a\AGENT.exe'");
    let start = step("at the end", "name = 'agent', start = 'auto'");
    assert_eq!(said(&[first.clone(), again, start]), "");
    let other = step("other", r"name = 'AGENT', program = 'C:\b\nssm.exe'");
    insta::assert_snapshot!(said(&[first, other]));
}

/// The newest of what is known: the medium's own updates, or those that steps carry in.
#[test]
fn updates_that_are_old_are_warned_about() {
    let known = "url = \"https://example.com/x.iso\"\nsha256 = \"3e4fa6d8507b554856fc9ca6079cc402df11a8b79344871669f0251535255325\"";
    let other = format!("url = \"https://example.com/x.iso\"\nsha256 = \"{DIGEST}\"");
    let step = |more: &str| {
        let dir = tree::root().join("tests/packs/updates");
        format!("[[steps]]\nname = \"updates\"\n[steps.update]\npath = {dir:?}\n{more}\n")
    };
    let dated = step("date = \"2026-08-11\"");
    let mut all = String::new();
    for (what, iso, more, today, is_old) in [
        ("a medium", known, "", "2022-06-07", true),
        ("a medium of three months", known, "", "2022-06-06", false),
        ("an unknown medium", other.as_str(), "", "2036-01-01", false),
        ("updates", known, dated.as_str(), "2026-11-09", false),
        (
            "old updates",
            other.as_str(),
            dated.as_str(),
            "2026-11-10",
            true,
        ),
        ("updates of no date", known, &step(""), "2036-01-01", false),
        (
            "an empty date",
            known,
            &step("date = \"\""),
            "2036-01-01",
            false,
        ),
        ("a clock that is wrong", known, "", "1999-01-01", false),
    ] {
        let recipe = with(iso, "raw = {}", more);
        let said = plan::warn_old_updates(&recipe, today.parse().expect("a day"));
        assert_eq!(said.is_some(), is_old, "{what}");
        if let Some(said) = said {
            let said = rendered(&recipe, Diagnostics(vec![said]));
            all += &format!("== {what}\n{said}\n");
        }
    }
    insta::assert_snapshot!("old_updates", facts(&all));
}
