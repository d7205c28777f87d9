//! Drive letters: CDs from D: on, then removable disks, each mounted read-only below `/mnt`.
//!
//! UDF is taken before ISO9660, Joliet names before plain ones, and Rock Ridge never, as Windows reads a CD.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::devices::{self, Device};
use super::{label, sys};

/// A volume with a letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drive {
    pub letter: char,
    pub root: PathBuf,
    /// A removable disk that could be written; false: a CD.
    pub writable: bool,
}

struct Slot {
    letter: char,
    /// Kept open: the kernel notices a change of medium through it.
    file: File,
    device: Device,
    mounted: Option<PathBuf>,
    held: bool,
    /// Changed, and not yet mounted: QEMU reports one change twice (hw/ide/atapi.c: not ready, then unit attention).
    settles: bool,
}

/// The CD drives of one boot and what is in them.
pub struct CdDrives {
    slots: Vec<Slot>,
    turn: u32,
}

/// The letter of the CD drive at `index` in bus order.
pub fn cd_letter(index: usize) -> Option<char> {
    let letter = char::from(b'D'.checked_add(u8::try_from(index).ok()?)?);
    letter.is_ascii_uppercase().then_some(letter)
}

fn mount_cd(node: &str, target: &Path) -> std::io::Result<()> {
    sys::mount(node, target, "udf", libc::MS_RDONLY, "")
        .or_else(|_| sys::mount(node, target, "iso9660", libc::MS_RDONLY, "norock"))
}

impl Slot {
    fn mount(&mut self, turn: &mut u32) {
        *turn += 1;
        let target = PathBuf::from(format!("/mnt/{}{turn}", self.letter));
        self.mounted = mount_cd(&self.device.node(), &target)
            .is_ok()
            .then_some(target);
    }

    /// Whether there was something to unmount.
    fn unmount(&mut self) -> bool {
        let Some(old) = self.mounted.take() else {
            return false;
        };
        let _ = sys::unmount(&old).or_else(|_| sys::detach(&old));
        true
    }
}

impl CdDrives {
    pub fn open() -> CdDrives {
        let open = |(index, device): (usize, Device)| {
            let file = File::options()
                .read(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(device.node())
                .ok()?;
            Some(Slot {
                letter: cd_letter(index)?,
                file,
                device,
                mounted: None,
                held: false,
                settles: false,
            })
        };
        let slots = devices::cd_drives()
            .into_iter()
            .enumerate()
            .filter_map(open)
            .collect();
        let mut drives = CdDrives { slots, turn: 0 };
        drives.look_at_boot();
        drives
    }

    /// Mounts what lies there from the start.
    fn look_at_boot(&mut self) {
        for slot in &mut self.slots {
            slot.held = sys::holds_medium(&slot.file);
            // Each medium is new to a kernel that has just started: no change to wait for.
            let _ = sys::medium_changed(&slot.file);
            if slot.held {
                slot.mount(&mut self.turn);
            }
        }
    }

    /// Looks at every drive; whether anything changed. A changed medium is mounted at the first look that finds it unchanged.
    pub fn refresh(&mut self) -> bool {
        let mut any = false;
        for slot in &mut self.slots {
            let holds = sys::holds_medium(&slot.file);
            let changed = holds && sys::medium_changed(&slot.file);
            if changed || holds != slot.held {
                any |= slot.unmount();
                slot.held = holds;
                slot.settles = holds;
            } else if slot.settles {
                any = true;
                slot.settles = false;
                slot.mount(&mut self.turn);
            }
        }
        any
    }

    pub fn list(&self) -> Vec<Drive> {
        let drive = |slot: &Slot| {
            Some(Drive {
                letter: slot.letter,
                root: slot.mounted.clone()?,
                writable: false,
            })
        };
        self.slots.iter().filter_map(drive).collect()
    }

    /// Labels of the media that lie there.
    pub fn labels(&self) -> Vec<(char, String)> {
        let label = |slot: &Slot| {
            slot.mounted.as_ref()?;
            let file = File::open(slot.device.node()).ok()?;
            Some((slot.letter, label::of(&file)?))
        };
        self.slots.iter().filter_map(label).collect()
    }

    /// First letter after the CD drives.
    pub fn next_letter(&self) -> Option<char> {
        cd_letter(self.slots.len())
    }
}

/// Removable disks (USB sticks), lettered from `first` on.
pub fn removable(first: Option<char>) -> Vec<Drive> {
    let mut drives = Vec::new();
    let mut letter = first;
    for disk in devices::disks()
        .into_iter()
        .filter(|disk| disk.removable || disk.is_usb())
    {
        for node in [disk.partition(1), disk.node()] {
            let Some(at) = letter else { return drives };
            let root = PathBuf::from(format!("/mnt/{at}"));
            let mounted = sys::mount(&node, &root, "vfat", libc::MS_RDONLY, "").is_ok()
                || sys::tool("ntfs-3g", &["-o", "ro", &node, &root.to_string_lossy()]).is_ok();
            if mounted {
                drives.push(Drive {
                    letter: at,
                    root,
                    writable: true,
                });
                letter = char::from_u32(at as u32 + 1).filter(char::is_ascii_uppercase);
                break;
            }
        }
    }
    drives
}

/// The entry of `directory` with this name in any case.
pub fn entry(directory: &Path, name: &str) -> Option<PathBuf> {
    let exact = directory.join(name);
    if exact.exists() {
        return Some(exact);
    }
    let mut entries: Vec<_> = std::fs::read_dir(directory).ok()?.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    entries
        .into_iter()
        .find(|held| {
            held.file_name()
                .to_string_lossy()
                .eq_ignore_ascii_case(name)
        })
        .map(|held| held.path())
}

/// Where a Windows path like `E:\viostor\2k22` lies, when it is there.
pub fn resolve(drives: &[Drive], path: &str) -> Option<PathBuf> {
    let (letter, rest) = path.split_once(':')?;
    let letter = letter
        .chars()
        .next()
        .filter(|_| letter.len() == 1)?
        .to_ascii_uppercase();
    let drive = drives.iter().find(|drive| drive.letter == letter)?;
    let parts = rest.split(['\\', '/']).filter(|part| !part.is_empty());
    parts
        .into_iter()
        .try_fold(drive.root.clone(), |at, part| entry(&at, part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_start_at_d_and_end_at_z() {
        assert_eq!((0..3).filter_map(cd_letter).collect::<String>(), "DEF");
        assert_eq!(cd_letter(22), Some('Z'));
        assert_eq!(cd_letter(23), None);
    }

    #[test]
    fn paths_resolve_in_any_case() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        std::fs::create_dir_all(dir.path().join("viostor/2k22/amd64"))?;
        let drives = [Drive {
            letter: 'E',
            root: dir.path().to_owned(),
            writable: false,
        }];
        assert_eq!(
            resolve(&drives, r"e:\VioStor\2K22"),
            Some(dir.path().join("viostor/2k22"))
        );
        assert_eq!(resolve(&drives, r"F:\viostor"), None);
        assert_eq!(resolve(&drives, r"E:\"), Some(dir.path().to_owned()));
        Ok(())
    }
}
