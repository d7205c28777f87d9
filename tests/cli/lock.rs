//! `winimg lock`, `winimg fetch`, and builds that obey `recipe.lock`.

use std::fs;

use serde_json::Value;

use crate::cli::site::{Outcome, SEAL, Site};
use support::server::{Files, Server};
use winimg_base::digest::Digest;

const STEPS: &str = r#"
[[steps]]
name = "the tool"
copy = { component = "tool", to = 'C:\k\tool.exe' }
"#;

/// A site whose tool comes from a publisher that may replace its files.
struct Publisher {
    site: Site,
    server: Server,
    files: Files,
}

impl Publisher {
    fn new() -> Self {
        let files = Files::default();
        let held = files.clone();
        let (server, certificate) = Server::start_tls(move |asked| held.answer(asked));
        let site = Site::new(&format!("{STEPS}\n{SEAL}"));
        site.write("server.pem", &certificate);
        let recipe = site.read("recipe.toml");
        let at = recipe.find("url = \"tool.exe\"").expect("the tool");
        let end = at + recipe[at..].find("\n\n").expect("its end");
        let url = server.url("/{{version}}/tool.exe");
        let tool = format!("url = \"{url}\"\nunverified = \"published without a digest\"");
        site.write(
            "recipe.toml",
            &format!("{}{tool}{}", &recipe[..at], &recipe[end..]),
        );
        let publisher = Self {
            site,
            server,
            files,
        };
        publisher.publish("1.2.0", "MZ the tool\n");
        publisher
    }

    fn publish(&self, version: &str, text: &str) {
        self.files.put(&format!("/{version}/tool.exe"), text);
    }

    /// The recipe asks for this version from now on.
    fn version(&self, from: &str, to: &str) {
        let recipe = self.site.read("recipe.toml");
        let (from, to) = (
            format!("version = \"{from}\""),
            format!("version = \"{to}\""),
        );
        assert!(recipe.contains(&from));
        self.site.write("recipe.toml", &recipe.replace(&from, &to));
    }

    fn run(&self, arguments: &[&str]) -> Outcome<'_> {
        let mut command = self.site.command(arguments);
        command.env("SSL_CERT_FILE", self.site.path("server.pem"));
        self.site.ended(command.output().expect("winimg starts"))
    }

    fn build(&self, more: &[&str]) -> Outcome<'_> {
        self.run(&[&crate::cli::site::BUILD, more].concat())
    }

    fn lock(&self) {
        self.run(&["lock", "recipe.toml"]).ended_well();
    }

    fn manifest(&self) -> Value {
        serde_json::from_str(&self.site.read("out/manifest.json")).expect("JSON")
    }

    /// Without the server's port.
    fn shown(&self, text: &str) -> String {
        text.replace(&self.server.host(), "publisher.example")
    }

    /// Nothing of the cache is left.
    fn forget(&self) {
        fs::remove_dir_all(self.site.path("cache/blobs")).expect("the blobs");
        fs::remove_dir_all(self.site.path("cache/seen")).expect("what was seen");
    }
}

#[test]
fn a_lock_is_written_once_and_a_build_obeys_it() {
    let publisher = Publisher::new();
    let first = publisher.run(&["lock", "recipe.toml"]).ended_well();
    insta::assert_snapshot!(publisher.shown(&short(&first.stdout())));
    let text = publisher.site.read("recipe.lock");
    insta::assert_snapshot!(publisher.shown(&without_media(&publisher.site.filtered(&text))));
    for arguments in [
        &["lock", "recipe.toml"][..],
        &["lock", "recipe.toml", "--check"],
    ] {
        let again = publisher.run(arguments).ended_well();
        assert_eq!(again.stdout(), "recipe.lock is up to date, serial 1\n");
    }
    assert_eq!(publisher.site.read("recipe.lock"), text);

    let plan = publisher
        .run(&["plan", "recipe.toml"])
        .ended_well()
        .stdout();
    let inputs = plan.find("\nInputs\n").expect("the inputs");
    insta::assert_snapshot!(&plan[inputs..]);

    let asked = publisher.server.log().len();
    publisher.build(&["--offline"]).ended_well();
    assert_eq!(publisher.server.log().len(), asked);
    let manifest = publisher.manifest();
    assert_eq!(manifest["recipe"]["lock"]["serial"], 1);
    let digest = Digest::sha256_of(text.as_bytes()).to_string();
    assert_eq!(manifest["recipe"]["lock"]["digest"], digest);
}

