//! A Windows disk in small: GPT, the partition that UEFI starts from, and an NTFS volume with hives; sound unless a test
//! spoils it. Made by sgdisk, mkfs.vfat and ntfs-3g, so that the reader is judged by other programs than itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::{hive, skip};

pub use crate::hive::sz;
pub use crate::media::{run, text};
pub use crate::ntfs::mounted;

const MIB: u64 = 1 << 20;
const EFI_AT: u64 = 1;
const EFI_LEN: u64 = 33;
const WINDOWS_AT: u64 = 35;
/// Unless a disk says otherwise.
const WINDOWS_LEN: u64 = 44;
const BEHIND_LEN: u64 = 2;

pub const REG_NONE: u32 = 0;
pub const REG_SZ: u32 = 1;
pub const REG_EXPAND_SZ: u32 = 2;
pub const REG_BINARY: u32 = 3;
pub const REG_DWORD: u32 = 4;
pub const REG_MULTI_SZ: u32 = 7;

pub const SETUP_STATE: &str = r"HKLM\SOFTWARE\Microsoft\Windows\CurrentVersion\Setup\State";
pub const SETUP: &str = r"HKLM\SYSTEM\Setup";
pub const SYSPREP_STATUS: &str = r"HKLM\SYSTEM\Setup\Status\SysprepStatus";
/// What sysprep leaves for the next start, beside ImageState.
const SEALED: [(&str, &str); 4] = [
    (SETUP, "SetupType"),
    (SETUP, "CmdLine"),
    (SYSPREP_STATUS, "GeneralizationState"),
    (SYSPREP_STATUS, "CleanupState"),
];
pub const SAM_ACCOUNT: &str = r"HKLM\SAM\SAM\Domains\Account";
pub const SAM_BUILTIN: &str = r"HKLM\SAM\SAM\Domains\Builtin";

/// A value: name, type, data.
type Value = (String, u32, Vec<u8>);
/// Values of the keys of one hive, by path.
type Keys = BTreeMap<String, Vec<Value>>;

pub struct WindowsDisk {
    files: BTreeMap<String, Vec<u8>>,
    folders: BTreeSet<String>,
    /// Security descriptors by path, self-relative.
    access: BTreeMap<String, Vec<u8>>,
    hives: BTreeMap<&'static str, Keys>,
    efi: BTreeSet<&'static str>,
    pub dirty_volume: bool,
    /// A hive that was not closed in order.
    pub dirty_hive: Option<&'static str>,
    /// A recovery partition behind the Windows volume.
    pub recovery_behind: bool,
    /// MBR in place of GPT, with the same partitions.
    pub mbr: bool,
    /// MiB of the Windows volume.
    pub windows_mib: u64,
}

pub fn multi_sz(texts: &[&str]) -> Vec<u8> {
    let joined: String = texts.iter().map(|t| format!("{t}\0")).collect();
    sz(&joined)
}

pub fn dword(n: u32) -> Vec<u8> {
    n.to_le_bytes().to_vec()
}

/// Whether the tools are there; says what is skipped otherwise.
pub fn can_make() -> bool {
    let root = nix::unistd::geteuid().is_root();
    let can = root && Path::new("/dev/fuse").exists();
    if !can {
        skip::skipped("writing the NTFS volume needs root and /dev/fuse");
    }
    can
}

