//! The files as other programs read them, and as a plain array of bytes says they should be.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;
use crate::at::At as _;

const MIB: usize = 1 << 20;
const SIZE: u64 = 40 << 20;

struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Bench {
        Bench(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A sparse raw file of this content.
    fn raw(&self, name: &str, content: &[u8]) -> File {
        let path = self.path(name);
        let file = File::create(&path).unwrap();
        file.set_len(content.len() as u64).unwrap();
        for (index, piece) in content.chunks(4096).enumerate() {
            if piece.iter().any(|byte| *byte != 0) {
                file.write_all_at(piece, index as u64 * 4096).unwrap();
            }
        }
        File::open(path).unwrap()
    }

    fn absorb(&self, disk: &Path, content: &[u8]) {
        let raw = self.raw("content", content);
        Chain::open_to_write(disk).unwrap().absorb(&raw).unwrap();
    }

    /// The flattened copy's bytes.
    fn flat(&self, disk: &Path) -> Vec<u8> {
        let path = self.path("flat");
        let _ = std::fs::remove_file(&path);
        let file = File::create_new(&path).unwrap();
        Chain::open(disk).unwrap().flatten(&file).unwrap();
        std::fs::read(&path).unwrap()
    }
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{program} {arguments:?}: {text}");
    text
}

fn content() -> Vec<u8> {
    let mut bytes = vec![0; SIZE as usize];
    for (index, byte) in bytes[3 * MIB - 700..3 * MIB + 90_000]
        .iter_mut()
        .enumerate()
    {
        *byte = (index % 251) as u8 + 1;
    }
    bytes[17 * MIB..19 * MIB].fill(0x5A);
    bytes[SIZE as usize - 512..].fill(0xA5);
    bytes
}

fn same(found: &[u8], expected: &[u8]) {
    let at = found.iter().zip(expected).position(|(a, b)| a != b);
    assert_eq!((found.len(), at), (expected.len(), None));
}

/// qemu-img reads it as the same disk, and finds nothing wrong with it.
fn qemu_agrees(bench: &Bench, disk: &Path, content: &[u8]) {
    let disk = disk.to_str().unwrap();
    let raw = bench.path("expected.raw");
    std::fs::write(&raw, content).unwrap();
    let check = run("qemu-img", &["check", "-f", "vhdx", disk]);
    assert!(check.contains("No errors were found"), "{check}");
    run(
        "qemu-img",
        &[
            "compare",
            "-f",
            "vhdx",
            "-F",
            "raw",
            disk,
            raw.to_str().unwrap(),
        ],
    );
}

#[test]
fn a_dynamic_disk_is_the_same_disk_to_qemu() {
    let bench = Bench::new();
    for block in [1 << 20, 2 << 20, 32 << 20] {
        let disk = bench.path(&format!("{block}.vhdx"));
        create(&disk, SIZE, block).unwrap();
        let mut expected = vec![0; SIZE as usize];
        qemu_agrees(&bench, &disk, &expected);

        expected = content();
        bench.absorb(&disk, &expected);
        qemu_agrees(&bench, &disk, &expected);
        same(&bench.flat(&disk), &expected);

        // Again with one sector changed, one block cleared, one added.
        expected[17 * MIB + 512..17 * MIB + 1024].fill(1);
        expected[18 * MIB..19 * MIB].fill(0);
        expected[30 * MIB] = 7;
        bench.absorb(&disk, &expected);
        qemu_agrees(&bench, &disk, &expected);

        let before = std::fs::metadata(&disk).unwrap().len();
        compact(&disk).unwrap();
        let after = std::fs::metadata(&disk).unwrap().len();
        assert!(
            after < before || block == 32 << 20,
            "{block}: {before} -> {after}"
        );
        qemu_agrees(&bench, &disk, &expected);
    }
}

#[test]
fn a_disk_made_by_qemu_is_read_and_changed() {
    let bench = Bench::new();
    let (raw, disk) = (bench.path("q.raw"), bench.path("q.vhdx"));
    let mut expected = content();
    std::fs::write(&raw, &expected).unwrap();
    let (from, to) = (raw.to_str().unwrap(), disk.to_str().unwrap());
    let options = "subformat=dynamic,block_size=1M";
    run(
        "qemu-img",
        &[
            "convert", "-f", "raw", "-O", "vhdx", "-o", options, from, to,
        ],
    );
    same(&bench.flat(&disk), &expected);
    expected[5 * MIB..5 * MIB + 512].fill(3);
    bench.absorb(&disk, &expected);
    qemu_agrees(&bench, &disk, &expected);
}

#[test]
fn unchanged_content_leaves_the_file_as_it_is() {
    let bench = Bench::new();
    let disk = bench.path("d.vhdx");
    create(&disk, SIZE, 1 << 20).unwrap();
    bench.absorb(&disk, &content());
    let before = std::fs::read(&disk).unwrap();
    bench.absorb(&disk, &content());
    assert!(std::fs::read(&disk).unwrap() == before);
}

/// base <- middle <- leaf, with whole blocks, single sectors and cleared blocks in each.
fn three(bench: &Bench) -> (PathBuf, Vec<u8>) {
    let folder = bench.path("layers");
    std::fs::create_dir(&folder).unwrap();
    let (base, middle, leaf) = (
        bench.path("base.vhdx"),
        folder.join("middle.vhdx"),
        folder.join("leaf.vhdx"),
    );
    let mut bytes = content();
    create(&base, SIZE, 1 << 20).unwrap();
    bench.absorb(&base, &bytes);
    create_over(&middle, &base, None).unwrap();
    same(&bench.flat(&middle), &bytes);
    bytes[3 * MIB + 512..3 * MIB + 1024].fill(9);
    bytes[17 * MIB..18 * MIB].fill(0);
    bytes[20 * MIB..21 * MIB].fill(0x11);
    bench.absorb(&middle, &bytes);
    create_over(&leaf, &middle, Some(2 << 20)).unwrap();
    bytes[3 * MIB + 1024..3 * MIB + 2048].fill(10);
    bytes[17 * MIB + 4096..17 * MIB + 4608].fill(11);
    bytes[20 * MIB..22 * MIB].fill(0);
    bench.absorb(&leaf, &bytes);
    // A second time into blocks that are partly present.
    bytes[3 * MIB..3 * MIB + 512].fill(12);
    bytes[39 * MIB] = 13;
    bench.absorb(&leaf, &bytes);
    (leaf, bytes)
}

#[test]
fn a_chain_reads_as_what_was_written_over_each_other() {
    let bench = Bench::new();
    let (leaf, expected) = three(&bench);
    same(&bench.flat(&leaf), &expected);
    let names: Vec<String> = Chain::open(&leaf)
        .unwrap()
        .paths()
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names, ["leaf.vhdx", "middle.vhdx", "base.vhdx"]);
    let locator = facts(&leaf).unwrap().parent.unwrap().1;
    assert_eq!(locator.relative, r".\middle.vhdx");
    // Some sectors only: the leaf is smaller than the blocks it touches.
    compact(&leaf).unwrap();
    same(&bench.flat(&leaf), &expected);
}

