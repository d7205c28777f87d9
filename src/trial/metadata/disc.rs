//! CD images that carry a clone's metadata: config drive, NoCloud, OVF environment.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use winimg_base::markup::escape_xml;
use winimg_formats::iso::{DiscSource, DiscTree};

use super::{CloneIdentity, openstack};

/// Creates a config drive with OpenStack's layout below `openstack/latest` (OpenStack Nova: user
/// guide, "Config drives").
pub(super) fn config_drive(identity: &CloneIdentity) -> DiscTree {
    let mut tree = DiscTree::new("config-2");
    for name in [
        "meta_data.json",
        "network_data.json",
        "user_data",
        "vendor_data.json",
    ] {
        if let Some(bytes) = openstack::render_file(name, identity) {
            tree.add(format!("openstack/latest/{name}"), DiscSource::Bytes(bytes));
        }
    }
    tree
}

/// Creates a NoCloud disc (cloud-init: reference, "NoCloud") with the given names of the metadata
/// and user data files. The user data file exists even if it is empty.
pub(super) fn no_cloud(identity: &CloneIdentity, [meta_name, user_name]: [&str; 2]) -> DiscTree {
    let mut meta = format!(
        "instance-id: {}\nlocal-hostname: {}\n",
        quote_yaml(&identity.instance),
        quote_yaml(&identity.host_name)
    );
    if !identity.ssh_keys.is_empty() {
        meta += "public-keys:\n";
    }
    for key in &identity.ssh_keys {
        meta += &format!("  - {}\n", quote_yaml(key));
    }
    DiscTree::new("cidata")
        .with_file(meta_name, DiscSource::Bytes(meta.into_bytes()))
        .with_file(
            user_name,
            DiscSource::Bytes(identity.user_data.expose().to_vec()),
        )
}

/// Quotes a string for YAML as JSON, which is valid YAML.
fn quote_yaml(text: &str) -> String {
    Value::from(text).to_string()
}

/// Creates a disc with an OVF environment for the ISO transport (DMTF: DSP0243, 9). It has the
/// properties that cloud-init and cloudbase-init's `ovfservice` read, and VMware's volume label.
pub(super) fn ovf_environment(identity: &CloneIdentity) -> DiscTree {
    let mut values = vec![
        ("instance-id", identity.instance.clone()),
        ("hostname", identity.host_name.clone()),
        ("username", identity.user.clone()),
    ];
    for key in &identity.ssh_keys {
        values.push(("public-keys", key.clone()));
    }
    if !identity.user_data.is_empty() {
        values.push(("user-data", STANDARD.encode(identity.user_data.expose())));
    }
    let properties: String = values
        .iter()
        .map(|(key, value)| {
            let value = escape_xml(value);
            format!("    <Property oe:key=\"{key}\" oe:value=\"{value}\"/>\r\n")
        })
        .collect();
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\r\n\
         <Environment xmlns=\"http://schemas.dmtf.org/ovf/environment/1\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
         xmlns:oe=\"http://schemas.dmtf.org/ovf/environment/1\" oe:id=\"\">\r\n\
         \x20 <PlatformSection>\r\n\
         \x20   <Kind>VMware ESXi</Kind>\r\n\
         \x20   <Version>8.0.0</Version>\r\n\
         \x20   <Vendor>VMware, Inc.</Vendor>\r\n\
         \x20   <Locale>en</Locale>\r\n\
         \x20 </PlatformSection>\r\n\
         \x20 <PropertySection>\r\n{properties}\
         \x20 </PropertySection>\r\n\
         </Environment>\r\n"
    );
    DiscTree::new("OVF ENV").with_file("ovf-env.xml", DiscSource::Bytes(text.into_bytes()))
}