impl WindowsDisk {
    /// Sealed, with nothing left over.
    pub fn sound() -> Self {
        let mut disk = Self {
            files: BTreeMap::new(),
            folders: BTreeSet::new(),
            access: BTreeMap::new(),
            hives: ["SYSTEM", "SOFTWARE", "SAM", "SECURITY", "DEFAULT"]
                .map(|name| (name, Keys::new()))
                .into(),
            efi: BTreeSet::from([
                "EFI/Microsoft/Boot/bootmgfw.efi",
                "EFI/Microsoft/Boot/BCD",
                "EFI/Boot/bootx64.efi",
            ]),
            dirty_volume: false,
            dirty_hive: None,
            recovery_behind: false,
            mbr: false,
            windows_mib: WINDOWS_LEN,
        };
        disk.file(r"C:\Windows\System32\winload.efi", b"MZ the loader");
        disk.file(
            r"C:\Windows\System32\Sysprep\Sysprep_succeeded.tag",
            b"\r\n",
        );
        disk.file(
            r"C:\Windows\Panther\unattend.xml",
            include_bytes!("../../../crates/recipe/src/verbs/generalize/seal.xml"),
        );
        disk.value(r"HKLM\SYSTEM\Select", "Current", REG_DWORD, &dword(1));
        disk.image_state("IMAGE_STATE_GENERALIZE_RESEAL_TO_OOBE");
        // As sysprep leaves them: Setup runs at the next start.
        disk.value(SETUP, "SetupType", REG_DWORD, &dword(2));
        disk.value(SETUP, "CmdLine", REG_SZ, &sz(r"oobe\windeploy.exe"));
        disk.value(SYSPREP_STATUS, "GeneralizationState", REG_DWORD, &dword(3));
        disk.value(SYSPREP_STATUS, "CleanupState", REG_DWORD, &dword(2));
        for domain in [SAM_ACCOUNT, SAM_BUILTIN] {
            disk.key(&format!(r"{domain}\Users\Names"));
            disk.key(&format!(r"{domain}\Aliases\Names"));
        }
        let sid = [1u32, 2, 3].map(u32::to_le_bytes).concat();
        disk.value(SAM_ACCOUNT, "V", REG_BINARY, &[vec![0; 52], sid].concat());
        let path = r"%SystemRoot%\system32;%SystemRoot%;C:\k\";
        disk.value(
            r"HKLM\SYSTEM\ControlSet001\Control\Session Manager\Environment",
            "Path",
            REG_EXPAND_SZ,
            &sz(path),
        );
        disk
    }

    pub fn file(&mut self, path: &str, bytes: &[u8]) {
        self.files.insert(path.into(), bytes.into());
    }

    pub fn no_file(&mut self, path: &str) {
        self.files.remove(path).expect("a file of the disk");
    }

    pub fn folder(&mut self, path: &str) {
        self.folders.insert(path.into());
    }

    /// `descriptor` in hex, as Windows keeps it.
    pub fn access(&mut self, path: &str, descriptor: &[u8]) {
        self.access.insert(path.into(), descriptor.into());
    }

    pub fn no_efi_file(&mut self, path: &'static str) {
        assert!(self.efi.remove(path), "{path}");
    }

    pub fn no_hive(&mut self, name: &str) {
        self.hives.remove(name).expect("a hive of the disk");
    }

    pub fn key(&mut self, path: &str) {
        self.values(path);
    }

    pub fn value(&mut self, path: &str, name: &str, kind: u32, data: &[u8]) {
        let values = self.values(path);
        values.retain(|(n, _, _)| n != name);
        values.push((name.into(), kind, data.into()));
    }

    /// Sets the state that Setup records of its own work.
    pub fn image_state(&mut self, state: &str) {
        self.value(SETUP_STATE, "ImageState", REG_SZ, &sz(state));
    }

    /// As the disk of a Windows that sysprep has not touched.
    pub fn not_sealed(&mut self) {
        for (key, name) in SEALED {
            self.no_value(key, name);
        }
    }

    pub fn no_value(&mut self, path: &str, name: &str) {
        let values = self.values(path);
        let before = values.len();
        values.retain(|(n, _, _)| n != name);
        assert!(values.len() < before, "{path}, {name}");
    }

    /// A user with this number; `F` as far as it is read.
    pub fn user(&mut self, name: &str, rid: u32, disabled: bool) {
        self.value(&format!(r"{SAM_ACCOUNT}\Users\Names\{name}"), "", rid, b"");
        let mut f = vec![0; 0x50];
        f[0x38] = 0x14 | u8::from(disabled);
        let key = format!(r"{SAM_ACCOUNT}\Users\{rid:08X}");
        self.value(&key, "F", REG_BINARY, &f);
    }

