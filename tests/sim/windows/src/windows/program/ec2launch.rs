//! EC2Launch.exe, as far as an image calls it: `reset --clean` and `internal randomize-password`. Nothing here plays the
//! agent itself, which waits for EC2's metadata. Source: Amazon EC2: EC2Launch v2, command line tools and directories.

use super::Arguments;
use super::small::unknown;
use crate::windows::account;
use crate::windows::process::Process;

const STATE: [&str; 2] = [
    r"C:\ProgramData\Amazon\EC2Launch\state",
    r"C:\ProgramData\Amazon\EC2Launch\log",
];

pub fn run(p: &mut Process, args: &Arguments) -> u32 {
    let list: Vec<&str> = args.list.iter().map(String::as_str).collect();
    let done = match list[..] {
        ["reset", "--clean"] => forget(p),
        ["internal", "randomize-password", "--username", name] => randomize(p, name),
        _ => return unknown(p, "EC2Launch", &list.join(" "), 1),
    };
    match done {
        Ok(()) => 0,
        Err(why) => {
            p.complain(&format!("{why}\n"));
            1
        }
    }
}

/// As if it had never run, and without its logs.
fn forget(p: &Process) -> Result<(), String> {
    for path in STATE {
        let found = p.locate(path).map_err(|error| error.text())?;
        if found.is_dir() {
            std::fs::remove_dir_all(found.host).map_err(|e| format!("{path}: {e}"))?;
        }
    }
    Ok(())
}

fn randomize(p: &Process, name: &str) -> Result<(), String> {
    let mut registry = p.machine.registry();
    if !account::set_password(&mut registry, name, &account::random_password()?) {
        return Err(format!("there is no user {name}"));
    }
    account::publish(&mut registry);
    Ok(())
}
