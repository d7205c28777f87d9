//! Checksum files as publishers write them: pure.
//!
//! Takes bare digests, `sha256sum` lines (text and binary mark, with paths), BSD and OpenSSL lines, what PowerShell's
//! `Get-FileHash` and certutil write, and name and digest with a sign between them; with BOM, CRLF, UTF-16, Latin-1, any
//! case. Words around the lines are passed over where a line names the wanted file. Refuses what does not say exactly one
//! thing about it: it never takes "the first line", and no line about a file of that name in another folder. A signed
//! checksum file is judged by its caller before it is read here.

mod line;
mod platform;

use std::collections::BTreeSet;

use winimg_base::digest::{Algorithm, Digest};
use winimg_base::markup;
use winimg_base::problem::Problem;

use self::line::{Line, Lines, holds_hex, no_checksum, plain};

/// Bytes. Kubernetes' tree-wide SHA256SUMS has a tenth of this.
pub const LIMIT: u64 = 1 << 20;

/// The line about the wanted file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub digest: Digest,
    /// The SHA-512 of another line, where `digest` is a SHA-256.
    pub also: Option<Digest>,
    /// As it stood in the file, without line end.
    pub line: String,
}

/// Which line is looked for.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// As a recipe names it: a file name, or a path's end when it holds `/`.
    Entry(&'a str),
    /// The path that the file was fetched from, with `/`.
    Path(&'a str),
}

/// Finds what the file says about the wanted one. A problem's fact fits after "the checksum file".
pub fn find(bytes: &[u8], wanted: Wanted<'_>) -> Result<Found, Problem> {
    if bytes.len() as u64 > LIMIT {
        return Err(Problem::new(format!("is longer than {LIMIT} bytes")));
    }
    let text = decode(bytes)?;
    let lines = line::read(&text)?;
    match wanted {
        Wanted::Entry(entry) => decide(&matching(&lines, entry)?, entry),
        Wanted::Path(path) => {
            let entry = path.rsplit('/').next().unwrap_or(path);
            let matching = matching(&lines, entry)?;
            decide(&of_path(&lines.checksums, matching, path)?, entry)
        }
    }
}

/// Of the lines about files of that name those about this one: where the file lists several folders, a line is about the
/// file in its folder. The folders above all that is listed are where its publisher made it.
fn of_path<'a>(
    lines: &[Line<'_>],
    matching: Vec<&'a Line<'a>>,
    path: &str,
) -> Result<Vec<&'a Line<'a>>, Problem> {
    let names = || lines.iter().filter_map(|line| line.name.as_deref());
    let folders = names().filter_map(|name| name.rsplit_once('/'));
    let above = folders
        .map(|(folder, _)| folder)
        .reduce(common)
        .unwrap_or_default();
    let is_it = |line: &&Line<'_>| {
        let name = line.name.as_deref().unwrap_or_default();
        let below = name.strip_prefix(above).unwrap_or(name);
        let below = below.trim_start_matches('/');
        // A bare digest is alone in its file.
        line.name.is_none() || self::names(path, below) && !platform::differs(name, path)
    };
    let (own, others): (Vec<_>, Vec<_>) = matching.into_iter().partition(is_it);
    if !own.is_empty() {
        return Ok(own);
    }
    let listed = others.iter().filter_map(|line| line.name.as_deref());
    Err(
        Problem::new("names a file of that name in another folder than it was fetched from")
            .expected(path)
            .found(listed.collect::<Vec<_>>().join(", "))
            .cure("name the line with checksum_entry, if it is about this file"),
    )
}

