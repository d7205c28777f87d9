//! An image in Azurite's container: the pages of its VHD that hold data, its other files in blocks; its plan, resumption and refusals.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::unreliable::{Fate, Unreliable};

use crate::publish::azurite::{ACCOUNT, Azurite, KEY, endpoint, misplaced};
use crate::publish::place::{Place, StuckLine, complained, said};

const TO: &str = "azblob://winimgtests/images/windows";

fn variables(endpoint: &str) -> [(&str, &str); 2] {
    [
        ("AZURE_STORAGE_KEY", KEY),
        ("AZURE_STORAGE_SERVICE_ENDPOINT", endpoint),
    ]
}

#[test]
fn pages_with_data_and_blocks_go_over_a_line_that_fails_and_are_there_once() {
    let (place, azurite) = (Place::new(), Azurite::start());
    let line = Unreliable::every_third(azurite.port());
    let endpoint = endpoint(line.port);
    let plan = place.publish(&["--to", TO, "--dry-run"], &variables(&endpoint));
    insta::assert_snapshot!("azblob_plan", said(&plan));
    let first = place.publish(&["--to", TO], &variables(&endpoint));
    insta::assert_snapshot!("azblob", said(&first));
    assert!(!complained(&first).contains(KEY));
    for name in [
        "demo.vhd",
        "demo.oci.tar",
        "sbom.spdx.json",
        "manifest.json",
    ] {
        let there = azurite.read(&format!("windows/{name}"));
        assert!(there == fs::read(place.path(name)).unwrap(), "{name}");
    }
    let (sha256, _) = winimg_base::io::compute_sha256(&place.path("demo.vhd")).expect("a digest");
    let about = azurite.about("windows/demo.vhd");
    assert_eq!(about["type"], "PageBlob");
    assert_eq!(
        about["metadata"],
        serde_json::json!({"winimgsha256": sha256.hex()})
    );
    let wrong = misplaced(&place.path("demo.vhd"), &about["ranges"]);
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!(azurite.about("windows/demo.oci.tar")["type"], "BlockBlob");

    let again = place.publish(&["--to", &format!("{TO}/")], &variables(&endpoint));
    let lines = said(&again);
    assert!(lines.ends_with(": 0 sent, 6 already there\n"), "{lines}");
}

#[test]
fn another_file_is_replaced_when_that_is_asked_for() {
    let (place, azurite) = (Place::new(), Azurite::start());
    azurite.put_another("windows/demo.vhd");
    let endpoint = endpoint(azurite.port());
    let more = ["--to", TO, "--only", "vhd", "--replace"];
    let refused = place.publish(&more[..4], &variables(&endpoint));
    assert_eq!(refused.status.code(), Some(15));
    insta::assert_snapshot!("azblob_other", complained(&refused));
    assert_eq!(azurite.read("windows/demo.vhd"), b"another");
    said(&place.publish(&more, &variables(&endpoint)));
    assert!(azurite.read("windows/demo.vhd") == fs::read(place.path("demo.vhd")).unwrap());
}

/// Lets so many requests with this word through, and kills the program when there is one more.
fn killed(place: &Place, azurite: &Azurite, word: &'static str, passed: usize, output: &str) {
    let asked = AtomicUsize::new(0);
    let stuck = StuckLine::start(azurite.port(), move |request| {
        request.contains(word) && asked.fetch_add(1, Ordering::SeqCst) >= passed
    });
    let arguments = ["--to", TO, "--only", output];
    stuck.kill(place.command(&arguments, &variables(&endpoint(stuck.line.port))));
}

/// How many requests with this word a run makes that ends well, and what it says beside.
fn counted(
    place: &Place,
    azurite: &Azurite,
    word: &'static str,
    (to, output): (&str, &str),
) -> (usize, String) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let line = Unreliable::start(azurite.port(), move |_, request| {
        if request.contains(word) {
            counter.fetch_add(1, Ordering::SeqCst);
        }
        Fate::Pass
    });
    let arguments = ["--to", to, "--only", output];
    let output = place.publish(&arguments, &variables(&endpoint(line.port)));
    said(&output);
    (count.load(Ordering::SeqCst), complained(&output))
}

