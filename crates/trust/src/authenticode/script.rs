//! PowerShell scripts: the signature is in a comment block at the end, and the digest covers the
//! text before it.
//!
//! The digest is computed from the text in UTF-16LE, including the byte order mark if the file has
//! one. Refuses text after the block, a second block, and changed line ends. (Microsoft:
//! about_Signing)

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::super::uncovered::{UncoveredPlace, UncoveredRange};
use super::source::SignedSource;
use crate::x509::hash::HashKind;
use crate::x509::tlv;
use crate::{RefusalReason, SignatureRefusal};

const MAX_SCRIPT_SIZE: u64 = 64 << 20;

/// Comment syntax of a kind of script.
struct CommentStyle {
    begin: &'static str,
    end: &'static str,
    before: &'static str,
    after: &'static str,
}

/// Styles of `.ps1`, `.psm1` and `.psd1`, and of `.ps1xml`.
const STYLES: [CommentStyle; 2] = [
    CommentStyle {
        begin: "# SIG # Begin signature block",
        end: "# SIG # End signature block",
        before: "# ",
        after: "",
    },
    CommentStyle {
        begin: "<!-- SIG # Begin signature block -->",
        end: "<!-- SIG # End signature block -->",
        before: "<!-- ",
        after: " -->",
    },
];

/// The signature block with the signed text before it.
struct SignatureBlock<'a> {
    /// The signed text, without the line end that belongs to the block.
    signed: &'a str,
    /// The text from the first marker to the end of the file.
    rest: &'a str,
    style: &'static CommentStyle,
}

/// Returns the PKCS#7 DER; `None` if the file is not signed. Refuses bytes that no signature
/// covers.
pub(super) fn read_signature(file: &mut SignedSource) -> Result<Option<Vec<u8>>, SignatureRefusal> {
    let text = read_text(file)?;
    let Some(block) = find_block(&text)? else {
        return Ok(None);
    };
    let bytes = STANDARD.decode(extract_base64(&block)?).map_err(|error| {
        let error = error.to_string();
        let error = error.trim_end_matches('.');
        malformed(format!("its signature block is not base64: {error}"))
    })?;
    let (der, rest) = tlv::parse_first(&bytes, tlv::SEQUENCE, "the script's signature")?;
    if !rest.is_empty() {
        return Err(refuse_uncovered(format!(
            "unsigned bytes after the signature in its block: {}",
            rest.len()
        )));
    }
    Ok(Some(der.raw.to_vec()))
}

/// Computes the digest that is signed.
pub(super) fn compute_digest(
    file: &mut SignedSource,
    algorithm: HashKind,
) -> Result<Vec<u8>, SignatureRefusal> {
    let text = read_text(file)?;
    let block = find_block(&text)?.ok_or_else(|| malformed("it has no signature"))?;
    let mut hash = algorithm.start();
    let mut buffer = Vec::with_capacity(1 << 16);
    for unit in block.signed.encode_utf16() {
        buffer.extend(unit.to_le_bytes());
        if buffer.len() >= 1 << 16 {
            hash.update(&buffer);
            buffer.clear();
        }
    }
    hash.update(&buffer);
    Ok(hash.finish().as_ref().to_vec())
}

/// Returns the range of the block, which the digest omits.
pub(super) fn list_uncovered(
    file: &mut SignedSource,
) -> Result<Vec<UncoveredRange>, SignatureRefusal> {
    let length = file.length();
    let is_wide = matches!(
        file.read_bytes(0, 2)?.as_deref(),
        Some([0xff, 0xfe] | [0xfe, 0xff])
    );
    let text = read_text(file)?;
    let Some(block) = find_block(&text)? else {
        return Ok(Vec::new());
    };
    let signed = if is_wide {
        2 * block.signed.encode_utf16().count()
    } else {
        block.signed.len()
    };
    Ok(vec![UncoveredRange::new(
        UncoveredPlace::ScriptBlock,
        signed as u64..length,
    )])
}

