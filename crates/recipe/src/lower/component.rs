//! `[components.NAME]`, and the keys of every download: its URL and its proofs.

use std::sync::Arc;

use super::address::parse_address;
use super::proof::read_proof;
use super::signature::{SignatureRequirements, SignedFile, read_signatures};
use super::step;
use crate::document::merge::PROOFS;
use crate::document::value::TomlEntry;
use crate::fields::{LoweringContext, ReportedError, TableReader};
use crate::model::guest_name;
use crate::{
    ArchiveKind, ComponentSpec, DownloadSpec, FileAddress, InputId, InputIdError, ProofSpec,
    VersionList, VersionListFormat,
};
use winimg_base::diag::Diagnostic;
use winimg_base::text::{Located, SourceText};

pub fn read_component(cx: &LoweringContext<'_>, entry: &TomlEntry) -> Option<ComponentSpec> {
    let what = format!("component `{}`", entry.key);
    let fields = TableReader::open_as(cx, &entry.value, "component", what)?;
    let name = name(cx, entry);
    let version = fields.read_text("version");
    let given = fields.read_string("file");
    let unpack: Option<Located<ArchiveKind>> = fields.read_choice("unpack");
    let license = fields.read_text("license");
    let versions = read_versions(&fields);
    let input = InputId::Component(entry.key.clone());
    let origin = read_origin(&fields, &input, unpack.as_ref().map(|u| u.value));
    let url = origin.as_ref().map(|o| &o.url);
    let file = read_file_name(&fields, given, url);
    Some(ComponentSpec {
        name: name?,
        version,
        origin: origin?,
        file: file?,
        unpack: unpack.map(|u| u.value),
        license,
        versions: versions.ok()?,
        version_slot: None,
        digest_slot: None,
        is_used: false,
    })
}

/// Reads `versions`, if it is present.
fn read_versions(fields: &TableReader<'_>) -> Result<Option<VersionList>, ReportedError> {
    if fields.has("versions") {
        read_version_list(fields).map(Some).ok_or(ReportedError)
    } else {
        Ok(None)
    }
}

fn read_version_list(fields: &TableReader<'_>) -> Option<VersionList> {
    let own = fields.read_table("versions")?;
    let prefix = own.read_text("prefix");
    let forms = [
        ("atom", VersionListFormat::Atom),
        ("text", VersionListFormat::Text),
    ];
    let given: Vec<_> = forms.into_iter().filter(|(key, _)| own.has(key)).collect();
    let [(key, form)] = given.as_slice() else {
        let fact = format!("{} has {} lists", own.what, given.len());
        let help = "write one of `atom = \"https://…\"` and `text = \"https://…\"`";
        own.cx.report_missing(fact, &own.place, help);
        return None;
    };
    let url = parse_address(&own, key, own.read_string(key)?)?;
    let FileAddress::Remote(remote) = url.value else {
        let fact = format!("`{key}` is not a URL of a version list");
        own.cx
            .error(fact, &url.place, "", "it must begin with https://");
        return None;
    };
    own.is_whole().then(|| VersionList {
        url: Located::new(remote, url.place),
        form: *form,
        prefix: prefix.unwrap_or_default(),
    })
}

fn name(cx: &LoweringContext<'_>, entry: &TomlEntry) -> Option<Located<String>> {
    let fact = format!("a component cannot be named \"{}\"", entry.key);
    let place = &entry.key_place;
    match entry.key.parse() {
        Ok(InputId::Component(name)) => return Some(Located::new(name, place.clone())),
        Ok(taken @ (InputId::Iso | InputId::Virtio)) => {
            let help = "rename it; the medium itself is described in that table";
            let label = format!("the name is reserved for [{taken}]");
            cx.error(fact, place, &label, help);
        }
        Ok(InputId::Image(_)) | Err(InputIdError) => {
            let help = "letters, digits, `-`, `_` and `.`, a letter or digit first";
            cx.error(fact, place, "", help);
        }
    }
    None
}

/// Reads the file name: `file`, or the last segment of the URL.
fn read_file_name(
    fields: &TableReader<'_>,
    given: Option<Located<String>>,
    url: Option<&Located<FileAddress>>,
) -> Option<String> {
    let (name, place) = match given {
        Some(given) => (given.value, given.place),
        None if fields.has("file") => return None,
        None => {
            let url = url?;
            let name = url.value.file_name();
            if name.is_empty() {
                let fact = format!("the url of {} does not end in a file name", fields.what);
                let help = "set the name: `file = \"x.exe\"`";
                fields.cx.error(fact, &url.place, "", help);
                return None;
            }
            (name, url.place.clone())
        }
    };
    match guest_name::file_name(&name) {
        Ok(()) => Some(name),
        Err((why, _)) => {
            let fact = format!("{} cannot be stored as \"{name}\": {why}", fields.what);
            fields
                .cx
                .error(fact, &place, "", "set another name with `file`");
            None
        }
    }
}

