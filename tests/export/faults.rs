//! What is left when an export does not end well.

use std::fs;
use std::path::Path;

use winimg::export::export;
use winimg_base::error::Kind;
use winimg_base::event::{Cancel, Event, Sink};
use winimg_recipe::{AmiOptions, OutputFormat, OutputOptions, Outputs};

use crate::export::fixture::{
    Heard, MIB, dense, disk, everything, files, guest, is_root, job, path, run, sh, without_qcow2,
};
use support::skip::skipped;

/// Cancels when the pass first reports its progress.
struct Impatient(Cancel);

impl Sink for Impatient {
    fn emit(&self, event: &Event) {
        if matches!(event, Event::Bytes { .. }) {
            self.0.cancel();
        }
    }
}

#[test]
fn a_cancel_leaves_nothing_and_keeps_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 66);
    let out = tempfile::tempdir().unwrap();
    fs::write(out.path().join("demo.vhd"), "an older image").unwrap();
    let (guest, outputs) = (guest(), everything());
    let job = job(&source, out.path(), &outputs, &guest);
    let cancel = Cancel::default();
    let error = export(&job, &Impatient(cancel.clone()), &cancel).unwrap_err();
    assert_eq!(error.kind(), Kind::Cancelled);
    let before = Cancel::default();
    before.cancel();
    let error = export(&job, &Heard::default(), &before).unwrap_err();
    assert_eq!(error.kind(), Kind::Cancelled);
    assert_eq!(files(out.path()), ["demo.vhd"]);
    let kept = fs::read_to_string(out.path().join("demo.vhd")).unwrap();
    assert_eq!(kept, "an older image");
}

#[test]
fn what_a_killed_run_left_is_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 40);
    let out = tempfile::tempdir().unwrap();
    fs::write(
        out.path().join(".demo.raw.part"),
        vec![1; 50 * MIB as usize],
    )
    .unwrap();
    let outputs = Outputs::from([OutputFormat::Raw]);
    run(&source, out.path(), &outputs);
    assert_eq!(files(out.path()), ["demo.raw"]);
    let raw = out.path().join("demo.raw");
    sh(
        "qemu-img",
        &["compare", "-F", "raw", path(&source), path(&raw)],
    );
}

#[test]
fn two_exports_to_the_same_files_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 40);
    let out = tempfile::tempdir().unwrap();
    let held = fs::File::create(out.path().join(".demo.raw.part")).unwrap();
    held.lock().unwrap();
    let (guest, outputs) = (guest(), everything());
    let job = job(&source, out.path(), &outputs, &guest);
    let error = export(&job, &Heard::default(), &Cancel::default()).unwrap_err();
    assert_eq!(error.fact(), "another export writes the same file");
    assert_eq!(error.kind(), Kind::Export);
    assert_eq!(files(out.path()), [".demo.raw.part"]);
}

#[test]
fn a_disk_in_use_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 40);
    let mut user = std::process::Command::new("qemu-io")
        .args(["-f", "qcow2", path(&source)])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Its prompt shows that it holds the image.
    let mut prompt = [0; 8];
    std::io::Read::read_exact(user.stdout.as_mut().unwrap(), &mut prompt).unwrap();
    let out = tempfile::tempdir().unwrap();
    let (guest, outputs) = (guest(), everything());
    let job = job(&source, out.path(), &outputs, &guest);
    let error = export(&job, &Heard::default(), &Cancel::default()).unwrap_err();
    user.kill().unwrap();
    user.wait().unwrap();
    assert_eq!(
        error.cure_text(),
        Some("another program has the image open; stop that VM first")
    );
    assert_eq!(files(out.path()), Vec::<String>::new());
}

/// A tmpfs of `size`, unmounted when dropped.
struct Small(tempfile::TempDir);

