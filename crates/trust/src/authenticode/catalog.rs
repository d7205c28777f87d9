//! Catalogs: signed lists of digests of other files.
//!
//! A valid catalog proves a file only if it lists the file's digest, so the digest is computed
//! here: for a PE file from the parts that Authenticode covers, for any other file from all bytes.
//! Refuses lists that are not catalogs, and members with only a SHA-1. (Microsoft: Catalog Files
//! and Digital Signatures; Certificate Trust List)

use std::io::{self, Seek};

use der::asn1::ObjectIdentifier;
use sha1::{Digest as _, Sha1};

use super::indirect::SPC_INDIRECT_DATA;
use super::kind::SignedFileKind;
use super::source::{SignedSource, refuse_unreadable};
use super::{pe, unsigned};
use crate::x509::hash::HashKind;
use crate::x509::signed_data::SignedData;
use crate::x509::tlv::{self, Tlv, TlvWalk};
use crate::{FileSubject, RefusalReason, SignatureRefusal, last_segment};

const CATALOG_LIST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.12.1.1");
/// Identifies a list whose members' tags are the digests themselves.
const TAG_IS_DIGEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.12.1.3");
const MEMBER_INFO: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.12.2.3");
const NAME_VALUE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.12.2.1");
const PE_IMAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.2.1.15");
const FLAT_FILE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.2.1.25");

const BMP_STRING: u8 = 0x1e;
/// Maximum number of members that a refusal lists.
const MAX_NAMES_SHOWN: usize = 8;

/// A file listed in a catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CatalogMember {
    pub(super) digest: Vec<u8>,
    /// `None` for SHA-1 and other insecure algorithms.
    pub(super) algorithm: Option<HashKind>,
    pub(super) covers: DigestScope,
    /// The file's name, if the catalog contains it. It is not part of the digest.
    pub(super) name: Option<String>,
}

/// The input of a member's digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DigestScope {
    /// The parts of a PE file that Authenticode covers.
    Image,
    /// All bytes.
    File,
    /// Parts of another kind of file.
    Other,
}

/// Parses the members from a CertificateTrustList's value octets.
fn read(list: &[u8]) -> Result<Vec<CatalogMember>, SignatureRefusal> {
    let mut list = TlvWalk::new(list, "the catalog")?;
    list.next_if(tlv::INTEGER)?;
    let mut usage = list.expect(tlv::SEQUENCE)?.walk("the catalog's use")?;
    if usage.read_oid()? != CATALOG_LIST {
        return Err(RefusalReason::WrongUse
            .refusal("the file published as its catalog is a different kind of trust list"));
    }
    list.next_if(tlv::OCTET_STRING)?;
    list.next_if(tlv::INTEGER)?;
    // thisUpdate, and optionally nextUpdate.
    while matches!(list.peek(), Some(tlv::UTC_TIME | tlv::GENERALIZED_TIME)) {
        list.next()?;
    }
    let mut kind = list.expect(tlv::SEQUENCE)?.walk("the catalog's kind")?;
    let tag_is_digest = kind.read_oid()? == TAG_IS_DIGEST;
    let subjects = list.next_if(tlv::SEQUENCE)?;
    list.next_if(tlv::context_tag(0))?;
    list.finish()?;

    let mut members = Vec::new();
    if let Some(subjects) = subjects {
        let mut subjects = subjects.walk("the catalog's members")?;
        while let Some(subject) = subjects.next()? {
            members.extend(read_member(&subject, tag_is_digest)?);
        }
    }
    Ok(members)
}

