//! Which arguments arrive as they were sent, through both rules of glib; and that winimg refuses the others.

use std::time::Duration;

use winimg_machine::guest::{Guest as _, GuestCommand, GuestExit};

use crate::wine::glib::Glib;
use crate::wine::node::Node;
use crate::wine::prefix::{Prefix, program};

const TIME: Duration = Duration::from_secs(120);
const FILE: &str = r"C:\argv.txt";

/// All that has to arrive through any agent.
const SOUND: [&str; 34] = [
    "plain",
    "two words",
    "  blanks around  ",
    "tab\there",
    "\"",
    "\"quoted\"",
    "say \"x y\"",
    "ends in quote\"",
    r"C:\a\b",
    r"C:\a\",
    r"C:\a\\",
    r"\\host\share",
    r"C:\Program Files\k8s\.",
    "back\\\"slash",
    "two\\\\\"slashes",
    "a b\\\\\"c",
    r"\",
    r"a\ b",
    "%PATH%",
    "100%",
    "%%",
    "^",
    "a^b & c | d < e > f",
    "(x)",
    "!x!",
    "'x'",
    "`x`",
    "a=b",
    "a,b;c",
    "@file",
    "/c",
    "--x=\"a b\"",
    "zażółć gęślą jaźń",
    "中文 🦀 \u{301}",
];

fn put_argv(prefix: &Prefix) {
    std::fs::copy(program("argv.exe"), prefix.host(r"C:\argv.exe")).expect("a copy");
}

fn argv(arguments: &[&str]) -> GuestCommand {
    let all = std::iter::once(FILE).chain(arguments.iter().copied());
    GuestCommand {
        program: r"C:\argv.exe".into(),
        arguments: all.map(str::to_owned).collect(),
        timeout: TIME,
    }
}

/// What the program found.
fn arrived(node: &mut Node, command: &GuestCommand) -> Vec<String> {
    let exit = node.client.run(command, &mut |_| {}).expect("it runs");
    assert_eq!(exit, GuestExit::Code(0));
    let text = node.prefix.read(FILE).expect("it wrote");
    text.split_terminator('\0').map(str::to_owned).collect()
}

#[test]
#[ignore = "needs Wine: make wine"]
fn arguments_arrive_as_they_were_sent() {
    for glib in [Glib::Old, Glib::New] {
        let mut node = Node::new(glib);
        put_argv(&node.prefix);
        assert_eq!(arrived(&mut node, &argv(&SOUND)), SOUND, "{glib:?}");
        let turned: Vec<&str> = SOUND.iter().rev().copied().collect();
        assert_eq!(arrived(&mut node, &argv(&turned)), turned, "{glib:?}");
    }
}

