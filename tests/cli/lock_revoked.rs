//! Lists of revoked certificates: fetched with the signature, kept by the lock, carried by a bundle, judged in each.

use std::fs;
use std::sync::{Arc, Mutex};

use crate::cli::site::{SEAL, Site};
use support::media;
use support::server::{Answer, Server};

const CONFIG: &str = "\
[ca]
default_ca = here
[here]
database = index
default_md = sha256
crl_extensions = list
[list]
authorityKeyIdentifier = keyid
";

/// A publisher who signs with a certificate of its own authority, which publishes a list.
struct Publisher {
    site: Site,
    server: Server,
    list: Arc<Mutex<Option<Vec<u8>>>>,
}

impl Publisher {
    fn new() -> Self {
        let site = Site::new(&format!(
            "[[steps]]\nname = \"the tool\"\ncopy = {{ component = \"tool\", to = 'C:\\k\\tool.exe' }}\n{SEAL}"
        ));
        let run = |line: &str| {
            let folder = site.path("ca");
            let words: Vec<&str> = line.split(' ').collect();
            let mut command = std::process::Command::new("openssl");
            let out = command
                .args(words)
                .current_dir(folder)
                .output()
                .expect("openssl");
            assert!(
                out.status.success(),
                "{line}: {}",
                String::from_utf8_lossy(&out.stderr)
            );
        };
        site.write("ca/index", "");
        site.write("ca/ca.cnf", CONFIG);
        site.write("ca/leaf.ext", "basicConstraints = critical, CA:FALSE\n");
        site.write("ca/tool.exe", "MZ a tool that is signed\n");
        run(
            "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -subj /CN=Root -days 9000 -out ca.pem",
        );
        run("req -new -newkey rsa:2048 -nodes -keyout leaf.key -subj /CN=Publisher -out leaf.csr");
        run(
            "x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -set_serial 7 -days 9000 -extfile leaf.ext -out leaf.pem",
        );
        run(
            "cms -sign -binary -in tool.exe -signer leaf.pem -inkey leaf.key -outform DER -out tool.exe.p7s",
        );
        let read = |name: &str| fs::read(site.path(&format!("ca/{name}"))).expect("a file");
        let (tool, signature) = (read("tool.exe"), read("tool.exe.p7s"));
        let list = Arc::new(Mutex::new(None));
        let published = Arc::clone(&list);
        let server = Server::start(move |asked| match asked.path.as_str() {
            "/tool.exe" => Answer::new("200 OK", &[], tool.clone()),
            "/tool.exe.p7s" => Answer::new("200 OK", &[], signature.clone()),
            "/ca.crl" => match published.lock().expect("the list").clone() {
                Some(list) => Answer::new("200 OK", &[], list),
                None => Answer::new("404 Not Found", &[], ""),
            },
            _ => Answer::new("404 Not Found", &[], ""),
        });
        let recipe = site.read("recipe.toml");
        let at = recipe.find("url = \"tool.exe\"").expect("the tool");
        let end = at + recipe[at..].find("\n\n").expect("its end");
        let tool = format!(
            "url = \"{}\"\n[components.tool.signature]\nkind = \"cms\"\nroots = \"ca/ca.pem\"\nsubject = \"CN=Publisher\"\ncrls = [\"{}\"]",
            server.url("/tool.exe"),
            server.url("/ca.crl")
        );
        site.write(
            "recipe.toml",
            &format!("{}{tool}{}", &recipe[..at], &recipe[end..]),
        );
        Self { site, server, list }
    }

    /// The authority publishes a list with these lines of its index.
    fn publish(&self, index: &str) {
        self.site.write("ca/index", index);
        let folder = self.site.path("ca");
        let mut command = std::process::Command::new("openssl");
        let command = command.current_dir(&folder);
        let line = "ca -gencrl -config ca.cnf -cert ca.pem -keyfile ca.key -crldays 30 -out ca.crl";
        let out = command.args(line.split(' ')).output().expect("openssl");
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        let list = fs::read(folder.join("ca.crl")).expect("a list");
        *self.list.lock().expect("the list") = Some(list);
    }
}

const REVOKED: &str = "R\t450101000000Z\t260601000000Z,keyCompromise\t07\tunknown\t/CN=Publisher\n";

#[test]
fn a_list_is_locked_bundled_and_judged_again_without_a_network() {
    let publisher = Publisher::new();
    let site = &publisher.site;
    let without = site.run(&["lock", "recipe.toml"]);
    assert_eq!(without.status(), Some(5), "{}", without.whole());
    assert!(
        without.failure().contains("list of revoked certificates"),
        "{}",
        without.failure()
    );

    publisher.publish("");
    site.run(&["lock", "recipe.toml"]).ended_well();
    let lock = site.read("recipe.lock");
    let list =
        winimg_base::digest::Digest::sha256_of(&fs::read(site.path("ca/ca.crl")).expect("it"));
    assert!(lock.contains(&list.to_string()), "{lock}");
    assert!(
        lock.contains("checked against the revocation list of CN=Root from "),
        "{lock}"
    );
    site.run(&["bundle", "recipe.toml", "--to", "node.tar"])
        .ended_well();

    // What is locked holds, whatever is published since, and elsewhere too.
    publisher.publish(REVOKED);
    let asked = publisher.server.log().len();
    site.run(&["fetch", "recipe.toml", "--offline"])
        .ended_well();
    let there = Site::empty();
    fs::copy(site.path("node.tar"), there.path("node.tar")).expect("a copy");
    there.run(&["fetch", "node.tar"]).ended_well();
    assert_eq!(publisher.server.log().len(), asked, "the network was asked");

    // Locked again it is refused, by what is published then.
    let revoked = site.run(&["lock", "recipe.toml", "--upgrade", "tool"]);
    assert_eq!(revoked.status(), Some(5), "{}", revoked.whole());
    let said = revoked.failure();
    assert!(
        said.contains("a certificate of its chain is revoked"),
        "{said}"
    );
    assert!(
        said.contains("CN=Publisher, revoked at [moment] (keyCompromise)"),
        "{said}"
    );
}

#[test]
fn lists_may_be_files_and_what_is_misspelled_is_said() {
    let publisher = Publisher::new();
    let site = &publisher.site;
    publisher.publish("");
    let recipe = site.read("recipe.toml");
    let url = publisher.server.url("/ca.crl");
    let local = recipe.replace(&url, "ca/ca.crl");
    site.write("recipe.toml", &local);
    site.run(&["lock", "recipe.toml"]).ended_well();
    media::run("rm", &[media::text(&site.path("recipe.lock"))]);
    let more = local.replace("crls = [", "accept_misused = [\"12:34\"]\ncrls = [");
    site.write("recipe.toml", &more);
    let refused = site.run(&["validate", "recipe.toml"]);
    insta::assert_snapshot!(refused.failure());
}
