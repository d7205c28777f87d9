//! A stand-in on a temporary directory, for tests.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::windows::{Config, ImageFacts, Power, RealPrograms, Windows, create_image};

pub struct Guest {
    pub dir: tempfile::TempDir,
    pub windows: std::sync::Arc<Windows>,
}

pub fn facts() -> ImageFacts {
    ImageFacts {
        product_name: "Windows Server 2022 Datacenter".into(),
        edition_id: "ServerDatacenter".into(),
        installation_type: "Server Core".into(),
        build: 20348,
        revision: 587,
        release: "21H2".into(),
    }
}

impl Guest {
    /// C: freshly applied and set up, D: an empty CD.
    pub fn new() -> Guest {
        Guest::of(&facts())
    }

    /// The same, on which these real programs were recorded.
    pub fn with_programs(table: &str) -> Guest {
        let mut guest = Guest::new();
        let programs = RealPrograms::parse(table).unwrap();
        let windows = Guest::open(guest.dir.path().to_owned(), programs);
        guest.windows = std::sync::Arc::new(windows);
        guest
    }

    pub fn of(facts: &ImageFacts) -> Guest {
        let dir = tempfile::tempdir().unwrap();
        create_image(&dir.path().join("c"), facts).unwrap();
        std::fs::create_dir(dir.path().join("d")).unwrap();
        let windows = Guest::open(dir.path().to_owned(), RealPrograms::default());
        windows.set_image_state("IMAGE_STATE_COMPLETE").unwrap();
        Guest {
            windows: std::sync::Arc::new(windows),
            dir,
        }
    }

    fn open(dir: PathBuf, programs: RealPrograms) -> Windows {
        let drives = vec![('D', dir.join("d"))];
        Windows::open(Config {
            c_root: dir.join("c"),
            drives,
            computer_name: "NODE1".into(),
            labels: vec![('D', "config-2".into())],
            programs,
            ..Config::default()
        })
        .unwrap()
    }

    pub fn reboot(&mut self) {
        self.windows.flush().unwrap();
        let dir = self.dir.path().to_owned();
        self.windows = std::sync::Arc::new(Guest::open(dir, RealPrograms::default()));
    }

    pub fn run(&self, line: &str) -> (u32, String) {
        let mut out = Vec::new();
        let code = self.windows.run(line, &mut out);
        (code, String::from_utf8_lossy(&out).replace("\r\n", "\n"))
    }

    /// Runs a batch file of these lines; its exit code and output.
    pub fn batch(&self, text: &str) -> (u32, String) {
        self.put(r"C:\t.cmd", text.replace('\n', "\r\n").as_bytes());
        self.run(r"cmd.exe /d /c C:\t.cmd")
    }

    /// The reboot or shutdown that was asked for, once it is due.
    pub fn power(&self) -> Option<Power> {
        let asked = crate::windows::lock(&self.windows.machine.power).is_some();
        let deadline = Instant::now() + Duration::from_secs(20);
        while asked && Instant::now() < deadline {
            if let Some(power) = self.windows.power_request() {
                return Some(power);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    pub fn host(&self, path: &str) -> PathBuf {
        let (drive, rest) = path.split_once(":\\").unwrap();
        self.dir
            .path()
            .join(drive.to_lowercase())
            .join(rest.replace('\\', "/"))
    }

    pub fn put(&self, path: &str, bytes: &[u8]) {
        let host = self.host(path);
        std::fs::create_dir_all(host.parent().unwrap()).unwrap();
        std::fs::write(host, bytes).unwrap();
    }

    pub fn get(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.host(path)).unwrap()
    }

    pub fn text(&self, path: &str) -> String {
        String::from_utf8(self.get(path))
            .unwrap()
            .replace("\r\n", "\n")
    }
}
