//! `winimg pin`, and what a recipe that leaves something open can and cannot do.

use std::sync::{Arc, Mutex};

use crate::cli::site::{SEAL, Site};
use support::server::{Answer, Server};

const RECIPE: &str = r#"# Ours.
schema = 1
name = "node"
include = ["pack.toml"]

[vars]   # what differs here
tier = "gold"  # never silver
# The tool's.
tool_sha256   = { required = "the digest of tool.zip, which its author does not publish" }

[media]
image = "datacenter-core"

[media.iso]
url = "windows.iso"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"

[media.virtio]
url        = "virtio-win.iso"
# None is published.
unverified = "it has no digest"

[[steps]]
name = "tier"
registry = { key = 'HKLM\SOFTWARE\Example', name = "Tier", type = "sz", data = "{{tier}}" }

[[steps]]
name = "seal"
generalize = {}

[outputs]
raw = {}
# The end.
"#;

/// Nobody changes a pack: what it leaves open is written into the recipe.
const PACK: &str = r#"
schema = 1

[vars]
tool_sha256  = { required = "the digest of the tool" }
agent_sha512 = { required = "the SHA-512 of the agent" }
operator_key = { required = "the operator's public key" }

[components.tool]
url    = "{tls}/tool.zip"
sha256 = "{{tool_sha256}}"
unpack = "zip"

[components.agent]
url    = "{tls}/agent.exe"
sha512 = "{{agent_sha512}}"

[components.plain]
url = "{http}/plain.txt"

[[steps]]
name = "agent"
copy = { component = "agent", to = 'C:\k\agent.exe' }

[[steps]]
name = "operator's key"
file = { path = 'C:\k\operator.pub', content = "{{operator_key}}" }

[[steps]]
name = "operator's key is told"
when = "{{operator_key}}"
cmd = "echo there"
"#;

/// Bytes that begin as a file of this name does.
fn bytes_of(path: &str) -> String {
    let mark = match path.rsplit_once('.') {
        Some((_, "zip")) => "PK\u{3}\u{4}",
        Some((_, "exe")) => "MZ",
        _ => "",
    };
    format!("{mark}the bytes of {path}\n")
}

/// A recipe that leaves proofs open, and its publishers.
struct Open {
    site: Site,
    tls: Server,
    http: Server,
    gone: Arc<Mutex<Vec<String>>>,
}

impl Open {
    fn new() -> Self {
        let gone: Arc<Mutex<Vec<String>>> = Arc::default();
        let missing = Arc::clone(&gone);
        let (tls, certificate) = Server::start_tls(move |asked| {
            if missing.lock().expect("names").contains(&asked.path) {
                Answer::new("404 Not Found", &[], "")
            } else {
                Answer::new("200 OK", &[], bytes_of(&asked.path))
            }
        });
        let http = Server::start(|_| Answer::new("200 OK", &[], "plain\n"));
        let site = Site::empty();
        site.write("server.pem", &certificate);
        site.write("recipe.toml", RECIPE);
        let pack = PACK.replace("{tls}", &tls.url(""));
        site.write("pack.toml", &pack.replace("{http}", &http.url("")));
        site.write("windows.iso", "a medium\n");
        site.write("virtio-win.iso", "drivers\n");
        Self {
            site,
            tls,
            http,
            gone,
        }
    }

    /// Status, standard output, standard error, without the servers' ports.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = self.site.command(arguments);
        command.env("SSL_CERT_FILE", self.site.path("server.pem"));
        let ended = self.site.ended(command.output().expect("winimg starts"));
        (ended.status(), self.shown(&ended.whole()))
    }

    fn shown(&self, text: &str) -> String {
        let text = text.replace(&self.tls.host(), "publisher.example");
        text.replace(&self.http.host(), "plain.example")
    }

    fn asked(&self) -> usize {
        self.tls.log().len() + self.http.log().len()
    }
}

