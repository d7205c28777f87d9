//! A pinned certificate, and its permission to sign at a given time.
//!
//! rpgpie checks the certificate's self-signatures; weak ones are removed first, so that nothing
//! depends on them.

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

use super::super::{RefusalReason, SignatureRefusal};
use super::packets::{self, render_fingerprint, render_time};

#[derive(Clone, Debug)]
pub struct OpenPgpKey {
    fingerprint: Fingerprint,
    /// Digest of the whole certificate, with all names, subkeys and signatures.
    content: Digest,
    certificate: Certificate,
    checked: Checked,
    revoked: bool,
    parts: Vec<OpenPgpKeyPart>,
}

/// The primary key or a subkey.
#[derive(Clone, Debug)]
struct OpenPgpKeyPart {
    fingerprint: Fingerprint,
    id: KeyId,
    created: u64,
    revoked: bool,
    /// Description of the weakness, if the key is too weak.
    weak: Option<String>,
    /// The curve, if it is not supported.
    unsupported: Option<String>,
    primary: bool,
}

/// Finds the certificate with a recipe's fingerprint. The error fits after "the OpenPGP key".
pub fn find_pinned(certificates: &[SignedPublicKey], wanted: &str) -> Result<OpenPgpKey, String> {
    let plain: String = wanted.chars().filter(|c| !c.is_whitespace()).collect();
    let plain = plain.to_ascii_uppercase();
    let plain = plain.strip_prefix("0X").unwrap_or(&plain);
    if plain.is_empty() || !plain.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(format!("is pinned by {wanted}, which is not hexadecimal"));
    }
    match plain.len() {
        40 | 64 => {}
        8 | 16 => {
            return Err(format!(
                "is pinned by the short id {plain}, which can be forged: use the full fingerprint \
                 of 40 or 64 digits, as shown by gpg --fingerprint"
            ));
        }
        32 => {
            return Err(format!(
                "is pinned by {plain}, the MD5 fingerprint of a version 3 key, which is insecure"
            ));
        }
        n => {
            return Err(format!(
                "is pinned by {plain}, which has {n} hex digits; a fingerprint has 40 or 64"
            ));
        }
    }
    let found = certificates
        .iter()
        .find(|c| render_fingerprint(&c.primary_key.fingerprint()) == plain);
    if let Some(found) = found {
        return OpenPgpKey::from_certificate(found.clone());
    }
    let part = certificates.iter().find(|c| {
        let mut subkeys = c.public_subkeys.iter();
        subkeys.any(|subkey| render_fingerprint(&subkey.key.fingerprint()) == plain)
    });
    Err(match part {
        Some(whole) => format!(
            "is pinned by {plain}, which is a subkey: use its primary key's fingerprint {}",
            render_fingerprint(&whole.primary_key.fingerprint())
        ),
        None => {
            let there: Vec<String> = certificates
                .iter()
                .map(|c| render_fingerprint(&c.primary_key.fingerprint()))
                .collect();
            format!("file does not contain {plain}, only {}", there.join(", "))
        }
    })
}

