//! What recipes ask of signatures: what is read, what is complained about, and where.

use std::fs;
use std::path::{Path, PathBuf};
use support::complaints::facts;

use winimg_recipe::keys;
use winimg_recipe::{FileAddress, ProofSpec, ReadOptions, Recipe, SignatureSpec, read};
use winimg_trust::Scheme;

/// Of minisign's own documentation.
const KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";

/// A folder with a recipe that ends in these lines, and more files.
fn folder(more: &str, files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a folder");
    let text = format!(
        "schema = 1\nname = \"signed\"\n{more}\n[media]\nimage = \"datacenter-core\"\n[media.iso]\n\
         url = \"https://example.com/x.iso\"\nunverified = \"test\"\n[outputs]\nraw = {{}}\n"
    );
    for (name, text) in files.iter().chain(&[("recipe.toml", text.as_str())]) {
        fs::write(dir.path().join(name), text).expect("a file");
    }
    let path = dir.path().join("recipe.toml");
    (dir, path)
}

fn read_in(path: &Path, options: &ReadOptions) -> (Option<Recipe>, String) {
    let (recipe, diagnostics) = read(path, options);
    let dir = path.parent().expect("a folder").display().to_string();
    let text = diagnostics.render(false).replace(&format!("{dir}/"), "");
    (recipe, text)
}

fn complaints(more: &str) -> String {
    let key = format!("untrusted comment: minisign public key\n{KEY}\n");
    let files = [("good.pub", key.as_str()), ("garbage.pem", "no key\n")];
    let (_dir, path) = folder(more, &files);
    let (recipe, text) = read_in(&path, &ReadOptions::default());
    assert!(recipe.is_none(), "{more}");
    text
}

fn good(more: &str, files: &[(&str, &str)]) -> Recipe {
    let (_dir, path) = folder(more, files);
    let (recipe, text) = read_in(&path, &ReadOptions::default());
    recipe.unwrap_or_else(|| panic!("{text}"))
}

fn only(recipe: &Recipe) -> &SignatureSpec {
    match recipe.components[0].origin.signatures.as_slice() {
        [group] => &group[0],
        other => panic!("{other:?}"),
    }
}

/// Each scheme's table has its own name as its kind, and says where its signature is.
#[test]
fn every_scheme_has_its_table() {
    let row = keys::find_table("signature").key("kind");
    let mut kinds = row.takes.words().to_vec();
    kinds.retain(|kind| !["catalogs", "none"].contains(&kind.as_str()));
    assert_eq!(kinds, Scheme::ALL.map(|scheme| scheme.to_string()));
    for scheme in Scheme::ALL {
        let table = keys::find_table(&format!("signature.{scheme}"));
        assert_eq!(table.key("kind").takes.words(), [scheme.to_string()]);
        let url = table.find("url").and_then(|url| url.unless_given.as_ref());
        match scheme.signature_suffix() {
            Some(suffix) => assert!(
                url.unwrap().contains(&format!("with `{suffix}`")),
                "{scheme}"
            ),
            None => assert_eq!(url, None, "{scheme}"),
        }
    }
}

#[test]
fn mistakes_in_signatures_are_reported_at_their_lines() {
    insta::assert_snapshot!(facts(&complaints(
        r#"
[components.a]
url = "https://example.com/a.exe"
signature = { kind = "gpg", key = "a.asc" }
[components.b]
url = "https://example.com/b.exe"
signature = { kind = "openpgp", key = "nowhere.asc" }
[components.c]
url = "https://example.com/c.exe"
signature = { kind = "minisign", key = "RWshort", sha256 = "x" }
[components.d]
url = "https://example.com/d.exe"
signature = { kind = "cosign", key = "garbage.pem" }
[components.e]
url = "https://example.com/e.exe"
signature = { kind = "authenticode", roots = ["microsoft-root-2010", "garbage.pem", "nowhere"] }
[components.f]
url = "https://example.com/f.exe"
signature = { kind = "authenticode", roots = "microsoft-root-2010", subject = "CN=A", leaf = "abcd", members = ["*.exe"] }
[components.g]
url = "https://example.com/g.exe"
signature = { kind = "sigstore", identity = "a@example.com", certificate = "g.cert" }
[components.h]
url = "https://example.com/h.exe"
signature = { kind = "attestation", repository = "one", workflow = "w.yml", ref = "v1" }
[components.i]
url = "https://example.com/i.exe"
signature = { any = [] }
[components.j]
url = "https://example.com/j.exe"
signature = { any = [{ kind = "minisign", key = "good.pub", url = "https://user:SECRET@example.com/j.sig" }] }
[components.k]
url = "https://example.com/k.exe"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
checksum_signature = { kind = "minisign", key = "good.pub" }
[components.l]
url = "https://example.com/l.exe"
checksum_url = "https://example.com/SHA256SUMS"
checksum_signature = { kind = "authenticode", roots = "microsoft-root-2010", subject = "CN=A" }
[components.m]
url = "https://example.com/m.zip"
unpack = "zip"
signature = { kind = "authenticode", roots = "microsoft-root-2010", subject = "CN=A", members = ["**/*.exe"] }
[components.n]
url = "https://example.com/n.exe"
signature = []
[components.o]
url = "https://example.com/o.zip"
unpack = "zip"
signature = { kind = "authenticode", roots = "microsoft-root-2010", subject = "CN=A" }
[components.p]
url = "https://example.com/p.zip"
unpack = "zip"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
signature = { kind = "authenticode", roots = "microsoft-root-2010", subject = "CN=A", catalog = "p.cat" }
"#
    )));
}

