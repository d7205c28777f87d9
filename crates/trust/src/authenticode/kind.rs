//! The kinds of files that carry a signature: which one a file is, and whether its name says so too.
//!
//! Refuses a kind that the name does not say, since a publisher who signed a package vouched for no program of that name; and
//! a signature that was made for another kind of file.

use super::CERTIFICATE_TRUST_LIST;
use super::source::Source;
use super::{cab, indirect, msi, pe, script};
use crate::hash::HashKind;
use crate::place::{Open, Place};
use crate::signed_data::SignedData;
use crate::tlv::{self, SEQUENCE};
use crate::{Reason, Refusal, last_segment};

const LARGEST_CATALOG: u64 = 64 << 20;

/// By what Windows does with a file of that name.
const ENDINGS: [(Kind, &[&str]); 5] = [
    (
        Kind::Pe,
        &[
            "exe", "dll", "sys", "efi", "ocx", "cpl", "scr", "mui", "drv", "com",
        ],
    ),
    (Kind::Msi, &["msi", "msp", "msm", "mst"]),
    (Kind::Cab, &["cab", "msu"]),
    (Kind::Catalog, &["cat"]),
    (Kind::Script, &["ps1", "psm1", "psd1", "ps1xml", "cdxml"]),
];

/// What kind of file it is, by its first bytes; scripts by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Pe,
    Msi,
    Cab,
    Catalog,
    Script,
}

impl Kind {
    pub(super) fn of(file: &mut Source, name: &str) -> Result<Self, Refusal> {
        let length = usize::try_from(file.length().min(8)).unwrap_or(0);
        let magic = file.bytes(0, length)?.unwrap_or_default();
        let kind = match magic.as_slice() {
            _ if Self::named(name) == Some(Self::Script) => Self::Script,
            [b'M', b'Z', ..] => Self::Pe,
            [0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1] => Self::Msi,
            [b'M', b'S', b'C', b'F', ..] => Self::Cab,
            [SEQUENCE, ..] => Self::Catalog,
            _ => return Err(Reason::Unsupported
                .refusal("this kind of file carries no Authenticode signature")
                .expected("a PE file, an MSI, a cabinet, a catalog or a PowerShell script")
                .cure(
                    "prove it by its catalog (`catalog = URL`), or by another kind of signature",
                )),
        };
        kind.fits(name)?;
        Ok(kind)
    }

    /// What Windows takes a file of that name for.
    pub(super) fn named(name: &str) -> Option<Self> {
        let last = last_segment(name).to_ascii_lowercase();
        let (_, ending) = last.rsplit_once('.')?;
        ENDINGS
            .iter()
            .find(|(_, endings)| endings.contains(&ending))
            .map(|(kind, _)| *kind)
    }

    /// A signature says that its file is a program, or a package, and nothing of its name: what Windows would use in another
    /// way than its publisher signed it for is refused. Names that Windows knows nothing of are those of programs.
    pub(super) fn fits(self, name: &str) -> Result<(), Refusal> {
        let wanted = Self::named(name).unwrap_or(Self::Pe);
        if wanted == self {
            return Ok(());
        }
        Err(Reason::OtherName
            .refusal(format!(
                "it is of {}, which the name of the file does not say",
                self.words()
            ))
            .expected(format_args!("{}, by the name {name}", wanted.words()))
            .found(self.words())
            .cure("keep it under a name of its kind (`file = \"…\"`), or see what `url` leads to"))
    }

