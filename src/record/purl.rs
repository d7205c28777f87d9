//! Package URLs of inputs (purl specification; its type definitions `generic`, `github`, `oci`).
//!
//! A type of an ecosystem is used only if the address proves it; the default is `generic`.

use std::fmt::Write as _;

/// Returns the purl of a file. A GitHub release's file is `pkg:github` of its repository and tag.
pub fn build_file_purl(
    name: &str,
    version: Option<&str>,
    url: Option<&str>,
    digest: &str,
) -> String {
    let mut purl = match url.and_then(parse_github_release) {
        Some((owner, repository, tag)) => format!(
            "pkg:github/{}/{}@{}",
            encode(&owner.to_ascii_lowercase()),
            encode(&repository.to_ascii_lowercase()),
            encode(tag)
        ),
        None => {
            let version = version.map(|v| format!("@{}", encode(v)));
            format!(
                "pkg:generic/{}{}",
                encode(name),
                version.unwrap_or_default()
            )
        }
    };
    // Qualifiers are sorted by key.
    let _ = write!(purl, "?checksum={}", encode_value(digest));
    if let Some(url) = url {
        let _ = write!(purl, "&download_url={}", encode_value(url));
    }
    purl
}

/// Returns the purl of a container image by its manifest's digest, with the reference's tag if any.
pub fn build_image_purl(reference: &str, digest: &str) -> String {
    let bare = reference.split('@').next().unwrap_or_default();
    let slash = bare.rfind('/').map_or(0, |at| at + 1);
    let (repository, tag) = match bare[slash..].rfind(':') {
        Some(colon) => (&bare[..slash + colon], Some(&bare[slash + colon + 1..])),
        None => (bare, None),
    };
    let name = repository[slash..].to_ascii_lowercase();
    let (algorithm, hex) = split_digest(digest);
    let mut purl = format!(
        "pkg:oci/{}@{}?repository_url={}",
        encode(&name),
        encode(&format!("{algorithm}:{hex}")),
        encode_value(&repository.to_ascii_lowercase())
    );
    if let Some(tag) = tag {
        let _ = write!(purl, "&tag={}", encode_value(tag));
    }
    purl
}

/// Parses owner, repository and tag of
/// `https://github.com/OWNER/REPOSITORY/releases/download/TAG/FILE`.
fn parse_github_release(url: &str) -> Option<(&str, &str, &str)> {
    let path = url.strip_prefix("https://github.com/")?;
    let parts: Vec<&str> = path.split('/').collect();
    let [owner, repository, "releases", "download", tag, file] = parts[..] else {
        return None;
    };
    // Escaped characters would be escaped twice.
    let is_plain = [owner, repository, tag]
        .into_iter()
        .all(|part| !part.is_empty() && !part.contains('%'));
    (is_plain && !file.is_empty()).then_some((owner, repository, tag))
}

/// Percent-encodes for a purl: keeps letters, digits and `-._~:`.
fn encode(text: &str) -> String {
    encode_except(text, b"-._~:")
}

/// Percent-encodes a qualifier's value, which also keeps slashes.
fn encode_value(text: &str) -> String {
    encode_except(text, b"-._~:/")
}

fn encode_except(text: &str, kept: &[u8]) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            _ if byte.is_ascii_alphanumeric() || kept.contains(&byte) => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// Splits a digest into its algorithm and its hex; the default algorithm is `sha256`.
pub fn split_digest(digest: &str) -> (String, String) {
    let (name, hex) = digest.split_once(':').unwrap_or(("sha256", digest));
    (name.into(), hex.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "00ff";

    #[test]
    fn addresses_decide_the_type() {
        let digest = format!("sha256:{HEX}");
        let of = |url| build_file_purl("kubelet", Some("1.36.1+x"), url, &digest);
        assert_eq!(
            of(None),
            "pkg:generic/kubelet@1.36.1%2Bx?checksum=sha256:00ff"
        );
        assert_eq!(
            of(Some("https://dl.k8s.io/release/v1/kubelet.exe")),
            "pkg:generic/kubelet@1.36.1%2Bx?checksum=sha256:00ff\
             &download_url=https://dl.k8s.io/release/v1/kubelet.exe"
        );
        assert_eq!(
            of(Some(
                "https://github.com/PowerShell/Win32-OpenSSH/releases/download/v9/O.zip"
            )),
            "pkg:github/powershell/win32-openssh@v9?checksum=sha256:00ff\
             &download_url=https://github.com/PowerShell/Win32-OpenSSH/releases/download/v9/O.zip"
        );
        let moving = "https://github.com/o/r/releases/latest/download/f.zip";
        assert!(of(Some(moving)).starts_with("pkg:generic/"));
    }

    #[test]
    fn a_registrys_port_is_no_tag() {
        assert_eq!(
            build_image_purl("mcr.example.com:5000/oss/pause:3.10", "sha256:00ff"),
            "pkg:oci/pause@sha256:00ff?repository_url=mcr.example.com:5000/oss/pause&tag=3.10"
        );
        assert_eq!(
            build_image_purl("mcr.example.com:5000/oss/pause@sha256:00ff", "sha256:00ff"),
            "pkg:oci/pause@sha256:00ff?repository_url=mcr.example.com:5000/oss/pause"
        );
    }
}
