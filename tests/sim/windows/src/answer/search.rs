//! Where Setup looks for an answer file, pass by pass, and which of the candidates it takes.
//!
//! Source: Microsoft, "Windows Setup Automation Overview", implicit answer file search order.

use super::document::{Answer, Pass};

/// A file that lies at one of the searched places, in the order of search.
pub struct Candidate {
    /// As Windows writes it.
    pub path: String,
    pub bytes: Vec<u8>,
}

/// The first candidate with settings for `pass`. A candidate that is not valid stops the search with its path and why.
pub fn choose(
    candidates: impl IntoIterator<Item = Candidate>,
    pass: Pass,
) -> Result<Option<Answer>, (String, String)> {
    for candidate in candidates {
        let answer = Answer::parse(&candidate.path, &candidate.bytes)
            .map_err(|why| (candidate.path.clone(), why))?;
        if answer.has(pass) {
            return Ok(Some(answer));
        }
    }
    Ok(None)
}

/// Names accepted in a volume's root. Only later passes take `Unattend.xml`.
pub fn names(pass: Pass) -> &'static [&'static str] {
    match pass {
        Pass::WindowsPe | Pass::OfflineServicing => &["autounattend.xml"],
        _ => &["unattend.xml", "autounattend.xml"],
    }
}
