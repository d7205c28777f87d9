//! Runs programs in the guest with `guest-exec`.
//!
//! Sources: QEMU qga/commands.c (a Windows status from 0xC0000000 on is reported as `signal`); glib
//! gspawn-win32.c (quoting of arguments).

use std::time::{Duration, Instant};

use qapi::qga::{GuestExecCaptureOutput, GuestExecStatus, guest_exec, guest_exec_status};

use super::to_error;
use super::wire::{AgentFailure, AgentWire};
use crate::guest::output::{LONGEST, OutputText};
use crate::guest::{GuestCommand, GuestExit, not_ended, not_started, sign_extended};
use winimg_base::error::{Error, Kind, Result};

const FIRST_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_millis(500);

pub fn run(
    wire: &mut AgentWire,
    command: &GuestCommand,
    output: &mut dyn FnMut(&[u8]),
) -> Result<GuestExit> {
    let deadline = wire.now() + command.timeout;
    match start_and_wait(wire, command, deadline) {
        Ok(status) => {
            emit_output(&status, output);
            exit_code(&status).map(GuestExit::Code)
        }
        Err(AgentFailure::Gone) => Ok(GuestExit::GuestGone),
        Err(AgentFailure::Late) => Err(not_ended(
            command,
            "it is still running: the guest agent can neither stop it nor return its output \
             before it exits",
        )),
        Err(AgentFailure::Refused(words)) => Err(not_started(command, &words)),
        Err(other) => Err(to_error("a command", other)),
    }
}

/// Starts a program and returns the last `guest-exec-status`. Each request has the command's whole
/// deadline: the agent forgets a program after reporting its end, so that answer must not be
/// missed.
fn start_and_wait(
    wire: &mut AgentWire,
    command: &GuestCommand,
    deadline: Instant,
) -> Result<GuestExecStatus, AgentFailure> {
    let start = guest_exec {
        path: command.program.clone(),
        arg: Some(command.arguments.clone()),
        // The only form that agents before 8.0 support.
        capture_output: Some(GuestExecCaptureOutput::flag(true)),
        env: None,
        input_data: None,
    };
    let pid = wire.ask(&start, deadline)?.pid;
    let mut pause = FIRST_PAUSE;
    loop {
        let status = match wire.ask(&guest_exec_status { pid }, deadline) {
            Ok(status) => status,
            // The agent was restarted and does not know the program.
            Err(AgentFailure::Refused(words)) => {
                return Err(AgentFailure::Broken(
                    Error::new(Kind::Machine, "the guest agent lost the program it ran")
                        .at(&command.program)
                        .found(words),
                ));
            }
            Err(other) => return Err(other),
        };
        if status.exited {
            return Ok(status);
        }
        if wire.now() + pause >= deadline {
            return Err(AgentFailure::Late);
        }
        wire.pause(pause)?;
        pause = (pause * 3 / 2).min(MAX_PAUSE);
    }
}

/// Returns the 32-bit code, sign-extended. A POSIX signal, which only a guest other than Windows
/// reports, becomes 128 + its number like in a shell.
fn exit_code(status: &GuestExecStatus) -> Result<i64> {
    if let Some(code) = status.exitcode {
        return Ok(sign_extended(code));
    }
    match status.signal {
        Some(signal @ 1..=127) => Ok(128 + signal),
        Some(status) => Ok(sign_extended(status)),
        None => Err(Error::new(
            Kind::Machine,
            "the guest agent did not report how the program ended",
        )
        .found("neither an exit code nor a signal")),
    }
}

/// Emits stdout, then stderr, as text.
fn emit_output(status: &GuestExecStatus, output: &mut dyn FnMut(&[u8])) {
    for (bytes, truncated, name) in [
        (&status.out_data, status.out_truncated, "stdout"),
        (&status.err_data, status.err_truncated, "stderr"),
    ] {
        let mut text = OutputText::default();
        for piece in bytes.as_deref().unwrap_or_default().chunks(LONGEST) {
            text.push(piece, output);
        }
        text.end(output);
        if truncated == Some(true) {
            output(format!("[the guest agent kept only the first 16 MiB of {name}]\n").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD as BASE64;
    use serde_json::{Value, json};

    /// An agent's report of a program's end.
    fn ended(mut rendered: Value) -> GuestExecStatus {
        rendered["exited"] = true.into();
        serde_json::from_value(rendered).expect("a status")
    }

    #[test]
    fn codes_of_32_bits_keep_their_sign() {
        let cases = [
            (json!({"exitcode": 3010}), 3010),
            (json!({"exitcode": -2146498529}), -2146498529),
            (json!({"exitcode": 0x800f081fu32}), -2146498529),
            (json!({"signal": -1073741819}), -1073741819),
            (json!({"signal": 0xc0000005u32}), -1073741819),
            (json!({"signal": 9}), 137),
        ];
        for (rendered, expected) in cases {
            let shown = rendered.to_string();
            assert_eq!(
                exit_code(&ended(rendered)).expect("a code"),
                expected,
                "{shown}"
            );
        }
        assert!(exit_code(&ended(json!({}))).is_err());
    }

    #[test]
    fn output_is_text_in_whole_lines_and_says_when_it_was_cut() {
        let line = "zażółć gęślą jaźń\r\n";
        let long = line.repeat(2000);
        let wide: Vec<u8> = "Ä wide\r\n"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        let status = ended(json!({
            "out-data": BASE64.encode(&long), "out-truncated": true,
            "err-data": BASE64.encode(wide),
        }));
        let mut chunks = Vec::new();
        emit_output(&status, &mut |bytes| {
            chunks.push(String::from_utf8(bytes.to_vec()).expect("text"))
        });
        assert!(
            chunks
                .iter()
                .all(|c| c.len() <= 2 * LONGEST && c.ends_with('\n'))
        );
        assert_eq!(
            chunks.concat(),
            format!("{long}[the guest agent kept only the first 16 MiB of stdout]\nÄ wide\r\n")
        );
    }
}