#[test]
fn a_policy_of_signatures_names_every_component_without_one() {
    insta::assert_snapshot!(complaints(&format!(
        r#"policy = "signed"
[components.digest]
url = "https://example.com/a.exe"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
[components.dropped]
url = "https://example.com/b.exe"
unverified = "test"
signature = {{ kind = "none", reason = "we build it" }}
[components.signed]
url = "https://example.com/c.exe"
signature = {{ kind = "minisign", key = "{KEY}" }}
"#
    )));
    let more = "policy = \"all\"\n";
    insta::assert_snapshot!(complaints(more));
}

const PINNED: &str =
    "sha256 = \"0000000000000000000000000000000000000000000000000000000000000000\"";

/// What `[unsigned]` names passes by its digest, with a warning; nothing else does.
#[test]
fn a_policy_of_signatures_lets_pass_what_the_recipe_names() {
    let more = |component: &str, line: &str| {
        format!(
            "policy = \"signed\"\n[components.tool]\nurl = \"https://example.com/t.exe\"\n{component}\n[unsigned]\n{line}\n"
        )
    };
    let (_dir, path) = folder(&more(PINNED, "tool = \"its publisher signs nothing\""), &[]);
    let (recipe, said) = read_in(&path, &ReadOptions::default());
    assert!(recipe.is_some(), "{said}");
    let mut found = said;
    let signed = format!("signature = {{ kind = \"minisign\", key = \"{KEY}\" }}");
    let none = format!("{PINNED}\nsignature = {{ kind = \"none\", reason = \"a mirror\" }}");
    let (_dir, path) = folder(&more(&none, "tool = \"our mirror has no signatures\""), &[]);
    assert!(read_in(&path, &ReadOptions::default()).0.is_some());
    for (component, line) in [
        (PINNED, "tol = \"its publisher signs nothing\""),
        (PINNED, "tool = true"),
        (PINNED, "tool = \" \""),
        (
            "unverified = \"test\"",
            "tool = \"its publisher signs nothing\"",
        ),
        (signed.as_str(), "tool = \"its publisher signs nothing\""),
    ] {
        found += &format!("\n{}", complaints(&more(component, line)));
    }
    let without = more(PINNED, "tool = \"so\"").replace("policy = \"signed\"\n", "");
    found += &format!("\n{}", complaints(&without));
    insta::assert_snapshot!(facts(&found));
}

/// A variable of a pack turns a signature off, never silently.
#[test]
fn a_signature_that_is_not_asked_for_is_warned_about() {
    let more = |policy: &str, required: &str| {
        format!(
            "{policy}[vars]\nsignatures = \"{required}\"\n[components.tool]\nurl = \"https://example.com/t.exe\"\n{PINNED}\n\
             signature_when = \"{{{{signatures}}}} == required\"\nsignature = {{ kind = \"minisign\", key = \"{KEY}\" }}\n"
        )
    };
    let asked = good(&more("", "required"), &[]);
    assert_eq!(only(&asked).words, format!("minisign, key {KEY}"));
    let (_dir, path) = folder(&more("", "off"), &[]);
    let (recipe, said) = read_in(&path, &ReadOptions::default());
    let recipe = recipe.expect("a recipe");
    assert!(recipe.components[0].origin.signatures.is_empty());
    let policy = "policy = \"signed\"\n";
    good(&more(policy, "required"), &[]);
    let refused = complaints(&more(policy, "off"));
    let wrong = complaints(&more("", "off").replace("== required", "&& on"));
    insta::assert_snapshot!(facts(&format!("{said}\n{refused}\n{wrong}")));
}