impl Small {
    fn mount(size: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        sh(
            "mount",
            &["-t", "tmpfs", "-o", &options, "tmpfs", path(dir.path())],
        );
        Self(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Lazily: what another test is about to start holds open files of this one until its exec.
        sh("umount", &["--lazy", path(self.path())]);
    }
}

#[test]
fn a_full_disk_is_named_and_leaves_nothing() {
    if !is_root() {
        skipped("mounting a small tmpfs needs root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let raw = dir.path().join("dense.raw");
    fs::write(&raw, dense(9, 40 * MIB as usize)).unwrap();
    let guest = guest();
    // The estimate hopes for 2/5 of the 40 MiB; the dense disk takes all.
    for (size, outputs, fact) in [
        ("20m", Outputs::from([OutputFormat::Ova]), "cannot write"),
        (
            "60m",
            Outputs::from([OutputFormat::Vhdx, OutputFormat::Ova]),
            "cannot write",
        ),
        (
            "60m",
            Outputs::from([OutputFormat::VhdDynamic, OutputFormat::Vmdk]),
            "cannot write",
        ),
        // Both disks fit, and not their copies in the boxes.
        (
            "120m",
            Outputs::from([
                OutputFormat::Vhdx,
                OutputFormat::Vmdk,
                OutputFormat::BoxHyperv,
                OutputFormat::BoxVirtualbox,
            ]),
            "cannot write",
        ),
        (
            "20m",
            everything(),
            "has not enough free space for the outputs",
        ),
    ] {
        let small = Small::mount(size);
        let job = job(&raw, small.path(), &outputs, &guest);
        let error = export(&job, &Heard::default(), &Cancel::default()).unwrap_err();
        assert!(error.fact().contains(fact), "{error}");
        assert_eq!(error.kind(), Kind::Host);
        assert_eq!(files(small.path()), Vec::<String>::new());
    }
}

#[test]
fn a_read_error_within_the_disk_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 40);
    let only_ova = Outputs::from([OutputFormat::Ova]);
    run(&source, dir.path(), &only_ova);
    let ova = dir.path().join("demo.ova");
    sh("tar", &["-xf", path(&ova), "-C", path(dir.path())]);
    let vmdk = dir.path().join("demo-disk1.vmdk");
    // Within a grain of the dense run, past what is looked at before the pass.
    let mut bytes = fs::read(&vmdk).unwrap();
    bytes[2 << 20] ^= 1;
    fs::write(&vmdk, bytes).unwrap();
    let out = tempfile::tempdir().unwrap();
    let (guest, outputs) = (guest(), without_qcow2());
    let job = job(&vmdk, out.path(), &outputs, &guest);
    let error = export(&job, &Heard::default(), &Cancel::default()).unwrap_err();
    assert!(error.to_string().contains("does not inflate"), "{error}");
    assert_eq!(files(out.path()), Vec::<String>::new());
}

#[test]
fn jobs_that_can_not_be_done_are_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let odd = dir.path().join("odd.raw");
    fs::write(&odd, vec![1; MIB as usize + 512]).unwrap();
    let whole = dir.path().join("whole.raw");
    fs::write(&whole, vec![1; MIB as usize]).unwrap();
    let out = tempfile::tempdir().unwrap();
    let (guest, outputs) = (guest(), everything());
    let mut legacy = everything();
    let options = AmiOptions {
        boot_mode: "legacy-bios".into(),
        ..AmiOptions::default()
    };
    legacy.insert(OutputFormat::Ami, OutputOptions::Ami(options));
    let base = job(&whole, out.path(), &outputs, &guest);
    let refused: Vec<String> = [
        winimg::export::ExportJob {
            source: winimg_formats::disk::DiskImage::from_file(&odd),
            ..base
        },
        winimg::export::ExportJob {
            name: "../demo",
            ..base
        },
        winimg::export::ExportJob {
            outputs: &legacy,
            ..base
        },
    ]
    .iter()
    .map(|job| {
        let error = export(job, &Heard::default(), &Cancel::default()).unwrap_err();
        error.to_string().replace(path(dir.path()), "")
    })
    .collect();
    insta::assert_snapshot!(refused.join("\n"));
    assert_eq!(files(out.path()), Vec::<String>::new());
}
