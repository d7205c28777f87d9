//! Integration services of machines.

use serde_json::{Value, json};

use super::{Context, Outcome};
use crate::object::{Object, Thing};
use crate::refusal::Refusal;
use crate::syntax::{Argument, Bound};

/// Source: Microsoft: Hyper-V Integration Services; the names are those of an English host.
const SERVICES: &[(&str, &str, bool)] = &[
    (
        "Guest Service Interface",
        "6C09BB55-D683-4DA0-8931-C9BF705F6480",
        false,
    ),
    ("Heartbeat", "84EAAE65-2F2E-45F5-9BB5-0E857DC8EB47", true),
    (
        "Key-Value Pair Exchange",
        "2A34B1C2-FD73-4043-8A5B-DD2159BC743F",
        true,
    ),
    ("Shutdown", "9F8233AC-BE49-4C79-8EE3-E7E1985B2077", true),
    (
        "Time Synchronization",
        "2497F4DE-E9FA-4204-80E4-4B75C46419C0",
        true,
    ),
    ("VSS", "5CED1297-4598-4915-A5FC-AD21BB4D02A4", true),
];

pub fn get(context: &mut Context<'_>, call: &Bound) -> Outcome {
    let mut out = Vec::new();
    for id in context.vms(call, "VMName")? {
        let vm = context.vm(&call.cmdlet, &id)?;
        let names: Vec<String> = call.all("Name").iter().map(Argument::shown).collect();
        for (name, guid, on) in SERVICES
            .iter()
            .filter(|(n, ..)| names.is_empty() || names.iter().any(|w| w.trim_matches('\'') == *n))
        {
            let enabled = *on || vm.settings.contains_key(*guid);
            let properties = json!({
                "Name": name, "Id": format!("Microsoft:{}\\{guid}", id.to_uppercase()), "Enabled": enabled, "OperationalStatus": Value::Null,
                "PrimaryOperationalStatus": "Ok", "PrimaryStatusDescription": "OK", "SecondaryStatusDescription": "", "VMId": vm.id, "VMName": vm.name
            });
            let thing = Thing::Service {
                vm: id.clone(),
                id: (*guid).into(),
            };
            out.push(Object::new(thing, properties));
        }
    }
    Ok(out)
}

pub fn enable(context: &mut Context<'_>, call: &Bound) -> Outcome {
    if !call.has("VMIntegrationService") {
        return Err(Refusal::stand_in(
            "services by name: their names are those of the host's language",
        ));
    }
    for thing in call.things("VMIntegrationService") {
        if let Thing::Service { vm, id } = thing {
            context
                .vm(&call.cmdlet, &vm)?
                .settings
                .insert(id, "True".into());
        }
    }
    Ok(Vec::new())
}
