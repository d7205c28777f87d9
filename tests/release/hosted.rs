//! What a job on a hosted runner begins with: `tests/hosted`, and the packages of a proof. Programs that would change this machine are stand-ins.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::tree::root;
use winimg_base::digest::Digest;

use super::{before_path, printed, said, started, text};

/// A bare container: root, an apt that installs nothing, and sources of Rust and Go that are stand-ins.
struct Container {
    folder: tempfile::TempDir,
    path: String,
}

/// Leaves a rustup that says what it is asked.
const RUSTUP_INIT: &str = "#!/bin/sh\n\
    echo \"$@\" >\"$HOME/rustup-init\"\n\
    mkdir -p \"$HOME/.cargo/bin\"\n\
    printf '#!/bin/sh\\necho \"$@\" >>\"$HOME/rustup\"\\n' >\"$HOME/.cargo/bin/rustup\"\n\
    chmod +x \"$HOME/.cargo/bin/rustup\"\n";

impl Container {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        before_path(folder.path(), "id", "#!/bin/sh\necho 0\n");
        let apt = "#!/bin/sh\necho \"$@\" >>\"$HOME/apt\"\n";
        let path = before_path(folder.path(), "apt-get", apt);
        let container = Self { folder, path };
        fs::write(container.at("rustup-init-source"), RUSTUP_INIT).expect("a program");
        let go = container.at("golang.org/toolchain@v1");
        for name in ["bin/go", "pkg/tool/linux_amd64/compile"] {
            let file = go.join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("folders");
            fs::write(file, "#!/bin/sh\necho go version go1\n").expect("a program");
        }
        let zip = Command::new("python3")
            .args(["-m", "zipfile", "-c", "go.zip", "golang.org"])
            .current_dir(container.folder.path())
            .status();
        assert!(zip.expect("python3").success());
        container
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).expect("a file")
    }

    /// `debian.sh` with a list that says these digests.
    fn equip(&self, rustup: &str, go: &str) -> Output {
        let of = |name: &str| format!("file://{}", self.at(name).display());
        let list = format!(
            "rustup-init {rustup} {}\ngo {go} {}\n",
            of("rustup-init-source"),
            of("go.zip")
        );
        let tools = self.at("tools.txt");
        fs::write(&tools, list).expect("a list");
        let (paths, system) = (self.at("paths"), self.at("gitconfig"));
        let environment = [
            ("PATH", self.path.as_str()),
            ("HOME", text(self.folder.path())),
            ("TOOLS", text(&tools)),
            ("GITHUB_PATH", text(&paths)),
            ("GIT_CONFIG_SYSTEM", text(&system)),
        ];
        started(&hosted("debian.sh"), &[], &environment)
    }
}

fn hosted(name: &str) -> PathBuf {
    root().join("tests/hosted").join(name)
}

fn digest(file: &Path) -> String {
    Digest::sha256_of(&fs::read(file).expect("it")).hex()
}

#[test]
fn a_bare_container_gets_compilers_of_known_digests() {
    let container = Container::new();
    let rustup = digest(&container.at("rustup-init-source"));
    printed(&container.equip(&rustup, &digest(&container.at("go.zip"))));
    let apt = container.read("apt");
    for package in [" build-essential ", " git ", " python3-venv "] {
        assert!(apt.contains(package), "{apt}");
    }
    // The compiler that the crates promise, whatever rust-toolchain.toml says.
    let oldest = env!("CARGO_PKG_RUST_VERSION");
    let asked = container.read("rustup-init");
    let version = format!("--default-toolchain {oldest} --component clippy --component rustfmt");
    assert!(asked.contains(&version), "{asked}");
    let tree = text(root());
    assert_eq!(
        container.read("rustup"),
        format!("override set {oldest} --path {tree}\n")
    );
    assert!(container.read("gitconfig").contains(tree));
    let paths = container.read("paths");
    let paths: Vec<&str> = paths.lines().collect();
    assert_eq!(
        paths,
        [
            text(&container.at(".cargo/bin")),
            text(&container.at(".local/go/bin"))
        ]
    );
    let go = Command::new(Path::new(paths[1]).join("go")).output();
    assert_eq!(printed(&go.expect("go")), "go version go1\n");
}

#[test]
fn a_compiler_that_is_another_file_is_refused() {
    let container = Container::new();
    let refused = container.equip(&"00".repeat(32), &digest(&container.at("go.zip")));
    assert_eq!(refused.status.code(), Some(1));
    let source = container.at("rustup-init-source");
    assert_eq!(
        said(&refused),
        format!(
            "error: file://{} is another file\n  expected: sha256:{}\n  found: sha256:{}\n",
            source.display(),
            "00".repeat(32),
            digest(&source)
        )
    );
    assert!(!container.at("rustup-init").exists() && !container.at("paths").exists());
}

#[test]
fn tools_are_pinned_by_digest_and_fetched_by_https() {
    let list = fs::read_to_string(hosted("tools.txt")).expect("the list");
    let line = regex::Regex::new("^(rustup-init|go) [0-9a-f]{64} https://[^ ]+$").expect("it");
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let lines: Vec<&str> = lines.collect();
    assert!(
        lines.len() == 2 && lines.iter().all(|l| line.is_match(l)),
        "{lines:?}"
    );
}

#[test]
fn room_is_made_on_a_hosted_runner_and_nowhere_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let sdk = folder.path().join("usr/local/lib/android/sdk");
    let other = folder.path().join("usr/local/bin");
    for folder in [&sdk, &other] {
        fs::create_dir_all(folder).expect("folders");
    }
    let variables = folder.path().join("variables");
    let run = |kind: &str, second: &str| {
        let environment = [
            ("RUNNER_ENVIRONMENT", kind),
            ("GITHUB_ENV", text(&variables)),
            ("SECOND", second),
        ];
        printed(&started(
            &hosted("room.sh"),
            &[text(folder.path())],
            &environment,
        ))
    };
    let kept = run("self-hosted", "/nonexistent");
    assert_eq!(kept, "this is no hosted runner: nothing is removed\n");
    assert!(sdk.exists());

    let log = run("github-hosted", "/nonexistent");
    assert!(log.starts_with("removed /usr/local/lib/android\n"), "{log}");
    assert!(!sdk.exists() && other.exists());
    assert!(!variables.exists(), "there is no second disk");

    // Another file system, as a second disk is.
    let second = tempfile::tempdir_in("/dev/shm").expect("a folder");
    run("github-hosted", text(second.path()));
    let cache = second.path().join("winimg-cache");
    assert!(cache.is_dir());
    let written = fs::read_to_string(&variables).expect("variables");
    assert_eq!(written, format!("WINIMG_CACHE_DIR={}\n", cache.display()));
}

/// The short list has no package that Ubuntu lacks, and needs no apt.
#[test]
fn a_proof_names_what_it_needs_where_there_is_no_apt() {
    let folder = tempfile::tempdir().expect("a folder");
    for program in ["bash", "dirname"] {
        let link = folder.path().join(program);
        std::os::unix::fs::symlink(Path::new("/usr/bin").join(program), link).expect("a link");
    }
    let install = root().join("tests/install-packages.sh");
    let environment = [("PATH", text(folder.path()))];
    assert_eq!(
        printed(&started(&install, &["prove"], &environment)),
        "no apt: install what is missing of qemu-system-x86 qemu-utils gcc libc6-dev make ovmf swtpm tesseract-ocr, \
         by the names that this system has for them\n"
    );
}
