//! A file that differs from the lock: the error names the lock, says what the file's signature says
//! of it, and gives the whole command that takes it into the lock.

use std::fs;

use crate::cli::site::{Outcome, SEAL, Site};
use support::server::{Files, Server};

/// A recipe `node.toml` whose tool is signed, and lies on a server or in the recipe's folder.
struct Signed {
    site: Site,
    server: Server,
    files: Files,
    keys: minisign::KeyPair,
}

impl Signed {
    fn new(is_remote: bool) -> Self {
        let files = Files::default();
        let held = files.clone();
        let (server, certificate) = Server::start_tls(move |asked| held.answer(asked));
        let site = Site::new(SEAL);
        site.write("server.pem", &certificate);
        let keys = minisign::KeyPair::generate_unencrypted_keypair().expect("keys");
        let public = keys.pk.to_box().expect("a box").to_string();
        site.write("release.pub", &public);
        let recipe = site.read("recipe.toml");
        let at = recipe.find("url = \"tool.exe\"").expect("the tool");
        let end = at + recipe[at..].find("\n\n").expect("its end");
        let url = if is_remote {
            server.url("/tool.exe")
        } else {
            "tool.exe".into()
        };
        let tool = format!(
            "url = \"{url}\"\n\
             signature = {{ kind = \"minisign\", key = \"release.pub\", url = \"{{{{url}}}}.minisig\" }}"
        );
        let recipe = format!("{}{tool}{}", &recipe[..at], &recipe[end..]);
        site.write("node.toml", &recipe);
        fs::remove_file(site.path("recipe.toml")).expect("the recipe");
        Self {
            site,
            server,
            files,
            keys,
        }
    }

    fn publish(&self, text: &str) {
        self.files.put("/tool.exe", text);
        self.site.write("tool.exe", text);
    }

    fn sign(&self, text: &str) {
        let signed = minisign::sign(None, &self.keys.sk, text.as_bytes(), None, None);
        let signature = signed.expect("a signature").into_string();
        self.files.put("/tool.exe.minisig", signature.clone());
        self.site.write("tool.exe.minisig", &signature);
    }

    fn run(&self, arguments: &[&str]) -> Outcome<'_> {
        let mut command = self.site.command(arguments);
        command.env("SSL_CERT_FILE", self.site.path("server.pem"));
        self.site.ended(command.output().expect("winimg starts"))
    }

    /// What `fetch` says on a machine that has nothing yet.
    fn refused(&self, more: &[&str]) -> String {
        let _ = fs::remove_dir_all(self.site.path("cache"));
        let refused = self.run(&[&["fetch", "node.toml"], more].concat());
        assert_eq!(refused.status(), Some(5), "{}", refused.whole());
        let said = refused.failure();
        said.replace(&self.server.host(), "publisher.example")
    }
}

const FIRST: &str = "MZ the tool, first\n";
const OTHER: &str = "MZ the tool, other\n";
const FACT: &str = "error: tool is not the file that node.lock names\n";

#[test]
fn one_that_was_tampered_with_is_called_that() {
    for is_remote in [true, false] {
        let node = Signed::new(is_remote);
        node.publish(FIRST);
        node.sign(FIRST);
        node.run(&["lock", "node.toml"]).ended_well();
        node.publish(OTHER);
        let said = node.refused(&[]);
        assert!(said.contains(FACT), "{said}");
        let verdict = "  | the new file has no valid signature (";
        assert!(said.contains(verdict), "{said}");
        assert!(said.contains("): treat it as tampered with\n"), "{said}");
        let cure = "update the lock with `winimg lock node.toml --refresh tool`";
        assert!(said.contains(cure), "{said}");
        assert!(
            said.contains(", as it was when node.lock was written\n"),
            "{said}"
        );
        // That command refuses it, too.
        let refresh = node.run(&["lock", "node.toml", "--refresh", "tool"]);
        assert_eq!(refresh.status(), Some(5), "{}", refresh.whole());
    }
}

#[test]
fn one_that_its_publisher_signed_anew_names_the_signer_and_the_command_works() {
    for is_remote in [true, false] {
        let node = Signed::new(is_remote);
        node.publish(FIRST);
        node.sign(FIRST);
        node.run(&["lock", "node.toml"]).ended_well();
        node.publish(OTHER);
        node.sign(OTHER);
        let said = node.refused(&[]);
        assert!(said.contains(FACT), "{said}");
        assert!(
            said.contains("  | the new file has a valid signature of "),
            "{said}"
        );
        let cure = "  cure: if you trust the new one, update the lock: \
                    `winimg lock node.toml --refresh tool`";
        assert!(said.contains(cure), "{said}");
        node.run(&["lock", "node.toml", "--refresh", "tool"])
            .ended_well();
        node.run(&["fetch", "node.toml"]).ended_well();
    }
}

#[test]
fn the_command_names_a_lock_that_lies_elsewhere_and_the_matrix_of_a_variant() {
    let node = Signed::new(false);
    node.publish(FIRST);
    node.sign(FIRST);
    node.run(&["lock", "node.toml", "--lock", "other.lock"])
        .ended_well();
    node.site.write(
        "nodes.toml",
        "schema = 1\n[matrix]\nrecipe = \"node.toml\"\nname = \"v-{{n}}\"\n[matrix.axes]\nn = [{ name = \"a\" }]\n",
    );
    node.run(&["matrix", "lock", "nodes.toml"]).ended_well();
    node.publish(OTHER);
    node.sign(OTHER);
    for (lock, command) in [
        (
            "other.lock",
            "`winimg lock node.toml --lock other.lock --refresh tool`",
        ),
        (
            "nodes.locks/v-a.lock",
            "`winimg matrix lock nodes.toml --refresh tool`",
        ),
    ] {
        // The variant has a name of its own.
        let name = ["--set", "name=\"v-a\""];
        let more: &[&str] = if lock == "other.lock" { &[] } else { &name };
        let said = node.refused(&[&["--lock", lock][..], more].concat());
        assert!(said.contains(command), "{said}");
        let shown = lock.rsplit('/').next().expect("a name");
        assert!(said.contains(shown), "{said}");
    }
}
