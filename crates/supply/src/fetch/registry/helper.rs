//! A program that keeps logins to registries: `docker-credential-NAME get`. (Docker: credential
//! helper protocol)
//!
//! What it says is not shown: it may hold the secret. Its failure is only a reason why there is no
//! login.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde::Deserialize;

use super::login::Login;
use winimg_base::io::without_our_secrets;
use winimg_base::text::Secret;

/// The user name of what is an identity token and no password.
const TOKEN: &str = "<token>";
/// A helper may ask a person for the password of a key ring.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of an answer.
const LONGEST: u64 = 1 << 20;

/// The login that a helper gave.
#[derive(Deserialize)]
struct Given {
    #[serde(rename = "Username")]
    user: String,
    #[serde(rename = "Secret")]
    secret: String,
}

/// Asks the helper for a server's login. The error says why there is none: it fits after the
/// program's name.
pub(super) fn ask(name: &str, server: &str) -> Result<Login, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !name.chars().all(is_plain) {
        return Err("has a name that no program has".into());
    }
    let mut command = Command::new(program(name));
    command
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    without_our_secrets(&mut command);
    let mut child = command.spawn().map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => "is not installed".to_owned(),
        _ => format!("cannot be started: {e}"),
    })?;
    // A program that ends without reading it says why by its status.
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(server.as_bytes());
    }
    let stdout = child.stdout.take();
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut answer = Vec::new();
        let read = stdout.map(|stdout| stdout.take(LONGEST).read_to_end(&mut answer));
        // Nobody waits any more after the deadline.
        let _ = sender.send(read.and_then(Result::ok).map(|_| answer));
    });
    let answer = receiver.recv_timeout(PATIENCE);
    if answer.is_err() {
        let _ = child.kill();
    }
    let ended = child.wait();
    match (answer, ended) {
        (Err(_), _) => Err(format!("gave no answer within {} s", PATIENCE.as_secs())),
        (Ok(Some(answer)), Ok(status)) if status.success() => read(&answer),
        (Ok(Some(answer)), _) if is_unknown(&answer) => Err(format!("has no login for {server}")),
        _ => Err("failed".into()),
    }
}

pub(super) fn program(name: &str) -> String {
    format!("docker-credential-{name}")
}

/// The words of the protocol for a server without a login.
fn is_unknown(answer: &[u8]) -> bool {
    String::from_utf8_lossy(answer).contains("credentials not found")
}

fn read(answer: &[u8]) -> Result<Login, String> {
    // The parser's own words would show the answer.
    let given: Given =
        serde_json::from_slice(answer).map_err(|_| "gave an answer that cannot be read")?;
    match given.user.as_str() {
        TOKEN => Ok(Login::Identity(Secret::new(given.secret))),
        "" => Err("gave a login without a user".into()),
        _ => Ok(Login::Password {
            user: given.user,
            password: Secret::new(given.secret),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_password_or_a_token() {
        let password = read(br#"{"ServerURL": "r", "Username": "u", "Secret": "p"}"#).unwrap();
        assert!(
            matches!(password, Login::Password { user, password } if user == "u" && password.expose() == "p")
        );
        let token = read(br#"{"ServerURL": "r", "Username": "<token>", "Secret": "t"}"#).unwrap();
        assert!(matches!(token, Login::Identity(token) if token.expose() == "t"));
        for wrong in ["", "hunter2", r#"{"Username": "hunter2"}"#] {
            let why = read(wrong.as_bytes()).unwrap_err();
            assert_eq!(why, "gave an answer that cannot be read");
        }
    }

    #[test]
    fn a_helper_that_is_not_there_is_a_reason_and_no_failure() {
        assert_eq!(ask("winimg-has-none", "r").unwrap_err(), "is not installed");
        assert_eq!(
            ask("../x", "r").unwrap_err(),
            "has a name that no program has"
        );
    }
}
