//! A pinned certificate: what it may sign, and when.
//!
//! The certificate's self-signatures are checked by rpgpie; weak ones are taken out before, so that nothing rests on them.

use pgp::composed::SignedPublicKey;
use pgp::crypto::ecc_curve::ECCCurve;
use pgp::packet::{Signature, SignatureType};
use pgp::ser::Serialize as _;
use pgp::types::{
    EcdsaPublicParams, EddsaLegacyPublicParams, Fingerprint, KeyDetails, KeyId, KeyVersion,
    PublicParams, Timestamp,
};
use rpgpie::certificate::{Certificate, Checked};
use winimg_base::digest::Digest;

use super::super::{Reason, Refusal};
use super::packets::{self, hex_of, shown};

#[derive(Clone, Debug)]
pub struct Key {
    fingerprint: Fingerprint,
    /// Over the whole certificate, with all names, subkeys and signatures.
    content: Digest,
    certificate: Certificate,
    checked: Checked,
    revoked: bool,
    parts: Vec<Part>,
}

/// The primary key or a subkey.
#[derive(Clone, Debug)]
struct Part {
    fingerprint: Fingerprint,
    id: KeyId,
    created: u64,
    revoked: bool,
    /// Why the key itself is too weak.
    weak: Option<String>,
    /// The curve, where signatures on it cannot be judged.
    unsupported: Option<String>,
    primary: bool,
}

/// The certificate that a recipe's fingerprint names. The error fits after "the OpenPGP key".
pub fn pinned(certificates: &[SignedPublicKey], asked: &str) -> Result<Key, String> {
    let plain: String = asked.chars().filter(|c| !c.is_whitespace()).collect();
    let plain = plain.to_ascii_uppercase();
    let plain = plain.strip_prefix("0X").unwrap_or(&plain);
    if plain.is_empty() || !plain.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(format!("is pinned by {asked}, which is not hexadecimal"));
    }
    match plain.len() {
        40 | 64 => {}
        8 | 16 => {
            return Err(format!(
                "is pinned by the short id {plain}, which anyone can make again: give the full fingerprint \
                 of 40 or 64 digits, which gpg --fingerprint shows"
            ));
        }
        32 => {
            return Err(format!(
                "is pinned by {plain}, the MD5 fingerprint of a version 3 key, which proves nothing"
            ));
        }
        n => {
            return Err(format!(
                "is pinned by {plain}, which has {n} hex digits; a fingerprint has 40 or 64"
            ));
        }
    }
    let named = |key: &dyn KeyDetails| hex_of(&key.fingerprint()) == plain;
    if let Some(found) = certificates.iter().find(|c| named(&c.primary_key)) {
        return Key::of(found.clone());
    }
    let part = certificates
        .iter()
        .find(|c| c.public_subkeys.iter().any(|s| named(&s.key)));
    Err(match part {
        Some(whole) => format!(
            "is pinned by {plain}, which is a subkey: give its primary key's fingerprint {}",
            hex_of(&whole.primary_key.fingerprint())
        ),
        None => {
            let there: Vec<String> = certificates
                .iter()
                .map(|c| hex_of(&c.primary_key.fingerprint()))
                .collect();
            format!("holds no {plain}, only {}", there.join(", "))
        }
    })
}

