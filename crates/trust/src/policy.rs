//! What every signature by certificate has to meet: a hash that holds, its own bytes, a time, a chain, and the recipe's pins.
//!
//! Refuses to believe a certificate for its being well made: a rule without a root, or with a root alone, is met by nothing;
//! a use that a root gives to all its signers (code signing) is no pin.

use der::asn1::ObjectIdentifier;

use super::certificate::Certificate;
use super::chain::{self, At, Chain, Clock};
use super::moment::Moment;
use super::name::Name;
use super::oid::NESTED;
use super::oid::Oid;
use super::place::Open;
use super::purpose::{self, Use};
use super::signed_data::SignedData;
use super::timestamp::{self, Stamp};
use super::{Lists, Reason, Refusal, Scheme, Signer, misused, revocation};
use winimg_base::digest::Digest;

/// "A timestamp does not lengthen what this certificate signs." (Microsoft: szOID_KP_LIFETIME_SIGNING)
const LIFETIME_SIGNING: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.10.3.13");

pub(super) struct Policy<'r> {
    pub(super) scheme: Scheme,
    pub(super) pins: &'r Pins,
    pub(super) needs_timestamp: bool,
    pub(super) wanted: Use,
    pub(super) now: Moment,
    /// The lists of revoked certificates that were brought.
    pub(super) lists: Option<&'r Lists>,
}

/// A signature that met its rule.
pub(super) struct Met {
    pub(super) signer: Signer,
    /// What of the signature nothing covers.
    pub(super) open: Vec<Open>,
}

impl Policy<'_> {
    /// Judges one signature. `covers` says whether it is of the file's bytes.
    pub(super) fn judge(
        &self,
        signed: &SignedData<'_>,
        covers: impl FnOnce(&SignedData<'_>) -> Result<(), Refusal>,
    ) -> Result<Met, Refusal> {
        let pins = self.pins;
        vouches_for_one(pins)?;
        signed.signer.hash()?;
        covers(signed)?;
        let leaf = signed.signer_certificate()?;
        signed.signer.check_value(&leaf)?;
        self.wanted.check(&leaf)?;
        let mut remarks = Vec::new();
        let stamp = self.stamp(signed, &mut remarks);
        // Where the recipe names a wrong root, neither chain ends there: the signer's is the one to be named.
        let stamp = stamp.map_err(|refusal| match refusal.reason {
            Reason::OtherRoot => self.other_root(signed, &leaf).unwrap_or(refusal),
            _ => refusal,
        })?;
        let moment = stamp.as_ref().map(|stamp| stamp.moment);
        let at = self.time(&leaf, moment, &mut remarks);
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
            remarks.extend(self.revoked(&chain, at, stamp.as_ref())?);
        }
        let mut used = chain.used(&pins.roots);
        let pinned_by = pinned(pins, &leaf, chain)?;
        remarks.extend(uncovered(signed));
        let timestamps = match stamp {
            Some(stamp) => {
                used.extend(stamp.chain.used(&[]));
                stamp.open
            }
            None => timestamp::untaken(signed, None)?,
        };
        let mut open = signed.open(&used, &[])?;
        open.extend(timestamps);
        let signer = Signer {
            scheme: self.scheme,
            signer: leaf.subject_text(),
            pinned_by,
            signed_at: moment.map(|moment| moment.to_string()),
            remarks,
        };
        Ok(Met { signer, open })
    }

    /// Why the signer's chain does not end at a root of the recipe, whatever the time.
    fn other_root(&self, signed: &SignedData<'_>, leaf: &Certificate<'_>) -> Option<Refusal> {
        let at = At {
            moment: leaf.not_before,
            by: Clock::Present,
        };
        let (set, roots) = (&signed.certificates, &self.pins.roots);
        let chain = chain::verify(leaf, set, roots, at, self.wanted, None);
        chain
            .err()
            .filter(|refusal| refusal.reason == Reason::OtherRoot)
    }

    /// That no certificate of the signer or of the timestamp's authority is revoked.
    fn revoked(
        &self,
        chain: &Chain,
        at: At,
        stamp: Option<&Stamp>,
    ) -> Result<Vec<String>, Refusal> {
        let none = Lists::default();
        let lists = self.lists.unwrap_or(&none);
        let mut remarks = revocation::check(&chain.path, lists, at, self.now)?;
        if let Some(Stamp { moment, chain, .. }) = stamp {
            let at = At {
                moment: *moment,
                by: Clock::Timestamp,
            };
            let judged = revocation::check(&chain.path, lists, at, self.now);
            let judged = judged.map_err(|mut refusal| {
                refusal.problem = refusal.problem.prefixed("its timestamp: ");
                refusal
            })?;
            remarks.extend(
                judged
                    .into_iter()
                    .filter(|r| !remarks.contains(r))
                    .collect::<Vec<_>>(),
            );
        }
        Ok(remarks)
    }

    fn stamp(
        &self,
        signed: &SignedData<'_>,
        remarks: &mut Vec<String>,
    ) -> Result<Option<Stamp>, Refusal> {
        let pins = self.pins;
        let roots = if pins.timestamp_roots.is_empty() {
            &pins.roots
        } else {
            &pins.timestamp_roots
        };
        match timestamp::stamp(signed, roots) {
            Ok(Some(stamp)) => Ok(Some(stamp)),
            Ok(None) if self.needs_timestamp => {
                Err(Reason::NoTimestamp.refusal("it has no timestamp, so nobody but its signer says when it was made")
                    .expected("an RFC 3161 timestamp")
                    .cure("ask the publisher for a timestamped file, or allow it with `timestamp = \"optional\"`"))
            }
            Ok(None) => {
                remarks.push("it has no timestamp: its certificate was judged by the time of the build".into());
                Ok(None)
            }
            Err(refusal) if self.needs_timestamp => Err(refusal),
            Err(refusal) => {
                remarks.push(format!("{}; its certificate was judged by the time of the build", refusal.problem.fact));
                Ok(None)
            }
        }
    }

    fn time(
        &self,
        leaf: &Certificate<'_>,
        stamped: Option<Moment>,
        remarks: &mut Vec<String>,
    ) -> At {
        let now = |by: Clock| At {
            moment: self.now,
            by,
        };
        match stamped {
            Some(_) if leaf.is_for(LIFETIME_SIGNING) => {
                remarks.push(
                    "its certificate lets no timestamp count: it was judged by the time of the build"
                        .into(),
                );
                now(Clock::Lifetime)
            }
            Some(moment) => At {
                moment,
                by: Clock::Timestamp,
            },
            None => now(Clock::Present),
        }
    }
}

