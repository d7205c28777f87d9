//! Overlays over layers: read as QEMU reads them, and only where the files below them are the caller's own.

use std::fs;
use std::path::{Path, PathBuf};

use winimg::export::{ExportedArtifact, export};
use winimg_base::event::Cancel;
use winimg_formats::disk::DiskImage;
use winimg_recipe::{OutputFormat, Outputs};

use support::media::convert;

use crate::export::fixture::{Heard, MIB, disk, everything, files, guest, job, path, sh};

/// A folder as the store lays layers out: `NAME/disk.qcow2`.
pub struct Layers(tempfile::TempDir);

impl Layers {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    pub fn disk(&self, name: &str) -> PathBuf {
        self.folder().join(name).join("disk.qcow2")
    }

    /// The layer `name`, which stands alone: a small sealed disk.
    pub fn first(&self, name: &str, mib: u64) -> PathBuf {
        let folder = self.folder().join(name);
        fs::create_dir(&folder).unwrap();
        let file = self.disk(name);
        fs::rename(disk(&folder, mib), &file).unwrap();
        file
    }

    /// An overlay over `parent`, with what the `qemu-io` commands write.
    pub fn over(&self, parent: &str, name: &str, size: &str, writes: &[&str]) -> PathBuf {
        fs::create_dir(self.folder().join(name)).unwrap();
        let file = self.disk(name);
        overlay(&file, &format!("../{parent}/disk.qcow2"), size);
        for write in writes {
            sh("qemu-io", &["-f", "qcow2", "-c", write, path(&file)]);
        }
        file
    }
}

fn overlay(file: &Path, backing: &str, size: &str) {
    let options = ["create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", backing];
    sh(
        "qemu-img",
        &[&options[..], &[path(file), size][..]].concat(),
    );
}

/// Writes hidden, clusters covered in part, zeros over data, zeros over nothing, and a disk that grew.
pub fn three(layers: &Layers) -> PathBuf {
    layers.first("aa", 40);
    layers.over(
        "aa",
        "bb",
        "40M",
        &[
            "write -P 0x11 3M 1M",
            "write -P 0x12 20M 64k",
            "write -z 4M 512k",
        ],
    );
    layers.over(
        "bb",
        ".new-1",
        "64M",
        &[
            "write -P 0x21 3584k 200k",
            "write -P 0x22 7831552 1024",
            "write -z -u 20M 64k",
            "write -z 30M 1M",
            "write -P 0x23 63M 1M",
        ],
    )
}

/// The disk's content by QEMU.
fn flat(file: &Path) -> Vec<u8> {
    let raw = file.with_extension("raw");
    convert(&["-f", "qcow2", "-O", "raw"], file, &raw);
    let bytes = fs::read(&raw).unwrap();
    fs::remove_file(raw).unwrap();
    bytes
}

#[test]
fn an_overlay_is_read_as_qemu_reads_it() {
    let layers = Layers::new();
    let top = three(&layers);
    let expected = flat(&top);
    let disk = DiskImage::with_layers(&top, layers.folder())
        .open(&Cancel::default())
        .unwrap();
    assert_eq!(disk.len(), 64 * MIB);
    let mut bytes = vec![9; expected.len()];
    disk.read_at(0, &mut bytes).unwrap();
    assert!(bytes == expected, "read in one piece");
    for (offset, len) in [(3 * MIB - 5, 700_000), (7_831_000, 3000), (40 * MIB - 1, 2)] {
        let mut part = vec![9; len];
        disk.read_at(offset, &mut part).unwrap();
        assert!(
            part == expected[offset as usize..offset as usize + len],
            "at {offset}"
        );
    }
    assert!(disk.read_at(64 * MIB - 1, &mut [0; 2]).is_err());
}

#[test]
fn what_may_hold_something_is_what_no_layer_above_hides() {
    let layers = Layers::new();
    let top = three(&layers);
    let disk = DiskImage::with_layers(&top, layers.folder())
        .open(&Cancel::default())
        .unwrap();
    let data = disk.data().unwrap();
    let expected = flat(&top);
    let within = |at: u64| data.iter().any(|r| r.contains(&at));
    for (cluster, bytes) in expected.chunks(65_536).enumerate() {
        let zero = bytes.iter().all(|b| *b == 0);
        assert!(
            zero || within(cluster as u64 * 65_536),
            "cluster {cluster} has data and is left out"
        );
    }
    for (at, why) in [
        (4 * MIB, "zeros of the layer in between hide the first"),
        (20 * MIB, "zeros of the overlay hide the layer in between"),
        (30 * MIB, "zeros over nothing"),
        (50 * MIB, "beyond the end of the layer below"),
    ] {
        assert!(!within(at), "{why}: {data:?}");
    }
    for pair in data.windows(2) {
        assert!(pair[0].end < pair[1].start, "{pair:?} not apart");
    }
}

