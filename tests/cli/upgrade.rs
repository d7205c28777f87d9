//! `winimg lock --upgrade` and `--newest` against publishers' lists and files that a local server has: what is written into the
//! recipe, as whole text, and what is refused and leaves every file as it was.

use serde_json::Value;

use crate::cli::site::{Outcome, SEAL, Site};
use support::server::{Files, Server};
use winimg_base::digest::Digest;

/// A recipe whose components are a pack's: a tool under the pack's variable, an agent with a digest, and one without variables.
struct Publisher {
    site: Site,
    server: Server,
    files: Files,
}

const PACK: &str = r#"
schema = 1
name   = "pack"

[vars]
tool_version  = { default = "v1.2.0", alias = ["tool_release"], prefix = "v" }
agent_version = "2.0.0"
agent_sha256  = "AGENT"

[components.tool]
version    = "{{tool_version}}"
versions   = { atom = "SERVER/tool.atom" }
url        = "SERVER/{{tool_version}}/tool.exe"
unverified = "published without a digest"

[components.companion]
version    = "{{tool_version}}"
url        = "SERVER/{{tool_version}}/companion.exe"
unverified = "published without a digest"

[components.agent]
version  = "{{agent_version}}"
versions = { text = "SERVER/agent.txt" }
url      = "SERVER/agent-{{agent_version}}.dat"
sha256   = "{{agent_sha256}}"

[components.fixed]
version    = "3.0.0"
versions   = { text = "SERVER/fixed.txt" }
url        = "SERVER/fixed-{{version}}.exe"
unverified = "published without a digest"
"#;

/// As a person writes it.
const VARS: &str = "[vars]\n# Ours, and why.\ntool_release   =  '1.2.0'   # which one\n";

impl Publisher {
    fn new() -> Self {
        let files = Files::default();
        let held = files.clone();
        let (server, certificate) = Server::start_tls(move |asked| held.answer(asked));
        let site = Site::new(SEAL);
        site.write("server.pem", &certificate);
        let publisher = Self {
            site,
            server,
            files,
        };
        publisher.lists();
        for version in ["v1.2.0", "v1.2.7", "v1.3.1"] {
            publisher.publish(&format!("/{version}/tool.exe"), &format!("MZ {version}"));
            publisher.publish(
                &format!("/{version}/companion.exe"),
                &format!("MZ with {version}"),
            );
        }
        for version in ["2.0.0", "2.0.3", "3.0.1"] {
            publisher.publish(
                &format!("/agent-{version}.dat"),
                &format!("agent {version}"),
            );
        }
        publisher.publish("/fixed-3.0.0.exe", "MZ fixed");
        let pack = PACK
            .replace("SERVER", publisher.server.url("").trim_end_matches('/'))
            .replace("AGENT", &Digest::sha256_of(b"agent 2.0.0").hex());
        publisher.site.write("pack.toml", &pack);
        let recipe = publisher.site.read("recipe.toml");
        let start = recipe.find("[components.tool]").expect("the components");
        let end = recipe.find("[outputs]").expect("the outputs");
        let recipe = format!("{}{VARS}\n{}", &recipe[..start], &recipe[end..]);
        let named = "name = \"node\"\n";
        let recipe = recipe.replace(named, &format!("{named}include = [\"pack.toml\"]\n"));
        publisher.site.write("recipe.toml", &recipe);
        publisher
    }

    fn lists(&self) {
        let entry = |version: &str| {
            format!(
                "<entry><link rel=\"alternate\" href=\"https://example.com/tag/{version}\"/></entry>"
            )
        };
        let entries: String = ["v1.2.7", "v1.3.1", "v1.2.5"].map(entry).concat();
        let feed = format!("<feed xmlns=\"http://www.w3.org/2005/Atom\">{entries}</feed>");
        self.publish("/tool.atom", &feed);
        self.publish("/agent.txt", "2.0.3 3.0.1\n");
        self.publish("/fixed.txt", "3.0.4\n");
    }

    fn publish(&self, path: &str, text: &str) {
        self.files.put(path, text);
    }

    fn withdraw(&self, path: &str) {
        self.files.remove(path);
    }

    fn lock(&self, more: &[&str]) -> Outcome<'_> {
        let mut command = self
            .site
            .command(&[&["lock", "recipe.toml"], more].concat());
        command.env("SSL_CERT_FILE", self.site.path("server.pem"));
        self.site.outcome(command)
    }

    /// Without the server's port and times.
    fn shown(&self, text: &str) -> String {
        text.replace(&self.server.host(), "publisher.example")
    }

    /// All that an upgrade could change.
    fn written(&self) -> [String; 3] {
        ["recipe.toml", "pack.toml", "recipe.lock"].map(|name| self.site.read(name))
    }
}