/// A root vouches for many: something has to distinguish its signers.
fn vouches_for_one(pins: &Pins) -> Result<(), Refusal> {
    let names_nobody = |pin: &String| Name::parse(pin).is_ok_and(|name| !name.identifies());
    let nobody = pins.subject.as_ref().is_some_and(names_nobody);
    if pins.subject.is_some() && !nobody || pins.issuer.is_some() || pins.leaf.is_some() {
        return Ok(());
    }
    let fact = match pins.eku.as_deref() {
        None if nobody => "the recipe names a root and a subject that thousands below it have",
        None => "the recipe names a root alone, which vouches for many",
        Some(eku) if purpose::is_common(eku) => {
            "the recipe names a root and a use, and that root vouches for many of that use"
        }
        Some(_) => return Ok(()),
    };
    Err(Reason::OtherIdentity
        .refusal(fact)
        .cure("name a `subject`, `eku`, `issuer` or `leaf` beside `roots`"))
}

/// What stands in a signature where nothing covers it: harmless to the file, and room for a payload.
fn uncovered(signed: &SignedData<'_>) -> Option<String> {
    let [token, cms_token] = timestamp::TOKENS;
    let known = [token, cms_token, timestamp::COUNTERSIGNATURE, NESTED];
    let others = signed.signer.other_unsigned(&known);
    let bytes: usize = others.iter().map(|(_, bytes)| bytes.len()).sum();
    let types: Vec<String> = others.iter().map(|(oid, _)| oid.to_string()).collect();
    (!types.is_empty()).then(|| {
        format!(
            "its unsigned attributes hold {bytes} bytes that no signature covers ({})",
            types.join(", ")
        )
    })
}

