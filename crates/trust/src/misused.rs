//! Certificates that are publicly known to be stolen, or given to people who signed malware.
//!
//! A few well-known ones, each with who says so. Not a list of all of them, and no replacement for the lists of their
//! issuers: what is not here may be stolen all the same.

use super::certificate::Certificate;
use super::name::Name;
use super::{Reason, Refusal};

/// A certificate by its serial number and its issuer's common name, as the sources name it.
#[derive(Clone, Copy, Debug)]
pub struct Misused {
    /// Hexadecimal, lower case.
    pub serial: &'static str,
    /// The common name.
    pub issuer: &'static str,
    /// What happened, after "its certificate ".
    pub why: &'static str,
    /// Where that is said: a repository's file, or a page that it refers to.
    pub source: &'static str,
}

/// All of them.
pub const LIST: [Misused; 7] = [
    Misused {
        serial: "43bb437d609866286dd839e1d00309f5",
        issuer: "VeriSign Class 3 Code Signing 2010 CA",
        why: "was stolen from NVIDIA in 2022 and published",
        source: "github.com/Neo23x0/signature-base yara/gen_nvidia_leaked_cert.yar",
    },
    Misused {
        serial: "14781bc862e8dc503a559346f5dcc518",
        issuer: "VeriSign Class 3 Code Signing 2010 CA",
        why: "was stolen from NVIDIA in 2022 and published",
        source: "github.com/WithSecureLabs/lolcerts leaked/lapsus_nvidia_leaked_certificate.yml",
    },
    Misused {
        serial: "0dbf152deaf0b981a8a938d53f769db8",
        issuer: "DigiCert Trusted G4 Code Signing RSA4096 SHA384 2021 CA1",
        why: "was revoked after the break-in at AnyDesk in 2024",
        source: "github.com/Neo23x0/signature-base yara/gen_anydesk_compromised_cert_feb23.yar",
    },
    Misused {
        serial: "0b886032861d9553c68f803313a98975",
        issuer: "DigiCert SHA2 Assured ID Code Signing CA",
        why: "was stolen from MSI in 2023 and published",
        source: "github.com/WithSecureLabs/lolcerts leaked/msi_leaked_certificate.yml",
    },
    Misused {
        serial: "0139dde119bb320dfb9f5defe3f71245",
        issuer: "Sectigo Public Code Signing CA R36",
        why: "was leaked from Hangil IT and used to sign malware",
        source: "github.com/WithSecureLabs/lolcerts leaked/hangil_it_leaked_certificate.yml",
    },
    Misused {
        serial: "0fe973752022a606adf2a36e345dc0ed",
        issuer: "Symantec Class 3 SHA256 Code Signing CA",
        why: "signed the builds of SolarWinds Orion with a back door of 2020",
        source: "github.com/Neo23x0/signature-base yara/apt_solarwinds_susp_sunburst.yar",
    },
    Misused {
        serial: "0f1b43484a1369c83038dc24e7778b7d",
        issuer: "VeriSign Class 3 Code Signing 2010 CA",
        why: "was used by Hacking Team, who sold spyware",
        source: "github.com/WithSecureLabs/lolcerts malicious/hacking_team_malicious_certificate.yml",
    },
];

/// Refuses a chain through one of them, unless the recipe accepts its serial number.
pub(super) fn check(path: &[Vec<u8>], accepted: &[String]) -> Result<(), Refusal> {
    for der in path {
        let certificate = Certificate::read(der)?;
        let Some(row) = listed(&LIST, &certificate) else {
            continue;
        };
        if accepted.iter().any(|serial| serial == row.serial) {
            continue;
        }
        return Err(Reason::Revoked
            .refusal(format!("its certificate {}", row.why))
            .found(format_args!("{}, serial {}", certificate.subject_text(), row.serial))
            .cure(format!(
                "take a release that is signed with another one ({}); to take this one all the same, write `accept_misused = [\"{}\"]`",
                row.source, row.serial
            )));
    }
    Ok(())
}

fn listed<'l>(list: &'l [Misused], certificate: &Certificate<'_>) -> Option<&'l Misused> {
    let issuer = Name::read(certificate.issuer).ok()?;
    list.iter().find(|row| {
        let named = Name::parse(&format!("CN={}", row.issuer));
        let serial = hex::decode(row.serial);
        serial.is_ok_and(|serial| certificate.has_serial(&serial))
            && named.is_ok_and(|named| issuer.holds(&named))
    })
}
