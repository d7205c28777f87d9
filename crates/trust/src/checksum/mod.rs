//! Reads checksum files of publishers. Pure.
//!
//! Accepts bare digests, `sha256sum` lines (text and binary mark, with paths), BSD and OpenSSL
//! lines, the output of PowerShell's `Get-FileHash` and of certutil, and name and digest with a
//! separator; with BOM, CRLF, UTF-16, Latin-1, in any case. Other text is ignored if a line names
//! the wanted file. Refuses a file without exactly one digest for it: never falls back to the first
//! line, or to a file of that name in a different folder. The caller verifies a signed checksum
//! file before it is read here.

mod line;
mod platform;

use std::collections::BTreeSet;

use winimg_base::digest::{Algorithm, Digest};
use winimg_base::markup;
use winimg_base::problem::Problem;

use self::line::{ChecksumLine, ChecksumLines, contains_digest, no_checksum, normalize_name};

/// Maximum size in bytes. Kubernetes' tree-wide SHA256SUMS has a tenth of this.
pub const LIMIT: u64 = 1 << 20;

/// The line about the wanted file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundChecksum {
    pub digest: Digest,
    /// The SHA-512 of another line, if `digest` is a SHA-256.
    pub also: Option<Digest>,
    /// The text in the file, without line end.
    pub line: String,
}

/// Selects the line of the wanted file.
#[derive(Clone, Copy, Debug)]
pub enum WantedChecksum<'a> {
    /// Name in a recipe: a file name, or the end of a path if it contains `/`.
    Entry(&'a str),
    /// Path that the file was fetched from, with `/`.
    Path(&'a str),
}

/// Finds the digest of the wanted file. A problem's fact fits after "the checksum file".
pub fn find(bytes: &[u8], wanted: WantedChecksum<'_>) -> Result<FoundChecksum, Problem> {
    if bytes.len() as u64 > LIMIT {
        return Err(Problem::new(format!("exceeds {LIMIT} bytes")));
    }
    let text = decode(bytes)?;
    let lines = line::read(&text)?;
    match wanted {
        WantedChecksum::Entry(entry) => choose_digest(&find_matching(&lines, entry)?, entry),
        WantedChecksum::Path(path) => {
            let entry = path.rsplit('/').next().unwrap_or(path);
            let matching = find_matching(&lines, entry)?;
            choose_digest(&of_path(&lines.checksums, matching, path)?, entry)
        }
    }
}

/// Selects the lines about this file from those about files of that name: if the file lists several
/// folders, the folder of a line must match. The common parent of all listed files is the
/// publisher's own folder and is ignored.
fn of_path<'a>(
    lines: &[ChecksumLine<'_>],
    matching: Vec<&'a ChecksumLine<'a>>,
    path: &str,
) -> Result<Vec<&'a ChecksumLine<'a>>, Problem> {
    let above = lines
        .iter()
        .filter_map(|line| line.name.as_deref()?.rsplit_once('/'))
        .map(|(folder, _)| folder)
        .reduce(find_common_parent)
        .unwrap_or_default();
    let (own, others): (Vec<_>, Vec<_>) = matching.into_iter().partition(|line| {
        let name = line.name.as_deref().unwrap_or_default();
        let below = name.strip_prefix(above).unwrap_or(name);
        let below = below.trim_start_matches('/');
        // A bare digest is the only line of its file.
        line.name.is_none()
            || matches_name(path, below) && !platform::is_different_build(name, path)
    });
    if !own.is_empty() {
        return Ok(own);
    }
    let listed = others.iter().filter_map(|line| line.name.as_deref());
    Err(
        Problem::new("lists a file of that name in a different folder than it was fetched from")
            .expected(path)
            .found(listed.collect::<Vec<_>>().join(", "))
            .cure("if the line is for this file, name it with checksum_entry"),
    )
}

/// Returns the common parent of two paths.
fn find_common_parent<'a>(one: &'a str, other: &str) -> &'a str {
    let mut end = 0;
    for (mine, its) in one.split('/').zip(other.split('/')) {
        if mine != its {
            break;
        }
        end += mine.len() + 1;
    }
    one.get(..end.min(one.len())).unwrap_or(one)
}

