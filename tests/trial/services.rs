//! The services as a clone asks them, without a network.

use std::time::Duration;

use serde_json::Value;
use winimg::http::{HttpRequest, HttpResponse};
use winimg::trial::metadata::{CloneReport, MetadataEndpoint, MetadataService};
use winimg_recipe::target::MetadataForm;

use super::{KEYS, USER_DATA, bare, identity};

fn service(form: MetadataForm) -> MetadataService {
    MetadataService::from_form(form, &identity()).unwrap()
}

fn body(response: &HttpResponse) -> &str {
    std::str::from_utf8(&response.body).unwrap()
}

fn get(service: &mut MetadataService, target: &str) -> HttpResponse {
    service.handle(MetadataEndpoint::Metadata, &HttpRequest::new("GET", target))
}

/// What is found at each of these, below the address of instance metadata.
fn found(service: &mut MetadataService, pages: &[(&str, &str)]) {
    for (target, expected) in pages {
        let response = get(service, target);
        assert_eq!(
            (response.status, body(&response)),
            (200, *expected),
            "{target}"
        );
    }
}

#[test]
fn openstack_lists_its_folders_and_serves_a_config_drives_files() {
    let mut openstack = service(MetadataForm::OpenStack);
    found(
        &mut openstack,
        &[
            ("/", "2009-04-04/\n2021-03-23/\nlatest/\nopenstack/"),
            (
                "/openstack",
                "2012-08-10/\n2013-04-04/\n2013-10-17/\n2015-10-15/\n2016-06-30/\n2016-10-06/\n\
                 2017-02-22/\n2018-08-27/\n2020-10-14/\nlatest/",
            ),
            ("/openstack/2012-08-10/", "meta_data.json\nuser_data"),
            (
                "/openstack/latest/",
                "meta_data.json\nnetwork_data.json\npassword\nuser_data\nvendor_data.json\nvendor_data2.json",
            ),
            ("/openstack/latest/vendor_data.json", "{}"),
            // OpenStack has EC2's pages, without a token.
            ("/2009-04-04/meta-data/local-hostname", "clone-a"),
        ],
    );
    assert_eq!(
        get(&mut openstack, "/openstack/latest/user_data").body,
        USER_DATA
    );
    let response = get(&mut openstack, "/openstack/2013-04-04/meta_data.json");
    assert_eq!(
        response.find_header("content-type"),
        Some("application/json")
    );
    let meta: Value = serde_json::from_slice(&response.body).unwrap();
    assert_eq!(meta["public_keys"]["key1"], KEYS[1]);
    for missing in [
        "/openstack/2012-08-10/password",
        "/openstack/content/0000",
        "/openstac",
    ] {
        assert_eq!(get(&mut openstack, missing).status, 404, "{missing}");
    }
    let mut openstack = MetadataService::from_form(MetadataForm::OpenStack, &bare()).unwrap();
    assert_eq!(
        get(&mut openstack, "/openstack/latest/user_data").status,
        404
    );
}

#[test]
fn openstack_takes_one_encrypted_password() {
    let mut openstack = service(MetadataForm::OpenStack);
    let path = "/openstack/2013-04-04/password";
    let mut post = |body: &[u8]| {
        let request = HttpRequest::new("POST", path).with_body(body);
        openstack
            .handle(MetadataEndpoint::Metadata, &request)
            .status
    };
    assert_eq!(post(&[b'x'; 1021]), 400);
    assert_eq!(post(b"c2VjcmV0"), 200);
    assert_eq!(post(b"b3RoZXI="), 409);
    let request = HttpRequest::new("POST", "/openstack/latest/meta_data.json");
    assert_eq!(
        openstack
            .handle(MetadataEndpoint::Metadata, &request)
            .status,
        405
    );
    found(&mut openstack, &[(path, "c2VjcmV0")]);
    assert_eq!(openstack.reports(), [CloneReport::EncryptedPassword]);
}

