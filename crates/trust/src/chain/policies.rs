//! An authority whose certificate policies are critical, as those of Microsoft's timestamps were until 2021.
//!
//! rustls-webpki reads no policies, so it refuses such a certificate wherever it stands in a chain. Nobody here asks for a
//! policy, and then every policy that an authority lists is acceptable: the extension is understood, and bounds nothing
//! (RFC 5280 4.2.1.4; 6.1.1 (c) any-policy, (e) no explicit policy required; 6.1.5 (g)). Such an authority stands in for
//! its root where that root issued it itself, and vouches for leaves only. Refuses one that has constraints, or anything
//! else that is critical and not read here.

use der::asn1::ObjectIdentifier;

use super::super::Refusal;
use super::super::algorithm::Issued;
use super::super::certificate::Certificate;
use super::super::tlv::{self, BOOLEAN, OCTET_STRING, SEQUENCE, context};
use super::refusal::Case;

const WHAT: &str = "a certificate";
const BASIC_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.19");
const POLICIES: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.32");
/// keyUsage and extKeyUsage, which are judged, too.
const USES: [ObjectIdentifier; 2] = [
    ObjectIdentifier::new_unwrap("2.5.29.15"),
    ObjectIdentifier::new_unwrap("2.5.29.37"),
];
/// nameConstraints, policyConstraints, inhibitAnyPolicy
const CONSTRAINTS: [ObjectIdentifier; 3] = [
    ObjectIdentifier::new_unwrap("2.5.29.30"),
    ObjectIdentifier::new_unwrap("2.5.29.36"),
    ObjectIdentifier::new_unwrap("2.5.29.54"),
];

/// The root of `case` that issued this authority, if it is one to stand in for that root.
pub(super) fn root_of<'r>(case: &Case<'r>, der: &[u8]) -> Option<&'r Vec<u8>> {
    let authority = Certificate::read(der).ok()?;
    let (from, to) = (authority.not_before, authority.not_after);
    let holds = (from..=to).contains(&case.at.moment) && authority.may_certify();
    if !holds || !case.wanted.is_allowed_to(&authority) || !has_policies_alone(der).ok()? {
        return None;
    }
    case.roots.iter().find(|root| {
        Certificate::read(root).is_ok_and(|root| {
            let issued = || Issued::read(der, WHAT).and_then(|issued| issued.verify(&root));
            root.subject == authority.issuer && root.may_certify() && issued().is_ok()
        })
    })
}

/// An authority without constraints, critical in its policies and otherwise only in what is read.
fn has_policies_alone(der: &[u8]) -> Result<bool, Refusal> {
    let mut body = Issued::read(der, WHAT)?.body.walk(WHAT)?;
    let (mut is_authority, mut has_policies) = (false, false);
    while let Some(field) = body.next()? {
        if field.tag != context(3) {
            continue;
        }
        let mut all = tlv::only(field.value, SEQUENCE, WHAT)?.walk(WHAT)?;
        while let Some(extension) = all.next()? {
            let mut parts = extension.walk(WHAT)?;
            let oid = parts.oid()?;
            let critical = parts.optional(BOOLEAN)?.is_some_and(|b| b.value != [0]);
            let value = parts.expect(OCTET_STRING)?.value;
            if oid == BASIC_CONSTRAINTS {
                let mut walk = tlv::only(value, SEQUENCE, WHAT)?.walk(WHAT)?;
                is_authority = walk.optional(BOOLEAN)?.is_some_and(|b| b.value == [0xff]);
            } else if oid == POLICIES {
                has_policies |= critical;
            } else if CONSTRAINTS.iter().any(|c| oid == *c)
                || (critical && !USES.iter().any(|u| oid == *u))
            {
                return Ok(false);
            }
        }
    }
    Ok(is_authority && has_policies)
}
