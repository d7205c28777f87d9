//! A run that goes on, and the host that it begins on. winimg is a program of a few lines that refuses every command that it does not know.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use prove::proof::{Proof, Row};
use prove::run::{Options, run};
use support::tree::root;
use winimg_base::event::Cancel;

use crate::cluster::{manifest, options, put};
use crate::ledger::read;

/// `$STATE/calls` has what was asked of it. `$STATE/waits`: a trial lasts until it is asked to end. `$STATE/kvm`: KVM can be used.
const WINIMG: &str = r#"#!/bin/bash
[ "$1 $2" = "--log-format json" ] || exit 2
shift 2
echo "$*" >>STATE/calls
case "$1" in
--version) echo "winimg 0.1.0" ;;
doctor)
    case "$*" in
    *"--accel kvm"*) [ -e STATE/kvm ] && state=good || state=missing ;;
    *) state=good ;;
    esac
    cat <<JSON
{"checks": [
  {"about": "qemu", "state": "$state", "found": "UEFI: QEMU 10.0", "cure": "take --accel tcg"},
  {"about": "qemu", "state": "$state", "found": "BIOS: QEMU 10.0"},
  {"about": "kvm", "state": "advice", "found": "KVM: there is no /dev/kvm", "cure": "sudo modprobe kvm_intel"},
  {"about": "room", "state": "good", "found": "room: 9 GiB free"}]}
JSON
    [ $state = good ] || exit 3 ;;
inspect) echo '{"images": [{"version": "10.0.20348.587", "name": "Windows"}]}' ;;
build)
    while [ "$1" != "--output" ]; do shift; done
    mkdir -p "$2" && cp STATE/manifest.json "$2" && touch "$2/node.qcow2"
    for layer in aa bb; do
        folder=$WINIMG_CACHE_DIR/layers/$(printf "$layer%.0s" {1..32})
        mkdir -p "$folder" && echo '{"parent": null}' >"$folder/layer.json"
        echo "{\"event\": \"layer_sealed\", \"key\": \"sha256:${folder##*/}\"}" >&2
    done
    echo '{"event": "step_started", "step": 1, "name": "probe setup state"}' >&2
    echo '{"event": "output", "step": 1, "text": "the guest said so"}' >&2 ;;
verify) echo '{"files": []}' ;;
try)
    if [ -e STATE/waits ]; then
        trap 'touch STATE/asked; exit 130' TERM
        touch STATE/trying
        while true; do sleep 0.1; done
    fi
    mkdir -p "$2/try"
    cat >"$2/try/$4.json" <<JSON
{"target": "$4", "verdict": "good", "hardware": {"controller": "virtio-blk"}, "metadata": "openstack",
 "clones": [], "compared": [], "remarks": [], "findings": []}
JSON
    ;;
*) exit 2 ;;
esac
"#;

struct Bench {
    dir: tempfile::TempDir,
    options: Options,
}

impl Bench {
    fn new(words: &str) -> Self {
        let dir = tempfile::tempdir_in(root().join("target")).expect("a folder");
        let state = dir.path();
        put(state, "kvm", "");
        let mut made: serde_json::Value = serde_json::from_str(&manifest()).expect("a manifest");
        made["artifacts"][0]["file"] = "node.qcow2".into();
        put(state, "manifest.json", &made.to_string());
        let options = options(state, WINIMG, words);
        Self { dir, options }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self) -> Proof {
        run(&self.options, &read()).expect("a proof")
    }

    /// How often this was asked of winimg.
    fn calls(&self, command: &str) -> usize {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        calls
            .lines()
            .filter(|line| line.starts_with(command))
            .count()
    }

    fn on_disk(&self) -> Proof {
        let text = fs::read_to_string(self.path("proof/20348.587.json")).expect("a proof");
        serde_json::from_str(&text).expect("a proof")
    }
}

fn names(proof: &Proof) -> Vec<&str> {
    proof.rows.iter().map(|row| row.name.as_str()).collect()
}

fn stages(row: &Row) -> Vec<&str> {
    row.stages.iter().map(|stage| stage.what.as_str()).collect()
}

