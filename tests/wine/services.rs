//! `service`: real services of a real service manager. The program is `programs/service.c`, which writes down its command
//! line.

use crate::glib::Glib;
use crate::node::{Node, golden};

#[test]
#[ignore = "needs Wine: make wine"]
fn services_are_made_started_changed_and_deleted() {
    let mut node = Node::new(Glib::New);
    let changed = node.twice("services", include_str!("recipes/services.toml"));
    golden("services.txt", &format!("{changed}\n{}", node.prefix.trace()));
}

/// The older glib gives sc.exe the same words.
#[test]
#[ignore = "needs Wine: make wine"]
fn a_service_through_an_older_agent_has_the_same_command_line() {
    let mut node = Node::new(Glib::Old);
    node.build("services", include_str!("recipes/services.toml")).expect("a build");
    let log = node.prefix.read(r"C:\services\runtime.log").expect("the service wrote it");
    assert_eq!(
        log,
        "\"C:\\Program Files\\Example (1)\\service.exe\" --run-service --config \"C:\\Program Files\\Example\\config.toml\" \
         \"--note=say \\\"zażółć\\\" 中 & ^\" \"C:\\logs dir\\\\\"\n"
    );
}

/// A service whose program is not there cannot be started: Windows' number, the step's name and place.
#[test]
#[ignore = "needs Wine: make wine"]
fn a_service_that_does_not_start_stops_the_build() {
    let mut node = Node::new(Glib::New);
    let text = "[[steps]]\nname = \"broken\"\nservice = { name = \"broken\", program = 'C:\\no.exe', state = \"running\" }\n";
    let error = node.build("broken", text).expect_err("no program").to_string();
    assert!(error.contains("exit code 2") && error.contains("broken.toml:"), "{error}");
}
