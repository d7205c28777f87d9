//! What a disk says of an image: its services and the packages of Windows' servicing.

use super::{Facts, Fields, Kind};
use crate::verify::{Answer, Image, packages, services};

/// Features and updates are packages: their names have both.
pub fn facts(image: &Image<'_>) -> Answer<Facts> {
    let mut facts = Facts::new();
    for service in services(image)? {
        let fields = [
            ("start", service.start),
            ("path", service.path),
            ("account", service.account),
        ];
        let said = fields.into_iter().filter(|(_, value)| !value.is_empty());
        let fields = said.map(|(name, value)| (name.to_owned(), value)).collect();
        facts.insert((Kind::Service, service.name), fields);
    }
    for (name, state) in packages(image)? {
        let fields = Fields::from([("state".to_owned(), state.to_string())]);
        facts.insert((Kind::Package, name), fields);
    }
    Ok(facts)
}