impl Key {
    fn of(mut whole: SignedPublicKey) -> Result<Self, String> {
        let fingerprint = whole.primary_key.fingerprint();
        let name = hex_of(&fingerprint);
        let content = whole
            .to_bytes()
            .map_err(|_| format!("{name} cannot be read: it is damaged"))?;
        let content = Digest::sha256_of(&content);
        if !matches!(whole.primary_key.version(), KeyVersion::V4 | KeyVersion::V6) {
            return Err(format!("{name} is of a version that winimg does not take"));
        }
        if let Some(curve) = unsupported(whole.primary_key.public_params()) {
            return Err(format!(
                "{name} is on the curve {curve}, which winimg does not support: ask its owner for a key on Ed25519, a NIST curve, or RSA"
            ));
        }
        let parts = parts(&whole);
        let newest = parts.iter().map(|p| p.created).max().unwrap_or_default();
        let mut all = signatures(&mut whole).into_iter().flatten();
        if all.any(|s| is_beyond(s, newest)) {
            return Err(format!(
                "{name} is limited to a time after 2106, which OpenPGP cannot say"
            ));
        }
        let revoked = !whole.details.revocation_signatures.is_empty();
        for stack in signatures(&mut whole) {
            stack.retain(is_strongly_made);
        }
        let certificate = Certificate::from(whole);
        let checked = Checked::new(certificate.clone());
        let own = &checked.as_signed_public_key().details;
        let named = own.users.iter().any(|u| !u.signatures.is_empty());
        if !revoked && !named && own.direct_signatures.is_empty() {
            return Err(format!(
                "{name} is bound to no name by SHA-256 or better: ask its owner for a new key file"
            ));
        }
        Ok(Self {
            fingerprint,
            content,
            certificate,
            checked,
            revoked,
            parts,
        })
    }

    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint.clone()
    }

    /// The digest of the whole certificate, as text.
    pub fn content(&self) -> String {
        self.content.to_string()
    }

    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The full fingerprint.
    pub fn name(&self) -> String {
        hex_of(&self.fingerprint)
    }

    fn maker(&self, signature: &Signature) -> Option<&Part> {
        let full = signature.issuer_fingerprint();
        let ids = signature.issuer_key_id();
        self.parts
            .iter()
            .find(|p| full.contains(&&p.fingerprint) || ids.contains(&&p.id))
    }

    /// Whether the signature names this key or a subkey of it as its maker.
    pub fn claimed_by(&self, signature: &Signature) -> bool {
        self.maker(signature).is_some()
    }

    /// The part that the signature names, if it may have signed a file at that time, and might still now.
    pub fn may_have_made(
        &self,
        signature: &Signature,
        now: Timestamp,
    ) -> Result<Fingerprint, Refusal> {
        let Some(part) = self.maker(signature) else {
            return Err(Reason::OtherKey.refusal("no pinned key made it"));
        };
        let name = self.name();
        // A revoked key takes its subkeys with it.
        let whose = match part.primary || self.revoked {
            true => format!("the key {name}"),
            false => format!("the subkey {} of {name}", hex_of(&part.fingerprint)),
        };
        if self.revoked || part.revoked {
            return Err(Reason::Revoked
                .refusal(format!("{whose} is revoked"))
                .cure("ask its owner which key signs now"));
        }
        if let Some(curve) = &part.unsupported {
            let fact = format!("{whose} is on the curve {curve}, which winimg does not support");
            return Err(Reason::Unsupported.refusal(fact));
        }
        if let Some(weak) = &part.weak {
            return Err(Reason::Weak.refusal(format!("{whose} is {weak}")));
        }
        packets::in_time(signature, now.as_secs().into())?;
        let made = signature.created().unwrap_or(now);
        if u64::from(made.as_secs()) < part.created {
            return Err(Reason::NotYetValid
                .refusal(format!("it is older than {whose}"))
                .expected(format!("at least {}", shown(part.created)))
                .found(shown(made.as_secs().into())));
        }
        self.in_force(part, &whose, made, "when it was made")?;
        self.in_force(part, &whose, now, "by now")?;
        Ok(part.fingerprint.clone())
    }

    fn in_force(
        &self,
        part: &Part,
        whose: &str,
        time: Timestamp,
        when: &str,
    ) -> Result<(), Refusal> {
        let seconds = u64::from(time.as_secs());
        if let Some(end) = self.end(part, time).filter(|end| *end <= seconds) {
            return Err(Reason::Expired
                .refusal(format!("{whose} had expired {when}"))
                .expected(format!("later than {}", shown(seconds)))
                .found(shown(end))
                .cure("ask its owner for a key file that says a later time"));
        }
        let able = self.checked.valid_signing_capable_component_keys_at(time);
        let mut able = able.iter().map(|v| v.as_componentkey().fingerprint());
        if able.any(|fingerprint| fingerprint == part.fingerprint) {
            return Ok(());
        }
        let fact = format!("{whose} is not one that may sign files");
        Err(Reason::WrongUse.refusal(fact))
    }

    /// When the subkey, or the key above it, ends.
    fn end(&self, part: &Part, at: Timestamp) -> Option<u64> {
        let ends = |signature: &Signature, created: u64| {
            let span = u64::from(signature.key_expiration_time()?.as_secs());
            (span != 0).then_some(created + span)
        };
        let whole = self.checked.as_signed_public_key();
        let primary = self
            .checked
            .active_certificate_self_signature_at(at)
            .and_then(|s| ends(s, u64::from(whole.primary_key.created_at().as_secs())));
        let own = whole
            .public_subkeys
            .iter()
            .filter(|s| s.key.fingerprint() == part.fingerprint)
            .flat_map(|s| &s.signatures)
            .filter(|s| s.typ() == Some(SignatureType::SubkeyBinding))
            .filter(|s| s.created().is_some_and(|c| c <= at))
            .max_by_key(|s| s.created().map(Timestamp::as_secs))
            .and_then(|s| ends(s, part.created));
        [primary, own].into_iter().flatten().min()
    }
}

