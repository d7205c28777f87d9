//! The oobeSystem pass: pages that the answer file has to answer, accounts, SetupComplete.cmd, first logon.
//!
//! Sources: Microsoft, Unattended Windows Setup Reference (Shell-Setup/OOBE, UserAccounts, AutoLogon,
//! FirstLogonCommands); "Add a custom script to Windows Setup" (SetupComplete.cmd).

use std::time::Duration;

use super::{STATUS, System, answer_file, running};
use crate::answer::{Answer, Element, Pass, password};
use crate::dialog::{self, Dialog};
use crate::setup::log::Log;
use crate::windows::Data;

const PASS: Pass = Pass::OobeSystem;
/// Longest command line that RunOnce runs; a longer one is skipped without a word.
const RUN_ONCE: usize = 260;
/// How long windeploy.exe goes on here after SetupComplete.cmd.
const WINDEPLOY_ENDS: Duration = Duration::from_secs(2);

pub fn run(system: &mut System) -> Result<(), Dialog> {
    system
        .screen
        .progress(&["Getting ready", "", "Please wait"]);
    let log = system.log("UnattendGC");
    system.set_state("IMAGE_STATE_UNDEPLOYABLE")?;
    let answer = answer_file::find(system, PASS, &log)?;
    let empty = Element::default();
    let shell = answer
        .as_ref()
        .and_then(|answer| answer.component(PASS, "Shell-Setup"))
        .unwrap_or(&empty);
    pages(answer.as_ref(), shell)?;
    accounts(system, shell, &log)?;
    if let Some(answer) = &answer {
        answer_file::close(system, answer, PASS)?;
    }
    setup_complete(system, &log);
    if let Some(why) = system.windows.halted() {
        return Err(dialog::program_not_modelled(why));
    }
    let closed = system.windows.close_administrator();
    closed.map_err(dialog::could_not_configure)?;
    system.set(
        &format!(r"{STATUS}\SysprepStatus"),
        "GeneralizationState",
        Data::Dword(7),
    )?;
    // The image is complete before windeploy.exe has ended, so that who looks at the one alone is too early.
    system.set_state("IMAGE_STATE_COMPLETE")?;
    std::thread::sleep(WINDEPLOY_ENDS);
    for (name, number) in [
        ("SystemSetupInProgress", 0),
        ("SetupType", 0),
        ("OOBEInProgress", 0),
        ("SetupPhase", 0),
    ] {
        system.set(super::SETUP, name, Data::Dword(number))?;
    }
    system.set(super::SETUP, "CmdLine", Data::Text(String::new()))?;
    // Setup's own directory goes when it has finished; the logs are in Panther.
    let _ = std::fs::remove_dir_all(system.root.join("$WINDOWS.~BT"));
    let flushed = system.windows.flush();
    flushed.map_err(dialog::could_not_configure)?;
    log.info("OOBE is finished");
    first_logon(system, shell, &log);
    Ok(())
}

/// The first page that the file leaves open.
fn pages(answer: Option<&Answer>, shell: &Element) -> Result<(), Dialog> {
    let page = |text: &str, why: &str| Err(dialog::welcome_page(text, why));
    let international = answer.and_then(|answer| answer.component(PASS, "International-Core"));
    let set = |name: &str| international.is_some_and(|found| found.get(name).is_some());
    if !["InputLocale", "SystemLocale", "UILanguage", "UserLocale"]
        .into_iter()
        .all(set)
    {
        return page(
            "Hi there\n\nCountry or region:\nApp language:\nKeyboard layout:",
            "oobeSystem lacks Microsoft-Windows-International-Core or one of its locales",
        );
    }
    if shell.is_true("OOBE/SkipMachineOOBE") || shell.is_true("OOBE/SkipUserOOBE") {
        return Err(dialog::could_not_configure(
            "SkipMachineOOBE and SkipUserOOBE leave Setup half done",
        ));
    }
    if !shell.is_true("OOBE/HideEULAPage") {
        return page(
            "Here's the legal stuff\n\nLicense terms",
            "OOBE/HideEULAPage is not true",
        );
    }
    let customize = "Customize settings\n\nType a password for the built-in administrator account that you can use to sign in to this computer.";
    if !shell.is_true("OOBE/HideLocalAccountScreen")
        && shell.get("UserAccounts/AdministratorPassword").is_none()
    {
        return page(
            customize,
            "neither HideLocalAccountScreen nor AdministratorPassword",
        );
    }
    if !shell.is_true("OOBE/HideLocalAccountScreen") {
        return page(customize, "OOBE/HideLocalAccountScreen is not true");
    }
    Ok(())
}

