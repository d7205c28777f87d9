//! `generalize`: a Windows at rest, then the task that seals it (`seal_task.rs`).
//!
//! sysprep's exit code proves nothing, so the evidence is looked at afterwards. Coming to rest may take a restart, so it is
//! no part of the task. Only files that are winimg's are removed
//! from `Setup\Scripts`: a component may have put its own `SetupComplete.cmd` there for the clone. What the bootstrap set
//! in the registry for the build goes in the same script.

use super::super::batch::Script;
use super::super::site::{MINUTE, QUICK, Site};
use super::super::{
    ExitRule, OFF_TIMEOUT, Op, Planned, PlannedStep, Put, REBOOT_TIMEOUT, Run, Settle, seal,
};
use super::registry::REG;
use super::restore::{disable_useless_agent, restore};
use super::seal_task::{self, Task};
use super::{CMD, args};
use crate::recipe::{
    Encoding, GUEST_DIR, GuestPath, Recipe, RegistryData, RegistryKey, SealAnswer,
};
use winimg_base::io;
use winimg_base::text::{Place, crlf};

const SYSPREP: &str = r"C:\Windows\System32\Sysprep\sysprep.exe";
const TAG: &str = r"C:\Windows\System32\Sysprep\Sysprep_succeeded.tag";

/// Newer Setups leave the answer file of the installation here as it was, with the build's password.
const ORIGINAL: &str = r"C:\Windows\Panther\unattend-original.xml";

/// Answer files that the clone would find before the one given to sysprep (Microsoft: Windows Setup automation
/// overview, implicit answer file search order), and the evidence of an earlier run.
const STALE: [&str; 5] = [
    r"C:\Windows\System32\Sysprep\unattend.xml",
    TAG,
    ORIGINAL,
    r"C:\Autounattend.xml",
    r"C:\unattend.xml",
];

/// What Setup keeps of the answer file that it was given last, and takes before those of a disc. With an answer file of our own
/// sysprep writes it anew.
const CACHED: [&str; 2] = [
    r"C:\Windows\Panther\unattend.xml",
    r"C:\Windows\Panther\Autounattend.xml",
];
const PANTHER_UNATTEND: &str = r"C:\Windows\Panther\Unattend";

/// The value `UnattendFile` names a file that stands before all others.
const SETUP: &str = r"HKLM\SYSTEM\Setup";

