//! The `.mf` member of an OVA: a digest for each of the other members.
//!
//! SHA-1 is supported because programs still write it (VirtualBox, and ovftool for old hardware).
//! It only detects damage and is no proof of origin.

use sha1::{Digest as _, Sha1};

use super::super::{Disk, RawDisk};
use winimg_base::digest::{Algorithm, Hasher};
use winimg_base::error::Result;
use winimg_base::event::Cancel;

const BUFFER: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestAlgorithm {
    Sha1,
    Sha256,
    Sha512,
}

/// One line: the member's name, and its digest in lower-case hex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OvaManifestLine {
    pub name: String,
    pub kind: ManifestAlgorithm,
    pub hex: String,
}

/// Parses lines `SHA256(name)= hex`, with spaces anywhere except in the name. The error quotes the
/// line.
pub fn parse(text: &str) -> Result<Vec<OvaManifestLine>, String> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| {
            parse_line(line).ok_or_else(|| format!("the manifest has an invalid line {line:?}"))
        })
        .collect()
}

fn parse_line(line: &str) -> Option<OvaManifestLine> {
    let (algorithm, rest) = line.split_once('(')?;
    let (name, hex) = rest.rsplit_once(')')?;
    let hex = hex.trim().strip_prefix('=')?.trim().to_lowercase();
    let (kind, digits) = match algorithm.trim().to_lowercase().as_str() {
        "sha1" => (ManifestAlgorithm::Sha1, 40),
        "sha256" => (ManifestAlgorithm::Sha256, 64),
        "sha512" => (ManifestAlgorithm::Sha512, 128),
        _ => return None,
    };
    let is_digest = hex.len() == digits && hex.bytes().all(|b| b.is_ascii_hexdigit());
    is_digest.then(|| OvaManifestLine {
        name: name.to_owned(),
        kind,
        hex,
    })
}

/// Computes the digest of a member in lower-case hex.
pub fn compute_digest(
    kind: ManifestAlgorithm,
    member: &RawDisk,
    cancel: &Cancel,
) -> Result<String> {
    match kind {
        ManifestAlgorithm::Sha1 => {
            let mut hasher = Sha1::new();
            read(member, cancel, |part| hasher.update(part))?;
            Ok(hex::encode(hasher.finalize()))
        }
        ManifestAlgorithm::Sha256 => hash_member(Algorithm::Sha256, member, cancel),
        ManifestAlgorithm::Sha512 => hash_member(Algorithm::Sha512, member, cancel),
    }
}

fn hash_member(algorithm: Algorithm, member: &RawDisk, cancel: &Cancel) -> Result<String> {
    let mut hasher = Hasher::new(algorithm);
    read(member, cancel, |part| hasher.update(part))?;
    Ok(hasher.finish().hex())
}

fn read(member: &RawDisk, cancel: &Cancel, mut take: impl FnMut(&[u8])) -> Result<()> {
    let mut buffer = vec![0; BUFFER];
    let mut at = 0;
    while at < member.len() {
        cancel.check()?;
        let part = &mut buffer[..(member.len() - at).min(BUFFER as u64) as usize];
        member.read_at(at, part)?;
        take(part);
        at += part.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_as_ovftool_virtualbox_and_open_vmdk_write_them() {
        let hex = "A".repeat(64);
        for line in [
            format!("SHA256(a (1).ovf)= {hex}"),
            format!("SHA256 (a (1).ovf) = {hex}\r"),
            format!("sha256(a (1).ovf)={hex}"),
        ] {
            let expected = OvaManifestLine {
                name: "a (1).ovf".into(),
                kind: ManifestAlgorithm::Sha256,
                hex: hex.to_lowercase(),
            };
            assert_eq!(parse(&format!("\n{line}\n")).unwrap(), [expected], "{line}");
        }
        let sha1 = parse(&format!("SHA1(a.ovf)= {}", "0".repeat(40))).unwrap();
        assert_eq!(sha1[0].kind, ManifestAlgorithm::Sha1);
        for bad in [
            "MD5(a.ovf)= 00",
            "SHA256(a.ovf)= 00",
            "SHA256(a.ovf)",
            "a.ovf",
            &format!("SHA1(a.ovf)= {}", "x".repeat(40)),
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
