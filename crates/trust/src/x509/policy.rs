//! The policy for every signature by certificate: hash, content, time, chain, and the recipe's
//! pins.
//!
//! A valid certificate alone proves nothing: no signature meets a rule without a root, or with only
//! a root. A usage that a root gives to all its signers (code signing) is not a pin.

use der::asn1::ObjectIdentifier;

use super::certificate::Certificate;
use super::chain::{self, CheckTime, TimeSource, VerifiedChain};
use super::moment::Moment;
use super::name::DistinguishedName;
use super::oid::{NESTED_SIGNATURE, Oid};
use super::purpose::{self, CertificateUse};
use super::signed_data::SignedData;
use super::timestamp::{self, VerifiedTimestamp};
use super::{misused, revocation};
use crate::uncovered::UncoveredRange;
use crate::{RefusalReason, RevocationLists, Scheme, SignatureRefusal, Signer};
use winimg_base::digest::Digest;

/// A certificate with this usage signs for its lifetime only: a timestamp does not extend it.
/// (Microsoft: szOID_KP_LIFETIME_SIGNING)
const LIFETIME_SIGNING: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.10.3.13");

pub struct CertificatePolicy<'r> {
    pub scheme: Scheme,
    pub pins: &'r CertificatePins,
    pub needs_timestamp: bool,
    pub wanted: CertificateUse,
    pub now: Moment,
    /// The provided revocation lists.
    pub lists: Option<&'r RevocationLists>,
}

/// A signature that met its rule.
pub struct VerifiedSigner {
    pub signer: Signer,
    /// Ranges of the signature that are not covered.
    pub uncovered: Vec<UncoveredRange>,
}

impl CertificatePolicy<'_> {
    /// Verifies a signature. `covers` checks that it matches the file.
    pub fn judge(
        &self,
        signed: &SignedData<'_>,
        covers: impl FnOnce(&SignedData<'_>) -> Result<(), SignatureRefusal>,
    ) -> Result<VerifiedSigner, SignatureRefusal> {
        let pins = self.pins;
        check_pins_identify(pins)?;
        signed.signer.hash()?;
        covers(signed)?;
        let leaf = signed.signer_certificate()?;
        signed.signer.check_value(&leaf)?;
        self.wanted.check(&leaf)?;
        let mut remarks = Vec::new();
        let stamp = self.verify_timestamp(signed, &mut remarks);
        // If the recipe names a wrong root, neither chain ends there: report that of the signer.
        let stamp = stamp.map_err(|refusal| match refusal.reason {
            RefusalReason::OtherRoot => self.other_root(signed, &leaf).unwrap_or(refusal),
            _ => refusal,
        })?;
        let moment = stamp.as_ref().map(|stamp| stamp.moment);
        let at = self.choose_time(&leaf, moment, &mut remarks);
        let chain = chain::verify(
            &leaf,
            &signed.certificates,
            &pins.roots,
            at,
            self.wanted,
            pins.issuer.as_ref(),
        )?;
        misused::check(&chain.path, &pins.accepted)?;
        if pins.needs_lists {
            remarks.extend(self.check_revocation(&chain, at, stamp.as_ref())?);
        }
        let mut used = chain.hash_certificates(&pins.roots);
        let pinned_by = match_pins(pins, &leaf, chain)?;
        remarks.extend(describe_unsigned_attributes(signed));
        let timestamps = match stamp {
            Some(stamp) => {
                used.extend(stamp.chain.hash_certificates(&[]));
                stamp.uncovered
            }
            None => timestamp::find_unused(signed, None)?,
        };
        let mut uncovered = signed.list_uncovered(&used, &[])?;
        uncovered.extend(timestamps);
        let signer = Signer {
            scheme: self.scheme,
            signer: leaf.subject_text(),
            pinned_by,
            signed_at: moment.map(|moment| moment.to_string()),
            remarks,
        };
        Ok(VerifiedSigner { signer, uncovered })
    }

    /// Returns the refusal if the signer's chain does not end at a root of the recipe, regardless
    /// of time.
    fn other_root(
        &self,
        signed: &SignedData<'_>,
        leaf: &Certificate<'_>,
    ) -> Option<SignatureRefusal> {
        let at = CheckTime {
            moment: leaf.not_before,
            by: TimeSource::Present,
        };
        let (set, roots) = (&signed.certificates, &self.pins.roots);
        let chain = chain::verify(leaf, set, roots, at, self.wanted, None);
        chain
            .err()
            .filter(|refusal| refusal.reason == RefusalReason::OtherRoot)
    }

    /// Checks that no certificate of the signer or of the timestamp authority is revoked. Returns
    /// remarks.
    fn check_revocation(
        &self,
        chain: &VerifiedChain,
        at: CheckTime,
        stamp: Option<&VerifiedTimestamp>,
    ) -> Result<Vec<String>, SignatureRefusal> {
        let none = RevocationLists::default();
        let lists = self.lists.unwrap_or(&none);
        let mut remarks = revocation::check(&chain.path, lists, at, self.now)?;
        if let Some(VerifiedTimestamp { moment, chain, .. }) = stamp {
            let at = CheckTime {
                moment: *moment,
                by: TimeSource::Timestamp,
            };
            let mut more = revocation::check(&chain.path, lists, at, self.now)
                .map_err(|refusal| refusal.with_prefix("its timestamp: "))?;
            more.retain(|remark| !remarks.contains(remark));
            remarks.extend(more);
        }
        Ok(remarks)
    }

    fn verify_timestamp(
        &self,
        signed: &SignedData<'_>,
        remarks: &mut Vec<String>,
    ) -> Result<Option<VerifiedTimestamp>, SignatureRefusal> {
        let pins = self.pins;
        let roots = if pins.timestamp_roots.is_empty() {
            &pins.roots
        } else {
            &pins.timestamp_roots
        };
        match timestamp::verify_timestamp(signed, roots) {
            Ok(Some(stamp)) => Ok(Some(stamp)),
            Ok(None) if self.needs_timestamp => Err(RefusalReason::NoTimestamp
                .refusal("it has no timestamp")
                .expected("an RFC 3161 timestamp")
                .cure(
                    "ask the publisher for a timestamped file, or allow it with \
                     `timestamp = \"optional\"`",
                )),
            Ok(None) => {
                remarks
                    .push("it has no timestamp; its certificate was checked at build time".into());
                Ok(None)
            }
            Err(refusal) if self.needs_timestamp => Err(refusal),
            Err(refusal) => {
                remarks.push(format!(
                    "{}; its certificate was checked at build time",
                    refusal.problem.fact
                ));
                Ok(None)
            }
        }
    }

    fn choose_time(
        &self,
        leaf: &Certificate<'_>,
        stamped: Option<Moment>,
        remarks: &mut Vec<String>,
    ) -> CheckTime {
        match stamped {
            Some(_) if leaf.is_for(LIFETIME_SIGNING) => {
                remarks.push(
                    "its certificate disallows timestamps (lifetime signing); it was checked at \
                     build time"
                        .into(),
                );
                CheckTime {
                    moment: self.now,
                    by: TimeSource::Lifetime,
                }
            }
            Some(moment) => CheckTime {
                moment,
                by: TimeSource::Timestamp,
            },
            None => CheckTime {
                moment: self.now,
                by: TimeSource::Present,
            },
        }
    }
}