pub(super) fn generalize(
    site: &mut Site<'_>,
    answer_file: &SealAnswer,
    mode_vm: bool,
) -> Option<()> {
    let seal = answer(site, answer_file)?
        .map(|text| site.text_entry(seal::ANSWER_FILE, crlf(&text), Encoding::Utf8));
    site.settle();
    let mut undo = Script::new();
    for file in STALE {
        delete(&mut undo, file);
    }
    undo.line(format!(
        "if exist \"{PANTHER_UNATTEND}\\\" rd /s /q \"{PANTHER_UNATTEND}\""
    ));
    undo.line(format!("if exist \"{PANTHER_UNATTEND}\\\" exit /b 1"));
    own_setup_scripts(&mut undo);
    let restored = restore(site.recipe, &mut undo);
    disable_useless_agent(site.recipe, &mut undo);
    let mut lay = Script::new();
    let mut sysprep = format!("{SYSPREP} /generalize /oobe /quit /quiet");
    match &seal {
        Some(from) => {
            lay.copy(from, r#""C:\winimg\seal.xml""#);
            sysprep.push_str(r" /unattend:C:\winimg\seal.xml");
        }
        None => no_answer_file(site, &mut undo),
    }
    if mode_vm {
        sysprep.push_str(" /mode:vm");
    }
    let timeout = site.timeout(45 * MINUTE);
    let tag = TAG;
    seal_task::seal(site, lay, Task { undo, sysprep, tag }, timeout);
    site.expect(Planned::Missing {
        path: GuestPath::known(GUEST_DIR),
    });
    site.expect(Planned::Exists {
        path: GuestPath::known(TAG),
    });
    site.expect(Planned::Registry {
        key: RegistryKey::known(r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State"),
        value: Some("ImageState".to_owned()),
        data: RegistryData::Sz(seal::SEALED.to_owned()),
    });
    site.expects.extend(restored);
    Some(())
}

fn delete(script: &mut Script, file: &str) {
    script.line(format!(
        "if exist \"{file}\" del /f /q \"{file}\"\nif exist \"{file}\" exit /b 1"
    ));
}

/// Removes whatever Setup would take before the answer file of the platform's disc, and expects it to stay away.
fn no_answer_file(site: &mut Site<'_>, script: &mut Script) {
    for file in CACHED {
        delete(script, file);
    }
    let value = "UnattendFile";
    script.line(format!("{REG} delete {SETUP} /v {value} /f >nul 2>&1"));
    script.line(format!(
        "{REG} query {SETUP} /v {value} >nul 2>&1 && exit /b 1"
    ));
    let files = CACHED
        .into_iter()
        .chain(STALE.into_iter().filter(|f| *f != TAG));
    for path in files.chain([PANTHER_UNATTEND]) {
        site.expect(Planned::Missing {
            path: GuestPath::known(path),
        });
    }
    site.expect(Planned::Registry {
        key: RegistryKey::known(SETUP),
        value: Some(value.to_owned()),
        data: RegistryData::Absent,
    });
}

/// Its text; `None` inside where sysprep is given none.
fn answer(site: &mut Site<'_>, answer_file: &SealAnswer) -> Option<Option<String>> {
    let own = match answer_file {
        SealAnswer::None => return Some(None),
        SealAnswer::BuiltIn => {
            let place = &site.step.place;
            return site
                .judged(seal::render(seal::TEMPLATE, site.recipe), place)
                .map(Some);
        }
        SealAnswer::Own(own) => own,
    };
    let shown = own.value.display();
    let read = io::read_xml_limited(&own.value, io::limit::ANSWER_FILE)
        .map_err(|e| format!("the answer file `{shown}` cannot be read: {e}"))
        .and_then(|template| {
            seal::render(&template, site.recipe)
                .map_err(|e| format!("the answer file `{shown}` is not usable: {e}"))
        });
    site.judged(read, &own.place).map(Some)
}

/// The bootstrap's files in `Setup\Scripts`, known by their naming its folder.
fn own_setup_scripts(script: &mut Script) {
    for name in ["SetupComplete.cmd", "ErrorHandler.cmd"] {
        let file = format!(r#""C:\Windows\Setup\Scripts\{name}""#);
        script.line(format!(
            r#"C:\Windows\System32\find.exe /i "C:\winimg" {file} >nul 2>&1 && del /f /q {file}"#
        ));
    }
}

/// The whole of `C:\winimg`; `rd` is not believed, the second command looks.
fn remove_own_folder() -> [Op; 2] {
    let run = |arguments: Vec<String>, exit: ExitRule| {
        Op::Run(Run {
            program: CMD.to_owned(),
            arguments,
            exit,
            timeout: QUICK,
        })
    };
    [
        run(
            args(["/d", "/c", "rd", "/s", "/q", GUEST_DIR]),
            ExitRule::Any,
        ),
        run(
            args(["/d", "/c", "if", "exist", GUEST_DIR, "exit", "1"]),
            ExitRule::Zero,
        ),
    ]
}

/// The last step of a plan that does not generalize: winimg's own files still have to go.
pub(in super::super) fn clean_up(recipe: &Recipe, number: u32, place: &Place) -> PlannedStep {
    let mut script = Script::new();
    delete(&mut script, ORIGINAL);
    own_setup_scripts(&mut script);
    let mut expects = vec![Planned::Missing {
        path: GuestPath::known(GUEST_DIR),
    }];
    expects.extend(restore(recipe, &mut script));
    let mut ops = vec![
        Op::Put(Put {
            script: number,
            part: 0,
            text: script.finish(),
            exit: ExitRule::Zero,
            timeout: QUICK,
        }),
        Op::Eject,
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
        settle: Settle::after_restart(recipe, None),
        guest_log: None,
        expects,
    }
}
