//! What a recipe says over an included file: its own build of a component, another version, and the
//! values of Packer's var files.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use winimg_recipe::{ProofSpec, ReadOptions, Recipe, read};

const KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
const ONES: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const TWOS: &str = "2222222222222222222222222222222222222222222222222222222222222222";

struct Case {
    folder: TempDir,
    options: ReadOptions,
}

impl Case {
    /// A recipe on top of `pack.toml`.
    fn new(pack: &str, recipe: &str) -> Self {
        let case = Self {
            folder: tempfile::tempdir().expect("a folder"),
            options: ReadOptions::default(),
        };
        case.write("w.iso", "an ISO");
        let media =
            format!("[media]\nimage = 1\n[media.iso]\nurl = \"w.iso\"\nsha256 = \"{ONES}\"\n");
        case.write("pack.toml", &format!("schema = 1\n{media}{pack}"));
        let head = "schema = 1\nname = \"node\"\ninclude = [\"pack.toml\"]\n";
        case.write(
            "recipe.toml",
            &format!("{head}{recipe}\n[outputs]\nraw = {{}}\n"),
        );
        case
    }

    /// A recipe on top of a recipe that comes with winimg.
    fn on_shipped(recipe: &str, more: &str) -> Self {
        let mut case = Self::new("", "");
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
        case.options.search.push(shipped);
        let head = format!("schema = 1\nname = \"node\"\ninclude = [\"{recipe}\"]\n");
        case.write(
            "recipe.toml",
            &format!("{head}[vars]\niso_url = \"w.iso\"\n{more}"),
        );
        case
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file");
    }

    fn read(&self) -> (Option<Recipe>, String) {
        let (recipe, said) = read(&self.path("recipe.toml"), &self.options);
        let folder = format!("{}/", self.folder.path().display());
        (recipe, said.render(false).replace(&folder, ""))
    }

    fn good(&self) -> Recipe {
        let (recipe, said) = self.read();
        recipe.unwrap_or_else(|| panic!("{said}"))
    }

    fn proof_of(&self, name: &str) -> ProofSpec {
        let recipe = self.good();
        let mut all = recipe.components.into_iter();
        all.find(|c| c.name.value == name)
            .expect("the component")
            .origin
            .proof
    }
}

const PACK: &str = "[components.tool]\nversion = \"1.0\"\nurl = \"https://dl.example.com/tool.exe\"\n\
                    checksum_url = \"https://dl.example.com/SUMS\"\nchecksum_entry = \"tool.exe\"\n";

fn over(lines: &str) -> Case {
    Case::new(PACK, &format!("[components.tool]\n{lines}\n"))
}

fn signed() -> String {
    format!("signature = {{ kind = \"minisign\", key = \"{KEY}\" }}")
}

#[test]
fn a_build_of_ones_own_is_not_held_against_the_publishers_checksum_file() {
    let own_url = "url = \"https://corp.example.com/tool.exe\"";
    let own = over(&format!("{own_url}\n{}", signed()));
    assert_eq!(own.read().1, "");
    assert!(matches!(own.proof_of("tool"), ProofSpec::Signed));
    let own = over(&format!(
        "{own_url}\nchecksum_url = false\nsha256 = \"{TWOS}\""
    ));
    assert!(matches!(own.proof_of("tool"), ProofSpec::Digest(_)));
    let own = over(&format!("checksum_url = false\n{}", signed()));
    assert!(matches!(own.proof_of("tool"), ProofSpec::Signed));
    // In one file it says nothing that is not true without it.
    let alone = Case::new(
        "",
        &format!("[components.tool]\n{own_url}\nchecksum_url = false\nsha256 = \"{TWOS}\"\n"),
    );
    assert!(matches!(alone.proof_of("tool"), ProofSpec::Digest(_)));

    // A checksum file of one's own stays, and so does the pack's where nothing else is said.
    let sums = format!(
        "{own_url}\nchecksum_url = \"https://corp.example.com/SUMS\"\n{}",
        signed()
    );
    let ProofSpec::ChecksumFile { url, entry, .. } = over(&sums).proof_of("tool") else {
        panic!("no checksum file");
    };
    assert_eq!(url.value.to_string(), "https://corp.example.com/SUMS");
    assert_eq!(entry, None);
    for kept in [
        signed(),
        "signature = { kind = \"none\", reason = \"a mirror\" }".to_string() + "\n" + own_url,
        format!("url = \"https://dl.example.com/tool.exe\"\n{}", signed()),
    ] {
        let proof = over(&kept).proof_of("tool");
        assert!(matches!(proof, ProofSpec::ChecksumFile { .. }), "{kept}");
    }
}

#[test]
fn a_dropped_checksum_file_leaves_nothing_proved() {
    let recipe = over("checksum_url = false").good();
    assert_eq!(recipe.undecided.len(), 1);
    let (none, said) = over("checksum_url = true").read();
    assert!(none.is_none() && said.contains("checksum_url"), "{said}");
}

