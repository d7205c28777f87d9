//! An independent judge: the real cloudbase-init, from PyPI, reads what clones are given.
//!
//! `cloudbase_init.py` stands in for what Windows does below it, and for nothing of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use support::media::{have, run, text};
use support::tree;
use winimg::trial::metadata::server::MetadataServer;
use winimg::trial::metadata::{
    CloneIdentity, CloneReport, MetadataRequest, MetadataService, create_disc,
};
use winimg_formats::iso;
use winimg_recipe::target::MetadataForm;

use super::{KEYS, USER_DATA, bare, identity};

struct Judged {
    answers: Value,
    asked: Vec<MetadataRequest>,
    reports: Vec<CloneReport>,
}

impl Judged {
    fn statuses(&self) -> BTreeMap<String, u16> {
        let asked = self.asked.iter();
        asked
            .map(|a| (format!("{} {}", a.method, a.target), a.status))
            .collect()
    }
}

/// What `service` makes of a form, a class of cloudbase-init or of a pack. `None` where something is missing to find out.
fn judge(
    service: &str,
    form: MetadataForm,
    identity: &CloneIdentity,
    settings: &[&str],
) -> Option<Judged> {
    if !have(&["python3", "7z", "blkid"]) {
        return None;
    }
    static MADE: OnceLock<()> = OnceLock::new();
    MADE.get_or_init(|| {
        run(text(&tree::root().join("tests/record/venv.sh")), &[]);
    });
    let dir = tempfile::tempdir().unwrap();
    let drives: Vec<Value> = create_disc(form, identity)
        .map(|disc| drive(&disc, dir.path()))
        .into_iter()
        .collect();
    let server = MetadataService::from_form(form, identity)
        .map(|service| MetadataServer::open(service, dir.path()).unwrap());
    let sockets: BTreeMap<String, &Path> = server
        .iter()
        .flat_map(MetadataServer::sockets)
        .map(|(at, path)| (at.address().to_string(), path.as_path()))
        .collect();
    let ask = json!({
        "drives": drives,
        "sockets": sockets,
        "settings": settings,
        // Microsoft's DHCP names the wire server in option 245.
        "dhcp": { "245": "168.63.129.16" },
    });
    let file = dir.path().join("ask.json");
    std::fs::write(&file, ask.to_string()).unwrap();
    let output = Command::new(tree::root().join("target/record-venv/bin/python"))
        .arg(tree::root().join("tests/trial/cloudbase_init.py"))
        .arg(service)
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Some(Judged {
        answers: serde_json::from_slice(&output.stdout).expect(&said),
        asked: server
            .iter()
            .flat_map(MetadataServer::list_requests)
            .collect(),
        reports: server
            .iter()
            .flat_map(MetadataServer::list_reports)
            .collect(),
    })
}

/// The disc as others read it: 7-Zip its files, libblkid its label.
fn drive(disc: &iso::DiscTree, dir: &Path) -> Value {
    let (file, folder) = (dir.join("disc.iso"), dir.join("drive"));
    iso::write(disc, &file).unwrap();
    run(
        "7z",
        &["x", "-bd", &format!("-o{}", text(&folder)), text(&file)],
    );
    let label = run("blkid", &["-p", "-o", "value", "-s", "LABEL", text(&file)]);
    json!({ "folder": folder, "label": label.trim_end() })
}

/// Of every form: what it has no place for is `null`.
fn assert_understood(answers: &Value, user: Option<&str>, instance: &str) {
    assert_eq!(answers["loaded"], true);
    assert_eq!(answers["host_name"], "clone-a");
    assert_eq!(answers["user"], json!(user));
    assert_eq!(answers["instance"], instance);
    assert_eq!(answers["user_data"], STANDARD.encode(USER_DATA));
}

fn keys(answers: &Value) -> Vec<&str> {
    let keys = answers["keys"].as_array().expect("keys");
    let mut keys: Vec<&str> = keys.iter().map(|k| k.as_str().unwrap()).collect();
    // OpenStack's come in no order.
    keys.sort_unstable();
    keys
}

fn own_keys() -> Vec<&'static str> {
    let mut keys = KEYS.to_vec();
    keys.sort_unstable();
    keys
}

const CDROM: [&str; 3] = ["[config_drive]", "types=iso", "locations=cdrom"];

#[test]
fn it_reads_a_config_drive() {
    let service = "configdrive.ConfigDriveService";
    let Some(judged) = judge(service, MetadataForm::ConfigDrive, &identity(), &CDROM) else {
        return;
    };
    assert_understood(&judged.answers, Some("capi"), &identity().instance);
    assert_eq!(keys(&judged.answers), own_keys());
    let network = "NetworkDetailsV2(links=[], networks=[], services=[])";
    assert_eq!(judged.answers["network"], network);
    let judged = judge(service, MetadataForm::ConfigDrive, &bare(), &CDROM).unwrap();
    assert_eq!(judged.answers["user_data"], "not there");
    assert_eq!(judged.answers["keys"], json!([]));
}

#[test]
fn it_reads_nocloud_by_its_own_names_and_by_proxmox() {
    let service = "nocloudservice.NoCloudConfigDriveService";
    let renamed = [
        &CDROM[..],
        &[
            "[nocloud]",
            "metadata_file=META_DATA",
            "userdata_file=USER_DATA",
        ],
    ]
    .concat();
    let (plain, upper) = (MetadataForm::NoCloud, MetadataForm::NoCloudUpperCase);
    for (form, settings) in [(plain, &CDROM[..]), (upper, &renamed[..])] {
        let Some(judged) = judge(service, form, &identity(), settings) else {
            return;
        };
        assert_understood(&judged.answers, None, &identity().instance);
        assert_eq!(keys(&judged.answers), own_keys());
    }
    // An image whose configuration has the names of cloud-init alone finds nothing on Proxmox.
    let judged = judge(service, upper, &identity(), &CDROM).unwrap();
    assert_eq!(judged.answers, json!({ "loaded": false }));
    let judged = judge(service, plain, &bare(), &CDROM).unwrap();
    assert_eq!(judged.answers["user_data"], "");
}

