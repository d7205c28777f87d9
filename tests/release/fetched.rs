//! `action.yml`'s script: it takes the release that was asked for, proves it, and puts winimg into PATH.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::tree::{program, root};
use winimg_base::digest::Digest;

use super::{before_path, printed, script, text, version};

/// Copies what the patterns name from `$GH_RELEASE`, as `gh release download` does.
const GH: &str = r#"#!/bin/bash
set -eu
[ "$1 $2 $4 $5 $6 $8 $9" = "release download --repo example/winimg --dir --clobber --pattern" ] || { echo "unknown command: $*" >&2; exit 1; }
[ "$3" = "$(cat "$GH_RELEASE/tag")" ] || { echo "release not found" >&2; exit 1; }
cp "$GH_RELEASE/${10}" "$7/"
cp "$GH_RELEASE"/SHA256SUMS* "$7/"
"#;

struct Runner {
    folder: tempfile::TempDir,
    path: String,
}

impl Runner {
    /// A runner, and a release of this tree's program.
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = before_path(folder.path(), "gh", GH);
        let runner = Self { folder, path };
        let name = format!("winimg-{}-x86_64-linux", version());
        let inside = runner.at("made").join(&name);
        fs::create_dir_all(&inside).expect("a folder");
        let winimg = format!("#!/bin/sh\nexec {} \"$@\"\n", program("winimg").display());
        before_path(&inside, "winimg", &winimg);
        let release = runner.at("release");
        fs::create_dir(&release).expect("a folder");
        let archive = release.join(format!("{name}.tar.gz"));
        let made = runner.at("made");
        let tar = Command::new("tar")
            .args(["-C", text(&made), "-czf", text(&archive), &name])
            .status();
        assert!(tar.expect("tar").success());
        runner.sums(&archive);
        fs::write(release.join("tag"), format!("v{}\n", version())).expect("a tag");
        runner
    }

    fn sums(&self, archive: &Path) {
        let digest = Digest::sha256_of(&fs::read(archive).expect("it")).hex();
        let name = archive
            .file_name()
            .expect("a name")
            .to_str()
            .expect("UTF-8");
        fs::write(self.at("release/SHA256SUMS"), format!("{digest}  {name}\n")).expect("sums");
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn install(&self, version: &str, more: &[(&str, &str)]) -> Output {
        let (release, temp) = (self.at("release"), self.at("temp"));
        let (paths, outputs) = (self.at("paths"), self.at("outputs"));
        let mut environment = vec![
            ("PATH", self.path.as_str()),
            ("GH_RELEASE", text(&release)),
            ("REPOSITORY", "example/winimg"),
            ("VERSION", version),
            ("RUNNER_TEMP", text(&temp)),
            ("GITHUB_PATH", text(&paths)),
            ("GITHUB_OUTPUT", text(&outputs)),
        ];
        environment.extend(more);
        script("action.sh", &[], &environment)
    }

    /// What the log says, and whether anything came into PATH.
    fn refuses(&self, version: &str, more: &[(&str, &str)]) -> String {
        let output = self.install(version, more);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            !self.at("paths").exists(),
            "a program that was refused is in PATH"
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

#[test]
fn the_release_is_proved_and_its_program_found() {
    let runner = Runner::new();
    let tag = format!("v{}", version());
    // A runner without cosign says what was not judged.
    let log = printed(&runner.install(&tag, &[]));
    if !log.is_empty() {
        assert_eq!(
            log,
            "cosign is not there: the signature of SHA256SUMS was not judged\n"
        );
    }
    let paths = fs::read_to_string(runner.at("paths")).expect("a path");
    let winimg = Path::new(paths.trim()).join("winimg");
    let said = Command::new(winimg)
        .arg("--version")
        .output()
        .expect("winimg");
    assert_eq!(printed(&said), format!("winimg {}\n", version()));
    let outputs = fs::read_to_string(runner.at("outputs")).expect("an output");
    assert_eq!(outputs, format!("version=winimg {}\n", version()));
}

#[test]
fn what_is_no_release_or_not_its_file_is_refused() {
    let runner = Runner::new();
    let tag = format!("v{}", version());
    let mut log = runner.refuses("main", &[]);
    log += &runner.refuses(&tag, &[("RUNNER_OS", "macOS"), ("RUNNER_ARCH", "ARM64")]);
    let archive = runner.at(&format!("release/winimg-{}-x86_64-linux.tar.gz", version()));
    let good = fs::read(&archive).expect("it");
    fs::write(&archive, [&good[..], b"more"].concat()).expect("it");
    log += &runner.refuses(&tag, &[]);
    fs::write(runner.at("release/SHA256SUMS"), "").expect("sums");
    log += &runner.refuses(&tag, &[]);
    insta::assert_snapshot!(log.replace(version(), "[version]"), @"
    ::error::main is no release of winimg
      cure: use the action by a tag such as v[version], or give it 'version'
    ::error::no binary of winimg is made for macOS on ARM64
      cure: take a runner with Linux or Windows
    winimg-[version]-x86_64-linux.tar.gz: FAILED
    ::error::winimg-[version]-x86_64-linux.tar.gz is not the file that SHA256SUMS lists
      cure: do not use it; report it
    ::error::SHA256SUMS of v[version] does not list winimg-[version]-x86_64-linux.tar.gz
      cure: take another release
    ");
}

/// Where cosign is there, a signature by anybody else is refused.
#[test]
fn a_signature_by_another_is_refused() {
    let runner = Runner::new();
    let cosign = "#!/bin/sh\necho \"$@\" >\"$RUNNER_TEMP/cosign\"\nexit 1\n";
    before_path(runner.folder.path(), "cosign", cosign);
    let tag = format!("v{}", version());
    let log = runner.refuses(&tag, &[]);
    assert!(
        log.contains("was not signed by example/winimg's release workflow"),
        "{log}"
    );
    let asked = fs::read_to_string(runner.at("temp/cosign")).expect("a call");
    let identity =
        format!("https://github.com/example/winimg/.github/workflows/release.yml@refs/tags/{tag}");
    assert!(asked.contains(&identity), "{asked}");
}

#[test]
fn a_runner_without_gh_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    // Bash, and no other program.
    std::os::unix::fs::symlink("/bin/bash", folder.path().join("bash")).expect("a link");
    let environment = [
        ("PATH", text(folder.path())),
        ("REPOSITORY", "example/winimg"),
        ("VERSION", "v0.1.0"),
        ("RUNNER_TEMP", "/nonexistent"),
        ("GITHUB_PATH", "/nonexistent/paths"),
        ("GITHUB_OUTPUT", "/nonexistent/outputs"),
    ];
    let output = script("action.sh", &[], &environment);
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stdout), @"
    ::error::there is no gh, by which a release is fetched, of a private repository too
      cure: install GitHub's CLI on the runner; hosted runners have it
    ");
}

/// What a build needs is installed, and KVM's device opened, by a user who may do neither without sudo.
#[test]
fn host_packages_brings_qemu_and_opens_kvm() {
    let runner = Runner::new();
    let folder = runner.folder.path();
    before_path(folder, "id", "#!/bin/sh\necho 1000\n");
    let sudo = "#!/bin/sh\necho \"$*\" >>\"$RUNNER_TEMP/sudo\"\n";
    before_path(folder, "sudo", sudo);
    let tag = format!("v{}", version());
    // A file that not even root may write.
    let kvm = "/proc/sys/kernel/osrelease";
    let of = |device| [("HOST_PACKAGES", "true"), ("DEVICE", device)];
    printed(&runner.install(&tag, &of(kvm)));
    let asked = fs::read_to_string(runner.at("temp/sudo")).expect("calls");
    let asked: Vec<&str> = asked.lines().collect();
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert_eq!(asked[0], "apt-get update -q");
    for package in ["qemu-system-x86", "qemu-utils", "ovmf", "swtpm"] {
        assert!(asked[1].contains(package), "{asked:?}");
    }
    assert_eq!(asked[2], format!("chmod 0666 {kvm}"));

    let log = printed(&runner.install(&tag, &of("/nonexistent/kvm")));
    let warning = "::warning::this runner has no KVM: a Windows takes many hours\n";
    assert!(log.contains(warning), "{log}");
}

#[test]
fn the_action_runs_that_script_with_every_variable_that_it_reads() {
    let action = fs::read_to_string(root().join("action.yml")).expect("the action");
    let script = fs::read_to_string(root().join("release/action.sh")).expect("the script");
    for name in ["REPOSITORY", "VERSION", "HOST_PACKAGES"] {
        assert!(action.contains(&format!("        {name}: ${{{{")), "{name}");
        assert!(script.contains(&format!("{{{name}:")), "{name}");
    }
}
