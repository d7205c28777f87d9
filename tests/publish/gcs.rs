//! An image in a bucket of Cloud Storage: fake-gcs-server behind a door that does what Google says of resumable uploads and tokens
//! (`tests/gcs/cloud`), read by Google's client for Go. What Google itself makes of it is not shown here.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::unreliable::{Fate, Unreliable};

use crate::export::fixture::sh;
use crate::publish::place::{GoServer, Place, StuckLine, complained, lasting, said};

const TO: &str = "gs://images/windows";
/// Where nothing listens.
const NOWHERE: &str = "http://127.0.0.1:9/";

struct Cloud {
    server: GoServer,
    port: u16,
    /// Of fake-gcs-server itself.
    storage: String,
}

impl Cloud {
    /// `None`, said: there is no Go, which builds it.
    fn start() -> Option<Self> {
        static BUILT: Once = Once::new();
        let server = GoServer::start(&BUILT, ("gcs", "cloud"), &[])?;
        Some(Self {
            port: server.started[0].parse().expect("a port"),
            storage: server.started[1].clone(),
            server,
        })
    }

    /// What Google's client prints.
    fn client(&self, arguments: &[&str]) -> Vec<u8> {
        let (command, more) = arguments.split_first().expect("a command");
        let output = Command::new(GoServer::program("cloud"))
            .args([command, self.storage.as_str()])
            .args(more)
            .output()
            .expect("gcs-cloud");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {complaint}");
        output.stdout
    }

    fn shown(&self) -> String {
        String::from_utf8(self.client(&["show", "images"])).expect("text")
    }

    /// The pieces that came, as `Content-Range` names them.
    fn pieces(&self) -> Vec<String> {
        let requests = self.server.requests();
        let puts = requests.lines().filter(|line| line.starts_with("PUT "));
        let ranges = puts.filter_map(|line| line.split_once(" bytes "));
        let ranges = ranges.filter(|(_, range)| !range.starts_with('*'));
        ranges.map(|(_, range)| range.to_owned()).collect()
    }

