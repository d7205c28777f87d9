//! Reads the file to verify and its evidence, with limits.
//!
//! Refuses evidence that is empty, too long or a web page, and a file that does not match its
//! digest: the verified file must be the admitted one.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use base64::prelude::{BASE64_STANDARD, Engine as _};

use winimg_base::digest::{Algorithm, Hasher};
use winimg_base::display_text::is_unprintable;
use winimg_base::markup;

use super::{FileSubject, RefusalReason, SignatureEvidence, SignatureRefusal};

/// Maximum size of a signature file in bytes. The longest bundles with log entries have a tenth of
/// this.
pub const LIMIT: usize = 1 << 20;

const CHUNK: usize = 1 << 20;

/// Returns the signature file after basic checks.
pub fn read_signature(evidence: &SignatureEvidence) -> Result<&[u8], SignatureRefusal> {
    let Some(bytes) = evidence.signature.as_deref() else {
        return Err(RefusalReason::Missing
            .refusal("there is none")
            .cure("if the signature file is elsewhere, name it with `url`"));
    };
    check_bounds(bytes, LIMIT)
}

/// Checks that untrusted bytes are neither empty, nor too long, nor a web page.
pub fn check_bounds(bytes: &[u8], limit: usize) -> Result<&[u8], SignatureRefusal> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(RefusalReason::Malformed.refusal("its file is empty"));
    }
    if bytes.len() > limit {
        return Err(RefusalReason::Malformed.refusal(format!("its file exceeds {limit} bytes")));
    }
    if markup::is_web_page(bytes) {
        return Err(RefusalReason::Malformed
            .refusal("its file is a web page")
            .cure("open the address in a browser to see the page"));
    }
    Ok(bytes)
}

/// Returns the signature file as text.
pub fn signature_text(evidence: &SignatureEvidence) -> Result<&str, SignatureRefusal> {
    std::str::from_utf8(read_signature(evidence)?)
        .map(|text| text.strip_prefix('\u{feff}').unwrap_or(text))
        .map_err(|_| RefusalReason::Malformed.refusal("its file is not text"))
}

/// Decodes base64 in one line or several.
pub fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    let mut text = text.to_vec();
    text.retain(|b| !b.is_ascii_whitespace());
    BASE64_STANDARD.decode(text).ok()
}

/// Sanitizes untrusted text for messages: one line, without invisible characters, of limited
/// length.
pub fn sanitize(text: impl fmt::Display) -> String {
    const MAX_LEN: usize = 300;
    let text = text.to_string();
    let mut line: String = text
        .chars()
        .take(MAX_LEN)
        .map(|c| if is_unprintable(c) { ' ' } else { c })
        .collect();
    if text.chars().nth(MAX_LEN).is_some() {
        line.push('…');
    }
    line
}

/// Reads the file once from its start and checks its digest.
pub struct SubjectReader {
    file: File,
    hasher: Hasher,
}

impl SubjectReader {
    pub fn open(subject: FileSubject<'_>) -> Result<Self, SignatureRefusal> {
        let file = File::open(subject.path).map_err(refuse_unreadable)?;
        Ok(Self::from_file(file, subject))
    }

    /// Wraps a file positioned at its start.
    pub fn from_file(file: File, subject: FileSubject<'_>) -> Self {
        Self {
            file,
            hasher: Hasher::new(subject.digest.algorithm),
        }
    }

    /// Passes the whole file to `take`, piece by piece.
    pub fn visit(
        subject: FileSubject<'_>,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), SignatureRefusal> {
        let mut reading = Self::open(subject)?;
        let mut buffer = vec![0; CHUNK];
        loop {
            match reading.read(&mut buffer) {
                Ok(0) => return reading.finish(subject),
                Ok(n) => take(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(refuse_unreadable(e)),
            }
        }
    }

    /// Reads the whole file into memory, for schemes that sign it without hashing.
    pub fn read_whole(
        subject: FileSubject<'_>,
        limit: u64,
        scheme: &str,
    ) -> Result<Vec<u8>, SignatureRefusal> {
        let mut reading = Self::open(subject)?;
        let length = reading.file.metadata().map_err(refuse_unreadable)?.len();
        let mut bytes = Vec::new();
        // One byte more than the limit, in case the file has grown.
        let read = (length <= limit)
            .then(|| reading.by_ref().take(limit + 1).read_to_end(&mut bytes))
            .transpose()
            .map_err(refuse_unreadable)?;
        if read.is_none_or(|n| n as u64 > limit) {
            let fact = format!(
                "{scheme} signs the whole file, which must fit into memory, but this file exceeds \
                 {} MiB",
                limit >> 20
            );
            return Err(RefusalReason::Unsupported
                .refusal(fact)
                .cure("use a signed checksum file, and name it with `checksum_url`"));
        }
        reading.finish(subject)?;
        Ok(bytes)
    }

    /// Reads the rest and checks that the file matches its digest.
    pub fn finish(mut self, subject: FileSubject<'_>) -> Result<(), SignatureRefusal> {
        io::copy(&mut self, &mut io::sink()).map_err(refuse_unreadable)?;
        let found = self.hasher.finish();
        if found == *subject.digest {
            return Ok(());
        }
        Err(RefusalReason::Changed
            .refusal("the file changed while it was verified")
            .expected(subject.digest)
            .found(found))
    }
}

impl Read for SubjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(buffer)?;
        self.hasher.update(&buffer[..n]);
        Ok(n)
    }
}

/// Returns the SHA-256 of the file, which its subject normally has.
pub fn compute_sha256(subject: FileSubject<'_>) -> Result<Vec<u8>, SignatureRefusal> {
    if subject.digest.algorithm == Algorithm::Sha256 {
        return Ok(subject.digest.bytes().to_vec());
    }
    let mut hasher = Hasher::new(Algorithm::Sha256);
    SubjectReader::visit(subject, |piece| hasher.update(piece))?;
    Ok(hasher.finish().bytes().to_vec())
}

/// Returns the refusal of a signature that cannot be read.
pub fn malformed(fact: impl Into<String>) -> SignatureRefusal {
    RefusalReason::Malformed.refusal(fact)
}

/// Returns the refusal of a signature by the right key that does not match the file.
pub fn other_bytes() -> SignatureRefusal {
    RefusalReason::Changed.refusal(
        "it does not match the file: the file was changed, was cut off, or is a different one",
    )
}

pub fn refuse_unreadable(error: io::Error) -> SignatureRefusal {
    RefusalReason::Malformed.refusal(format!("cannot read the file: {error}"))
}
