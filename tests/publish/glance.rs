//! An image in OpenStack: what is true of a strict stand-in for Keystone and Glance (`glance.py`), and with `make openstack` of real ones
//! (`openstack.rs`). What Nova makes of the image's properties is not shown here.

use std::fs;
use std::process::Output;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::unreliable::{Fate, Unreliable};

use crate::export::fixture::sh;
use crate::publish::cloud::{Cloud, StandIn, Variables, openrc, with};
use crate::publish::place::{Place, complained, lasting, said};

const TO: &str = "glance://node-1.31";

fn borrowed(all: &Variables) -> Vec<(&str, &str)> {
    all.iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect()
}

/// The state of an image, and whether it is hidden.
fn shown(image: &Value) -> (&str, bool) {
    let status = image["status"].as_str().expect("a state");
    (status, image["os_hidden"].as_bool().expect("a choice"))
}

fn id(image: &Value) -> &str {
    image["id"].as_str().expect("an id")
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

pub fn made_once(cloud: &impl Cloud) {
    let place = of_openstack();
    let variables = cloud.over(&Unreliable::every_third);
    let variables = borrowed(&variables);
    let plan = place.publish(&["--to", TO, "--dry-run"], &variables);
    insta::assert_snapshot!("glance_plan", lasting(&said(&plan)));
    assert!(cloud.images("node-1.31").is_empty());

    let first = place.publish(
        &["--to", TO, "--property", "hw_scsi_model=virtio-scsi"],
        &variables,
    );
    insta::assert_snapshot!("glance", lasting(&said(&first)));
    let images = cloud.images("node-1.31");
    assert_eq!(images.len(), 1, "{images:?}");
    let image = &images[0];
    assert_eq!(shown(image), ("active", false));
    assert_eq!(image["disk_format"], "qcow2");
    let sum = sh("sha512sum", &[place.path("demo.qcow2").to_str().unwrap()]);
    assert_eq!(image["os_hash_algo"], "sha512");
    assert_eq!(image["os_hash_value"].as_str(), sum.split(' ').next());
    insta::assert_snapshot!("glance_properties", lasting(&properties(image)));
    let object = &place.published()["publications"][0]["objects"][0];
    assert_eq!(
        (&object["known"], &object["id"]),
        (&"digest".into(), &image["id"])
    );

    let sent = cloud.sent(id(image));
    let again = place.publish(&["--to", TO], &variables);
    let lines = said(&again);
    assert!(lines.contains(": 0 sent, 1 already there\n"), "{lines}");
    assert_eq!(cloud.sent(id(image)), sent);
    assert_eq!(cloud.images("node-1.31").len(), 1);
}

#[test]
fn an_image_is_made_once_over_a_line_that_fails() {
    made_once(&StandIn::start(&[]));
}

pub fn replaced(cloud: &impl Cloud) {
    let (old, new) = (Place::new(), Place::ami());
    let (to, variables) = ("glance://node-1.32", cloud.variables());
    let variables = borrowed(&variables);
    said(&old.publish(&["--to", to], &variables));
    let refused = new.publish(&["--to", to], &variables);
    assert_eq!(refused.status.code(), Some(15));
    insta::assert_snapshot!("glance_other", lasting(&error(&refused)));
    said(&new.publish(&["--to", to, "--replace"], &variables));
    let formats = || -> Vec<(String, bool)> {
        let images = cloud.images("node-1.32");
        let formats = images
            .iter()
            .map(|image| (image["disk_format"].as_str().unwrap(), shown(image).1));
        formats
            .map(|(format, hidden)| (format.to_owned(), hidden))
            .collect()
    };
    assert_eq!(formats(), [("qcow2".into(), true), ("raw".into(), false)]);

    // The old one is there: it is shown again, not sent again.
    let old_id = id(&cloud.images("node-1.32")[0]).to_owned();
    assert_eq!(cloud.sent(&old_id), 1);
    said(&old.publish(&["--to", to, "--replace"], &variables));
    assert_eq!(cloud.sent(&old_id), 1);
    assert_eq!(formats(), [("qcow2".into(), false), ("raw".into(), true)]);
}

#[test]
fn another_image_of_the_name_is_hidden_where_that_is_asked_for() {
    replaced(&StandIn::start(&[]));
}

/// Publishes until the file goes, with this fate, and until the image is in this state; and kills it there. The image that it left.
fn killed(place: &Place, cloud: &impl Cloud, name: &str, fate: Fate, state: &str) -> Value {
    let (tell, told) = mpsc::channel();
    let tell = Arc::new(Mutex::new(tell));
    let variables = cloud.over(&move |port| {
        let tell = Arc::clone(&tell);
        Unreliable::start(port, move |_, request| {
            if !request.starts_with("PUT ") {
                return Fate::Pass;
            }
            let _ = tell.lock().unwrap_or_else(PoisonError::into_inner).send(());
            fate
        })
    });
    let to = format!("glance://{name}");
    let mut child = place
        .command(&["--to", &to], &borrowed(&variables))
        .spawn()
        .expect("winimg");
    told.recv_timeout(Duration::from_secs(120)).expect("a file");
    let end = Instant::now() + Duration::from_secs(60);
    while cloud.images(name)[0]["status"] != state {
        assert!(Instant::now() < end, "{:?}", cloud.images(name));
        thread::sleep(Duration::from_millis(50));
    }
    child.kill().expect("a kill");
    child.wait().expect("an end");
    let left = cloud.images(name);
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0]["os_hidden"], true);
    left[0].clone()
}