fn decode(bytes: &[u8]) -> Result<String, Problem> {
    if markup::is_web_page(bytes) {
        return Err(
            Problem::new("is a web page").cure("open the address in a browser to see the page")
        );
    }
    // PowerShell's `>` writes UTF-16 with a BOM.
    let (encoding, _) = encoding_rs::Encoding::for_bom(bytes).unwrap_or((encoding_rs::UTF_8, 0));
    let (text, malformed) = encoding.decode_with_bom_removal(bytes);
    let (text, malformed) = if malformed && encoding == encoding_rs::UTF_8 {
        // A single name in a legacy encoding must not invalidate the other lines.
        encoding_rs::WINDOWS_1252.decode_without_bom_handling(bytes)
    } else {
        (text, malformed)
    };
    if malformed || text.contains('\0') {
        return Err(Problem::new("is not text"));
    }
    if text.trim().is_empty() {
        return Err(Problem::new("is empty"));
    }
    let start = text.trim_start();
    if start.starts_with("-----BEGIN PGP SIGNED MESSAGE") {
        return Err(Problem::new("is clearsigned with OpenPGP").cure(
            "name its key with checksum_signature and form = \"clearsigned\", or copy the line's \
             digest into the recipe as sha256",
        ));
    }
    if start.starts_with("-----BEGIN ") || start.starts_with("untrusted comment:") {
        return Err(Problem::new("is a signature, not a checksum file")
            .cure("name it with checksum_signature, and the checksum file with checksum_url"));
    }
    if start.starts_with(['{', '[']) {
        return Err(Problem::new("is JSON, not a checksum file")
            .cure("copy the digest into the recipe as sha256"));
    }
    Ok(text.into_owned())
}

fn find_matching<'a>(
    lines: &'a ChecksumLines<'a>,
    entry: &str,
) -> Result<Vec<&'a ChecksumLine<'a>>, Problem> {
    let wanted = normalize_name(entry);
    if let ([only], []) = (lines.checksums.as_slice(), lines.others.as_slice())
        && only.name.is_none()
    {
        return Ok(vec![only]);
    }
    let found: Vec<_> = lines
        .checksums
        .iter()
        .filter(|line| match (&line.name, line.heading) {
            (Some(name), _) => matches_name(name, &wanted),
            (None, Some(heading)) => is_heading_of(heading, &wanted),
            (None, None) => false,
        })
        .collect();
    let mut others = lines.others.iter();
    // An unparsed line with a digest may contradict the others.
    let unclear =
        others.find(|(_, text)| contains_digest(text) && normalize_name(text).contains(&wanted));
    if let Some((number, text)) = unclear {
        return Err(no_checksum(*number, text));
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let listed: BTreeSet<&str> = lines
        .checksums
        .iter()
        .filter_map(|line| line.name.as_deref())
        .collect();
    if listed.is_empty() {
        return Err(match lines.others.first() {
            Some((number, text)) => no_checksum(*number, text),
            None => Problem::new("contains several digests without names"),
        });
    }
    let more = listed.len().saturating_sub(20);
    let more = (more > 0).then(|| format!("and {more} more"));
    let lines = listed
        .iter()
        .take(20)
        .map(|name| format!("it lists {name}"))
        .chain(more);
    Err(Problem::new(format!("does not list {wanted}"))
        .lines(lines)
        .cure("name the line with checksum_entry, or use the checksum file of this version"))
}

/// Returns true if the line above a digest ends with the wanted file: `SHA256 hash of tool.exe`.
fn is_heading_of(heading: &str, wanted: &str) -> bool {
    let heading = normalize_name(heading.trim_end().trim_matches(['"', '\'']));
    match heading.strip_suffix(wanted) {
        Some(before) => before.ends_with(|c: char| c.is_whitespace() || "/\"'".contains(c)),
        None => false,
    }
}

/// Returns true if a line's name ends with all segments of the wanted name.
fn matches_name(name: &str, wanted: &str) -> bool {
    match name.strip_suffix(wanted) {
        Some(before) => before.is_empty() || before.ends_with('/'),
        None => false,
    }
}

/// Selects a digest from all lines about the file: SHA-256 before SHA-512; weak ones are only
/// reported.
fn choose_digest(lines: &[&ChecksumLine<'_>], entry: &str) -> Result<FoundChecksum, Problem> {
    let mut strong: Vec<FoundChecksum> = Vec::new();
    let mut weak = None;
    for line in lines {
        let digest = match &line.other_algorithm {
            Some(algorithm) => Err(format!("is {algorithm}: use a SHA-256")),
            None => Digest::from_hex(&line.hex),
        };
        match digest {
            Ok(digest) => {
                let clash = strong
                    .iter()
                    .find(|f| f.digest.algorithm == digest.algorithm && f.digest != digest);
                if let Some(other) = clash {
                    let fact = format!("lists two different digests for {entry}");
                    return Err(Problem::new(fact)
                        .lines([other.line.as_str(), line.text])
                        .cure("select a line by its path with checksum_entry"));
                }
                strong.push(FoundChecksum {
                    digest,
                    also: None,
                    line: line.text.to_string(),
                });
            }
            Err(why) => {
                weak.get_or_insert_with(|| {
                    format!("has a line {} whose digest {why}", line.number)
                });
            }
        }
    }
    let short = strong
        .iter()
        .find(|found| found.digest.algorithm == Algorithm::Sha256);
    let long = strong
        .iter()
        .find(|found| found.digest.algorithm == Algorithm::Sha512);
    match short.or(long) {
        Some(found) => Ok(FoundChecksum {
            also: long
                .map(|long| long.digest.clone())
                .filter(|long| *long != found.digest),
            ..found.clone()
        }),
        None => Err(Problem::new(weak.unwrap_or_default())),
    }
}