#[test]
fn ec2_answers_a_token_alone() {
    let mut ec2 = service(MetadataForm::Ec2);
    let token_ttl = "X-aws-ec2-metadata-token-ttl-seconds";
    let put = |ttl: &str| HttpRequest::new("PUT", "/latest/api/token").with_header(token_ttl, ttl);
    let mut status = |request: &HttpRequest| ec2.handle(MetadataEndpoint::Metadata, request).status;
    assert_eq!(
        status(&HttpRequest::new("GET", "/latest/meta-data/instance-id")),
        401
    );
    assert_eq!(status(&HttpRequest::new("GET", "/no-such-page")), 401);
    assert_eq!(status(&HttpRequest::new("PUT", "/latest/api/token")), 400);
    for wrong in ["0", "21601", "-1", "soon"] {
        assert_eq!(status(&put(wrong)), 400, "{wrong}");
    }
    assert_eq!(
        status(&put("60").with_header("X-Forwarded-For", "10.0.0.1")),
        403
    );
    assert_eq!(status(&HttpRequest::new("POST", "/latest/api/token")), 405);

    let at = Duration::from_secs;
    let response = ec2.handle(MetadataEndpoint::Metadata, &put("60").with_time(at(100)));
    assert_eq!(response.find_header(token_ttl), Some("60"));
    let token = body(&response).to_owned();
    let other = ec2.handle(MetadataEndpoint::Metadata, &put("60").with_time(at(100)));
    assert_ne!(body(&other), token);
    let mut ask = |token: &str, seconds| {
        let request = HttpRequest::new("GET", "/latest/meta-data/local-hostname")
            .with_header("X-aws-ec2-metadata-token", token)
            .with_time(at(seconds));
        ec2.handle(MetadataEndpoint::Metadata, &request).status
    };
    assert_eq!(ask(&token, 159), 200);
    assert_eq!(ask(&token, 160), 401);
    assert_eq!(ask("nonsense", 101), 401);
}

#[test]
fn ec2_without_tokens_still_refuses_a_wrong_one() {
    let mut ec2 = service(MetadataForm::Ec2TokensOptional);
    found(
        &mut ec2,
        &[
            ("/", "2009-04-04/\n2021-03-23/\nlatest/"),
            ("/latest", "dynamic/\nmeta-data/\nuser-data"),
            (
                "/latest/meta-data/",
                "ami-id\nhostname\ninstance-id\ninstance-type\nlocal-hostname\nplacement/\npublic-keys/",
            ),
            ("/latest/meta-data/public-keys/", "0=key0\n1=key1"),
            ("/latest/meta-data/public-keys/1/", "openssh-key"),
            ("/latest/meta-data/public-keys/1/openssh-key", KEYS[1]),
        ],
    );
    let id = get(&mut ec2, "/latest/meta-data/instance-id");
    assert!(
        regex::Regex::new("^i-[0-9a-f]{17}$")
            .unwrap()
            .is_match(body(&id)),
        "{}",
        body(&id)
    );
    let document = get(&mut ec2, "/latest/dynamic/instance-identity/document");
    let document: Value = serde_json::from_slice(&document.body).unwrap();
    assert_eq!(document["instanceId"], body(&id));
    assert_eq!(get(&mut ec2, "/latest/user-data").body, USER_DATA);
    let wrong = HttpRequest::new("GET", "/latest/user-data")
        .with_header("X-aws-ec2-metadata-token", "nonsense");
    assert_eq!(ec2.handle(MetadataEndpoint::Metadata, &wrong).status, 401);
    let mut ec2 = MetadataService::from_form(MetadataForm::Ec2TokensOptional, &bare()).unwrap();
    for missing in [
        "/latest/user-data",
        "/latest/meta-data/public-keys/",
        "/latest/meta-data/mac",
    ] {
        assert_eq!(get(&mut ec2, missing).status, 404, "{missing}");
    }
}

#[test]
fn two_clones_are_two_machines_to_ec2_and_azure() {
    let other = winimg::trial::metadata::CloneIdentity {
        instance: "another".into(),
        ..identity()
    };
    let id = |service: Option<MetadataService>| {
        let response = get(&mut service.unwrap(), "/latest/meta-data/instance-id");
        response.body
    };
    let form = MetadataForm::Ec2TokensOptional;
    assert_ne!(
        id(MetadataService::from_form(form, &identity())),
        id(MetadataService::from_form(form, &other))
    );
    assert_eq!(
        id(MetadataService::from_form(form, &identity())),
        id(MetadataService::from_form(form, &identity()))
    );
    let goal = |mut service: MetadataService| {
        service
            .handle(MetadataEndpoint::WireServer, &wire("goalstate"))
            .body
    };
    assert_ne!(
        goal(service(MetadataForm::Azure)),
        goal(MetadataService::from_form(MetadataForm::Azure, &other).unwrap())
    );
}

/// A request for a component of the wire server, as cloudbase-init and the Linux agent make it.
fn wire(component: &str) -> HttpRequest {
    HttpRequest::new("GET", &format!("/machine?comp={component}"))
        .with_header("x-ms-version", "2015-04-05")
}

fn element<'a>(xml: &'a str, name: &str) -> &'a str {
    let (_, rest) = xml.split_once(&format!("<{name}>")).expect(name);
    rest.split_once("</").unwrap().0
}