/// Reads `url`, one of the four proofs, and the signatures.
pub fn read_origin(
    fields: &TableReader<'_>,
    input: &InputId,
    archive: Option<ArchiveKind>,
) -> Option<DownloadSpec> {
    let url = read_url(fields);
    let given: Vec<&'static str> = PROOFS.iter().copied().filter(|p| fields.has(p)).collect();
    let signed = SignedFile {
        url: url.as_ref(),
        archive,
        is_checksum_file: false,
        has_drivers: *input == InputId::Virtio,
    };
    let asked = read_conditional_signatures(fields, &signed);
    let proof = read_proof(fields, input, &given, &asked);
    if let (Some(url), Some(ProofSpec::ChecksumFile { url: checksum, .. })) = (&url, &proof) {
        on_two_hosts(fields, url, checksum);
    }
    // Installation media are not signed as a whole: a digest has to do.
    if !matches!(input, InputId::Iso) {
        must_be_signed(fields, &input.to_string(), &asked, proof.as_ref());
    }
    if asked.broken {
        return None;
    }
    Some(DownloadSpec {
        signatures: asked.signatures,
        ..DownloadSpec::new(url?, proof?)
    })
}

/// Warns if the address of a file was changed without that of its checksum file. If both are set in
/// one source, the difference is intended.
fn on_two_hosts(
    fields: &TableReader<'_>,
    url: &Located<FileAddress>,
    checksum: &Located<FileAddress>,
) {
    let (FileAddress::Remote(of_file), FileAddress::Remote(of_checksum)) =
        (&url.value, &checksum.value)
    else {
        return;
    };
    let is_one_source = match (source_of(fields, "url"), source_of(fields, "checksum_url")) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        _ => true,
    };
    if of_file.host() == of_checksum.host() || is_one_source {
        return;
    }
    let fact = format!(
        "{} comes from {}, but its checksum file from {}",
        fields.what,
        of_file.host_str().unwrap_or_default(),
        of_checksum.host_str().unwrap_or_default()
    );
    let help = "this is fine for a mirror of the publisher's file; for your own build set its own \
                proof (`sha256`, or a `signature` with `checksum_url = false`)";
    let warning = Diagnostic::warning(fact).at(&url.place, "").help(help);
    fields.cx.report(warning);
}

/// Returns the file that sets the key, or the variable at its start.
fn source_of<'f>(fields: &'f TableReader<'_>, key: &str) -> Option<&'f Arc<SourceText>> {
    let value = fields.get(key)?;
    Some(&value.base.as_ref().unwrap_or(&value.place).source)
}

/// Reads `signature`, unless `signature_when` turns it off.
fn read_conditional_signatures(
    fields: &TableReader<'_>,
    signed: &SignedFile<'_>,
) -> SignatureRequirements {
    let left_out = match step::evaluate_when(fields, "signature_when") {
        Ok(None) => return read_signatures(fields, "signature", signed),
        Ok(Some(condition)) => condition,
        Err(ReportedError) => {
            return SignatureRequirements {
                broken: true,
                ..SignatureRequirements::default()
            };
        }
    };
    let place = fields
        .table
        .find_entry("signature_when")
        .map(|e| &e.value.place);
    if let (Some(place), true) = (place, fields.has("signature")) {
        let fact = format!("the signature of {} is not required", fields.what);
        let label = format!("{left_out} is false");
        let warning = Diagnostic::warning(fact).at(place, &label);
        let help = "its other proof identifies the bytes, not who made them";
        fields.cx.report(warning.help(help));
    }
    SignatureRequirements::default()
}

/// Applies `policy = "signed"`: a digest identifies a file but not who made it; a signed checksum
/// file does both. Inputs under `[unsigned]` only need a digest, and the plan lists them.
fn must_be_signed(
    fields: &TableReader<'_>,
    name: &str,
    asked: &SignatureRequirements,
    proof: Option<&ProofSpec>,
) {
    let sums =
        matches!(proof, Some(ProofSpec::ChecksumFile { signatures, .. }) if !signatures.is_empty());
    let is_signed = asked.broken || !asked.signatures.is_empty() || sums;
    let policy = fields.cx.unsigned.borrow();
    let Some(policy) = policy.as_ref() else {
        return;
    };
    if let Some(reason) = policy.get(name) {
        return check_unsigned(fields, is_signed, proof, reason);
    }
    if is_signed {
        return;
    }
    let help = "describe its signature under `signature`, or accept its digest with a reason under \
                `[unsigned]`";
    match fields.table.find_entry("signature") {
        Some(entry) => {
            let fact = format!(
                "the signature of {} is dropped, but the policy requires signatures",
                fields.what
            );
            fields.cx.error(fact, &entry.key_place, "", help);
        }
        None => {
            let fact = format!(
                "{} has no signature, but the policy requires signatures",
                fields.what
            );
            fields.cx.report_missing(fact, &fields.place, help);
        }
    }
}

/// Checks an input under `[unsigned]`.
fn check_unsigned(
    fields: &TableReader<'_>,
    is_signed: bool,
    proof: Option<&ProofSpec>,
    reason: &Located<String>,
) {
    if is_signed {
        let fact = format!("{} is signed, but listed under `[unsigned]`", fields.what);
        let help = "remove the line: the signature is checked in any case";
        return fields.cx.error(fact, &reason.place, "", help);
    }
    if let Some(ProofSpec::Unverified { .. }) = proof {
        let fact = format!("{} has no digest", fields.what);
        let help = "inputs under `[unsigned]` need a digest: run `winimg pin`";
        return fields.cx.error(fact, &reason.place, "", help);
    }
    let fact = format!("{} is accepted without a signature", fields.what);
    let warning = Diagnostic::warning(fact).at(&reason.place, "the policy requires signatures");
    let help = "its digest identifies the bytes, not who made them";
    fields.cx.report(warning.help(help));
}

fn read_url(fields: &TableReader<'_>) -> Option<Located<FileAddress>> {
    parse_address(fields, "url", fields.read_string("url")?)
}
