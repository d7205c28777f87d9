//! Programs of a few lines.

use std::time::Duration;

use super::Arguments;
use crate::windows::cmd::{civil, clock};
use crate::windows::process::Process;
use crate::windows::{Power, computer_name};

/// Complains about an operand that the program (or the stand-in) does not know.
pub fn unknown(p: &Process, program: &str, what: &str, code: u32) -> u32 {
    p.complain(&format!("{program}: the stand-in does not know: {what}\n"));
    code
}

pub fn hostname(p: &mut Process, args: &Arguments) -> u32 {
    if let Some(odd) = args.list.first() {
        return unknown(p, "hostname", odd, 1);
    }
    p.print(&format!("{}\n", computer_name(&p.machine.registry())));
    0
}

/// A program that only the service manager can start.
pub fn service(p: &mut Process, _: &Arguments) -> u32 {
    p.complain("this program runs as a service only\n");
    1
}

pub fn shutdown(p: &mut Process, args: &Arguments) -> u32 {
    let (mut power, mut abort, mut delay) = (None, false, None);
    let mut list = args.list.iter();
    while let Some(arg) = list.next() {
        let switch = arg.to_ascii_lowercase().replacen('-', "/", 1);
        match switch.as_str() {
            "/r" | "/g" if power.is_none() => power = Some(Power::Reboot),
            "/s" | "/p" if power.is_none() => power = Some(Power::Shutdown),
            "/a" => abort = true,
            "/f" | "/hybrid" => {}
            "/t" => match list
                .next()
                .and_then(|text| text.parse::<u64>().ok())
                .filter(|&secs| secs <= 315_360_000)
            {
                Some(secs) => delay = Some(secs),
                None => return usage(p, "/t"),
            },
            "/c" => match list.next() {
                Some(text) if text.chars().count() <= 512 => {}
                _ => return usage(p, "/c"),
            },
            "/d" => match list.next() {
                Some(reason) if reason.split(':').count() >= 2 => {}
                _ => return usage(p, "/d"),
            },
            _ => return usage(p, arg),
        }
    }
    if abort {
        if p.machine.cancel_power() {
            return 0;
        }
        p.complain(
            "Unable to abort the system shutdown because no shutdown was in progress.(1116)\n",
        );
        return 1116;
    }
    let Some(power) = power else {
        return usage(p, "(no action)");
    };
    // `/p` goes at once; the default of the others is 30 seconds.
    let at_once = args.list.iter().any(|arg| arg.eq_ignore_ascii_case("/p"));
    let delay = Duration::from_secs(if at_once { 0 } else { delay.unwrap_or(30) });
    p.machine.ask_power(power, delay);
    0
}

fn usage(p: &Process, what: &str) -> u32 {
    p.complain(&format!(
        "Usage: shutdown [/i | /l | /s | /r | /g | /a | /p | /h | /e | /o] ... : {what}\n"
    ));
    87
}

/// `MM/DD/YYYY HH:MM:SS` now, as Windows programs print it.
pub fn timestamp() -> String {
    let days = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |now| now.as_secs() / 86400);
    let (year, month, day) = civil(days as i64);
    format!(
        "{year}-{month:02}-{day:02} {}",
        clock().1.trim().split('.').next().unwrap_or("")
    )
}