#[test]
fn azures_wire_server_wants_its_version_and_describes_the_machine() {
    let mut azure = service(MetadataForm::Azure);
    let mut ask = |request: &HttpRequest| azure.handle(MetadataEndpoint::WireServer, request);
    let versions = ask(&HttpRequest::new("GET", "/?comp=Versions"));
    assert!(body(&versions).contains("<Version>2015-04-05</Version>"));
    let plain = HttpRequest::new("GET", "/machine?comp=goalstate");
    assert_eq!(ask(&plain).status, 400);
    assert_eq!(
        ask(&plain.with_header("x-ms-version", "1999-01-01")).status,
        400
    );
    let goal = ask(&wire("goalstate"));
    let goal = body(&goal);
    assert_eq!(element(goal, "ExpectedState"), "Started");
    for (name, root) in [
        ("HostingEnvironmentConfig", "<HostingEnvironmentConfig "),
        ("SharedConfig", "<SharedConfig "),
    ] {
        let address = element(goal, name).replace("&amp;", "&");
        let target = address.strip_prefix("http://168.63.129.16:80").unwrap();
        let config =
            ask(&HttpRequest::new("GET", target).with_header("x-ms-version", "2015-04-05"));
        assert!(body(&config).contains(root), "{target}: {}", body(&config));
        roxmltree::Document::parse(body(&config)).unwrap();
    }
    for unknown in [
        wire("nothing"),
        wire("extensionsConfig"),
        HttpRequest::new("GET", "/vmSettings"),
        HttpRequest::new("GET", "/machine/other/other?comp=config&type=sharedConfig")
            .with_header("x-ms-version", "2015-04-05"),
    ] {
        assert_eq!(ask(&unknown).status, 404, "{}", unknown.target());
    }
}

#[test]
fn azure_takes_a_health_report_of_this_machine_alone() {
    let mut azure = service(MetadataForm::Azure);
    let goal = azure.handle(MetadataEndpoint::WireServer, &wire("goalstate"));
    let container = element(body(&goal), "ContainerId").to_owned();
    let mut post = |container: &str, health: &str| {
        let report = format!(
            "<?xml version='1.0' encoding='utf-8'?>\n<Health><GoalStateIncarnation>1</GoalStateIncarnation><Container>\
             <ContainerId>{container}</ContainerId><RoleInstanceList><Role><InstanceId>x</InstanceId><Health>{health}</Health>\
             </Role></RoleInstanceList></Container></Health>"
        );
        let request = HttpRequest::new("POST", "/machine?comp=health")
            .with_header("x-ms-version", "2015-04-05")
            .with_body(report);
        azure.handle(MetadataEndpoint::WireServer, &request).status
    };
    let provisioning = "<State>NotReady</State><Details><SubStatus>Provisioning</SubStatus>\
                        <Description>first use</Description></Details>";
    assert_eq!(post(&container, provisioning), 200);
    assert_eq!(post(&container, "<State>Ready</State>"), 200);
    assert_eq!(post("another", "<State>Ready</State>"), 400);
    assert_eq!(post(&container, ""), 400);
    assert_eq!(post(&container, "<State>"), 400);
    assert_eq!(
        azure
            .handle(MetadataEndpoint::WireServer, &wire("health"))
            .status,
        405
    );
    let health = |state: &str, sub: Option<&str>, description: Option<&str>| CloneReport::Health {
        state: state.into(),
        sub_status: sub.map(str::to_owned),
        description: description.map(str::to_owned),
    };
    assert_eq!(
        azure.reports(),
        [
            health("NotReady", Some("Provisioning"), Some("first use")),
            health("Ready", None, None)
        ]
    );
}

#[test]
fn azures_instance_metadata_wants_its_header_and_a_version() {
    let mut azure = service(MetadataForm::Azure);
    let mut ask = |request: HttpRequest| {
        let response = azure.handle(MetadataEndpoint::Metadata, &request);
        (response.status, body(&response).to_owned())
    };
    let with_header =
        |target: &str| HttpRequest::new("GET", target).with_header("Metadata", "true");
    let instance = "/metadata/instance?api-version=2021-02-01";
    let (status, said) = ask(HttpRequest::new("GET", instance));
    assert_eq!(
        (status, said.as_str()),
        (
            400,
            r#"{"error":"Bad request. Required metadata header not specified","newest-versions":["2021-12-13","2021-02-01","2021-01-01"]}"#
        )
    );
    let (status, said) = ask(with_header("/metadata/instance"));
    assert_eq!(status, 400);
    assert!(said.contains("api-version was not specified"), "{said}");
    assert_eq!(ask(with_header("/metadata/instance?api-version=1")).0, 400);
    assert_eq!(
        ask(with_header(instance).with_header("X-Forwarded-For", "10.0.0.1")).0,
        400
    );
    let (status, said) = ask(with_header(instance));
    assert_eq!(status, 200);
    let whole: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(whole["compute"]["osProfile"]["computerName"], "clone-a");
    assert_eq!(
        ask(with_header(
            "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
        )),
        (200, "clone-a".into())
    );
    for unknown in [
        "/metadata/identity/oauth2/token?api-version=2018-02-01",
        "/metadata/instance/compute/none?api-version=2021-02-01",
        "/latest/meta-data/",
    ] {
        assert_eq!(ask(with_header(unknown)).0, 404, "{unknown}");
    }
}
