//! Credential helpers for registries: `docker-credential-NAME get`. (Docker: credential helper
//! protocol)
//!
//! The output is never shown: it may contain the secret. A failure only explains a missing login.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde::Deserialize;

use super::login::RegistryLogin;
use winimg_base::io::remove_winimg_secrets;
use winimg_base::text::Secret;

/// User name that marks an identity token in place of a password.
const TOKEN: &str = "<token>";
/// Time limit; a helper may prompt for the password of a keyring.
const PATIENCE: Duration = Duration::from_secs(60);
/// Maximum size of an answer in bytes.
const MAX_ANSWER_SIZE: u64 = 1 << 20;

/// The answer of a helper.
#[derive(Deserialize)]
struct HelperResponse {
    #[serde(rename = "Username")]
    user: String,
    #[serde(rename = "Secret")]
    secret: String,
}

/// Gets a server's login from the helper. The error explains why there is none, and follows the
/// program's name.
pub(super) fn ask(name: &str, server: &str) -> Result<RegistryLogin, String> {
    if !name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    {
        return Err("is not a valid program name".into());
    }
    let mut command = Command::new(name_program(name));
    command
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    remove_winimg_secrets(&mut command);
    let mut child = command.spawn().map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => "is not installed".to_owned(),
        _ => format!("cannot be started: {e}"),
    })?;
    // If the program exits without reading it, its status explains why.
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(server.as_bytes());
    }
    let stdout = child.stdout.take();
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut answer = Vec::new();
        let read = stdout.map(|stdout| stdout.take(MAX_ANSWER_SIZE).read_to_end(&mut answer));
        // The receiver is gone after the deadline.
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

pub(super) fn name_program(name: &str) -> String {
    format!("docker-credential-{name}")
}

/// Returns true for the protocol's message for a server without a login.
fn is_unknown(answer: &[u8]) -> bool {
    String::from_utf8_lossy(answer).contains("credentials not found")
}

fn read(answer: &[u8]) -> Result<RegistryLogin, String> {
    // The parser's message would show the answer.
    let given: HelperResponse =
        serde_json::from_slice(answer).map_err(|_| "gave an answer that cannot be read")?;
    match given.user.as_str() {
        TOKEN => Ok(RegistryLogin::Identity(Secret::new(given.secret))),
        "" => Err("gave a login without a user".into()),
        _ => Ok(RegistryLogin::Password {
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
            matches!(password, RegistryLogin::Password { user, password } if user == "u" && password.expose() == "p")
        );
        let token = read(br#"{"ServerURL": "r", "Username": "<token>", "Secret": "t"}"#).unwrap();
        assert!(matches!(token, RegistryLogin::Identity(token) if token.expose() == "t"));
        for wrong in ["", "hunter2", r#"{"Username": "hunter2"}"#] {
            let why = read(wrong.as_bytes()).unwrap_err();
            assert_eq!(why, "gave an answer that cannot be read");
        }
    }

    #[test]
    fn a_helper_that_is_not_there_is_a_reason_and_no_failure() {
        assert_eq!(ask("winimg-has-none", "r").unwrap_err(), "is not installed");
        assert_eq!(ask("../x", "r").unwrap_err(), "is not a valid program name");
    }
}
