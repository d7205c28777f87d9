//! powershell.exe. The stand-in reads no PowerShell: it knows, word for word, the commands and scripts of winimg and its packs
//! that run in a build or while a clone is set up, and does what each does. The rest is refused, and so is one of them that
//! was changed.

use std::time::Duration;

use super::Arguments;
use super::netsh::RULES;
use crate::windows::account::{self, UF_ACCOUNTDISABLE, UF_DONT_EXPIRE_PASSWD};
use crate::windows::process::Process;
use crate::windows::regf::same;
use crate::windows::registry::sz;
use crate::windows::{COMPUTER_NAME, Power, TCPIP};

/// Of every Windows, in every language (Microsoft: Well-known SIDs).
const ADMINISTRATOR: u32 = 500;

type Done = Result<(), String>;
/// What a command or script does with its arguments.
type Act = fn(&Process, &[String]) -> Done;

/// After `-NoProfile -NonInteractive -Command`.
const COMMANDS: [(&str, Act); 4] = [
    (
        "Get-LocalUser | Where-Object { $_.SID.Value -like 'S-1-5-21-*-500' } | Disable-LocalUser",
        disable_administrator,
    ),
    (
        r"if (-not (Test-Path -LiteralPath C:\winimg)) { Get-LocalUser | Where-Object { $_.SID.Value -like 'S-1-5-21-*-500' } | Disable-LocalUser }",
        disable_administrator_of_a_box,
    ),
    (
        "Get-LocalUser | ? { $_.SID.Value -like 'S-1-5-21-*-500' } | ForEach-Object { net user $_.Name /active:yes /logonpasswordchg:no /expires:never /passwordreq:yes }",
        enable_administrator,
    ),
    (
        r"$a = Get-LocalUser | ? { $_.SID.Value -like 'S-1-5-21-*-500' }; & $env:ProgramFiles\Amazon\EC2Launch\EC2Launch.exe internal randomize-password --username $a.Name",
        randomize_administrator,
    ),
];

/// A command of `src/trial/metadata/azure/provision.cmd`, up to a name in quotes.
const RENAME: &str = "Get-LocalUser | Where-Object { $_.SID.Value -like 'S-1-5-21-*-500' } | Rename-LocalUser -NewName '";

/// Files that `-File` runs.
const SCRIPTS: [(&str, Act); 6] = [
    (
        include_str!("../../../../../../crates/recipe/src/verbs/account.ps1"),
        local_account,
    ),
    (
        include_str!("../../../../../../recipes/packs/azure/wire-server.ps1"),
        close_wire_server,
    ),
    (
        include_str!("../../../../../../recipes/packs/gmsa/register.ps1"),
        register_plugin,
    ),
    (
        include_str!("../../../../../../recipes/packs/wmco/Set-Administrator.ps1"),
        open_administrator,
    ),
    (
        include_str!("../../../../../../recipes/packs/wmco/Set-NodeName.ps1"),
        name_for_kubernetes,
    ),
    (WRAPPER, wrapped),
];

/// Runs a step's script (crates/recipe/src/verbs/powershell.rs).
const WRAPPER: &str = "\
param([Parameter(Mandatory = $true)][string] $Script)
$ErrorActionPreference = 'Stop'
$ProgressPreference = 'SilentlyContinue'
$global:LASTEXITCODE = 0
try {
    & $Script
}
catch {
    [Console]::Error.WriteLine(($_ | Out-String).Trim())
    [Console]::Error.WriteLine($_.ScriptStackTrace)
    exit 1
}
exit $global:LASTEXITCODE
";

pub fn run(p: &mut Process, args: &Arguments) -> u32 {
    match done(p, &args.list) {
        Ok(()) => 0,
        Err(why) => {
            p.complain(&format!("{why}\n"));
            1
        }
    }
}

