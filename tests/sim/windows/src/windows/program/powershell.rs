//! powershell.exe. The stand-in reads no PowerShell: it knows, word for word, the command by which a clone's answer file
//! disables the built-in Administrator, and refuses the rest.

use super::Arguments;
use crate::windows::account::{self, UF_ACCOUNTDISABLE, USERS};
use crate::windows::process::Process;

/// Of every Windows, in every language (Microsoft: Well-known SIDs).
const ADMINISTRATOR: u32 = 500;

const DISABLE_ADMINISTRATOR: [&str; 4] = [
    "-NoProfile",
    "-NonInteractive",
    "-Command",
    "Get-LocalUser | Where-Object { $_.SID.Value -like 'S-1-5-21-*-500' } | Disable-LocalUser",
];

pub fn run(p: &mut Process, args: &Arguments) -> u32 {
    if args.list != DISABLE_ADMINISTRATOR {
        p.complain("the stand-in has no PowerShell\n");
        return 1;
    }
    match disable_administrator(p) {
        Ok(()) => 0,
        Err(why) => {
            p.complain(&format!("Disable-LocalUser : {why}\n"));
            1
        }
    }
}

/// By its RID. Where no account has it, the pipe is empty, and that is no error.
fn disable_administrator(p: &Process) -> Result<(), String> {
    let mut registry = p.machine.registry();
    let users = registry.key(USERS);
    let mut users = users.into_iter().flat_map(|key| key.subkeys.values());
    let found = users.find(|user| account::rid(user) == ADMINISTRATOR);
    let found = found.map(|user| (user.name.clone(), account::flags(user)));
    let Some((name, flags)) = found else {
        return Ok(());
    };
    account::set_flags(&mut registry, &name, flags | UF_ACCOUNTDISABLE)?;
    account::publish(&mut registry);
    Ok(())
}
