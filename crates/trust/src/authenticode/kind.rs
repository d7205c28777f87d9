//! Kinds of files with embedded signatures, determined by content and checked against the name.
//!
//! Refuses a file whose name implies a different kind, because a publisher who signed a package did
//! not vouch for a program of that name, and a signature that was made for a different kind of
//! file.

use super::CERTIFICATE_TRUST_LIST;
use super::source::SignedSource;
use super::{cab, indirect, msi, pe, script};
use crate::uncovered::{UncoveredPlace, UncoveredRange};
use crate::x509::hash::HashKind;
use crate::x509::signed_data::SignedData;
use crate::x509::tlv::{self, SEQUENCE};
use crate::{RefusalReason, SignatureRefusal, last_segment};

const MAX_CATALOG_SIZE: u64 = 64 << 20;

/// File name extensions by kind, as Windows interprets them.
const ENDINGS: [(SignedFileKind, &[&str]); 5] = [
    (
        SignedFileKind::Pe,
        &[
            "exe", "dll", "sys", "efi", "ocx", "cpl", "scr", "mui", "drv", "com",
        ],
    ),
    (SignedFileKind::Msi, &["msi", "msp", "msm", "mst"]),
    (SignedFileKind::Cab, &["cab", "msu"]),
    (SignedFileKind::Catalog, &["cat"]),
    (
        SignedFileKind::Script,
        &["ps1", "psm1", "psd1", "ps1xml", "cdxml"],
    ),
];

/// Kind of a file, by its first bytes; scripts by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignedFileKind {
    Pe,
    Msi,
    Cab,
    Catalog,
    Script,
}

impl SignedFileKind {
    pub(super) fn detect(file: &mut SignedSource, name: &str) -> Result<Self, SignatureRefusal> {
        let length = usize::try_from(file.length().min(8)).unwrap_or(0);
        let magic = file.read_bytes(0, length)?.unwrap_or_default();
        let kind = match magic.as_slice() {
            _ if Self::from_name(name) == Some(Self::Script) => Self::Script,
            [b'M', b'Z', ..] => Self::Pe,
            [0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1] => Self::Msi,
            [b'M', b'S', b'C', b'F', ..] => Self::Cab,
            [SEQUENCE, ..] => Self::Catalog,
            _ => {
                return Err(RefusalReason::Unsupported
                    .refusal("this kind of file cannot have an Authenticode signature")
                    .expected("a PE file, an MSI, a cabinet, a catalog or a PowerShell script")
                    .cure(
                        "prove it by its catalog (`catalog = URL`), or by another kind of \
                         signature",
                    ));
            }
        };
        kind.fits(name)?;
        Ok(kind)
    }