/// Fox-IT's dissect.hypervisor knows sector bitmaps; not a second partly present block below one (3.21 loses sectors there), so the chain has
/// two files. `tests/record/venv.sh` installs it.
#[test]
fn dissect_reads_the_same_chain() {
    let bench = Bench::new();
    let (base, leaf) = (bench.path("base.vhdx"), bench.path("leaf.vhdx"));
    let mut expected = content();
    create(&base, SIZE, 1 << 20).unwrap();
    bench.absorb(&base, &expected);
    create_over(&leaf, &base, None).unwrap();
    expected[3 * MIB + 1024..3 * MIB + 2048].fill(10);
    expected[17 * MIB..18 * MIB].fill(0);
    expected[20 * MIB..22 * MIB].fill(0x11);
    expected[39 * MIB] = 13;
    bench.absorb(&leaf, &expected);
    let out = bench.path("dissect.raw");
    let program = "import sys,pathlib\nfrom dissect.hypervisor.disk.vhdx import VHDX\n\
        d=VHDX(pathlib.Path(sys.argv[1]))\nopen(sys.argv[2],'wb').write(d.read(d.size))";
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    run(&format!("{root}/tests/record/venv.sh"), &[]);
    let arguments = ["-c", program, leaf.to_str().unwrap(), out.to_str().unwrap()];
    run(&format!("{root}/target/record-venv/bin/python"), &arguments);
    same(&std::fs::read(out).unwrap(), &expected);
}

