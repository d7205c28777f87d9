//! An image as an AMI: moto's S3 and EC2 behind a door that reads each request by AWS' own model and imports as VM Import says it does
//! (`ec2.py`). What Windows and the hypervisor of AWS make of it is not shown here.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::tree;
use support::unreliable::Unreliable;

use crate::export::fixture::sh;
use crate::publish::place::{Place, Python, StuckLine, complained, said};

const TO: &str = "ami://images/winimg";

/// With words after it every import ends with them.
fn cloud(refusal: &str) -> (Python, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = tree::root().join("tests/publish/ec2.py");
    let program = program.to_str().expect("a path").to_owned();
    let server = Python::start("python", folder.path(), |port| {
        vec![program.clone(), port.to_string(), refusal.to_owned()]
    });
    let bucket = format!("http://127.0.0.1:{}/images", server.port);
    sh("curl", &["-sf", "-X", "PUT", &bucket]);
    (server, folder)
}

fn variables(endpoint: &str) -> [(&str, &str); 4] {
    [
        ("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "hunter2hunter2"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ENDPOINT_URL", endpoint),
    ]
}

/// By AWS' own client for Python: the images of the account in a region, with their tags, and who may start them.
fn images(port: u16, region: &str) -> String {
    const CLIENT: &str = "import boto3, sys\n\
        ec2 = boto3.client('ec2', region_name=sys.argv[1])\n\
        for image in ec2.describe_images(Owners=['self'])['Images']:\n\
        \x20 may = ec2.describe_image_attribute(ImageId=image['ImageId'], Attribute='launchPermission')['LaunchPermissions']\n\
        \x20 tags = sorted((tag['Key'], tag['Value']) for tag in image.get('Tags', []))\n\
        \x20 print(image['ImageId'], tags, [one['UserId'] for one in may])\n";
    let output = Command::new(tree::root().join("target/record-venv/bin/python"))
        .args(["-c", CLIENT, region])
        .envs(variables(&format!("http://127.0.0.1:{port}")))
        .output()
        .expect("Python");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    String::from_utf8(output.stdout).expect("text")
}

/// What EC2 made up.
fn without_ids(text: &str) -> String {
    regex::Regex::new("ami-[0-9a-f]+")
        .expect("a pattern")
        .replace_all(text, "ami-…")
        .into_owned()
}

#[test]
fn an_image_is_imported_copied_and_shared_once_over_a_line_that_fails() {
    let (place, (server, _folder)) = (Place::ami(), cloud(""));
    let line = Unreliable::every_third(server.port);
    let endpoint = format!("http://127.0.0.1:{}", line.port);
    let more = ["--copy-to", "eu-west-1", "--share", "210987654321"];
    let all: Vec<&str> = ["--to", TO].into_iter().chain(more).collect();
    let first = place.publish(&all, &variables(&endpoint));
    insta::assert_snapshot!("ami", without_ids(&said(&first)));
    assert!(!complained(&first).contains("hunter2"));

    let disk = winimg_base::io::compute_sha256(&place.path("demo.raw"))
        .expect("a digest")
        .0
        .hex();
    let published = place.published();
    for region in ["us-east-1", "eu-west-1"] {
        let there = images(server.port, region);
        assert_eq!(there.lines().count(), 1, "{there}");
        assert!(
            there.contains(&format!("('winimg:sha256', '{disk}')")),
            "{there}"
        );
        assert!(there.trim_end().ends_with("['210987654321']"), "{there}");
        let id = there.split(' ').next().expect("an id");
        let objects = published["publications"][0]["objects"]
            .as_array()
            .expect("objects");
        assert!(
            objects
                .iter()
                .any(|o| o["id"] == id && o["at"] == format!("ami://{region}"))
        );
    }

    let again = place.publish(&all, &variables(&endpoint));
    let lines = said(&again);
    assert!(lines.contains(": 0 done, 5 already there\n"), "{lines}");
}

#[test]
fn an_import_that_was_begun_is_waited_for() {
    let (place, (server, _folder)) = (Place::ami(), cloud(""));
    let asked = AtomicUsize::new(0);
    // Images, imports, the import itself; from then on nothing is heard of it.
    let stuck = StuckLine::start(server.port, move |request| {
        request.starts_with("POST / ") && asked.fetch_add(1, Ordering::SeqCst) >= 3
    });
    let endpoint = format!("http://127.0.0.1:{}", stuck.line.port);
    stuck.kill(place.command(&["--to", TO], &variables(&endpoint)));
    assert!(images(server.port, "us-east-1").is_empty());

    let endpoint = format!("http://127.0.0.1:{}", server.port);
    let output = place.publish(&["--to", TO], &variables(&endpoint));
    assert!(
        said(&output).contains(": 1 done, 1 already there\n"),
        "{}",
        said(&output)
    );
    assert!(
        complained(&output).contains(": waiting for the import of an earlier run"),
        "{}",
        complained(&output)
    );
    assert_eq!(images(server.port, "us-east-1").lines().count(), 1);
}

#[test]
fn an_import_that_aws_ends_is_named_with_its_words() {
    let (place, (server, _folder)) = (
        Place::ami(),
        cloud("ClientError: Disk validation failed [OVF file parsing error]"),
    );
    let endpoint = format!("http://127.0.0.1:{}", server.port);
    let output = place.publish(&["--to", TO], &variables(&endpoint));
    assert_eq!(output.status.code(), Some(15));
    let text = complained(&output);
    let error = text.find("error:").expect("an error");
    insta::assert_snapshot!("ami_ended", &text[error..]);
    assert!(!place.path("published.json").exists());
}

#[test]
fn what_has_no_place_at_aws_is_refused_before_it_is_asked() {
    let place = Place::ami();
    let nowhere = variables("http://127.0.0.1:9");
    let all = [
        place.refused(&["--to", TO, "--only", "raw"], &nowhere),
        place.refused(
            &["--to", "s3://images", "--share", "210987654321"],
            &nowhere,
        ),
        place.refused(
            &["--to", TO, "--copy-to", "eu-west-1.example.com"],
            &nowhere,
        ),
        place.refused(&["--to", TO, "--share", "somebody"], &nowhere),
        place.refused(&["--to", TO], &[]),
    ];
    insta::assert_snapshot!("ami_refused", all.join("\n"));
}