    /// Returns the kind that Windows assumes for a file with that name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let last = last_segment(name).to_ascii_lowercase();
        let (_, ending) = last.rsplit_once('.')?;
        ENDINGS
            .iter()
            .find(|(_, endings)| endings.contains(&ending))
            .map(|(kind, _)| *kind)
    }

    /// Checks that the name matches the kind. A signature covers the kind of a file but not its
    /// name, so a name that makes Windows use the file in a different way is refused. Unknown names
    /// count as programs.
    pub(super) fn fits(self, name: &str) -> Result<(), SignatureRefusal> {
        let wanted = Self::from_name(name).unwrap_or(Self::Pe);
        if wanted == self {
            return Ok(());
        }
        Err(RefusalReason::OtherName
            .refusal(format!(
                "it is the signature of {}, but the file's name implies a different kind",
                self.describe()
            ))
            .expected(format_args!("{}, from the name {name}", wanted.describe()))
            .found(self.describe())
            .cure("use a name of its kind (`file = \"…\"`), or check what `url` leads to"))
    }

    fn describe(self) -> &'static str {
        match self {
            Self::Pe => "a program",
            Self::Msi => "a Windows Installer package",
            Self::Cab => "a cabinet",
            Self::Catalog => "a catalog",
            Self::Script => "a script",
        }
    }

    /// Returns the ranges of the file that its signature does not cover.
    pub(super) fn list_uncovered(
        self,
        file: &mut SignedSource,
    ) -> Result<Vec<UncoveredRange>, SignatureRefusal> {
        let mut open = match self {
            Self::Pe => pe::list_uncovered(file)?,
            Self::Msi => msi::list_uncovered(file)?,
            Self::Cab => cab::list_uncovered(file)?,
            Self::Script => script::list_uncovered(file)?,
            Self::Catalog => vec![UncoveredRange::new(
                UncoveredPlace::Signature,
                0..file.length(),
            )],
        };
        open.retain(|open| !open.range.is_empty());
        Ok(open)
    }

    pub(super) fn read_signature(
        self,
        file: &mut SignedSource,
    ) -> Result<Option<Vec<u8>>, SignatureRefusal> {
        match self {
            Self::Pe => pe::read_signature(file),
            Self::Msi => msi::read_signature(file),
            Self::Cab => cab::read_signature(file),
            Self::Script => script::read_signature(file),
            Self::Catalog => read_catalog(file).map(Some),
        }
    }

    fn compute_digest(
        self,
        file: &mut SignedSource,
        algorithm: HashKind,
    ) -> Result<Vec<u8>, SignatureRefusal> {
        match self {
            Self::Pe => pe::compute_digest(file, algorithm),
            Self::Msi => msi::compute_digest(file, algorithm),
            Self::Cab => cab::compute_digest(file, algorithm),
            Self::Script => script::compute_digest(file, algorithm),
            Self::Catalog => {
                Err(RefusalReason::Unsupported.refusal("a catalog has no separate digest"))
            }
        }
    }

    /// Checks that the signature matches the file.
    pub(super) fn check_coverage(
        self,
        signed: &SignedData<'_>,
        file: &mut SignedSource,
    ) -> Result<(), SignatureRefusal> {
        if self == Self::Catalog {
            return is_catalog(signed);
        }
        let claimed = indirect::read(signed)?;
        if !self.types().contains(&claimed.kind.to_string().as_str()) {
            return Err(RefusalReason::Changed
                .refusal("it was made for a different kind of file")
                .expected(self.types().join(" or "))
                .found(claimed.kind));
        }
        if let (Some(wanted), Some(found)) = (self.interface(), claimed.interface)
            && wanted != found
        {
            return Err(RefusalReason::Changed
                .refusal("it was made for a different kind of file")
                .expected(format_args!("the interface {}", hex::encode(wanted)))
                .found(hex::encode(found)));
        }
        let found = self.compute_digest(file, claimed.algorithm)?;
        if claimed.digest != found {
            return Err(RefusalReason::Changed
                .refusal("it does not match the file")
                .expected(format_args!(
                    "{} {}",
                    claimed.algorithm,
                    hex::encode(claimed.digest)
                ))
                .found(hex::encode(found)));
        }
        Ok(())
    }

    /// Returns the types of a signed digest: SPC_PE_IMAGE_DATA, SPC_CAB_DATA, SPC_SIPINFO.
    fn types(self) -> &'static [&'static str] {
        match self {
            Self::Pe => &["1.3.6.1.4.1.311.2.1.15"],
            Self::Cab => &["1.3.6.1.4.1.311.2.1.25"],
            Self::Msi | Self::Script => &["1.3.6.1.4.1.311.2.1.30"],
            Self::Catalog => &[],
        }
    }

    /// Returns the subject interface package of SPC_SIPINFO: 000C10F1-0000-0000-C000-000000000046
    /// for Windows Installer, 603BCC1F-4B59-4E08-B724-D2C6297EF351 for PowerShell.
    /// (HKLM\SOFTWARE\Microsoft\Cryptography\OID)
    fn interface(self) -> Option<[u8; 16]> {
        match self {
            Self::Msi => Some(*b"\xf1\x10\x0c\x00\x00\x00\x00\x00\xc0\x00\x00\x00\x00\x00\x00\x46"),
            Self::Script => {
                Some(*b"\x1f\xcc\x3b\x60\x59\x4b\x08\x4e\xb7\x24\xd2\xc6\x29\x7e\xf3\x51")
            }
            Self::Pe | Self::Cab | Self::Catalog => None,
        }
    }
}

/// Checks that the content is a list of digests.
pub(super) fn is_catalog(signed: &SignedData<'_>) -> Result<(), SignatureRefusal> {
    if signed.content_type() == CERTIFICATE_TRUST_LIST {
        return Ok(());
    }
    Err(RefusalReason::Unsupported
        .refusal("it is not a catalog")
        .expected(CERTIFICATE_TRUST_LIST)
        .found(signed.content_type()))
}

/// Reads a catalog file, which consists only of its signature.
fn read_catalog(file: &mut SignedSource) -> Result<Vec<u8>, SignatureRefusal> {
    let length = file.length();
    if length > MAX_CATALOG_SIZE {
        return Err(tlv::refuse_malformed(
            "the file",
            "exceeds the maximum size of a catalog",
        ));
    }
    let bytes = file.read_bytes(0, length as usize)?.unwrap_or_default();
    let (_, rest) = tlv::parse_first(&bytes, SEQUENCE, "the file")?;
    if !rest.is_empty() {
        return Err(RefusalReason::Uncovered
            .refusal("the catalog has unsigned bytes after its signature")
            .found(format_args!("{} bytes more", rest.len())));
    }
    Ok(bytes)
}
