//! Package URLs of inputs (purl specification; its type definitions `generic`, `github`, `oci`).
//!
//! A type that belongs to an ecosystem is used only where the address itself says so; all else is `generic`.

use std::fmt::Write as _;

/// Of a file. A GitHub release's file is `pkg:github` of its repository and tag.
pub fn file(name: &str, version: Option<&str>, url: Option<&str>, digest: &str) -> String {
    let mut purl = match url.and_then(github_release) {
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
    let _ = write!(purl, "?checksum={}", value(digest));
    if let Some(url) = url {
        let _ = write!(purl, "&download_url={}", value(url));
    }
    purl
}

/// Of a container image by its manifest's digest; the reference's tag is kept where it has one.
pub fn image(reference: &str, digest: &str) -> String {
    let bare = reference.split('@').next().unwrap_or_default();
    let slash = bare.rfind('/').map_or(0, |at| at + 1);
    let (repository, tag) = match bare[slash..].rfind(':') {
        Some(colon) => (&bare[..slash + colon], Some(&bare[slash + colon + 1..])),
        None => (bare, None),
    };
    let name = repository[slash..].to_ascii_lowercase();
    let (algorithm, hex) = split(digest);
    let mut purl = format!(
        "pkg:oci/{}@{}?repository_url={}",
        encode(&name),
        encode(&format!("{algorithm}:{hex}")),
        value(&repository.to_ascii_lowercase())
    );
    if let Some(tag) = tag {
        let _ = write!(purl, "&tag={}", value(tag));
    }
    purl
}

/// Owner, repository and tag of `https://github.com/OWNER/REPOSITORY/releases/download/TAG/FILE`.
fn github_release(url: &str) -> Option<(&str, &str, &str)> {
    let path = url.strip_prefix("https://github.com/")?;
    let parts: Vec<&str> = path.split('/').collect();
    let [owner, repository, "releases", "download", tag, file] = parts[..] else {
        return None;
    };
    // Whatever is escaped in an address would be escaped twice here.
    let plain = |part: &str| !part.is_empty() && !part.contains('%');
    let named = [owner, repository, tag].into_iter().all(plain);
    (named && !file.is_empty()).then_some((owner, repository, tag))
}

/// Percent-encoding of purl: letters, digits and `-._~:` stay.
fn encode(text: &str) -> String {
    encode_but(text, b"-._~:")
}

/// In a qualifier's value a slash stays as well.
fn value(text: &str) -> String {
    encode_but(text, b"-._~:/")
}

fn encode_but(text: &str, kept: &[u8]) -> String {
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

/// `sha256` and the hex.
pub fn split(digest: &str) -> (String, String) {
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
        let of = |url| file("kubelet", Some("1.36.1+x"), url, &digest);
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
            image("mcr.example.com:5000/oss/pause:3.10", "sha256:00ff"),
            "pkg:oci/pause@sha256:00ff?repository_url=mcr.example.com:5000/oss/pause&tag=3.10"
        );
        assert_eq!(
            image("mcr.example.com:5000/oss/pause@sha256:00ff", "sha256:00ff"),
            "pkg:oci/pause@sha256:00ff?repository_url=mcr.example.com:5000/oss/pause"
        );
    }
}
