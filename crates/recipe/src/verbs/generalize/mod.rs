//! The verb `generalize`: waits until Windows is idle, then runs the task that seals it
//! (`seal_task.rs`).
//!
//! sysprep's exit code proves nothing, so its results are checked afterwards. The wait is not part
//! of the task, because it may require a restart. Only winimg's own files are removed from
//! `Setup\Scripts`: a component may have put its own `SetupComplete.cmd` there for the clone. The
//! same script reverts the registry settings that the bootstrap made for the build.

mod answer;
mod build_settings;
mod restore;
mod seal_task;

use std::path::PathBuf;

use crate::document::value::TomlValue;
use crate::fields::{LoweringContext, TableReader};
use crate::ops::batch::BatchScript;
use crate::ops::compiler::{MINUTE, QUICK, StepCompiler};
use crate::ops::programs::{CMD, REG, to_arguments};
use crate::ops::{
    Encoding, ExitRule, OFF_TIMEOUT, PayloadScript, PlannedCheck, PlannedOp, PlannedStep,
    ProgramRun, REBOOT_TIMEOUT, SettleWait,
};
use crate::verbs::items::RecipeItems;
use crate::{GUEST_DIR, GuestPath, Recipe, RegistryKey, RegistryValueData};
use winimg_base::io;
use winimg_base::text::{Located, Place, to_crlf};

pub use answer::{ANSWER_FILE, DISABLE_ADMINISTRATOR, SEALED};
pub use build_settings::{BUILD_SETTINGS, BuildSetting};
use restore::{disable_useless_agent, restore};
use seal_task::SealTask;
pub use seal_task::{SEAL_FAILED, SEAL_LOG, SEAL_SCRIPT, start_seal};

/// Values of `generalize`.
#[derive(Clone, Debug)]
pub struct GeneralizeSpec {
    pub answer_file: SealAnswer,
    pub mode_vm: bool,
}

/// The answer file for sysprep, which clones use.
#[derive(Clone, Debug)]
pub enum SealAnswer {
    BuiltIn,
    /// A template beside the recipe.
    Own(Located<PathBuf>),
    /// No answer file; leftovers are removed, so that clones use the one from their platform.
    None,
}

const SYSPREP: &str = r"C:\Windows\System32\Sysprep\sysprep.exe";

const TAG: &str = r"C:\Windows\System32\Sysprep\Sysprep_succeeded.tag";

/// Newer versions of Setup keep the original answer file here, including the build password.
const ORIGINAL_ANSWER_FILE: &str = r"C:\Windows\Panther\unattend-original.xml";

/// Answer files that the clone would find before the one given to sysprep (Microsoft: Windows Setup
/// automation overview, implicit answer file search order), and the results of an earlier run.
const STALE_FILES: [&str; 5] = [
    r"C:\Windows\System32\Sysprep\unattend.xml",
    TAG,
    ORIGINAL_ANSWER_FILE,
    r"C:\Autounattend.xml",
    r"C:\unattend.xml",
];

/// Setup's cached copy of its last answer file, which it prefers to those on a disc. With a custom
/// answer file sysprep writes it again.
const CACHED_ANSWER_FILES: [&str; 2] = [
    r"C:\Windows\Panther\unattend.xml",
    r"C:\Windows\Panther\Autounattend.xml",
];

const PANTHER_UNATTEND: &str = r"C:\Windows\Panther\Unattend";

/// The value `UnattendFile` in this key names a file that takes precedence over all others.
const SETUP_KEY: &str = r"HKLM\SYSTEM\Setup";

pub fn read(
    cx: &LoweringContext<'_>,
    value: &TomlValue,
    items: RecipeItems<'_>,
) -> Option<GeneralizeSpec> {
    let fields = TableReader::open(cx, value, "generalize")?;
    let verb = GeneralizeSpec {
        answer_file: seal_answer(&fields, items),
        mode_vm: fields.flag("mode_vm"),
    };
    fields.is_whole().then_some(verb)
}

fn seal_answer(fields: &TableReader<'_>, items: RecipeItems<'_>) -> SealAnswer {
    if fields.string_is("answer_file", "none") {
        return SealAnswer::None;
    }
    let own = fields.read_local_path("answer_file", items.local_files);
    own.map_or(SealAnswer::BuiltIn, SealAnswer::Own)
}

