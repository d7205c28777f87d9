//! What the targets stand on: files for entry points that take a path, and large images of which an input changes a few
//! bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tempfile::TempDir;

/// The folder with what `WINIMG_FUZZ=seeds` made.
pub fn made() -> PathBuf {
    match std::env::var_os("WINIMG_FUZZ_MADE") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/fuzz"),
    }
}

/// What a target has to say about an input, when `WINIMG_FUZZ_SAY` is set: for a look at one.
pub fn say(text: impl FnOnce() -> String) {
    static SAY: OnceLock<bool> = OnceLock::new();
    if *SAY.get_or_init(|| std::env::var_os("WINIMG_FUZZ_SAY").is_some()) {
        eprintln!("{}", text());
    }
}

/// A folder of this process; on tmpfs where `TMPDIR` is.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            tempfile::Builder::new()
                .prefix("winimg-fuzz-")
                .tempdir()
                .expect("a folder for temporary files")
        })
        .path()
}

/// Calls `with` on a file of these bytes.
pub fn on_file<T>(bytes: &[u8], with: impl FnOnce(&Path) -> T) -> T {
    let path = folder().join("input");
    fs::write(&path, bytes).expect("a temporary file");
    with(&path)
}

/// A large image, and its bytes that mean something: where neither zeros nor padding stand.
pub struct Base {
    bytes: Vec<u8>,
    busy: Vec<u32>,
}

impl Base {
    /// One that `WINIMG_FUZZ=seeds` made.
    pub fn load(name: &str) -> Self {
        let path = made().join("bases").join(name);
        let bytes = fs::read(&path)
            .unwrap_or_else(|e| panic!("{}: {e}; fuzz/run.sh makes it", path.display()));
        Self::new(bytes)
    }

    pub fn new(bytes: Vec<u8>) -> Self {
        let mut busy = Vec::new();
        for (n, part) in bytes.chunks(16).enumerate() {
            if part.iter().any(|b| ![0, 0xff].contains(b)) {
                let start = (n * 16) as u32;
                busy.extend(start..start + part.len() as u32);
            }
        }
        Self { bytes, busy }
    }

    /// An input's bytes that change these of the image, at most eight; none where nothing begins there that an input changes.
    pub fn change(&self, at: usize, new: &[u8]) -> Option<Vec<u8>> {
        let place = self.busy.iter().position(|busy| *busy as usize == at)?;
        let place = (place as u32).to_le_bytes();
        let count = new.len().checked_sub(1).filter(|count| *count < 8)? as u8;
        Some([&place[..3], &[count], new].concat())
    }

    /// The image with the changes that the input describes: three bytes for the place among the busy ones, one for the
    /// number of bytes (1 to 8; with its top bit, the image ends there), then these.
    pub fn changed(&self, input: &[u8]) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let mut rest = input;
        while let [a, b, c, count, more @ ..] = rest {
            let place = u32::from_le_bytes([*a, *b, *c, 0]) as usize;
            let at = self.busy[place % self.busy.len()] as usize;
            if count & 0x80 != 0 {
                bytes.truncate(at);
                break;
            }
            let count = usize::from(count & 7) + 1;
            let (new, more) = more.split_at(count.min(more.len()));
            for (to, from) in bytes[at..].iter_mut().zip(new) {
                *to = *from;
            }
            rest = more;
        }
        bytes
    }
}

/// The bases of a target; the input's first byte chooses.
pub fn changed(bases: &[Base], input: &[u8]) -> Vec<u8> {
    match input {
        [] => bases[0].changed(&[]),
        [which, rest @ ..] => bases[usize::from(*which) % bases.len()].changed(rest),
    }
}