    /// A group of `domain` with these members, as binary SIDs.
    pub fn group(&mut self, domain: &str, name: &str, rid: u32, members: &[Vec<u8>]) {
        self.value(&format!(r"{domain}\Aliases\Names\{name}"), "", rid, b"");
        let mut c = vec![0; 0x34];
        c[0x30] = members.len() as u8;
        c.extend(members.concat());
        self.value(&format!(r"{domain}\Aliases\{rid:08X}"), "C", REG_BINARY, &c);
    }

    fn values(&mut self, path: &str) -> &mut Vec<Value> {
        let (hive, rest) = [
            (r"HKLM\SYSTEM", "SYSTEM"),
            (r"HKLM\SOFTWARE", "SOFTWARE"),
            (r"HKLM\SAM", "SAM"),
        ]
        .into_iter()
        .find_map(|(prefix, hive)| Some((hive, path.strip_prefix(prefix)?)))
        .unwrap_or_else(|| panic!("{path} is in no hive"));
        let keys = self.hives.get_mut(hive).expect("a hive");
        keys.entry(rest.trim_start_matches('\\').to_owned())
            .or_default()
    }

    /// Writes the disk into a new file.
    pub fn write(&self, file: &Path) {
        self.write_with(file, |_| ());
    }

    /// The same with what `more` puts below the volume's root.
    pub fn write_with(&self, file: &Path, more: impl FnOnce(&Path)) {
        let folder = file.parent().expect("a folder");
        let behind = WINDOWS_AT + self.windows_mib;
        // One more for the backup of the table.
        let len = if self.recovery_behind {
            behind + BEHIND_LEN + 1
        } else {
            behind + 1
        };
        fs::File::create(file)
            .and_then(|f| f.set_len(len * MIB))
            .expect("a disk");
        let sector = |mib: u64| mib * MIB / 512;
        let end = |at: u64, len: u64| sector(at + len) - 1;
        run(
            "sgdisk",
            &[
                "--clear",
                &format!("--new=1:{}:{}", sector(EFI_AT), end(EFI_AT, EFI_LEN)),
                "--typecode=1:ef00",
                &format!(
                    "--new=2:{}:{}",
                    sector(WINDOWS_AT),
                    end(WINDOWS_AT, self.windows_mib)
                ),
                "--typecode=2:0700",
                text(file),
            ],
        );
        if self.recovery_behind {
            let place = format!("--new=3:{}:{}", sector(behind), end(behind, BEHIND_LEN));
            run("sgdisk", &[&place, "--typecode=3:2700", text(file)]);
        }
        if self.mbr {
            let numbers = if self.recovery_behind { "1:2:3" } else { "1:2" };
            run("sgdisk", &[&format!("--gpttombr={numbers}"), text(file)]);
        }
        let efi = folder.join("efi.fat");
        self.write_efi(&efi);
        into(file, EFI_AT, &efi);
        let windows = folder.join("windows.ntfs");
        self.write_windows(&windows, more);
        into(file, WINDOWS_AT, &windows);
    }

    fn write_efi(&self, file: &Path) {
        fs::File::create(file)
            .and_then(|f| f.set_len(EFI_LEN * MIB))
            .expect("a partition");
        run("mkfs.vfat", &["-F", "32", "-s", "1", text(file)]);
        for folder in ["EFI", "EFI/Boot", "EFI/Microsoft", "EFI/Microsoft/Boot"] {
            run("mmd", &["-i", text(file), &format!("::/{folder}")]);
        }
        let part = file.with_extension("part");
        fs::write(&part, "MZ").expect("a file");
        for path in &self.efi {
            let to = format!("::/{path}");
            run("mcopy", &["-i", text(file), text(&part), &to]);
        }
        fs::remove_file(part).expect("a file");
    }