pub fn compile(site: &mut StepCompiler<'_>, generalize: &GeneralizeSpec) -> Option<()> {
    let rendered = match &generalize.answer_file {
        SealAnswer::None => None,
        SealAnswer::BuiltIn => Some(render_built_in_answer(site)?),
        SealAnswer::Own(own) => Some(render_own_answer(site, own)?),
    };
    let seal =
        rendered.map(|text| site.text_entry(answer::ANSWER_FILE, to_crlf(&text), Encoding::Utf8));
    site.add_settle();
    let mut undo = BatchScript::new();
    for file in STALE_FILES {
        delete(&mut undo, file);
    }
    undo.add_line(format!(
        "if exist \"{PANTHER_UNATTEND}\\\" rd /s /q \"{PANTHER_UNATTEND}\""
    ));
    undo.add_line(format!("if exist \"{PANTHER_UNATTEND}\\\" exit /b 1"));
    own_setup_scripts(&mut undo);
    let restored = restore(site.recipe, &mut undo);
    disable_useless_agent(site.recipe, &mut undo);
    let mut prepare = BatchScript::new();
    let mut sysprep = format!("{SYSPREP} /generalize /oobe /quit /quiet");
    match &seal {
        Some(from) => {
            prepare.copy(from, r#""C:\winimg\seal.xml""#);
            sysprep.push_str(r" /unattend:C:\winimg\seal.xml");
        }
        None => no_answer_file(site, &mut undo),
    }
    if generalize.mode_vm {
        sysprep.push_str(" /mode:vm");
    }
    let timeout = site.timeout_or(45 * MINUTE);
    let tag = TAG;
    seal_task::seal(site, prepare, SealTask { undo, sysprep, tag }, timeout);
    site.expect(PlannedCheck::Missing {
        path: GuestPath::from_static(GUEST_DIR),
    });
    site.expect(PlannedCheck::Exists {
        path: GuestPath::from_static(TAG),
    });
    site.expect(PlannedCheck::Registry {
        key: RegistryKey::from_static(
            r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State",
        ),
        value: Some("ImageState".to_owned()),
        data: RegistryValueData::Sz(answer::SEALED.to_owned()),
    });
    site.expects.extend(restored);
    Some(())
}

fn delete(script: &mut BatchScript, file: &str) {
    script.add_line(format!(
        "if exist \"{file}\" del /f /q \"{file}\"\nif exist \"{file}\" exit /b 1"
    ));
}

/// Removes everything that Setup would prefer to the answer file on the platform's disc, and checks
/// that it stays removed.
fn no_answer_file(site: &mut StepCompiler<'_>, script: &mut BatchScript) {
    for file in CACHED_ANSWER_FILES {
        delete(script, file);
    }
    let value = "UnattendFile";
    script.add_line(format!("{REG} delete {SETUP_KEY} /v {value} /f >nul 2>&1"));
    script.add_line(format!(
        "{REG} query {SETUP_KEY} /v {value} >nul 2>&1 && exit /b 1"
    ));
    let files = CACHED_ANSWER_FILES
        .into_iter()
        .chain(STALE_FILES.into_iter().filter(|f| *f != TAG));
    for path in files.chain([PANTHER_UNATTEND]) {
        site.expect(PlannedCheck::Missing {
            path: GuestPath::from_static(path),
        });
    }
    site.expect(PlannedCheck::Registry {
        key: RegistryKey::from_static(SETUP_KEY),
        value: Some(value.to_owned()),
        data: RegistryValueData::Absent,
    });
}

fn render_built_in_answer(site: &mut StepCompiler<'_>) -> Option<String> {
    let place = &site.step.place;
    site.report_error(answer::render(answer::TEMPLATE, site.recipe), place)
}

/// Renders the recipe's own answer file.
fn render_own_answer(site: &mut StepCompiler<'_>, own: &Located<PathBuf>) -> Option<String> {
    let shown = own.value.display();
    let read = io::read_xml_limited(&own.value, io::limit::ANSWER_FILE)
        .map_err(|e| format!("cannot read the answer file `{shown}`: {e}"))
        .and_then(|template| {
            answer::render(&template, site.recipe)
                .map_err(|e| format!("the answer file `{shown}` is not usable: {e}"))
        });
    site.report_error(read, &own.place)
}

/// Removes the bootstrap's files from `Setup\Scripts`, recognized by the path `C:\winimg` in them.
fn own_setup_scripts(script: &mut BatchScript) {
    for name in ["SetupComplete.cmd", "ErrorHandler.cmd"] {
        let file = format!(r#""C:\Windows\Setup\Scripts\{name}""#);
        script.add_line(format!(
            r#"C:\Windows\System32\find.exe /i "C:\winimg" {file} >nul 2>&1 && del /f /q {file}"#
        ));
    }
}

/// Removes `C:\winimg`. The exit code of `rd` is unreliable, so the second command checks the
/// result.
fn remove_own_folder() -> [PlannedOp; 2] {
    [
        run_cmd(
            to_arguments(["/d", "/c", "rd", "/s", "/q", GUEST_DIR]),
            ExitRule::Any,
        ),
        run_cmd(
            to_arguments(["/d", "/c", "if", "exist", GUEST_DIR, "exit", "1"]),
            ExitRule::Zero,
        ),
    ]
}

fn run_cmd(arguments: Vec<String>, exit: ExitRule) -> PlannedOp {
    PlannedOp::Run(ProgramRun {
        program: CMD.to_owned(),
        arguments,
        exit,
        timeout: QUICK,
    })
}

/// Builds the last step of a plan that does not generalize, which removes winimg's own files.
pub fn clean_up(recipe: &Recipe, number: u32, place: &Place) -> PlannedStep {
    let mut script = BatchScript::new();
    delete(&mut script, ORIGINAL_ANSWER_FILE);
    own_setup_scripts(&mut script);
    let mut expects = vec![PlannedCheck::Missing {
        path: GuestPath::from_static(GUEST_DIR),
    }];
    expects.extend(restore(recipe, &mut script));
    let mut ops = vec![
        PlannedOp::Put(PayloadScript {
            script: number,
            part: 0,
            text: script.finish(),
            exit: ExitRule::Zero,
            timeout: QUICK,
        }),
        PlannedOp::Eject,
    ];
    ops.extend(remove_own_folder());
    PlannedStep {
        name: "winimg's own files".to_owned(),
        verb: "cleanup",
        place: place.clone(),
        skipped: None,
        undecided: Vec::new(),
        ops,
        entries: Vec::new(),
        reboot_timeout: REBOOT_TIMEOUT,
        off_timeout: OFF_TIMEOUT,
        is_servicing: false,
        settle: SettleWait::after_restart(recipe, None),
        guest_log: None,
        expects,
    }
}
