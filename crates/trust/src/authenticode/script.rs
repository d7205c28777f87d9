//! PowerShell scripts: the block of comments at the end, and the digest of the text before it.
//!
//! The digest is of the text in UTF-16LE, with the byte order mark where the file has one. Refuses text after the block, a
//! second block, and line ends that are no longer those that were signed. (Microsoft: about_Signing)

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::super::hash::HashKind;
use super::super::place::{Open, Place};
use super::super::{Reason, Refusal, tlv};
use super::source::Source;

const LONGEST: u64 = 64 << 20;

/// How one kind of script writes comments.
struct Style {
    begin: &'static str,
    end: &'static str,
    before: &'static str,
    after: &'static str,
}

/// `.ps1`, `.psm1`, `.psd1`; and `.ps1xml`.
const STYLES: [Style; 2] = [
    Style {
        begin: "# SIG # Begin signature block",
        end: "# SIG # End signature block",
        before: "# ",
        after: "",
    },
    Style {
        begin: "<!-- SIG # Begin signature block -->",
        end: "<!-- SIG # End signature block -->",
        before: "<!-- ",
        after: " -->",
    },
];

/// The block, between the text that is signed and what follows.
struct Block<'a> {
    /// Without the line end that belongs to the block.
    signed: &'a str,
    /// From the first marker to the end of the file.
    rest: &'a str,
    style: &'static Style,
}

/// The PKCS#7 DER; `None` when the file is not signed. Refuses what no signature covers.
pub(super) fn signature(file: &mut Source) -> Result<Option<Vec<u8>>, Refusal> {
    let text = text(file)?;
    let Some(block) = block(&text)? else {
        return Ok(None);
    };
    let bytes = STANDARD.decode(encoded(&block)?).map_err(|error| {
        let error = error.to_string();
        let error = error.trim_end_matches('.');
        malformed(format!("its signature block is not base64: {error}"))
    })?;
    let (der, rest) = tlv::first(&bytes, tlv::SEQUENCE, "the script's signature")?;
    if !rest.is_empty() {
        return Err(uncovered(format!(
            "bytes follow the signature within its block, which it does not cover: {}",
            rest.len()
        )));
    }
    Ok(Some(der.raw.to_vec()))
}

/// The digest that the signature is about.
pub(super) fn digest(file: &mut Source, algorithm: HashKind) -> Result<Vec<u8>, Refusal> {
    let text = text(file)?;
    let block = block(&text)?.ok_or_else(|| malformed("it has no signature"))?;
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

/// The block, which the digest leaves out.
pub(super) fn open(file: &mut Source) -> Result<Vec<Open>, Refusal> {
    let length = file.length();
    let is_wide = matches!(
        file.bytes(0, 2)?.as_deref(),
        Some([0xff, 0xfe] | [0xfe, 0xff])
    );
    let text = text(file)?;
    let Some(block) = block(&text)? else {
        return Ok(Vec::new());
    };
    let signed = match is_wide {
        true => 2 * block.signed.encode_utf16().count(),
        false => block.signed.len(),
    };
    Ok(vec![Open::new(Place::ScriptBlock, signed as u64..length)])
}

/// The whole text. A byte order mark stays in it, as it is signed, too.
fn text(file: &mut Source) -> Result<String, Refusal> {
    let length = file.length();
    if length > LONGEST {
        return Err(malformed(format!(
            "it has {length} bytes, and a script of more than {LONGEST} is none"
        )));
    }
    let bytes = file.bytes(0, length as usize)?.unwrap_or_default();
    let wide = |unit: fn([u8; 2]) -> u16| {
        if bytes.len() % 2 != 0 {
            return Err(malformed("its UTF-16 is cut off"));
        }
        let units = bytes.chunks_exact(2).map(|two| unit([two[0], two[1]]));
        char::decode_utf16(units)
            .collect::<Result<String, _>>()
            .map_err(|error| malformed(format!("it is not UTF-16: {error}")))
    };
    match bytes.get(..2) {
        Some([0xff, 0xfe]) => wide(u16::from_le_bytes),
        Some([0xfe, 0xff]) => wide(u16::from_be_bytes),
        _ => String::from_utf8(bytes).map_err(|error| {
            Reason::Unsupported
                .refusal(format!(
                    "the script is in a code page, and which one it does not say: at offset {}",
                    error.utf8_error().valid_up_to()
                ))
                .expected("UTF-8, or UTF-16 with a byte order mark")
                .cure("ask the publisher for the script in UTF-8 with a byte order mark")
        }),
    }
}

/// The one block; `None` when there is none.
fn block(text: &str) -> Result<Option<Block<'_>>, Refusal> {
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
                return Err(uncovered(
                    "the script has two signature blocks, and no signature covers both",
                ));
            }
            found = Some((at, style));
        }
        at += line.len();
    }
    let Some((at, style)) = found else {
        if ends {
            return Err(malformed("its signature block has an end and no beginning"));
        }
        return Ok(None);
    };
    let (before, rest) = text.split_at(at);
    let signed = match before.strip_suffix("\r\n") {
        Some(signed) => signed,
        None if before.ends_with('\n') => return Err(line_ends()),
        None => {
            return Err(malformed("nothing stands before its signature block"));
        }
    };
    // Signing tools disagree on the encoding that such a file is signed in: UTF-8, or Windows' code page 1252.
    if style.after == " -->" && !signed.is_ascii() && !signed.starts_with('\u{feff}') {
        let fact =
            "the script has letters beyond ASCII and does not say in which encoding it was signed";
        return Err(Reason::Unsupported
            .refusal(fact)
            .expected("ASCII, or a byte order mark")
            .cure("ask the publisher for the script with a byte order mark"));
    }
    Ok(Some(Block {
        signed,
        rest,
        style,
    }))
}

/// The base64 within the block, after every line of it and what follows was looked at.
fn encoded(block: &Block<'_>) -> Result<String, Refusal> {
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
        let line = line.strip_suffix('\r').ok_or_else(line_ends)?;
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
        return Err(uncovered(format!(
            "text follows the script's signature block, which it does not cover: {} characters from character {}",
            rest.chars().count(),
            block.signed.chars().count() + 2 + block.rest.chars().count() - rest.chars().count()
        )));
    }
    Ok(encoded)
}

fn line_ends() -> Refusal {
    let fact = "the script's lines end in LF, and it was signed with CRLF";
    let cure =
        "fetch the script as it was published: a checkout or an editor has turned its line ends";
    Reason::Changed.refusal(fact).cure(cure)
}

fn malformed(fact: impl fmt::Display) -> Refusal {
    Reason::Malformed.refusal(format!("the script cannot be read: {fact}"))
}

fn uncovered(fact: impl Into<String>) -> Refusal {
    Reason::Uncovered
        .refusal(fact)
        .cure("fetch the script from its publisher again")
}
