//! Reads how an input is proved: its digest, its checksum file, or the reason why it has neither.

use super::address::parse_address;
use super::signature::{SignatureRequirements, SignedFile, read_signatures};
use crate::document::value::MissingVariable;
use crate::fields::TableReader;
use crate::undecided::{self, MissingProof};
use crate::vars::find_name_place;
use crate::{InputId, ProofSpec, SignatureScope};
use winimg_base::digest::{Algorithm, Digest};
use winimg_base::text::{Located, Place};

/// Reads the proof; `given` are the keys of proofs in the table.
pub(super) fn read_proof(
    fields: &TableReader<'_>,
    input: &InputId,
    given: &[&'static str],
    asked: &SignatureRequirements,
) -> Option<ProofSpec> {
    let entry = fields.read_string("checksum_entry");
    if let (Some(entry), false) = (&entry, fields.has("checksum_url")) {
        let fact = "`checksum_entry` needs a `checksum_url`";
        fields.cx.error(fact, &entry.place, "", "");
    }
    // Every proof is read, so that all of them are checked.
    let sha256 = read_digest(fields, "sha256", Algorithm::Sha256);
    let sha512 = read_digest(fields, "sha512", Algorithm::Sha512);
    let checksum = fields.read_string("checksum_url");
    let checksum = checksum.and_then(|url| parse_address(fields, "checksum_url", url));
    let signed = SignedFile {
        url: checksum.as_ref(),
        archive: None,
        is_checksum_file: true,
        has_drivers: false,
    };
    let checksum_asked = read_signatures(fields, "checksum_signature", &signed);
    if let (Some(entry), false) = (
        fields.table.find_entry("checksum_signature"),
        fields.has("checksum_url"),
    ) {
        let fact = "`checksum_signature` needs a `checksum_url`";
        fields.cx.error(fact, &entry.key_place, "", "");
        return None;
    }
    if checksum_asked.broken {
        return None;
    }
    // Signatures of archive members prove only these members.
    let is_signed = asked.signatures.iter().any(|group| {
        group
            .iter()
            .all(|signature| signature.covers == SignatureScope::File)
    });
    let unverified = fields.read_string("unverified");
    match given {
        [] if is_signed => Some(ProofSpec::Signed),
        // `unverified` is the reason for a missing proof, but the signature is one.
        ["unverified"] if is_signed => unverified.map(|_| ProofSpec::Signed),
        [] => record_unproved(fields, input, asked),
        [key] if !find_undecided(fields, key).is_empty() => digest_to_come(fields, input, key),
        [_] => sha256
            .or(sha512)
            .map(ProofSpec::Digest)
            .or(checksum.map(|url| ProofSpec::ChecksumFile {
                url,
                entry: entry.map(|e| e.value),
                signatures: checksum_asked.signatures,
            }))
            .or(unverified.map(|reason| ProofSpec::Unverified { reason })),
        [first, second, ..] => {
            two_proofs(fields, first, second, given.contains(&"unverified"));
            None
        }
    }
}

fn two_proofs(fields: &TableReader<'_>, first: &str, second: &str, one_is_none: bool) {
    let place = fields.table.find_entry(second).map(|e| &e.key_place);
    let fact = format!("{} has both `{first}` and `{second}`", fields.what);
    let help = if one_is_none {
        "remove `unverified`: it is for a file without a proof"
    } else {
        "keep one of them"
    };
    let place = place.unwrap_or(&fields.place);
    fields.cx.error(fact, place, "", help);
}

fn read_digest(
    fields: &TableReader<'_>,
    key: &str,
    algorithm: Algorithm,
) -> Option<Located<Digest>> {
    if !find_undecided(fields, key).is_empty() {
        return None;
    }
    let text = fields.read_string(key)?;
    // Points at the variable's value if the digest comes from a variable.
    let place = fields.get(key).and_then(|value| value.base.clone());
    let place = place.unwrap_or_else(|| text.place.clone());
    let (why, help) = if text.value.trim().eq_ignore_ascii_case("none") {
        (
            "is \"none\", but every file needs a proof".to_owned(),
            "\"none\" turns Packer's check off; here set the file's digest (sha256sum FILE), or \
             `unverified = \"why\"` in its table"
                .to_owned(),
        )
    } else {
        match text.value.trim().parse::<Digest>() {
            Ok(digest) if digest.algorithm == algorithm => {
                return Some(Located::new(digest, text.place.clone()));
            }
            Ok(digest) => {
                let name = digest.algorithm.name();
                (format!("is a {name}"), format!("write `{name} = …`"))
            }
            Err(why) => (why, String::new()),
        }
    };
    let fact = format!("the {key} of {} {why}", fields.what);
    fields.cx.error(fact, &place, "", &help);
    None
}

/// Lists the variables in the key's text that have no value.
fn find_undecided(fields: &TableReader<'_>, key: &str) -> Vec<(MissingVariable, Place)> {
    fields
        .table
        .get(key)
        .map_or_else(Vec::new, undecided::find_undecided)
}

/// Records a digest given by a variable without a value.
fn digest_to_come(fields: &TableReader<'_>, input: &InputId, key: &str) -> Option<ProofSpec> {
    let (variable, place) = find_undecided(fields, key).into_iter().next()?;
    let missing = MissingProof {
        input: input.clone(),
        algorithm: match key {
            "sha512" => Algorithm::Sha512,
            _ => Algorithm::Sha256,
        },
        place: find_name_place(&place, &variable.name),
        variable: Some(variable),
        fact: format!("{} has no proof", fields.what),
        has_signed_members: false,
    };
    fields.cx.record_missing_proof(&missing);
    Some(ProofSpec::Undecided(missing))
}

/// Records an input with neither a proof nor a signature of the whole file.
fn record_unproved(
    fields: &TableReader<'_>,
    input: &InputId,
    asked: &SignatureRequirements,
) -> Option<ProofSpec> {
    // A missing URL is reported elsewhere.
    let url = fields.table.find_entry("url")?;
    if fields.cx.incomplete || asked.broken {
        return None;
    }
    let has_signed_members = !asked.signatures.is_empty();
    let fact = match (has_signed_members, input) {
        (false, _) => format!("{} has no proof", fields.what),
        (true, InputId::Virtio) => {
            format!("{} has no proof, only its drivers do", fields.what)
        }
        (true, _) => format!(
            "the archive of {} has no proof, only some of its members do",
            fields.what
        ),
    };
    let missing = MissingProof {
        input: input.clone(),
        algorithm: Algorithm::Sha256,
        variable: None,
        place: if has_signed_members {
            fields.place.clone()
        } else {
            url.value.place.clone()
        },
        fact,
        has_signed_members,
    };
    fields.cx.record_missing_proof(&missing);
    Some(ProofSpec::Undecided(missing))
}
