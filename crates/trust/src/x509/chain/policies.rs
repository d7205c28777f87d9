//! Supports authorities with critical certificate policies, such as Microsoft's timestamp
//! authorities until 2021.
//!
//! rustls-webpki does not implement policies, so it refuses such a certificate anywhere in a chain.
//! winimg requires no policy, so every policy of an authority is acceptable and the extension
//! restricts nothing (RFC 5280 4.2.1.4; 6.1.1 (c) any-policy, (e) no explicit policy required;
//! 6.1.5 (g)). Such an authority is used as the trust anchor instead of its root, and only for
//! end-entity certificates. Refuses one with constraints, or with other critical extensions that
//! are not handled here.

use der::asn1::ObjectIdentifier;

use super::super::algorithm::IssuedData;
use super::super::certificate::Certificate;
use super::super::tlv::{self, BOOLEAN, SEQUENCE};
use super::refusal::ChainCase;
use crate::SignatureRefusal;

const WHAT: &str = "a certificate";
const BASIC_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.19");
const POLICIES: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.32");
/// keyUsage and extKeyUsage, which are checked elsewhere.
const USAGE_EXTENSIONS: [ObjectIdentifier; 2] = [
    ObjectIdentifier::new_unwrap("2.5.29.15"),
    ObjectIdentifier::new_unwrap("2.5.29.37"),
];
/// nameConstraints, policyConstraints, inhibitAnyPolicy
const CONSTRAINTS: [ObjectIdentifier; 3] = [
    ObjectIdentifier::new_unwrap("2.5.29.30"),
    ObjectIdentifier::new_unwrap("2.5.29.36"),
    ObjectIdentifier::new_unwrap("2.5.29.54"),
];

/// Returns the root of `case` that issued this authority, if the authority can be used in its
/// place.
pub(super) fn root_of<'r>(case: &ChainCase<'r>, der: &[u8]) -> Option<&'r Vec<u8>> {
    let authority = Certificate::read(der).ok()?;
    let (from, to) = (authority.not_before, authority.not_after);
    let is_valid = (from..=to).contains(&case.at.moment) && authority.may_certify();
    if !is_valid
        || !case.wanted.is_allowed_to(&authority)
        || !has_policies_alone(&authority).ok()?
    {
        return None;
    }
    case.roots.iter().find(|root| {
        Certificate::read(root).is_ok_and(|root| {
            root.subject == authority.issuer
                && root.may_certify()
                && IssuedData::read(der, WHAT).is_ok_and(|issued| issued.verify(&root).is_ok())
        })
    })
}

/// Returns true for an authority without constraints whose critical extensions are its policies and
/// those that are handled here.
fn has_policies_alone(authority: &Certificate<'_>) -> Result<bool, SignatureRefusal> {
    let (mut is_authority, mut has_policies) = (false, false);
    for extension in &authority.extensions {
        let oid = extension.oid;
        if oid == BASIC_CONSTRAINTS {
            let mut walk = tlv::parse_only(extension.value, SEQUENCE, WHAT)?.walk(WHAT)?;
            is_authority = walk.next_if(BOOLEAN)?.is_some_and(|b| b.value == [0xff]);
        } else if oid == POLICIES {
            has_policies |= extension.is_critical;
        } else if CONSTRAINTS.iter().any(|c| oid == *c)
            || (extension.is_critical && !USAGE_EXTENSIONS.iter().any(|u| oid == *u))
        {
            return Ok(false);
        }
    }
    Ok(is_authority && has_policies)
}