#[test]
fn a_raw_file_below_is_read_too() {
    let layers = Layers::new();
    let raw = layers.folder().join("base.raw");
    fs::write(&raw, vec![5; 3 << 20]).unwrap();
    let top = layers.folder().join("top.qcow2");
    let options = ["create", "-q", "-f", "qcow2", "-F", "raw", "-b", path(&raw)];
    sh(
        "qemu-img",
        &[&options[..], &[path(&top), "4M"][..]].concat(),
    );
    sh(
        "qemu-io",
        &["-f", "qcow2", "-c", "write -P 6 1M 64k", path(&top)],
    );
    let disk = DiskImage::with_layers(&top, layers.folder())
        .open(&Cancel::default())
        .unwrap();
    let mut bytes = vec![9; 4 << 20];
    disk.read_at(0, &mut bytes).unwrap();
    assert!(bytes == flat(&top));
}

/// What is said when `top` is opened, without the folders' names.
fn refusal(top: DiskImage<'_>, layers: &Layers) -> String {
    let error = top.open(&Cancel::default()).err().expect("refused");
    let folder = fs::canonicalize(layers.folder()).unwrap();
    error.to_string().replace(path(&folder), "LAYERS")
}

/// Changes the backing file's name, and its format, in the header of an overlay. Nothing is opened.
fn rebase(file: &Path, backing: &str, format: &str) {
    sh(
        "qemu-img",
        &[
            "rebase",
            "-q",
            "-u",
            "-f",
            "qcow2",
            "-F",
            format,
            "-b",
            backing,
            path(file),
        ],
    );
}

#[test]
fn an_overlay_from_elsewhere_is_refused_by_name() {
    let layers = Layers::new();
    let top = three(&layers);
    let text = refusal(DiskImage::from_file(&top), &layers);
    assert_eq!(
        text,
        "LAYERS/.new-1/disk.qcow2 is an overlay over ../bb/disk.qcow2\n  \
         expected: an image without a backing file, which could be any file of this machine\n  \
         cure: if you trust it, flatten it first: qemu-img convert -f qcow2 -O qcow2 LAYERS/.new-1/disk.qcow2 flat.qcow2"
    );
    assert!(DiskImage::from_file(&top).open(&Cancel::default()).is_err());
}