fn wait_for(file: &Path) {
    let until = Instant::now() + Duration::from_secs(60);
    while !file.exists() {
        assert!(Instant::now() < until, "no {}", file.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_interrupt_costs_the_stage_that_it_comes_in() {
    let mut bench = Bench::new("bios-virtio");
    fs::write(bench.path("waits"), "").expect("a file");
    let (cancel, trying) = (bench.options.cancel.clone(), bench.path("trying"));
    let interrupt = std::thread::spawn(move || {
        wait_for(&trying);
        cancel.cancel();
    });
    let said = run(&bench.options, &read()).expect_err("it was interrupted");
    interrupt.join().expect("the interrupt");
    assert_eq!(said, "interrupted; the next run goes on");
    assert!(bench.path("asked").exists(), "winimg was not asked to end");
    let row = &bench.on_disk().rows[0];
    assert_eq!(stages(row), ["build", "verify"]);
    assert_eq!(
        (&row.missing[..], row.is_good()),
        (&["try openstack".to_owned()][..], false)
    );
    assert_eq!(row.seen.answers["setup state"], "the guest said so");

    fs::remove_file(bench.path("waits")).expect("a file");
    bench.options.cancel = Cancel::default();
    let proof = bench.run();
    let row = &proof.rows[0];
    assert!(row.is_good(), "{row:?}");
    assert_eq!(stages(row), ["build", "verify", "try openstack"]);
    assert_eq!(row.seen.answers["setup state"], "the guest said so");
    assert_eq!((bench.calls("build"), bench.calls("verify")), (1, 1));
    assert_eq!(row.trials.len(), 1);
}

#[test]
fn rows_of_earlier_runs_stay_while_winimg_is_the_same() {
    let mut bench = Bench::new("bios-virtio");
    let first = bench.run();
    bench.options.words = vec!["uefi-ahci".into()];
    let second = bench.run();
    assert_eq!(names(&second), ["uefi-ahci", "bios-virtio"]);
    assert_eq!(names(&bench.on_disk()), ["uefi-ahci", "bios-virtio"]);
    assert_eq!(bench.calls("build"), 2);
    bench.run();
    assert_eq!(bench.calls("build"), 2, "a kept row was built again");

    // The same version of winimg, and another program.
    let text = fs::read_to_string(&bench.options.winimg).expect("a program");
    fs::write(&bench.options.winimg, text + "# changed\n").expect("a program");
    let third = bench.run();
    assert_eq!(names(&third), ["uefi-ahci"]);
    assert_eq!(bench.calls("build"), 3);
    assert_eq!(third.winimg, first.winimg);
    assert_ne!(third.winimg_sha256, first.winimg_sha256);
}

#[test]
fn a_good_row_leaves_its_records_and_no_disk() {
    let bench = Bench::new("bios-virtio");
    // Another row's layer lies on the first of this one's.
    let layers = bench.path("proof/work/cache/layers");
    let other = layers.join("cc".repeat(32));
    fs::create_dir_all(&other).expect("a folder");
    let parent = format!("{{\"parent\": \"sha256:{}\"}}", "aa".repeat(32));
    fs::write(other.join("layer.json"), parent).expect("a record");
    bench.run();
    let is_there = |layer: &str| layers.join(layer.repeat(32)).exists();
    assert_eq!(["aa", "bb", "cc"].map(is_there), [true, false, true]);
    let row = bench.path("proof/work/bios-virtio");
    assert!(!row.join("out/node.qcow2").exists());
    for record in ["row.json", "build.jsonl", "out/manifest.json"] {
        assert!(row.join(record).exists(), "{record}");
    }
    let mut bench = Bench::new("bios-virtio");
    bench.options.keep = true;
    bench.run();
    let layer = bench.path("proof/work/cache/layers").join("bb".repeat(32));
    assert!(layer.exists());
    assert!(bench.path("proof/work/bios-virtio/out/node.qcow2").exists());
}

#[test]
fn a_host_without_kvm_is_refused_before_the_first_row() {
    let mut bench = Bench::new("bios-virtio");
    fs::remove_file(bench.path("kvm")).expect("a file");
    let said = run(&bench.options, &read()).expect_err("no KVM");
    insta::assert_snapshot!(said, @"
    no machine starts with kvm on this host
      found: UEFI: QEMU 10.0
      cure: sudo modprobe kvm_intel
      cure: take --accel tcg
    ");
    assert_eq!(bench.calls("build"), 0);
    bench.options.accel = Some("tcg".into());
    let proof = bench.run();
    assert!(proof.rows[0].is_good());
    assert_eq!(
        proof.host,
        [
            "UEFI: QEMU 10.0; take --accel tcg",
            "BIOS: QEMU 10.0",
            "advice: KVM: there is no /dev/kvm; sudo modprobe kvm_intel",
            "room: 9 GiB free",
        ]
    );
    // The room is that of the folder in which rows are made.
    let output = format!(
        "doctor --json --output {}",
        bench.path("proof/work").display()
    );
    assert_eq!(bench.calls(&output), 2);
}
