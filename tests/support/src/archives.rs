//! Writes archives as no good archiver would.

use std::io::Write;

/// One tar header and its content, POSIX.1-1988 with the ustar magic.
pub fn tar_entry(name: &[u8], kind: u8, content: &[u8], link: &str) -> Vec<u8> {
    tar_sized(name, kind, content, content.len() as u64, link)
}

pub fn tar_sized(name: &[u8], kind: u8, content: &[u8], size: u64, link: &str) -> Vec<u8> {
    let mut header = [0u8; 512];
    header[..name.len()].copy_from_slice(name);
    header[100..108].copy_from_slice(b"0000644\0");
    header[108..116].copy_from_slice(b"0000000\0");
    header[116..124].copy_from_slice(b"0000000\0");
    header[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    header[136..148].copy_from_slice(b"00000000000\0");
    header[148..156].copy_from_slice(b"        ");
    header[156] = kind;
    header[157..157 + link.len()].copy_from_slice(link.as_bytes());
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = header.iter().map(|b| u32::from(*b)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut entry = header.to_vec();
    entry.extend_from_slice(content);
    entry.resize(entry.len().next_multiple_of(512), 0);
    entry
}

pub fn tar_file(name: &str, content: &str) -> Vec<u8> {
    tar_entry(name.as_bytes(), b'0', content.as_bytes(), "")
}

pub fn tar_of(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut all = entries.concat();
    all.extend_from_slice(&[0; 1024]);
    all
}

/// One zip entry, and how its headers may lie.
#[derive(Clone)]
pub struct Zipped {
    pub name: Vec<u8>,
    /// The name in the local header, when another.
    pub local_name: Option<Vec<u8>>,
    pub content: Vec<u8>,
    pub mode: u32,
    pub flags: u16,
    pub method: u16,
    /// The size that the headers claim, when another.
    pub claims: Option<u32>,
    /// The local header that the directory points at, when another.
    pub points_at: Option<u32>,
}

pub fn zipped(name: &str, content: &str) -> Zipped {
    Zipped {
        name: name.into(),
        local_name: None,
        content: content.into(),
        mode: 0o100_644,
        flags: 0,
        method: 0,
        claims: None,
        points_at: None,
    }
}

pub fn zip_header(entry: &Zipped, name: &[u8]) -> Vec<u8> {
    let mut header = Vec::new();
    for value in [20, entry.flags, entry.method, 0, 0x21] {
        header.extend_from_slice(&value.to_le_bytes());
    }
    let size = entry.content.len() as u32;
    let mut sum = flate2::Crc::new();
    sum.update(&entry.content);
    for value in [sum.sum(), size, entry.claims.unwrap_or(size)] {
        header.extend_from_slice(&value.to_le_bytes());
    }
    header.extend_from_slice(&(name.len() as u16).to_le_bytes());
    header.extend_from_slice(&0u16.to_le_bytes());
    header
}

pub fn zip_of(entries: &[Zipped]) -> Vec<u8> {
    let (mut all, mut directory) = (Vec::new(), Vec::new());
    for entry in entries {
        let at = entry.points_at.unwrap_or(all.len() as u32);
        let local_name = entry.local_name.as_ref().unwrap_or(&entry.name);
        all.extend_from_slice(b"PK\x03\x04");
        all.extend(zip_header(entry, local_name));
        all.extend_from_slice(local_name);
        all.extend_from_slice(&entry.content);

        directory.extend_from_slice(b"PK\x01\x02\x1e\x03");
        directory.extend(zip_header(entry, &entry.name));
        directory.extend_from_slice(&[0; 6]);
        directory.extend_from_slice(&(entry.mode << 16).to_le_bytes());
        directory.extend_from_slice(&at.to_le_bytes());
        directory.extend_from_slice(&entry.name);
    }
    let start = all.len() as u32;
    all.extend_from_slice(&directory);
    all.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    for _ in 0..2 {
        all.extend_from_slice(&(entries.len() as u16).to_le_bytes());
    }
    all.extend_from_slice(&(directory.len() as u32).to_le_bytes());
    all.extend_from_slice(&start.to_le_bytes());
    all.extend_from_slice(&0u16.to_le_bytes());
    all
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

/// The descriptor of a package whose machine has one disk, which this member holds.
pub fn ovf(vmdk: &str) -> String {
    format!(
        "<Envelope xmlns=\"http://schemas.dmtf.org/ovf/envelope/1\"
  xmlns:ovf=\"http://schemas.dmtf.org/ovf/envelope/1\">
  <References><File ovf:id=\"file1\" ovf:href=\"{vmdk}\"/></References>
  <DiskSection><Info/><Disk ovf:diskId=\"disk1\" ovf:fileRef=\"file1\"/></DiskSection>
  <VirtualSystem ovf:id=\"vm\"><Info/></VirtualSystem>
</Envelope>
"
    )
}