#[test]
fn an_address_on_another_host_than_its_checksum_file_is_warned_about() {
    let said = over("url = \"https://mirror.example.com/tool.exe\"")
        .read()
        .1;
    insta::assert_snapshot!(said);
    for fine in [
        "url = \"https://dl.example.com/other/tool.exe\"",
        "url = \"https://m.example.com/tool.exe\"\nchecksum_url = \"https://dl.example.com/SUMS\"",
        "url = \"https://m.example.com/tool.exe\"\nsha256 = \"1111111111111111111111111111111111111111111111111111111111111111\"",
    ] {
        assert_eq!(over(fine).read().1, "", "{fine}");
    }
}

/// The pages about signing show a component alone; most readers have it by a pack.
#[test]
fn the_examples_of_signing_hold_on_top_of_the_shipped_recipes() {
    for recipe in ["capi-ova.toml", "capi-openstack.toml", "capi-hyperv.toml"] {
        for rule in [
            format!("kind = \"minisign\"\nkey = \"{KEY}\""),
            "kind = \"authenticode\"\nroots = \"digicert-g4\"\nsubject = \"CN=Example Corp\""
                .into(),
        ] {
            let more = format!(
                "[components.kubelet]\nversion = \"1.36.4-corp.1\"\nurl = \"https://downloads.example.com/kubelet-signed.exe\"\n\
                 [components.kubelet.signature]\n{rule}\n"
            );
            let case = Case::on_shipped(recipe, &more);
            let proof = case.proof_of("kubelet");
            assert!(matches!(proof, ProofSpec::Signed), "{recipe}: {proof:?}");
            let recipe = case.good();
            let kubelet = recipe
                .components
                .iter()
                .find(|c| c.name.value == "kubelet")
                .expect("it");
            assert_eq!(kubelet.origin.signatures.len(), 1);
        }
    }
}

/// Whether the pack's signature was asked for says nothing about another one.
#[test]
fn a_signature_of_ones_own_is_asked_for_although_the_packs_is_not() {
    let pack = format!("{PACK}signature_when = false\n{}\n", signed());
    let own = "signature = { kind = \"minisign\", key = \"RWQBAgMEBQYHCHmlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\" }";
    let recipe = Case::new(&pack, &format!("[components.tool]\n{own}\n")).good();
    assert_eq!(recipe.components[0].origin.signatures.len(), 1);
    let left_out = Case::new(
        &pack,
        &format!("[components.tool]\n{own}\nsignature_when = false\n"),
    );
    assert_eq!(left_out.good().components[0].origin.signatures.len(), 0);
    let (recipe, _) = Case::new(&pack, "").read();
    assert_eq!(
        recipe.expect("a recipe").components[0]
            .origin
            .signatures
            .len(),
        0
    );
}

const VERSIONED: &str = "[vars]\ntool_version = \"1.1.8\"\ntool_file = \"Setup_1_1_8_x64.msi\"\n\
    tool_url = \"https://dl.example.com/{{tool_version}}/{{tool_file}}\"\n\
    tool_sha256 = \"1111111111111111111111111111111111111111111111111111111111111111\"\n\
    [components.tool]\nversion = \"{{tool_version}}\"\nurl = \"{{tool_url}}\"\nsha256 = \"{{tool_sha256}}\"\n";

#[test]
fn another_version_beside_an_old_digest_is_warned_about_by_way_of_variables() {
    let with = |vars: &str| Case::new(VERSIONED, &format!("[vars]\n{vars}\n"));
    insta::assert_snapshot!(with("tool_version = \"1.1.4\"").read().1);
    let warned = |case: &Case| case.read().1.contains("is still that of 1.1.8");
    let mut flag = with("tool_file = \"Setup.msi\"");
    assert!(!warned(&flag));
    flag.options
        .vars
        .push(("tool_version".into(), "1.1.4".into()));
    assert!(warned(&flag));
    flag.options.vars.push(("tool_sha256".into(), TWOS.into()));
    assert!(!warned(&flag));
    for fine in [
        // The same version again, and one with its digest.
        "tool_version = \"1.1.8\"".to_string(),
        format!("tool_version = \"1.1.4\"\ntool_sha256 = \"{TWOS}\""),
        // A mirror of the same file.
        "tool_url = \"https://mirror.example.com/Setup.msi\"".into(),
        format!("tool_sha256 = \"{TWOS}\""),
    ] {
        assert!(!warned(&with(&fine)), "{fine}: {}", with(&fine).read().1);
    }
    let with_digest = format!("tool_version = \"1.1.4\"\n[components.tool]\nsha256 = \"{TWOS}\"");
    assert!(!warned(&with(&with_digest)));
}

