//! Runs programs in the guest as jobs that are started, polled and removed.
//!
//! A job continues without a session. One that was ended by a restart of Windows is reported as
//! such.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::{
    CREDENTIAL, DirectGuest, JOB, MIN_TIMEOUT, PATIENCE, RequestFailure, boot_of, explain,
};
use crate::guest::output::OutputText;
use crate::guest::{GuestCommand, GuestExit, GuestFailure, not_ended, not_started, sign_extended};
use winimg_base::argv;
use winimg_base::error::{Error, Kind, Result};

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(1);
const POLLED: [&str; 7] = ["boot", "known", "ended", "exit", "error", "output", "size"];

pub fn run(
    direct: &mut DirectGuest,
    command: &GuestCommand,
    output: &mut dyn FnMut(&[u8]),
) -> Result<GuestExit> {
    let deadline = Instant::now() + command.timeout;
    let id = uuid::Uuid::new_v4().simple().to_string();
    let line: Vec<String> = command
        .arguments
        .iter()
        .map(|a| argv::quote_argument(a))
        .collect();
    let line = line.join(" ");
    let arguments = [json!(id), json!(command.program), json!(line), json!(JOB)];
    let started = direct.ask("start", &arguments, &["boot"], deadline, CREDENTIAL);
    let started = match started {
        Ok(answer) => answer,
        Err(RequestFailure::Threw(words)) => return Err(not_started(command, &words)),
        Err(stop) => return Err(explain("the start of a command", stop)),
    };
    direct.record_boot(boot_of(&started));
    let mut text = OutputText::default();
    let ended = wait(direct, command, &id, deadline, &mut |bytes| {
        text.push(bytes, output);
    });
    text.end(output);
    let ended = match ended {
        Ok(GuestExit::GuestGone) | Err(RequestFailure::Ended(GuestFailure::PoweredOff)) => {
            return Ok(GuestExit::GuestGone);
        }
        ended => ended.map_err(|stop| explain("a command", stop)),
    };
    // Also after a failure: no files or processes of it may remain in the image. `off` removes the
    // rest.
    let goodbye = Instant::now() + PATIENCE;
    let forgotten = direct.ask("forget", &[json!(id)], &["boot"], goodbye, CREDENTIAL);
    match (&ended, forgotten) {
        (Ok(_), Err(RequestFailure::Ended(GuestFailure::Failed(error))))
            if error.kind() == Kind::Cancelled =>
        {
            Err(error)
        }
        _ => ended,
    }
}

fn wait(
    direct: &mut DirectGuest,
    command: &GuestCommand,
    id: &str,
    deadline: Instant,
    output: &mut dyn FnMut(&[u8]),
) -> Result<GuestExit, RequestFailure> {
    let mut offset = 0;
    let mut pause = FIRST_PAUSE;
    loop {
        // A guest that does not answer at the deadline gets the time of one request.
        let patience = deadline.max(Instant::now() + MIN_TIMEOUT);
        let arguments = [json!(id), json!(offset)];
        let answer = direct.ask("poll", &arguments, &POLLED, patience, CREDENTIAL)?;
        if boot_of(&answer) != direct.boot {
            return Ok(GuestExit::GuestGone);
        }
        if answer["known"] != true {
            let lost = Error::new(Kind::Machine, "the guest lost the program it ran");
            return Err(lost.at(&command.program).into());
        }
        let bytes = answer["output"].as_str().map(|b| BASE64.decode(b));
        let Some(Ok(bytes)) = bytes else {
            let fact = "invalid answer from the guest: a command's output";
            return Err(Error::new(Kind::Machine, fact).into());
        };
        offset += bytes.len() as u64;
        output(&bytes);
        let size = answer["size"].as_u64().unwrap_or(0);
        if offset < size && !bytes.is_empty() {
            continue;
        }
        if answer["ended"] == true {
            return Ok(exit(command, &answer)?);
        }
        if Instant::now() >= deadline {
            return Err(not_ended(command, "it was killed with all its child processes").into());
        }
        direct.pause(pause, deadline)?;
        pause = (pause * 3 / 2).min(MAX_PAUSE);
    }
}

fn exit(command: &GuestCommand, answer: &Value) -> Result<GuestExit> {
    match answer["exit"].as_i64() {
        Some(code) => Ok(GuestExit::Code(sign_extended(code))),
        None => {
            let words = answer["error"].as_str();
            Err(not_started(command, words.unwrap_or("no reason given")))
        }
    }
}
