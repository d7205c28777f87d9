//! Whether bytes that nothing proves yet can be the file that is asked for. Pure, by how they
//! begin.
//!
//! A digest that is taken on first use is obeyed from then on, so an error page or an empty answer
//! is not taken.

use winimg_base::digest::Digest;
use winimg_recipe::recipe::Archive;

/// Bytes at the beginning that are looked at: an ISO says what it is behind 16 blocks of 2 KiB.
pub const LOOKED_AT: usize = 33 << 10;

/// What comes in place of a file in a clone without Git LFS. (git-lfs: spec.md)
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";
/// What no file begins with that is not one of text for people or programs.
const TEXTS: [&str; 16] = [
    "cfg",
    "conf",
    "config",
    "crt",
    "json",
    "key",
    "pem",
    "properties",
    "ps1",
    "psd1",
    "psm1",
    "svg",
    "toml",
    "xml",
    "yaml",
    "yml",
];

/// A kind of file, and how it begins.
struct Form {
    name: &'static str,
    extensions: &'static [&'static str],
    /// Each with the offset at which it stands; one is enough.
    marks: &'static [(usize, &'static [u8])],
}

const PE: &[u8] = b"MZ";
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZIP: &[u8] = b"PK\x03\x04";
const EMPTY_ZIP: &[u8] = b"PK\x05\x06";
const CABINET: &[u8] = b"MSCF";
const WIM: &[u8] = b"MSWIM\0\0\0";
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const COMPOUND: &[u8] = &[0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1];

const FORMS: [Form; 11] = [
    Form {
        name: "a Windows program",
        extensions: &["dll", "efi", "exe", "sys"],
        marks: &[(0, PE)],
    },
    Form {
        name: "an installer package",
        extensions: &["msi", "msp"],
        marks: &[(0, COMPOUND)],
    },
    // Later ones are WIM files.
    Form {
        name: "an update package",
        extensions: &["msu"],
        marks: &[(0, CABINET), (0, WIM)],
    },
    Form {
        name: "a cabinet",
        extensions: &["cab"],
        marks: &[(0, CABINET)],
    },
    Form {
        name: "a ZIP archive",
        extensions: &["appx", "jar", "msix", "nupkg", "whl", "zip"],
        marks: &[(0, ZIP), (0, EMPTY_ZIP)],
    },
    Form {
        name: "gzip",
        extensions: &["gz", "tgz"],
        marks: &[(0, GZIP)],
    },
    Form {
        name: "xz",
        extensions: &["txz", "xz"],
        marks: &[(0, XZ)],
    },
    Form {
        name: "Zstandard",
        extensions: &["tzst", "zst"],
        marks: &[(0, ZSTD)],
    },
    Form {
        name: "a tar archive",
        extensions: &["tar"],
        marks: &[(257, b"ustar")],
    },
    // (ECMA-119: volume descriptors; ECMA-167: volume recognition sequence)
    Form {
        name: "an ISO image",
        extensions: &["iso"],
        marks: &[(0x8001, b"CD001"), (0x8001, b"BEA01")],
    },
    Form {
        name: "a Windows image",
        extensions: &["esd", "swm", "wim"],
        marks: &[(0, WIM)],
    },
];

/// What is asked for.
pub struct Asked<'a> {
    /// The file's name.
    pub name: &'a str,
    /// How it is packed, whatever its name says.
    pub archive: Option<Archive>,
    /// Whether it came from a server, and not from a file that somebody chose.
    pub is_remote: bool,
}

/// Why the bytes cannot be the file, if so.
#[derive(Debug, PartialEq, Eq)]
pub struct Unfit {
    pub expected: String,
    pub found: String,
}

/// Judges a file by its first bytes, [`LOOKED_AT`] of them where it has as many, and by its size.
pub fn judge(asked: &Asked<'_>, head: &[u8], size: u64) -> Option<Unfit> {
    let (form, extension) = form_of(asked);
    let expected = match form {
        Some(form) => format!("{}, as the name {} says", form.name, asked.name),
        None => "the file itself".to_owned(),
    };
    let found = match () {
        () if size == 0 => "an empty file, 0 bytes".to_owned(),
        () if head.starts_with(LFS_POINTER) => {
            "a Git LFS pointer, which names the file and is not it".to_owned()
        }
        // Somebody looked at it before it was named.
        () if !asked.is_remote => return None,
        () if form.is_some_and(|form| !form.fits(head)) => described(head),
        () if form.is_none() && !TEXTS.contains(&extension.as_str()) && is_answer(head) => {
            described(head)
        }
        () => return None,
    };
    Some(Unfit { expected, found })
}

fn form_of(asked: &Asked<'_>) -> (Option<&'static Form>, String) {
    let (_, extension) = asked.name.rsplit_once('.').unwrap_or(("", ""));
    let extension = extension.to_ascii_lowercase();
    let packed = asked.archive.map(|archive| match archive {
        Archive::Zip => "zip",
        Archive::Tar => "tar",
        Archive::TarGz => "gz",
        Archive::TarZst => "zst",
    });
    let wanted = packed.unwrap_or(&extension);
    let form = FORMS.iter().find(|form| form.extensions.contains(&wanted));
    (form, extension)
}

