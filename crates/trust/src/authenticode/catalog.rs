//! Catalogs: signed lists of other files' digests.
//!
//! A file beside a good catalog is proved by nothing; only its own digest in the catalog proves it. Every digest is
//! therefore computed here from the file: of a PE file what Authenticode covers, of any other file all its bytes. Refuses
//! lists that are no catalogs, and members that are there by SHA-1 only. (Microsoft: Catalog Files and Digital Signatures;
//! Certificate Trust List)

use std::io::{self, Seek};

use der::asn1::ObjectIdentifier;
use sha1::{Digest as _, Sha1};

use super::super::hash::HashKind;
use super::super::signed_data::SignedData;
use super::super::tlv::{self, Tlv, Walk};
use super::super::{Reason, Refusal, Subject};
use super::indirect::SPC_INDIRECT_DATA;
use super::kind::Kind;
use super::source::{Source, unreadable};
use super::{pe, unsigned};

const CATALOG_LIST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.12.1.1");
/// Of a list whose members' tags are the digests themselves.
const BY_TAG: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.12.1.3");
const MEMBER_INFO: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.12.2.3");
const NAME_VALUE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.12.2.1");
const PE_IMAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.2.1.15");
const FLAT_FILE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.2.1.25");

const BMP_STRING: u8 = 0x1e;
/// Names of a big catalog that a refusal lists.
const NAMES_SHOWN: usize = 8;

/// One file that a catalog names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) digest: Vec<u8>,
    /// `None` for SHA-1 and whatever else proves nothing.
    pub(super) algorithm: Option<HashKind>,
    pub(super) covers: Covers,
    /// The file's name, where the catalog's maker put it down. No digest depends on it.
    pub(super) name: Option<String>,
}

/// What a member's digest is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Covers {
    /// What Authenticode covers of a PE file.
    Image,
    /// All bytes.
    File,
    /// Something that only another kind of file has.
    Other,
}

/// The members of a CertificateTrustList's value octets.
fn read(list: &[u8]) -> Result<Vec<Member>, Refusal> {
    let mut list = Walk::new(list, "the catalog")?;
    list.optional(tlv::INTEGER)?;
    let mut usage = list.expect(tlv::SEQUENCE)?.walk("the catalog's use")?;
    if usage.oid()? != CATALOG_LIST {
        return Err(Reason::WrongUse
            .refusal("what was published beside the file is a trust list, but no catalog"));
    }
    list.optional(tlv::OCTET_STRING)?;
    list.optional(tlv::INTEGER)?;
    // When it was made, and sometimes when the next one will be.
    while matches!(list.peek(), Some(tlv::UTC_TIME | tlv::GENERALIZED_TIME)) {
        list.next()?;
    }
    let mut kind = list.expect(tlv::SEQUENCE)?.walk("the catalog's kind")?;
    let by_tag = kind.oid()? == BY_TAG;
    let subjects = list.optional(tlv::SEQUENCE)?;
    list.optional(tlv::context(0))?;
    list.finish()?;

    let mut members = Vec::new();
    if let Some(subjects) = subjects {
        let mut subjects = subjects.walk("the catalog's members")?;
        while let Some(subject) = subjects.next()? {
            members.extend(member(&subject, by_tag)?);
        }
    }
    Ok(members)
}

