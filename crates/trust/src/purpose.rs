//! What a certificate is for: its extended key usages, and what the use of a signature asks of them.
//!
//! A signer of code and a timestamp authority have to say so themselves. Refuses certificates for other uses, such as a TLS
//! server's. (RFC 5280 4.2.1.3, 4.2.1.12; RFC 3161 2.3)

use der::asn1::ObjectIdentifier;
use webpki::{Error, ExtendedKeyUsageValidator, KeyPurposeId, KeyPurposeIdIter};

use super::certificate::Certificate;
use super::oid::Oid;
use super::{Reason, Refusal};

const CODE_SIGNING: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.3");
const TIME_STAMPING: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.8");
const EMAIL_PROTECTION: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.4");
const DOCUMENT_SIGNING: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.36");
const ANY: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.37.0");

/// A use that says nothing about whose a certificate is: those of RFC 5280, and "no timestamp lengthens this".
pub(super) fn is_common(oid: &str) -> bool {
    oid.starts_with("1.3.6.1.5.5.7.3.") || ["2.5.29.37.0", "1.3.6.1.4.1.311.10.3.13"].contains(&oid)
}

/// What the leaf has to be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// The EKU has to be there.
    CodeSigning,
    /// The EKU has to be there, and no other beside it: who stamps does not sign as well. RFC 3161 2.3 has it critical as
    /// well, but certificates of Microsoft's older authorities are not, and Windows takes their timestamps.
    TimeStamping,
    /// A signed message: an EKU, if there is one, has to be of those that sign.
    Message,
}

impl Use {
    fn purposes(self) -> &'static [ObjectIdentifier] {
        match self {
            Self::CodeSigning => &[CODE_SIGNING],
            Self::TimeStamping => &[TIME_STAMPING],
            Self::Message => &[CODE_SIGNING, EMAIL_PROTECTION, DOCUMENT_SIGNING],
        }
    }

    /// An authority that names uses has to name one of ours; one that names none is for any.
    pub(super) fn is_allowed_to(self, authority: &Certificate<'_>) -> bool {
        let mut wanted = self.purposes().iter().chain([&ANY]);
        authority.purposes.is_none() || wanted.any(|use_| authority.is_for(*use_))
    }

    /// In the middle of "not one for …".
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::CodeSigning => "signing code",
            Self::TimeStamping => "timestamps",
            Self::Message => "signing files",
        }
    }

    /// The leaf itself says that it is for this.
    pub(super) fn check(self, leaf: &Certificate<'_>) -> Result<(), Refusal> {
        let stated = leaf.purposes.as_deref();
        let said = self.purposes().iter().any(|p| leaf.is_for(*p));
        let silent = self == Self::Message && (stated.is_none() || leaf.is_for(ANY));
        let subject = leaf.subject_text();
        let words = format!("its certificate is not one for {}", self.words());
        if !leaf.may_sign() {
            return Err(Reason::WrongUse
                .refusal(words)
                .expected("the key usage digitalSignature")
                .found(format_args!("{subject}, without it")));
        }
        let found = match stated {
            None => "no EKU".to_string(),
            Some(all) => all.iter().map(purpose_text).collect::<Vec<_>>().join(", "),
        };
        let wanted = self.purposes().iter().map(Oid::of);
        let wanted: Vec<_> = wanted.map(|oid| purpose_text(&oid)).collect();
        let wanted = wanted.join(" or ");
        let alone = stated.is_some_and(|all| all.len() == 1);
        let (words, expected) = match said {
            true if self == Self::TimeStamping && !alone => (
                format!("{words} alone"),
                format!("the EKU {wanted} and no other"),
            ),
            false if !silent => (words, format!("the EKU {wanted}")),
            _ => return Ok(()),
        };
        Err(Reason::WrongUse
            .refusal(words)
            .expected(expected)
            .found(format_args!("{found}, on {subject}")))
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

/// An intermediate that names uses has to name one of ours; one that names none is for any. The leaf was looked at before.
pub(super) struct Purposes(pub(super) Use);

impl ExtendedKeyUsageValidator for Purposes {
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
