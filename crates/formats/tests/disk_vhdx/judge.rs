//! Another reader of the format has the last word: PyPI's dissect.hypervisor. It is AGPL, a program
//! that is run and no part of winimg; `tests/record/venv.sh` installs it with the other judges.

use std::fs;
use std::process::Command;
use support::tree;

use crate::disk_vhdx::Layers;
use crate::disk_vhdx::MIB;
use crate::disk_vhdx::Made;
use crate::disk_vhdx::text;
use crate::disk_vhdx::whole;

/// Block by block: reads that begin within a block are not its strength.
const READ: &str = "
import sys
from pathlib import Path
from dissect.hypervisor.disk.vhdx import VHDX
disk = VHDX(Path(sys.argv[1]))
step = disk.block_size // disk.sector_size
with open(sys.argv[2], 'wb') as out:
    for sector in range(0, disk.size // disk.sector_size, step):
        out.write(disk.read_sectors(sector, step))
";

#[test]
fn another_reader_reads_the_same() {
    let root = tree::root();
    let made = Command::new(root.join("tests/record/venv.sh")).output();
    let made = made.expect("bash");
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "tests/record/venv.sh: {said}");
    let layers = Layers::new();
    let mut base = Made::new(8 * MIB, MIB);
    base.write(1, 0, 2 * MIB);
    base.write(2, 5 * MIB, MIB);
    base.write(3, 7 * MIB, MIB);
    layers.save("aa", &base.file);
    let mut middle = base.child(8 * MIB, MIB, r"..\aa\disk.vhdx");
    for (i, at) in [1, 2, 5, 17, 100, 101, 102, 2047].into_iter().enumerate() {
        middle.write(10 + i as u64, at * 512, 512);
    }
    middle.write(20, MIB, MIB);
    middle.write(21, 2 * MIB + 4096, 512 * 3);
    middle.blank(5, 2);
    layers.save("bb", &middle.file);
    // In whole bytes of the bitmap, where the file below has parts of a block too.
    let mut top = middle.child(8 * MIB, MIB, r"..\bb\disk.vhdx");
    top.write(30, 4096 * 2, 4096);
    top.write(31, 4096 * 13, 4096 * 5);
    top.write(32, MIB + 4096, 8192);
    top.write(33, 3 * MIB, MIB);
    top.write(34, 6 * MIB + 512, 512);
    top.blank(7, 3);
    let path = layers.save("cc", &top.file);

    let read = layers.folder().join("read");
    let judge = Command::new(root.join("target/record-venv/bin/python"))
        .args(["-c", READ, text(&path), text(&read)])
        .output()
        .unwrap();
    assert!(
        judge.status.success(),
        "{}",
        String::from_utf8_lossy(&judge.stderr)
    );
    let read = fs::read(read).unwrap();
    assert!(read == top.content, "the other reader");
    assert!(whole(&*layers.open(&path)) == read);
}