/// Each of these is refused before anything is sent, with the argument's number and the reason. Sent all the same, they
/// would arrive as something else.
#[test]
#[ignore = "needs Wine: make wine"]
fn what_would_not_arrive_is_refused() {
    let mut node = Node::new(Glib::Old);
    put_argv(&node.prefix);
    let cases: [(&[&str], &str); 4] = [
        (
            &["a", "", "b"],
            "argument 3 is empty, and QEMU's guest agent drops it",
        ),
        (
            &[r"C:\Program Files\k8s\", "next"],
            "has a blank and ends in a backslash",
        ),
        (
            &["one\ntwo"],
            "argument 2 contains the control character U+000A",
        ),
        (
            &["one\0two"],
            "argument 2 contains the control character U+0000",
        ),
    ];
    for (arguments, why) in cases {
        let error = node.run_error(&argv(arguments));
        assert!(
            error.contains(why) && error.contains("put it into a batch file"),
            "{error}"
        );
        assert_eq!(node.prefix.read(FILE), None, "something was sent");
    }
    let cmd = GuestCommand {
        program: r"C:\Windows\System32\cmd.exe".into(),
        arguments: ["/d", "/c", r#"C:\argv.exe C:\argv.txt "a b""#]
            .map(String::from)
            .to_vec(),
        timeout: TIME,
    };
    let error = node.run_error(&cmd);
    assert!(
        error.contains(
            "contains a double quote, which QEMU's guest agent escapes in a way that cmd.exe does \
             not support"
        ),
        "{error}"
    );
    let msi = GuestCommand {
        program: r"C:\Windows\System32\msiexec.exe".into(),
        arguments: vec![r#"P="a b""#.into()],
        ..cmd
    };
    let error = node.run_error(&msi);
    assert!(
        error.contains("in a way that msiexec.exe does not support"),
        "{error}"
    );
}

/// The reasons for the refusals: without them these are the arguments that arrive.
#[test]
#[ignore = "needs Wine: make wine"]
fn the_refusals_have_their_reasons() {
    let cases: [(Glib, &[&str], &[&str]); 5] = [
        (Glib::New, &["a", "", "b"], &["a", "b"]),
        (Glib::Old, &["a", "", "b"], &["a", "b"]),
        (
            Glib::Old,
            &[r"C:\Program Files\k8s\", "next"],
            &["C:\\Program Files\\k8s\" next"],
        ),
        (
            Glib::New,
            &[r"C:\Program Files\k8s\", "next"],
            &[r"C:\Program Files\k8s\", "next"],
        ),
        (Glib::New, &["one\ntwo"], &["one\ntwo"]),
    ];
    for (glib, sent, expected) in cases {
        let prefix = crate::wine::agent::Bare::new(glib);
        put_argv(&prefix.prefix);
        let arguments: Vec<String> = std::iter::once(FILE)
            .chain(sent.iter().copied())
            .map(str::to_owned)
            .collect();
        prefix.exec(r"C:\argv.exe", &arguments);
        let text = prefix.prefix.read(FILE).expect("it wrote");
        let found: Vec<&str> = text.split_terminator('\0').collect();
        assert_eq!(found, expected, "{glib:?} {sent:?}");
    }
}

/// What the client knows of the agent: 32-bit codes, programs that are not there, text in both pipes, children that hold them.
#[test]
#[ignore = "needs Wine: make wine"]
fn codes_output_and_missing_programs_are_reported_whole() {
    let mut node = Node::new(Glib::New);
    let cmd = |line: &[&str]| GuestCommand {
        program: r"C:\Windows\System32\cmd.exe".into(),
        arguments: ["/d", "/c"]
            .iter()
            .chain(line)
            .map(|s| (*s).to_owned())
            .collect(),
        timeout: TIME,
    };
    for (code, expected) in [
        ("0", 0),
        ("3010", 3010),
        ("-1", -1),
        ("-1073741819", -1_073_741_819),
        ("-2146498529", -2_146_498_529),
    ] {
        let exit = node
            .client
            .run(&cmd(&["exit", code]), &mut |_| {})
            .expect("it runs");
        assert_eq!(exit, GuestExit::Code(expected), "{code}");
    }
    let mut said = String::new();
    let both = cmd(&["echo", "out", "&", "echo", "err", ">&2"]);
    node.client
        .run(&both, &mut |bytes| {
            said.push_str(&String::from_utf8_lossy(bytes))
        })
        .expect("it runs");
    assert_eq!(
        said.replace("\r\n", "\n").replace(" \n", "\n"),
        "out\nerr\n"
    );
    let missing = GuestCommand {
        program: r"C:\no\such.exe".into(),
        arguments: vec![],
        timeout: TIME,
    };
    let error = node.run_error(&missing);
    assert!(
        error.contains("the guest cannot start the program"),
        "{error}"
    );
    assert_eq!(node.client.get(r"C:\no.txt", 10).expect("an answer"), None);
    assert_eq!(
        node.client.get(r"C:\no\where.txt", 10).expect("an answer"),
        None
    );
}