#[test]
fn later_versions_of_the_series_go_into_the_recipe_with_their_digests_and_are_locked() {
    let publisher = Publisher::new();
    publisher.lock(&[]).ended_well();
    let [recipe, pack, lock] = publisher.written();
    let outcome = publisher.lock(&["--upgrade"]).ended_well();
    insta::assert_snapshot!(publisher.shown(&outcome.stdout()));

    let size = "agent 2.0.3".len();
    let remark = format!(
        "winimg pin: {size} bytes from {}, not signed",
        publisher.server.url("/agent-2.0.3.dat")
    );
    let digest = Digest::sha256_of(b"agent 2.0.3").hex();
    let expected = recipe.replace(
        VARS,
        &format!(
            "[vars]\n# Ours, and why.\ntool_release   =  \"1.2.7\"   # which one\n\
             agent_version = \"2.0.3\"\nagent_sha256 = \"{digest}\"  # {remark}\n"
        ),
    );
    assert_ne!(expected, recipe);
    assert_eq!(publisher.site.read("recipe.toml"), expected);
    assert_eq!(publisher.site.read("pack.toml"), pack);
    let locked = publisher.site.read("recipe.lock");
    assert!(locked.contains("serial = 2") && locked != lock, "{locked}");
    for digest in [
        Digest::sha256_of(b"MZ v1.2.7"),
        Digest::sha256_of(b"MZ with v1.2.7"),
        Digest::sha256_of(b"agent 2.0.3"),
    ] {
        assert!(locked.contains(&digest.hex()), "{locked}");
    }

    // There is nothing more, and a later pin takes the place of its own remark.
    let again = publisher.lock(&["--upgrade"]).ended_well();
    insta::assert_snapshot!(publisher.shown(&again.stdout()));
    publisher.publish("/agent.txt", "2.0.30\n");
    publisher.publish("/agent-2.0.30.dat", "agent 2.0.30");
    publisher.lock(&["--upgrade", "agent"]).ended_well();
    let later = expected
        .replace("2.0.3", "2.0.30")
        .replace("pin: 11 bytes", "pin: 12 bytes")
        .replace(&digest, &Digest::sha256_of(b"agent 2.0.30").hex());
    assert_eq!(publisher.site.read("recipe.toml"), later);
}

#[test]
fn another_series_is_taken_only_where_it_is_asked_for_by_name() {
    let publisher = Publisher::new();
    publisher.lock(&[]).ended_well();
    let recipe = publisher.site.read("recipe.toml");
    let newest = publisher.lock(&["--newest", "tool", "--json"]).ended_well();
    let newest: Value = serde_json::from_str(&newest.stdout()).expect("JSON");
    assert_eq!(
        newest["versions"],
        serde_json::json!([{"name": "tool", "was": "v1.2.0", "is": "v1.3.1", "key": "vars.tool_release"}])
    );
    let names = newest["changes"].as_array().expect("changes");
    let names: Vec<_> = names.iter().map(|change| &change["name"]).collect();
    assert_eq!(names, ["tool", "companion"]);
    assert_eq!(
        publisher.site.read("recipe.toml"),
        recipe.replace("'1.2.0'", "\"1.3.1\"")
    );
}

#[test]
fn check_shows_the_versions_and_writes_and_fetches_nothing() {
    let publisher = Publisher::new();
    publisher.lock(&[]).ended_well();
    let before = publisher.written();
    let asked = publisher.server.log().len();
    let outcome = publisher.lock(&["--upgrade", "agent", "--check"]);
    assert_eq!(outcome.status(), Some(2), "{}", outcome.whole());
    insta::assert_snapshot!(publisher.shown(&format!("{}{}", outcome.stdout(), outcome.failure())));
    assert_eq!(publisher.written(), before);
    assert_eq!(
        publisher.server.log().len(),
        asked + 1,
        "more than the list was asked for"
    );
}

