//! Certificates that are publicly known to be stolen or to have signed malware.
//!
//! A few well-known ones, each with its source. The list is not complete and does not replace the
//! revocation lists of the issuers.

use super::certificate::Certificate;
use super::name::DistinguishedName;
use crate::{RefusalReason, SignatureRefusal};

/// A certificate by its serial number and its issuer's common name, as in the sources.
#[derive(Clone, Copy, Debug)]
pub struct MisusedCertificate {
    /// Hexadecimal, lower case.
    pub serial: &'static str,
    /// The common name.
    pub issuer: &'static str,
    /// The incident; fits after "its certificate ".
    pub why: &'static str,
    /// Source: a file in a repository, or a page that it refers to.
    pub source: &'static str,
}

/// All known misused certificates.
pub const LIST: [MisusedCertificate; 7] = [
    MisusedCertificate {
        serial: "43bb437d609866286dd839e1d00309f5",
        issuer: "VeriSign Class 3 Code Signing 2010 CA",
        why: "was stolen from NVIDIA in 2022 and published",
        source: "github.com/Neo23x0/signature-base yara/gen_nvidia_leaked_cert.yar",
    },
    MisusedCertificate {
        serial: "14781bc862e8dc503a559346f5dcc518",
        issuer: "VeriSign Class 3 Code Signing 2010 CA",
        why: "was stolen from NVIDIA in 2022 and published",
        source: "github.com/WithSecureLabs/lolcerts leaked/lapsus_nvidia_leaked_certificate.yml",
    },
    MisusedCertificate {
        serial: "0dbf152deaf0b981a8a938d53f769db8",
        issuer: "DigiCert Trusted G4 Code Signing RSA4096 SHA384 2021 CA1",
        why: "was revoked after the break-in at AnyDesk in 2024",
        source: "github.com/Neo23x0/signature-base yara/gen_anydesk_compromised_cert_feb23.yar",
    },
    MisusedCertificate {
        serial: "0b886032861d9553c68f803313a98975",
        issuer: "DigiCert SHA2 Assured ID Code Signing CA",
        why: "was stolen from MSI in 2023 and published",
        source: "github.com/WithSecureLabs/lolcerts leaked/msi_leaked_certificate.yml",
    },
    MisusedCertificate {
        serial: "0139dde119bb320dfb9f5defe3f71245",
        issuer: "Sectigo Public Code Signing CA R36",
        why: "was leaked from Hangil IT and used to sign malware",
        source: "github.com/WithSecureLabs/lolcerts leaked/hangil_it_leaked_certificate.yml",
    },
    MisusedCertificate {
        serial: "0fe973752022a606adf2a36e345dc0ed",
        issuer: "Symantec Class 3 SHA256 Code Signing CA",
        why: "signed the builds of SolarWinds Orion with a back door of 2020",
        source: "github.com/Neo23x0/signature-base yara/apt_solarwinds_susp_sunburst.yar",
    },
    MisusedCertificate {
        serial: "0f1b43484a1369c83038dc24e7778b7d",
        issuer: "VeriSign Class 3 Code Signing 2010 CA",
        why: "was used by Hacking Team, who sold spyware",
        source: "github.com/WithSecureLabs/lolcerts \
            malicious/hacking_team_malicious_certificate.yml",
    },
];

/// Refuses a chain through one of them, unless the recipe accepts its serial number.
pub(super) fn check(path: &[Vec<u8>], accepted: &[String]) -> Result<(), SignatureRefusal> {
    for der in path {
        let certificate = Certificate::read(der)?;
        let Some(row) = find_listed(&LIST, &certificate) else {
            continue;
        };
        if accepted.iter().any(|serial| serial == row.serial) {
            continue;
        }
        return Err(RefusalReason::Revoked
            .refusal(format!("its certificate {}", row.why))
            .found(format_args!(
                "{}, serial {}",
                certificate.subject_text(),
                row.serial
            ))
            .cure(format!(
                "use a release that is signed with a different certificate ({}); to accept this \
                 one anyway, set `accept_misused = [\"{}\"]`",
                row.source, row.serial
            )));
    }
    Ok(())
}

fn find_listed<'l>(
    list: &'l [MisusedCertificate],
    certificate: &Certificate<'_>,
) -> Option<&'l MisusedCertificate> {
    let issuer = DistinguishedName::read(certificate.issuer).ok()?;
    list.iter().find(|row| {
        let named = DistinguishedName::parse(&format!("CN={}", row.issuer));
        let serial = hex::decode(row.serial);
        serial.is_ok_and(|serial| certificate.has_serial(&serial))
            && named.is_ok_and(|named| issuer.contains(&named))
    })
}
