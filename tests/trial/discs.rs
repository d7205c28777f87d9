//! The discs as whole texts, and as Windows sees them.

use std::net::Ipv4Addr;

use support::media::{have, run, text};
use support::tree;
use winimg::answer;
use winimg::trial::metadata::{
    CloneIdentity, MetadataEndpoint, MetadataService, NETWORK, create_disc,
};
use winimg_formats::iso::{self, DiscSource, DiscTree};
use winimg_formats::udf::Medium;
use winimg_recipe::target::MetadataForm;

use super::{USER_DATA, bare, identity};

fn made(form: MetadataForm, identity: &CloneIdentity) -> DiscTree {
    create_disc(form, identity).unwrap()
}

fn bytes<'a>(tree: &'a DiscTree, path: &str) -> &'a [u8] {
    match tree.get(path) {
        Some(DiscSource::Bytes(bytes)) => bytes,
        other => panic!("{path}: {other:?}"),
    }
}

/// Every file but the user data, one after the other.
fn shown(form: MetadataForm) -> String {
    let tree = made(form, &identity());
    let mut shown = String::new();
    for path in tree.paths() {
        let bytes = bytes(&tree, path);
        let body = if bytes == USER_DATA {
            "(the user data)\n".into()
        } else {
            String::from_utf8(bytes.to_vec()).unwrap().replace('\r', "")
        };
        shown += &format!("== {path}\n{body}\n");
    }
    shown
}

#[test]
fn a_config_drive() {
    insta::assert_snapshot!(shown(MetadataForm::ConfigDrive));
}

#[test]
fn a_nocloud_disc() {
    insta::assert_snapshot!(shown(MetadataForm::NoCloud));
}

#[test]
fn an_ovf_environment() {
    insta::assert_snapshot!(shown(MetadataForm::OvfEnvironment));
}

#[test]
fn a_provisioning_disc_of_azure() {
    insta::assert_snapshot!(shown(MetadataForm::Azure));
}

/// By the rules that winimg has for answer files of clones.
#[test]
fn the_answer_file_of_azures_disc_is_one() {
    let tree = made(MetadataForm::Azure, &identity());
    let text = std::str::from_utf8(bytes(&tree, "Unattend.xml")).unwrap();
    let found = answer::lint_clone("Unattend.xml", text);
    assert!(found.0.is_empty(), "{found:?}");
    let long = |line: &&str| line.contains("<Path>") && line.trim().len() > 259;
    assert_eq!(text.lines().find(long), None);
}

#[test]
fn proxmox_spells_nocloud_as_iso_9660_does() {
    let plain = made(MetadataForm::NoCloud, &identity());
    let upper = made(MetadataForm::NoCloudUpperCase, &identity());
    assert_eq!(
        upper.paths().collect::<Vec<_>>(),
        ["META_DATA", "USER_DATA"]
    );
    for (upper_name, name) in [("META_DATA", "meta-data"), ("USER_DATA", "user-data")] {
        assert_eq!(bytes(&upper, upper_name), bytes(&plain, name));
    }
}

#[test]
fn what_a_clone_is_not_given_is_not_there() {
    let paths = |form: MetadataForm| -> Vec<String> {
        let tree = made(form, &bare());
        tree.paths().map(str::to_owned).collect()
    };
    assert!(
        !paths(MetadataForm::ConfigDrive)
            .iter()
            .any(|p| p.ends_with("user_data"))
    );
    assert_eq!(
        paths(MetadataForm::Azure),
        [
            "E6DA6616-8EC4-48E0-BE93-58CE6ACE3CFB.tag",
            "Unattend.xml",
            "ovf-env.xml",
            "winimg/SetupComplete.cmd",
            "winimg/provision.cmd"
        ]
    );
    let tree = made(MetadataForm::Azure, &bare());
    let environment = String::from_utf8_lossy(bytes(&tree, "ovf-env.xml")).into_owned();
    assert!(!environment.contains("CustomData"), "{environment}");
    let tree = made(MetadataForm::NoCloud, &bare());
    assert_eq!(
        String::from_utf8_lossy(bytes(&tree, "meta-data")),
        "instance-id: \"0c2f1d0e-0b7a-4d52-9a64-6e1a5e2f7a31\"\nlocal-hostname: \"clone-a\"\n"
    );
    // cloud-init takes the disc for NoCloud's only with both files.
    assert_eq!(bytes(&tree, "user-data"), b"");
}

#[test]
fn a_form_is_a_disc_or_a_service_and_azure_is_both() {
    let has = |form: MetadataForm| {
        let service = MetadataService::from_form(form, &identity());
        (create_disc(form, &identity()).is_some(), service.is_some())
    };
    for form in MetadataForm::ALL {
        let expected = match form {
            MetadataForm::Azure => (true, true),
            MetadataForm::OpenStack | MetadataForm::Ec2 | MetadataForm::Ec2TokensOptional => {
                (false, true)
            }
            MetadataForm::None => (false, false),
            MetadataForm::ConfigDrive
            | MetadataForm::NoCloud
            | MetadataForm::NoCloudUpperCase
            | MetadataForm::OvfEnvironment => (true, false),
        };
        assert_eq!(has(form), expected, "{form:?}");
    }
}

/// docs/try.md, "The forms", in the words of a target's file.
#[test]
fn every_form_that_a_target_can_name_is_described() {
    let text = std::fs::read_to_string(tree::root().join("docs/try.md")).unwrap();
    let (_, forms) = text.split_once("## The forms").unwrap();
    let (forms, _) = forms.split_once("\n#### ").unwrap();
    let rows = forms.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut described: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    described.push("none");
    let known = MetadataForm::ALL.map(|form| serde_json::to_value(form).unwrap());
    assert_eq!(described, known);
}

/// As it is written: by the label and the names that an agent looks for, and the same bytes each time.
#[test]
fn the_discs_have_the_labels_and_names_of_their_platforms() {
    let dir = tempfile::tempdir().unwrap();
    for (form, label, file) in [
        (
            MetadataForm::ConfigDrive,
            "config-2",
            "openstack/latest/meta_data.json",
        ),
        (MetadataForm::NoCloud, "cidata", "meta-data"),
        (MetadataForm::NoCloudUpperCase, "cidata", "META_DATA"),
        (MetadataForm::OvfEnvironment, "OVF ENV", "ovf-env.xml"),
        (
            MetadataForm::Azure,
            "AZURE_PROVISION",
            "E6DA6616-8EC4-48E0-BE93-58CE6ACE3CFB.tag",
        ),
    ] {
        let path = dir.path().join(format!("{form:?}"));
        iso::write(&made(form, &identity()), &path).unwrap();
        let medium = Medium::open(&path).unwrap();
        assert_eq!(medium.label, label);
        assert!(medium.find(file).unwrap().is_some(), "{file}");
        if have(&["blkid"]) {
            let said = run("blkid", &["-p", "-o", "value", "-s", "LABEL", text(&path)]);
            assert_eq!(said.trim_end(), label);
        }
    }
}

/// What `NETWORK` promises.
#[test]
fn every_address_is_in_the_clones_network() {
    let (net, bits) = NETWORK.split_once('/').unwrap();
    let mask = u32::MAX << (32 - bits.parse::<u32>().unwrap());
    let net = net.parse::<Ipv4Addr>().unwrap().to_bits();
    for endpoint in [MetadataEndpoint::Metadata, MetadataEndpoint::WireServer] {
        assert_eq!(endpoint.address().ip().to_bits() & mask, net);
    }
}