#[test]
fn signatures_are_looked_for_beside_their_file() {
    let key = format!("key = \"{KEY}\"");
    let who = "identity = \"a@example.com\", issuer = \"https://accounts.google.com\"";
    let code = "roots = \"microsoft-root-2010\", subject = \"CN=A\"";
    for (table, url) in [
        (
            format!("kind = \"minisign\", {key}"),
            Some("https://h.example/t.exe.minisig?sig=S"),
        ),
        (
            format!("kind = \"sigstore\", {who}"),
            Some("https://h.example/t.exe.sigstore.json?sig=S"),
        ),
        (
            format!(
                "kind = \"sigstore\", {who}, certificate = \"https://h.example/c\", log = \"https://rekor.example\""
            ),
            Some("https://h.example/t.exe.sig?sig=S"),
        ),
        (
            format!("kind = \"cms\", {code}"),
            Some("https://h.example/t.exe.p7s?sig=S"),
        ),
        (format!("kind = \"authenticode\", {code}"), None),
        (
            format!("kind = \"authenticode\", {code}, catalog = \"https://h.example/t.cat\""),
            Some("https://h.example/t.cat"),
        ),
    ] {
        let more = format!(
            "[components.t]\nurl = \"https://h.example/t.exe?sig=S\"\nsignature = {{ {table} }}\n"
        );
        let recipe = good(&more, &[]);
        let found = only(&recipe).url.as_ref().map(|u| match &u.value {
            FileAddress::Remote(url) => url.as_str(),
            FileAddress::Local(path) => panic!("{} is a file", path.display()),
        });
        assert_eq!(found, url, "{table}");
        assert!(matches!(
            recipe.components[0].origin.proof,
            ProofSpec::Signed
        ));
    }
}

#[test]
fn a_later_file_replaces_a_signature_whole_or_drops_it() {
    let pack = format!(
        "schema = 1\n[components.t]\nurl = \"https://h.example/t.exe\"\nunverified = \"no digest\"\n\
         signature = {{ kind = \"minisign\", key = \"{KEY}\", url = \"https://h.example/sig\" }}\n"
    );
    let files = [("pack.toml", pack.as_str())];
    let with = |more: &str| good(&format!("include = [\"pack.toml\"]\n{more}"), &files);
    let recipe = with("");
    assert_eq!(
        only(&recipe).url.as_ref().unwrap().value.to_string(),
        "https://h.example/sig"
    );
    // The signature is the proof that the pack did not have.
    assert!(matches!(
        recipe.components[0].origin.proof,
        ProofSpec::Signed
    ));
    let own = format!("[components.t.signature]\nkind = \"minisign\"\nkey = \"{KEY}\"\n");
    let recipe = with(&own);
    assert_eq!(
        only(&recipe).url.as_ref().unwrap().value.to_string(),
        "https://h.example/t.exe.minisig"
    );
    let recipe = with("[components.t.signature]\nkind = \"none\"\nreason = \"we build it\"\n");
    assert!(recipe.components[0].origin.signatures.is_empty());
    assert!(matches!(
        recipe.components[0].origin.proof,
        ProofSpec::Unverified { .. }
    ));
    // A digest is one more thing that has to hold.
    let zeros = "0".repeat(64);
    let recipe = with(&format!("[components.t]\nsha256 = \"{zeros}\"\n"));
    assert_eq!(recipe.components[0].origin.signatures.len(), 1);
    assert!(matches!(
        recipe.components[0].origin.proof,
        ProofSpec::Digest(_)
    ));
}

#[test]
fn another_key_in_a_file_is_another_recipe() {
    let more = "[components.t]\nurl = \"https://h.example/t.exe\"\n\
                signature = { kind = \"minisign\", key = \"release.pub\" }\n";
    let key = format!("{KEY}\n");
    let longer = format!("untrusted comment: the same\n{KEY}\n");
    let first = good(more, &[("release.pub", &key)]);
    let same = good(more, &[("release.pub", &key)]);
    let other = good(more, &[("release.pub", &longer)]);
    assert_eq!(first.digest, same.digest);
    assert_ne!(first.digest, other.digest);
    assert_ne!(only(&first).words, only(&other).words);
    assert!(
        only(&first)
            .words
            .starts_with("minisign, key release.pub (sha256:")
    );
}

#[test]
fn the_plan_says_who_has_to_have_signed() {
    let more = format!(
        "[components.t]\nurl = \"https://h.example/t.exe?sig=SECRET\"\n\
         signature = [{{ any = [{{ kind = \"minisign\", key = \"{KEY}\" }}, \
         {{ kind = \"sigstore\", identity = \"a@example.com\", issuer = \"https://accounts.google.com\" }}] }}, \
         {{ kind = \"authenticode\", roots = \"microsoft-root-2010\", subject = \"CN=Example Corp\" }}]\n"
    );
    let recipe = good(&more, &[]);
    let plan = winimg_recipe::plan::make(&recipe).expect("a plan");
    let text = winimg_recipe::plan::render_text(&recipe, &plan);
    assert!(!text.contains("SECRET"), "{text}");
    let components = text.split("\nComponents\n").nth(1).expect("components");
    let components = components.split("\n\n").next().unwrap_or_default();
    insta::assert_snapshot!(components);
    let json = winimg_recipe::plan::render_json(&recipe, &plan);
    let signatures = &json["components"][0]["signatures"];
    assert_eq!(signatures[0][1]["scheme"], "sigstore");
    assert_eq!(
        signatures[1][0]["asks"],
        "authenticode, subject CN=Example Corp, root microsoft-root-2010"
    );
    assert!(!json.to_string().contains("SECRET"));
}