/// A member, or `None` when it has no digest.
fn member(subject: &Tlv<'_>, by_tag: bool) -> Result<Option<Member>, Refusal> {
    const WHAT: &str = "a member of the catalog";
    let mut subject = subject.walk(WHAT)?;
    let tag = subject.expect(tlv::OCTET_STRING)?.value;
    let Some(attributes) = subject.optional(tlv::SET)? else {
        return Ok(None);
    };
    let mut attributes = attributes.walk(WHAT)?;
    let (mut member, mut name, mut covers) = (None, None, Covers::Other);
    while let Some(attribute) = attributes.next()? {
        let mut attribute = attribute.walk(WHAT)?;
        let kind = attribute.oid()?;
        let values = attribute.expect(tlv::SET)?;
        if kind == SPC_INDIRECT_DATA {
            let read = indirect(&tlv::only(values.value, tlv::SEQUENCE, WHAT)?)?;
            if member.replace(read).is_some() {
                return Err(tlv::malformed(WHAT, "has two digests"));
            }
        } else if kind == NAME_VALUE {
            name = file_name(&values)?.or(name);
        } else if kind == MEMBER_INFO {
            covers = match values.value {
                [0x80, 0] => Covers::Image,
                [0x82, 0] => Covers::File,
                _ => Covers::Other,
            };
        }
    }
    let tagged = by_tag.then(|| Member {
        digest: tag.to_vec(),
        algorithm: Some(HashKind::Sha256).filter(|kind| kind.length() == tag.len()),
        covers,
        name: None,
    });
    Ok(member.or(tagged).map(|member| Member { name, ..member }))
}

/// SpcIndirectDataContent.
fn indirect(content: &Tlv<'_>) -> Result<Member, Refusal> {
    const WHAT: &str = "the digest of a member of the catalog";
    let mut content = content.walk(WHAT)?;
    let kind = content.expect(tlv::SEQUENCE)?.walk(WHAT)?.oid()?;
    let mut info = content.expect(tlv::SEQUENCE)?.walk(WHAT)?;
    let algorithm = info.expect(tlv::SEQUENCE)?.walk(WHAT)?.oid()?;
    let digest = info.expect(tlv::OCTET_STRING)?.value.to_vec();
    info.finish()?;
    content.finish()?;
    Ok(Member {
        algorithm: HashKind::from_oid(algorithm)
            .ok()
            .filter(|kind| kind.length() == digest.len()),
        digest,
        covers: match kind {
            kind if kind == PE_IMAGE => Covers::Image,
            kind if kind == FLAT_FILE => Covers::File,
            _ => Covers::Other,
        },
        name: None,
    })
}

/// The value of `File` (inf2cat) or the last part of `FilePath` (New-FileCatalog).
fn file_name(values: &Tlv<'_>) -> Result<Option<String>, Refusal> {
    const WHAT: &str = "the name of a member of the catalog";
    let mut values = values.walk(WHAT)?;
    while let Some(pair) = values.next()? {
        let mut pair = pair.walk(WHAT)?;
        let key = pair.expect(BMP_STRING)?.value;
        pair.expect(tlv::INTEGER)?;
        let value = pair.expect(tlv::OCTET_STRING)?.value;
        let key = wide(key, u16::from_be_bytes);
        if matches!(key.as_str(), "File" | "FilePath") {
            let value = wide(value, u16::from_le_bytes);
            let value = value.trim_end_matches('\0');
            let last = value.rsplit(['\\', '/']).next().unwrap_or(value);
            return Ok(Some(last.escape_debug().to_string()));
        }
    }
    Ok(None)
}

fn wide(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units: Vec<u16> = bytes
        .chunks_exact(2)
        .map(|two| unit([two[0], two[1]]))
        .collect();
    String::from_utf16_lossy(&units)
}

/// The file's own digest stands in the catalog. Whether the catalog's signature holds is judged elsewhere.
pub(super) fn judge_member(
    signed: &SignedData<'_>,
    file: &mut Source,
    subject: Subject<'_>,
) -> Result<(), Refusal> {
    let members = read(signed.content())?;
    let covers = match file.bytes(0, 2)?.as_deref() {
        Some(b"MZ") => {
            Kind::Pe.fits(subject.name)?;
            // What stands in its certificate table is in no catalog's digest: it has to be a signature and nothing else.
            if let Some(own) = pe::signature(file)? {
                unsigned::check_untaken(&own)?;
            }
            Covers::Image
        }
        _ => Covers::File,
    };
    for algorithm in [HashKind::Sha256, HashKind::Sha384, HashKind::Sha512] {
        let mut candidates = members
            .iter()
            .filter(|member| member.algorithm == Some(algorithm) && member.covers == covers)
            .peekable();
        if candidates.peek().is_none() {
            continue;
        }
        let own = digest(file, covers, algorithm)?;
        let is_it: Vec<&Member> = candidates.filter(|member| member.digest == own).collect();
        if !is_it.is_empty() {
            return called(&is_it, subject);
        }
    }
    Err(absent(&members, file, covers, subject.name)?)
}

