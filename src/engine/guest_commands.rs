//! Commands that run in the guest besides the plan's steps, for `winimg plan`: Setup's commands,
//! the bootstrap's files, and the few commands with which a build checks on the guest.
//!
//! Needs no medium and starts nothing. Does not show the channel that carries a command into the
//! guest (the agent, PowerShell Direct).

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{boot, image_state, payload};
use crate::answer;
use winimg_base::argv;
use winimg_base::error::Result;
use winimg_machine::guest::GuestCommand;
use winimg_machine::vm::HypervisorKind;
use winimg_recipe::Recipe;

pub struct GuestCommands {
    /// Configuration pass and command line, by the answer file.
    setup: Vec<(String, String)>,
    /// The files in `C:\winimg`, with CRLF line ends. None if the recipe's own answer file does not
    /// run `stage.cmd`, which copies them there.
    files: Vec<(&'static str, String)>,
    own: Vec<(&'static str, String)>,
}

/// Collects the commands that a build of this recipe runs on this platform. Fails if the recipe's
/// own answer file cannot be read.
pub fn collect_commands(recipe: &Recipe, platform: HypervisorKind) -> Result<GuestCommands> {
    let own = recipe.setup.answer_file.as_ref();
    let template = own.map_or_else(|| Ok(answer::built_in()), answer::read_template)?;
    let drivers = if platform.spec().needs_virtio {
        recipe.setup.drivers.as_slice()
    } else {
        &[]
    };
    Ok(GuestCommands {
        setup: answer::list_commands(&template, recipe)?,
        files: if answer::is_staged(&template, recipe)? {
            answer::render_bootstrap_files(drivers)?
        } else {
            Vec::new()
        },
        own: own_commands(),
    })
}

fn own_commands() -> Vec<(&'static str, String)> {
    let mut all = vec![
        (
            "until Setup is complete",
            render_command(&image_state::ask_image_state(1)),
        ),
        (
            "until Setup has ended",
            render_command(&image_state::ask_setup(1)),
        ),
    ];
    for file in boot::ANSWER_FILES {
        all.push((
            "if the file is there",
            render_command(&boot::build_removal(file, 1)),
        ));
    }
    let (program, arguments) = payload::make_ready_script().command();
    all.push((
        "until the payload disc is seen",
        argv::render_command_line(&program, &arguments),
    ));
    all
}

fn render_command(command: &GuestCommand) -> String {
    argv::render_command_line(&command.program, &command.arguments)
}

impl GuestCommands {
    /// Renders the section of the plan as text.
    pub fn render_text(&self) -> String {
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
                "  The answer file does not run \\winimg\\stage.cmd: C:\\winimg stays empty\n",
            );
        }
        for (when, line) in &self.own {
            let _ = writeln!(out, "  winimg, {when}\n      {line}");
        }
        out
    }

    /// Renders `setup`, `files` and `commands` as JSON; a file's text has CRLF.
    pub fn render_json(&self) -> Value {
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
