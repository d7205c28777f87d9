//! The machine that a template is made of: deployed from the item of the OVA, and removed. (vSphere Automation API: ovf library item, vm)
//!
//! It is known by its name and its folder alone, so a machine that a run left is found by the next one, which removes it: vCenter does
//! not say whether all of its disk came. Starts none.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uuid::Uuid;

use super::super::answers::Deployment;
use super::super::session::{COPYING, Session};
use super::inventory::{Inventory, Spot};
use super::or_cure;
use crate::store::Watch;
use winimg_base::error::{Error, Kind, Result};

const OVF: &str = "com/vmware/vcenter/ovf/library-item";
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// The machine of the template of this name.
pub fn name(template: &str) -> String {
    format!("{template}-winimg-source")
}

/// The machines that earlier runs left, by vCenter's names.
pub async fn left(
    session: &Session,
    (spot, template): (&Spot, &str),
    watch: &Watch,
) -> Result<Vec<String>> {
    let inventory = Inventory { session, watch };
    let found = inventory.machines(&spot.folder, &name(template)).await?;
    Ok(found.into_iter().map(|machine| machine.id).collect())
}

/// vCenter's name of a new machine of the item.
pub async fn deployed(
    session: &Session,
    item: &str,
    (spot, template): (&Spot, &str),
    networks: &[String],
    watch: &Watch,
) -> Result<String> {
    let path = format!("{OVF}/id:{item}?~action=deploy");
    // With the same token vCenter answers again what it answered, and makes no second machine.
    let token = Uuid::new_v4().to_string();
    let asked = request(&token, spot, &name(template), networks);
    let deployment: Deployment = session
        .patiently(watch, async || session.make_once(&path, &asked).await)
        .await?;
    match deployment.resource_id {
        Some(machine) if deployment.succeeded => Ok(machine.id),
        _ => Err(refused(template, &deployment)),
    }
}

fn request(token: &str, spot: &Spot, name: &str, networks: &[String]) -> Value {
    let mut spec = json!({
        "name": name,
        "annotation": "A template is made of it by winimg, which then removes it.",
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

fn refused(template: &str, deployment: &Deployment) -> Error {
    let fact = format!("vCenter did not deploy the machine that {template} is made of");
    Error::new(Kind::Publish, fact)
        .lines(deployment.complaints())
        .cure("mend that, or name another --cluster, --datastore or --network, and publish it again: what was sent is not sent again")
}

/// Removes a machine, as soon as vCenter has done with it what else it does.
pub async fn removed(session: &Session, id: &str, watch: &Watch) -> Result<()> {
    let (begun, mut wait) = (Instant::now(), FIRST_WAIT);
    let path = format!("vcenter/vm/{id}");
    while !session
        .is_deleted(&path, watch)
        .await
        .map_err(not_removed)?
    {
        if begun.elapsed() > COPYING {
            let fact = "the machine that a template is made of is busy, and was not removed";
            return Err(Error::new(Kind::Publish, fact)
                .at(id)
                .cure("look at its tasks in vCenter; the same command removes it"));
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
            "look at the machine {ours} in the template's folder: it is removed before and after a template is made, and never runs"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(network: Option<&str>) -> Spot {
        Spot {
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
                    "annotation": "A template is made of it by winimg, which then removes it.",
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
        let deployment: Deployment = serde_json::from_str(text).unwrap();
        let shown = refused("node", &deployment).to_string();
        assert!(
            shown.starts_with(
                "vCenter did not deploy the machine that node is made of\n  | No network.\n  | An unknown"
            ),
            "{shown}"
        );
        assert!(!shown.contains("Slow."), "{shown}");
    }
}
