//! The OVA as other readers see it.

use std::fs;
use std::path::{Path, PathBuf};

use winimg::export::{GuestFacts, export};
use winimg_base::event::Cancel;
use winimg_formats::disk::vmdk::stream::StreamVmdk;
use winimg_formats::disk::{DiskImage, RawDisk};
use winimg_formats::wim::WindowsRelease;
use winimg_recipe::{DiskBus, Firmware, Outputs};

use support::media::convert;

use crate::export::fixture::{Heard, disk, guest, job, openssl, ova_version, path, run, sh};

fn only_ova() -> Outputs {
    ova_version(Some(19))
}

fn unpacked(directory: &Path) -> String {
    sh(
        "tar",
        &[
            "-xf",
            path(&directory.join("demo.ova")),
            "-C",
            path(directory),
        ],
    );
    fs::read_to_string(directory.join("demo.ovf")).unwrap()
}

/// A folder with an OVA and what is in it, the disk of so many MiB that it is of, its descriptor.
fn exported(mib: u64) -> (tempfile::TempDir, PathBuf, String) {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), mib);
    run(&source, dir.path(), &only_ova());
    let ovf = unpacked(dir.path());
    (dir, source, ovf)
}

/// Files of a folder as an archive, in this order.
fn pack(ova: &Path, folder: &Path, names: &[&str]) {
    let options = ["--format=ustar", "-cf", path(ova), "-C", path(folder)];
    sh("tar", &[&options[..], names].concat());
}

#[test]
fn tar_lists_descriptor_manifest_and_disk_in_this_order() {
    let (dir, ..) = exported(40);
    let ova = dir.path().join("demo.ova");
    let size = |name: &str| fs::metadata(dir.path().join(name)).unwrap().len();
    let listing = sh("tar", &["--full-time", "-tvf", path(&ova)]);
    let fields: Vec<Vec<&str>> = listing
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    let line = |name: &'static str| {
        let size = size(name).to_string();
        format!("-rw-r--r-- 0/0 {size} 2023-11-14 22:13:20 {name}")
    };
    let found: Vec<String> = fields.iter().map(|f| f.join(" ")).collect();
    assert_eq!(
        found,
        [line("demo.ovf"), line("demo.mf"), line("demo-disk1.vmdk")]
    );
    // Two zero blocks end the tar, and no header but the three is in it.
    let bytes = fs::read(&ova).unwrap();
    assert!(bytes[bytes.len() - 1024..].iter().all(|b| *b == 0));
    assert_eq!(
        bytes.len() as u64,
        3 * 512
            + size("demo.ovf").next_multiple_of(512)
            + size("demo.mf").next_multiple_of(512)
            + size("demo-disk1.vmdk")
            + 1024
    );
}

#[test]
fn the_manifest_holds_openssls_digests_in_ovftools_form() {
    let (dir, ..) = exported(40);
    let lines: String = ["demo.ovf", "demo-disk1.vmdk"]
        .map(|n| format!("SHA256({n})= {}\n", openssl(&dir.path().join(n))))
        .concat();
    assert_eq!(
        fs::read_to_string(dir.path().join("demo.mf")).unwrap(),
        lines
    );
}

#[test]
fn the_descriptor_as_text() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 40);
    let guest = guest();
    let outputs = only_ova();
    let mut job = job(&source, dir.path(), &outputs, &guest);
    let properties = [(
        "KUBERNETES_SEMVER".to_string(),
        "v1.36.1 \"<&>\"".to_string(),
    )];
    job.properties = &properties;
    let heard = Heard::default();
    export(&job, &heard, &Cancel::default()).unwrap();
    assert_eq!(heard.warnings(), Vec::<String>::new());
    let ovf = unpacked(dir.path());
    sh("xmllint", &["--noout", path(&dir.path().join("demo.ovf"))]);
    let size = fs::metadata(dir.path().join("demo-disk1.vmdk"))
        .unwrap()
        .len();
    insta::assert_snapshot!(
        ovf.trim_end()
            .replace(&size.to_string(), "[size of the VMDK]")
    );
}

