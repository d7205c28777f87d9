//! What every output has to hold for each program that reads it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use winimg::export::{ExportedArtifact, export};
use winimg_base::event::Cancel;
use winimg_recipe::{OutputFormat, Outputs};

use support::media::convert;

use crate::export::fixture::{
    Heard, MIB, disk, everything, files, guest, job, kinds, openssl, path, run, sh, without_qcow2,
};

pub fn same_content(source: &Path, file: &Path, format: &str) {
    let said = sh(
        "qemu-img",
        &[
            "compare",
            "-f",
            "qcow2",
            "-F",
            format,
            path(source),
            path(file),
        ],
    );
    assert_eq!(said, "Images are identical.\n");
}

#[test]
fn every_output_is_the_disk_and_every_digest_is_openssls() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 66);
    let out = tempfile::tempdir().unwrap();
    let artifacts = run(&source, out.path(), &everything());
    assert_eq!(
        kinds(&artifacts),
        [
            "raw",
            "vhd",
            "vhd_dynamic",
            "vhdx",
            "vhdx_fixed",
            "ova",
            "vmdk",
            "vmdk_flat",
            "vmdk_descriptor",
            "qcow2",
            "vma",
            "ami"
        ]
    );
    assert_eq!(
        files(out.path()),
        [
            "demo-dynamic.vhd",
            "demo-esxi-flat.vmdk",
            "demo-esxi.vmdk",
            "demo-fixed.vhdx",
            "demo.ami/HOWTO.md",
            "demo.ami/import-image.json",
            "demo.ova",
            "demo.qcow2",
            "demo.raw",
            "demo.vhd",
            "demo.vhdx",
            "demo.vma",
            "demo.vmdk"
        ]
    );
    for artifact in &artifacts {
        let file = out.path().join(&artifact.file);
        assert_eq!(artifact.sha256.hex(), openssl(&file), "{}", artifact.file);
        assert_eq!(artifact.bytes, fs::metadata(&file).unwrap().len());
        assert!(!artifact.checked.is_empty());
    }
    for (name, format) in [
        ("demo.raw", "raw"),
        ("demo.vhd", "vpc"),
        ("demo-dynamic.vhd", "vpc"),
        ("demo.vhdx", "vhdx"),
        ("demo-fixed.vhdx", "vhdx"),
        ("demo.vmdk", "vmdk"),
        ("demo-esxi.vmdk", "vmdk"),
        ("demo.qcow2", "qcow2"),
    ] {
        same_content(&source, &out.path().join(name), format);
    }
    sh(
        "tar",
        &[
            "-xf",
            path(&out.path().join("demo.ova")),
            "-C",
            path(dir.path()),
        ],
    );
    same_content(&source, &dir.path().join("demo-disk1.vmdk"), "vmdk");
    sh("qemu-img", &["check", path(&out.path().join("demo.qcow2"))]);
}

#[test]
fn flat_files_have_holes_where_the_disk_has_zeros() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 200);
    let outputs = Outputs::from([
        OutputFormat::Raw,
        OutputFormat::Vhd,
        OutputFormat::VhdxFixed,
        OutputFormat::VmdkFlat,
    ]);
    run(&source, dir.path(), &outputs);
    for name in [
        "demo.raw",
        "demo.vhd",
        "demo-fixed.vhdx",
        "demo-esxi-flat.vmdk",
    ] {
        let file = fs::metadata(dir.path().join(name)).unwrap();
        // About 4 MiB are not zero, 512 KiB more are allocated in the source.
        assert!(file.blocks() * 512 < 6 * MIB, "{name}: {}", file.blocks());
        assert!(file.len() >= 200 * MIB);
    }
}

#[test]
fn the_vhd_is_what_azure_takes() {
    let dir = tempfile::tempdir().unwrap();
    // 67 MiB is no whole number of cylinders: a tool that rounds to the geometry shows here.
    let source = disk(dir.path(), 67);
    let outputs = Outputs::from([OutputFormat::Vhd]);
    run(&source, dir.path(), &outputs);
    let vhd = dir.path().join("demo.vhd");
    assert_eq!(fs::metadata(&vhd).unwrap().len(), 67 * MIB + 512);
    let info = sh(
        "qemu-img",
        &["info", "--output=json", "-f", "vpc", path(&vhd)],
    );
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["virtual-size"], 67 * MIB);
    let bytes = fs::read(&vhd).unwrap();
    let footer = &bytes[bytes.len() - 512..];
    assert_eq!(&footer[..8], b"conectix");
    // 1 700 000 000 - 946 684 800, the seconds from 1970 to 2000
    assert_eq!(footer[24..28], 753_315_200u32.to_be_bytes());
}

#[test]
fn the_bytes_do_not_depend_on_threads_or_on_how_the_source_is_laid_out() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 66);
    let moved = dir.path().join("moved.qcow2");
    let options = ["-O", "qcow2", "-o", "cluster_size=4k,compat=0.10"];
    convert(&options, &source, &moved);
    let guest = guest();
    let outputs = everything();
    let digests = |source: &Path, threads: usize| {
        let out = tempfile::tempdir().unwrap();
        let mut job = job(source, out.path(), &outputs, &guest);
        job.threads = threads;
        let made = export(&job, &Heard::default(), &Cancel::default()).unwrap();
        made.iter()
            .map(|a| format!("{} {}", a.kind, a.sha256))
            .collect::<Vec<_>>()
    };
    let one = digests(&source, 1);
    assert_eq!(one, digests(&source, 2));
    assert_eq!(one, digests(&source, 7));
    assert_eq!(one, digests(&moved, 3));
}

#[test]
fn a_compressed_source_is_flattened_first() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 40);
    let packed = dir.path().join("packed.qcow2");
    convert(&["-O", "qcow2", "-c"], &source, &packed);
    let outputs = Outputs::from([OutputFormat::Raw, OutputFormat::Qcow2]);
    let out = tempfile::tempdir().unwrap();
    let plain = run(&source, out.path(), &outputs);
    let out = tempfile::tempdir().unwrap();
    assert_eq!(run(&packed, out.path(), &outputs)[0], plain[0]);
    assert_eq!(files(out.path()), ["demo.qcow2", "demo.raw"]);
}

#[test]
fn what_was_exported_can_be_exported_again() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 40);
    let first = run(&source, dir.path(), &everything());
    // QEMU's own depends on its version; the others are ours.
    let kinds_and_digests = |made: &[ExportedArtifact]| -> Vec<_> {
        let ours = made.iter().filter(|a| a.kind != "qcow2");
        ours.map(|a| (a.kind, a.sha256.hex())).collect()
    };
    let outputs = without_qcow2();
    for name in [
        "demo.raw",
        "demo.vhd",
        "demo-dynamic.vhd",
        "demo.vhdx",
        "demo-fixed.vhdx",
        "demo.ova",
        "demo.vmdk",
        "demo-esxi-flat.vmdk",
        "demo.qcow2",
    ] {
        let out = tempfile::tempdir().unwrap();
        let again = run(&dir.path().join(name), out.path(), &outputs);
        let (again, first) = (kinds_and_digests(&again), kinds_and_digests(&first));
        assert_eq!(again, first, "from {name}");
    }
}
