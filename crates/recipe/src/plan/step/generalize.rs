//! `generalize`: sysprep, and winimg's own traces taken out of the image.
//!
//! sysprep's exit code proves nothing, so the evidence is looked at afterwards. Only files that are winimg's are removed
//! from `Setup\Scripts`: a component may have put its own `SetupComplete.cmd` there for the clone. What the bootstrap set
//! in the registry for the build goes in the same script.

use std::path::PathBuf;

use super::super::batch::Script;
use super::super::site::{MINUTE, QUICK, Site};
use super::super::{ExitRule, Op, Planned, PlannedStep, Put, REBOOT_TIMEOUT, Run, Until, seal};
use super::restore::restore;
use super::{CMD, args};
use crate::recipe::{Encoding, GUEST_DIR, GuestPath, Recipe, RegistryData, RegistryKey};
use winimg_base::text::{Located, Place, crlf};

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

pub(super) fn generalize(
    site: &mut Site<'_>,
    answer_file: Option<&Located<PathBuf>>,
    mode_vm: bool,
) -> Option<()> {
    let text = answer(site, answer_file)?;
    let from = site.text_entry("seal.xml", crlf(&text), Encoding::Utf8);
    let mut script = Script::new();
    for file in STALE {
        delete(&mut script, file);
    }
    script
        .line(r#"if exist "C:\Windows\Panther\Unattend\" rd /s /q "C:\Windows\Panther\Unattend""#);
    script.line(r#"if exist "C:\Windows\Panther\Unattend\" exit /b 1"#);
    own_setup_scripts(&mut script);
    let restored = restore(site.recipe, &mut script);
    script.copy(&from, r#""C:\winimg\seal.xml""#);
    site.put(script);
    site.ops.push(Op::Eject);
    let mut arguments = args([
        "/generalize",
        "/oobe",
        "/quit",
        "/quiet",
        r"/unattend:C:\winimg\seal.xml",
    ]);
    if mode_vm {
        arguments.push("/mode:vm".to_owned());
    }
    site.run(SYSPREP, arguments, ExitRule::Any, 45 * MINUTE);
    let timeout = site.timeout(45 * MINUTE);
    site.ops.push(Op::Wait(Until::Generalized { timeout }));
    site.ops.extend(remove_own_folder());
    site.expect(Planned::Missing {
        path: GuestPath::known(GUEST_DIR),
    });
    site.expect(Planned::Exists {
        path: GuestPath::known(TAG),
    });
    site.expect(Planned::Registry {
        key: RegistryKey::known(r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State"),
        value: Some("ImageState".to_owned()),
        data: RegistryData::Sz("IMAGE_STATE_GENERALIZE_RESEAL_TO_OOBE".to_owned()),
    });
    site.expects.extend(restored);
    Some(())
}

fn delete(script: &mut Script, file: &str) {
    script.line(format!(
        "if exist \"{file}\" del /f /q \"{file}\"\nif exist \"{file}\" exit /b 1"
    ));
}

fn answer(site: &mut Site<'_>, own: Option<&Located<PathBuf>>) -> Option<String> {
    let Some(own) = own else {
        let place = &site.step.place;
        return site.judged(seal::render(seal::TEMPLATE, site.recipe), place);
    };
    let shown = own.value.display();
    let read = std::fs::read_to_string(&own.value)
        .map_err(|e| format!("the answer file `{shown}` cannot be read: {e}"))
        .and_then(|template| {
            seal::render(&template, site.recipe)
                .map_err(|e| format!("the answer file `{shown}` is not usable: {e}"))
        });
    site.judged(read, &own.place)
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
        guest_log: None,
        expects,
    }
}
