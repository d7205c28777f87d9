//! `kubectl get nodes -o json`, read as far as a proof needs it. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::proof::Node;

/// # Errors
/// What is missing in the document.
pub fn read(document: &str) -> Result<Vec<Node>, String> {
    let value: Value = serde_json::from_str(document).map_err(|e| e.to_string())?;
    let node = |item: &Value| {
        let info = &item["status"]["nodeInfo"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let conditions = item["status"]["conditions"].as_array();
        let conditions = conditions.into_iter().flatten();
        let conditions: Option<BTreeMap<String, String>> = conditions
            .map(|condition| Some((text(&condition["type"])?, text(&condition["status"])?)))
            .collect();
        Some(Node {
            name: text(&item["metadata"]["name"])?,
            system: text(&info["operatingSystem"])?,
            image: text(&info["osImage"])?,
            kubelet: text(&info["kubeletVersion"])?,
            conditions: conditions?,
        })
    };
    let all = value["items"].as_array().map(|items| items.iter());
    let all = all.and_then(|items| items.map(node).collect());
    all.ok_or_else(|| "this is no list of nodes".to_owned())
}

/// Adds what is seen now of the nodes with these names. Once a machine is off, the control plane alone says that nothing is known of it:
/// that takes the place of nothing that its kubelet said.
pub fn note(seen: &mut BTreeMap<String, Node>, now: Vec<Node>, names: &[&str]) {
    for node in now {
        let is_silent = node.conditions.get("Ready").is_some_and(|r| r == "Unknown");
        let is_ours = names.contains(&node.name.as_str());
        if is_ours && !(is_silent && seen.contains_key(&node.name)) {
            seen.insert(node.name.clone(), node);
        }
    }
}
