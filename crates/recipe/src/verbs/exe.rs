//! The verb `exe`. The program is run directly, or from the step's `.cmd` if `creates`, `directory`
//! or an argument requires that.
//!
//! Arguments that cannot be passed unchanged are refused: the guest agent breaks some, batch text
//! others.

use crate::GuestPath;
use crate::document::value::TomlValue;
use crate::fields::{LoweringContext, TableReader};
use crate::ops::batch::{self, BatchScript};
use crate::ops::compiler::{MINUTE, StepCompiler, on_disc};
use crate::ops::{ExitRule, PlannedCheck};
use crate::verbs::content::{StepContent, content_place, single_file};
use crate::verbs::exit_codes::{ExitCodes, exit_rule, read_exit_codes};
use crate::verbs::items::{RecipeItems, read_component_name};
use crate::verbs::script::{batch_file_after, run_batch_file};
use winimg_base::argv;
use winimg_base::text::{Located, Place};

/// `exe`: runs a program and checks its exit code.
#[derive(Clone, Debug)]
pub struct ExeSpec {
    pub program: ExeProgram,
    pub arguments: Vec<String>,
    /// The working directory.
    pub directory: Option<Located<GuestPath>>,
    /// Skips the program if this exists; it must exist afterwards.
    pub creates: Option<Located<GuestPath>>,
    pub exit_codes: ExitCodes,
}

#[derive(Clone, Debug)]
pub enum ExeProgram {
    /// Copied into the guest for this step and removed afterwards.
    Carried(StepContent),
    /// In the image already.
    InGuest(Located<GuestPath>),
}

/// Extensions that other verbs run, with the verb.
const OTHERS: [(&str, &str); 7] = [
    ("msi", "the verb is `msi`"),
    ("msu", "the verb is `update`"),
    ("cab", "the verb is `update`"),
    ("cmd", "the verb is `cmd`: `cmd = 'call C:\\k\\x.cmd'`"),
    ("bat", "the verb is `cmd`: `cmd = 'call C:\\k\\x.bat'`"),
    (
        "ps1",
        "the verb is `powershell`: `powershell = { file = \"x.ps1\" }`",
    ),
    ("zip", "unpack it with `extract`, then name the `program`"),
];

pub fn read(
    cx: &LoweringContext<'_>,
    value: &TomlValue,
    items: RecipeItems<'_>,
) -> Option<ExeSpec> {
    let fields = TableReader::open(cx, value, "exe")?;
    let program = read_program(&fields, items);
    let arguments = fields.read_texts("arguments");
    let directory = fields.guest_path("directory");
    let creates = fields.guest_path("creates");
    let exit_codes = read_exit_codes(&fields);
    let exe = ExeSpec {
        program: program?,
        arguments,
        directory,
        creates,
        exit_codes: exit_codes?,
    };
    fields.is_whole().then_some(exe)
}

/// Reads exactly one of `component`, `path`, `program`.
fn read_program(fields: &TableReader<'_>, items: RecipeItems<'_>) -> Option<ExeProgram> {
    let ways = ["component", "path", "program"];
    let given: Vec<&str> = ways.into_iter().filter(|w| fields.has(w)).collect();
    let help = "`component = \"setup\"` for a downloaded file, `path = \"files/setup.exe\"` for a \
                file next to the recipe, `program = 'C:\\k\\wins.exe'` for a file in the image";
    match given.as_slice() {
        [] => {
            let fact = format!("{} has nothing to run", fields.what);
            fields.cx.report_missing(fact, &fields.place, help);
            None
        }
        ["component"] => read_component_name(fields, items)
            .map(|c| ExeProgram::Carried(StepContent::Component(c))),
        ["path"] => {
            let path = fields.read_local_path("path", items.local_files)?;
            Some(ExeProgram::Carried(StepContent::Local(path)))
        }
        [_] => fields.guest_path("program").map(ExeProgram::InGuest),
        _ => {
            let given = given.join("` and `");
            let fact = format!("{} has `{given}`; only one is allowed", fields.what);
            fields.cx.error(fact, &fields.place, "keep one", help);
            None
        }
    }
}

pub fn compile(site: &mut StepCompiler<'_>, exe: &ExeSpec) -> Option<()> {
    let mut script = BatchScript::new();
    let (program, place, carried) = match &exe.program {
        ExeProgram::InGuest(path) => (path.value.clone(), path.place.clone(), false),
        ExeProgram::Carried(from) => {
            let place = content_place(from).clone();
            let (entry, file) = single_file(site, from)?;
            let name = site.report_error(batch::escape(&file), &place)?;
            let folder = site.step_folder();
            let index = site.add_entry(entry);
            script.make_folder(&format!("\"{folder}\""));
            script.copy(&on_disc(index, &name), &format!("\"{folder}\\{name}\""));
            (folder.join(&file), place, true)
        }
    };
    runs_by_itself(site, &program, &place)?;
    let own = ExitRule::Listed {
        ok: vec![0],
        reboot: vec![3010, 1641],
    };
    let rule = exit_rule(&exe.exit_codes, own, &[3010, 1641]);
    let plain = exe.creates.is_none()
        && exe.directory.is_none()
        && argv::check(program.as_str(), &exe.arguments).is_ok();
    if plain {
        if carried {
            site.put(script);
        }
        site.run(program.as_str(), exe.arguments.clone(), rule, 60 * MINUTE);
        return Some(());
    }
    let text = batch_text(site, exe, &program, &place, &rule)?;
    batch_file_after(site, &mut script, &text);
    site.put(script);
    run_batch_file(site, rule, 60 * MINUTE);
    if let Some(creates) = &exe.creates {
        let path = creates.value.clone();
        site.expect(PlannedCheck::Exists { path });
    }
    Some(())
}

