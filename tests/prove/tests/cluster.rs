//! The stage `join`: kubectl and winimg are programs of a few lines that refuse every argument that they do not know.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use prove::cluster::Cluster;
use prove::join::Join;
use prove::nodes;
use prove::page::page;
use prove::proof::{Outcome, Proof};
use prove::run::{Options, run};
use support::tree::root;
use winimg_base::event::Cancel;

use crate::join::{TOKEN, printed};
use crate::ledger::read;

/// `$STATE/calls` has all that was asked of it; `$STATE/nodes` are the nodes that there are.
const KUBECTL: &str = r#"#!/bin/bash
echo "$*" >>STATE/calls
case "$*" in
"--kubeconfig STATE/admin.conf get nodes -o json --request-timeout=20s")
    echo '{"apiVersion": "v1", "items": ['
    separator=
    for node in $(cat STATE/nodes); do
        echo "$separator"; separator=,
        cat <<JSON
{"apiVersion": "v1", "kind": "Node",
 "metadata": {"name": "$node", "labels": {"kubernetes.io/os": "windows"}, "uid": "1"},
 "spec": {"taints": [{"effect": "NoSchedule", "key": "node.kubernetes.io/not-ready"}]},
 "status": {"conditions": [
   {"lastHeartbeatTime": "2026-01-01T00:00:00Z", "reason": "KubeletHasSufficientMemory", "status": "False", "type": "MemoryPressure"},
   {"message": "cni plugin not initialized", "reason": "KubeletNotReady", "status": "False", "type": "Ready"}],
  "nodeInfo": {"architecture": "amd64", "containerRuntimeVersion": "containerd://2.3.2", "kubeletVersion": "v1.36.1",
   "operatingSystem": "windows", "osImage": "Windows Server 2022 <Standard>"}}}
JSON
    done
    echo '], "kind": "List", "metadata": {"resourceVersion": ""}}' ;;
"--kubeconfig STATE/admin.conf delete node --ignore-not-found winimg-try-1 winimg-try-2 --request-timeout=20s")
    sed -i '/^winimg-try-/d' STATE/nodes ;;
*) echo "error: unknown command: $*" >&2; exit 1 ;;
esac
"#;

/// `$STATE/joins`: the nodes that its clones become. `$STATE/given`: what they were given.
const WINIMG: &str = r#"#!/bin/bash
echo "$*" >>STATE/winimg
[ "$1 $2" = "--log-format json" ] || exit 2
shift 2
case "$1" in
--version) echo "winimg 0.1.0" ;;
doctor) echo '{"checks": []}' ;;
inspect) echo '{"images": [{"version": "10.0.20348.587", "name": "Windows"}]}' ;;
pin) ;;
build)
    while [ "$1" != "--output" ]; do shift; done
    mkdir -p "$2" && cp STATE/manifest.json "$2" ;;
verify) echo '{"files": []}' ;;
try)
    case "$*" in
    *" --as openstack") ;;
    *" --as openstack --user-data /dev/stdin --network nat --output "*)
        cat /dev/stdin >STATE/given
        cat STATE/joins >>STATE/nodes
        exit "$(cat STATE/status)" ;;
    *) exit 2 ;;
    esac ;;
*) exit 2 ;;
esac
"#;

struct Bench {
    dir: tempfile::TempDir,
    options: Options,
}

impl Bench {
    fn new(joins: &str, status: i32) -> Self {
        let dir = tempfile::tempdir_in(root().join("target")).expect("a folder");
        let state = dir.path();
        put(state, "nodes", "control-plane-1\n");
        put(state, "joins", joins);
        put(state, "status", &status.to_string());
        put(state, "manifest.json", &manifest());
        let cluster = Cluster {
            join: Join::parse(&printed()).expect("a join"),
            kubeconfig: put(state, "admin.conf", ""),
            kubectl: program(state, "kubectl", KUBECTL),
            folder: state.join("proof/work"),
        };
        let options = Options {
            cluster: Some(cluster),
            keep: true,
            ..options(state, WINIMG, "capi-openstack")
        };
        Self { dir, options }
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    fn run(&self) -> Proof {
        run(&self.options, &read()).expect("a proof")
    }
}

/// A file of this folder.
pub fn put(folder: &Path, name: &str, text: &str) -> PathBuf {
    let file = folder.join(name);
    fs::write(&file, text).expect("a file");
    file
}

/// A program of this folder, which its text calls `STATE`.
fn program(folder: &Path, name: &str, text: &str) -> PathBuf {
    let text = text.replace("STATE", folder.to_str().expect("UTF-8"));
    let file = put(folder, name, &text);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("a program");
    file
}

/// For one row, with this program in place of winimg.
pub fn options(folder: &Path, winimg: &str, row: &str) -> Options {
    Options {
        winimg: program(folder, "fake-winimg", winimg),
        tree: root().to_owned(),
        iso: put(folder, "windows.iso", "no Windows"),
        virtio: None,
        output: folder.join("proof"),
        with: None,
        vars: Vec::new(),
        sets: Vec::new(),
        words: vec![row.into()],
        hypervisor: "qemu".into(),
        accel: None,
        settle: None,
        cluster: None,
        keep: false,
        cancel: Cancel::default(),
    }
}

/// One that winimg reads, of a build for OpenStack.
pub fn manifest() -> String {
    let file = root().join("tests/snapshots/winimg__export_record__the_manifest_as_text.snap");
    let snapshot = fs::read_to_string(file).expect("a manifest");
    let (_, text) = snapshot.split_once("---\n{").expect("JSON");
    let mut value: serde_json::Value =
        serde_json::from_str(&format!("{{{text}")).expect("a manifest");
    value["targets"] = serde_json::json!(["openstack"]);
    value.to_string()
}

fn outcome(proof: &Proof) -> (Outcome, &[String]) {
    let mut all = proof.verdicts.iter();
    let found = all.find(|verdict| verdict.claim == "node-join");
    let found = found.expect("a verdict");
    (found.outcome, &found.failed)
}

/// Files below the folder, but for what the test itself has put there.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        match entry.path() {
            path if path.is_dir() => files(&path, found),
            path if path.ends_with("given") => {}
            path => found.push(path),
        }
    }
}

