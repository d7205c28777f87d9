//! The cluster that clones join, asked through kubectl. Every call has an end.
//!
//! Takes nothing away that was there before: a node that has a clone's name is refused, not removed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use winimg::trial::HOST_NAMES;

use crate::join::Join;
use crate::nodes;
use crate::proof::Node;
use crate::site::{Done, at};

/// Of one request to the API server; kubectl may ask more than once.
const REQUEST: &str = "--request-timeout=20s";
/// A login of the kubeconfig's may ask another program.
const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Clone, Debug)]
pub struct Cluster {
    pub join: Join,
    pub kubeconfig: PathBuf,
    /// A program's name or path.
    pub kubectl: PathBuf,
    /// What kubectl prints lies here until it is read.
    pub folder: PathBuf,
}

impl Cluster {
    /// Its nodes, by kubectl.
    ///
    /// # Errors
    /// kubectl is not there, does not come to an end, or did not get them.
    pub fn nodes(&self) -> Done<Vec<Node>> {
        nodes::read(&self.kubectl(&["get", "nodes", "-o", "json"])?)
            .map_err(|e| format!("kubectl get nodes: {e}"))
    }

    /// # Errors
    /// As `nodes`; and a node is there with the name of a clone.
    pub fn is_free(&self) -> Done<()> {
        let nodes = self.nodes()?;
        let taken = nodes.iter().map(|node| node.name.as_str());
        let taken: Vec<&str> = taken.filter(|name| HOST_NAMES.contains(name)).collect();
        if taken.is_empty() {
            Ok(())
        } else {
            Err(format!(
                "the cluster has nodes with the names of clones\n  found: {0}\n  cure: kubectl delete node {0}, where an earlier run left them",
                taken.join(" ")
            ))
        }
    }

    /// Takes the clones' nodes out of the cluster.
    ///
    /// # Errors
    /// As `nodes`.
    pub fn forget(&self) -> Done<()> {
        let names = HOST_NAMES.iter().copied();
        let arguments: Vec<&str> = ["delete", "node", "--ignore-not-found"]
            .into_iter()
            .chain(names)
            .collect();
        self.kubectl(&arguments).map(drop)
    }

    /// What it prints, once it has ended well. An interrupt does not stop it: it ends by itself, and may be the one that cleans up.
    fn kubectl(&self, arguments: &[&str]) -> Done<String> {
        let out = self.folder.join("kubectl.out");
        let err = self.folder.join("kubectl.err");
        let done = self.run(arguments, &out, &err);
        let _ = fs::remove_file(out);
        let _ = fs::remove_file(err);
        done
    }

    fn run(&self, arguments: &[&str], out: &Path, err: &Path) -> Done<String> {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command.args(arguments).arg(REQUEST).stdin(Stdio::null());
        command.stdout(at(out, File::create(out))?);
        command.stderr(at(err, File::create(err))?);
        let mut child = command.spawn().map_err(|e| {
            format!(
                "{}: {e}\n  cure: install kubectl (kubernetes.io/docs/tasks/tools), or leave --join out",
                self.kubectl.display()
            )
        })?;
        let end = Instant::now() + PATIENCE;
        let what = arguments.join(" ");
        let status = loop {
            if let Some(status) = at(&self.kubectl, child.try_wait())? {
                break status;
            }
            if Instant::now() > end {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("kubectl {what} did not end within {PATIENCE:?}"));
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        if status.success() {
            at(out, fs::read_to_string(out))
        } else {
            let said = fs::read_to_string(err).unwrap_or_default();
            Err(format!("kubectl {what} failed\n  found: {}", said.trim()))
        }
    }
}