#[test]
fn a_bios_image_has_no_nvme_and_virtio_is_warned_about() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 40);
    let (guest, outputs) = (guest(), only_ova());
    let mut job = job(&source, dir.path(), &outputs, &guest);
    for (firmware, bus, subtype, warned) in [
        (Firmware::Bios, DiskBus::Ahci, "vmware.sata.ahci", 0),
        (Firmware::Bios, DiskBus::Nvme, "vmware.sata.ahci", 1),
        (Firmware::Uefi, DiskBus::Virtio, "vmware.sata.ahci", 1),
        (Firmware::Uefi, DiskBus::Nvme, "vmware.nvme.controller", 0),
    ] {
        (job.firmware, job.disk_bus) = (firmware, bus);
        let heard = Heard::default();
        export(&job, &heard, &Cancel::default()).unwrap();
        let ovf = unpacked(dir.path());
        assert!(ovf.contains(&format!("<rasd:ResourceSubType>{subtype}<")));
        let efi = ovf.contains("vmw:key=\"firmware\" vmw:value=\"efi\"");
        assert_eq!(efi, firmware == Firmware::Uefi);
        assert_eq!(heard.warnings().len(), warned, "{firmware:?} {bus:?}");
    }
}

#[test]
fn a_windows_with_a_hypervisor_asks_for_nested_virtualization() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 40);
    let (guest, outputs) = (guest(), only_ova());
    let mut job = job(&source, dir.path(), &outputs, &guest);
    let config =
        "<vmw:Config ovf:required=\"false\" vmw:key=\"nestedHVEnabled\" vmw:value=\"true\"/>";
    for nested in [false, true] {
        job.nested_virtualization = nested;
        export(&job, &Heard::default(), &Cancel::default()).unwrap();
        assert_eq!(unpacked(dir.path()).contains(config), nested);
    }
}

/// Server 2025's guest id belongs to vSphere 8.
#[test]
fn the_hardware_version_is_the_releases_unless_the_recipe_names_one() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 40);
    for (release, given, version) in [
        (WindowsRelease::Server2019, None, 19),
        (WindowsRelease::Server2022, None, 19),
        (WindowsRelease::Server2025, None, 20),
        (WindowsRelease::Server2025, Some(21), 21),
        (WindowsRelease::Server2022, Some(15), 15),
    ] {
        let guest = GuestFacts { release, ..guest() };
        let outputs = ova_version(given);
        let job = job(&source, dir.path(), &outputs, &guest);
        export(&job, &Heard::default(), &Cancel::default()).unwrap();
        let ovf = unpacked(dir.path());
        let wanted = format!("<vssd:VirtualSystemType>vmx-{version}<");
        assert!(ovf.contains(&wanted), "{release} {given:?}");
    }
}

/// The OVA with some of its members changed, packed again in their order.
fn repacked(directory: &Path, changed: &[(&str, Vec<u8>)]) -> PathBuf {
    let folder = tempfile::tempdir_in(directory).unwrap();
    let mut names = vec!["demo.ovf", "demo.mf", "demo-disk1.vmdk"];
    for name in &names {
        fs::copy(directory.join(name), folder.path().join(name)).unwrap();
    }
    for (name, bytes) in changed {
        fs::write(folder.path().join(name), bytes).unwrap();
        if !names.contains(name) {
            names.push(name);
        }
    }
    let ova = directory.join("repacked.ova");
    pack(&ova, folder.path(), &names);
    ova
}

