//! Runs a user's line in the guest's cmd.
//!
//! The line is sent as a batch file, so that nothing on its way to the guest can change it. The
//! batch file saves the final folder, so that the next line can start there. Rejects non-ASCII
//! lines: cmd reads batch files in a code page that differs between Windows installations.

use std::time::Duration;

use super::wire::ConsoleReply;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::to_crlf;
use winimg_machine::guest::{Guest, GuestCommand, GuestDelivery, GuestExit};
use winimg_recipe::plan;

const SCRIPT: &str = r"C:\winimg\attach.cmd";
const FOLDER: &str = r"C:\winimg\attach.cwd";
/// Timeout of a line; the guest continues to run it.
const TIMEOUT: Duration = Duration::from_secs(3600);

/// Runs the line. Waits for the guest before and after, in case it restarts.
pub fn run(
    guest: &mut dyn Guest,
    line: &str,
    folder: &str,
    output: &mut dyn FnMut(&str),
) -> Result<ConsoleReply> {
    let script = render_script(line, folder)?;
    wait_back(guest)?;
    guest.put(GuestDelivery::Bytes {
        path: SCRIPT,
        bytes: script.as_bytes(),
    })?;
    let command = GuestCommand {
        program: r"C:\Windows\System32\cmd.exe".into(),
        arguments: ["/d", "/c", SCRIPT].map(String::from).to_vec(),
        timeout: TIMEOUT,
    };
    let exit = guest.run(&command, &mut |bytes| {
        output(&String::from_utf8_lossy(bytes));
    })?;
    let GuestExit::Code(code) = exit else {
        wait_back(guest)?;
        return Ok(ConsoleReply::Ended {
            code: None,
            folder: r"C:\".into(),
            note: Some("the guest restarted meanwhile".into()),
        });
    };
    let left = if guest.is_there()? {
        guest.get(FOLDER, 4096)?
    } else {
        None
    };
    let (folder, note) = match left.as_deref().map(said_folder) {
        None => (folder.into(), None),
        Some(Ok(now)) => (now, None),
        Some(Err(why)) => (folder.into(), Some(why)),
    };
    Ok(ConsoleReply::Ended {
        code: Some(code),
        folder,
        note,
    })
}

/// Waits until a restarting guest responds again.
pub fn wait_back(guest: &mut dyn Guest) -> Result<()> {
    if guest.is_there()? {
        Ok(())
    } else {
        guest.wait_for_return(plan::REBOOT_TIMEOUT)
    }
}

/// Renders the batch file. The line is in a subroutine: if it starts another batch file without
/// `call`, control still returns to the code after the subroutine's call (Microsoft: call).
fn render_script(line: &str, folder: &str) -> Result<String> {
    for (what, text) in [("line", line), ("folder", folder)] {
        check(what, text)?;
    }
    let folder = folder.replace('%', "%%");
    // The line is inserted last: it may contain the other placeholder.
    let script = include_str!("attach.cmd").replace("{folder}", &folder);
    Ok(to_crlf(&script.replacen("{line}", line, 1)))
}

fn check(what: &str, text: &str) -> Result<()> {
    match text
        .chars()
        .find(|c| !(c.is_ascii_graphic() || *c == ' ' || *c == '\t'))
    {
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

/// Parses the output of `cd`.
fn said_folder(bytes: &[u8]) -> Result<String, String> {
    let text = String::from_utf8_lossy(bytes);
    let folder = text.trim_end_matches(['\r', '\n', ' ']);
    match check("folder", folder) {
        Ok(()) if !folder.is_empty() => Ok(folder.into()),
        _ => Err("cannot follow `cd`: the folder's name is not ASCII".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_batch_file_holds_the_line_as_it_was_typed() {
        assert_eq!(
            render_script(r#"echo "100%%" & dir /b | find "a" > x"#, r"C:\100% k").expect("ASCII"),
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
        let error = render_script("echo Ä", r"C:\").expect_err("not ASCII");
        assert_eq!(
            error.to_string(),
            "the line can't reach the guest unchanged\n  \
             expected: ASCII without control characters\n  \
             found: `\\u{c4}`, U+00C4\n  \
             cure: use a short name (dir /x), a wildcard, or PowerShell's [char]0x…"
        );
        assert!(render_script("echo a\r\ndel b", r"C:\").is_err());
    }

    #[test]
    fn where_the_line_ended_is_read_back() {
        assert_eq!(said_folder(b"C:\\k\r\n"), Ok(r"C:\k".into()));
        assert!(said_folder(b"C:\\\x8e\r\n").is_err());
        assert!(said_folder(b"").is_err());
    }
}
