//! The verbs whose programs Wine does not have, or has in name only: what would have been run, to the letter.

use crate::wine::glib::Glib;
use crate::wine::node::Node;
use crate::wine::prefix::Prefix;

/// netsh ends with 1 where no rule of the name is left, as the step wants to see.
const ANSWERS: &str =
    "netsh.exe 1 firewall show rule\nnetsh.exe 1 name=old\nschtasks.exe 1 \\Example\\old\n";

#[test]
#[ignore = "needs Wine: make wine"]
fn programs_that_wine_lacks_are_called_as_planned() {
    let mut node = Node::new(Glib::New);
    node.prefix.script(ANSWERS);
    let rendered = node.build("windows", include_str!("recipes/windows.toml"));
    let rendered = rendered.unwrap_or_else(|e| panic!("{e}\n{}", node.prefix.trace()));
    let changed = node.prefix.look().since(&Prefix::untouched());
    insta::assert_snapshot!(
        "windows",
        &format!(
            "{rendered}\nwhat changed\n{changed}\nthe calls\n{}",
            node.prefix.trace()
        ),
    );
}

/// A refusal of any of them stops the build.
#[test]
#[ignore = "needs Wine: make wine"]
fn refusals_of_those_programs_are_failures() {
    let mut node = Node::new(Glib::Old);
    let cases = [
        (
            "acl = { path = 'C:\\windows\\web', grant = { SYSTEM = \"full\", Administrators = \"full\" } }",
            "icacls.exe 5 /grant",
            "exit code",
        ),
        (
            "task = { name = '\\Example\\x', command = 'C:\\k\\x.exe', trigger = \"startup\" }",
            "schtasks.exe 1 /create",
            "exit code 1",
        ),
        (
            "firewall = { name = \"kubelet\", ports = [10250] }",
            "netsh.exe 1 rule",
            "exit code 1",
        ),
        (
            "feature = \"Containers\"",
            "dism.exe -2146498548 /enable-feature",
            "-2146498548 (0x800f080c)",
        ),
    ];
    for (verb, answer, expected) in cases {
        node.prefix.script(&format!("{answer}\n"));
        let text = format!("[[steps]]\nname = \"refused\"\n{verb}\n");
        let error = node.build_error("refused", &text);
        assert!(
            error.contains(expected) && error.contains("refused.toml:"),
            "{error}"
        );
    }
}
#[test]
#[ignore = "needs Wine: make wine"]
fn servicing_is_called_as_planned() {
    let mut node = Node::new(Glib::New);
    let rendered = node.build("servicing", include_str!("recipes/servicing.toml"));
    let rendered = rendered.unwrap_or_else(|e| panic!("{e}\n{}", node.prefix.trace()));
    insta::assert_snapshot!("servicing", &format!("{rendered}\n{}", node.prefix.trace()));
}

#[test]
#[ignore = "needs Wine: make wine"]
fn programs_get_their_arguments_whole() {
    let mut node = Node::new(Glib::Old);
    insta::assert_snapshot!(
        "programs",
        &node.twice(
            "programs",
            include_str!("recipes/programs.toml"),
            &Prefix::untouched(),
        ),
    );
    let read = |path| node.prefix.read(path).unwrap_or_default();
    assert_eq!(
        read(r"C:\carried.txt"),
        "two words\0say \"x\"\x00100%\0zażółć\0"
    );
    assert_eq!(read(r"C:\there.txt"), "\0C:\\a b\\\x00100%\0^&|\0");
}
