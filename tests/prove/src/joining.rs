//! The stage `join TARGET`: clones that are given a join as user data, and what the API server says of them meanwhile.
//!
//! Whatever comes of it, the clones' nodes are taken out of the cluster at its end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use winimg::trial::HOST_NAMES;

use crate::cluster::Cluster;
use crate::nodes;
use crate::proof::{Joined, Node, Stage};
use crate::site::{Done, Site};
use crate::stages::text;
use crate::work::{Planned, Work};

/// Between two questions to the API server while clones run.
const ASKS_EVERY: Duration = Duration::from_secs(15);

/// winimg's exit status of a trial whose clones are not what their target needs (docs/exit-status.md).
const DID_NOT_COME_UP: i32 = 11;

impl Site<'_> {
    /// # Errors
    /// The host's, an interrupt among them. What the cluster did not do is in the row.
    pub fn joined(&self, work: &mut Work, target: &'static str, cluster: &Cluster) -> Done<()> {
        let what = Planned::Join(target).to_string();
        // An earlier row may have left them, and a node of an earlier clone would speak for this one.
        if let Err(said) = cluster.is_free() {
            return work.push(failed(&what, said)).map(drop);
        }
        let mut seen = BTreeMap::new();
        let stage = self.joining(work, target, cluster, &mut seen);
        let forgotten = cluster.forget();
        let mut stage = match (stage, &forgotten) {
            (Ok(stage), _) => stage,
            (Err(error), Ok(())) => return Err(error),
            (Err(error), Err(said)) => return Err(format!("{error}\n{said}")),
        };
        let nodes = HOST_NAMES.map(|name| (name.to_owned(), seen.remove(name)));
        let nodes = BTreeMap::from(nodes);
        let missing = nodes.iter().filter(|(_, node)| node.is_none());
        let missing: Vec<&str> = missing.map(|(name, _)| name.as_str()).collect();
        // A host that failed says nothing of the image.
        let shows_something = matches!(stage.status, Some(0 | DID_NOT_COME_UP));
        if stage.is_good() && !missing.is_empty() {
            let said = format!("the cluster had no node {}", missing.join(", "));
            (stage.status, stage.said) = (Some(1), Some(said));
        }
        if shows_something {
            work.row.joins.push(Joined {
                target: target.to_owned(),
                nodes,
            });
        }
        work.push(stage)?;
        if let Err(said) = forgotten {
            work.push(failed(&format!("{what}: delete nodes"), said))?;
        }
        Ok(())
    }

    /// Runs the clones. The token goes in by a pipe: it is in no file and in no argument.
    fn joining(
        &self,
        work: &Work,
        target: &'static str,
        cluster: &Cluster,
        seen: &mut BTreeMap<String, Node>,
    ) -> Done<Stage> {
        let output = work.folder.join("out");
        let mut arguments = self.trial(&output, target)?;
        let results = text(&output.join("join"))?;
        let join = [
            "--user-data",
            "/dev/stdin",
            "--network",
            "nat",
            "--output",
            &results,
        ];
        arguments.extend(join.map(String::from));
        let mut last = Instant::now();
        let look = |seen: &mut BTreeMap<String, Node>| {
            // One question that is not answered is asked again.
            if let Ok(now) = cluster.nodes() {
                nodes::note(seen, now, &HOST_NAMES);
            }
        };
        let mut glance = || {
            if last.elapsed() >= ASKS_EVERY {
                look(seen);
                last = Instant::now();
            }
        };
        let what = Planned::Join(target);
        let data = cluster.join.user_data();
        let stage = self.command(work, what, &arguments, Some(&data), &mut glance)?;
        look(seen);
        Ok(stage)
    }
}

/// A stage in which winimg was not started, or that followed it.
fn failed(what: &str, said: String) -> Stage {
    Stage {
        what: what.to_owned(),
        status: Some(1),
        seconds: 0.0,
        said: Some(said),
    }
}