/// The folders that two paths begin with.
fn common<'a>(one: &'a str, other: &str) -> &'a str {
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
    if markup::is_page(bytes) {
        return Err(
            Problem::new("is a web page").cure("open the address in a browser to see what it says")
        );
    }
    // PowerShell's `>` writes UTF-16 with a BOM.
    let (encoding, _) = encoding_rs::Encoding::for_bom(bytes).unwrap_or((encoding_rs::UTF_8, 0));
    let (text, malformed) = encoding.decode_with_bom_removal(bytes);
    let (text, malformed) = match malformed && encoding == encoding_rs::UTF_8 {
        // One name that an old system wrote does not take the others away.
        true => encoding_rs::WINDOWS_1252.decode_without_bom_handling(bytes),
        false => (text, malformed),
    };
    if malformed || text.contains('\0') {
        return Err(Problem::new("is not text"));
    }
    if text.trim().is_empty() {
        return Err(Problem::new("is empty"));
    }
    let start = text.trim_start();
    if start.starts_with("-----BEGIN PGP SIGNED MESSAGE") {
        return Err(Problem::new("is signed in clear with OpenPGP, which is not read here").cure(
            "name its key with checksum_signature and form = \"clearsigned\", or copy the line's digest into the recipe as sha256",
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

fn matching<'a>(lines: &'a Lines<'a>, entry: &str) -> Result<Vec<&'a Line<'a>>, Problem> {
    let wanted = plain(entry);
    if let ([only], []) = (lines.checksums.as_slice(), lines.others.as_slice())
        && only.name.is_none()
    {
        return Ok(vec![only]);
    }
    let is_about = |line: &&Line<'_>| match (&line.name, line.heading) {
        (Some(name), _) => names(name, &wanted),
        (None, Some(heading)) => is_heading_of(heading, &wanted),
        (None, None) => false,
    };
    let found: Vec<_> = lines.checksums.iter().filter(is_about).collect();
    let mut others = lines.others.iter();
    // Whatever else such a line says, it may say another thing about the file.
    let unclear = others.find(|(_, text)| holds_hex(text) && plain(text).contains(&wanted));
    if let Some((number, text)) = unclear {
        return Err(no_checksum(*number, text));
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let named = lines.checksums.iter().filter_map(|l| l.name.as_deref());
    let listed: BTreeSet<&str> = named.collect();
    if listed.is_empty() {
        return Err(match lines.others.first() {
            Some((number, text)) => no_checksum(*number, text),
            None => Problem::new("holds several digests without names"),
        });
    }
    let more = listed.len().saturating_sub(20);
    let more = (more > 0).then(|| format!("and {more} more"));
    let listed = listed.iter().take(20);
    let lines = listed.map(|name| format!("it lists {name}")).chain(more);
    Err(Problem::new(format!("says nothing about {wanted}"))
        .lines(lines)
        .cure("name the line with checksum_entry, or give the checksum file of this version"))
}

/// Whether the line above a digest ends in the wanted file: `SHA256 hash of tool.exe`.
fn is_heading_of(heading: &str, wanted: &str) -> bool {
    let heading = plain(heading.trim_end().trim_matches(['"', '\'']));
    match heading.strip_suffix(wanted) {
        Some(before) => before.ends_with(|c: char| c.is_whitespace() || "/\"'".contains(c)),
        None => false,
    }
}

/// Whether a line's name is the wanted file: by the last segment, or by as many as are wanted.
fn names(name: &str, wanted: &str) -> bool {
    match name.strip_suffix(wanted) {
        Some(before) => before.is_empty() || before.ends_with('/'),
        None => false,
    }
}

/// One digest out of all lines about the file: SHA-256 before SHA-512, weak ones only to name them.
fn decide(lines: &[&Line<'_>], entry: &str) -> Result<Found, Problem> {
    let mut strong: Vec<Found> = Vec::new();
    let mut weak = None;
    for line in lines {
        let digest = match &line.foreign {
            Some(algorithm) => Err(format!("is {algorithm}: give a SHA-256")),
            None => Digest::from_hex(&line.hex),
        };
        match digest {
            Ok(digest) => {
                let clash = strong
                    .iter()
                    .find(|f| f.digest.algorithm == digest.algorithm && f.digest != digest);
                if let Some(other) = clash {
                    let fact = format!("says two different things about {entry}");
                    return Err(Problem::new(fact)
                        .lines([other.line.as_str(), line.text])
                        .cure("name one line by its path with checksum_entry"));
                }
                strong.push(Found {
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
    let best = |algorithm| strong.iter().find(|f| f.digest.algorithm == algorithm);
    let long = best(Algorithm::Sha512);
    match best(Algorithm::Sha256).or(long) {
        Some(found) => Ok(Found {
            also: long
                .map(|long| long.digest.clone())
                .filter(|long| *long != found.digest),
            ..found.clone()
        }),
        None => Err(Problem::new(weak.unwrap_or_default())),
    }
}
