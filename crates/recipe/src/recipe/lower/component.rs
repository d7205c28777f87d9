//! `[components.NAME]`, and what every download has: a URL and what proves it.

use std::sync::Arc;

use url::Url;

use super::address::address;
use super::step;

use super::signature::{Asked, Signed, signatures};
use crate::recipe::fields::{Context, Fields};
use crate::recipe::merge::PROOFS;
use crate::recipe::undecided::{self, MissingProof};
use crate::recipe::value::Entry;
use crate::recipe::value::Wanting;
use crate::recipe::vars::place_of_name;
use crate::recipe::{
    Address, Archive, Component, Covers, Form, InputId, NoInput, Origin, ProofSpec, Signature,
    Versions, guest_name,
};
use winimg_base::diag::Diagnostic;
use winimg_base::digest::{Algorithm, Digest};
use winimg_base::text::{Located, Place};

pub fn component(cx: &Context<'_>, entry: &Entry) -> Option<Component> {
    let what = format!("component `{}`", entry.key);
    let fields = Fields::called(cx, &entry.value, "component", what)?;
    let name = name(cx, entry);
    let version = fields.text("version");
    let given = fields.string("file");
    let unpack: Option<Located<Archive>> = fields.choice("unpack");
    let license = fields.text("license");
    let versions = versions(&fields);
    let input = InputId::Component(entry.key.clone());
    let origin = origin(&fields, &input, unpack.as_ref().map(|u| u.value));
    let url = origin.as_ref().map(|o| &o.url);
    let file = file(&fields, given, url);
    Some(Component {
        name: name?,
        version,
        origin: origin?,
        file: file?,
        unpack: unpack.map(|u| u.value),
        license,
        versions: versions?,
        version_slot: None,
        digest_slot: None,
        is_used: false,
    })
}

/// `versions`, where it is given. The outer `None`: it was complained about.
fn versions(fields: &Fields<'_>) -> Option<Option<Versions>> {
    if !fields.has("versions") {
        return Some(None);
    }
    let own = fields.table("versions")?;
    let prefix = own.text("prefix");
    let forms = [("atom", Form::Atom), ("text", Form::Text)];
    let given: Vec<_> = forms.into_iter().filter(|(key, _)| own.has(key)).collect();
    let [(key, form)] = given.as_slice() else {
        let fact = format!("{} names {} lists", own.what, given.len());
        let help = "write one of `atom = \"https://…\"` and `text = \"https://…\"`";
        own.cx.missing(fact, &own.place, help);
        return None;
    };
    let url = address(&own, key, own.string(key)?)?;
    let Address::Remote(remote) = url.value else {
        let fact = format!("`{key}` is not the address of a publisher's list");
        own.cx
            .error(fact, &url.place, "", "it begins with https://");
        return None;
    };
    own.is_whole().then(|| {
        Some(Versions {
            url: Located::new(remote, url.place),
            form: *form,
            prefix: prefix.unwrap_or_default(),
        })
    })
}

fn name(cx: &Context<'_>, entry: &Entry) -> Option<Located<String>> {
    let fact = format!("a component cannot be called \"{}\"", entry.key);
    let place = &entry.key_place;
    match entry.key.parse() {
        Ok(InputId::Component(name)) => return Some(Located::new(name, place.clone())),
        Ok(taken @ (InputId::Iso | InputId::Virtio)) => {
            let help = "give it another name; the medium itself is described in that table";
            let label = format!("locks and manifests call [{taken}] so");
            cx.error(fact, place, &label, help);
        }
        Ok(InputId::Image(_)) | Err(NoInput) => {
            let help = "letters, digits, `-`, `_` and `.`, a letter or digit first";
            cx.error(fact, place, "", help);
        }
    }
    None
}

