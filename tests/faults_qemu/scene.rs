//! Where a case plays: a cache that holds the installation, a recipe with steps of its own, an output directory in which an
//! earlier build's files lie. And what has to hold afterwards, whatever was done.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::end_to_end::program::{Build, is};
use support::tree::root;

/// Much longer than anything takes on a machine without virtualisation.
pub const LIMIT: Duration = Duration::from_secs(20 * 60);

/// What an earlier build left in the output directory, for all that a failing one knows.
const EARLIER: [(&str, &str); 2] = [
    ("small.vhd", "an earlier image"),
    (
        "manifest.json",
        r#"{"schema": "winimg/manifest/1", "finished": "earlier", "artifacts": [{"file": "small.vhd"}]}"#,
    ),
];

/// The cache that all cases share: an installation is the dearest part of a build.
pub struct Ground {
    folder: PathBuf,
    pub cache: PathBuf,
}

impl Ground {
    /// Builds the small recipe once, so that its installation is a layer. `FAULTS_KEEP` keeps the folder.
    pub fn prepare() -> Self {
        let folder = root().join("target/faults");
        if std::env::var_os("FAULTS_KEEP").is_none() {
            let _ = fs::remove_dir_all(&folder);
        }
        let cache = folder.join("cache");
        let ground = Self { folder, cache };
        let mut scene = Scene::new(&ground, "first", "");
        let mut build = scene.start(&[]);
        let status = build.end(LIMIT);
        assert!(status.success(), "the first build: {}", build.error());
        scene.left.clear();
        ground
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if std::env::var_os("FAULTS_KEEP").is_none() && !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

pub struct Scene {
    pub folder: PathBuf,
    pub cache: PathBuf,
    /// Working directories of builds that were killed.
    left: Vec<PathBuf>,
}

impl Scene {
    /// `steps` stand after those of the small recipe. No earlier run's layers hold them: one value is this run's own.
    pub fn new(ground: &Ground, slug: &str, steps: &str) -> Self {
        let folder = ground.folder.join(slug);
        let _ = fs::remove_dir_all(&folder);
        let mut scene = Self {
            folder,
            cache: ground.cache.clone(),
            left: Vec::new(),
        };
        scene.furnish(slug, steps);
        scene
    }

    /// The same with folder and cache below `to`, which is another file system.
    pub fn move_to(&mut self, to: &Path, slug: &str, steps: &str) {
        let cache = to.join("cache");
        let copied = std::process::Command::new("cp")
            .args(["-a", "--sparse=always"])
            .args([&self.cache, &cache])
            .status();
        assert!(copied.is_ok_and(|s| s.success()), "the cache is copied");
        self.cache = cache;
        self.folder = to.join("case");
        self.furnish(slug, steps);
    }

    fn furnish(&mut self, slug: &str, steps: &str) {
        let small = root().join("tests/end_to_end/small.toml");
        let small = fs::read_to_string(small).expect("the recipe");
        let standin = root().join("target/standin");
        let own = format!("data = \"{slug} {}\"", std::process::id());
        let recipe = small
            .replace("../../target/standin", standin.to_str().expect("UTF-8"))
            .replace("data = \"gold\"", &own)
            .replace("[outputs]", &format!("{steps}\n[outputs]"));
        assert!(recipe.contains(&own), "the recipe has a value to change");
        fs::create_dir_all(self.output()).expect("a folder");
        fs::write(self.recipe(), recipe).expect("the recipe");
        for (name, text) in EARLIER {
            fs::write(self.output().join(name), text).expect("a file");
        }
    }

    pub fn recipe(&self) -> PathBuf {
        self.folder.join("recipe.toml")
    }

    pub fn output(&self) -> PathBuf {
        self.folder.join("out")
    }

    pub fn start(&self, more: &[&str]) -> Build {
        self.start_with(more, &[])
    }

    pub fn start_with(&self, more: &[&str], environment: &[(&str, &OsStr)]) -> Build {
        let recipe = self.recipe();
        let recipe = recipe.to_str().expect("UTF-8");
        Build::start_where(recipe, &self.output(), &self.cache, more, environment)
    }

    /// The machine of the build, once it is there.
    pub fn qemu(&self) -> Pid {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let ours = running(&[&self.folder, &self.cache]);
            let mut machines = ours.iter().filter(|(_, line)| line.contains("qemu-system"));
            // The boot canary has neither disk nor disc of ours.
            if let (Some((pid, _)), None) = (machines.next(), machines.next()) {
                return *pid;
            }
            assert!(Instant::now() < deadline, "one QEMU runs, not {ours:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// SIGKILL for winimg itself.
    pub fn kill(&mut self, mut build: Build) {
        let pid = Pid::from_raw(i32::try_from(build.child.0.id()).expect("a pid"));
        self.left.extend(locked(pid));
        kill(pid, Signal::SIGKILL).expect("the signal is sent");
        let status = build.end(LIMIT);
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(9),
            "{}",
            build.error()
        );
    }

    /// The build ends with an error that says `words`, and leaves its evidence. The error's first line.
    pub fn fails(&self, mut build: Build, words: &[&str]) -> String {
        let status = self.end(&mut build);
        let error = build.error();
        assert!(!status.success(), "the build ended well");
        assert!(
            words.iter().any(|word| error.contains(word)),
            "none of {words:?} is in\n{error}"
        );
        let page = self.output().join("report.html");
        assert!(page.is_file(), "no {}\n{error}", page.display());
        let failed = build.failed();
        failed["message"].as_str().unwrap_or_default().to_string()
    }

    /// Waits for a build that ends by itself: it takes its working directories with it, and the sockets in them.
    pub fn end(&self, build: &mut Build) -> ExitStatus {
        let pid = Pid::from_raw(i32::try_from(build.child.0.id()).expect("a pid"));
        let deadline = Instant::now() + Duration::from_secs(60);
        // One beside the output, and one for sockets.
        let folders = loop {
            let folders = locked(pid);
            if folders.len() >= 2 {
                break folders;
            }
            assert!(Instant::now() < deadline, "it works only in {folders:?}");
            std::thread::sleep(Duration::from_millis(20));
        };
        let status = build.end(LIMIT);
        let left: Vec<&PathBuf> = folders.iter().filter(|f| f.exists()).collect();
        assert!(left.is_empty(), "left at once: {left:?}");
        status
    }

    /// No process of the build is left, nothing is mounted, and what an earlier one made is as it was.
    pub fn nothing_is_lost_or_running(&self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let left = running(&[&self.folder, &self.cache]);
            if left.is_empty() {
                break;
            }
            assert!(Instant::now() < deadline, "left running: {left:#?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
        for folder in [self.output(), self.cache.clone()] {
            let folder = folder.display().to_string();
            assert!(!mounts.contains(&folder), "mounted: {mounts}");
        }
        for (name, text) in EARLIER {
            // A build that failed has set it aside.
            let places = [self.output().join("earlier"), self.output()];
            let found = places
                .iter()
                .find_map(|p| fs::read_to_string(p.join(name)).ok());
            assert_eq!(found.as_deref(), Some(text), "{name} was changed");
        }
    }

    /// The same build again, undisturbed: it ends well, and nothing of the disturbed one is left. What it went on from.
    pub fn rerun(&self) -> String {
        // Any build of this user removes what lies in the directory for sockets.
        let there: Vec<&PathBuf> = self.left.iter().filter(|f| f.exists()).collect();
        let mut build = self.start(&[]);
        let status = build.end(LIMIT);
        assert!(status.success(), "the rerun: {}", build.error());
        let said = build.said.join("\n");
        for folder in there {
            assert!(!folder.exists(), "{} is left", folder.display());
            let named = format!(
                "removing leftovers of an interrupted build: {}",
                folder.display()
            );
            assert!(said.contains(&named), "not said: {named}\n{said}");
        }
        for folder in [self.output(), self.cache.join("layers")] {
            let hidden =
                |name: &String| name.starts_with(".winimg-work") || name.starts_with(".new-");
            let rest: Vec<String> = names(&folder).into_iter().filter(hidden).collect();
            assert!(rest.is_empty(), "{} holds {rest:?}", folder.display());
        }
        assert!(!self.output().join("failure").exists(), "old evidence");
        let image = self.output().join("small.vhd");
        let size = fs::metadata(&image).map(|m| m.len()).unwrap_or_default();
        assert!(size > 1 << 30, "{} has {size} bytes", image.display());
        went_on_from(&build.said)
    }
}

/// The `resumed` event in words.
pub fn went_on_from(said: &[String]) -> String {
    let events = said.iter().filter_map(|l| serde_json::from_str(l).ok());
    let mut events = events;
    let resumed = events.rfind(|e: &Value| e["event"] == "layer_used");
    match resumed {
        Some(e) if e["parts"] == e["of"] => "everything".into(),
        Some(e) => e["after"].as_str().unwrap_or("?").to_string(),
        None => "nothing".into(),
    }
}

/// A phase began.
pub fn begins(phase: &'static str) -> impl Fn(&Value) -> bool {
    move |event| is(event, "phase_started", "phase", phase)
}

/// The machine shows that it is here.
pub fn shows(words: &'static str) -> impl Fn(&Value) -> bool {
    move |event| {
        let text = event["text"].as_str().unwrap_or_default();
        event["event"] == "progress" && text.contains(words)
    }
}

/// Working directories whose locks a process holds: its own, and nobody else's.
fn locked(pid: Pid) -> Vec<PathBuf> {
    let open = fs::read_dir(format!("/proc/{pid}/fd"));
    let files = open.into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = files
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .filter(|file| file.ends_with("lock"))
        .filter_map(|file| Some(file.parent()?.to_path_buf()))
        .filter(|folder| {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(".winimg-work-") || name.starts_with(".new-")
        })
        .collect();
    folders.sort();
    folders.dedup();
    folders
}

/// Processes whose command line names one of the folders; not the test itself.
fn running(folders: &[&Path]) -> Vec<(Pid, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Ok(number) = entry.file_name().to_string_lossy().parse::<i32>() else {
            continue;
        };
        // A process that ended meanwhile has no command line.
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let ours = folders.iter().any(|f| line.contains(&*f.to_string_lossy()));
        if ours && number != std::process::id().cast_signed() {
            found.push((Pid::from_raw(number), line));
        }
    }
    found
}

/// The names in a folder.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}
