//! docs/tutorial.md, from its first to its last command, on a real QEMU with the stand-in installer.
//!
//! Each command of a `console` block is typed. A `toml` block is saved under the name in its first line. The lines of a `text` block
//! are what the last command printed; `…` stands for anything, and a line that begins with `error` for a command that fails.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use support::tree::{self, root};

use crate::examples::blocks;

const PAGE: &str = "docs/tutorial.md";

/// Not typed here: what the suite has done already, and what needs a cloud or a cluster.
const ELSEWHERE: [&str; 4] = ["make", "openstack", "kubeadm", "kubectl"];

struct Typed {
    command: String,
    succeeded: bool,
    printed: String,
}

fn types(command: &str, folder: &Path) -> Typed {
    let path = std::env::var("PATH").unwrap_or_default();
    let winimg = tree::winimg();
    let programs = winimg.parent().expect("a folder").display().to_string();
    let done = Command::new("/bin/sh")
        .args(["-c", &format!("exec 2>&1; {command}")])
        .current_dir(folder)
        .env("PATH", format!("{programs}:{path}"))
        .env("WINIMG_CACHE_DIR", folder.join("cache"))
        .stdin(Stdio::null())
        .output()
        .expect("a shell");
    Typed {
        command: command.to_owned(),
        succeeded: done.status.success(),
        printed: String::from_utf8_lossy(&done.stdout).into_owned(),
    }
}

/// The first part of the page's text that was not printed, in this order.
fn not_printed<'a>(shown: &'a str, printed: &str) -> Option<&'a str> {
    let mut rest = printed;
    for part in shown.split(['\n', '…']).map(str::trim) {
        let Some(at) = rest.find(part) else {
            return Some(part);
        };
        rest = &rest[at + part.len()..];
    }
    None
}

mod nightly {
    use super::*;

    #[test]
    #[ignore = "boots QEMU: make end-to-end-nightly"]
    fn every_command_of_the_tutorial_does_what_it_says() {
        let folder = tree::folder();
        let folder = folder.path();
        for name in ["recipes", "target"] {
            symlink(root().join(name), folder.join(name)).expect("a link");
        }
        let standin = folder.join("target/standin/standin.iso");
        assert!(
            standin.exists(),
            "no stand-in installer: run `make standin`"
        );
        let mut last: Option<Typed> = None;
        let mut count = 0;
        for block in blocks::of(PAGE) {
            match block.language.as_str() {
                "toml" => {
                    let name = block.first_line().strip_prefix("# ").expect("a name");
                    std::fs::write(folder.join(name), &block.text).expect("a file");
                }
                "console" => {
                    for command in block.commands() {
                        let program = command.split_whitespace().next().unwrap_or_default();
                        if ELSEWHERE.contains(&program) {
                            continue;
                        }
                        if let Some(before) = last.take() {
                            assert!(before.succeeded, "{}\n{}", before.command, before.printed);
                        }
                        println!("{command}");
                        last = Some(types(&command, folder));
                        count += 1;
                    }
                }
                "text" => {
                    let mut typed = last.take().expect("a command");
                    let missing = not_printed(&block.text, &typed.printed);
                    assert_eq!(
                        missing, None,
                        "{block}: {}\n{}",
                        typed.command, typed.printed
                    );
                    let fails = block.text.lines().any(|line| line.starts_with("error"));
                    assert_eq!(
                        typed.succeeded, !fails,
                        "{}\n{}",
                        typed.command, typed.printed
                    );
                    typed.succeeded = true;
                    last = Some(typed);
                }
                other => panic!("{block}: the tutorial has no {other}"),
            }
        }
        let last = last.expect("a command");
        assert!(last.succeeded, "{}\n{}", last.command, last.printed);
        assert!(count > 12, "{count} commands");
    }
}

#[test]
fn what_the_page_shows_is_looked_for_in_its_order() {
    let printed = "  0:00 media: Windows\n  1:46 [1/2] one\n  1:47 [2/2] seal\n";
    assert_eq!(not_printed("… media: …\n… seal\n", printed), None);
    assert_eq!(not_printed("… seal\n… media: …\n", printed), Some("media:"));
}