/// The media are made anew by each test.
fn without_media(lock: &str) -> String {
    let size = regex::Regex::new(r"(?m)^size = \d{5,}$").expect("a pattern");
    size.replace_all(lock, "size = [size]").into_owned()
}

/// Digests as a table shows them.
fn short(text: &str) -> String {
    let digest = regex::Regex::new(r"sha256:[0-9a-f]{12}…").expect("a pattern");
    digest.replace_all(text, "sha256:[digest]").into_owned()
}

#[test]
fn a_recipe_that_drifted_is_refused_until_it_is_locked_again() {
    let publisher = Publisher::new();
    publisher.lock();
    publisher.version("1.2.0", "1.3.0");
    publisher.publish("1.3.0", "MZ a newer tool\n");
    for command in ["build", "plan", "validate", "fetch"] {
        let refused = publisher.run(&[command, "recipe.toml"]);
        assert_eq!(refused.status(), Some(2), "{command}");
        let rendered = refused.stderr();
        let fact =
            "component tool: recipe.lock was made for version 1.2.0, the recipe asks for 1.3.0";
        assert!(rendered.contains(fact), "{command}: {rendered}");
    }
    let asked = publisher.server.log().len();
    let check = publisher.run(&["lock", "recipe.toml", "--check"]);
    assert_eq!(publisher.server.log().len(), asked);
    insta::assert_snapshot!(short(&check.failure()));

    let locked = publisher.run(&["lock", "recipe.toml"]).ended_well();
    insta::assert_snapshot!(short(&locked.stdout()));
    publisher.build(&[]).ended_well();
    assert_eq!(publisher.manifest()["recipe"]["lock"]["serial"], 2);

    // Back again is a decision of its own.
    publisher.version("1.3.0", "1.2.0");
    let before = publisher.site.read("recipe.lock");
    let lower = publisher.run(&["lock", "recipe.toml"]);
    insta::assert_snapshot!(short(&lower.failure()));
    assert_eq!(publisher.site.read("recipe.lock"), before);
    publisher
        .run(&["lock", "recipe.toml", "--allow-rollback"])
        .ended_well();
    publisher.build(&[]).ended_well();
}

/// The same lock in the format before.
fn in_schema_1(text: &str) -> String {
    let proof = r#"(asked = .*\nsize = .*\ndigest = .*\n)\n\[inputs\.proof\]\ndigest = (.*)\n"#;
    let text = regex::Regex::new(proof)
        .expect("a pattern")
        .replace_all(text, "proof = $2\n$1")
        .replace("schema = 3", "schema = 1");
    let content = regex::Regex::new("content = \".*\"").expect("a pattern");
    let said = |digest: &str| {
        let line = format!("content = \"sha256:{digest}\"");
        content.replace(&text, line).into_owned()
    };
    said(&Digest::sha256_of(said(&"0".repeat(64)).as_bytes()).hex())
}

#[test]
fn a_lock_of_schema_1_is_obeyed_and_written_again_without_asking_anybody() {
    let publisher = Publisher::new();
    publisher.lock();
    let text = publisher.site.read("recipe.lock");
    let old = in_schema_1(&text);
    assert_ne!(old, text);
    publisher.site.write("recipe.lock", &old);
    publisher.publish("1.2.0", "MZ the tool, rebuilt\n");
    let asked = publisher.server.log().len();

    let built = publisher.build(&[]).ended_well();
    let notice = "recipe.lock has schema 1, which is still supported; `winimg lock recipe.toml` writes schema 3";
    assert!(built.stderr().contains(notice), "{}", built.stderr());
    let locked = &publisher.manifest()["recipe"]["lock"];
    assert_eq!(
        locked["digest"],
        Digest::sha256_of(old.as_bytes()).to_string()
    );

    let check = publisher
        .run(&["lock", "recipe.toml", "--check"])
        .ended_well();
    assert!(check.stderr().contains(notice), "{}", check.stderr());
    assert_eq!(check.stdout(), "recipe.lock is up to date, serial 1\n");
    assert_eq!(publisher.site.read("recipe.lock"), old);

    let written = publisher.run(&["lock", "recipe.toml"]).ended_well();
    let said = "recipe.lock is upgraded to schema 3; all inputs are unchanged, serial 1\n";
    assert_eq!(written.stdout(), said);
    assert_eq!(publisher.site.read("recipe.lock"), text);
    assert_eq!(publisher.server.log().len(), asked);
    let plan = publisher.run(&["plan", "recipe.toml"]).ended_well();
    assert!(!plan.stderr().contains("schema"), "{}", plan.stderr());
}

