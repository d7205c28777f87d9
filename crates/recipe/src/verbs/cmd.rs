//! The verb `cmd`: a batch script. It is run from a file, so that nothing has to be quoted.

use crate::document::value::TomlValue;
use crate::fields::LoweringContext;
use crate::ops::ExitRule;
use crate::ops::compiler::StepCompiler;
use crate::verbs::exit_codes::{ExitCodes, exit_rule};
use crate::verbs::script::{HOUR, batch_file, read_script};

/// Values of `cmd`.
#[derive(Clone, Debug)]
pub struct CmdSpec {
    /// Batch text of several lines, after variable substitution.
    pub script: String,
    pub exit_codes: ExitCodes,
}

pub fn read(cx: &LoweringContext<'_>, value: &TomlValue) -> Option<CmdSpec> {
    let (script, exit_codes) = read_script(cx, value, "cmd", None)?;
    Some(CmdSpec { script, exit_codes })
}

pub fn compile(site: &mut StepCompiler<'_>, cmd: &CmdSpec) -> Option<()> {
    if let Some(c) = cmd.script.chars().find(|c| !c.is_ascii()) {
        let place = &site.step.place;
        site.warn(
            place,
            format!("the script contains `{c}`, which cmd reads in the console's code page"),
            "",
            "keep batch text in ASCII, or use `powershell`, whose file is UTF-8",
        );
    }
    let rule = exit_rule(&cmd.exit_codes, ExitRule::Zero, &[]);
    batch_file(site, &cmd.script, rule, HOUR);
    Some(())
}
