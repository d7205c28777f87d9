//! The sockets behind the services' addresses, with clients of every kind.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use winimg::trial::metadata::server::{MetadataServer, relay_connection};
use winimg::trial::metadata::{MetadataEndpoint, MetadataService};
use winimg_recipe::target::MetadataForm;

use super::identity;

fn server(form: MetadataForm, folder: &Path) -> MetadataServer {
    let service = MetadataService::from_form(form, &identity()).unwrap();
    MetadataServer::with_patience(service, folder, Duration::from_millis(500)).unwrap()
}

/// Sends all of it and returns all of the answer.
fn say(server: &MetadataServer, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(&server.sockets()[0].1).unwrap();
    // A server that has refused it does not read the rest.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn line(answer: &str) -> &str {
    answer.lines().next().unwrap_or_default()
}

#[test]
fn an_answer_is_whole_and_ends_the_connection() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(MetadataForm::Ec2TokensOptional, dir.path());
    assert_eq!(
        say(
            &server,
            b"GET /latest/meta-data/local-hostname HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n"
        ),
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 7\r\nConnection: close\r\n\r\nclone-a"
    );
}

#[test]
fn what_was_asked_is_recorded_with_its_answer() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(MetadataForm::Azure, dir.path());
    let addresses: Vec<_> = server
        .sockets()
        .iter()
        .map(|(at, path)| (*at, path.clone()))
        .collect();
    assert_eq!(
        addresses,
        [
            (
                MetadataEndpoint::Metadata,
                dir.path().join("169.254.169.254")
            ),
            (
                MetadataEndpoint::WireServer,
                dir.path().join("168.63.129.16")
            ),
        ]
    );
    say(
        &server,
        b"GET /metadata/instance?api-version=2021-02-01 HTTP/1.1\r\nMetadata: true\r\n\r\n",
    );
    say(
        &server,
        b"GET /metadata/identity?api-version=2018-02-01 HTTP/1.1\r\nMetadata: true\r\n\r\n",
    );
    say(&server, b"nonsense\r\n\r\n");
    let asked: Vec<String> = server
        .list_requests()
        .iter()
        .map(|a| format!("{} {} {} {}", a.address, a.method, a.target, a.status))
        .collect();
    assert_eq!(
        asked,
        [
            "169.254.169.254:80 GET /metadata/instance?api-version=2021-02-01 200",
            "169.254.169.254:80 GET /metadata/identity?api-version=2018-02-01 404",
            "169.254.169.254:80   400",
        ]
    );
}

#[test]
fn requests_that_no_agent_makes_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(MetadataForm::OpenStack, dir.path());
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(65));
    let long = format!("GET / HTTP/1.1\r\na: {}\r\n\r\n", "b".repeat(17 << 10));
    for (request, expected) in [
        ("hello\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        (
            "GET http://169.254.169.254/ HTTP/1.1\r\n\r\n",
            "HTTP/1.1 400 Bad Request",
        ),
        (
            "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 400 Bad Request",
        ),
        (
            "POST / HTTP/1.1\r\nContent-Length: 65537\r\n\r\n",
            "HTTP/1.1 413 Content Too Large",
        ),
        (
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 411 Length Required",
        ),
        (
            many.as_str(),
            "HTTP/1.1 431 Request Header Fields Too Large",
        ),
        (
            long.as_str(),
            "HTTP/1.1 431 Request Header Fields Too Large",
        ),
    ] {
        assert_eq!(
            line(&say(&server, request.as_bytes())),
            expected,
            "{request}"
        );
    }
    // And it still answers.
    assert_eq!(
        line(&say(&server, b"GET / HTTP/1.1\r\n\r\n")),
        "HTTP/1.1 200 OK"
    );
}

#[test]
fn a_client_that_stops_in_the_middle_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(MetadataForm::OpenStack, dir.path());
    let began = Instant::now();
    assert_eq!(
        line(&say(&server, b"GET / HTTP/1.1\r\n")),
        "HTTP/1.1 408 Request Timeout"
    );
    let body = b"POST /openstack/latest/password HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc";
    assert_eq!(line(&say(&server, body)), "HTTP/1.1 408 Request Timeout");
    // One that says nothing at all is gone, and not recorded: it only looked whether somebody listens.
    assert_eq!(say(&server, b""), "");
    assert_eq!(server.list_requests().len(), 2);
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_client_is_asked_to_go_on_where_it_waits_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(MetadataForm::OpenStack, dir.path());
    let mut stream = UnixStream::connect(&server.sockets()[0].1).unwrap();
    let head = b"POST /openstack/2013-04-04/password HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n";
    stream.write_all(head).unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"abc").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(line(&answer), "HTTP/1.1 200 OK");
    assert_eq!(server.list_reports().len(), 1);
}

#[test]
fn a_connection_of_the_clone_reaches_the_socket() {
    let dir = tempfile::tempdir().unwrap();
    let server = server(MetadataForm::Ec2TokensOptional, dir.path());
    // QEMU gives the program one socket as its input and output, and ends neither before the answer has come.
    let (mut clone, forwarded) = UnixStream::pair().unwrap();
    clone
        .write_all(b"GET /latest/meta-data/local-hostname HTTP/1.1\r\n\r\n")
        .unwrap();
    let input = forwarded.try_clone().unwrap();
    relay_connection(&server.sockets()[0].1, input, &forwarded).unwrap();
    forwarded.shutdown(Shutdown::Both).unwrap();
    let mut answer = String::new();
    clone.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n\r\nclone-a"), "{answer}");
    drop(server);
    let error = relay_connection(
        &dir.path().join("169.254.169.254"),
        std::io::empty(),
        std::io::sink(),
    );
    assert!(
        error
            .unwrap_err()
            .to_string()
            .starts_with("cannot forward to ")
    );
}