/// The name to keep the file under: `file`, or the last segment of the URL.
fn file(
    fields: &Fields<'_>,
    given: Option<Located<String>>,
    url: Option<&Located<Address>>,
) -> Option<String> {
    let (name, place) = match given {
        Some(given) => (given.value, given.place),
        None if fields.has("file") => return None,
        None => {
            let url = url?;
            let name = url.value.file_name();
            if name.is_empty() {
                let fact = format!("the url of {} does not end in a file name", fields.what);
                let help = "give the name: `file = \"x.exe\"`";
                fields.cx.error(fact, &url.place, "", help);
                return None;
            }
            (name, url.place.clone())
        }
    };
    match guest_name::file_name(&name) {
        Ok(()) => Some(name),
        Err((why, _)) => {
            let fact = format!("{} cannot be kept as \"{name}\": {why}", fields.what);
            fields
                .cx
                .error(fact, &place, "", "give another name with `file`");
            None
        }
    }
}

/// `url`, the one of the four proofs, and the signatures.
pub fn origin(fields: &Fields<'_>, input: &InputId, archive: Option<Archive>) -> Option<Origin> {
    let url = url(fields);
    let given: Vec<&'static str> = PROOFS.iter().copied().filter(|p| fields.has(p)).collect();
    let signed = Signed {
        url: url.as_ref(),
        archive,
        is_checksum_file: false,
        has_drivers: *input == InputId::Virtio,
    };
    let asked = asked(fields, &signed);
    let proof = proof(fields, input, &given, &asked);
    if let (Some(url), Some(ProofSpec::ChecksumFile { url: checksum, .. })) = (&url, &proof) {
        on_two_hosts(fields, url, checksum);
    }
    // Nobody signs an install medium as a whole: its digest has to do.
    if !matches!(input, InputId::Iso) {
        must_be_signed(fields, &input.to_string(), &asked, proof.as_ref());
    }
    if asked.broken {
        return None;
    }
    Some(Origin {
        signatures: asked.signatures,
        ..Origin::new(url?, proof?)
    })
}

/// Warns of a file whose address was changed without that of its checksum file. One file that says both means it.
fn on_two_hosts(fields: &Fields<'_>, url: &Located<Address>, checksum: &Located<Address>) {
    let (Address::Remote(of_file), Address::Remote(of_checksum)) = (&url.value, &checksum.value)
    else {
        return;
    };
    let said_by = |key: &str| {
        let value = fields.get(key)?;
        Some(&value.base.as_ref().unwrap_or(&value.place).source)
    };
    let is_said_by_one = match (said_by("url"), said_by("checksum_url")) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        _ => true,
    };
    if of_file.host() == of_checksum.host() || is_said_by_one {
        return;
    }
    let host = |url: &Url| url.host_str().unwrap_or_default().to_string();
    let fact = format!(
        "{} comes from {}, and its checksum file from {}",
        fields.what,
        host(of_file),
        host(of_checksum)
    );
    let help = "a copy of the publisher's file is proved by that; for a build of your own give its own proof (`sha256`, or a \
                `signature` with `checksum_url = false`)";
    let warning = Diagnostic::warning(fact).at(&url.place, "").help(help);
    fields.cx.problem(warning);
}

/// `signature`, unless `signature_when` says that nobody asks for it.
fn asked(fields: &Fields<'_>, signed: &Signed<'_>) -> Asked {
    let left_out = match step::when(fields, "signature_when") {
        Some(None) => return signatures(fields, "signature", signed),
        Some(Some(condition)) => condition,
        None => {
            return Asked {
                broken: true,
                ..Asked::default()
            };
        }
    };
    let place = fields.table.entry("signature_when").map(|e| &e.value.place);
    if let (Some(place), true) = (place, fields.has("signature")) {
        let fact = format!("the signature of {} is not asked for", fields.what);
        let label = format!("{left_out} does not hold");
        let warning = Diagnostic::warning(fact).at(place, &label);
        let help = "what is left of its proof says which bytes are taken, not who made them";
        fields.cx.problem(warning.help(help));
    }
    Asked::default()
}