#[test]
fn it_reads_an_ovf_environment() {
    let service = "ovfservice.OvfService";
    let Some(judged) = judge(service, MetadataForm::OvfEnvironment, &identity(), &[]) else {
        return;
    };
    assert_understood(&judged.answers, Some("capi"), &identity().instance);
    assert_eq!(keys(&judged.answers), own_keys());
    let judged = judge(service, MetadataForm::OvfEnvironment, &bare(), &[]).unwrap();
    assert_eq!(judged.answers["user_data"], json!(null));
}

#[test]
fn it_asks_openstacks_service_and_leaves_its_password_there() {
    let Some(judged) = judge(
        "httpservice.HttpService",
        MetadataForm::OpenStack,
        &identity(),
        &[],
    ) else {
        return;
    };
    assert_understood(&judged.answers, Some("capi"), &identity().instance);
    assert_eq!(keys(&judged.answers), own_keys());
    assert_eq!(judged.answers["can_post_password"], true);
    assert_eq!(judged.answers["password_before"], false);
    assert_eq!(judged.answers["password_posted"], true);
    assert_eq!(judged.answers["password_after"], true);
    assert_eq!(judged.reports, [CloneReport::EncryptedPassword]);
    assert!(
        judged.statuses().values().all(|s| *s == 200),
        "{:?}",
        judged.statuses()
    );
}

#[test]
fn it_asks_ec2s_service() {
    let form = MetadataForm::Ec2TokensOptional;
    let Some(judged) = judge("ec2service.EC2Service", form, &identity(), &[]) else {
        return;
    };
    let instance = judged.answers["instance"].as_str().unwrap().to_owned();
    assert!(instance.starts_with("i-"), "{instance}");
    assert_understood(&judged.answers, None, &instance);
    assert_eq!(keys(&judged.answers), own_keys());
    assert!(
        judged.statuses().values().all(|s| *s == 200),
        "{:?}",
        judged.statuses()
    );
}

/// cloudbase-init 1.1.9 asks for no token: an instance with `HttpTokens=required` stays without its metadata.
#[test]
fn it_gets_nothing_from_ec2_where_tokens_are_required() {
    let form = MetadataForm::Ec2;
    let Some(judged) = judge("ec2service.EC2Service", form, &identity(), &[]) else {
        return;
    };
    assert_eq!(judged.answers, json!({ "loaded": false }));
    let refused = BTreeMap::from([("GET /2009-04-04/meta-data/local-hostname".to_owned(), 401)]);
    assert_eq!(judged.statuses(), refused);
}

#[test]
fn it_is_provisioned_by_azure() {
    let Some(judged) = judge(
        "azureservice.AzureService",
        MetadataForm::Azure,
        &identity(),
        &[],
    ) else {
        return;
    };
    let answers = &judged.answers;
    let instance = answers["instance"].as_str().unwrap().to_owned();
    assert!(instance.ends_with("._clone-a"), "{instance}");
    assert_understood(answers, Some("capi"), &instance);
    assert_eq!(answers["keys"], json!(null));
    assert_eq!(answers["password"], identity().password.expose());
    assert_eq!(answers["agent"]["provision"], false);
    assert_eq!(answers["kms"], "kms.core.windows.net");
    assert_eq!(
        (&answers["avma"], &answers["updates"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(
        (&answers["certificates"], &answers["winrm"]),
        (&json!([]), &json!([]))
    );
    assert_eq!(
        (&answers["environment"], &answers["shared"]),
        (&json!("1.0.0.0"), &json!("1.0.0.0"))
    );
    let health = |state: &str, sub: Option<&str>, description: Option<&str>| CloneReport::Health {
        state: state.into(),
        sub_status: sub.map(str::to_owned),
        description: description.map(str::to_owned),
    };
    assert_eq!(
        judged.reports,
        [
            CloneReport::Property {
                name: "CertificateThumbprint".into(),
                value: "0123456789ABCDEF0123456789ABCDEF01234567".into(),
            },
            health(
                "NotReady",
                Some("Provisioning"),
                Some("Cloudbase-Init is preparing your computer for first use..."),
            ),
            health("Ready", None, None),
        ]
    );
    assert!(
        judged.statuses().values().all(|s| *s == 200),
        "{:?}",
        judged.statuses()
    );
    let judged = judge(
        "azureservice.AzureService",
        MetadataForm::Azure,
        &bare(),
        &[],
    )
    .unwrap();
    assert_eq!(judged.answers["user_data"], "not there");
}

/// The pack's service after the disc's answer file has run: the clone has its name and its identifier, and the custom data lie on C:.
#[test]
fn a_packs_service_hands_on_what_azures_agent_leaves() {
    let service = "azure_custom_data.CustomDataService";
    let Some(judged) = judge(service, MetadataForm::Azure, &identity(), &[]) else {
        return;
    };
    let instance = judged.answers["instance"].as_str().unwrap().to_owned();
    assert_understood(&judged.answers, None, &instance);
    assert_eq!(
        uuid::Uuid::parse_str(&instance).unwrap().to_string(),
        instance.to_lowercase()
    );
    assert_eq!(judged.answers["keys"], json!(null));
    assert_eq!((judged.asked, judged.reports), (Vec::new(), Vec::new()));
    let judged = judge(service, MetadataForm::Azure, &bare(), &[]).unwrap();
    assert_eq!(judged.answers, json!({ "loaded": false }));
}