/// Every signature that makes something of a key, a revocation aside: those count in any strength.
fn signatures(whole: &mut SignedPublicKey) -> Vec<&mut Vec<Signature>> {
    let details = &mut whole.details;
    let names = details.users.iter_mut().map(|u| &mut u.signatures);
    let pictures = details
        .user_attributes
        .iter_mut()
        .map(|u| &mut u.signatures);
    let subkeys = whole.public_subkeys.iter_mut().map(|s| &mut s.signatures);
    let mut all: Vec<_> = names.chain(pictures).chain(subkeys).collect();
    all.push(&mut details.direct_signatures);
    all
}

fn is_strongly_made(signature: &Signature) -> bool {
    let strong = |s: &Signature| s.hash_alg().is_some_and(packets::is_strong);
    is_revocation(signature)
        || strong(signature) && signature.embedded_signature().is_none_or(strong)
}

/// Times have 32 bits, and a reader's sum of two of them must not wrap round into the past.
fn is_beyond(signature: &Signature, newest: u64) -> bool {
    let span = signature.key_expiration_time().map_or(0, |d| d.as_secs());
    let end = newest + u64::from(span);
    let inner = signature.embedded_signature();
    [Some(signature), inner].into_iter().flatten().any(|s| {
        end > u64::from(u32::MAX) || packets::expiry(s).is_some_and(|e| e > u64::from(u32::MAX))
    })
}

fn is_revocation(signature: &Signature) -> bool {
    matches!(
        signature.typ(),
        Some(
            SignatureType::KeyRevocation
                | SignatureType::SubkeyRevocation
                | SignatureType::CertRevocation
        )
    )
}

fn parts(whole: &SignedPublicKey) -> Vec<Part> {
    let part = |key: &dyn KeyDetails, primary: bool, revoked: bool| Part {
        fingerprint: key.fingerprint(),
        id: key.legacy_key_id(),
        created: u64::from(key.created_at().as_secs()),
        revoked,
        weak: weakness(key.public_params()),
        unsupported: unsupported(key.public_params()),
        primary,
    };
    let primary = part(&whole.primary_key, true, false);
    let subkeys = whole.public_subkeys.iter().map(|s| {
        let revoked = s.signatures.iter().any(is_revocation);
        part(&s.key, false, revoked)
    });
    std::iter::once(primary).chain(subkeys).collect()
}

/// The name of a curve that the library keeps as opaque bytes.
fn unsupported(parameters: &PublicParams) -> Option<String> {
    let curve = match parameters {
        PublicParams::ECDSA(EcdsaPublicParams::Unsupported { curve, .. })
        | PublicParams::EdDSALegacy(EddsaLegacyPublicParams::Unsupported { curve, .. }) => curve,
        _ => return None,
    };
    Some(match curve {
        ECCCurve::Unknown(_) => curve.oid_str(),
        _ => curve.name().to_string(),
    })
}

fn weakness(parameters: &PublicParams) -> Option<String> {
    match parameters {
        PublicParams::DSA(_) => Some("a DSA key".into()),
        PublicParams::RSA(_) => {
            // The modulus comes first, after its length in bits (RFC 9580, 3.2).
            let bytes = parameters.to_bytes().ok()?;
            let bits = u16::from_be_bytes([*bytes.first()?, *bytes.get(1)?]);
            (bits < 2048).then(|| format!("an RSA key of {bits} bits"))
        }
        _ => None,
    }
}