    fn write_windows(&self, file: &Path, more: impl FnOnce(&Path)) {
        fs::File::create(file)
            .and_then(|f| f.set_len(self.windows_mib * MIB))
            .expect("a partition");
        run(
            "mkntfs",
            &["-qFf", "-L", "Windows", "-s", "512", text(file)],
        );
        mounted(file, &["streams_interface=xattr"], |root| {
            self.fill(root);
            more(root);
        });
        if self.dirty_volume {
            set_dirty(file);
        }
    }

    fn fill(&self, root: &Path) {
        let place = |path: &str| root.join(path.trim_start_matches(r"C:\").replace('\\', "/"));
        for folder in &self.folders {
            fs::create_dir_all(place(folder)).expect("a folder");
        }
        for (path, bytes) in &self.files {
            let path = place(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
            fs::write(path, bytes).expect("a file");
        }
        let config = place(r"C:\Windows\System32\config");
        fs::create_dir_all(&config).expect("a folder");
        for (name, keys) in &self.hives {
            let mut bytes = hive::hive(&tree(keys));
            if self.dirty_hive == Some(*name) {
                bytes[4] += 1;
                hive::seal(&mut bytes);
            }
            fs::write(config.join(name), bytes).expect("a hive");
        }
        for (path, descriptor) in &self.access {
            let script = "import os,sys; os.setxattr(sys.argv[1], 'system.ntfs_acl', bytes.fromhex(sys.argv[2]))";
            let hex = hex::encode(descriptor);
            run("python3", &["-c", script, text(&place(path)), &hex]);
        }
    }
}

/// The keys of a hive as a tree. Names live as long as the test.
fn tree(keys: &Keys) -> hive::Key {
    fn leak(text: &str) -> &'static str {
        Box::leak(text.to_owned().into_boxed_str())
    }
    fn find<'k>(key: &'k mut hive::Key, path: &str) -> &'k mut hive::Key {
        path.split('\\')
            .filter(|n| !n.is_empty())
            .fold(key, |key, name| {
                let at = key.keys.iter().position(|k| k.name == name);
                let at = at.unwrap_or_else(|| {
                    key.keys.push(hive::Key::new(leak(name)));
                    key.keys.len() - 1
                });
                &mut key.keys[at]
            })
    }
    let mut root = hive::Key::new("ROOT");
    for (path, values) in keys {
        let key = find(&mut root, path);
        for (name, kind, data) in values {
            key.values.push((leak(name), *kind, data.clone()));
        }
    }
    root
}

/// NTFS's own flag: bit 0 at 10 of the attribute $VOLUME_INFORMATION, in the record of $Volume.
pub fn set_dirty(volume: &Path) {
    let mut bytes = fs::read(volume).expect("the volume");
    let sector = u64::from(u16::from_le_bytes([bytes[11], bytes[12]]));
    let cluster = sector * u64::from(bytes[13]);
    let mft = u64::from_le_bytes(bytes[48..56].try_into().expect("8 bytes"));
    let record = (mft * cluster + 3 * 1024) as usize;
    let mut at = record + usize::from(bytes[record + 20]);
    loop {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        match word(at) {
            0x70 => break,
            0xffff_ffff => panic!("$Volume has no information"),
            _ => at += word(at + 4) as usize,
        }
    }
    let value = at + usize::from(bytes[at + 20]);
    bytes[value + 10] |= 1;
    fs::write(volume, bytes).expect("the volume");
}

/// Copies a partition to its place, its holes left out, and removes its own file.
fn into(disk: &Path, mib: u64, partition: &Path) {
    let from = format!("if={}", text(partition));
    let to = format!("of={}", text(disk));
    let seek = format!("seek={mib}");
    let options = ["bs=1M", "conv=notrunc,sparse", "status=none"];
    run("dd", &[&[from.as_str(), &to, &seek][..], &options].concat());
    fs::remove_file(partition).expect("a file");
}