/// Publishes it, and says what that complained of; there is one whole image then.
fn gone_on(place: &Place, cloud: &impl Cloud, name: &str) -> (String, Value) {
    let to = format!("glance://{name}");
    let output = place.publish(&["--to", &to], &borrowed(&cloud.variables()));
    said(&output);
    let images = cloud.images(name);
    assert_eq!(images.len(), 1, "{images:?}");
    assert_eq!(shown(&images[0]), ("active", false));
    (complained(&output), images[0].clone())
}

const GONE_ON: &str = "continuing the image of an earlier run";
const REMOVED: &str = "removing an incomplete or corrupt image";

pub fn gone_on_with(cloud: &impl Cloud) {
    let place = Place::ami();
    let left = killed(&place, cloud, "killed", Fate::Half, "saving");
    let (text, image) = gone_on(&place, cloud, "killed");
    assert!(text.contains(GONE_ON), "{text}");
    assert_eq!(image["id"], left["id"]);
}

#[test]
fn an_image_that_a_killed_run_left_is_gone_on_with() {
    gone_on_with(&StandIn::start(&[]));
}

#[test]
fn an_image_whose_file_never_came_is_gone_on_with() {
    let (place, cloud) = (Place::ami(), StandIn::start(&[]));
    let left = killed(&place, &cloud, "killed", Fate::Break, "queued");
    let (text, image) = gone_on(&place, &cloud, "killed");
    assert!(text.contains(GONE_ON), "{text}");
    assert_eq!(image["id"], left["id"]);
}

/// Glance does not hear that the run was killed.
pub fn made_anew(cloud: &impl Cloud) {
    let place = Place::ami();
    let left = killed(&place, cloud, "stuck", Fate::Keep, "saving");
    let (text, image) = gone_on(&place, cloud, "stuck");
    assert!(text.contains(REMOVED), "{text}");
    assert_ne!(image["id"], left["id"]);
}

#[test]
fn an_image_that_a_killed_run_left_half_sent_is_made_anew() {
    made_anew(&StandIn::start(&[]));
}

#[test]
fn an_image_that_stays_half_sent_is_made_anew() {
    let (place, cloud) = (Place::ami(), StandIn::start(&["stuck"]));
    let (text, _) = gone_on(&place, &cloud, "stuck");
    assert!(text.contains(REMOVED), "{text}");
}

#[test]
fn a_file_that_comes_after_its_token_ran_out_is_sent_with_another() {
    let (place, cloud) = (Place::new(), StandIn::start(&["late"]));
    let (_, image) = gone_on(&place, &cloud, "late");
    assert_eq!(cloud.sent(id(&image)), 2);
}