/// `policy = "signed"`: a digest says what a file is, not who made it. A checksum file that is signed says both. What
/// `[unsigned]` names passes by a digest, and the plan says so.
fn must_be_signed(fields: &Fields<'_>, name: &str, asked: &Asked, proof: Option<&ProofSpec>) {
    let sums =
        matches!(proof, Some(ProofSpec::ChecksumFile { signatures, .. }) if !signatures.is_empty());
    let is_signed = asked.broken || !asked.signatures.is_empty() || sums;
    let policy = fields.cx.unsigned.borrow();
    let Some(policy) = policy.as_ref() else {
        return;
    };
    if let Some(reason) = policy.get(name) {
        return unsigned(fields, is_signed, proof, reason);
    }
    if is_signed {
        return;
    }
    let help = "write what it is signed with under `signature`, or why it may pass by its digest: `[unsigned]` with a line for it";
    match fields.table.entry("signature") {
        Some(entry) => {
            let fact = format!(
                "the signature of {} is dropped, and the policy is that all are signed",
                fields.what
            );
            fields.cx.error(fact, &entry.key_place, "", help);
        }
        None => {
            let fact = format!(
                "{} has no signature, and the policy is that all are signed",
                fields.what
            );
            fields.cx.missing(fact, &fields.place, help);
        }
    }
}

/// An input that `[unsigned]` names.
fn unsigned(
    fields: &Fields<'_>,
    is_signed: bool,
    proof: Option<&ProofSpec>,
    reason: &Located<String>,
) {
    if is_signed {
        let fact = format!("{} is signed, and `[unsigned]` names it", fields.what);
        let help = "take the line out: the signature is judged all the same";
        return fields.cx.error(fact, &reason.place, "", help);
    }
    if let Some(ProofSpec::Unverified { .. }) = proof {
        let fact = format!("nothing proves {}", fields.what);
        let help = "`[unsigned]` is for what a digest proves: `winimg pin` finds it";
        return fields.cx.error(fact, &reason.place, "", help);
    }
    let fact = format!("{} is taken without a signature", fields.what);
    let warning = Diagnostic::warning(fact).at(&reason.place, "the policy is that all are signed");
    let help = "its digest says which bytes are taken, not who made them";
    fields.cx.problem(warning.help(help));
}

fn url(fields: &Fields<'_>) -> Option<Located<Address>> {
    address(fields, "url", fields.string("url")?)
}