fn done(p: &Process, list: &[String]) -> Done {
    let rest = match list {
        [first, rest @ ..] if first == "-NoLogo" => rest,
        all => all,
    };
    let words: Vec<&str> = rest.iter().map(String::as_str).collect();
    match words[..] {
        ["-NoProfile", "-NonInteractive", "-Command", text] if text.starts_with(RENAME) => {
            let name = text[RENAME.len()..].strip_suffix('\'');
            let name = name.filter(|name| !name.contains('\''));
            rename_administrator(p, name.ok_or("the stand-in has no PowerShell")?)
        }
        ["-NoProfile", "-NonInteractive", "-Command", text] => {
            let known = COMMANDS.iter().find(|(known, _)| *known == text);
            let (_, act) = known.ok_or("the stand-in has no PowerShell")?;
            act(p, &[])
        }
        [
            "-NoProfile",
            "-NonInteractive",
            "-ExecutionPolicy",
            "Bypass",
            "-File",
            file,
            ..,
        ] => script(p, file, &rest[6..]),
        _ => Err("the stand-in has no PowerShell".into()),
    }
}

fn script(p: &Process, file: &str, arguments: &[String]) -> Done {
    let found = p.locate(file).and_then(|file| file.existing());
    let found = found.map_err(|error| format!("{file}: {}", error.text()))?;
    let text = std::fs::read_to_string(&found.host).map_err(|e| format!("{file}: {e}"))?;
    let plain = |text: &str| text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let text = plain(&text);
    let known = SCRIPTS.iter().find(|(known, _)| plain(known) == text);
    let (_, act) = known.ok_or_else(|| format!("the stand-in has no PowerShell: {file}"))?;
    act(p, arguments)
}

fn none(arguments: &[String]) -> Done {
    match arguments.first() {
        None => Ok(()),
        Some(odd) => Err(format!("the stand-in does not know: {odd}")),
    }
}

fn wrapped(p: &Process, arguments: &[String]) -> Done {
    match arguments {
        [file] => script(p, file, &[]),
        _ => Err("the stand-in does not know how a step's script is called".into()),
    }
}

/// A program's exit code becomes the script's end.
fn succeeds(p: &Process, line: &str) -> Done {
    match p.create(line) {
        Ok(0) => Ok(()),
        Ok(code) => Err(format!("{line} ended with {code}")),
        Err(error) => Err(format!("{line}: {}", error.text())),
    }
}

/// By its RID. Where no account has it, the pipe is empty, and that is no error.
fn disable_administrator(p: &Process, arguments: &[String]) -> Done {
    none(arguments)?;
    let mut registry = p.machine.registry();
    let Some(name) = account::by_rid(&registry, ADMINISTRATOR) else {
        return Ok(());
    };
    let flags = account::user(&registry, &name).map_or(0, account::flags);
    account::set_flags(&mut registry, &name, flags | UF_ACCOUNTDISABLE)?;
    account::publish(&mut registry);
    Ok(())
}

/// It stays disabled where it is.
fn rename_administrator(p: &Process, name: &str) -> Done {
    let mut registry = p.machine.registry();
    let Some(old) = account::by_rid(&registry, ADMINISTRATOR) else {
        return Ok(());
    };
    account::rename(&mut registry, &old, name)?;
    account::publish(&mut registry);
    Ok(())
}

/// Not in the build, which winimg's folder tells.
fn disable_administrator_of_a_box(p: &Process, arguments: &[String]) -> Done {
    let folder = p.locate(r"C:\winimg").map_err(|error| error.text())?;
    match folder.meta {
        Some(_) => Ok(()),
        None => disable_administrator(p, arguments),
    }
}

/// `recipes/packs/wmco/Set-NodeName.ps1`, once Setup has ended. Not in the build, which winimg's folder tells.
fn name_for_kubernetes(p: &Process, arguments: &[String]) -> Done {
    none(arguments)?;
    let folder = p.locate(r"C:\winimg").map_err(|error| error.text())?;
    if folder.meta.is_some() {
        return Ok(());
    }
    let mut registry = p.machine.registry();
    let name = registry.text(TCPIP, "Hostname").unwrap_or_default();
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.chars().all(fits) && !name.starts_with('-') && !name.ends_with('-') {
        return Ok(());
    }
    let drawn = account::random::<5>()?;
    let tail = drawn.map(|byte| char::from(b'a' + byte % 26));
    let name = format!("winhost-{}", String::from_iter(tail));
    registry.set(COMPUTER_NAME, "ComputerName", sz(&name.to_uppercase()))?;
    registry.set(TCPIP, "NV Hostname", sz(&name))?;
    drop(registry);
    p.machine.ask_power(Power::Reboot, Duration::from_secs(1));
    Ok(())
}

