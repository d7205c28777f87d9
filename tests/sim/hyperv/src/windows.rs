//! What a scripted guest's Windows holds, kept on its disk: in the reserved partition of the disks that tests make. An empty disk boots nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::at::At as _;
use crate::vhdx::Chain;

/// Where it lies: 2 MiB in, at most 1 MiB.
const PLACE: u64 = 2 << 20;
const ROOM: u64 = 1 << 20;
const MARK: &[u8; 8] = b"FAKEWIN1";
/// Where Setup leaves the installation's number, which the rest repeats: files over another installation are a torn disk.
const NUMBER_PLACE: u64 = 3 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Windows {
    /// Of this installation.
    pub number: u64,
    /// How often it was started.
    pub boots: u32,
    /// By lower-case path.
    #[serde(serialize_with = "to_text", deserialize_with = "of_text")]
    pub files: BTreeMap<String, Vec<u8>>,
}

fn to_text<S: Serializer>(files: &BTreeMap<String, Vec<u8>>, s: S) -> Result<S::Ok, S::Error> {
    s.collect_map(
        files
            .iter()
            .map(|(path, bytes)| (path, BASE64.encode(bytes))),
    )
}

fn of_text<'de, D: Deserializer<'de>>(d: D) -> Result<BTreeMap<String, Vec<u8>>, D::Error> {
    let texts = BTreeMap::<String, String>::deserialize(d)?;
    let one = |(path, text): (String, String)| match BASE64.decode(text) {
        Ok(bytes) => Ok((path, bytes)),
        Err(e) => Err(serde::de::Error::custom(e)),
    };
    texts.into_iter().map(one).collect()
}

impl Windows {
    /// A folder is there when a file lies in it or below, or when Windows always has it.
    pub fn has_folder(&self, folder: &str) -> bool {
        let always = [
            "c:",
            "c:\\windows",
            "c:\\windows\\temp",
            "c:\\windows\\system32\\sysprep",
            "c:\\windows\\system32\\sysprep\\panther",
            "c:\\windows\\panther",
            "c:\\programdata",
        ];
        let below = format!("{folder}\\");
        always.contains(&folder) || self.files.keys().any(|path| path.starts_with(&below))
    }
}

/// The Windows on a closed disk; `None` when there is none.
pub fn load(disk: &Path, _scratch: &Path) -> Result<Option<Windows>, String> {
    let chain = Chain::open(disk).map_err(|fault| fault.to_string())?;
    let read = |at: u64, length: usize| chain.read(at, length).map_err(|fault| fault.to_string());
    let head = read(PLACE, 16)?;
    let Some(length) = head.strip_prefix(MARK) else {
        return Ok(None);
    };
    let length = u64::from_le_bytes(length.try_into().unwrap_or_default());
    if length > ROOM - 16 {
        return Err("the guest's files on the disk are cut".into());
    }
    let text = read(PLACE + 16, length as usize)?;
    let windows: Windows =
        serde_json::from_slice(&text).map_err(|e| format!("the guest's files on the disk: {e}"))?;
    if read(NUMBER_PLACE, 8)? == windows.number.to_le_bytes() {
        Ok(Some(windows))
    } else {
        Err("the disk is a mixture of two installations".into())
    }
}

/// Writes it to a disk that nobody has open; with its number, when Setup has just made it.
pub fn save(disk: &Path, windows: &Windows, scratch: &Path, fresh: bool) -> Result<(), String> {
    let text = serde_json::to_vec(windows).map_err(|e| e.to_string())?;
    let mut bytes = MARK.to_vec();
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text);
    if bytes.len() as u64 > ROOM {
        return Err("the guest's files are larger than their place on the disk".into());
    }
    change(disk, scratch, |raw| {
        raw.write_all_at(&bytes, PLACE)?;
        if fresh {
            raw.write_all_at(&windows.number.to_le_bytes(), NUMBER_PLACE)
        } else {
            Ok(())
        }
    })
}

/// Setup's work: everything of `from` onto the machine's disk.
pub fn apply(from: &Path, disk: &Path, scratch: &Path) -> Result<(), String> {
    let source = Chain::open(from).map_err(|fault| format!("{}: {fault}", from.display()))?;
    let copy = scratch.join("applied.raw");
    let raw = File::create(&copy).map_err(|e| e.to_string())?;
    source.flatten(&raw).map_err(|fault| fault.to_string())?;
    drop(raw);
    let done = absorb(disk, &copy);
    let _ = std::fs::remove_file(&copy);
    done
}

fn absorb(disk: &Path, copy: &Path) -> Result<(), String> {
    let target = Chain::open_to_write(disk).map_err(|fault| fault.to_string())?;
    let raw = File::options()
        .read(true)
        .write(true)
        .open(copy)
        .map_err(|e| e.to_string())?;
    raw.set_len(target.size()).map_err(|e| e.to_string())?;
    target.absorb(&raw).map_err(|fault| fault.to_string())
}

fn change(
    disk: &Path,
    scratch: &Path,
    how: impl FnOnce(&File) -> std::io::Result<()>,
) -> Result<(), String> {
    let copy = scratch.join("changed.raw");
    let raw = File::create(&copy).map_err(|e| e.to_string())?;
    let chain = Chain::open(disk).map_err(|fault| fault.to_string())?;
    chain.flatten(&raw).map_err(|fault| fault.to_string())?;
    drop(chain);
    how(&raw).map_err(|e| e.to_string())?;
    drop(raw);
    let done = absorb(disk, &copy);
    let _ = std::fs::remove_file(&copy);
    done
}
