//! The short form of Ed25519 keys and signatures: one line of base64 under an untrusted comment.
//!
//! OpenBSD's signify made it and minisign kept it: two bytes of algorithm, eight of the key's number, then the key or the
//! signature. It is read here once. Refuses files with more than one such line, and secret keys. What the algorithm means
//! and what stands below the line is each scheme's own affair.

use base64::prelude::{BASE64_STANDARD, Engine as _};

const UNTRUSTED: &str = "untrusted comment:";

/// Characters of a public key: 42 bytes.
const KEY_LINE: usize = 56;

/// A public key, taken apart.
#[derive(Clone, Debug)]
pub struct Key {
    /// The 56 characters.
    pub text: String,
    pub algorithm: [u8; 2],
    pub number: [u8; 8],
    pub point: [u8; 32],
}

/// Whether a text is a public key itself, and not the name of a file with one.
pub fn is_key(text: &str) -> bool {
    text.len() == KEY_LINE
        && text.starts_with("RW")
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+/=".contains(c))
}

/// What a text is that is no public key of this scheme. It fits after "the key".
pub fn no_key(scheme: &str) -> String {
    format!(
        "is not a {scheme} public key, which is a line of {KEY_LINE} characters that begins with RW"
    )
}

/// The key of a line, or of a file with it and no other. `file`: what the scheme's own tool calls that file. The error fits
/// after "the key".
pub fn key(text: &str, scheme: &str, file: &str) -> Result<Key, String> {
    let none = || no_key(scheme);
    let mut lines = text
        .trim_start_matches('\u{feff}')
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with(UNTRUSTED));
    let (Some(text), None) = (lines.next(), lines.next()) else {
        return Err(none());
    };
    // Secret keys have the same head, and a KDF's name and salt before the key.
    if text.len() > KEY_LINE && text.starts_with("RW") {
        return Err(format!(
            "is a {scheme} secret key; a recipe needs the public one, {file}"
        ));
    }
    let bytes = BASE64_STANDARD.decode(text).map_err(|_| none())?;
    let bytes = <[u8; 42]>::try_from(bytes).map_err(|_| none())?;
    let (algorithm, number, point) = parts(bytes);
    Ok(Key {
        text: text.to_string(),
        algorithm,
        number,
        point,
    })
}

/// A signature file's first two lines, and what stands below them.
pub struct Lines<'a> {
    line: &'a str,
    pub rest: Vec<&'a str>,
}

/// A signature's line, taken apart.
pub struct Signature {
    pub algorithm: [u8; 2],
    pub number: [u8; 8],
    pub bytes: [u8; 64],
}

impl<'a> Lines<'a> {
    /// `None`: it does not begin with an untrusted comment and a line.
    pub fn of(text: &'a str) -> Option<Self> {
        let mut lines = text.lines();
        lines.next().filter(|line| line.starts_with(UNTRUSTED))?;
        Some(Self {
            line: lines.next()?,
            rest: lines.collect(),
        })
    }

    /// `None`: the line is damaged or cut off.
    pub fn signature(&self) -> Option<Signature> {
        let bytes = BASE64_STANDARD.decode(self.line.trim_end()).ok()?;
        let (algorithm, number, bytes) = parts(<[u8; 74]>::try_from(bytes).ok()?);
        Some(Signature {
            algorithm,
            number,
            bytes,
        })
    }
}

/// Algorithm, number, and the body of `M` bytes. `N` is `M` and 10.
fn parts<const N: usize, const M: usize>(bytes: [u8; N]) -> ([u8; 2], [u8; 8], [u8; M]) {
    const { assert!(N == M + 10) };
    let (mut algorithm, mut number, mut body) = ([0; 2], [0; 8], [0; M]);
    algorithm.copy_from_slice(&bytes[..2]);
    number.copy_from_slice(&bytes[2..10]);
    body.copy_from_slice(&bytes[10..]);
    (algorithm, number, body)
}