fn runs_by_itself(site: &mut StepCompiler<'_>, program: &GuestPath, place: &Place) -> Option<()> {
    let extension = program.extension();
    if extension == "exe" || extension == "com" {
        return Some(());
    }
    let message = format!(
        "`{}` is not a program that Windows can run",
        program.file_name()
    );
    match OTHERS.iter().find(|(other, _)| *other == extension) {
        Some((_, help)) => site.error_with_help(place, message, "", *help),
        None => {
            let help =
                "a program's name ends in `.exe`; for a component set `file = \"setup.exe\"`";
            site.error_with_help(place, message, "", help);
        }
    }
    None
}

/// Renders the step's `.cmd`. With `creates`, nothing is run if the path exists, and a successful
/// run that does not create it is a failure.
fn batch_text(
    site: &mut StepCompiler<'_>,
    exe: &ExeSpec,
    program: &GuestPath,
    place: &Place,
    rule: &ExitRule,
) -> Option<String> {
    let (ok, reboot) = match rule {
        ExitRule::Listed { ok, reboot } => (ok.as_slice(), reboot.as_slice()),
        _ => (&[0][..], &[][..]),
    };
    let good = ok.first().copied().unwrap_or(0);
    let mut line = site.quote(program.as_str(), place)?;
    for argument in &exe.arguments {
        let argument = site.report_error(batch_argument(argument), place)?;
        line.push(' ');
        line.push_str(&argument);
    }
    let mut text = String::from("@echo off\n");
    let creates = match &exe.creates {
        Some(path) => Some(site.quoted_path(path)?),
        None => None,
    };
    if let Some(there) = &creates {
        text.push_str(&format!(
            "if exist {there} echo {there} is there already\nif exist {there} exit /b {good}\n"
        ));
    }
    if let Some(directory) = &exe.directory {
        let folder = site.quoted_path(directory)?;
        text.push_str(&format!(
            "cd /d {folder} || exit /b {}\n",
            choose_failure_code(ok, reboot)
        ));
    }
    text.push_str(&line);
    text.push('\n');
    if let Some(there) = &creates {
        text.push_str("set code=%errorlevel%\n");
        for code in ok {
            let missing = format!("if %code%=={code} if not exist {there}");
            text.push_str(&format!(
                "{missing} echo the program ended with {code}, and {there} is not there\n{missing} \
                 exit /b {}\n",
                choose_failure_code(ok, reboot)
            ));
        }
        text.push_str("exit /b %code%\n");
    } else {
        text.push_str("exit /b %errorlevel%\n");
    }
    Some(text)
}

/// Returns an exit code that means failure for this step.
fn choose_failure_code(ok: &[i64], reboot: &[i64]) -> i64 {
    (1..)
        .find(|code| !ok.contains(code) && !reboot.contains(code))
        .unwrap_or(1)
}

/// Quotes an argument for batch text and the C runtime (Microsoft: Parsing C command-line
/// arguments). It is left unquoted if that is safe: installers that parse their command line
/// themselves want `/D=C:\k` without quotes.
fn batch_argument(argument: &str) -> Result<String, String> {
    let text = batch::escape(argument)?;
    let needs_quotes = argument
        .chars()
        .any(|c| c.is_ascii_whitespace() || "&|<>^()@!'`,;".contains(c));
    if !argument.is_empty() && !needs_quotes {
        return Ok(text);
    }
    let backslashes = text.len() - text.trim_end_matches('\\').len();
    Ok(format!("\"{text}{}\"", "\\".repeat(backslashes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_in_batch_text() {
        for (argument, text) in [
            ("/quiet", "/quiet"),
            (r"/D=C:\k", r"/D=C:\k"),
            ("", r#""""#),
            ("a b", r#""a b""#),
            (r"C:\Program Files\k\", r#""C:\Program Files\k\\""#),
            ("100%", "100%%"),
            ("a&b", r#""a&b""#),
        ] {
            assert_eq!(batch_argument(argument), Ok(text.to_owned()), "{argument}");
        }
        assert!(batch_argument(r#"say "x""#).is_err());
        assert!(batch_argument("ż").is_err());
    }

    #[test]
    fn the_code_of_a_failure_is_none_that_the_recipe_calls_good() {
        assert_eq!(choose_failure_code(&[0], &[3010]), 1);
        assert_eq!(choose_failure_code(&[0, 1], &[2]), 3);
    }
}