fn administrator(p: &Process) -> Result<String, String> {
    account::by_rid(&p.machine.registry(), ADMINISTRATOR)
        .ok_or_else(|| "there is no account with RID 500".to_owned())
}

fn enable_administrator(p: &Process, _: &[String]) -> Done {
    let name = administrator(p)?;
    succeeds(
        p,
        &format!(
            "net user {name} /active:yes /logonpasswordchg:no /expires:never /passwordreq:yes"
        ),
    )
}

fn randomize_administrator(p: &Process, _: &[String]) -> Done {
    let name = administrator(p)?;
    succeeds(
        p,
        &format!(
            r#""C:\Program Files\Amazon\EC2Launch\EC2Launch.exe" internal randomize-password --username {name}"#
        ),
    )
}

/// `recipes/packs/wmco/Set-Administrator.ps1`.
fn open_administrator(p: &Process, arguments: &[String]) -> Done {
    none(arguments)?;
    let name = administrator(p)?;
    let mut registry = p.machine.registry();
    let flags = account::user(&registry, &name).map_or(0, account::flags);
    account::set_password(&mut registry, &name, &account::random_password()?);
    let flags = flags & !UF_ACCOUNTDISABLE | UF_DONT_EXPIRE_PASSWD;
    account::set_flags(&mut registry, &name, flags)?;
    if !same(&name, "Administrator") {
        account::rename(&mut registry, &name, "Administrator")?;
    }
    account::publish(&mut registry);
    Ok(())
}

/// `account.ps1`. New-LocalUser makes no member of Users of it.
fn local_account(p: &Process, arguments: &[String]) -> Done {
    let (mut name, mut random, mut never) = (None, false, false);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-Name" => name = words.next(),
            "-Random" => random = true,
            "-NeverExpires" => never = true,
            odd => return none(&[odd.to_owned()]),
        }
    }
    let name = name.ok_or("account.ps1: no -Name")?;
    let mut registry = p.machine.registry();
    let known = account::user(&registry, name).map(account::flags);
    if random && known.is_none() {
        account::set_flags(&mut registry, name, account::UF_NORMAL_ACCOUNT)?;
        account::set_password(&mut registry, name, &account::random_password()?);
    }
    if never {
        let user = account::user(&registry, name);
        let flags = user.map(account::flags);
        let flags = flags.ok_or_else(|| format!("Set-LocalUser : User {name} was not found."))?;
        account::set_flags(&mut registry, name, flags | UF_DONT_EXPIRE_PASSWD)?;
    }
    account::publish(&mut registry);
    Ok(())
}

/// `recipes/packs/azure/wire-server.ps1`: a rule whose users are limited, which is what `LUAuth` holds (MS-GPFAS 2.2.2.19).
fn close_wire_server(p: &Process, arguments: &[String]) -> Done {
    none(arguments)?;
    let name = "Block-Outbound-168.63.129.16-port-80-for-cve-2021-27075";
    let mut registry = p.machine.registry();
    let group = account::group(&registry, "WireServerAccess");
    group.ok_or("Get-LocalGroup : Group WireServerAccess was not found.")?;
    let sid = account::sid(&registry, "WireServerAccess").unwrap_or_default();
    let users = format!("O:LSD:(D;;CC;;;S-1-5-18)(D;;CC;;;{sid})(A;;CC;;;S-1-1-0)");
    let rule = format!(
        "v2.31|Action=Block|Active=TRUE|Dir=Out|Protocol=6|RPort=80|RA4=168.63.129.16|Name={name}|LUAuth={users}|"
    );
    registry.set(RULES, name, sz(&rule))
}

/// `recipes/packs/gmsa/register.ps1`. The stand-in's registry has no owners and access lists to take over and put back.
fn register_plugin(p: &Process, arguments: &[String]) -> Done {
    none(arguments)?;
    succeeds(
        p,
        r"C:\Windows\System32\reg.exe import C:\k\gmsa\registerplugin.reg",
    )
}
