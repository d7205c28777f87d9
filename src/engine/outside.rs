//! What runs in the guest beside the plan's steps, for `winimg plan`: Setup's commands, the bootstrap's files, and the few
//! commands by which a build looks after the guest.
//!
//! Needs no medium and starts nothing. How a channel carries a command into the guest (the agent, PowerShell Direct) is
//! not shown.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{boot, image_state, payload};
use crate::answer;
use winimg_base::argv;
use winimg_base::error::Result;
use winimg_machine::guest::Command;
use winimg_machine::vm::Platform;
use winimg_recipe::recipe::Recipe;

pub struct Outside {
    /// Configuration pass and command line, by the answer file.
    setup: Vec<(String, String)>,
    /// The files in `C:\winimg`, with lines that end in CR LF. None where the recipe's own answer
    /// file does not run `stage.cmd`, which brings them there.
    files: Vec<(&'static str, String)>,
    own: Vec<(&'static str, String)>,
}

/// What a build of this recipe runs there on this platform. An error when the recipe's own answer file can't be read.
pub fn outside(recipe: &Recipe, platform: Platform) -> Result<Outside> {
    let own = recipe.setup.answer_file.as_ref();
    let template = own.map_or_else(|| Ok(answer::built_in()), answer::read_template)?;
    let drivers = match platform {
        Platform::Qemu => recipe.setup.drivers.as_slice(),
        Platform::HyperV => &[],
    };
    Ok(Outside {
        setup: answer::commands(&template, recipe)?,
        files: if answer::is_staged(&template, recipe)? {
            answer::bootstrap_files(drivers)?
        } else {
            Vec::new()
        },
        own: own_commands(),
    })
}

fn own_commands() -> Vec<(&'static str, String)> {
    let line = |c: Command| argv::display(&c.program, &c.arguments);
    let mut all = vec![
        (
            "until Setup is complete",
            line(image_state::ask_image_state(1)),
        ),
        ("until Setup has ended", line(image_state::ask_setup(1))),
    ];
    let removals = boot::ANSWER_FILES.map(|file| line(boot::removal(file, 1)));
    all.extend(removals.map(|line| ("if the file is there", line)));
    let (program, arguments) = payload::ready().command();
    all.push((
        "until the payload disc is seen",
        argv::display(&program, &arguments),
    ));
    all
}

impl Outside {
    /// A section of the plan for people.
    pub fn text(&self) -> String {
        let mut out = String::from("Before the steps\n");
        for (pass, line) in &self.setup {
            let _ = writeln!(out, "  Windows Setup, pass {pass}\n      {line}");
        }
        for (name, text) in &self.files {
            let _ = writeln!(out, "  C:\\winimg\\{name}");
            for line in text.lines() {
                let _ = writeln!(out, "{}", format!("      | {line}").trim_end());
            }
        }
        if self.files.is_empty() {
            out.push_str(
                "  The answer file runs no \\winimg\\stage.cmd: nothing fills C:\\winimg\n",
            );
        }
        for (when, line) in &self.own {
            let _ = writeln!(out, "  winimg, {when}\n      {line}");
        }
        out
    }

    /// `setup`, `files`, `commands`; a file's text has CR LF.
    pub fn json(&self) -> Value {
        let setup = self.setup.iter();
        let setup = setup.map(|(pass, line)| json!({ "pass": pass, "command": line }));
        let files = self.files.iter();
        let files =
            files.map(|(name, text)| json!({ "path": format!(r"C:\winimg\{name}"), "text": text }));
        let own = self.own.iter();
        let own = own.map(|(when, line)| json!({ "when": when, "command": line }));
        json!({
            "setup": setup.collect::<Vec<_>>(),
            "files": files.collect::<Vec<_>>(),
            "commands": own.collect::<Vec<_>>(),
        })
    }
}
