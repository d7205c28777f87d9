//! Secrets of every kind go into builds on QEMU, one that ends well and one that fails; nothing that is shown or left
//! holds one, whole disks with their unallocated space included.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use support::tree::{self, root};

use support::planted::{ENVIRONMENT, Proxy, Sampler, Search, TOKEN};

const TOOL: &[u8] = b"MZ the tool\r\n";

/// Much longer than a build takes on a machine without virtualisation.
const LIMIT: Duration = Duration::from_secs(40 * 60);

/// The smallest recipe with a component behind a signed URL, and every output.
fn recipe(steps: &str) -> String {
    let small = fs::read_to_string(root().join(super::SMALL)).expect("the recipe");
    let standin = root().join("target/standin");
    let digest = winimg_base::digest::Digest::sha256_of(TOOL);
    let component = format!(
        "[components.tool]\nurl = \"http://files.example/tool.exe?sig={TOKEN}\"\nsha256 = \"{}\"\n\n\
         [[steps]]\nname = \"the tool\"\ncopy = {{ component = \"tool\", to = 'C:\\k\\tool.exe' }}\n\n{steps}",
        digest.hex()
    );
    small
        .replace(
            "../../target/standin",
            standin.to_str().expect("a UTF-8 path"),
        )
        .replacen("[[steps]]", &format!("{component}[[steps]]"), 1)
        .replace("vhd = {}", "raw = {}\nvhd = {}\nova = {}\nqcow2 = {}")
}

/// Builds in `dir`, which gets all that is said; the log as text or as JSON.
fn build(dir: &Path, log: &str, proxy: &Proxy) -> ExitStatus {
    let file = |name: &str| File::create(dir.join(name)).expect("a file");
    let mut child = Command::new(tree::winimg())
        .args([
            "-vv",
            "--log-format",
            log,
            "build",
            "recipe.toml",
            "--output",
            "out",
        ])
        .current_dir(dir)
        .env("WINIMG_CACHE_DIR", dir.join("cache"))
        .envs(ENVIRONMENT)
        .env("WINIMG_LOG", "trace")
        .env("http_proxy", proxy.url())
        .env("https_proxy", proxy.url())
        .stdin(Stdio::null())
        .stdout(file("stdout"))
        .stderr(file("stderr"))
        .spawn()
        .expect("winimg starts");
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(status) = child.try_wait().expect("winimg can be waited for") {
            return status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            panic!("winimg did not end within {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Where secrets are, after a build that ended as it should.
fn leaks(name: &str, log: &str, steps: &str, ends_well: bool) -> Vec<String> {
    assert!(
        root().join("target/standin/standin.iso").exists(),
        "no stand-in installer: run `make standin`"
    );
    let dir = tempfile::tempdir_in(root().join("target")).expect("a directory");
    fs::write(dir.path().join("recipe.toml"), recipe(steps)).expect("the recipe");
    let proxy = Proxy::start("200 OK", TOOL.to_vec());
    let sampler = Sampler::start();
    let status = build(dir.path(), log, &proxy);
    let lines = sampler.end();
    let said = fs::read_to_string(dir.path().join("stderr")).expect("what was said");
    assert_eq!(status.success(), ends_well, "{name}: {said}");
    let asked = proxy.asked.lock().expect("the log").join("\n");
    assert!(
        asked.contains(TOKEN),
        "the signed URL was not asked for: {asked}"
    );
    assert!(
        lines
            .iter()
            .any(|l| l.starts_with(b"qemu-system") || l.windows(12).any(|w| w == b"/qemu-system")),
        "no QEMU was seen"
    );
    let search = Search::default();
    let mut found = search.below(dir.path(), &["recipe.toml"]);
    for line in &lines {
        let shown = String::from_utf8_lossy(line).replace('\0', " ");
        let said = search.in_bytes(line).into_iter();
        found.extend(said.map(|what| format!("the command line {shown}: {what}")));
    }
    found
        .into_iter()
        .map(|what| format!("{name}: {what}"))
        .collect()
}

#[test]
#[ignore = "boots QEMU: make end-to-end"]
fn no_secret_is_shown_or_left() {
    let fails = "[[steps]]\nname = \"fails\"\ncmd = \"exit /b 7\"\n\n";
    let mut found = leaks("a good build", "text", "", true);
    found.extend(leaks("a failed build", "json", fails, false));
    assert_eq!(found, Vec::<String>::new());
}
