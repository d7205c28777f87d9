use super::*;

fn parse(text: &str) -> Result<Destination> {
    Destination::parse(text, FlagValues::default())
}

#[test]
fn a_destination_is_shown_as_it_is_typed() {
    for (text, shown) in [
        ("s3://images/windows", "s3://images/windows/"),
        ("s3://images", "s3://images/"),
        ("ami://images/winimg", "ami://images/winimg/"),
        ("azblob://team0/images", "azblob://team0/images/"),
        ("azblob://team0/images/a/b/", "azblob://team0/images/a/b/"),
        (
            "azure://11111111-2222-3333-4444-555555555555/node-images/team0/vhds/a",
            "azure://11111111-2222-3333-4444-555555555555/node-images/team0/vhds/a/",
        ),
        ("gs://im_ages/windows", "gs://im_ages/windows/"),
        ("glance://node-1.31/", "glance://node-1.31"),
        ("glance://", "glance://"),
        (
            "vsphere://vc.example.com:8443/node images/demo/",
            "vsphere://vc.example.com:8443/node images/demo",
        ),
        (
            "vsphere+http://127.0.0.1:8989/images",
            "vsphere+http://127.0.0.1:8989/images",
        ),
        (
            "https://files.example.com/images/",
            "https://files.example.com/images/",
        ),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/"),
        (
            "oci://registry.example.com:5000/team/node:v1.31",
            "oci://registry.example.com:5000/team/node:v1.31",
        ),
        (
            "containerdisk+http://[::1]:5000/node:1",
            "containerdisk+http://[::1]:5000/node:1",
        ),
    ] {
        assert_eq!(parse(text).unwrap().to_string(), shown);
    }
    let Destination::ContainerDisk(tag) = parse("containerdisk+http://[::1]:5000/node:1").unwrap()
    else {
        panic!("another destination");
    };
    assert!(tag.plain && tag.is_here);
}

#[test]
fn what_is_no_destination_is_reported_without_its_secrets() {
    for (text, fact, found) in [
        ("images", "has no scheme", "images"),
        ("ftp://host/x", "has an unknown scheme", "ftp://host/x"),
        (
            "s3://Images/x",
            "has a bucket name that S3 does not allow: `Images` has characters other than lower-case letters, digits, dots and hyphens",
            "s3://Images/x",
        ),
        (
            "ami://b/f",
            "has a bucket name that S3 does not allow: `b` is too short: 3 to 63 characters",
            "ami://b/f",
        ),
        (
            "s3://-images/f",
            "has a bucket name that S3 does not allow: `-images` does not start and end with a lower-case letter or a digit",
            "s3://-images/f",
        ),
        (
            "https://files.example.com/images\n",
            "has a line break, or spaces around it",
            "https://files.example.com/images\\n",
        ),
        (
            "https://files.exam\r\nple.com/images",
            "has a line break, or spaces around it",
            "https://files.exam\\r\\nple.com/images",
        ),
        (
            "https://ci:hunter2@host/x\n",
            "has a line break, or spaces around it",
            "…@host/x\\n",
        ),
        (
            " s3://images/x",
            "has a line break, or spaces around it",
            " s3://images/x",
        ),
        ("s3:///x", "names no bucket", "s3:///x"),
        (
            "s3://images/a/../b",
            "has characters in its folder that object keys should not have",
            "s3://images/a/../b",
        ),
        (
            "https://user:hunter2@host/x",
            "contains a user name or password",
            "…@host/x",
        ),
        (
            "https://host/x?sig=hunter2",
            "has more than a host and a folder",
            "https://host/x",
        ),
        (
            "vsphere://root:hunter2@vc/images",
            "contains a user name or password",
            "…@vc/images",
        ),
        (
            "vsphere+http://vc.example.com/images",
            "would send a password over http, which is allowed only for localhost",
            "vsphere+http://vc.example.com/images",
        ),
        (
            "vsphere://vc",
            "has no library, or a name with characters that are not allowed",
            "vsphere://vc",
        ),
        (
            "vsphere://vc/images/demo/1",
            "has more parts than a vCenter, a library and an item",
            "vsphere://vc/images/demo/1",
        ),
        (
            "azblob://team0:hunter2@host/images",
            "contains a user name or password",
            "…@host/images",
        ),
        (
            "azblob://team0/images?sig=hunter2",
            "has no valid container name (3 to 63 lower-case letters, digits and single \
             hyphens)",
            "azblob://team0/images",
        ),
        (
            "azblob://Team/images",
            "has no valid storage account name (3 to 24 lower-case letters and digits)",
            "azblob://Team/images",
        ),
        (
            "azblob://team0/images/a b",
            "has a folder with characters that are not allowed in blob names",
            "azblob://team0/images/a b",
        ),
        (
            "azure://mine/group/team0/images",
            "names no subscription: its ID, as `az account list` shows it",
            "azure://mine/group/team0/images",
        ),
        (
            "azure://11111111-2222-3333-4444-555555555555/group./team0/images",
            "names no resource group",
            "azure://11111111-2222-3333-4444-555555555555/group./team0/images",
        ),
        ("oci://registry/node", "names no tag", "oci://registry/node"),
        (
            "oci://registry/Node:1",
            "names no repository: lower-case words between slashes",
            "oci://registry/Node:1",
        ),
        (
            "oci://registry/node:.1",
            "has an invalid tag: letters, digits and . _ -, 128 at most",
            "oci://registry/node:.1",
        ),
        (
            "oci://user:hunter2@registry/node:1",
            "has more than a registry, a repository and a tag",
            "…@registry/node:1",
        ),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error.fact(), format!("the destination {fact}"), "{text}");
        let shown = error.to_string();
        assert!(
            shown.contains(&format!("\n  found: {found}\n"))
                || shown.ends_with(&format!("\n  found: {found}")),
            "{shown}"
        );
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
