//! What cloudbase-init takes for a script, how it runs it, and what the exit code says (`userdatautils.py`,
//! `execcmd.py`).

use super::metadata::{Fault, Found, failed};
use crate::windows::process::{self, Process};

/// Which program runs a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A batch file or a program.
    Shell,
    Python,
    Bash,
    PowerShell,
    /// `<script>` and `<powershell>` in one text.
    Ec2,
}

/// By the extension of a path.
pub fn by_extension(path: &str) -> Option<Kind> {
    let name = path.rsplit('\\').next().unwrap_or(path);
    let (_, extension) = name.rsplit_once('.')?;
    match extension.to_ascii_lowercase().as_str() {
        "cmd" | "exe" => Some(Kind::Shell),
        "py" => Some(Kind::Python),
        "sh" => Some(Kind::Bash),
        "ps1" => Some(Kind::PowerShell),
        _ => None,
    }
}

/// By how the content begins.
pub fn by_content(data: &[u8]) -> Option<Kind> {
    let text = String::from_utf8_lossy(data);
    let text = text.as_ref();
    let followed = |head: &str| {
        text.strip_prefix(head)
            .is_some_and(|rest| rest.starts_with(char::is_whitespace))
    };
    let rem = text.strip_prefix("rem").is_some_and(|rest| {
        let word = rest.trim_start();
        word.len() < rest.len()
            && word
                .strip_prefix("cmd")
                .is_some_and(|rest| rest.starts_with(char::is_whitespace))
    });
    let python = text.strip_prefix("#!").is_some_and(|rest| {
        rest.trim_start()
            .strip_prefix("/usr/bin/env")
            .is_some_and(|rest| rest.trim_start().starts_with("python"))
    });
    match () {
        () if rem => Some(Kind::Shell),
        () if python => Some(Kind::Python),
        () if text.starts_with("#!") => Some(Kind::Bash),
        () if followed("#ps1") || followed("#ps1_sysnative") || followed("#ps1_x86") => {
            Some(Kind::PowerShell)
        }
        () if ["<script>", "</script>", "<powershell>", "</powershell>"]
            .iter()
            .any(|tag| text.contains(tag)) =>
        {
            Some(Kind::Ec2)
        }
        () => None,
    }
}

/// The non-empty texts between `<script>` tags.
fn sections(text: &str, tag: &str) -> Vec<String> {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(&open) {
        let Some((inner, next)) = after.split_once(&close) else {
            break;
        };
        found.push(inner.trim().to_owned());
        rest = next;
    }
    found.retain(|text| !text.is_empty());
    found
}

/// Runs a script that lies in a file; its exit code and what it wrote.
pub fn run(p: &Process, kind: Kind, path: &str) -> Found<(u32, String)> {
    match kind {
        Kind::Shell => {
            let out = process::buffer();
            let mut p = p.clone();
            (p.out, p.err) = (out.clone(), out.clone());
            let line = format!(r#"C:\Windows\System32\cmd.exe /c "{path}""#);
            let code = p.create(&line).map_err(|e| failed(e.text()))?;
            let text = String::from_utf8_lossy(&process::taken(&out)).into_owned();
            Ok((code, text))
        }
        // Neither is there unless somebody installed it; the real one fails to start it and goes on with 0.
        Kind::Python | Kind::Bash => Err(failed(format!("{path}: no interpreter"))),
        Kind::PowerShell => Err(Fault::NotModelled(format!("{path} is a PowerShell script"))),
        Kind::Ec2 => Err(Fault::NotModelled(format!(
            "{path} is read by EC2Config's tags only as user data"
        ))),
    }
}

/// Runs a script that is a text, from a file of its own below `%TEMP%`.
pub fn run_data(p: &Process, kind: Kind, data: &[u8]) -> Found<(u32, String)> {
    if kind == Kind::Ec2 {
        let text = String::from_utf8_lossy(data).into_owned();
        if !sections(&text, "powershell").is_empty() {
            return Err(Fault::NotModelled(
                "user data holds a <powershell> section".to_owned(),
            ));
        }
        let (mut sum, mut all) = (0u32, String::new());
        for code in sections(&text, "script") {
            let (ended, output) = run_data(p, Kind::Shell, code.as_bytes())?;
            sum = sum.wrapping_add(ended);
            all.push_str(&output);
        }
        return Ok((sum, all));
    }
    let path = r"C:\Windows\Temp\cloudbase-init-user-data.cmd";
    let found = p
        .locate(path)
        .and_then(|found| found.writable())
        .map_err(|e| failed(e.text()))?;
    std::fs::write(&found.host, data).map_err(|e| failed(e.to_string()))?;
    let ended = run(p, kind, path);
    let _ = std::fs::remove_file(&found.host);
    ended
}

/// Whether the plugin runs again at the next boot, and whether a restart is due: 1001 to 1003 are bits.
pub fn verdict(code: u32) -> (bool, bool) {
    if (1001..=1003).contains(&code) {
        (code & 2 != 0, code & 1 != 0)
    } else {
        (false, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes() {
        let found: Vec<_> = [0, 1, 1000, 1001, 1002, 1003, 1004]
            .map(|code| (code, verdict(code)))
            .into_iter()
            .filter(|(_, verdict)| *verdict != (false, false))
            .collect();
        assert_eq!(
            found,
            [
                (1001, (false, true)),
                (1002, (true, false)),
                (1003, (true, true))
            ]
        );
    }

    #[test]
    fn scripts_are_known_by_extension_or_first_line() {
        for (path, kind) in [
            (r"C:\s\a.CMD", Some(Kind::Shell)),
            (r"C:\s.x\README", None),
            (r"C:\s\README.txt", None),
            (r"C:\s\a.ps1", Some(Kind::PowerShell)),
        ] {
            assert_eq!(by_extension(path), kind, "{path}");
        }
        for (text, kind) in [
            ("rem cmd\r\necho", Some(Kind::Shell)),
            ("rem  cmd \n", Some(Kind::Shell)),
            ("rem commands", None),
            ("REM cmd\n", None),
            ("#ps1\n", Some(Kind::PowerShell)),
            ("#ps1_sysnative\r\n", Some(Kind::PowerShell)),
            ("#!/usr/bin/env python\n", Some(Kind::Python)),
            ("#!/bin/sh\n", Some(Kind::Bash)),
            ("x <script>dir</script>", Some(Kind::Ec2)),
            ("#cloud-config\n", None),
        ] {
            assert_eq!(by_content(text.as_bytes()), kind, "{text:?}");
        }
        assert_eq!(
            sections("<script> a </script>b<script></script>", "script"),
            ["a"]
        );
    }
}