#[test]
fn only_plain_files_below_the_folder_are_followed() {
    let layers = Layers::new();
    let top = three(&layers);
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, vec![7; 1 << 20]).unwrap();
    std::os::unix::fs::symlink(&secret, layers.folder().join("link")).unwrap();
    nix::unistd::mkfifo(&layers.folder().join("pipe"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    let mut rendered = String::new();
    for (backing, format) in [
        (path(&secret), "raw"),
        ("../link", "raw"),
        ("../pipe", "raw"),
        ("../bb", "raw"),
        ("../../../../../../../../etc/passwd", "raw"),
        ("../missing/disk.qcow2", "qcow2"),
        ("nbd://localhost/disk", "raw"),
        (r#"json:{"driver":"null-co"}"#, "raw"),
        ("file:../bb/disk.qcow2", "qcow2"),
        ("../bb/disk.qcow2", "vmdk"),
    ] {
        rebase(&top, backing, format);
        rendered += &refusal(DiskImage::with_layers(&top, layers.folder()), &layers);
        rendered += "\n";
    }
    let rendered = rendered.replace(path(outside.path()), "OUTSIDE");
    insta::assert_snapshot!(rendered);
}

#[test]
fn a_format_that_is_not_stated_is_not_guessed() {
    let layers = Layers::new();
    let top = three(&layers);
    // The extension with the backing file's format made one that no reader knows (QEMU: docs/interop/qcow2).
    let mut bytes = fs::read(&top).unwrap();
    let magic = [0xE2, 0x79, 0x2A, 0xCA];
    let at = bytes.windows(4).position(|w| w == magic).unwrap();
    bytes[at..at + 4].copy_from_slice(&[0x77; 4]);
    fs::write(&top, bytes).unwrap();
    assert_eq!(
        refusal(DiskImage::with_layers(&top, layers.folder()), &layers),
        "the backing file \"../bb/disk.qcow2\" is refused\n  at: LAYERS/.new-1/disk.qcow2\n  \
         expected: qcow2 or raw as the format of the backing file\n  found: no format in the header\n  \
         cure: state the format when creating the overlay: qemu-img create -F qcow2"
    );
}

#[test]
fn a_chain_has_an_end_and_is_not_too_deep() {
    let layers = Layers::new();
    let top = three(&layers);
    rebase(&layers.disk("aa"), "../bb/disk.qcow2", "qcow2");
    assert_eq!(
        refusal(DiskImage::with_layers(&top, layers.folder()), &layers),
        "the backing file \"../bb/disk.qcow2\" is refused\n  at: LAYERS/aa/disk.qcow2\n  \
         expected: a chain without cycles\n  found: a file that is already in the chain"
    );

    let layers = Layers::new();
    layers.first("0", 40);
    for i in 1..64 {
        layers.over(&(i - 1).to_string(), &i.to_string(), "40M", &[]);
    }
    let deepest = layers.disk("63");
    let disk = DiskImage::with_layers(&deepest, layers.folder())
        .open(&Cancel::default())
        .unwrap();
    let mut bytes = vec![9; 40 << 20];
    disk.read_at(0, &mut bytes).unwrap();
    assert!(bytes == flat(&layers.disk("0")), "64 files");
    let deeper = layers.over("63", "64", "40M", &[]);
    assert_eq!(
        refusal(DiskImage::with_layers(&deeper, layers.folder()), &layers),
        "the backing file \"../0/disk.qcow2\" is refused\n  at: LAYERS/1/disk.qcow2\n  \
         expected: at most 64 files in a chain\n  found: more\n  \
         cure: flatten it: qemu-img convert -f qcow2 -O qcow2 LAYERS/64/disk.qcow2 flat.qcow2"
    );
}

/// Exports everything; the folder must outlive the artifacts.
fn exported(source: DiskImage<'_>, out: &Path) -> Vec<ExportedArtifact> {
    let (guest, outputs) = (guest(), everything());
    let mut job = job(source.file, out, &outputs, &guest);
    job.source = source;
    export(&job, &Heard::default(), &Cancel::default()).unwrap()
}

#[test]
fn an_overlays_artifacts_are_those_of_its_flat_twin() {
    let layers = Layers::new();
    let top = three(&layers);
    let folder = tempfile::tempdir().unwrap();
    let twin = folder.path().join("twin.qcow2");
    convert(&["-f", "qcow2", "-O", "qcow2"], &top, &twin);
    let before = fs::read(layers.disk("bb")).unwrap();
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let of_overlay = exported(DiskImage::with_layers(&top, layers.folder()), one.path());
    let of_twin = exported(DiskImage::from_file(&twin), other.path());
    assert_eq!(of_overlay, of_twin);
    assert!(!of_overlay.is_empty());
    for name in files(one.path()) {
        let both = [one.path(), other.path()].map(|d| fs::read(d.join(&name)).unwrap());
        assert!(both[0] == both[1], "{name} differs");
    }
    assert!(
        fs::read(layers.disk("bb")).unwrap() == before,
        "a layer changed"
    );

    drop(layers);
    let qcow2 = one.path().join("demo.qcow2");
    let info = sh("qemu-img", &["info", "--output=json", path(&qcow2)]);
    assert!(!info.contains("backing"), "{info}");
    sh("qemu-img", &["check", "-q", path(&qcow2)]);
    let compare = ["compare", "-q", "-f", "qcow2", "-F", "qcow2"];
    sh(
        "qemu-img",
        &[&compare[..], &[path(&qcow2), path(&twin)][..]].concat(),
    );
}

#[test]
fn an_overlay_over_a_compressed_layer_is_flattened_first() {
    let layers = Layers::new();
    let top = three(&layers);
    let expected = flat(&top);
    let first = layers.disk("aa");
    let packed = first.with_extension("packed");
    convert(&["-c", "-O", "qcow2"], &first, &packed);
    fs::rename(&packed, &first).unwrap();
    assert_eq!(
        refusal(DiskImage::with_layers(&top, layers.folder()), &layers),
        "LAYERS/.new-1/disk.qcow2 has compressed clusters, so it can't be read in place\n  \
         cure: flatten it first: qemu-img convert -O qcow2 LAYERS/.new-1/disk.qcow2 flat.qcow2"
    );
    let out = tempfile::tempdir().unwrap();
    exported(DiskImage::with_layers(&top, layers.folder()), out.path());
    assert!(fs::read(out.path().join("demo.raw")).unwrap() == expected);
    assert!(!files(out.path()).iter().any(|f| f.contains("flattened")));
}

#[test]
fn an_image_from_elsewhere_that_names_files_is_not_exported() {
    let layers = Layers::new();
    let top = three(&layers);
    let data = layers.folder().join("split.qcow2");
    let options = format!("data_file={}", path(&layers.folder().join("data")));
    let create = ["create", "-q", "-f", "qcow2", "-o", &options];
    sh(
        "qemu-img",
        &[&create[..], &[path(&data), "4M"][..]].concat(),
    );
    let (guest, outputs) = (guest(), Outputs::from([OutputFormat::Raw]));
    let folder = fs::canonicalize(layers.folder()).unwrap();
    let mut rendered = String::new();
    for source in [&top, &data] {
        let out = tempfile::tempdir().unwrap();
        let job = job(source, out.path(), &outputs, &guest);
        let error = export(&job, &Heard::default(), &Cancel::default()).unwrap_err();
        rendered += &format!("{error}\n").replace(path(&folder), "LAYERS");
        assert_eq!(files(out.path()), [""; 0]);
    }
    insta::assert_snapshot!(rendered);
}