impl OpenPgpKey {
    fn from_certificate(mut whole: SignedPublicKey) -> Result<Self, String> {
        let fingerprint = whole.primary_key.fingerprint();
        let name = render_fingerprint(&fingerprint);
        let content = whole.to_bytes().map_err(|_| format!("{name} is damaged"))?;
        let content = Digest::sha256_of(&content);
        if !matches!(whole.primary_key.version(), KeyVersion::V4 | KeyVersion::V6) {
            return Err(format!("{name} has an unsupported version"));
        }
        if let Some(curve) = find_unsupported_curve(whole.primary_key.public_params()) {
            return Err(format!(
                "{name} uses the curve {curve}, which is not supported: ask its owner for a key on \
                 Ed25519, a NIST curve, or RSA"
            ));
        }
        let parts = collect_parts(&whole);
        let newest = parts.iter().map(|p| p.created).max().unwrap_or_default();
        let mut all = collect_signatures(&mut whole).into_iter().flatten();
        if all.any(|s| is_beyond(s, newest)) {
            return Err(format!(
                "{name} has an expiration time after 2106, the maximum of a 32-bit timestamp"
            ));
        }
        let revoked = !whole.details.revocation_signatures.is_empty();
        for signatures in collect_signatures(&mut whole) {
            signatures.retain(is_strongly_made);
        }
        let certificate = Certificate::from(whole);
        let checked = Checked::new(certificate.clone());
        let own = &checked.as_signed_public_key().details;
        let named = own.users.iter().any(|u| !u.signatures.is_empty());
        if !revoked && !named && own.direct_signatures.is_empty() {
            return Err(format!(
                "{name} has no self-signature with SHA-256 or better: ask its owner for a new key \
                 file"
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

    /// Returns the digest of the whole certificate as text.
    pub fn content_digest(&self) -> String {
        self.content.to_string()
    }

    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Returns the full fingerprint as text.
    pub fn name(&self) -> String {
        render_fingerprint(&self.fingerprint)
    }

    fn find_issuer(&self, signature: &Signature) -> Option<&OpenPgpKeyPart> {
        let full = signature.issuer_fingerprint();
        let ids = signature.issuer_key_id();
        self.parts
            .iter()
            .find(|p| full.contains(&&p.fingerprint) || ids.contains(&&p.id))
    }

    /// Returns true if the signature names this key or a subkey of it as its issuer.
    pub fn is_named_by(&self, signature: &Signature) -> bool {
        self.find_issuer(signature).is_some()
    }

    /// Returns the fingerprint of the part that the signature names, if it was allowed to sign
    /// files at that time and still is.
    pub fn check_allowed(
        &self,
        signature: &Signature,
        now: Timestamp,
    ) -> Result<Fingerprint, SignatureRefusal> {
        let Some(part) = self.find_issuer(signature) else {
            return Err(RefusalReason::OtherKey.refusal("no pinned key made it"));
        };
        let name = self.name();
        // Revoking a key also revokes its subkeys.
        let key_description = if part.primary || self.revoked {
            format!("the key {name}")
        } else {
            format!(
                "the subkey {} of {name}",
                render_fingerprint(&part.fingerprint)
            )
        };
        if self.revoked || part.revoked {
            return Err(RefusalReason::Revoked
                .refusal(format!("{key_description} is revoked"))
                .cure("ask its owner which key signs now"));
        }
        if let Some(curve) = &part.unsupported {
            let fact = format!("{key_description} uses the curve {curve}, which is not supported");
            return Err(RefusalReason::Unsupported.refusal(fact));
        }
        if let Some(weak) = &part.weak {
            return Err(RefusalReason::Weak.refusal(format!("{key_description} is {weak}")));
        }
        packets::check_lifetime(signature, now.as_secs().into())?;
        let made = signature.created().unwrap_or(now);
        if u64::from(made.as_secs()) < part.created {
            return Err(RefusalReason::NotYetValid
                .refusal(format!("it is dated before {key_description} was created"))
                .expected(format!("at least {}", render_time(part.created)))
                .found(render_time(made.as_secs().into())));
        }
        self.in_force(part, &key_description, made, "had expired when it was made")?;
        self.in_force(part, &key_description, now, "has expired")?;
        Ok(part.fingerprint.clone())
    }

    fn in_force(
        &self,
        part: &OpenPgpKeyPart,
        key_description: &str,
        time: Timestamp,
        verdict: &str,
    ) -> Result<(), SignatureRefusal> {
        let seconds = u64::from(time.as_secs());
        if let Some(end) = self.end(part, time).filter(|end| *end <= seconds) {
            return Err(RefusalReason::Expired
                .refusal(format!("{key_description} {verdict}"))
                .expected(format!("later than {}", render_time(seconds)))
                .found(render_time(end))
                .cure("ask its owner for a key file with a later expiration time"));
        }
        let able = self.checked.valid_signing_capable_component_keys_at(time);
        let mut able = able.iter().map(|v| v.as_componentkey().fingerprint());
        if able.any(|fingerprint| fingerprint == part.fingerprint) {
            return Ok(());
        }
        let fact = format!("{key_description} is not allowed to sign files");
        Err(RefusalReason::WrongUse.refusal(fact))
    }

    /// Returns the time at which the subkey, or the key above it, expires.
    fn end(&self, part: &OpenPgpKeyPart, at: Timestamp) -> Option<u64> {
        let whole = self.checked.as_signed_public_key();
        let primary = self
            .checked
            .active_certificate_self_signature_at(at)
            .and_then(|s| key_expiry(s, u64::from(whole.primary_key.created_at().as_secs())));
        let own = whole
            .public_subkeys
            .iter()
            .filter(|s| s.key.fingerprint() == part.fingerprint)
            .flat_map(|s| &s.signatures)
            .filter(|s| s.typ() == Some(SignatureType::SubkeyBinding))
            .filter(|s| s.created().is_some_and(|c| c <= at))
            .max_by_key(|s| s.created().map(Timestamp::as_secs))
            .and_then(|s| key_expiry(s, part.created));
        [primary, own].into_iter().flatten().min()
    }
}

fn key_expiry(signature: &Signature, created: u64) -> Option<u64> {
    let span = u64::from(signature.key_expiration_time()?.as_secs());
    (span != 0).then_some(created + span)
}

/// Returns all signatures of a certificate except key revocations, which are accepted with any
/// hash.
fn collect_signatures(whole: &mut SignedPublicKey) -> Vec<&mut Vec<Signature>> {
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
    is_revocation(signature)
        || has_strong_hash(signature) && signature.embedded_signature().is_none_or(has_strong_hash)
}

fn has_strong_hash(signature: &Signature) -> bool {
    signature.hash_alg().is_some_and(packets::is_strong)
}

/// Returns true if an expiration time exceeds 32 bits, because a reader's sum could then wrap
/// around to a time in the past.
fn is_beyond(signature: &Signature, newest: u64) -> bool {
    let span = signature.key_expiration_time().map_or(0, |d| d.as_secs());
    let end = newest + u64::from(span);
    let inner = signature.embedded_signature();
    [Some(signature), inner].into_iter().flatten().any(|s| {
        end > u64::from(u32::MAX)
            || packets::find_expiry(s).is_some_and(|e| e > u64::from(u32::MAX))
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

fn collect_parts(whole: &SignedPublicKey) -> Vec<OpenPgpKeyPart> {
    let primary = build_part(&whole.primary_key, true, false);
    let subkeys = whole.public_subkeys.iter().map(|s| {
        let revoked = s.signatures.iter().any(is_revocation);
        build_part(&s.key, false, revoked)
    });
    std::iter::once(primary).chain(subkeys).collect()
}

fn build_part(key: &dyn KeyDetails, primary: bool, revoked: bool) -> OpenPgpKeyPart {
    OpenPgpKeyPart {
        fingerprint: key.fingerprint(),
        id: key.legacy_key_id(),
        created: u64::from(key.created_at().as_secs()),
        revoked,
        weak: describe_weakness(key.public_params()),
        unsupported: find_unsupported_curve(key.public_params()),
        primary,
    }
}

/// Returns the name of a curve that the library does not support.
fn find_unsupported_curve(parameters: &PublicParams) -> Option<String> {
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

fn describe_weakness(parameters: &PublicParams) -> Option<String> {
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