/// Checks that the pins identify a signer, because a root alone vouches for many.
fn check_pins_identify(pins: &CertificatePins) -> Result<(), SignatureRefusal> {
    let is_ambiguous = pins
        .subject
        .as_ref()
        .is_some_and(|pin| DistinguishedName::parse(pin).is_ok_and(|name| !name.is_identifying()));
    if pins.subject.is_some() && !is_ambiguous || pins.issuer.is_some() || pins.leaf.is_some() {
        return Ok(());
    }
    let fact = match pins.eku.as_deref() {
        None if is_ambiguous => {
            "the recipe names a root and a subject that thousands of its signers share"
        }
        None => "the recipe names only a root, which vouches for many signers",
        Some(eku) if purpose::is_common(eku) => {
            "the recipe names a root and a usage that many of its signers share"
        }
        Some(_) => return Ok(()),
    };
    Err(RefusalReason::OtherIdentity
        .refusal(fact)
        .cure("add a `subject`, `eku`, `issuer` or `leaf` to the `roots`"))
}

/// Returns a remark about unsigned attributes, which do not affect the file but may contain a
/// payload.
fn describe_unsigned_attributes(signed: &SignedData<'_>) -> Option<String> {
    let [token, cms_token] = timestamp::TOKENS;
    let known = [
        token,
        cms_token,
        timestamp::COUNTERSIGNATURE,
        NESTED_SIGNATURE,
    ];
    let others = signed.signer.other_unsigned(&known);
    let bytes: usize = others.iter().map(|(_, bytes)| bytes.len()).sum();
    let types: Vec<String> = others.iter().map(|(oid, _)| oid.to_string()).collect();
    (!types.is_empty()).then(|| {
        format!(
            "its unsigned attributes contain {bytes} bytes ({})",
            types.join(", ")
        )
    })
}