#[test]
fn what_is_not_decided_is_listed_by_plan_and_refused_by_what_fetches() {
    let open = Open::new();
    let (status, said) = open.run(&["validate", "recipe.toml"]);
    assert_eq!(status, Some(0), "{said}");
    insta::assert_snapshot!("not_decided", said);
    let (status, plan) = open.run(&["plan", "recipe.toml"]);
    assert_eq!(status, Some(0), "{plan}");
    let end = said.find("To be decided").expect("the list");
    let list = said[end..].split("--- standard error").next().expect("it");
    let after = plan.split("\nLayers\n").nth(1).expect("the plan's end");
    assert!(after.contains(list), "{plan}");
    assert!(
        plan.contains("operator's key") && plan.contains("not decided: needs operator_key"),
        "{plan}"
    );
    let (status, json) = open.run(&["plan", "recipe.toml", "--json"]);
    assert_eq!(status, Some(0), "{json}");
    for fact in [
        "\"input\": \"agent\"",
        "\"variable\": \"agent_sha512\"",
        "\"cache\": \"undecided\"",
        "\"digest\": null",
    ] {
        assert!(json.contains(fact), "{fact}: {json}");
    }
    let mut refused = String::new();
    for arguments in [
        &["lock", "recipe.toml"][..],
        &["fetch", "recipe.toml"],
        &["bundle", "recipe.toml", "--to", "node.tar"],
        &["build", "recipe.toml", "--hypervisor", "fake:machine.toml"],
    ] {
        let (status, said) = open.run(arguments);
        assert_eq!(status, Some(2), "{said}");
        // All say the same.
        if refused.is_empty() {
            insta::assert_snapshot!("refused_until_decided", said);
            refused = said;
        } else {
            assert_eq!(refused, said, "{arguments:?}");
        }
    }
    assert_eq!(open.asked(), 0);
    assert_eq!(open.site.read("recipe.toml"), RECIPE);
}