fn proof(
    fields: &Fields<'_>,
    input: &InputId,
    given: &[&'static str],
    asked: &Asked,
) -> Option<ProofSpec> {
    let entry = fields.string("checksum_entry");
    if let (Some(entry), false) = (&entry, fields.has("checksum_url")) {
        let fact =
            "`checksum_entry` names a line of a checksum file, but there is no `checksum_url`";
        fields.cx.error(fact, &entry.place, "", "");
    }
    // Every proof is read, so that each is checked and none is called unknown.
    let sha256 = digest(fields, "sha256", Algorithm::Sha256);
    let sha512 = digest(fields, "sha512", Algorithm::Sha512);
    let checksum = fields.string("checksum_url");
    let checksum = checksum.and_then(|url| address(fields, "checksum_url", url));
    let signed = Signed {
        url: checksum.as_ref(),
        archive: None,
        is_checksum_file: true,
        has_drivers: false,
    };
    let checksum_asked = signatures(fields, "checksum_signature", &signed);
    if let (Some(entry), false) = (
        fields.table.entry("checksum_signature"),
        fields.has("checksum_url"),
    ) {
        let fact = "`checksum_signature` is of a checksum file, but there is no `checksum_url`";
        fields.cx.error(fact, &entry.key_place, "", "");
        return None;
    }
    if checksum_asked.broken {
        return None;
    }
    // Those of members prove these, and nothing of the rest.
    let whole = |group: &Vec<Signature>| group.iter().all(|s| s.covers == Covers::File);
    let is_signed = asked.signatures.iter().any(whole);
    let unverified = fields.string("unverified");
    match given {
        [] if is_signed => Some(ProofSpec::Signed),
        // It says why there is no proof, and now there is one.
        ["unverified"] if is_signed => unverified.map(|_| ProofSpec::Signed),
        [] => unproved(fields, input, asked),
        [key] if !undecided(fields, key).is_empty() => digest_to_come(fields, input, key),
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

fn two_proofs(fields: &Fields<'_>, first: &str, second: &str, one_is_none: bool) {
    let place = fields.table.entry(second).map(|e| &e.key_place);
    let fact = format!("{} has two proofs, `{first}` and `{second}`", fields.what);
    let help = match one_is_none {
        true => "take the line `unverified` out: it is for a file that nothing proves",
        false => "keep one of them",
    };
    let place = place.unwrap_or(&fields.place);
    fields.cx.error(fact, place, "", help);
}

fn digest(fields: &Fields<'_>, key: &str, algorithm: Algorithm) -> Option<Located<Digest>> {
    if !undecided(fields, key).is_empty() {
        return None;
    }
    let text = fields.string(key)?;
    // Where a variable says it, its value is wrong and not the key.
    let place = fields.get(key).and_then(|value| value.base.clone());
    let place = place.unwrap_or_else(|| text.place.clone());
    let complain = |why: &str, help: &str| {
        let fact = format!("the {key} of {} {why}", fields.what);
        fields.cx.error(fact, &place, "", help);
    };
    if text.value.trim().eq_ignore_ascii_case("none") {
        complain(
            "is \"none\", and something has to prove each file",
            "\"none\" turns Packer's check off; here give the file's digest (sha256sum FILE), or say why there is none: `unverified = \"why\"` in its table",
        );
        return None;
    }
    match text.value.trim().parse::<Digest>() {
        Ok(digest) if digest.algorithm == algorithm => {
            Some(Located::new(digest, text.place.clone()))
        }
        Ok(digest) => {
            let name = digest.algorithm.name();
            complain(&format!("is a {name}"), &format!("write `{name} = …`"));
            None
        }
        Err(why) => {
            complain(&why, "");
            None
        }
    }
}

/// The variables without a value that the key's text names.
fn undecided(fields: &Fields<'_>, key: &str) -> Vec<(Wanting, Place)> {
    fields
        .table
        .get(key)
        .map_or_else(Vec::new, undecided::within)
}

/// A digest that a variable will hold.
fn digest_to_come(fields: &Fields<'_>, input: &InputId, key: &str) -> Option<ProofSpec> {
    let (variable, place) = undecided(fields, key).into_iter().next()?;
    let missing = MissingProof {
        input: input.clone(),
        algorithm: match key {
            "sha512" => Algorithm::Sha512,
            _ => Algorithm::Sha256,
        },
        place: place_of_name(&place, &variable.name),
        variable: Some(variable),
        fact: format!("nothing proves what {} fetches", fields.what),
        has_signed_members: false,
    };
    fields.cx.unproved(&missing);
    Some(ProofSpec::Undecided(missing))
}

/// Neither a proof nor a signature of the whole file is named.
fn unproved(fields: &Fields<'_>, input: &InputId, asked: &Asked) -> Option<ProofSpec> {
    // The missing URL was complained about.
    let url = fields.table.entry("url")?;
    if fields.cx.incomplete || asked.broken {
        return None;
    }
    let has_signed_members = !asked.signatures.is_empty();
    let fact = match (has_signed_members, input) {
        (false, _) => format!("nothing proves what {} fetches", fields.what),
        (true, InputId::Virtio) => {
            format!("nothing proves {}, only the drivers on it", fields.what)
        }
        (true, _) => format!(
            "nothing proves the archive of {}, only some of its members",
            fields.what
        ),
    };
    let missing = MissingProof {
        input: input.clone(),
        algorithm: Algorithm::Sha256,
        variable: None,
        place: match has_signed_members {
            false => url.value.place.clone(),
            true => fields.place.clone(),
        },
        fact,
        has_signed_members,
    };
    fields.cx.unproved(&missing);
    Some(ProofSpec::Undecided(missing))
}