/// The catalog's maker gave the file this name, or none.
fn called(members: &[&Member], subject: Subject<'_>) -> Result<(), Refusal> {
    let names: Option<Vec<&str>> = members
        .iter()
        .map(|member| member.name.as_deref())
        .collect();
    match names {
        Some(names) if !names.iter().any(|name| subject.is_called(name)) => Err(Reason::OtherName
            .refusal("the catalog names these bytes by another name")
            .expected(names.join(" or "))
            .found(subject.name)
            .cure("keep the file under the name that its publisher gave it, or see what `url` leads to")),
        _ => Ok(()),
    }
}

fn digest(file: &mut Source, covers: Covers, algorithm: HashKind) -> Result<Vec<u8>, Refusal> {
    if covers == Covers::Image {
        return pe::digest(file, algorithm);
    }
    let mut hash = algorithm.start();
    file.hash(&mut hash, 0, file.length())?;
    Ok(hash.finish().as_ref().to_vec())
}

/// Why no member is this file.
fn absent(
    members: &[Member],
    file: &mut Source,
    covers: Covers,
    name: &str,
) -> Result<Refusal, Refusal> {
    let is_named = |member: &&Member| {
        let its = member.name.as_deref();
        its.is_some_and(|its| its.eq_ignore_ascii_case(name))
    };
    let mut named = members.iter().filter(is_named).peekable();
    let is_there = named.peek().is_some();
    let strong = named.find_map(|member| Some((member, member.algorithm?)));
    let Some((member, algorithm)) = strong else {
        if is_there || (covers == Covers::File && by_sha1(members, file)?) {
            return Ok(weak(name));
        }
        return Ok(unnamed(members, name));
    };
    let refusal = if member.covers == covers {
        Reason::Changed
            .refusal(format!(
                "{name} is not the file that the catalog names: its bytes are others"
            ))
            .expected(hex::encode(&member.digest))
            .found(hex::encode(digest(file, covers, algorithm)?))
    } else {
        Reason::Changed.refusal(format!(
            "the catalog names {name}, but as another kind of file"
        ))
    };
    Ok(refusal.cure("fetch the file and the catalog of one release"))
}

fn weak(name: &str) -> Refusal {
    Reason::Weak
        .refusal(format!(
            "the catalog names {name} by SHA-1 only, which others can forge"
        ))
        .expected("a member by SHA-256")
        .found("SHA-1")
        .cure("ask the publisher for a catalog with SHA-256 members")
}

fn unnamed(members: &[Member], name: &str) -> Refusal {
    let refusal = Reason::OtherName
        .refusal(format!("the catalog does not name {name}"))
        .expected("its digest among the catalog's members")
        .cure("give the catalog that was published with this file");
    let mut known: Vec<&str> = members
        .iter()
        .filter_map(|member| member.name.as_deref())
        .collect();
    known.sort_unstable();
    known.dedup();
    if known.is_empty() {
        return refusal;
    }
    let more = known.len().saturating_sub(NAMES_SHOWN);
    known.truncate(NAMES_SHOWN);
    let names = known.join(", ");
    refusal.found(match more {
        0 => names,
        _ => format!("{names} and {more} more"),
    })
}

/// Only to name what is wrong: nothing is proved by it.
fn by_sha1(members: &[Member], file: &mut Source) -> Result<bool, Refusal> {
    if members.iter().all(|member| member.digest.len() != 20) {
        return Ok(false);
    }
    let mut hash = Sha1::new();
    file.rewind().map_err(unreadable)?;
    io::copy(file, &mut hash).map_err(unreadable)?;
    let own = hash.finalize();
    Ok(members.iter().any(|member| member.digest == own[..]))
}