#[test]
fn a_file_that_its_publisher_replaced_is_refused_until_it_is_upgraded() {
    let publisher = Publisher::new();
    publisher.lock();
    publisher.publish("1.2.0", "MZ the tool, rebuilt\n");
    // What is in the cache is what was locked.
    publisher.build(&[]).ended_well();
    publisher.forget();
    let refused = publisher.build(&[]);
    assert_eq!(refused.status(), Some(5));
    insta::assert_snapshot!(publisher.shown(&refused.failure()));

    let kept = publisher.run(&["lock", "recipe.toml"]).ended_well();
    assert_eq!(kept.stdout(), "recipe.lock is up to date, serial 1\n");
    let unknown = publisher.run(&["lock", "recipe.toml", "--upgrade", "tol"]);
    insta::assert_snapshot!(unknown.failure());
    let upgraded = publisher
        .run(&["lock", "recipe.toml", "--upgrade", "tool"])
        .ended_well();
    insta::assert_snapshot!(short(&upgraded.stdout()));
    publisher.build(&[]).ended_well();
}

#[test]
fn an_older_lock_is_refused_and_may_be_allowed() {
    let publisher = Publisher::new();
    publisher.lock();
    let old = publisher.site.read("recipe.lock");
    publisher.publish("1.2.0", "MZ the tool, mended\n");
    publisher
        .run(&["lock", "recipe.toml", "--upgrade", "tool"])
        .ended_well();
    publisher.build(&[]).ended_well();

    publisher.site.write("recipe.lock", &old);
    let refused = publisher.build(&[]);
    insta::assert_snapshot!(short(&refused.failure()));
    // Nor is anything built upon it.
    let upon = publisher.run(&["lock", "recipe.toml", "--upgrade", "agent"]);
    assert_eq!(upon.status(), Some(2), "{}", upon.whole());

    publisher.build(&["--allow-rollback"]).ended_well();
    let warnings = publisher.manifest()["warnings"].to_string();
    let fact = "recipe.lock has serial 1, but serial 2 was used here before (--allow-rollback)";
    assert!(warnings.contains(fact), "{warnings}");
}

#[test]
fn a_lock_may_be_passed_over_or_stand_elsewhere() {
    let publisher = Publisher::new();
    publisher.lock();
    publisher.publish("1.2.0", "MZ the tool, rebuilt\n");
    publisher.forget();
    let passed = publisher.build(&["--no-lock"]).ended_well();
    let warning = "warning: recipe.lock is ignored: --no-lock\n";
    assert!(passed.stderr().contains(warning), "{}", passed.stderr());
    let manifest = publisher.manifest();
    assert!(manifest["recipe"].get("lock").is_none());
    assert_eq!(manifest["warnings"][0], "recipe.lock is ignored: --no-lock");

    let (from, to) = ("recipe.lock", "other.lock");
    fs::rename(publisher.site.path(from), publisher.site.path(to)).expect("a move");
    publisher.forget();
    let refused = publisher.build(&["--lock", "other.lock"]);
    assert_eq!(refused.status(), Some(5), "{}", refused.whole());
    let both = publisher.build(&["--lock", "other.lock", "--no-lock"]);
    assert_eq!(both.status(), Some(2), "{}", both.whole());
    let none = publisher.build(&["--lock", "none.lock"]);
    insta::assert_snapshot!(none.stderr());
}

#[test]
fn fetch_fills_the_cache_and_offline_asks_nobody() {
    let publisher = Publisher::new();
    publisher.lock();
    fs::remove_dir_all(publisher.site.path("cache")).expect("the cache");
    let asked = publisher.server.log().len();
    let lacking = publisher.run(&["fetch", "recipe.toml", "--offline"]);
    insta::assert_snapshot!(publisher.shown(&lacking.failure()));
    let mut by_environment = publisher.site.command(&["fetch", "recipe.toml"]);
    by_environment.env("WINIMG_OFFLINE", "1");
    let by_environment = by_environment.output().expect("winimg starts");
    assert_eq!(by_environment.status.code(), Some(4));
    assert_eq!(publisher.server.log().len(), asked);

    let sizes = regex::Regex::new(r" +\d{5,} ").expect("a pattern");
    let table = |outcome: Outcome<'_>| {
        let text = outcome.ended_well().stdout();
        sizes.replace_all(&text, " [size] ").into_owned()
    };
    let first = table(publisher.run(&["fetch", "recipe.toml"]));
    insta::assert_snapshot!(first);
    let again = table(publisher.run(&["fetch", "recipe.toml", "--offline"]));
    assert_eq!(again, first.replace("network   ", "cache     "));
    publisher.build(&["--offline"]).ended_well();
}