#[test]
fn an_ova_whose_parts_contradict_each_other_is_refused() {
    let (dir, _, ovf) = exported(40);
    let mf = fs::read_to_string(dir.path().join("demo.mf")).unwrap();
    let vmdk = fs::read(dir.path().join("demo-disk1.vmdk")).unwrap();
    let read = |changed: &[(&str, Vec<u8>)]| {
        let ova = repacked(dir.path(), changed);
        let opened = winimg_formats::disk::open(&ova, &Cancel::default());
        opened.map(|disk| disk.len()).map_err(|e| e.to_string())
    };
    // Without its manifest, and with one in VirtualBox's form.
    let digest = |bytes: &[u8]| winimg_base::digest::Digest::sha256_of(bytes).hex();
    let mf_of = |ovf: &str| {
        let disk = format!("SHA256 (demo-disk1.vmdk) = {}\r\n", digest(&vmdk));
        let ovf = format!("SHA256 (demo.ovf) = {}\r\n", digest(ovf.as_bytes()));
        (ovf + &disk).into_bytes()
    };
    assert_eq!(read(&[]), Ok(40 << 20));
    assert_eq!(read(&[("demo.mf", mf_of(&ovf))]), Ok(40 << 20));
    // Whole MiB in other units.
    let capacity = format!("ovf:capacity=\"{}\"", 40 << 20);
    assert!(ovf.contains(&capacity), "{ovf}");
    let units = "ovf:capacity=\"40\" ovf:capacityAllocationUnits=\"byte * 2^20\"";
    let plain = ovf.replace(" ovf:capacityAllocationUnits=\"byte\"", "");
    let in_mib = plain.replace(&capacity, units);
    let changed = [
        ("demo.mf", mf_of(&in_mib)),
        ("demo.ovf", in_mib.into_bytes()),
    ];
    assert_eq!(read(&changed), Ok(40 << 20));

    let with_ovf = |text: String| vec![("demo.mf", mf_of(&text)), ("demo.ovf", text.into_bytes())];
    let href = "ovf:href=\"demo-disk1.vmdk\"";
    for (changed, complaint) in [
        (
            vec![("demo.mf", mf.replace("= ", "= 0000").into_bytes())],
            "the manifest has an invalid line",
        ),
        (
            vec![("demo.ovf", ovf.replace("NVMe", "SATA").into_bytes())],
            "demo.ovf does not match its digest in the manifest",
        ),
        (
            vec![("demo.mf", mf.lines().next().unwrap().as_bytes().to_vec())],
            "the manifest does not list demo-disk1.vmdk",
        ),
        (
            vec![(
                "demo.mf",
                (mf.clone() + &mf.replace("-disk1", "-disk2")).into_bytes(),
            )],
            "the manifest lists demo-disk2.vmdk, which is not in the archive",
        ),
        (
            with_ovf(ovf.replace(&capacity, "ovf:capacity=\"5811160064\"")),
            "demo-disk1.vmdk is a disk of 41943040 bytes, but 5811160064 in the descriptor",
        ),
        (
            with_ovf(ovf.replace(href, "ovf:href=\"other.vmdk\"")),
            "the descriptor lists other.vmdk, which is not in the archive",
        ),
        (
            with_ovf(ovf[..1000].to_owned()),
            "the descriptor is not well-formed XML",
        ),
        (
            vec![("second.vmdk", vmdk.clone())],
            "second.vmdk is in the archive but not in the descriptor",
        ),
        (
            vec![("demo-disk1.vmdk", vmdk[..vmdk.len() - 512].to_vec())],
            "in the descriptor",
        ),
    ] {
        let error = read(&changed).unwrap_err();
        assert!(error.contains("is not a valid OVA"), "{error}");
        assert!(error.contains(complaint), "{complaint}: {error}");
    }
}

#[test]
fn an_ova_whose_descriptor_is_not_first_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let source = disk(dir.path(), 40);
    run(&source, dir.path(), &only_ova());
    unpacked(dir.path());
    let ova = dir.path().join("late.ova");
    let pack = ["--format=ustar", "-C", path(dir.path()), "-cf", path(&ova)];
    let names = ["demo-disk1.vmdk", "demo.ovf", "demo.mf"];
    sh("tar", &[&pack[..], &names].concat());
    let opened = winimg_formats::disk::open(&ova, &Cancel::default());
    let error = opened.err().unwrap().to_string();
    assert_eq!(
        error.replace(path(dir.path()), ""),
        "/late.ova does not begin with its OVF descriptor\n  \
         expected: demo.ovf as the first file, as DSP0243 requires\n  \
         found: demo-disk1.vmdk\n  \
         cure: unpack it, and pack it again with the descriptor first, or vCenter and ovftool \
         refuse it: tar --format=ustar -cf new.ova demo.ovf FILES"
    );
}