#[test]
fn clones_that_join_are_seen_and_taken_out_again() {
    let bench = Bench::new("winimg-try-1\nwinimg-try-2\n", 0);
    let proof = bench.run();
    assert_eq!(outcome(&proof), (Outcome::Held, &[][..]));
    let node = proof.rows[0].joins[0].nodes["winimg-try-2"].as_ref();
    let node = node.expect("a node");
    assert_eq!((&*node.kubelet, &*node.system), ("v1.36.1", "windows"));
    assert_eq!(node.conditions["Ready"], "False");
    assert_eq!(bench.text("nodes"), "control-plane-1\n");
    assert!(bench.text("given").contains(TOKEN));
    let page = page(&proof, &read());
    assert!(
        page.contains("Windows Server 2022 &lt;Standard&gt;"),
        "{page}"
    );
    let mut all = Vec::new();
    files(bench.dir.path(), &mut all);
    assert!(all.len() > 10, "{all:?}");
    for file in all {
        let bytes = fs::read(&file).expect("a file");
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(TOKEN), "{}", file.display());
    }
}

#[test]
fn clones_that_do_not_join_are_never_well() {
    // winimg found nothing wrong, as on the stand-in, whose kubeadm is none.
    let bench = Bench::new("winimg-try-1\n", 0);
    let proof = bench.run();
    let wrong = ["capi-openstack: as openstack: the cluster had no node winimg-try-2".to_owned()];
    assert_eq!(outcome(&proof), (Outcome::Failed, &wrong[..]));
    let stage = proof.rows[0].stages.last().expect("a stage");
    assert_eq!((&*stage.what, stage.status), ("join openstack", Some(1)));
    assert_eq!(bench.text("nodes"), "control-plane-1\n");
}

#[test]
fn a_stage_that_failed_leaves_no_node_and_a_host_that_failed_says_nothing() {
    let bench = Bench::new("winimg-try-1\n", 11);
    let proof = bench.run();
    assert_eq!(outcome(&proof).0, Outcome::Failed);
    assert_eq!(bench.text("nodes"), "control-plane-1\n");
    let bench = Bench::new("", 3);
    let proof = bench.run();
    assert_eq!(outcome(&proof), (Outcome::Open, &[][..]));
    assert!(!proof.rows[0].is_good());
    let last = bench.text("calls");
    let last = last.lines().last().expect("a call");
    assert!(last.contains("delete node"), "{last}");
}

#[test]
fn what_keeps_clones_from_joining_is_said_before_anything_is_built() {
    let mut bench = Bench::new("", 0);
    fs::write(bench.dir.path().join("nodes"), "winimg-try-2\n").expect("a node");
    let said = run(&bench.options, &read()).expect_err("a node is there");
    assert!(said.contains("found: winimg-try-2"), "{said}");
    assert_eq!(bench.text("nodes"), "winimg-try-2\n", "it was not ours");
    let cluster = bench.options.cluster.as_mut().expect("a cluster");
    cluster.kubectl = bench.dir.path().join("no-kubectl");
    let said = run(&bench.options, &read()).expect_err("no kubectl");
    assert!(said.contains("cure: install kubectl"), "{said}");
    assert_eq!(bench.text("winimg"), "", "winimg was started");
}

#[test]
fn without_a_control_plane_the_claim_stays_open() {
    let mut bench = Bench::new("", 0);
    bench.options.cluster = None;
    let proof = bench.run();
    assert_eq!(outcome(&proof), (Outcome::Open, &[][..]));
    assert!(proof.rows[0].is_good(), "{:?}", proof.rows[0].stages);
    let page = page(&proof, &read());
    assert!(page.contains("No control plane was given"), "{page}");
    assert_eq!(bench.text("calls"), "");
}

#[test]
fn a_kubelet_has_the_last_word() {
    let list = |name: &str, ready: &str| {
        let text = format!(
            "{{\"items\": [{{\"metadata\": {{\"name\": \"{name}\"}}, \"status\": {{\"conditions\": [{{\"type\": \"Ready\", \"status\": \"{ready}\"}}], \
             \"nodeInfo\": {{\"operatingSystem\": \"windows\", \"osImage\": \"W\", \"kubeletVersion\": \"v1\"}}}}}}]}}"
        );
        nodes::read(&text).expect("a list")
    };
    let mut seen = std::collections::BTreeMap::new();
    for (name, ready) in [
        ("a", "Unknown"),
        ("a", "True"),
        ("a", "Unknown"),
        ("b", "True"),
    ] {
        nodes::note(&mut seen, list(name, ready), &["a"]);
    }
    assert_eq!(seen.keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(seen["a"].conditions["Ready"], "True");
    for text in ["", "{}", "{\"items\": [{}]}"] {
        nodes::read(text).expect_err("no list of nodes");
    }
}
