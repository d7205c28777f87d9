//! Checksum files as publishers write them: pure.
//!
//! Takes bare digests, `sha256sum` lines (text and binary mark, with paths), BSD and OpenSSL lines; with BOM, CRLF,
//! any case. Refuses what does not say exactly one thing about the wanted file: it never takes "the first line".

use std::collections::BTreeSet;

use crate::digest::{Algorithm, Digest};
use crate::markup;

/// Bytes. Kubernetes' tree-wide SHA256SUMS has a tenth of this.
pub const LIMIT: u64 = 1 << 20;

/// The line about the wanted file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub digest: Digest,
    /// As it stood in the file, without line end.
    pub line: String,
}

/// Why a checksum file proves nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// Fits after "the checksum file".
    pub fact: String,
    pub lines: Vec<String>,
    pub cure: Option<String>,
}

impl Refusal {
    fn new(fact: impl Into<String>) -> Self {
        Self {
            fact: fact.into(),
            ..Self::default()
        }
    }

    fn cure(mut self, cure: impl Into<String>) -> Self {
        self.cure = Some(cure.into());
        self
    }
}

/// A line that was understood.
struct Line<'a> {
    number: usize,
    text: &'a str,
    hex: &'a str,
    /// With `/`, without leading `./`. `None`: a bare digest.
    name: Option<String>,
}

/// Finds what the file says about `entry`: a file name, or a path's end when it holds `/`.
pub fn find(bytes: &[u8], entry: &str) -> Result<Found, Refusal> {
    if bytes.len() as u64 > LIMIT {
        return Err(Refusal::new(format!("is longer than {LIMIT} bytes")));
    }
    let text = decode(bytes)?;
    let lines = read(&text)?;
    let matching = matching(&lines, entry)?;
    decide(&matching, entry)
}

fn decode(bytes: &[u8]) -> Result<String, Refusal> {
    if markup::is_page(bytes) {
        return Err(
            Refusal::new("is a web page").cure("open the address in a browser to see what it says")
        );
    }
    // PowerShell's `>` writes UTF-16 with a BOM.
    let (encoding, _) = encoding_rs::Encoding::for_bom(bytes).unwrap_or((encoding_rs::UTF_8, 0));
    let (text, malformed) = encoding.decode_with_bom_removal(bytes);
    if malformed || text.contains('\0') {
        return Err(Refusal::new("is not text"));
    }
    if text.trim().is_empty() {
        return Err(Refusal::new("is empty"));
    }
    if text
        .trim_start()
        .starts_with("-----BEGIN PGP SIGNED MESSAGE")
    {
        return Err(
            Refusal::new("is signed in clear with OpenPGP, which is not read here")
                .cure("copy the line's digest into the recipe as sha256"),
        );
    }
    Ok(text.into_owned())
}

fn read(text: &str) -> Result<Vec<Line<'_>>, Refusal> {
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((hex, name)) = parts(line) else {
            let shown: String = line.chars().filter(|c| !c.is_control()).take(80).collect();
            return Err(Refusal {
                fact: format!("has a line {} that is no checksum", index + 1),
                lines: vec![shown],
                cure: None,
            });
        };
        lines.push(Line {
            number: index + 1,
            text: line,
            hex,
            name: name.map(plain),
        });
    }
    if lines.is_empty() {
        return Err(Refusal::new("holds only comments"));
    }
    Ok(lines)
}

/// Digest and name of one line.
fn parts(line: &str) -> Option<(&str, Option<&str>)> {
    if let Some((hex, name)) = tagged(line) {
        return Some((hex, Some(name)));
    }
    // GNU marks escaped names so; no file of a release is named like that, and such a name will not match.
    let line = line.strip_prefix('\\').unwrap_or(line);
    let Some((hex, rest)) = line.split_once([' ', '\t']) else {
        return is_hex(line).then_some((line, None));
    };
    let name = rest.trim_start();
    let name = name.strip_prefix('*').unwrap_or(name);
    (is_hex(hex) && !name.is_empty()).then_some((hex, Some(name)))
}

/// `SHA256 (name) = hex` (BSD), `SHA2-256(name)= hex` (OpenSSL).
fn tagged(line: &str) -> Option<(&str, &str)> {
    let (tag, rest) = line.split_once('(')?;
    let tag = tag.trim_end();
    let plain_tag = !tag.is_empty() && tag.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let (name, hex) = rest.rsplit_once('=')?;
    let name = name.trim_end().strip_suffix(')')?;
    let hex = hex.trim();
    // The digest's length decides the algorithm; a tag that says otherwise is a damaged line.
    let length = match tag
        .to_ascii_uppercase()
        .replace("SHA2-", "SHA")
        .replace('-', "")
        .as_str()
    {
        "SHA256" => 64,
        "SHA512" => 128,
        _ => hex.len(),
    };
    (plain_tag && is_hex(hex) && hex.len() == length && !name.is_empty()).then_some((hex, name))
}