    /// As on a machine of Google's, with Cloud Storage at this port.
    fn variables(&self, port: u16) -> [(&'static str, String); 2] {
        [
            ("GCE_METADATA_HOST", format!("127.0.0.1:{}", self.port)),
            (
                "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE",
                format!("http://127.0.0.1:{port}/"),
            ),
        ]
    }
}

fn borrowed<'v>(all: &'v [(&'static str, String); 2]) -> [(&'v str, &'v str); 2] {
    [(all[0].0, &all[0].1), (all[1].0, &all[1].1)]
}

#[test]
#[ignore = "needs Go and its module proxy: make gcs"]
fn files_go_in_pieces_over_a_line_that_fails_and_are_there_once() {
    let Some(cloud) = Cloud::start() else {
        return;
    };
    let (place, line) = (Place::new(), Unreliable::every_third(cloud.port));
    let variables = cloud.variables(line.port);
    let variables = borrowed(&variables);
    let plan = place.publish(&["--to", TO, "--dry-run"], &variables);
    insta::assert_snapshot!("gcs_plan", said(&plan));
    assert_eq!(cloud.shown(), "");

    let first = place.publish(&["--to", TO], &variables);
    insta::assert_snapshot!("gcs", said(&first));
    let shown = cloud.shown();
    for name in ["demo.vhd", "demo.oci.tar", "manifest.json"] {
        let there = cloud.client(&["get", "images", &format!("windows/{name}")]);
        assert!(there == fs::read(place.path(name)).unwrap(), "{name}");
        let (digest, size) = winimg_base::io::compute_sha256(&place.path(name)).expect("a digest");
        let line = format!("windows/{name} {size} application/");
        assert!(shown.contains(&line), "{line}: {shown}");
        let mark = format!("map[winimg-sha256:{}]", digest.hex());
        assert!(shown.contains(&mark), "{mark}: {shown}");
    }
    let published = place.published();
    let objects = published["publications"][0]["objects"]
        .as_array()
        .expect("objects");
    assert!(
        objects.iter().all(|object| object["known"] == "digest"),
        "{published}"
    );

    let again = place.publish(&["--to", "gs://images/windows/"], &variables);
    let lines = said(&again);
    assert!(lines.contains(": 0 sent, "), "{lines}");

    fs::write(place.path("sbom.spdx.json"), "{}\n").unwrap();
    let other = place.publish(&["--to", TO], &variables);
    assert_eq!(other.status.code(), Some(15));
    let text = complained(&other);
    assert!(
        text.contains("| gs://images/windows/sbom.spdx.json: "),
        "{text}"
    );
    said(&place.publish(&["--to", TO, "--replace"], &variables));
    let there = cloud.client(&["get", "images", "windows/sbom.spdx.json"]);
    assert_eq!(there, b"{}\n");
}

/// Sends the first file until two pieces are there, and kills it. The line is good again after that.
fn killed(place: &Place, cloud: &Cloud) -> Unreliable {
    let pieces = AtomicUsize::new(0);
    // The first one asks how far the upload is.
    let stuck = StuckLine::start(cloud.port, move |request| {
        request.starts_with("PUT ") && pieces.fetch_add(1, Ordering::SeqCst) == 3
    });
    let variables = cloud.variables(stuck.line.port);
    stuck.kill(place.command(&["--to", TO], &borrowed(&variables)));
    stuck.line
}

#[test]
#[ignore = "needs Go and its module proxy: make gcs"]
fn a_killed_upload_is_continued_without_what_is_there() {
    let Some(cloud) = Cloud::start() else {
        return;
    };
    let place = Place::new();
    let line = killed(&place, &cloud);
    assert_eq!(cloud.shown(), "");
    let kept = place.path(".demo.vhd.upload");
    let mode = fs::metadata(&kept)
        .expect("what is kept")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let variables = cloud.variables(line.port);
    let output = place.publish(&["--to", TO], &borrowed(&variables));
    said(&output);
    let text = complained(&output);
    assert!(
        text.contains("demo.vhd: continuing an interrupted upload after 32 MiB"),
        "{text}"
    );
    assert!(!kept.exists());
    let mut pieces = cloud.pieces();
    let all = pieces.len();
    pieces.sort();
    pieces.dedup();
    assert_eq!(pieces.len(), all, "{pieces:?}");
    let there = cloud.client(&["get", "images", "windows/demo.vhd"]);
    assert!(there == fs::read(place.path("demo.vhd")).unwrap());
}

#[test]
#[ignore = "needs Go and its module proxy: make gcs"]
fn an_upload_that_ran_out_is_begun_anew() {
    let Some(cloud) = Cloud::start() else {
        return;
    };
    let place = Place::new();
    let line = killed(&place, &cloud);
    let kept = place.path(".demo.vhd.upload");
    let text = fs::read_to_string(&kept).expect("what is kept");
    fs::write(&kept, text.replace("upload_id=", "upload_id=0")).expect("another upload");
    let variables = cloud.variables(line.port);
    let output = place.publish(&["--to", TO], &borrowed(&variables));
    said(&output);
    let text = complained(&output);
    assert!(!text.contains("is continued"), "{text}");
    let there = cloud.client(&["get", "images", "windows/demo.vhd"]);
    assert!(there == fs::read(place.path("demo.vhd")).unwrap());
}

#[test]
#[ignore = "needs Go and its module proxy: make gcs"]
fn a_file_that_came_in_the_meantime_is_not_replaced() {
    let Some(cloud) = Cloud::start() else {
        return;
    };
    let place = Place::new();
    let storage = cloud.storage.clone();
    let line = Unreliable::start(cloud.port, move |_, request| {
        if request.starts_with("POST ") {
            let name = "uploadType=media&name=windows/demo.vhd";
            let url = format!("http://127.0.0.1:{storage}/upload/storage/v1/b/images/o?{name}");
            sh(
                "curl",
                &[
                    "-sf",
                    "-d",
                    "another",
                    "-H",
                    "Content-Type: text/plain",
                    &url,
                ],
            );
        }
        Fate::Pass
    });
    let variables = cloud.variables(line.port);
    let output = place.publish(&["--to", TO], &borrowed(&variables));
    assert_eq!(output.status.code(), Some(15));
    let text = complained(&output);
    let error = text.find("error:").expect("an error");
    insta::assert_snapshot!("gcs_meantime", &text[error..]);
    let there = cloud.client(&["get", "images", "windows/demo.vhd"]);
    assert_eq!(there, b"another");
}

#[test]
#[ignore = "needs Go and its module proxy: make gcs"]
fn buckets_that_are_missing_or_closed_are_named() {
    let Some(cloud) = Cloud::start() else {
        return;
    };
    let place = Place::new();
    let variables = cloud.variables(cloud.port);
    let refused = ["gs://nowhere/windows", "gs://foreign/windows"].map(|to| {
        let output = place.publish(&["--to", to], &borrowed(&variables));
        assert_eq!(output.status.code(), Some(15));
        complained(&output)
    });
    insta::assert_snapshot!("gcs_refused", refused.join("\n"));
}

#[test]
#[ignore = "needs Go and its module proxy: make gcs"]
fn a_workload_of_another_cloud_publishes_and_a_trace_shows_no_token() {
    let Some(cloud) = Cloud::start() else {
        return;
    };
    let place = Place::new();
    fs::write(place.path("subject"), "hunter2.of.the.workload").expect("a token");
    let credentials = serde_json::json!({
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/ci/providers/ci",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": format!("http://127.0.0.1:{}/sts/v1/token", cloud.port),
        "credential_source": { "file": place.path("subject"), "format": { "type": "text" } },
    });
    fs::write(place.path("credentials"), credentials.to_string()).expect("credentials");
    let file = place.path("credentials");
    let endpoint = format!("http://127.0.0.1:{}/", cloud.port);
    let mut variables = vec![
        (
            "GOOGLE_APPLICATION_CREDENTIALS",
            file.to_str().expect("a path"),
        ),
        ("CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE", endpoint.as_str()),
        ("WINIMG_LOG", "trace"),
    ];
    let output = place.publish(&["--to", TO, "-vv"], &variables);
    let text = said(&output) + &complained(&output);
    assert!(text.contains("/upload/storage/v1/b/images/o"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    let record = fs::read_to_string(place.path("published.json")).expect("a record");
    assert!(!record.contains("hunter2"), "{record}");

    fs::write(place.path("subject"), "hunter2.that.ran.out").expect("a token");
    variables.pop();
    let output = place.publish(&["--to", TO], &variables);
    assert_eq!(output.status.code(), Some(15));
    insta::assert_snapshot!("gcs_federation", lasting(&complained(&output)));
}

#[test]
fn what_has_no_place_in_cloud_storage_is_refused_before_it_is_asked() {
    let place = Place::new();
    let refused = |arguments: &[&str], endpoint: &str, credentials: &str| {
        let variables = [
            ("CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE", endpoint),
            ("GOOGLE_APPLICATION_CREDENTIALS", credentials),
        ];
        place.refused(arguments, &variables)
    };
    fs::write(place.path("nobody.json"), "{\"type\": \"nobody\"}").expect("a file");
    let all = [
        refused(&["--to", "gs://Images"], NOWHERE, "none"),
        refused(&["--to", TO, "--share", "210987654321"], NOWHERE, "none"),
        refused(&["--to", TO], "http://storage.example.com/", "none"),
        refused(
            &["--to", TO],
            "https://storage.googleapis.com/images",
            "none",
        ),
        refused(&["--to", TO], NOWHERE, "none"),
        refused(&["--to", TO], NOWHERE, "nobody.json"),
    ];
    insta::assert_snapshot!("gcs_impossible", all.join("\n"));
}