/// Reads the whole text. A byte order mark is kept, because it is signed, too.
fn read_text(file: &mut SignedSource) -> Result<String, SignatureRefusal> {
    let length = file.length();
    if length > MAX_SCRIPT_SIZE {
        return Err(malformed(format!(
            "it has {length} bytes, more than the maximum of {MAX_SCRIPT_SIZE}"
        )));
    }
    let bytes = file.read_bytes(0, length as usize)?.unwrap_or_default();
    match bytes.get(..2) {
        Some([0xff, 0xfe]) => decode_utf16(&bytes, u16::from_le_bytes),
        Some([0xfe, 0xff]) => decode_utf16(&bytes, u16::from_be_bytes),
        _ => String::from_utf8(bytes).map_err(|error| {
            RefusalReason::Unsupported
                .refusal(format!(
                    "the script is in an unknown code page (not UTF-8 at offset {})",
                    error.utf8_error().valid_up_to()
                ))
                .expected("UTF-8, or UTF-16 with a byte order mark")
                .cure("ask the publisher for the script in UTF-8 with a byte order mark")
        }),
    }
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, SignatureRefusal> {
    if !bytes.len().is_multiple_of(2) {
        return Err(malformed("its UTF-16 is cut off"));
    }
    let units = bytes.chunks_exact(2).map(|two| unit([two[0], two[1]]));
    char::decode_utf16(units)
        .collect::<Result<String, _>>()
        .map_err(|error| malformed(format!("it is not UTF-16: {error}")))
}

/// Finds the only block; `None` if there is none.
fn find_block(text: &str) -> Result<Option<SignatureBlock<'_>>, SignatureRefusal> {
    let mut found = None;
    let mut ends = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let bare = line.trim();
        for style in &STYLES {
            ends |= bare.starts_with(style.end);
            if !bare.starts_with(style.begin) {
                continue;
            }
            if found.is_some() {
                return Err(refuse_uncovered("the script has two signature blocks"));
            }
            found = Some((at, style));
        }
        at += line.len();
    }
    let Some((at, style)) = found else {
        if ends {
            return Err(malformed(
                "its signature block has an end marker but no begin marker",
            ));
        }
        return Ok(None);
    };
    let (before, rest) = text.split_at(at);
    let signed = match before.strip_suffix("\r\n") {
        Some(signed) => signed,
        None if before.ends_with('\n') => return Err(refuse_line_ends()),
        None => {
            return Err(malformed("there is nothing before its signature block"));
        }
    };
    // Signing tools disagree on the encoding for such a file: UTF-8, or Windows' code page 1252.
    if style.after == " -->" && !signed.is_ascii() && !signed.starts_with('\u{feff}') {
        let fact = "the script contains non-ASCII characters but no byte order mark, so its \
                    encoding is ambiguous";
        return Err(RefusalReason::Unsupported
            .refusal(fact)
            .expected("ASCII, or a byte order mark")
            .cure("ask the publisher for the script with a byte order mark"));
    }
    Ok(Some(SignatureBlock {
        signed,
        rest,
        style,
    }))
}

/// Extracts the base64 from the block, and checks every line of it and the text after it.
fn extract_base64(block: &SignatureBlock<'_>) -> Result<String, SignatureRefusal> {
    let style = block.style;
    let mut encoded = String::new();
    let mut rest = block.rest;
    let mut first = true;
    loop {
        // The file may end with the last marker.
        if rest == style.end {
            return Ok(encoded);
        }
        let Some((line, after)) = rest.split_once('\n') else {
            return Err(malformed("the file is cut off within its signature block"));
        };
        let line = line.strip_suffix('\r').ok_or_else(refuse_line_ends)?;
        rest = after;
        if line == style.end {
            break;
        }
        if first {
            if line != style.begin {
                return Err(malformed(format!(
                    "its signature block begins with {line:?}"
                )));
            }
            first = false;
            continue;
        }
        let part = line
            .strip_prefix(style.before)
            .and_then(|line| line.strip_suffix(style.after))
            .ok_or_else(|| {
                malformed(format!(
                    "its signature block has the line {:?}",
                    line.chars().take(80).collect::<String>()
                ))
            })?;
        encoded.push_str(part);
    }
    if !rest.is_empty() {
        return Err(refuse_uncovered(format!(
            "unsigned text after the script's signature block: {} characters from character {}",
            rest.chars().count(),
            block.signed.chars().count() + 2 + block.rest.chars().count() - rest.chars().count()
        )));
    }
    Ok(encoded)
}

fn refuse_line_ends() -> SignatureRefusal {
    let fact = "the script's lines end with LF, but it was signed with CRLF";
    let cure =
        "download the script as published: a checkout or an editor has changed its line ends";
    RefusalReason::Changed.refusal(fact).cure(cure)
}

fn malformed(fact: impl fmt::Display) -> SignatureRefusal {
    RefusalReason::Malformed.refusal(format!("the script cannot be read: {fact}"))
}

fn refuse_uncovered(fact: impl Into<String>) -> SignatureRefusal {
    RefusalReason::Uncovered
        .refusal(fact)
        .cure("download the script from its publisher again")
}
