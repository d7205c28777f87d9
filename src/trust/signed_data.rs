//! SignedData as it stands in files: PKCS#7 (Authenticode) and CMS. (RFC 2315; RFC 5652; Microsoft: Authenticode PE)

use der::asn1::ObjectIdentifier;

use super::Refusal;

/// A SignedData with exactly one signer, as slices of its DER.
#[derive(Clone, Debug)]
pub(super) struct SignedData<'a> {
    content_type: ObjectIdentifier,
    content: &'a [u8],
}

impl<'a> SignedData<'a> {
    pub(super) fn read(_der: &'a [u8]) -> Result<Self, Refusal> {
        Err(Refusal::new(super::Reason::Unsupported, "not judged"))
    }

    /// What the content is: SPC_INDIRECT_DATA, a CTL, a TSTInfo, plain data.
    pub(super) fn content_type(&self) -> ObjectIdentifier {
        self.content_type
    }

    /// The value octets of the content (of an OCTET STRING: what is in it; of a SEQUENCE: its members, without its header).
    pub(super) fn content(&self) -> &'a [u8] {
        self.content
    }
}
