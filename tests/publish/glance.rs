//! An image in OpenStack: a strict stand-in for Keystone and Glance (`glance.py`). What a real cloud makes of it, and Nova of the image's
//! properties, is not shown here.

use std::fs;
use std::process::{Command, Output};
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use support::tree;
use support::unreliable::{Fate, Unreliable};
use tempfile::TempDir;

use crate::publish::place::{Place, Python, complained, said};

const TO: &str = "glance://node-1.31";

/// Keystone and Glance at a port.
struct Cloud {
    server: Python,
    _folder: TempDir,
}

impl Cloud {
    fn start(words: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let program = tree::root().join("tests/publish/glance.py");
        let program = program.to_str().expect("a path").to_owned();
        let server = Python::start("python", folder.path(), |port| {
            let mut all = vec![program.clone(), port.to_string()];
            all.extend(words.iter().map(|word| (*word).to_owned()));
            all
        });
        Self {
            server,
            _folder: folder,
        }
    }

    fn state(&self) -> Value {
        let url = format!("http://127.0.0.1:{}/state", self.server.port);
        let output = Command::new("curl")
            .args(["-sf", &url])
            .output()
            .expect("curl");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    fn images(&self) -> Vec<Value> {
        self.state()["images"].as_array().expect("images").clone()
    }

    /// How many times a file was sent.
    fn sent(&self) -> usize {
        let state = self.state();
        let requests = state["requests"].as_array().expect("requests");
        let is_put = |request: &&Value| request.as_str().is_some_and(|r| r.starts_with("PUT "));
        requests.iter().filter(is_put).count()
    }
}

/// As an openrc file sets them, with Keystone at this port.
fn openrc(port: u16) -> Vec<(&'static str, String)> {
    [
        ("OS_AUTH_URL", format!("http://127.0.0.1:{port}/v3")),
        ("OS_USERNAME", "publisher".into()),
        ("OS_PASSWORD", "hunter2hunter2".into()),
        ("OS_USER_DOMAIN_NAME", "Default".into()),
        ("OS_PROJECT_NAME", "images".into()),
        ("OS_PROJECT_DOMAIN_NAME", "Default".into()),
        ("OS_REGION_NAME", "RegionOne".into()),
    ]
    .into()
}

fn borrowed<'v>(all: &'v [(&'static str, String)]) -> Vec<(&'v str, &'v str)> {
    all.iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect()
}

/// What differs from run to run: ports, identifiers, digests.
fn lasting(text: &str) -> String {
    let mut text = text.to_owned();
    for (pattern, word) in [
        ("127\\.0\\.0\\.1:[0-9]+", "127.0.0.1:…"),
        ("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "…-…"),
        ("[0-9a-f]{64}", "…"),
    ] {
        let pattern = regex::Regex::new(pattern).expect("a pattern");
        text = pattern.replace_all(&text, word).into_owned();
    }
    text
}

/// What a run complains of at its end.
fn error(output: &Output) -> String {
    let text = complained(output);
    let error = text.find("error:").expect("an error");
    text[error..].to_owned()
}

/// The properties that are winimg's, of an image.
fn properties(image: &Value) -> String {
    let own = [
        "architecture",
        "hw_",
        "os_distro",
        "os_type",
        "os_secure",
        "winimg_",
    ];
    let all = image.as_object().expect("an image").iter();
    let all = all.filter(|(name, _)| own.iter().any(|own| name.starts_with(own)));
    let mut lines: Vec<String> = all
        .map(|(name, value)| format!("{name}={value}\n"))
        .collect();
    lines.sort();
    lines.concat()
}

/// A qcow2 for OpenStack, built with UEFI and Secure Boot.
fn of_openstack() -> Place {
    let place = Place::new();
    let path = place.path("manifest.json");
    let text = fs::read_to_string(&path).expect("a manifest");
    let mut manifest: Value = serde_json::from_str(&text).expect("JSON");
    manifest["targets"] = serde_json::json!(["openstack"]);
    manifest["machine"] =
        serde_json::json!({ "firmware": "uefi", "secure_boot": true, "tpm": false });
    fs::write(&path, manifest.to_string()).expect("a manifest");
    place
}

#[test]
fn an_image_is_made_once_over_a_line_that_fails() {
    let (place, cloud) = (of_openstack(), Cloud::start(&[]));
    let line = Unreliable::every_third(cloud.server.port);
    let variables = openrc(line.port);
    let variables = borrowed(&variables);
    let plan = place.publish(&["--to", TO, "--dry-run"], &variables);
    insta::assert_snapshot!("glance_plan", lasting(&said(&plan)));
    assert!(cloud.images().is_empty());

    let first = place.publish(
        &["--to", TO, "--property", "hw_scsi_model=virtio-scsi"],
        &variables,
    );
    insta::assert_snapshot!("glance", lasting(&said(&first)));
    let images = cloud.images();
    assert_eq!(images.len(), 1, "{images:?}");
    let image = &images[0];
    assert_eq!(
        (&image["status"], &image["os_hidden"]),
        (&"active".into(), &false.into())
    );
    assert_eq!(
        (&image["disk_format"], &image["name"]),
        (&"qcow2".into(), &"node-1.31".into())
    );
    insta::assert_snapshot!("glance_properties", lasting(&properties(image)));
    let object = &place.published()["publications"][0]["objects"][0];
    assert_eq!(
        (&object["known"], &object["id"]),
        (&"digest".into(), &image["id"])
    );

    let again = place.publish(&["--to", TO], &variables);
    let lines = said(&again);
    assert!(lines.contains(": 0 sent, 1 there already\n"), "{lines}");
    assert_eq!(cloud.images().len(), 1);
}

#[test]
fn another_image_of_the_name_is_hidden_where_that_is_asked_for() {
    let (old, new, cloud) = (Place::new(), Place::ami(), Cloud::start(&[]));
    let variables = openrc(cloud.server.port);
    let variables = borrowed(&variables);
    said(&old.publish(&["--to", TO], &variables));
    let refused = new.publish(&["--to", TO], &variables);
    assert_eq!(refused.status.code(), Some(15));
    insta::assert_snapshot!("glance_other", lasting(&error(&refused)));
    said(&new.publish(&["--to", TO, "--replace"], &variables));
    let images = cloud.images();
    let shown: Vec<_> = images
        .iter()
        .map(|image| (image["disk_format"].as_str(), image["os_hidden"].as_bool()))
        .collect();
    assert_eq!(
        shown,
        [(Some("qcow2"), Some(true)), (Some("raw"), Some(false))]
    );

    // The old one is there: it is shown again, not sent again.
    let sent = cloud.sent();
    said(&old.publish(&["--to", TO, "--replace"], &variables));
    assert_eq!(cloud.sent(), sent);
    let hidden: Vec<_> = cloud
        .images()
        .iter()
        .map(|image| image["os_hidden"].as_bool())
        .collect();
    assert_eq!(hidden, [Some(false), Some(true)]);
}

/// Sends the image until its file should go, and kills it there, with the request sent and its body not.
fn killed(place: &Place, cloud: &Cloud) {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let line = Unreliable::start(cloud.server.port, move |_, request| {
        if !request.starts_with("PUT ") {
            return Fate::Pass;
        }
        let _ = tell.lock().unwrap_or_else(PoisonError::into_inner).send(());
        Fate::Break
    });
    let variables = openrc(line.port);
    let mut child = place
        .command(&["--to", TO], &borrowed(&variables))
        .spawn()
        .expect("winimg");
    told.recv_timeout(Duration::from_secs(120)).expect("a file");
    child.kill().expect("a kill");
    child.wait().expect("an end");
}

#[test]
fn an_image_that_a_killed_run_left_is_gone_on_with() {
    let (place, cloud) = (Place::ami(), Cloud::start(&[]));
    killed(&place, &cloud);
    let left = cloud.images();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0]["os_hidden"], true);
    let output = place.publish(&["--to", TO], &borrowed(&openrc(cloud.server.port)));
    said(&output);
    let text = complained(&output);
    assert!(
        text.contains("one that an earlier run began is gone on with"),
        "{text}"
    );
    let images = cloud.images();
    assert_eq!(
        (images.len(), &images[0]["id"]),
        (1, &left[0]["id"]),
        "{images:?}"
    );
    assert_eq!(
        (&images[0]["status"], &images[0]["os_hidden"]),
        (&"active".into(), &false.into())
    );
}

#[test]
fn an_image_that_stays_half_sent_is_made_anew() {
    let (place, cloud) = (Place::ami(), Cloud::start(&["stuck"]));
    let output = place.publish(&["--to", TO], &borrowed(&openrc(cloud.server.port)));
    said(&output);
    let text = complained(&output);
    assert!(
        text.contains("an image that was left half sent is removed"),
        "{text}"
    );
    let images = cloud.images();
    assert_eq!(images.len(), 1, "{images:?}");
    assert_eq!(images[0]["status"], "active");
}

#[test]
fn what_openstack_refuses_is_named_and_no_password_is_shown() {
    let (place, cloud) = (Place::new(), Cloud::start(&[]));
    let refused = |to: &str, change: (&'static str, &str)| {
        let mut variables = openrc(cloud.server.port);
        variables.retain(|(name, _)| *name != change.0);
        variables.push((change.0, change.1.to_owned()));
        let output = place.publish(&["--to", to], &borrowed(&variables));
        assert_eq!(output.status.code(), Some(15));
        error(&output)
    };
    let all = [
        refused(TO, ("OS_PASSWORD", "hunter3hunter3")),
        refused(TO, ("OS_PROJECT_NAME", "Images")),
        refused(TO, ("OS_REGION_NAME", "RegionThree")),
        refused(TO, ("OS_INTERFACE", "internal")),
        refused("glance://full", ("OS_AUTH_TYPE", "v3password")),
    ];
    insta::assert_snapshot!("glance_refused", lasting(&all.join("\n")));
    assert!(!all.concat().contains("hunter"));
    // Nobody sees what is not whole.
    assert!(
        cloud
            .images()
            .iter()
            .all(|image| image["os_hidden"] == true)
    );
    assert!(!place.path("published.json").exists());
}

#[test]
fn a_cloud_is_found_in_clouds_yaml_and_its_password_in_secure_yaml() {
    let (place, cloud) = (Place::new(), Cloud::start(&[]));
    let clouds = format!(
        "clouds:\n  lab:\n    auth:\n      auth_url: http://127.0.0.1:{0}\n      username: publisher\n      user_domain_id: default\n      \
         project_id: 4f1c3d6e8a5b4d0f9e7c2b1a0f9e8d7c\n    region_name: RegionOne\n  robot:\n    auth_type: v3applicationcredential\n    auth:\n      \
         auth_url: http://127.0.0.1:{0}/v3/\n      application_credential_id: credential\n    region_name: RegionOne\n    verify: false\n",
        cloud.server.port
    );
    let secure = "clouds:\n  lab:\n    auth: {password: hunter2hunter2}\n  robot:\n    auth: {application_credential_secret: hunter2hunter2}\n";
    fs::write(place.path("clouds.yaml"), clouds).expect("clouds.yaml");
    let folder = place.path(".config/openstack");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("secure.yaml"), secure).expect("secure.yaml");
    for name in ["lab", "robot"] {
        let variables = [("OS_CLOUD", name), ("WINIMG_LOG", "trace")];
        let to = format!("glance://{name}");
        let output = place.publish(&["--to", &to, "-vv"], &variables);
        let text = said(&output) + &complained(&output);
        assert!(text.contains(": 1 sent, 0 there already\n"), "{text}");
        assert!(text.contains("/v3/auth/tokens"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
        assert_eq!(
            text.contains("clouds.yaml or OS_CACERT"),
            name == "robot",
            "{text}"
        );
    }
}

#[test]
fn what_has_no_place_in_openstack_is_refused_before_it_is_asked() {
    let (place, ova) = (Place::new(), Place::ova(19));
    let all = openrc(9);
    let without = |name: &str| -> Vec<(&'static str, String)> {
        all.iter()
            .filter(|(one, _)| *one != name)
            .cloned()
            .collect()
    };
    let with = |name: &'static str, value: &str| {
        let mut all = without(name);
        all.push((name, value.to_owned()));
        all
    };
    let refused = |place: &Place, arguments: &[&str], variables: &[(&'static str, String)]| {
        let output = place.publish(arguments, &borrowed(variables));
        assert!(!output.status.success());
        error(&output)
    };
    fs::write(
        place.path("clouds.yaml"),
        "clouds:\n  lab:\n    auth: {password: hunter2\n",
    )
    .expect("a file");
    let to = ["--to", TO];
    let all = [
        refused(&place, &["--to", "glance://node,1"], &all),
        refused(&place, &["--to", TO, "--only", "vhd"], &all),
        refused(&place, &["--to", TO, "--share", "210987654321"], &all),
        refused(&place, &["--to", "s3://images", "--property", "a=b"], &all),
        refused(&place, &["--to", TO, "--property", "os_hidden=false"], &all),
        refused(&ova, &to, &all),
        refused(&place, &to, &[]),
        refused(&place, &to, &without("OS_PASSWORD")),
        refused(
            &place,
            &to,
            &with("OS_AUTH_URL", "http://keystone.example.com:5000/v3"),
        ),
        refused(&place, &to, &with("OS_AUTH_TYPE", "v3oidcpassword")),
        refused(&place, &to, &with("OS_CLOUD", "lab")),
    ];
    insta::assert_snapshot!("glance_impossible", all.join("\n"));
    assert!(!all.concat().contains("hunter"));
}