/// Parses a member; `None` if it has no digest.
fn read_member(
    subject: &Tlv<'_>,
    tag_is_digest: bool,
) -> Result<Option<CatalogMember>, SignatureRefusal> {
    const WHAT: &str = "a member of the catalog";
    let mut subject = subject.walk(WHAT)?;
    let tag = subject.expect(tlv::OCTET_STRING)?.value;
    let Some(attributes) = subject.next_if(tlv::SET)? else {
        return Ok(None);
    };
    let mut attributes = attributes.walk(WHAT)?;
    let (mut member, mut name, mut covers) = (None, None, DigestScope::Other);
    while let Some(attribute) = attributes.next()? {
        let mut attribute = attribute.walk(WHAT)?;
        let kind = attribute.read_oid()?;
        let values = attribute.expect(tlv::SET)?;
        if kind == SPC_INDIRECT_DATA {
            let read = read_indirect(&tlv::parse_only(values.value, tlv::SEQUENCE, WHAT)?)?;
            if member.replace(read).is_some() {
                return Err(tlv::refuse_malformed(WHAT, "has two digests"));
            }
        } else if kind == NAME_VALUE {
            name = read_file_name(&values)?.or(name);
        } else if kind == MEMBER_INFO {
            covers = match values.value {
                [0x80, 0] => DigestScope::Image,
                [0x82, 0] => DigestScope::File,
                _ => DigestScope::Other,
            };
        }
    }
    let tagged = tag_is_digest.then(|| CatalogMember {
        digest: tag.to_vec(),
        algorithm: Some(HashKind::Sha256).filter(|kind| kind.length() == tag.len()),
        covers,
        name: None,
    });
    Ok(member
        .or(tagged)
        .map(|member| CatalogMember { name, ..member }))
}

/// Parses SpcIndirectDataContent.
fn read_indirect(content: &Tlv<'_>) -> Result<CatalogMember, SignatureRefusal> {
    const WHAT: &str = "the digest of a member of the catalog";
    let mut content = content.walk(WHAT)?;
    let kind = content.expect(tlv::SEQUENCE)?.walk(WHAT)?.read_oid()?;
    let mut info = content.expect(tlv::SEQUENCE)?.walk(WHAT)?;
    let algorithm = info.expect(tlv::SEQUENCE)?.walk(WHAT)?.read_oid()?;
    let digest = info.expect(tlv::OCTET_STRING)?.value.to_vec();
    info.finish()?;
    content.finish()?;
    Ok(CatalogMember {
        algorithm: HashKind::from_oid(algorithm)
            .ok()
            .filter(|kind| kind.length() == digest.len()),
        digest,
        covers: match kind {
            kind if kind == PE_IMAGE => DigestScope::Image,
            kind if kind == FLAT_FILE => DigestScope::File,
            _ => DigestScope::Other,
        },
        name: None,
    })
}

/// Parses the file name: the value of `File` (inf2cat) or the last part of `FilePath`
/// (New-FileCatalog).
fn read_file_name(values: &Tlv<'_>) -> Result<Option<String>, SignatureRefusal> {
    const WHAT: &str = "the name of a member of the catalog";
    let mut values = values.walk(WHAT)?;
    while let Some(pair) = values.next()? {
        let mut pair = pair.walk(WHAT)?;
        let key = pair.expect(BMP_STRING)?.value;
        pair.expect(tlv::INTEGER)?;
        let value = pair.expect(tlv::OCTET_STRING)?.value;
        let key = decode_utf16(key, u16::from_be_bytes);
        if matches!(key.as_str(), "File" | "FilePath") {
            let value = decode_utf16(value, u16::from_le_bytes);
            let value = value.trim_end_matches('\0');
            return Ok(Some(last_segment(value).escape_debug().to_string()));
        }
    }
    Ok(None)
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units: Vec<u16> = bytes
        .chunks_exact(2)
        .map(|two| unit([two[0], two[1]]))
        .collect();
    String::from_utf16_lossy(&units)
}

/// Checks that the catalog lists the file's digest. The catalog's signature is checked elsewhere.
pub(super) fn judge_member(
    signed: &SignedData<'_>,
    file: &mut SignedSource,
    subject: FileSubject<'_>,
) -> Result<(), SignatureRefusal> {
    let members = read(signed.content())?;
    let covers = match file.read_bytes(0, 2)?.as_deref() {
        Some(b"MZ") => {
            SignedFileKind::Pe.fits(subject.name)?;
            // The catalog's digest does not cover the certificate table, so it must contain only a
            // signature.
            if let Some(own) = pe::read_signature(file)? {
                unsigned::check_unused(&own)?;
            }
            DigestScope::Image
        }
        _ => DigestScope::File,
    };
    for algorithm in [HashKind::Sha256, HashKind::Sha384, HashKind::Sha512] {
        let mut candidates = members
            .iter()
            .filter(|member| member.algorithm == Some(algorithm) && member.covers == covers)
            .peekable();
        if candidates.peek().is_none() {
            continue;
        }
        let own = compute_digest(file, covers, algorithm)?;
        let matching: Vec<&CatalogMember> =
            candidates.filter(|member| member.digest == own).collect();
        if !matching.is_empty() {
            return check_name(&matching, subject);
        }
    }
    Err(explain_absence(&members, file, covers, subject.name)?)
}

