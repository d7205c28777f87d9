//! The short format of Ed25519 keys and signatures: one line of base64 below an untrusted comment.
//!
//! It was introduced by OpenBSD's signify and adopted by minisign: two bytes for the algorithm,
//! eight for the key's number, then the key or the signature. Refuses files with more than one such
//! line, and secret keys. Each scheme interprets the algorithm and the text below the line itself.

use base64::prelude::{BASE64_STANDARD, Engine as _};

const UNTRUSTED: &str = "untrusted comment:";

/// Number of characters of a public key: 42 bytes.
const KEY_LINE: usize = 56;

/// The parts of a public key.
#[derive(Clone, Debug)]
pub struct ShortKey {
    /// The 56 characters.
    pub text: String,
    pub algorithm: [u8; 2],
    pub number: [u8; 8],
    pub point: [u8; 32],
}

/// Returns true if a text is a public key itself, as opposed to the name of a file with one.
pub fn is_key(text: &str) -> bool {
    text.len() == KEY_LINE
        && text.starts_with("RW")
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+/=".contains(c))
}

/// Returns the error for a text that is not a public key of this scheme. It fits after "the key".
pub fn no_key(scheme: &str) -> String {
    format!(
        "is not a {scheme} public key, which is a line of {KEY_LINE} characters that starts with RW"
    )
}

/// Parses a key from a line, or from a file with exactly one. `file` is the file name that the
/// scheme's own tool uses. The error fits after "the key".
pub fn parse_key(text: &str, scheme: &str, file: &str) -> Result<ShortKey, String> {
    let mut lines = text
        .trim_start_matches('\u{feff}')
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with(UNTRUSTED));
    let (Some(text), None) = (lines.next(), lines.next()) else {
        return Err(no_key(scheme));
    };
    // Secret keys start in the same way, with the name of a KDF and a salt before the key.
    if text.len() > KEY_LINE && text.starts_with("RW") {
        return Err(format!(
            "is a {scheme} secret key; a recipe needs the public key, {file}"
        ));
    }
    let bytes = BASE64_STANDARD.decode(text).map_err(|_| no_key(scheme))?;
    let bytes = <[u8; 42]>::try_from(bytes).map_err(|_| no_key(scheme))?;
    let (algorithm, number, point) = split_parts(bytes);
    Ok(ShortKey {
        text: text.to_string(),
        algorithm,
        number,
        point,
    })
}

/// The lines of a signature file.
pub struct ShortSignatureFile<'a> {
    line: &'a str,
    pub rest: Vec<&'a str>,
}

/// The parts of a signature's line.
pub struct ShortSignature {
    pub algorithm: [u8; 2],
    pub number: [u8; 8],
    pub bytes: [u8; 64],
}

impl<'a> ShortSignatureFile<'a> {
    /// Splits a signature file. `None` if it does not start with an untrusted comment and a line.
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut lines = text.lines();
        lines.next().filter(|line| line.starts_with(UNTRUSTED))?;
        Some(Self {
            line: lines.next()?,
            rest: lines.collect(),
        })
    }

    /// Parses the signature's line. `None` if it is damaged or cut off.
    pub fn parse_signature(&self) -> Option<ShortSignature> {
        let bytes = BASE64_STANDARD.decode(self.line.trim_end()).ok()?;
        let (algorithm, number, bytes) = split_parts(<[u8; 74]>::try_from(bytes).ok()?);
        Some(ShortSignature {
            algorithm,
            number,
            bytes,
        })
    }
}

/// Splits bytes into algorithm, number, and a body of `M` bytes. `N` is `M` + 10.
fn split_parts<const N: usize, const M: usize>(bytes: [u8; N]) -> ([u8; 2], [u8; 8], [u8; M]) {
    const { assert!(N == M + 10) };
    let (mut algorithm, mut number, mut body) = ([0; 2], [0; 8], [0; M]);
    algorithm.copy_from_slice(&bytes[..2]);
    number.copy_from_slice(&bytes[2..10]);
    body.copy_from_slice(&bytes[10..]);
    (algorithm, number, body)
}
