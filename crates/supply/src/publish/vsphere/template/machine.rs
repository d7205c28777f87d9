//! The machine that a template is made from: deployed from the OVA's item, and removed. (vSphere
//! Automation API: ovf library item, vm)
//!
//! It is recognized by its name and folder only. A machine left by a killed run is removed by the
//! next one: vCenter does not tell whether its disk is complete. Never starts a machine.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uuid::Uuid;

use super::super::answers::OvfDeployment;
use super::super::session::{COPYING, VcenterSession};
use super::inventory::{ResolvedLocation, VcenterInventory};
use super::or_cure;
use crate::store::ProgressWatch;
use winimg_base::error::{Error, Kind, Result};

const OVF: &str = "com/vmware/vcenter/ovf/library-item";
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// Returns the name of the machine for a template.
pub fn name(template: &str) -> String {
    format!("{template}-winimg-source")
}

/// Lists the machines that earlier runs left, by vCenter's IDs.
pub async fn left(
    session: &VcenterSession,
    (spot, template): (&ResolvedLocation, &str),
    watch: &ProgressWatch,
) -> Result<Vec<String>> {
    let inventory = VcenterInventory { session, watch };
    let found = inventory.machines(&spot.folder, &name(template)).await?;
    Ok(found.into_iter().map(|machine| machine.id).collect())
}

/// Deploys a machine from the item; returns vCenter's ID of it.
pub async fn deployed(
    session: &VcenterSession,
    item: &str,
    (spot, template): (&ResolvedLocation, &str),
    networks: &[String],
    watch: &ProgressWatch,
) -> Result<String> {
    let path = format!("{OVF}/id:{item}?~action=deploy");
    // With the same token vCenter repeats its answer, and makes no second machine.
    let token = Uuid::new_v4().to_string();
    let asked = request(&token, spot, &name(template), networks);
    let deployment: OvfDeployment = session
        .patiently(watch, async || session.make_once(&path, &asked).await)
        .await?;
    match deployment.resource_id {
        Some(machine) if deployment.succeeded => Ok(machine.id),
        _ => Err(refused(template, &deployment)),
    }
}

fn request(token: &str, spot: &ResolvedLocation, name: &str, networks: &[String]) -> Value {
    let mut spec = json!({
        "name": name,
        "annotation": "winimg makes a template from this machine, then removes it.",
        "accept_all_EULA": true,
        // The disk is mostly empty.
        "storage_provisioning": "thin",
        "default_datastore_id": spot.datastore,
    });
    if let Some(network) = &spot.network {
        let all = networks.iter();
        let all: Vec<Value> = all.map(|n| json!({ "key": n, "value": network })).collect();
        spec["network_mappings"] = Value::from(all);
    }
    json!({
        "client_token": token,
        "deployment_spec": spec,
        "target": { "resource_pool_id": spot.pool, "folder_id": spot.folder },
    })
}

fn refused(template: &str, deployment: &OvfDeployment) -> Error {
    let fact = format!("vCenter did not deploy the machine for {template}");
    Error::new(Kind::Publish, fact)
        .lines(deployment.complaints())
        .cure(
            "fix that, or use another --cluster, --datastore or --network, and publish again: \
             uploaded files are not sent again",
        )
}

/// Removes a machine once vCenter has finished its other tasks.
pub async fn removed(session: &VcenterSession, id: &str, watch: &ProgressWatch) -> Result<()> {
    let (started, mut wait) = (Instant::now(), FIRST_WAIT);
    let path = format!("vcenter/vm/{id}");
    while !session
        .is_deleted(&path, watch)
        .await
        .map_err(not_removed)?
    {
        if started.elapsed() > COPYING {
            let fact = "the temporary machine of a template is busy, and was not removed";
            return Err(Error::new(Kind::Publish, fact)
                .at(id)
                .cure("check its tasks in vCenter; the same command removes it"));
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
    Ok(())
}

fn not_removed(error: Error) -> Error {
    let ours = name("…");
    or_cure(
        error,
        format!(
            "check the machine {ours} in the template's folder: it is removed before and after a \
             template is made, and never runs"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(network: Option<&str>) -> ResolvedLocation {
        ResolvedLocation {
            folder: "group-v3".into(),
            pool: "resgroup-8".into(),
            datastore: "datastore-5".into(),
            network: network.map(str::to_owned),
        }
    }

    #[test]
    fn every_network_of_the_descriptor_is_the_one_that_is_named() {
        let networks = ["VM Network".to_owned(), "Other".to_owned()];
        let asked = request("t", &spot(Some("network-7")), "m", &networks);
        assert_eq!(
            asked["deployment_spec"]["network_mappings"],
            json!([{ "key": "VM Network", "value": "network-7" }, { "key": "Other", "value": "network-7" }])
        );
        let asked = request("t", &spot(None), "m", &networks);
        assert_eq!(
            asked,
            json!({
                "client_token": "t",
                "deployment_spec": {
                    "name": "m",
                    "annotation": "winimg makes a template from this machine, then removes it.",
                    "accept_all_EULA": true,
                    "storage_provisioning": "thin",
                    "default_datastore_id": "datastore-5",
                },
                "target": { "resource_pool_id": "resgroup-8", "folder_id": "group-v3" },
            })
        );
    }

    #[test]
    fn what_vcenter_says_of_a_deployment_is_shown() {
        let text = r#"{"succeeded": false, "error": {"errors": [
            {"category": "INPUT", "error": {"messages": [{"default_message": "No network."}]}},
            {"category": "VALIDATION", "issues": [{"message": {"default_message": "An unknown\ndevice."}}]}],
            "warnings": [{"message": {"default_message": "Slow."}}]}}"#;
        let deployment: OvfDeployment = serde_json::from_str(text).unwrap();
        let shown = refused("node", &deployment).to_string();
        assert!(
            shown.starts_with(
                "vCenter did not deploy the machine for node\n  | No network.\n  | An unknown"
            ),
            "{shown}"
        );
        assert!(!shown.contains("Slow."), "{shown}");
    }
}