#[test]
fn a_medium_has_its_version_in_the_address() {
    let pack = "[vars]\nvirtio_version = { default = \"0.1.285\", alias = [\"drivers_version\"] }\n\
        virtio_sha256 = \"2222222222222222222222222222222222222222222222222222222222222222\"\n\
        [media.virtio]\nurl = \"https://dl.example.com/virtio-win-{{virtio_version}}.iso\"\nsha256 = \"{{virtio_sha256}}\"\n";
    for line in [
        "virtio_version = \"0.1.271\"",
        "drivers_version = \"0.1.271\"",
    ] {
        let said = Case::new(pack, &format!("[vars]\n{line}\n")).read().1;
        let fact = "is 0.1.271, but the sha256 of [media.virtio] is still that of 0.1.285";
        assert!(said.contains(fact), "{line}: {said}");
    }
    let own = "[media.virtio]\nurl = \"/isos/virtio.iso\"\n[vars]\nvirtio_version = \"0.1.271\"\n";
    let said = Case::new(pack, own).read().1;
    assert!(!said.contains("still that of"), "{said}");
}

fn packer(checksum: &str) -> Case {
    let pack = format!(
        "[vars]\niso_url = {{ required = \"the ISO\", alias = [\"os_iso_url\"] }}\niso_checksum = \"{ONES}\"\n\
         [components.x]\nurl = \"{{{{iso_url}}}}\"\nsha256 = \"{{{{iso_checksum}}}}\"\n"
    );
    let mut case = Case::new(&pack, "[vars]\niso_url = \"written-by-init.iso\"\n");
    case.write(
        "ib.json",
        &format!(
            "{{\"os_iso_url\": \"https://dl.example.com/a.iso\", \"iso_checksum\": \"{checksum}\"}}"
        ),
    );
    case.options.image_builder_vars.push(case.path("ib.json"));
    case
}

#[test]
fn every_form_of_packers_checksum_is_read() {
    let digest_of = |text: &str| match packer(text).proof_of("x") {
        ProofSpec::Digest(digest) => digest.value.to_string(),
        other => panic!("{text}: {other:?}"),
    };
    for text in [
        TWOS.to_string(),
        format!("sha256:{TWOS}"),
        format!("SHA256:{TWOS}"),
    ] {
        assert_eq!(digest_of(&text), format!("sha256:{TWOS}"), "{text}");
    }
    let long = format!("{ONES}{TWOS}");
    for text in [
        long.clone(),
        format!("sha512:{long}"),
        format!("SHA512:{long}"),
    ] {
        assert_eq!(digest_of(&text), format!("sha512:{long}"), "{text}");
    }
    for (text, url) in [
        (
            "file:https://dl.example.com/SHA256SUMS",
            "https://dl.example.com/SHA256SUMS",
        ),
        (
            "FILE:https://dl.example.com/SHA256SUMS",
            "https://dl.example.com/SHA256SUMS",
        ),
        ("file:///srv/SUMS", "/srv/SUMS"),
        ("file:/srv/SUMS", "/srv/SUMS"),
    ] {
        match packer(text).proof_of("x") {
            ProofSpec::ChecksumFile { url: found, .. } => {
                assert_eq!(found.value.to_string(), url, "{text}")
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    let case = packer("none");
    insta::assert_snapshot!(case.read().1);
    assert_eq!(digest_of("none"), format!("sha256:{ONES}"));
    // Its asks are complete: a lock has it.
    assert_eq!(
        packer("file:https://dl.example.com/SUMS")
            .good()
            .lock_requests
            .len(),
        2
    );
}

#[test]
fn a_checksum_that_proves_nothing_is_refused_where_it_is_said() {
    for text in ["md5:d41d8cd98f00b204e9800998ecf8427e", "abc"] {
        let (recipe, said) = packer(text).read();
        assert!(recipe.is_none() && said.contains("--> ib.json:"), "{said}");
    }
    let mut case = packer(TWOS);
    case.options
        .vars
        .push(("iso_checksum".into(), "none".into()));
    insta::assert_snapshot!(case.read().1);
    // A key of the recipe takes what it says.
    let long = format!("{ONES}{TWOS}");
    let (recipe, said) = over(&format!("sha256 = \"{long}\"")).read();
    assert!(recipe.is_none() && said.contains("is a sha512"), "{said}");
}

#[test]
fn the_iso_of_a_var_file_wins_over_the_one_that_init_wrote() {
    let recipe = packer(ONES).good();
    let url = &recipe.components[0].origin.url.value;
    assert_eq!(url.to_string(), "https://dl.example.com/a.iso");
    let mut case = packer(ONES);
    case.options
        .vars
        .push(("iso_url".into(), "https://dl.example.com/b.iso".into()));
    let url = case.good().components[0].origin.url.value.to_string();
    assert_eq!(url, "https://dl.example.com/b.iso");
}