#[test]
fn a_killed_upload_of_pages_is_gone_on_with() {
    let (place, azurite) = (Place::new(), Azurite::start());
    killed(&place, &azurite, "comp=page ", 5, "vhd");
    let about = azurite.about("windows/demo.vhd");
    let (sha256, _) = winimg_base::io::compute_sha256(&place.path("demo.vhd")).expect("a digest");
    let sending = serde_json::json!({"winimgsending": sha256.hex()});
    assert_eq!(about["metadata"], sending);
    let there: Vec<(u64, u64)> = serde_json::from_value(about["ranges"].clone()).expect("ranges");
    let bytes: u64 = there.iter().map(|(start, end)| end - start).sum();
    assert!(bytes > 0);

    let (second, complaint) = counted(&place, &azurite, "comp=page ", (TO, "vhd"));
    let expected =
        format!("demo.vhd: continuing an interrupted upload: {bytes} bytes of its pages are there");
    assert!(complaint.contains(&expected), "{complaint}");
    assert!(azurite.read("windows/demo.vhd") == fs::read(place.path("demo.vhd")).unwrap());
    let wrong = misplaced(
        &place.path("demo.vhd"),
        &azurite.about("windows/demo.vhd")["ranges"],
    );
    assert!(wrong.is_empty(), "{wrong:?}");
    let elsewhere = "azblob://winimgtests/images/elsewhere";
    let (all, _) = counted(&place, &azurite, "comp=page ", (elsewhere, "vhd"));
    assert!(second < all, "{second} of {all}");
}

#[test]
fn a_killed_upload_of_blocks_is_gone_on_with() {
    let (place, azurite) = (Place::ami(), Azurite::start());
    killed(&place, &azurite, "comp=block&", 4, "raw");
    let (second, complaint) = counted(&place, &azurite, "comp=block&", (TO, "raw"));
    // Of five blocks.
    let expected = format!(
        "demo.raw: continued an interrupted upload: {} of 5 blocks were there",
        5 - second
    );
    assert!(complaint.contains(&expected), "{complaint}");
    assert!((1..5).contains(&second), "{second}");
    assert!(azurite.read("windows/demo.raw") == fs::read(place.path("demo.raw")).unwrap());
}

#[test]
fn a_signature_is_enough_and_is_nowhere_to_be_seen() {
    let (place, azurite) = (Place::new(), Azurite::start());
    let (token, endpoint) = (azurite.signature(), endpoint(azurite.port()));
    let given = [
        ("AZURE_STORAGE_SAS_TOKEN", token.as_str()),
        ("AZURE_STORAGE_SERVICE_ENDPOINT", endpoint.as_str()),
        ("WINIMG_LOG", "trace"),
    ];
    let output = place.publish(&["--to", TO], &given);
    said(&output);
    let signature = token.split('&').find(|pair| pair.starts_with("sig="));
    let signature = signature.expect("a signature").to_owned();
    let everything = said(&output) + &complained(&output);
    assert!(!everything.contains(&signature));
    assert!(!place.published().to_string().contains("sig="));
}

#[test]
fn what_the_account_refuses_is_named_with_its_cure() {
    let (place, azurite) = (Place::new(), Azurite::start());
    let here = endpoint(azurite.port());
    let complaint = |to: &str, given: &[(&str, &str)]| {
        let said = place.refused(&["--to", to], given);
        said.replace(&azurite.port().to_string(), "PORT")
    };
    let wrong = [
        ("AZURE_STORAGE_KEY", "d3Jvbmd3cm9uZ3dyb25nd3Jvbmd3cm9uZw=="),
        ("AZURE_STORAGE_SERVICE_ENDPOINT", here.as_str()),
    ];
    let plain = [
        ("AZURE_STORAGE_KEY", KEY),
        (
            "AZURE_STORAGE_SERVICE_ENDPOINT",
            "http://storage.example.com",
        ),
    ];
    let nowhere = format!("azblob://{ACCOUNT}/nowhere");
    let all = [
        complaint(TO, &wrong),
        complaint(&nowhere, &variables(&here)),
        complaint(TO, &plain),
        complaint("azblob://winimgtests", &variables(&here)),
    ];
    insta::assert_snapshot!("azblob_refused", all.join("\n"));
    assert!(!place.path("published.json").exists());
}