impl Form {
    fn fits(&self, head: &[u8]) -> bool {
        self.marks
            .iter()
            .any(|(at, mark)| head.get(*at..).is_some_and(|rest| rest.starts_with(mark)))
    }
}

/// A service's answer about an error, as JSON or XML.
fn is_answer(head: &[u8]) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let head = head.trim_ascii_start();
    ["{", "<?xml", "<Error", "<error"]
        .iter()
        .any(|start| head.starts_with(start.as_bytes()))
}

/// What bytes seem to be, with how they begin where that is text.
fn described(head: &[u8]) -> String {
    let known = FORMS.iter().find(|form| form.fits(head));
    if let Some(form) = known {
        return form.name.to_owned();
    }
    let beginning = &head[..head.len().min(60)];
    let is_text = |text: &str| !text.contains(|c: char| c.is_control() && !c.is_whitespace());
    match std::str::from_utf8(beginning) {
        Ok(text) if is_text(text) => {
            format!(
                "text that begins with `{}`",
                winimg_base::unseen::line(text)
            )
        }
        _ => {
            let bytes = &beginning[..beginning.len().min(8)];
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("a file that begins with the bytes {hex}")
        }
    }
}

/// What the recipe would say of the file where its bytes are right all the same.
pub fn by_hand(digest: &Digest) -> String {
    format!(
        "look at the address in a browser; where these bytes are right, write their digest into the recipe by hand: {} = \"{}\"",
        digest.algorithm.name(),
        digest.hex()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, archive: Option<Archive>, is_remote: bool, head: &[u8]) -> Option<String> {
        let asked = Asked {
            name,
            archive,
            is_remote,
        };
        let unfit = judge(&asked, head, head.len() as u64)?;
        Some(unfit.found)
    }

    #[test]
    fn what_servers_send_in_place_of_a_file_is_not_taken() {
        let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n";
        let json = br#"{"errors":[{"status":404,"message":"File not found."}]}"#;
        let xml = b"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>";
        for (name, head, expected) in [
            ("kubelet.exe", &b""[..], "an empty file, 0 bytes"),
            ("tool", b"", "an empty file, 0 bytes"),
            (
                "kubelet.exe",
                pointer,
                "a Git LFS pointer, which names the file and is not it",
            ),
            ("kubelet.exe", b"\x1f\x8b\x08\0\0\0\0\0", "gzip"),
            ("kubelet.exe", b"PK\x03\x04", "a ZIP archive"),
            ("agent.msi", b"MZ\x90", "a Windows program"),
            (
                "wins.tgz",
                b"\0\0\0\0\0\0\0\0\0",
                "a file that begins with the bytes 0000000000000000",
            ),
            (
                "tool.zip",
                json,
                "text that begins with `{\"errors\":[{\"status\":404,\"message\":\"File not found.\"}]}`",
            ),
            (
                "tool",
                json,
                "text that begins with `{\"errors\":[{\"status\":404,\"message\":\"File not found.\"}]}`",
            ),
            (
                "tool.bin",
                xml,
                "text that begins with `<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error`",
            ),
            ("w.iso", b"iso", "text that begins with `iso`"),
        ] {
            assert_eq!(
                found(name, None, true, head).as_deref(),
                Some(expected),
                "{name}"
            );
        }
        let unpacked = found("download", Some(Archive::TarGz), true, b"MZ");
        assert_eq!(unpacked.as_deref(), Some("a Windows program"));
    }

    #[test]
    fn what_can_be_the_file_is_taken() {
        let mut iso = vec![0; 0x8001];
        iso.extend(b"CD001");
        let mut tar = vec![0; 257];
        tar.extend(b"ustar\0");
        for (name, head) in [
            ("kubelet.EXE", &b"MZ\x90"[..]),
            ("agent.msi", COMPOUND),
            ("kb.msu", CABINET),
            ("kb.msu", WIM),
            ("tool.zip", EMPTY_ZIP),
            ("containerd.tar.gz", GZIP),
            ("w.iso", &iso),
            ("a.tar", &tar),
            ("settings.json", b"{}"),
            ("provision.ps1", b"<# text #>"),
            ("azure.xml", b"<?xml version=\"1.0\"?>"),
            ("tool", b"#!/bin/sh"),
            ("notes.txt", b"plain"),
        ] {
            assert_eq!(found(name, None, true, head), None, "{name}");
        }
        // A file that somebody chose is what it is, as long as it is one.
        assert_eq!(found("w.iso", None, false, b"a stand-in"), None);
        assert!(found("w.iso", None, false, LFS_POINTER).is_some());
        assert!(found("w.iso", None, false, b"").is_some());
    }
}
