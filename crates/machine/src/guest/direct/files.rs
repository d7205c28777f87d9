//! Transfers small files through a session.
//!
//! Large files are refused: sessions transfer base64 text, and an ISO is many times faster.

use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;

use super::{CREDENTIAL, DirectGuest, FILE_TIMEOUT, explain};
use crate::guest::{check_size, larger_than};
use winimg_base::error::{Error, Kind, Result};

pub fn put(direct: &mut DirectGuest, path: &str, bytes: &[u8]) -> Result<()> {
    check_size(path, bytes, "a session")?;
    let arguments = [json!(path), json!(BASE64.encode(bytes))];
    let deadline = Instant::now() + FILE_TIMEOUT;
    let written = direct.ask("put", &arguments, &["boot"], deadline, CREDENTIAL);
    written
        .map(|_| ())
        .map_err(|error| explain(&format!("writing {path}"), error))
}

pub fn get(direct: &mut DirectGuest, path: &str, limit: usize) -> Result<Option<Vec<u8>>> {
    let doing = format!("reading {path}");
    let arguments = [json!(path), json!(limit)];
    let select = ["boot", "there", "size", "base64"];
    let deadline = Instant::now() + FILE_TIMEOUT;
    let answer = direct
        .ask("get", &arguments, &select, deadline, CREDENTIAL)
        .map_err(|error| explain(&doing, error))?;
    if answer["there"] != true {
        return Ok(None);
    }
    let size = answer["size"].as_u64().unwrap_or(0);
    if size > limit as u64 {
        return Err(larger_than(limit, path).found(format!("{size} bytes")));
    }
    let bytes = answer["base64"]
        .as_str()
        .and_then(|b| BASE64.decode(b).ok());
    match bytes.filter(|bytes| bytes.len() <= limit) {
        Some(bytes) => Ok(Some(bytes)),
        None => Err(Error::new(
            Kind::Machine,
            format!("invalid answer from the guest while {doing}"),
        )),
    }
}