/// Glance keeps what it refused, and takes no other data for that image.
pub fn spoilt(cloud: &impl Cloud) {
    let place = Place::new();
    let variables = cloud.over(&|port| {
        Unreliable::start(port, |_, request| {
            if request.starts_with("PUT ") {
                Fate::Spoil
            } else {
                Fate::Pass
            }
        })
    });
    let output = place.publish(&["--to", "glance://spoilt"], &borrowed(&variables));
    assert_eq!(output.status.code(), Some(15));
    insta::assert_snapshot!("glance_spoilt", lasting(&error(&output)));
    let left = cloud.images("spoilt");
    assert_eq!(shown(&left[0]), ("queued", true));
    let (text, image) = gone_on(&place, cloud, "spoilt");
    assert!(text.contains(REMOVED), "{text}");
    assert_ne!(image["id"], left[0]["id"]);
}

#[test]
fn an_image_that_was_spoilt_on_its_way_is_made_anew() {
    spoilt(&StandIn::start(&[]));
}

pub fn refused(cloud: &impl Cloud) {
    let place = Place::new();
    let refused = |name: &'static str, value: &str| {
        let variables = with(cloud.variables(), name, value);
        let output = place.publish(&["--to", "glance://refused"], &borrowed(&variables));
        assert_eq!(output.status.code(), Some(15));
        error(&output)
    };
    let all = [
        refused("OS_PASSWORD", "hunter3hunter3"),
        refused("OS_PROJECT_NAME", "Images"),
        refused("OS_REGION_NAME", "RegionThree"),
        refused("OS_INTERFACE", "internal"),
        refused("OS_PROJECT_NAME", "full"),
    ];
    insta::assert_snapshot!("glance_refused", lasting(&all.join("\n")));
    assert!(!all.concat().contains("hunter"));
    // Nobody sees what is not whole.
    let images = cloud.images("refused");
    assert!(
        images.iter().all(|image| image["os_hidden"] == true),
        "{images:?}"
    );
    assert!(!place.path("published.json").exists());
}

#[test]
fn what_openstack_refuses_is_named_and_no_password_is_shown() {
    refused(&StandIn::start(&[]));
}

pub fn found_in_clouds_yaml(cloud: &impl Cloud) {
    let place = Place::new();
    let clouds = format!(
        "clouds:\n  lab:\n    auth:\n      auth_url: http://127.0.0.1:{0}\n      username: publisher\n      user_domain_id: default\n      \
         project_id: {1}\n    region_name: RegionOne\n  robot:\n    auth_type: v3applicationcredential\n    auth:\n      \
         auth_url: http://127.0.0.1:{0}/v3/\n      application_credential_id: {2}\n    region_name: RegionOne\n    verify: false\n",
        cloud.port(),
        cloud.project(),
        cloud.credential(),
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
        assert!(text.contains(": 1 sent, 0 already there\n"), "{text}");
        assert!(text.contains("/v3/auth/tokens"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
        assert_eq!(
            text.contains("clouds.yaml and OS_CACERT"),
            name == "robot",
            "{text}"
        );
    }
}

#[test]
fn a_cloud_is_found_in_clouds_yaml_and_its_password_in_secure_yaml() {
    found_in_clouds_yaml(&StandIn::start(&[]));
}

#[test]
fn what_has_no_place_in_openstack_is_refused_before_it_is_asked() {
    let (place, ova) = (Place::new(), Place::ova(19));
    let all = openrc(9);
    let set = |name: &'static str, value: &str| with(all.clone(), name, value);
    let refused = |place: &Place, arguments: &[&str], variables: &Variables| {
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
        refused(&place, &to, &Variables::new()),
        refused(&place, &to, &set("OS_PASSWORD", "")),
        refused(
            &place,
            &to,
            &set("OS_AUTH_URL", "http://keystone.example.com:5000/v3"),
        ),
        refused(&place, &to, &set("OS_AUTH_TYPE", "v3oidcpassword")),
        refused(&place, &to, &set("OS_CLOUD", "lab")),
    ];
    insta::assert_snapshot!("glance_impossible", all.join("\n"));
    assert!(!all.concat().contains("hunter"));
}
