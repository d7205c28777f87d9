//! `service`: real services of a real service manager. The program is `programs/service.c`, which writes down its command
//! line.

use crate::wine::glib::Glib;
use crate::wine::node::Node;

#[test]
#[ignore = "needs Wine: make wine"]
fn services_are_made_started_changed_and_deleted() {
    let mut node = Node::new(Glib::New);
    // The program of a running service cannot be written to, so it comes with a plan of its own.
    node.build("program", include_str!("recipes/program.toml"))
        .expect("a build");
    let before = node.prefix.look();
    let changed = node.twice("services", include_str!("recipes/services.toml"), &before);
    insta::assert_snapshot!(
        "services",
        &format!("{changed}\nthe calls\n{}", node.prefix.trace()),
    );
}

/// The older glib gives sc.exe the same words.
#[test]
#[ignore = "needs Wine: make wine"]
fn a_service_through_an_older_agent_has_the_same_command_line() {
    let mut node = Node::new(Glib::Old);
    node.build("program", include_str!("recipes/program.toml"))
        .expect("a build");
    node.build("services", include_str!("recipes/services.toml"))
        .expect("a build");
    let log = node
        .prefix
        .read(r"C:\services\runtime.log")
        .expect("the service wrote it");
    assert_eq!(
        log,
        "\"C:\\Program Files\\Example (1)\\service.exe\" --run-service --config \"C:\\Program Files\\Example\\config.toml\" \
         \"--note=say \\\"zażółć\\\" 中 & ^\" \"C:\\logs dir\\\\\"\n"
    );
}

/// Windows, like Wine, does not let the program of a running service be written to: said at the step, not passed over.
#[test]
#[ignore = "needs Wine: make wine"]
fn the_program_of_a_running_service_is_not_replaced_in_silence() {
    let mut node = Node::new(Glib::New);
    let text = include_str!("recipes/restart.toml");
    node.build("restart", text).expect("a build");
    let error = node.build_error("restart", text);
    assert!(
        error.contains("Sharing violation") && error.contains("restart.toml:"),
        "{error}"
    );
}

/// A service whose program is not there cannot be started: Windows' number, the step's name and place.
#[test]
#[ignore = "needs Wine: make wine"]
fn a_service_that_does_not_start_stops_the_build() {
    let mut node = Node::new(Glib::New);
    let text = "[[steps]]\nname = \"broken\"\nservice = { name = \"broken\", program = 'C:\\no.exe', state = \"running\" }\n";
    let error = node.build_error("broken", text);
    assert!(
        error.contains("exit code 2") && error.contains("broken.toml:"),
        "{error}"
    );
}