/// A pin that was not met: the fact, what was expected, what was found.
type Missed = (&'static str, String, String);

fn subject(pin: &str, leaf: &Certificate<'_>) -> Result<String, Missed> {
    let found = leaf.subject_text();
    match (Name::parse(pin), Name::read(leaf.subject)) {
        (Ok(wanted), Ok(name)) if name.holds(&wanted) => Ok(format!("subject {pin}")),
        (Err(why), _) => Err((
            "the subject that the recipe names cannot be read",
            format!("a subject that is a name; this one {why}"),
            found,
        )),
        _ => Err((
            "its certificate is another subject's",
            format!("subject {pin}"),
            found,
        )),
    }
}

/// Every pin is met; the text says which. All that are not met are reported at once.
fn pinned(pins: &Pins, leaf: &Certificate<'_>, chain: Chain) -> Result<String, Refusal> {
    let mut met = vec![chain.root];
    let mut missed: Vec<Missed> = Vec::new();
    if let Some(pin) = &pins.subject {
        match subject(pin, leaf) {
            Ok(text) => met.push(text),
            Err(miss) => missed.push(miss),
        }
    }
    if let Some(eku) = &pins.eku {
        let purposes: Vec<String> = leaf.purposes.iter().flatten().map(Oid::to_string).collect();
        if purposes.contains(eku) {
            met.push(format!("EKU {eku}"));
        } else {
            missed.push((
                "its certificate has not the EKU",
                format!("EKU {eku}"),
                purposes.join(", "),
            ));
        }
    }
    if let Some(issuer) = &pins.issuer {
        let wanted = format!("issuer sha256:{}", hex::encode(issuer));
        if chain.issuers.iter().any(|d| d.bytes() == issuer) {
            met.push(wanted);
        } else {
            let through: Vec<String> = chain.issuers.iter().map(Digest::to_string).collect();
            let found = if through.is_empty() {
                "no issuer between leaf and root".into()
            } else {
                through.join(", ")
            };
            missed.push(("its chain does not pass the issuer", wanted, found));
        }
    }
    if let Some(pin) = &pins.leaf {
        let (wanted, found) = (
            format!("leaf sha256:{}", hex::encode(pin)),
            Digest::sha256_of(leaf.der),
        );
        if found.bytes() == pin {
            met.push(wanted);
        } else {
            missed.push(("its certificate is another", wanted, found.to_string()));
        }
    }
    if missed.is_empty() {
        return Ok(met.join(", "));
    }
    let column =
        |of: fn(&Missed) -> String, by: &str| missed.iter().map(of).collect::<Vec<_>>().join(by);
    Err(Reason::OtherIdentity
        .refusal(column(|m| m.0.to_string(), "; "))
        .expected(column(|m| m.1.clone(), "; "))
        .found(column(|m| m.2.clone(), "; ")))
}

/// The verdict over all signatures of one file: one that holds is enough, and what the others lacked is remarked. Gives its
/// number, from 0. Where none holds, each one's reason is given.
pub(super) fn verdict(judged: Vec<Result<Met, Refusal>>) -> Result<(usize, Met), Refusal> {
    let count = judged.len();
    let mut taken: Option<(usize, Met)> = None;
    let mut refusals = Vec::new();
    for (number, one) in judged.into_iter().enumerate() {
        match one {
            Ok(met) if taken.is_none() => taken = Some((number, met)),
            Ok(_) => {}
            Err(refusal) => refusals.push((number + 1, refusal)),
        }
    }
    if let Some((number, mut met)) = taken {
        for (number, refusal) in refusals {
            met.signer.remarks.push(format!(
                "signature {number} of {count} was not taken: {}",
                refusal.problem.fact
            ));
        }
        return Ok((number, met));
    }
    if refusals.len() == 1 {
        return Err(refusals.remove(0).1);
    }
    // A weak or foreign one beside the one that was meant says little.
    let decisive = |r: &Refusal| !matches!(r.reason, Reason::Weak | Reason::Unsupported);
    let reason = refusals
        .iter()
        .find(|(_, r)| decisive(r))
        .or(refusals.first());
    let reason = reason.map_or(Reason::Missing, |(_, r)| r.reason);
    let each: Vec<String> = refusals
        .iter()
        .map(|(number, r)| format!("signature {number}: {}", r.problem.in_one_line()))
        .collect();
    Err(reason.refusal(format!(
        "none of its {count} signatures holds: {}",
        each.join("; ")
    )))
}

/// Whose certificate has to be at the end of the chain. Roots, and at least one of the others.
#[derive(Clone, Debug, Default)]
pub struct Pins {
    /// DER certificates.
    pub roots: Vec<Vec<u8>>,
    /// Roots of the timestamp authority; those above unless given.
    pub timestamp_roots: Vec<Vec<u8>>,
    /// RFC 4514, exact: `CN=Example Corp,O=Example Corp,C=US`; a part of it such as `CN=Example Corp` has to match whole attributes.
    pub subject: Option<String>,
    /// A durable EKU of the leaf, dotted.
    pub eku: Option<String>,
    /// SHA-256 of an intermediate's DER that must be in the chain.
    pub issuer: Option<[u8; 32]>,
    /// SHA-256 of the leaf's DER.
    pub leaf: Option<[u8; 32]>,
    /// No certificate may stand in the lists of revoked ones, and each needs one.
    pub needs_lists: bool,
    /// Serial numbers, in hexadecimal, of certificates that are taken although winimg lists them as misused.
    pub accepted: Vec<String>,
}
