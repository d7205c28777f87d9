//! What is judged and what was published about it, read with bounds.
//!
//! Refuses evidence that is empty, too long or a web page in place of a signature, and a file whose bytes are not those of
//! its digest: what a key vouches for is what was admitted.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use base64::prelude::{BASE64_STANDARD, Engine as _};

use winimg_base::digest::{Algorithm, Hasher};
use winimg_base::markup;
use winimg_base::unseen::is_unseen;

use super::{Evidence, Reason, Refusal, Subject};

/// Bytes of a signature file. The longest bundles with log entries have a tenth of this.
pub const LIMIT: usize = 1 << 20;

const CHUNK: usize = 1 << 20;

/// The signature file, if it can be one at all.
pub fn signature(evidence: &Evidence) -> Result<&[u8], Refusal> {
    let Some(bytes) = evidence.signature.as_deref() else {
        return Err(Reason::Missing
            .refusal("there is none")
            .cure("name the signature file with url, if it stands elsewhere"));
    };
    bounded(bytes, LIMIT)
}

/// Foreign bytes that have to say something, and not too much.
pub fn bounded(bytes: &[u8], limit: usize) -> Result<&[u8], Refusal> {
    let refused = |fact: &str| Reason::Malformed.refusal(fact);
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(refused("its file is empty"));
    }
    if bytes.len() > limit {
        return Err(refused(&format!("its file is longer than {limit} bytes")));
    }
    if markup::is_page(bytes) {
        return Err(refused("its file is a web page")
            .cure("open the address in a browser to see what it says"));
    }
    Ok(bytes)
}

/// The signature file where the format is text.
pub fn signature_text(evidence: &Evidence) -> Result<&str, Refusal> {
    std::str::from_utf8(signature(evidence)?)
        .map(|text| text.strip_prefix('\u{feff}').unwrap_or(text))
        .map_err(|_| Reason::Malformed.refusal("its file is not text"))
}

/// The bytes behind base64 in one line or many.
pub fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let mut text = text.to_vec();
    text.retain(|b| !b.is_ascii_whitespace());
    BASE64_STANDARD.decode(text).ok()
}

/// Foreign words as a message may hold them: on one line, without what is unseen, not without end.
pub fn shown(text: impl fmt::Display) -> String {
    const LONGEST: usize = 300;
    let text = text.to_string();
    let mut line: String = text
        .chars()
        .take(LONGEST)
        .map(|c| if is_unseen(c) { ' ' } else { c })
        .collect();
    if text.chars().nth(LONGEST).is_some() {
        line.push('…');
    }
    line
}

/// The judged file, read once from its start; its bytes have to be those of its digest.
pub struct Reading {
    file: File,
    hasher: Hasher,
}

impl Reading {
    pub fn open(subject: Subject<'_>) -> Result<Self, Refusal> {
        let file = File::open(subject.path).map_err(unreadable)?;
        Ok(Self::of(file, subject))
    }

    /// Of a file that stands at its start.
    pub fn of(file: File, subject: Subject<'_>) -> Self {
        Self {
            file,
            hasher: Hasher::new(subject.digest.algorithm),
        }
    }

    /// Hands over the whole file, piece by piece.
    pub fn each(subject: Subject<'_>, mut take: impl FnMut(&[u8])) -> Result<(), Refusal> {
        let mut reading = Self::open(subject)?;
        let mut buffer = vec![0; CHUNK];
        loop {
            match reading.read(&mut buffer) {
                Ok(0) => return reading.finish(subject),
                Ok(n) => take(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(unreadable(e)),
            }
        }
    }

    /// The whole file in memory, for the schemes that sign it raw.
    pub fn whole(subject: Subject<'_>, limit: u64, scheme: &str) -> Result<Vec<u8>, Refusal> {
        let mut reading = Self::open(subject)?;
        let length = reading.file.metadata().map_err(unreadable)?.len();
        let mut bytes = Vec::new();
        // One byte more than is taken, for a file that has grown.
        let read = (length <= limit)
            .then(|| reading.by_ref().take(limit + 1).read_to_end(&mut bytes))
            .transpose()
            .map_err(unreadable)?;
        if read.is_none_or(|n| n as u64 > limit) {
            let fact = format!(
                "{scheme} signs a file whole, so it is judged in memory, and this file is longer than {} MiB",
                limit >> 20
            );
            return Err(Reason::Unsupported
                .refusal(fact)
                .cure("have its checksum file signed, and name that with checksum_url"));
        }
        reading.finish(subject)?;
        Ok(bytes)
    }

    /// After the last byte: whether these were the bytes that the digest speaks of.
    pub fn finish(mut self, subject: Subject<'_>) -> Result<(), Refusal> {
        io::copy(&mut self, &mut io::sink()).map_err(unreadable)?;
        let found = self.hasher.finish();
        if found == *subject.digest {
            return Ok(());
        }
        Err(Reason::Changed
            .refusal("the file changed while it was judged")
            .expected(subject.digest)
            .found(found))
    }
}

impl Read for Reading {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(buffer)?;
        self.hasher.update(&buffer[..n]);
        Ok(n)
    }
}

/// SHA-256 of the file, which is what its subject carries.
pub fn sha256(subject: Subject<'_>) -> Result<Vec<u8>, Refusal> {
    if subject.digest.algorithm == Algorithm::Sha256 {
        return Ok(subject.digest.bytes().to_vec());
    }
    let mut hasher = Hasher::new(Algorithm::Sha256);
    Reading::each(subject, |piece| hasher.update(piece))?;
    Ok(hasher.finish().bytes().to_vec())
}

/// A signature that the right key made, of something else.
pub fn other_bytes() -> Refusal {
    Reason::Changed.refusal(
        "it is of other bytes than this file has: the file was changed, cut off, or is another one",
    )
}

pub fn unreadable(error: io::Error) -> Refusal {
    Reason::Malformed.refusal(format!("the file cannot be read: {error}"))
}
