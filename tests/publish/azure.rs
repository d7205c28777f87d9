//! An image that Azure makes: its VHD in Azurite, a managed image and a version in a gallery of a stand-in that reads each request by the
//! models of Azure's own client (`arm.py`). What Azure makes of the disk is not shown here.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};
use support::tree;
use support::unreliable::{Fate, Unreliable};
use tempfile::TempDir;

use crate::export::fixture::sh;
use crate::publish::azurite::{Azurite, KEY, endpoint};
use crate::publish::place::{Place, Python, StuckLine, complained, said};

const GROUP: &str = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/images";
const TO: &str = "azure://11111111-2222-3333-4444-555555555555/images/winimgtests/images/winimg";
const VERSION: &str = "nodes/windows-2022/1.31.4";

/// An account with blobs, and the manager of its resource group.
struct Cloud {
    azurite: Azurite,
    manager: Python,
    _folder: TempDir,
}

impl Cloud {
    fn new() -> Self {
        Self::refusing("")
    }

    /// With words whatever is made ends with them.
    fn refusing(words: &str) -> Self {
        let (azurite, folder) = (Azurite::start(), tempfile::tempdir().expect("a folder"));
        let program = tree::root().join("tests/publish/arm.py");
        let manager = Python::start("python", folder.path(), |port| {
            let mut all = vec![program.to_str().expect("a path").to_owned()];
            all.extend([port.to_string(), endpoint(azurite.port()), KEY.to_owned()]);
            all.extend((!words.is_empty()).then(|| words.to_owned()));
            all
        });
        Self {
            azurite,
            manager,
            _folder: folder,
        }
    }

    /// What there is, by ids.
    fn made(&self) -> Value {
        let url = format!("http://127.0.0.1:{}/made", self.manager.port);
        serde_json::from_str(&sh("curl", &["-sf", &url])).expect("JSON")
    }

    /// A client's secret, with the manager's address behind a line.
    fn variables(&self, manager: u16) -> Variables {
        let address = format!("http://127.0.0.1:{manager}");
        let mut all = self.places(&address);
        all.extend(
            [
                ("AZURE_AUTHORITY_HOST", address.as_str()),
                ("AZURE_TENANT_ID", "tenant"),
                ("AZURE_CLIENT_ID", "winimg"),
                ("AZURE_CLIENT_SECRET", "hunter2-of-the-client"),
            ]
            .map(owned),
        );
        all
    }

    fn places(&self, manager: &str) -> Variables {
        let blobs = endpoint(self.azurite.port());
        [
            ("AZURE_STORAGE_KEY", KEY),
            ("AZURE_STORAGE_SERVICE_ENDPOINT", blobs.as_str()),
            ("AZURE_RESOURCE_MANAGER_ENDPOINT", manager),
            // No machine of Azure's.
            ("AZURE_IMDS_ENDPOINT", "http://127.0.0.1:9/token"),
        ]
        .map(owned)
        .to_vec()
    }
}