fn accounts(system: &System, shell: &Element, log: &Log) -> Result<(), Dialog> {
    let refuse = |why: String| {
        dialog::not_applicable(
            r"C:\Windows\Panther\unattend.xml",
            PASS.name(),
            "Shell-Setup",
            why,
        )
    };
    if let Some(element) = shell.get("UserAccounts/AdministratorPassword") {
        let text = password::decode(element, "AdministratorPassword").map_err(refuse)?;
        let administrator = system.windows.administrator().unwrap_or_default();
        if !password::meets_policy(&text, &administrator) {
            return Err(refuse("the password of AdministratorPassword does not meet the password policy: three of four kinds of characters, and not the name of the account".into()));
        }
        if !system.windows.set_password(&administrator, &text) {
            return Err(refuse("there is no account with RID 500".into()));
        }
        log.info("[Shell Unattend] AdministratorPassword was set");
    }
    for account in shell.all("UserAccounts/LocalAccounts", "LocalAccount") {
        let name = account.text("Name").unwrap_or_default();
        let element = account
            .get("Password")
            .ok_or_else(|| refuse(format!("local account {name:?} has no Password")))?;
        let text = password::decode(element, "Password").map_err(refuse)?;
        if !password::meets_policy(&text, name) || text.contains('"') || name.contains('"') {
            return Err(refuse(format!(
                "the password of {name:?} does not meet the password policy: three of four kinds of characters, and not the \
                 name of the account"
            )));
        }
        let (code, output) = system.command(&format!(
            r#"C:\Windows\System32\net.exe user "{name}" "{text}" /add"#
        ));
        if code != 0 {
            return Err(refuse(format!("local account {name:?}: {}", output.trim())));
        }
        for group in account.text("Group").unwrap_or("Users").split(';') {
            let (code, output) = system.command(&format!(
                r#"C:\Windows\System32\net.exe localgroup "{group}" "{name}" /add"#
            ));
            // 2: the account is in Users already, where `net user /add` puts it.
            if code != 0 && !group.eq_ignore_ascii_case("Users") {
                return Err(refuse(format!(
                    "group {group:?} of {name:?}: {}",
                    output.trim()
                )));
            }
        }
        log.info(&format!("[Shell Unattend] local account [{name}] was made"));
    }
    Ok(())
}

/// `SetupComplete.cmd`, as SYSTEM. Setup waits for it; its exit code is only written down.
fn setup_complete(system: &mut System, log: &Log) {
    running::watch_agent(system);
    if !system
        .root
        .join("Windows/Setup/Scripts/SetupComplete.cmd")
        .exists()
    {
        log.info("Setup script [C:\\Windows\\Setup\\Scripts\\SetupComplete.cmd] is not there");
        return;
    }
    system.screen.progress(&["Finalizing your settings"]);
    log.info("Running setup script [C:\\Windows\\Setup\\Scripts\\SetupComplete.cmd]");
    let (code, output) = system
        .command(r"C:\Windows\System32\cmd.exe /c C:\Windows\Setup\Scripts\SetupComplete.cmd");
    for line in output.lines() {
        crate::machine::debug(line);
    }
    log.info(&format!("Setup script ended with exit code [{code}]"));
}

/// `FirstLogonCommands`, only when AutoLogon logs somebody on.
fn first_logon(system: &System, shell: &Element, log: &Log) {
    let mut commands: Vec<&Element> = shell
        .all("FirstLogonCommands", "SynchronousCommand")
        .collect();
    if commands.is_empty() {
        return;
    }
    if !shell.is_true("AutoLogon/Enabled") || shell.text("AutoLogon/Username").is_none() {
        log.info("[Shell Unattend] nobody logs on: FirstLogonCommands wait");
        return;
    }
    commands.sort_by_key(|command| command.number("Order"));
    for command in commands {
        let line = command.text("CommandLine").unwrap_or_default();
        if line.chars().count() > RUN_ONCE {
            log.info(&format!(
                "[Shell Unattend] command {} is longer than {RUN_ONCE} and skipped",
                command.number("Order").unwrap_or(0)
            ));
            continue;
        }
        let (code, _) = system.command(line);
        log.info(&format!(
            "[Shell Unattend] first logon command [{line}] ended with {code}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::schema;

    /// The disc of a trial as Azure, as winimg's own test has it.
    const DISC: &str = include_str!(
        "../../../../../tests/trial/snapshots/machines__trial__discs__a_provisioning_disc_of_azure.snap"
    );

    #[test]
    fn a_clone_gets_through_with_the_answer_file_of_a_trial_as_azure_and_not_without() {
        let (_, file) = DISC.split_once("== Unattend.xml\n").unwrap();
        let (file, _) = file.split_once("\n\n== ").unwrap();
        let answer = Answer::parse(r"D:\Unattend.xml", file.as_bytes()).unwrap();
        for pass in [Pass::Specialize, PASS] {
            assert!(answer.has(pass));
            assert_eq!(schema::check(&answer, pass), Ok(()));
            assert_eq!(schema::not_modelled(&answer, pass), Ok(()));
        }
        let shell = answer.component(PASS, "Shell-Setup").unwrap();
        assert!(pages(Some(&answer), shell).is_ok());
        let element = shell.get("UserAccounts/AdministratorPassword").unwrap();
        let password = password::decode(element, "AdministratorPassword").unwrap();
        assert!(password::meets_policy(&password, "capi"), "{password}");

        let page = pages(None, &Element::default()).unwrap_err();
        assert!(page.text.starts_with("Hi there"), "{}", page.text);
    }
}