#[test]
fn pin_shows_what_came_and_writes_it_where_it_belongs() {
    let open = Open::new();
    let (status, said) = open.run(&["pin", "recipe.toml", "--dry-run"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(
        said.contains("would be written to recipe.toml as vars.tool_sha256"),
        "{said}"
    );
    assert_eq!(open.site.read("recipe.toml"), RECIPE);
    let pack = open.site.read("pack.toml");

    let (status, said) = open.run(&["pin", "recipe.toml"]);
    assert_eq!(status, Some(0), "{said}");
    let written = open.shown(&open.site.read("recipe.toml"));
    insta::assert_snapshot!("pinned", format!("{said}--- recipe.toml\n{written}"));
    assert_eq!(open.site.read("pack.toml"), pack);

    let (status, said) = open.run(&["pin", "recipe.toml"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(
        said.contains("every input has a digest or signature"),
        "{said}"
    );
    assert!(
        said.contains("operator_key: the operator's public key"),
        "{said}"
    );
    // What was pinned proves the files from now on, and what is asked for by name replaces `unverified`.
    let (status, said) = open.run(&["pin", "recipe.toml", "media.virtio"]);
    assert_eq!(status, Some(0), "{said}");
    let written = open.site.read("recipe.toml");
    assert!(!written.contains("unverified"), "{written}");
    assert!(
        written.contains("# None is published.\nsha256 = \""),
        "{written}"
    );
    let (status, said) = open.run(&["validate", "recipe.toml", "--var", "operator_key=k"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(!said.contains("To be decided"), "{said}");
    let found = winimg_base::digest::Digest::sha256_of(b"drivers\n").hex();
    assert!(written.contains(&found), "{written}");
}

#[test]
fn what_cannot_be_pinned_is_reported_and_the_rest_is_pinned() {
    let open = Open::new();
    open.gone.lock().expect("names").push("/tool.zip".into());
    let (status, said) = open.run(&["pin", "recipe.toml"]);
    assert_ne!(status, Some(0), "{said}");
    assert!(said.contains("404"), "{said}");
    let written = open.site.read("recipe.toml");
    assert!(written.contains("agent_sha512 = \""), "{written}");
    assert!(written.contains("tool_sha256   = { required"), "{written}");

    let mut rendered = String::new();
    for arguments in [
        &["pin", "recipe.toml", "agent"][..],
        &["pin", "recipe.toml", "agnt"],
        &["pin", "recipe.toml", "--offline"],
    ] {
        let (status, said) = open.run(arguments);
        assert_ne!(status, Some(0), "{said}");
        rendered += &format!("{}\n{said}\n", arguments.join(" "));
    }
    insta::assert_snapshot!("not_pinned", rendered);
}

/// No key is made from what is not there: layers that are here are not called stale, and not used.
#[test]
fn of_a_recipe_that_leaves_something_open_no_layer_is_known() {
    let site = Site::new(SEAL);
    site.build(&[]).ended_well();
    let step =
        "[[steps]]\nname = \"note\"\nfile = { path = 'C:\\k\\note.txt', content = \"{{note}}\" }\n";
    let open = format!("[vars]\nnote = {{ required = \"a note\" }}\n\n{step}\n{SEAL}");
    site.recipe(&open);
    let layers = |arguments: &[&str]| {
        let said = site.run(arguments).ended_well().stdout();
        let after = said.split("\nLayers\n").last().unwrap_or_default();
        after.lines().next().unwrap_or_default().to_string()
    };
    let fake = ["--hypervisor", "fake:machine.toml"];
    for command in [
        &["plan", "recipe.toml"][..],
        &["cache", "explain", "recipe.toml"],
    ] {
        assert_eq!(
            layers(&[command, &fake].concat()),
            "  unknown until all values are set"
        );
        let decided = [command, &fake, &["--var", "note=x"]].concat();
        assert_ne!(layers(&decided), "  unknown until all values are set");
    }
}

#[test]
fn what_cannot_be_the_file_is_not_pinned() {
    let server = Server::start(|asked| {
        let gzip: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
        match asked.path.as_str() {
            "/empty.exe" => Answer::new("200 OK", &[], ""),
            "/error.exe" => Answer::new("200 OK", &[], r#"{"errors":[{"status":404}]}"#),
            "/pointer.exe" => {
                let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n";
                Answer::new("200 OK", &[], pointer)
            }
            "/packed.exe" => Answer::new("200 OK", &[("content-encoding", "gzip")], gzip),
            _ => Answer::new("200 OK", &[], "MZ a program"),
        }
    });
    let site = Site::empty();
    site.write("windows.iso", "a medium\n");
    site.write("virtio-win.iso", "drivers\n");
    let mut recipe = RECIPE.replace("include = [\"pack.toml\"]\n", "");
    recipe = recipe.replace("tool_sha256   = { required = \"the digest of tool.zip, which its author does not publish\" }\n", "");
    for name in ["empty", "error", "pointer", "packed", "good"] {
        let url = server.url(&format!("/{name}.exe"));
        recipe += &format!("\n[components.{name}]\nurl = \"{url}\"\n");
    }
    site.write("recipe.toml", &recipe);
    let outcome = site.run(&["pin", "recipe.toml"]);
    assert_ne!(outcome.status(), Some(0), "{}", outcome.whole());
    let said = outcome.whole();
    for found in [
        "found: an empty file, 0 bytes",
        "found: text that begins with `{\"errors\":[{\"status\":404}]}`",
        "found: a Git LFS pointer instead of the file",
        "found: gzip",
    ] {
        assert!(said.contains(found), "{found}: {said}");
    }
    // The others are pinned.
    let digest = winimg_base::digest::Digest::sha256_of(b"MZ a program").hex();
    let written = site.read("recipe.toml");
    assert_eq!(written.matches("sha256 = \"").count(), 2, "{written}");
    assert!(written.contains(&digest), "{written}");
    // Without a way to write what it was, nobody could take it.
    assert!(
        said.contains("add its digest to the recipe: sha256 = \""),
        "{said}"
    );
}