    fn words(self) -> &'static str {
        match self {
            Self::Pe => "a program",
            Self::Msi => "a package of Windows Installer",
            Self::Cab => "a cabinet",
            Self::Catalog => "a catalog",
            Self::Script => "a script",
        }
    }

    /// The places of the file that its signature does not cover.
    pub(super) fn open(self, file: &mut Source) -> Result<Vec<Open>, Refusal> {
        let mut open = match self {
            Self::Pe => pe::open(file)?,
            Self::Msi => msi::open(file)?,
            Self::Cab => cab::open(file)?,
            Self::Script => script::open(file)?,
            Self::Catalog => vec![Open::new(Place::Signature, 0..file.length())],
        };
        open.retain(|open| !open.range.is_empty());
        Ok(open)
    }

    pub(super) fn signature(self, file: &mut Source) -> Result<Option<Vec<u8>>, Refusal> {
        match self {
            Self::Pe => pe::signature(file),
            Self::Msi => msi::signature(file),
            Self::Cab => cab::signature(file),
            Self::Script => script::signature(file),
            Self::Catalog => whole(file).map(Some),
        }
    }

    fn digest(self, file: &mut Source, algorithm: HashKind) -> Result<Vec<u8>, Refusal> {
        match self {
            Self::Pe => pe::digest(file, algorithm),
            Self::Msi => msi::digest(file, algorithm),
            Self::Cab => cab::digest(file, algorithm),
            Self::Script => script::digest(file, algorithm),
            Self::Catalog => Err(Reason::Unsupported.refusal("a catalog is signed as a whole")),
        }
    }

    /// This signature is of this file's bytes.
    pub(super) fn covers(self, signed: &SignedData<'_>, file: &mut Source) -> Result<(), Refusal> {
        if self == Self::Catalog {
            return is_catalog(signed);
        }
        let claimed = indirect::read(signed)?;
        if !self.types().contains(&claimed.kind.to_string().as_str()) {
            return Err(Reason::Changed
                .refusal("it was made for another kind of file")
                .expected(self.types().join(" or "))
                .found(claimed.kind));
        }
        if let (Some(wanted), Some(found)) = (self.interface(), claimed.interface)
            && wanted != found
        {
            return Err(Reason::Changed
                .refusal("it was made for another kind of file")
                .expected(format_args!("the interface {}", hex::encode(wanted)))
                .found(hex::encode(found)));
        }
        let found = self.digest(file, claimed.algorithm)?;
        if claimed.digest != found {
            return Err(Reason::Changed
                .refusal("it is of other bytes than this file's")
                .expected(format_args!(
                    "{} {}",
                    claimed.algorithm,
                    hex::encode(claimed.digest)
                ))
                .found(hex::encode(found)));
        }
        Ok(())
    }

    /// What the signed statement says it is about: SPC_PE_IMAGE_DATA, SPC_CAB_DATA, SPC_SIPINFO.
    fn types(self) -> &'static [&'static str] {
        match self {
            Self::Pe => &["1.3.6.1.4.1.311.2.1.15"],
            Self::Cab => &["1.3.6.1.4.1.311.2.1.25"],
            Self::Msi | Self::Script => &["1.3.6.1.4.1.311.2.1.30"],
            Self::Catalog => &[],
        }
    }

    /// The subject interface of SPC_SIPINFO that Windows judges such files by: 000C10F1-0000-0000-C000-000000000046 of Windows
    /// Installer, 603BCC1F-4B59-4E08-B724-D2C6297EF351 of PowerShell. (HKLM\SOFTWARE\Microsoft\Cryptography\OID)
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

/// The content is a list of digests.
pub(super) fn is_catalog(signed: &SignedData<'_>) -> Result<(), Refusal> {
    if signed.content_type() == CERTIFICATE_TRUST_LIST {
        return Ok(());
    }
    Err(Reason::Unsupported
        .refusal("it is not a catalog")
        .expected(CERTIFICATE_TRUST_LIST)
        .found(signed.content_type()))
}
/// A catalog file is its signature, and nothing after it.
fn whole(file: &mut Source) -> Result<Vec<u8>, Refusal> {
    let length = file.length();
    if length > LARGEST_CATALOG {
        return Err(tlv::malformed("the file", "is larger than any catalog is"));
    }
    let bytes = file.bytes(0, length as usize)?.unwrap_or_default();
    let (_, rest) = tlv::first(&bytes, SEQUENCE, "the file")?;
    if !rest.is_empty() {
        return Err(Reason::Uncovered
            .refusal("the catalog has unsigned bytes after its signature")
            .found(format_args!("{} bytes more", rest.len())));
    }
    Ok(bytes)
}