#[test]
fn a_second_disk_is_neither_lost_nor_ignored() {
    let (dir, _, ovf) = exported(40);
    let vmdk = fs::read(dir.path().join("demo-disk1.vmdk")).unwrap();
    let line_with = |start: &str| ovf.lines().find(|l| l.trim().starts_with(start)).unwrap();
    let (file, described) = (line_with("<File "), line_with("<Disk "));
    let second_file = file.replace("disk1", "disk2").replace("file1", "file2");
    let second = described
        .replace("vmdisk1", "vmdisk2")
        .replace("file1", "file2");
    let two = ovf
        .replace(file, &format!("{file}\n{second_file}"))
        .replace(described, &format!("{described}\n{second}"));
    let folder = tempfile::tempdir().unwrap();
    let ova = folder.path().join("two.ova");
    let write = |ovf: &str| {
        let names = ["demo.ovf", "demo-disk1.vmdk", "demo-disk2.vmdk"];
        let contents = [ovf.as_bytes(), &vmdk, &vmdk];
        for (name, bytes) in names.iter().zip(contents) {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        pack(&ova, folder.path(), &names);
    };
    write(&two);
    let cancel = Cancel::default();
    let disks = DiskImage::from_file(&ova)
        .open_all(&cancel)
        .unwrap()
        .into_disks();
    let found: Vec<(Option<&str>, u64)> = disks
        .iter()
        .map(|(name, disk)| (name.as_deref(), disk.len()))
        .collect();
    let len = 40 << 20;
    assert_eq!(
        found,
        [
            (Some("demo-disk1.vmdk"), len),
            (Some("demo-disk2.vmdk"), len)
        ]
    );
    let refusal = || {
        let opened = winimg_formats::disk::open(&ova, &cancel);
        opened.err().unwrap().to_string()
    };
    let error = refusal();
    assert!(error.contains("two.ova has several disks"), "{error}");
    assert!(
        error.contains("found: 2: demo-disk1.vmdk, demo-disk2.vmdk"),
        "{error}"
    );
    // A disk that begins empty is not in any file.
    write(&two.replace(" ovf:fileRef=\"file2\"", ""));
    let error = refusal();
    assert!(error.contains("the disk vmdisk2 has no file"), "{error}");
}

#[test]
fn our_vmdk_ends_with_its_end_marker_and_qemus_is_refused() {
    let (dir, source, _) = exported(66);
    let ours = RawDisk::open(&dir.path().join("demo-disk1.vmdk")).unwrap();
    assert!(StreamVmdk::open(ours).is_ok());

    let theirs = dir.path().join("qemu.vmdk");
    let options = ["-O", "vmdk", "-o", "subformat=streamOptimized"];
    convert(&options, &source, &theirs);
    let refused = StreamVmdk::open(RawDisk::open(&theirs).unwrap())
        .err()
        .unwrap();
    let text = refused.to_string();
    assert!(
        text.contains("is not a valid stream-optimized VMDK")
            && (text.contains("after the end-of-stream marker")
                || text.contains("without an end-of-stream marker")),
        "{text}"
    );
    let opened = winimg_formats::disk::open(&theirs, &Cancel::default());
    let refused = opened.err().unwrap().to_string();
    let command = format!("qemu-img convert -O raw {} disk.raw", path(&theirs));
    let cure = format!("cure: convert it first: {command}");
    assert!(refused.ends_with(&cure), "{refused}");
}

#[test]
fn a_changed_or_cut_vmdk_is_refused() {
    let (dir, ..) = exported(66);
    let good = fs::read(dir.path().join("demo-disk1.vmdk")).unwrap();
    let bad = dir.path().join("bad.vmdk");
    let open = |bytes: &[u8]| {
        fs::write(&bad, bytes).unwrap();
        StreamVmdk::open(RawDisk::open(&bad).unwrap())
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    assert!(open(&good[..good.len() - 512]).contains("without an end-of-stream marker"));
    let mut tail = good.clone();
    tail.extend_from_slice(&[0; 1024]);
    assert!(open(&tail).contains("1024 bytes after the end-of-stream marker"));
    let mut table = good.clone();
    // The last four records are: directory marker, directory, footer marker, footer, end. The footer lies 2 from the end.
    let footer = table.len() - 1024;
    table[footer + 56] ^= 1;
    assert!(open(&table).contains("a footer that is not the header"));
    // Fields that a hostile file may set to anything: capacity, overhead, the first grain's place and size.
    for (at, bytes) in [
        (12, [0x80; 8]),
        (64, [0xff; 8]),
        (128 * 512, [0xff; 8]),
        (128 * 512, [0x80; 8]),
        (128 * 512 + 8, [0xff; 8]),
    ] {
        let mut hostile = good.clone();
        hostile[at..at + 8].copy_from_slice(&bytes);
        assert!(open(&hostile).contains("is not a valid stream-optimized VMDK"));
    }
}
