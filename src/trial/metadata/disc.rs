//! The discs that hold all of a clone's metadata.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use winimg_base::markup::escape_xml;
use winimg_formats::iso::{Source, Tree};

use super::{Identity, openstack};

/// OpenStack's layout below `openstack/latest` (OpenStack Nova: user guide, "Config drives").
pub(super) fn config_drive(identity: &Identity) -> Tree {
    let mut tree = Tree::new("config-2");
    for name in [
        "meta_data.json",
        "network_data.json",
        "user_data",
        "vendor_data.json",
    ] {
        if let Some(bytes) = openstack::file(name, identity) {
            tree.add(format!("openstack/latest/{name}"), Source::Bytes(bytes));
        }
    }
    tree
}

/// cloud-init: reference, "NoCloud". Its user data is a file also where it is empty. The names are those of metadata and user data.
pub(super) fn no_cloud(identity: &Identity, [meta_name, user_name]: [&str; 2]) -> Tree {
    // JSON's strings are YAML's, too.
    let quoted = |text: &str| Value::from(text).to_string();
    let mut meta = format!(
        "instance-id: {}\nlocal-hostname: {}\n",
        quoted(&identity.instance),
        quoted(&identity.host_name)
    );
    if !identity.ssh_keys.is_empty() {
        meta += "public-keys:\n";
    }
    for key in &identity.ssh_keys {
        meta += &format!("  - {}\n", quoted(key));
    }
    Tree::new("cidata")
        .file(meta_name, Source::Bytes(meta.into_bytes()))
        .file(
            user_name,
            Source::Bytes(identity.user_data.expose().to_vec()),
        )
}

/// The environment file of an OVF's ISO transport (DMTF: DSP0243, 9), with the properties that cloud-init and cloudbase-init's
/// `ovfservice` know. The label is VMware's.
pub(super) fn ovf_environment(identity: &Identity) -> Tree {
    let mut properties = String::new();
    let mut property = |key: &str, value: &str| {
        properties += &format!(
            "    <Property oe:key=\"{key}\" oe:value=\"{}\"/>\r\n",
            escape_xml(value)
        );
    };
    property("instance-id", &identity.instance);
    property("hostname", &identity.host_name);
    property("username", &identity.user);
    for key in &identity.ssh_keys {
        property("public-keys", key);
    }
    if !identity.user_data.is_empty() {
        property("user-data", &STANDARD.encode(identity.user_data.expose()));
    }
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
    Tree::new("OVF ENV").file("ovf-env.xml", Source::Bytes(text.into_bytes()))
}