/// At least an MD5's length: words such as `cafe` are no digests.
fn is_hex(text: &str) -> bool {
    text.len() >= 32 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn plain(name: &str) -> String {
    let name = name.trim().replace('\\', "/");
    let mut rest = name.as_str();
    while let Some(shorter) = rest.strip_prefix("./") {
        rest = shorter;
    }
    rest.to_string()
}

fn matching<'a>(lines: &'a [Line<'a>], entry: &str) -> Result<Vec<&'a Line<'a>>, Refusal> {
    let wanted = plain(entry);
    if let [only] = lines
        && only.name.is_none()
    {
        return Ok(vec![only]);
    }
    let found: Vec<_> = lines
        .iter()
        .filter(|line| {
            line.name
                .as_deref()
                .is_some_and(|name| names(name, &wanted))
        })
        .collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let listed: BTreeSet<&str> = lines.iter().filter_map(|l| l.name.as_deref()).collect();
    if listed.is_empty() {
        return Err(Refusal::new("holds several digests without names"));
    }
    let more = listed.len().saturating_sub(20);
    let more = (more > 0).then(|| format!("and {more} more"));
    Err(Refusal {
        fact: format!("says nothing about {wanted}"),
        lines: listed
            .iter()
            .take(20)
            .map(|name| format!("it lists {name}"))
            .chain(more)
            .collect(),
        cure: Some(
            "name the line with checksum_entry, or give the checksum file of this version".into(),
        ),
    })
}

/// Whether a line's name is the wanted file: by the last segment, or by as many as are wanted.
fn names(name: &str, wanted: &str) -> bool {
    match name.strip_suffix(wanted) {
        Some(before) => before.is_empty() || before.ends_with('/'),
        None => false,
    }
}

/// One digest out of all lines about the file: SHA-256 before SHA-512, weak ones only to name them.
fn decide(lines: &[&Line<'_>], entry: &str) -> Result<Found, Refusal> {
    let mut strong: Vec<Found> = Vec::new();
    let mut weak = None;
    for line in lines {
        match Digest::from_hex(line.hex) {
            Ok(digest) => {
                let clash = strong
                    .iter()
                    .find(|f| f.digest.algorithm == digest.algorithm && f.digest != digest);
                if let Some(other) = clash {
                    return Err(Refusal {
                        fact: format!("says two different things about {entry}"),
                        lines: vec![other.line.clone(), line.text.to_string()],
                        cure: Some("name one line by its path with checksum_entry".into()),
                    });
                }
                strong.push(Found {
                    digest,
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
    match best(Algorithm::Sha256).or_else(|| best(Algorithm::Sha512)) {
        Some(found) => Ok(found.clone()),
        None => Err(Refusal::new(weak.unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const B: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";
    const SHA1: &str = "da39a3ee5e6b4b0d3255bfef95601890afd80709";

    fn found(text: &str, entry: &str) -> (String, String) {
        match find(text.as_bytes(), entry) {
            Ok(found) => (found.digest.to_string(), found.line),
            Err(refusal) => panic!("{text}: {refusal:?}"),
        }
    }

    #[test]
    fn each_publishers_format_is_read() {
        let upper = A.to_uppercase();
        let cases = [
            // dl.k8s.io: bare, no line end
            (A.to_string(), "kubelet.exe", A.to_string()),
            // cri-tools: bare, line end
            (
                format!("{A}\n"),
                "crictl-v1.36.0-windows-amd64.tar.gz",
                A.to_string(),
            ),
            // containerd, CNI plugins: sha256sum
            (
                format!("{A}  c.tar.gz\n"),
                "c.tar.gz",
                format!("{A}  c.tar.gz"),
            ),
            (
                format!("{A} *c.tar.gz\r\n"),
                "c.tar.gz",
                format!("{A} *c.tar.gz"),
            ),
            // windows-container-networking: a path in front
            (
                format!("{A}  ./release/w.zip\n"),
                "w.zip",
                format!("{A}  ./release/w.zip"),
            ),
            // rancher wins: several files
            (
                format!("{B}  install.ps1\n{A}  wins.exe\n{B}  uninstall.ps1\n"),
                "wins.exe",
                format!("{A}  wins.exe"),
            ),
            // Kubernetes SHA256SUMS: paths, no last line end
            (
                format!("{B}  bin/linux/amd64/kubelet\n{A}  bin/windows/amd64/kubelet.exe"),
                "kubelet.exe",
                format!("{A}  bin/windows/amd64/kubelet.exe"),
            ),
            (
                format!("{B}  bin/linux/amd64/kubectl\n{A}  bin/windows/amd64/kubectl"),
                "windows/amd64/kubectl",
                format!("{A}  bin/windows/amd64/kubectl"),
            ),
            // BSD and OpenSSL
            (
                format!("SHA256 (a b.iso) = {A}\n"),
                "a b.iso",
                format!("SHA256 (a b.iso) = {A}"),
            ),
            (
                format!("SHA2-256(a.iso)= {A}"),
                "a.iso",
                format!("SHA2-256(a.iso)= {A}"),
            ),
            (
                format!("# Fedora\nMD5 (a.iso) = {MD5}\nSHA256 (a.iso) = {A}\n"),
                "a.iso",
                format!("SHA256 (a.iso) = {A}"),
            ),
            // any case, BOM, Windows paths
            (
                format!("\u{feff}{upper}  .\\out\\a.zip\r\n"),
                "a.zip",
                format!("{upper}  .\\out\\a.zip"),
            ),
            // the same thing twice
            (
                format!("{A}  a.zip\n{A}  ./a.zip\n"),
                "a.zip",
                format!("{A}  a.zip"),
            ),
        ];
        for (text, entry, line) in cases {
            assert_eq!(found(&text, entry), (format!("sha256:{A}"), line), "{text}");
        }
    }

    #[test]
    fn the_length_decides_the_algorithm() {
        let long = format!("{A}{B}");
        assert_eq!(found(&long, "x").0, format!("sha512:{long}"));
        // Both are there: the store's own is taken.
        let both = format!("SHA512 (x) = {long}\nSHA256 (x) = {A}\n");
        assert_eq!(found(&both, "x").0, format!("sha256:{A}"));
    }

    #[test]
    fn utf_16_from_powershell_is_read() {
        let text = format!("\u{feff}{A}  a.zip\r\n");
        let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(find(&bytes, "a.zip").unwrap().digest.hex(), A);
    }

    #[test]
    fn each_refusal_has_its_sentence() {
        let cases = [
            (String::new(), "is empty"),
            ("\r\n \n".into(), "is empty"),
            ("# only words\n".into(), "holds only comments"),
            ("\0\0\0".into(), "is not text"),
            (
                "<!DOCTYPE html>\n<html><title>Not Found".into(),
                "is a web page",
            ),
            (format!("<html>{A}</html>"), "is a web page"),
            ("Not Found\n".into(), "has a line 1 that is no checksum"),
            (
                format!("{A}  a.zip\nNot Found\n"),
                "has a line 2 that is no checksum",
            ),
            (format!("{A}  b.zip\n"), "says nothing about a.zip"),
            (format!("{A}  xa.zip\n"), "says nothing about a.zip"),
            (format!("{A}\n{B}\n"), "holds several digests without names"),
            (
                format!("{A}  x/a.zip\n{B}  y/a.zip\n"),
                "says two different things about a.zip",
            ),
            (
                MD5.into(),
                "has a line 1 whose digest is an MD5, which proves nothing: give a SHA-256",
            ),
            (
                format!("{SHA1}  a.zip"),
                "has a line 1 whose digest is a SHA-1, which proves nothing: give a SHA-256",
            ),
            (
                format!("{}  a.zip", &A[..56]),
                "has a line 1 whose digest has 56 hex digits; SHA-256 has 64, SHA-512 has 128",
            ),
            (
                format!("SHA512 (a.zip) = {A}"),
                "has a line 1 that is no checksum",
            ),
            (
                format!("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n{A}  a.zip\n"),
                "is signed in clear with OpenPGP, which is not read here",
            ),
        ];
        for (text, fact) in cases {
            assert_eq!(
                find(text.as_bytes(), "a.zip").unwrap_err().fact,
                fact,
                "{text:?}"
            );
        }
        let long = vec![b'a'; LIMIT as usize + 1];
        assert_eq!(
            find(&long, "a").unwrap_err().fact,
            "is longer than 1048576 bytes"
        );
        assert_eq!(find(b"\xff\xfe\xff", "a").unwrap_err().fact, "is not text");
    }

    #[test]
    fn a_refusal_lists_what_the_file_names() {
        let text = format!("{A}  b.zip\n{B}  ./x/c.zip\n");
        assert_eq!(
            find(text.as_bytes(), "a.zip").unwrap_err(),
            Refusal {
                fact: "says nothing about a.zip".into(),
                lines: vec!["it lists b.zip".into(), "it lists x/c.zip".into()],
                cure: Some(
                    "name the line with checksum_entry, or give the checksum file of this version"
                        .into()
                ),
            }
        );
    }
}
