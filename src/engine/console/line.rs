//! A person's line, run in the guest by its cmd.
//!
//! The line is put into a batch file, so nothing on its way to the guest can change it; and the folder where it ends is
//! written down, so the next line can begin there. Refuses what is not ASCII: cmd reads a batch file in a code page that
//! differs from one Windows to another.

use std::time::Duration;

use super::wire::Reply;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::crlf;
use winimg_machine::guest::{Command, Exit, Guest, Put};
use winimg_recipe::plan;

const SCRIPT: &str = r"C:\winimg\attach.cmd";
const FOLDER: &str = r"C:\winimg\attach.cwd";
/// After this the line is given up; the guest goes on with it.
const TIMEOUT: Duration = Duration::from_secs(3600);

/// Runs it; a guest that restarted meanwhile is waited for first and afterwards.
pub fn run(
    guest: &mut dyn Guest,
    line: &str,
    folder: &str,
    output: &mut dyn FnMut(&str),
) -> Result<Reply> {
    let script = script(line, folder)?;
    wait_back(guest)?;
    guest.put(Put::Bytes {
        path: SCRIPT,
        bytes: script.as_bytes(),
    })?;
    let command = Command {
        program: r"C:\Windows\System32\cmd.exe".into(),
        arguments: ["/d", "/c", SCRIPT].map(String::from).to_vec(),
        timeout: TIMEOUT,
    };
    let exit = guest.run(&command, &mut |bytes| {
        output(&String::from_utf8_lossy(bytes));
    })?;
    let Exit::Code(code) = exit else {
        wait_back(guest)?;
        return Ok(Reply::Ended {
            code: None,
            folder: r"C:\".into(),
            note: Some("the guest restarted under it, and is back".into()),
        });
    };
    let left = match guest.is_there()? {
        true => guest.get(FOLDER, 4096)?,
        false => None,
    };
    let (folder, note) = match left.as_deref().map(said_folder) {
        None => (folder.into(), None),
        Some(Ok(now)) => (now, None),
        Some(Err(why)) => (folder.into(), Some(why)),
    };
    Ok(Reply::Ended {
        code: Some(code),
        folder,
        note,
    })
}

/// After a restart, the guest's next answer.
pub fn wait_back(guest: &mut dyn Guest) -> Result<()> {
    match guest.is_there()? {
        true => Ok(()),
        false => guest.wait_back(plan::REBOOT_TIMEOUT),
    }
}

/// The batch file. The line stands in a subroutine: another batch file that it starts without `call` then comes back to
/// what follows the subroutine's call (Microsoft: call).
fn script(line: &str, folder: &str) -> Result<String> {
    for (what, text) in [("line", line), ("folder", folder)] {
        check(what, text)?;
    }
    let folder = folder.replace('%', "%%");
    // The line goes in last: it may hold anything.
    let script = include_str!("attach.cmd").replace("{folder}", &folder);
    Ok(crlf(&script.replacen("{line}", line, 1)))
}

fn check(what: &str, text: &str) -> Result<()> {
    let strange = |c: &char| !(c.is_ascii_graphic() || *c == ' ' || *c == '\t');
    match text.chars().find(strange) {
        None => Ok(()),
        Some(c) => Err(Error::new(
            Kind::Step,
            format!("the {what} can't reach the guest unchanged"),
        )
        .expected("ASCII without control characters")
        .found(format!("`{}`, U+{:04X}", c.escape_default(), c as u32))
        .cure("use a short name (dir /x), a wildcard, or PowerShell's [char]0x…")),
    }
}

/// What `cd` wrote.
fn said_folder(bytes: &[u8]) -> Result<String, String> {
    let text = String::from_utf8_lossy(bytes);
    let folder = text.trim_end_matches(['\r', '\n', ' ']);
    match check("folder", folder) {
        Ok(()) if !folder.is_empty() => Ok(folder.into()),
        _ => Err("the folder it went to can't be followed: its name is not ASCII".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_batch_file_holds_the_line_as_it_was_typed() {
        assert_eq!(
            script(r#"echo "100%%" & dir /b | find "a" > x"#, r"C:\100% k").expect("ASCII"),
            "@echo off\r\n\
             if exist C:\\winimg\\attach.cwd del C:\\winimg\\attach.cwd\r\n\
             cd /d \"C:\\100%% k\" || (cd /d C:\\ & cd > C:\\winimg\\attach.cwd & exit /b 1)\r\n\
             call :line\r\n\
             @set winimg_code=%errorlevel%\r\n\
             @cd > C:\\winimg\\attach.cwd\r\n\
             @exit /b %winimg_code%\r\n\
             :line\r\n\
             echo \"100%%\" & dir /b | find \"a\" > x\r\n"
        );
    }

    #[test]
    fn what_cmd_would_read_in_some_code_page_is_refused_in_words() {
        let error = script("echo Ä", r"C:\").expect_err("not ASCII");
        assert_eq!(
            error.to_string(),
            "the line can't reach the guest unchanged\n  \
             expected: ASCII without control characters\n  \
             found: `\\u{c4}`, U+00C4\n  \
             cure: use a short name (dir /x), a wildcard, or PowerShell's [char]0x…"
        );
        assert!(script("echo a\r\ndel b", r"C:\").is_err());
    }

    #[test]
    fn where_the_line_ended_is_read_back() {
        assert_eq!(said_folder(b"C:\\k\r\n"), Ok(r"C:\k".into()));
        assert!(said_folder(b"C:\\\x8e\r\n").is_err());
        assert!(said_folder(b"").is_err());
    }
}