#[test]
fn what_cannot_be_taken_is_refused_and_every_file_stays_as_it_was() {
    let publisher = Publisher::new();
    publisher.lock(&[]).ended_well();
    let pack = publisher.site.read("pack.toml");
    let mut said = String::new();
    let mut refused = |what: &str, more: &[&str]| {
        let before = publisher.written();
        let outcome = publisher.lock(more);
        assert_ne!(outcome.status(), Some(0), "{what}: {}", outcome.whole());
        assert_eq!(publisher.written(), before, "{what}");
        said += &format!("# {what}\n{}\n", publisher.shown(&outcome.failure()));
    };
    refused("a version without a variable", &["--upgrade", "fixed"]);
    refused(
        "a value of the command line",
        &["--upgrade", "tool", "--var", "tool_version=v1.2.0"],
    );
    refused("a component without a list", &["--newest", "companion"]);
    let change = |from: &str, to: &str| {
        assert!(pack.contains(from));
        publisher.site.write("pack.toml", &pack.replace(from, to));
    };
    change(
        "version    = \"{{tool_version}}\"\nversions",
        "version    = \"{{tool_version}}+1\"\nversions",
    );
    refused("a version of several pieces", &["--upgrade", "tool"]);
    change("/agent-{{agent_version}}", "/agent-2_0_0-{{agent_version}}");
    refused(
        "a URL that names the version in another way too",
        &["--upgrade", "agent"],
    );
    change("/{{tool_version}}/tool.exe", "/v1.3.1/tool.exe");
    refused(
        "a URL that does not name the version",
        &["--upgrade", "tool"],
    );
    change(
        "\"{{agent_sha256}}\"",
        &format!("\"{}\"", Digest::sha256_of(b"agent 2.0.0").hex()),
    );
    refused("a digest without a variable", &["--upgrade", "agent"]);
    change(
        "agent_version = \"2.0.0\"",
        "agent_version = { default = \"2.0.0\", one_of = [\"2.0.0\"] }",
    );
    refused("a value that is not allowed", &["--upgrade", "agent"]);
    publisher.site.write("pack.toml", &pack);

    publisher.withdraw("/v1.2.7/companion.exe");
    refused("a file that is not there", &["--upgrade"]);
    publisher.publish("/agent.txt", "2.0.5\n");
    refused(
        "a file to be pinned that is not there",
        &["--upgrade", "agent"],
    );
    publisher.withdraw("/agent.txt");
    refused("a list that is not there", &["--upgrade"]);
    refused("no network", &["--upgrade", "--offline"]);
    insta::assert_snapshot!(said);
}

#[test]
fn a_refresh_keeps_the_version() {
    let publisher = Publisher::new();
    publisher.lock(&[]).ended_well();
    let recipe = publisher.site.read("recipe.toml");
    publisher.publish("/v1.2.0/tool.exe", "MZ v1.2.0, rebuilt");
    publisher.lock(&["--refresh", "tool"]).ended_well();
    assert_eq!(publisher.site.read("recipe.toml"), recipe);
    let locked = publisher.site.read("recipe.lock");
    let rebuilt = Digest::sha256_of(b"MZ v1.2.0, rebuilt").hex();
    assert!(locked.contains(&rebuilt), "{locked}");
}

#[test]
fn what_the_recipe_itself_declares_is_changed_where_it_stands() {
    let publisher = Publisher::new();
    let own = format!(
        "\n# Ours alone.\n[components.own]\nversion  = \"2.0.0\"  # as the agent\nurl      = \"{}\"\n\
         versions = {{ text = \"{}\" }}\nsha256   = \"{}\"\n",
        publisher.server.url("/agent-{{version}}.dat"),
        publisher.server.url("/agent.txt"),
        Digest::sha256_of(b"agent 2.0.0").hex()
    );
    let recipe = publisher.site.read("recipe.toml").replace(
        VARS,
        "[vars]\ntool_version = { default = \"{{ours}}\", alias = [\"tool_release\"] }\nours = { default = \"v1.2.0\" } # ours\n",
    );
    let recipe = format!("{recipe}{own}");
    publisher.site.write("recipe.toml", &recipe);
    publisher
        .lock(&["--upgrade", "own", "--upgrade", "tool"])
        .ended_well();
    let remark = format!(
        "  # winimg pin: 11 bytes from {}, not signed",
        publisher.server.url("/agent-2.0.3.dat")
    );
    let pinned = format!("{}\"{remark}", Digest::sha256_of(b"agent 2.0.3").hex());
    let expected = recipe
        .replace("default = \"v1.2.0\"", "default = \"v1.2.7\"")
        .replace("\"2.0.0\"  # as", "\"2.0.3\"  # as")
        .replace(
            &format!("{}\"", Digest::sha256_of(b"agent 2.0.0").hex()),
            &pinned,
        );
    assert_eq!(publisher.site.read("recipe.toml"), expected);
}

#[test]
fn a_recipe_that_fell_behind_its_lock_catches_up() {
    let publisher = Publisher::new();
    let behind = publisher.site.read("recipe.toml");
    publisher.lock(&["--upgrade"]).ended_well();
    let ahead = publisher.written();
    publisher.site.write("recipe.toml", &behind);
    publisher.lock(&["--upgrade"]).ended_well();
    assert_eq!(publisher.written(), ahead);
}
