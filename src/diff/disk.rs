//! Services and Windows packages of a disk.

use super::{DiffFacts, DiffFields, DiffKind};
use crate::verify::{CheckResult, InspectedImage, list_packages, list_services};

/// Collects services and packages; features and updates are packages too.
pub fn collect_facts(image: &InspectedImage<'_>) -> CheckResult<DiffFacts> {
    let mut facts = DiffFacts::new();
    for service in list_services(image)? {
        let fields = [
            ("start", service.start),
            ("path", service.path),
            ("account", service.account),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
        facts.insert((DiffKind::Service, service.name), fields);
    }
    for (name, state) in list_packages(image)? {
        let fields = DiffFields::from([("state".to_owned(), state.to_string())]);
        facts.insert((DiffKind::Package, name), fields);
    }
    Ok(facts)
}