/// Checks that the catalog lists the file by this name, or by none.
fn check_name(
    members: &[&CatalogMember],
    subject: FileSubject<'_>,
) -> Result<(), SignatureRefusal> {
    let names: Option<Vec<&str>> = members
        .iter()
        .map(|member| member.name.as_deref())
        .collect();
    match names {
        Some(names) if !names.iter().any(|name| subject.is_called(name)) => {
            Err(RefusalReason::OtherName
                .refusal("the catalog lists this file under a different name")
                .expected(names.join(" or "))
                .found(subject.name)
                .cure("keep the publisher's name of the file, or check what `url` leads to"))
        }
        _ => Ok(()),
    }
}

fn compute_digest(
    file: &mut SignedSource,
    covers: DigestScope,
    algorithm: HashKind,
) -> Result<Vec<u8>, SignatureRefusal> {
    if covers == DigestScope::Image {
        return pe::compute_digest(file, algorithm);
    }
    let mut hash = algorithm.start();
    file.hash(&mut hash, 0, file.length())?;
    Ok(hash.finish().as_ref().to_vec())
}

/// Explains why no member matches this file.
fn explain_absence(
    members: &[CatalogMember],
    file: &mut SignedSource,
    covers: DigestScope,
    name: &str,
) -> Result<SignatureRefusal, SignatureRefusal> {
    let named: Vec<&CatalogMember> = members
        .iter()
        .filter(|member| {
            let listed = member.name.as_deref();
            listed.is_some_and(|listed| listed.eq_ignore_ascii_case(name))
        })
        .collect();
    let strong = named
        .iter()
        .find_map(|member| Some((*member, member.algorithm?)));
    let Some((member, algorithm)) = strong else {
        if !named.is_empty() || (covers == DigestScope::File && lists_sha1(members, file)?) {
            return Ok(refuse_weak(name));
        }
        return Ok(refuse_unlisted(members, name));
    };
    let refusal = if member.covers == covers {
        RefusalReason::Changed
            .refusal(format!("{name} differs from the file in the catalog"))
            .expected(hex::encode(&member.digest))
            .found(hex::encode(compute_digest(file, covers, algorithm)?))
    } else {
        RefusalReason::Changed.refusal(format!(
            "the catalog lists {name} as a different kind of file"
        ))
    };
    Ok(refusal.cure("use the file and the catalog of the same release"))
}

fn refuse_weak(name: &str) -> SignatureRefusal {
    RefusalReason::Weak
        .refusal(format!(
            "the catalog lists {name} by SHA-1 only, which can be forged"
        ))
        .expected("a member with SHA-256")
        .found("SHA-1")
        .cure("ask the publisher for a catalog with SHA-256 members")
}

fn refuse_unlisted(members: &[CatalogMember], name: &str) -> SignatureRefusal {
    let refusal = RefusalReason::OtherName
        .refusal(format!("the catalog does not list {name}"))
        .expected("its digest in the catalog")
        .cure("use the catalog published with this file");
    let mut known: Vec<&str> = members
        .iter()
        .filter_map(|member| member.name.as_deref())
        .collect();
    known.sort_unstable();
    known.dedup();
    if known.is_empty() {
        return refusal;
    }
    let more = known.len().saturating_sub(MAX_NAMES_SHOWN);
    known.truncate(MAX_NAMES_SHOWN);
    let names = known.join(", ");
    refusal.found(match more {
        0 => names,
        _ => format!("{names} and {more} more"),
    })
}

/// Returns true if the catalog lists the file by SHA-1. Only used for messages, not as proof.
fn lists_sha1(
    members: &[CatalogMember],
    file: &mut SignedSource,
) -> Result<bool, SignatureRefusal> {
    if members.iter().all(|member| member.digest.len() != 20) {
        return Ok(false);
    }
    let mut hash = Sha1::new();
    file.rewind().map_err(refuse_unreadable)?;
    io::copy(file, &mut hash).map_err(refuse_unreadable)?;
    let own = hash.finalize();
    Ok(members.iter().any(|member| member.digest == own[..]))
}