/// A pin that does not match: the fact, the expected and the found value.
type PinMismatch = (&'static str, String, String);

fn match_subject(pin: &str, leaf: &Certificate<'_>) -> Result<String, PinMismatch> {
    let found = leaf.subject_text();
    match (
        DistinguishedName::parse(pin),
        DistinguishedName::read(leaf.subject),
    ) {
        (Ok(wanted), Ok(name)) if name.contains(&wanted) => Ok(format!("subject {pin}")),
        (Err(why), _) => Err((
            "the subject in the recipe is invalid",
            format!("a distinguished name; this one {why}"),
            found,
        )),
        _ => Err((
            "its certificate has a different subject",
            format!("subject {pin}"),
            found,
        )),
    }
}

fn match_eku(pin: &str, leaf: &Certificate<'_>) -> Result<String, PinMismatch> {
    let wanted = format!("EKU {pin}");
    let purposes: Vec<String> = leaf.purposes.iter().flatten().map(Oid::to_string).collect();
    if purposes.iter().any(|purpose| purpose == pin) {
        return Ok(wanted);
    }
    let fact = "its certificate does not have the EKU";
    Err((fact, wanted, purposes.join(", ")))
}

fn match_issuer(pin: &[u8; 32], issuers: &[Digest]) -> Result<String, PinMismatch> {
    let wanted = format!("issuer sha256:{}", hex::encode(pin));
    if issuers.iter().any(|issuer| issuer.bytes() == pin) {
        return Ok(wanted);
    }
    let through: Vec<String> = issuers.iter().map(Digest::to_string).collect();
    let found = if through.is_empty() {
        "no issuer between leaf and root".into()
    } else {
        through.join(", ")
    };
    Err(("its chain does not include the issuer", wanted, found))
}

fn match_leaf(pin: &[u8; 32], leaf: &Certificate<'_>) -> Result<String, PinMismatch> {
    let wanted = format!("leaf sha256:{}", hex::encode(pin));
    let found = Digest::sha256_of(leaf.der);
    if found.bytes() == pin {
        return Ok(wanted);
    }
    let fact = "its certificate is a different one";
    Err((fact, wanted, found.to_string()))
}

/// Checks all pins and describes them. All that do not match are reported at once.
fn match_pins(
    pins: &CertificatePins,
    leaf: &Certificate<'_>,
    chain: VerifiedChain,
) -> Result<String, SignatureRefusal> {
    let subject = pins.subject.as_ref().map(|pin| match_subject(pin, leaf));
    let eku = pins.eku.as_ref().map(|pin| match_eku(pin, leaf));
    let issuer = pins.issuer.as_ref();
    let issuer = issuer.map(|pin| match_issuer(pin, &chain.issuers));
    let own = pins.leaf.as_ref().map(|pin| match_leaf(pin, leaf));
    let mut met = vec![chain.root];
    let (mut facts, mut expected, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for pin in [subject, eku, issuer, own].into_iter().flatten() {
        match pin {
            Ok(text) => met.push(text),
            Err((fact, wanted, actual)) => {
                facts.push(fact);
                expected.push(wanted);
                found.push(actual);
            }
        }
    }
    if facts.is_empty() {
        return Ok(met.join(", "));
    }
    Err(RefusalReason::OtherIdentity
        .refusal(facts.join("; "))
        .expected(expected.join("; "))
        .found(found.join("; ")))
}

/// Combines the results for all signatures of a file. One valid signature is enough; it is returned
/// with its index, and remarks explain why the others are invalid. If none is valid, all reasons
/// are returned.
pub fn choose_signature(
    judged: Vec<Result<VerifiedSigner, SignatureRefusal>>,
) -> Result<(usize, VerifiedSigner), SignatureRefusal> {
    let count = judged.len();
    let mut chosen: Option<(usize, VerifiedSigner)> = None;
    let mut refusals = Vec::new();
    for (number, result) in judged.into_iter().enumerate() {
        match result {
            Ok(verified) if chosen.is_none() => chosen = Some((number, verified)),
            Ok(_) => {}
            Err(refusal) => refusals.push((number + 1, refusal)),
        }
    }
    if let Some((number, mut verified)) = chosen {
        for (number, refusal) in refusals {
            verified.signer.remarks.push(format!(
                "signature {number} of {count} was ignored: {}",
                refusal.problem.fact
            ));
        }
        return Ok((number, verified));
    }
    if refusals.len() == 1 {
        return Err(refusals.remove(0).1);
    }
    // The reason of a weak or unsupported signature beside the intended one is less relevant.
    let reason = refusals
        .iter()
        .find(|(_, r)| !matches!(r.reason, RefusalReason::Weak | RefusalReason::Unsupported))
        .or(refusals.first())
        .map_or(RefusalReason::Missing, |(_, r)| r.reason);
    let each: Vec<String> = refusals
        .iter()
        .map(|(number, r)| format!("signature {number}: {}", r.problem.in_one_line()))
        .collect();
    Err(reason.refusal(format!(
        "none of its {count} signatures is valid: {}",
        each.join("; ")
    )))
}

/// Pins for the signer's certificate: roots, and at least one of the others.
#[derive(Clone, Debug, Default)]
pub struct CertificatePins {
    /// DER certificates.
    pub roots: Vec<Vec<u8>>,
    /// Roots of the timestamp authority; defaults to `roots`.
    pub timestamp_roots: Vec<Vec<u8>>,
    /// RFC 4514: `CN=Example Corp,O=Example Corp,C=US`, or some of the attributes, such as
    /// `CN=Example Corp`. Whole attributes must match.
    pub subject: Option<String>,
    /// A durable EKU of the leaf, dotted.
    pub eku: Option<String>,
    /// SHA-256 of an intermediate's DER that must be in the chain.
    pub issuer: Option<[u8; 32]>,
    /// SHA-256 of the leaf's DER.
    pub leaf: Option<[u8; 32]>,
    /// Each certificate must be covered by a revocation list, and not be revoked.
    pub needs_lists: bool,
    /// Serial numbers, in hexadecimal, of certificates that are accepted although winimg lists them
    /// as misused.
    pub accepted: Vec<String>,
}