#[test]
fn a_parent_that_changed_or_went_is_refused() {
    let bench = Bench::new();
    let (leaf, expected) = three(&bench);
    let middle = bench.path("layers/middle.vhdx");
    let moved = bench.path("moved.vhdx");
    std::fs::rename(&middle, &moved).unwrap();
    assert_eq!(
        Chain::open(&leaf).err(),
        Some(Fault::NoParent(middle.clone()))
    );
    // The middle one's own parent is beside it now: its absolute path leads there still.
    set_parent(&leaf, &moved, false).unwrap();
    same(&bench.flat(&leaf), &expected);
    assert_eq!(
        facts(&leaf).unwrap().parent.unwrap().1.relative,
        r"..\moved.vhdx"
    );

    let mut other = bench.flat(&moved);
    other[0] = 1;
    bench.absorb(&moved, &other);
    assert_eq!(
        Chain::open(&leaf).err(),
        Some(Fault::Mismatch(bench.path("layers/../moved.vhdx")))
    );
    assert_eq!(
        set_parent(&leaf, &moved, false),
        Err(Fault::Mismatch(moved.clone()))
    );
    set_parent(&leaf, &moved, true).unwrap();
    assert_eq!(bench.flat(&leaf)[0], 1);
}

#[test]
fn compacting_a_parent_keeps_its_children() {
    let bench = Bench::new();
    let (leaf, expected) = three(&bench);
    compact(&bench.path("base.vhdx")).unwrap();
    same(&bench.flat(&leaf), &expected);
}

#[test]
fn damaged_files_are_refused() {
    let bench = Bench::new();
    let disk = bench.path("d.vhdx");
    create(&disk, SIZE, 1 << 20).unwrap();
    bench.absorb(&disk, &content());
    let whole = std::fs::read(&disk).unwrap();
    for (at, what) in [
        (0, "it is no VHDX file"),
        (2 << 20, "its metadata table has no signature"),
        // Block 2's entry: another state, and a place far behind the end.
        ((3 << 20) + 16, "block 2 has state 5"),
        ((3 << 20) + 16 + 6, "overlaps or lies outside"),
    ] {
        let mut bytes = whole.clone();
        bytes[at] ^= 3;
        std::fs::write(&disk, &bytes).unwrap();
        let said = Chain::open(&disk).err().unwrap().to_string();
        assert!(said.contains(what), "{at}: {said}");
    }
    // One bad header is what the other is for.
    let mut bytes = whole;
    bytes[64 << 10] = 0;
    std::fs::write(&disk, &bytes).unwrap();
    same(&bench.flat(&disk), &content());
    bytes[128 << 10] = 0;
    std::fs::write(&disk, &bytes).unwrap();
    assert!(Chain::open(&disk).is_err());
    assert_eq!(
        create(&disk, SIZE, 1 << 20)
            .err()
            .map(|f| f.to_string().contains("exists")),
        Some(true)
    );
    assert!(create(&bench.path("n.vhdx"), SIZE, 3 << 20).is_err());
}
