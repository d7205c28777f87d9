//! Extended key usages of certificates, and the requirements of each kind of signature.
//!
//! Certificates of code signers and timestamp authorities must state their usage. Refuses
//! certificates for other usages, such as a TLS server's. (RFC 5280 4.2.1.3, 4.2.1.12; RFC 3161
//! 2.3)

use der::asn1::ObjectIdentifier;
use webpki::{Error, ExtendedKeyUsageValidator, KeyPurposeId, KeyPurposeIdIter};

use super::certificate::Certificate;
use super::oid::Oid;
use crate::{RefusalReason, SignatureRefusal};

const CODE_SIGNING: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.3");
const TIME_STAMPING: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.8");
const EMAIL_PROTECTION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.4");
const DOCUMENT_SIGNING: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.36");
const ANY: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37.0");

/// Returns true for usages that do not identify a signer: those of RFC 5280, and lifetime signing.
pub fn is_common(oid: &str) -> bool {
    oid.starts_with("1.3.6.1.5.5.7.3.") || ["2.5.29.37.0", "1.3.6.1.4.1.311.10.3.13"].contains(&oid)
}

/// The required usage of the leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateUse {
    /// The EKU is required.
    CodeSigning,
    /// Exactly this EKU is required, as an authority must not sign anything else. RFC 3161 2.3 also
    /// requires it to be critical, but it is not in certificates of Microsoft's older authorities,
    /// whose timestamps Windows accepts.
    TimeStamping,
    /// A signed message: EKUs, if there are any, must include one for signing.
    Message,
}

impl CertificateUse {
    fn purposes(self) -> &'static [ObjectIdentifier] {
        match self {
            Self::CodeSigning => &[CODE_SIGNING],
            Self::TimeStamping => &[TIME_STAMPING],
            Self::Message => &[CODE_SIGNING, EMAIL_PROTECTION, DOCUMENT_SIGNING],
        }
    }

    /// Returns true if an authority allows this usage, or states none.
    pub fn is_allowed_to(self, authority: &Certificate<'_>) -> bool {
        let mut wanted = self.purposes().iter().chain([&ANY]);
        authority.purposes.is_none() || wanted.any(|use_| authority.is_for(*use_))
    }

    /// Describes the usage; fits after "not for".
    pub fn describe(self) -> &'static str {
        match self {
            Self::CodeSigning => "signing code",
            Self::TimeStamping => "timestamps",
            Self::Message => "signing files",
        }
    }

    /// Checks that the leaf states this usage.
    pub fn check(self, leaf: &Certificate<'_>) -> Result<(), SignatureRefusal> {
        let stated = leaf.purposes.as_deref();
        let said = self.purposes().iter().any(|p| leaf.is_for(*p));
        let silent = self == Self::Message && (stated.is_none() || leaf.is_for(ANY));
        let subject = leaf.subject_text();
        let words = format!("its certificate is not for {}", self.describe());
        if !leaf.may_sign() {
            return Err(RefusalReason::WrongUse
                .refusal(words)
                .expected("the key usage digitalSignature")
                .found(format_args!("{subject} without it")));
        }
        let found = match stated {
            None => "no EKU".to_string(),
            Some(all) => all.iter().map(purpose_text).collect::<Vec<_>>().join(", "),
        };
        let wanted: Vec<_> = self
            .purposes()
            .iter()
            .map(|purpose| purpose_text(&Oid::from_known(purpose)))
            .collect();
        let wanted = wanted.join(" or ");
        let alone = stated.is_some_and(|all| all.len() == 1);
        let (words, expected) = if said {
            if self == Self::TimeStamping && !alone {
                (
                    format!("{words} only"),
                    format!("the EKU {wanted} and no other"),
                )
            } else {
                return Ok(());
            }
        } else if !silent {
            (words, format!("the EKU {wanted}"))
        } else {
            return Ok(());
        };
        Err(RefusalReason::WrongUse
            .refusal(words)
            .expected(expected)
            .found(format_args!("{found}, in {subject}")))
    }
}

fn purpose_text(oid: &Oid<'_>) -> String {
    let words = match oid.to_string().as_str() {
        "1.3.6.1.5.5.7.3.1" => "TLS servers",
        "1.3.6.1.5.5.7.3.2" => "TLS clients",
        "1.3.6.1.5.5.7.3.3" => "code signing",
        "1.3.6.1.5.5.7.3.4" => "mail",
        "1.3.6.1.5.5.7.3.8" => "timestamps",
        "1.3.6.1.5.5.7.3.36" => "documents",
        _ => return oid.to_string(),
    };
    format!("{oid} ({words})")
}

/// Accepts intermediates that allow the usage, or state none. The leaf is checked separately.
pub struct PurposeValidator(pub CertificateUse);

impl ExtendedKeyUsageValidator for PurposeValidator {
    fn validate(&self, purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), Error> {
        let mut stated = false;
        for purpose in purposes {
            stated = true;
            let purpose = purpose?;
            let mut wanted = self.0.purposes().iter().chain([&ANY]);
            if wanted.any(|w| KeyPurposeId::new(w.as_bytes()) == purpose) {
                return Ok(());
            }
        }
        if stated {
            Err(Error::EmptyEkuExtension)
        } else {
            Ok(())
        }
    }
}