type Variables = Vec<(String, String)>;

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn borrowed(variables: &Variables) -> Vec<(&str, &str)> {
    let pairs = variables.iter();
    pairs
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

fn disk(place: &Place) -> String {
    let digest = winimg_base::io::compute_sha256(&place.path("demo.vhd"));
    digest.expect("a digest").0.hex()
}

#[test]
fn an_image_is_made_once_over_a_line_that_fails() {
    let (place, cloud) = (Place::new(), Cloud::new());
    let line = Unreliable::every_third(cloud.manager.port);
    let variables = cloud.variables(line.port);
    let first = place.publish(&["--to", TO], &borrowed(&variables));
    insta::assert_snapshot!("azure", said(&first));
    assert!(!(said(&first) + &complained(&first)).contains("hunter2"));
    let id = format!("{GROUP}/providers/Microsoft.Compute/images/demo");
    let blob = format!("{}/images/winimg/demo.vhd", endpoint(cloud.azurite.port()));
    let expected = json!({
        "location": "westeurope",
        "tags": {"winimg-sha256": disk(&place), "winimg-build": "20348.2113"},
        "properties": {
            "hyperVGeneration": "V2",
            "storageProfile": {"osDisk": {"osType": "Windows", "osState": "Generalized", "blobUri": blob}},
        },
        "state": "Succeeded",
    });
    assert_eq!(cloud.made(), json!({ id.as_str(): expected }));
    assert_eq!(
        place.published()["publications"][0]["objects"][1]["id"],
        *id
    );

    let again = place.publish(&["--to", TO], &borrowed(&variables));
    let lines = said(&again);
    assert!(lines.contains(": 0 done, 2 already there\n"), "{lines}");
}

#[test]
fn a_version_is_made_in_regions_and_never_replaced() {
    let (place, cloud) = (Place::new(), Cloud::new());
    let variables = cloud.variables(cloud.manager.port);
    let variables = borrowed(&variables);
    let all = [
        "--to",
        TO,
        "--gallery",
        VERSION,
        "--copy-to",
        "northeurope,westeurope",
        "--replicas",
        "3",
    ];
    let first = place.publish(&all, &variables);
    insta::assert_snapshot!("azure_version", said(&first));
    let id = format!(
        "{GROUP}/providers/Microsoft.Compute/galleries/nodes/images/windows-2022/versions/1.31.4"
    );
    let made = cloud.made();
    let made = &made[&id];
    assert_eq!(made["state"], "Succeeded");
    assert_eq!(
        made["properties"]["publishingProfile"]["targetRegions"],
        json!([
            {"name": "westeurope", "regionalReplicaCount": 3},
            {"name": "northeurope", "regionalReplicaCount": 3},
        ])
    );

    // Another disk, in another folder.
    let other = Place::other();
    let elsewhere = format!("{TO}/other");
    let all = ["--to", &elsewhere, "--gallery", VERSION, "--replace"];
    let refused = other.publish(&all, &variables);
    let wrong = ["--to", TO, "--gallery", "nodes/old/1.0.0"];
    let generation = place.publish(&wrong, &variables);
    let absent = ["--to", TO, "--gallery", "nodes/none/1.0.0"];
    let absent = place.publish(&absent, &variables);
    let all = [refused, generation, absent].map(|output| {
        assert_eq!(output.status.code(), Some(15));
        complained(&output)
    });
    insta::assert_snapshot!("azure_version_refused", all.join("\n"));
}

#[test]
fn an_image_of_another_disk_is_replaced_when_that_is_asked_for() {
    let (place, other, cloud) = (Place::new(), Place::other(), Cloud::new());
    let variables = cloud.variables(cloud.manager.port);
    let variables = borrowed(&variables);
    said(&place.publish(&["--to", TO], &variables));
    let elsewhere = format!("{TO}/other");
    let refused = other.publish(&["--to", &elsewhere], &variables);
    assert_eq!(refused.status.code(), Some(15));
    let complaint = complained(&refused);
    let found = format!("demo: an image of a disk with SHA-256 {}", disk(&place));
    assert!(complaint.contains(&found), "{complaint}");
    said(&other.publish(&["--to", &elsewhere, "--replace"], &variables));
    let id = format!("{GROUP}/providers/Microsoft.Compute/images/demo");
    assert_eq!(cloud.made()[&id]["tags"]["winimg-sha256"], *disk(&other));
}

#[test]
fn what_was_begun_is_waited_for_after_a_kill() {
    let (place, cloud) = (Place::new(), Cloud::new());
    let was_put = AtomicBool::new(false);
    // From then on nothing is heard of it.
    let stuck = StuckLine::start(cloud.manager.port, move |request| {
        let is_put = request.starts_with("PUT ");
        was_put.fetch_or(is_put, Ordering::SeqCst) && !is_put
    });
    let variables = cloud.variables(stuck.line.port);
    stuck.kill(place.command(&["--to", TO], &borrowed(&variables)));

    let puts = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&puts);
    let line = Unreliable::start(cloud.manager.port, move |_, request| {
        counter.fetch_add(usize::from(request.starts_with("PUT ")), Ordering::SeqCst);
        Fate::Pass
    });
    let output = place.publish(&["--to", TO], &borrowed(&cloud.variables(line.port)));
    let lines = said(&output);
    assert!(lines.contains(": 1 done, 1 already there\n"), "{lines}");
    assert!(
        complained(&output).contains("demo: waiting for an earlier run's operation"),
        "{}",
        complained(&output)
    );
    assert_eq!(puts.load(Ordering::SeqCst), 0);
}

