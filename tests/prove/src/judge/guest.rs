//! What the probes in the guest printed (`tests/prove/probes/probes.toml`), judged.
//!
//! They print what they saw, as lines `name=value`, and below a line `[name]` what a program said. A probe that printed none of its lines,
//! for example because there is no PowerShell, is silent.

use super::{Said, holds, verified};
use crate::proof::Row;

/// What one probe printed.
struct Answer<'a>(&'a str);

impl<'a> Answer<'a> {
    fn of(row: &'a Row, probe: &str) -> Option<Self> {
        row.seen.answers.get(probe).map(|text| Self(text))
    }

    /// Of the line `name=value`.
    fn value(&self, name: &str) -> Option<&'a str> {
        let mut lines = self.0.lines();
        lines.find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='))
    }

    /// What stands below `[name]`, up to the next such line.
    fn block(&self, name: &str) -> Option<String> {
        let head = format!("[{name}]");
        let mut lines = self
            .0
            .lines()
            .map(str::trim)
            .skip_while(|line| *line != head);
        lines.next()?;
        let lines: Vec<&str> = lines.take_while(|line| !line.starts_with('[')).collect();
        Some(lines.join("\n"))
    }

    /// The data of a DWORD that reg.exe printed: `    UBR    REG_DWORD    0x24b`.
    fn dword(&self, name: &str) -> Option<u32> {
        let data = self.registry(name, "REG_DWORD")?;
        u32::from_str_radix(data.strip_prefix("0x")?, 16).ok()
    }

    fn registry(&self, name: &str, kind: &str) -> Option<&'a str> {
        let mut lines = self.0.lines().map(|line| line.split_whitespace());
        lines.find_map(|mut words| {
            let is_it = words.next() == Some(name) && words.next() == Some(kind);
            words.next().filter(|_| is_it)
        })
    }
}

/// Every value is this one; `Fails` names those that are not, and nothing printed at all is silence.
fn values(row: &Row, probe: &str, wanted: &[(&str, &[&str])]) -> Said {
    let Some(answer) = Answer::of(row, probe) else {
        return Said::Silent;
    };
    if wanted.iter().all(|(name, _)| answer.value(name).is_none()) {
        return Said::Silent;
    }
    let wrong = wanted.iter().filter_map(|(name, good)| {
        let found = answer.value(name);
        let is_good = found.is_some_and(|found| good.contains(&found));
        (!is_good).then(|| format!("{name}={}", found.unwrap_or("(not printed)")))
    });
    let wrong: Vec<String> = wrong.collect();
    if wrong.is_empty() {
        Said::Holds
    } else {
        Said::Fails(wrong.join("\n"))
    }
}

pub fn revision(row: &Row) -> Said {
    let Some(answer) = Answer::of(row, "revision") else {
        return Said::Silent;
    };
    // `Microsoft Windows [Version 10.0.20348.587]`
    let ver = answer
        .0
        .split_once("[Version 10.0.")
        .and_then(|(_, rest)| rest.split_once(']'));
    let build = answer.registry("CurrentBuildNumber", "REG_SZ");
    match (ver, build, answer.dword("UBR")) {
        (Some((ver, _)), Some(build), Some(ubr)) if ver == format!("{build}.{ubr}") => Said::Holds,
        (None, None, None) => Said::Silent,
        _ => Said::Fails(answer.0.trim().to_owned()),
    }
}

pub fn setup_state(row: &Row) -> Said {
    let Some(answer) = Answer::of(row, "setup state") else {
        return Said::Silent;
    };
    let found = ["SystemSetupInProgress", "SetupType"].map(|name| answer.dword(name));
    match found {
        [Some(0), Some(0)] => Said::Holds,
        [None, None] => Said::Silent,
        _ => Said::Fails(answer.0.trim().to_owned()),
    }
}

pub fn boot_drivers(row: &Row) -> Said {
    let Some(answer) = Answer::of(row, "boot drivers") else {
        return Said::Silent;
    };
    let is_held_back = answer.0.contains("StartOverride");
    match verified(row) {
        Said::Fails(_) => Said::Fails("verify does not find the sealed disk good".into()),
        Said::Holds => holds(is_held_back),
        Said::Silent => Said::Silent,
    }
}

pub fn firewall(row: &Row) -> Said {
    let wanted: [(&str, &[&str]); 6] = [
        ("deleted-none", &["1"]),
        ("shown-none", &["1"]),
        ("added", &["0"]),
        ("shown", &["0"]),
        ("deleted", &["0"]),
        ("shown-after", &["1"]),
    ];
    values(row, "firewall", &wanted)
}

pub fn accounts(row: &Row) -> Said {
    let Some(answer) = Answer::of(row, "accounts") else {
        return Said::Silent;
    };
    let wanted: [(&str, &[&str]); 3] = [
        ("user", &["2221"]),
        ("group", &["1376", "2220"]),
        ("member", &["1378"]),
    ];
    let mut wrong = Vec::new();
    for (name, numbers) in wanted {
        let Some(said) = answer.block(name) else {
            return Said::Silent;
        };
        let mut words = said.split(|c: char| !c.is_ascii_digit());
        if !words.any(|word| numbers.contains(&word)) {
            wrong.push(format!("{name}: {}", said.trim()));
        }
    }
    if wrong.is_empty() {
        Said::Holds
    } else {
        Said::Fails(wrong.join("\n"))
    }
}

pub fn password(row: &Row) -> Said {
    values(
        row,
        "password",
        &[("expires", &["never"]), ("enabled", &["True"])],
    )
}

/// `BUILTIN\Administrators:(I)(F)`: what is inherited has `(I)`.
pub fn acl(row: &Row) -> Said {
    let Some(said) = Answer::of(row, "acl").and_then(|answer| answer.block("file")) else {
        return Said::Silent;
    };
    // Another form, such as SDDL, is no answer of icacls.exe's.
    let is_entry = |line: &&str| {
        let rights = line.trim().rsplit_once(":(").map(|(_, rights)| rights);
        rights.is_some_and(|rights| {
            let mut rights = rights.chars();
            rights.all(|c| c.is_ascii_alphanumeric() || "(),".contains(c))
        })
    };
    let entries: Vec<&str> = said.lines().filter(is_entry).collect();
    if entries.is_empty() {
        Said::Silent
    } else if entries.iter().all(|entry| entry.contains("(I)")) && entries.len() == 2 {
        Said::Holds
    } else {
        Said::Fails(said.trim().to_owned())
    }
}

pub fn task(row: &Row) -> Said {
    values(row, "task", &[("queried", &["0"]), ("fired", &["yes"])])
}

pub fn defender(row: &Row) -> Said {
    values(row, "defender", &[("excluded", &["True"])])
}

pub fn powershell(row: &Row) -> Said {
    values(row, "powershell", &[("preference", &["Stop"])])
}

pub fn features(row: &Row) -> Said {
    let good = ["0", "3010"];
    values(row, "features", &[("enabled", &good), ("disabled", &good)])
}

/// A recipe without the role says nothing.
pub fn hypervisor(row: &Row) -> Said {
    let answer = Answer::of(row, "hypervisor");
    match answer.as_ref().and_then(|answer| answer.value("role")) {
        Some("on") => values(row, "hypervisor", &[("hypervisor", &["off"])]),
        _ => Said::Silent,
    }
}

pub fn trust(row: &Row) -> Said {
    if !row.machine.trusted {
        return Said::Silent;
    }
    values(
        row,
        "trust",
        &[("tpm", &["True"]), ("secure-boot", &["True"])],
    )
}
