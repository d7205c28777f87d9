//! `winimg attach`: a person's lines, run through winimg's own agent client by Wine's cmd.

use winimg::engine::console;

use crate::wine::glib::Glib;
use crate::wine::node::Node;

#[test]
#[ignore = "needs Wine: make wine"]
fn lines_keep_their_folder_and_return_their_codes() {
    let mut node = Node::new(Glib::New);
    for folder in [r"C:\winimg", r"C:\a b"] {
        std::fs::create_dir_all(node.prefix.host(folder)).expect("a folder");
    }
    let batch = node.prefix.host(r"C:\a b\one.cmd");
    std::fs::write(batch, "@echo one %1\r\n@cd ..\r\n@exit /b 7\r\n").expect("a batch file");
    let mut folder = r"C:\".to_string();
    let mut said = String::new();
    for line in [
        "echo \"a & b\" 100%% ^> | find \"a\"",
        "cd \"a b\"",
        "one.cmd x",
        "cd \"a b\" & exit /b 5",
        "exit 6",
        "for %%i in (1 2) do @echo %%i",
        "cd ..",
        "rd /s /q \"C:\\a b\"",
    ] {
        said += &format!("{folder}>{line}\n");
        let reply = console::run(&mut node.client, line, &folder, &mut |text| {
            said += &text.replace('\r', "");
        });
        match reply.expect("the line is run") {
            console::wire::ConsoleReply::Ended {
                code: Some(code),
                folder: now,
                note,
            } => {
                said += &format!("[{code}] {}\n", note.unwrap_or_default());
                folder = now;
            }
            other => panic!("{other:?}"),
        }
    }
    insta::assert_snapshot!("console", &said);
}