#[test]
fn what_azure_refuses_is_named_with_its_words() {
    let (place, cloud) = (
        Place::new(),
        Cloud::refusing("The disk's signature is not one."),
    );
    let variables = cloud.variables(cloud.manager.port);
    let complaint = |to: &str, more: &[(&str, &str)]| {
        let mut all = borrowed(&variables);
        all.extend(more);
        let output = place.publish(&["--to", to], &all);
        assert_eq!(output.status.code(), Some(15));
        let text = complained(&output).replace(&cloud.manager.port.to_string(), "PORT");
        assert!(!text.contains("hunter2"), "{text}");
        text[text.find("error:").expect("an error")..].to_owned()
    };
    let all = [
        complaint(TO, &[]),
        complaint(TO, &[("AZURE_CLIENT_SECRET", "hunter2-of-another")]),
        complaint(
            &TO.replace("/images/winimgtests/", "/none/winimgtests/"),
            &[],
        ),
        complaint(&TO.replace("/winimgtests/", "/others/"), &[]),
    ];
    insta::assert_snapshot!("azure_refused", all.join("\n"));
    assert!(!place.path("published.json").exists());
}

#[test]
fn tokens_come_from_each_link_of_the_chain() {
    let (place, cloud) = (Place::new(), Cloud::new());
    let address = format!("http://127.0.0.1:{}", cloud.manager.port);
    let plan = |more: &[(&str, &str)]| {
        let places = cloud.places(&address);
        let mut all = borrowed(&places);
        all.extend(more);
        let output = place.publish(&["--to", TO, "--dry-run"], &all);
        assert!(said(&output).contains("image demo"), "{}", said(&output));
    };
    let metadata = format!("{address}/metadata/identity/oauth2/token");
    plan(&[("AZURE_IMDS_ENDPOINT", &metadata)]);

    let token = place.path("token");
    fs::write(&token, "hunter2-of-the-workload").expect("a token");
    plan(&[
        ("AZURE_AUTHORITY_HOST", &address),
        ("AZURE_TENANT_ID", "tenant"),
        ("AZURE_CLIENT_ID", "winimg"),
        (
            "AZURE_FEDERATED_TOKEN_FILE",
            token.to_str().expect("a path"),
        ),
    ]);

    // `az`, which is asked for the manager's token.
    let programs = tempfile::tempdir().expect("a folder");
    let az = programs.path().join("az");
    let text = format!(
        "#!/bin/sh\n[ \"$*\" = \"account get-access-token --resource {address}/ --output json\" ] || exit 1\n\
         echo '{{\"accessToken\": \"hunter2-for-the-manager\", \"expires_on\": 4102444800, \"tokenType\": \"Bearer\"}}'\n"
    );
    fs::write(&az, text).expect("a program");
    fs::set_permissions(&az, fs::Permissions::from_mode(0o755)).expect("a program");
    let path = std::env::var("PATH").unwrap_or_default();
    plan(&[("PATH", &format!("{}:{path}", programs.path().display()))]);
}

#[test]
fn what_has_no_place_in_azure_is_refused_before_it_is_asked() {
    let place = Place::new();
    let refused = |arguments: &[&str]| place.refused(arguments, &[]);
    let all = [
        refused(&["--to", TO, "--only", "vhd"]),
        refused(&["--to", TO, "--copy-to", "westeurope"]),
        refused(&["--to", TO, "--share", "123456789012"]),
        refused(&["--to", TO, "--replicas", "2"]),
        refused(&["--to", TO, "--gallery", "nodes/windows-2022/latest"]),
        refused(&["--to", "s3://images", "--gallery", VERSION]),
        refused(&["--to", "azure://mine/images/winimgtests/images"]),
    ];
    insta::assert_snapshot!("azure_foreign", all.join("\n"));
}
