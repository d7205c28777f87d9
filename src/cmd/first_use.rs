//! Checks by its first bytes that an unverified download can be the expected file. Pure.
//!
//! A digest pinned on first use is trusted from then on, so an error page or an empty response must
//! not be pinned.

use winimg_base::digest::Digest;
use winimg_recipe::ArchiveKind;

/// Number of leading bytes to read: an ISO's signature follows 16 blocks of 2 KiB.
pub const LOOKED_AT: usize = 33 << 10;

/// Start of the pointer that replaces a file in a clone without Git LFS (git-lfs: spec.md).
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";
/// Extensions of text files, which may look like a server's error response.
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

/// A file type and its signatures.
struct FileType {
    name: &'static str,
    extensions: &'static [&'static str],
    /// Signatures with their offsets; one must match.
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

const FORMS: [FileType; 11] = [
    FileType {
        name: "a Windows program",
        extensions: &["dll", "efi", "exe", "sys"],
        marks: &[(0, PE)],
    },
    FileType {
        name: "an installer package",
        extensions: &["msi", "msp"],
        marks: &[(0, COMPOUND)],
    },
    // Newer updates are WIM files.
    FileType {
        name: "an update package",
        extensions: &["msu"],
        marks: &[(0, CABINET), (0, WIM)],
    },
    FileType {
        name: "a cabinet",
        extensions: &["cab"],
        marks: &[(0, CABINET)],
    },
    FileType {
        name: "a ZIP archive",
        extensions: &["appx", "jar", "msix", "nupkg", "whl", "zip"],
        marks: &[(0, ZIP), (0, EMPTY_ZIP)],
    },
    FileType {
        name: "gzip",
        extensions: &["gz", "tgz"],
        marks: &[(0, GZIP)],
    },
    FileType {
        name: "xz",
        extensions: &["txz", "xz"],
        marks: &[(0, XZ)],
    },
    FileType {
        name: "Zstandard",
        extensions: &["tzst", "zst"],
        marks: &[(0, ZSTD)],
    },
    FileType {
        name: "a tar archive",
        extensions: &["tar"],
        marks: &[(257, b"ustar")],
    },
    // (ECMA-119: volume descriptors; ECMA-167: volume recognition sequence)
    FileType {
        name: "an ISO image",
        extensions: &["iso"],
        marks: &[(0x8001, b"CD001"), (0x8001, b"BEA01")],
    },
    FileType {
        name: "a Windows image",
        extensions: &["esd", "swm", "wim"],
        marks: &[(0, WIM)],
    },
];

/// The expected file.
pub struct ExpectedFile<'a> {
    /// The file's name.
    pub name: &'a str,
    /// Archive type, which overrides the extension.
    pub archive: Option<ArchiveKind>,
    /// True if it was downloaded; false for a local file that the user chose.
    pub is_remote: bool,
}

/// Reason why the bytes cannot be the expected file.
#[derive(Debug, PartialEq, Eq)]
pub struct FileMismatch {
    pub expected: String,
    pub found: String,
}

/// Checks a file by its size and its first [`LOOKED_AT`] bytes. Returns `None` if it can be the
/// expected file.
pub fn check_bytes(asked: &ExpectedFile<'_>, head: &[u8], size: u64) -> Option<FileMismatch> {
    let (form, extension) = detect_type(asked);
    let expected = match form {
        Some(form) => format!("{} (by the name {})", form.name, asked.name),
        None => "the file itself".to_owned(),
    };
    let found = match () {
        () if size == 0 => "an empty file, 0 bytes".to_owned(),
        () if head.starts_with(LFS_POINTER) => "a Git LFS pointer instead of the file".to_owned(),
        // The user chose a local file deliberately.
        () if !asked.is_remote => return None,
        () if form.is_some_and(|form| !form.fits(head)) => describe(head),
        () if form.is_none() && !TEXTS.contains(&extension.as_str()) && is_answer(head) => {
            describe(head)
        }
        () => return None,
    };
    Some(FileMismatch { expected, found })
}

fn detect_type(asked: &ExpectedFile<'_>) -> (Option<&'static FileType>, String) {
    let (_, extension) = asked.name.rsplit_once('.').unwrap_or(("", ""));
    let extension = extension.to_ascii_lowercase();
    let packed = asked.archive.map(|archive| match archive {
        ArchiveKind::Zip => "zip",
        ArchiveKind::Tar => "tar",
        ArchiveKind::TarGz => "gz",
        ArchiveKind::TarZst => "zst",
    });
    let wanted = packed.unwrap_or(&extension);
    let form = FORMS.iter().find(|form| form.extensions.contains(&wanted));
    (form, extension)
}

impl FileType {
    fn fits(&self, head: &[u8]) -> bool {
        self.marks
            .iter()
            .any(|(at, mark)| head.get(*at..).is_some_and(|rest| rest.starts_with(mark)))
    }
}

/// Checks if the bytes look like a JSON or XML error response.
fn is_answer(head: &[u8]) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let head = head.trim_ascii_start();
    ["{", "<?xml", "<Error", "<error"]
        .iter()
        .any(|start| head.starts_with(start.as_bytes()))
}

/// Describes the file type, or quotes the beginning of an unknown one.
fn describe(head: &[u8]) -> String {
    if let Some(form) = FORMS.iter().find(|form| form.fits(head)) {
        return form.name.to_owned();
    }
    let beginning = &head[..head.len().min(60)];
    match std::str::from_utf8(beginning) {
        Ok(text) if !text.contains(|c: char| c.is_control() && !c.is_whitespace()) => {
            format!(
                "text that begins with `{}`",
                winimg_base::display_text::sanitize_line(text)
            )
        }
        _ => {
            let bytes = &beginning[..beginning.len().min(8)];
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("a file that begins with the bytes {hex}")
        }
    }
}

/// Returns the cure for a rejected file that is the right one after all.
pub fn describe_cure(digest: &Digest) -> String {
    format!(
        "open the URL in a browser; if the file is right, \
         add its digest to the recipe: {} = \"{}\"",
        digest.algorithm.name(),
        digest.hex()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(
        name: &str,
        archive: Option<ArchiveKind>,
        is_remote: bool,
        head: &[u8],
    ) -> Option<String> {
        let asked = ExpectedFile {
            name,
            archive,
            is_remote,
        };
        let unfit = check_bytes(&asked, head, head.len() as u64)?;
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
                "a Git LFS pointer instead of the file",
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
        let unpacked = found("download", Some(ArchiveKind::TarGz), true, b"MZ");
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
