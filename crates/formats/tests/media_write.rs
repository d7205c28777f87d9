//! Discs that winimg makes: read back by its own reader and by other people's tools.

use support::media;

use std::fs;
use std::path::Path;
use std::process::Command;

use support::media::{have, put, run, text, windows};
use winimg_formats::iso::{
    self, BootCatalog, BootPlatform, DiscSource, DiscTree, overlay_without_prompt,
};
use winimg_formats::udf::{FileSystem, Medium};

fn tree(folder: &Path) -> DiscTree {
    let long = folder.join("long.bin");
    fs::write(&long, vec![0x5a; 70_001]).unwrap();
    let mut tree = DiscTree::new("WINIMG_0001")
        .with_file("winimg.payload", DiscSource::Bytes(Vec::new()))
        .with_file("p/0001/kubelet.exe", DiscSource::Path(long))
        .with_file(
            "p/0001/A Long Name, with spaces and an umlaut \u{fc}.yaml",
            DiscSource::Bytes(b"kind: x".to_vec()),
        )
        .with_file(
            format!("p/{}", "x".repeat(103)),
            DiscSource::Bytes(b"103".to_vec()),
        );
    for n in 0..60 {
        tree.add(
            format!("many/driver file {n:03}.inf"),
            DiscSource::Bytes(vec![n; usize::from(n)]),
        );
    }
    tree
}

#[test]
fn what_was_put_in_comes_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.iso");
    iso::write(&tree(dir.path()), &path).unwrap();
    let medium = Medium::open(&path).unwrap();
    assert_eq!(medium.file_system, FileSystem::Joliet);
    assert_eq!(medium.label, "WINIMG_0001");
    let read = |p: &str| {
        let entry = medium.find(p).unwrap().unwrap_or_else(|| panic!("no {p}"));
        medium.read(&entry, 1 << 20).unwrap()
    };
    assert_eq!(read("p/0001/kubelet.exe"), vec![0x5a; 70_001]);
    assert_eq!(read("winimg.payload"), b"");
    assert_eq!(
        read("p/0001/A Long Name, with spaces and an umlaut \u{fc}.yaml"),
        b"kind: x"
    );
    assert_eq!(read(&format!("p/{}", "x".repeat(103))), b"103");
    for n in 0..60 {
        assert_eq!(
            read(&format!("many/driver file {n:03}.inf")),
            vec![n; usize::from(n)]
        );
    }
    // From inside another medium, and the same bytes for the same tree.
    let entry = medium.find("p/0001/kubelet.exe").unwrap().unwrap();
    let again =
        DiscTree::new("AGAIN").with_file("k.exe", DiscSource::Medium(medium.open_file(&entry)));
    let (one, two) = (dir.path().join("1.iso"), dir.path().join("2.iso"));
    iso::write(&again, &one).unwrap();
    iso::write(&again, &two).unwrap();
    assert_eq!(fs::read(&one).unwrap(), fs::read(&two).unwrap());
    let copy = Medium::open(&one).unwrap();
    let entry = copy.find("K.EXE").unwrap().unwrap();
    assert_eq!(copy.read(&entry, 1 << 20).unwrap(), vec![0x5a; 70_001]);
    let left: Vec<String> = fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(!left.iter().any(|n| n.starts_with(".winimg")), "{left:?}");
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_a_disc() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.iso");
    iso::write(
        &DiscTree::new("X").with_file("a", DiscSource::Bytes(b"a".to_vec())),
        &path,
    )
    .unwrap();
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn other_tools_read_the_disc() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.iso");
    iso::write(&tree(dir.path()), &path).unwrap();
    if have(&["isoinfo"]) {
        let joliet = run("isoinfo", &["-J", "-f", "-i", text(&path)]);
        assert!(
            joliet.lines().any(|l| l == "/p/0001/kubelet.exe"),
            "{joliet}"
        );
        assert!(
            joliet.lines().any(|l| l == "/many/driver file 059.inf"),
            "{joliet}"
        );
        let plain = run("isoinfo", &["-f", "-i", text(&path)]);
        assert!(
            plain.lines().any(|l| l == "/P/0001/KUBELET.EXE;1"),
            "{plain}"
        );
        assert!(
            plain.lines().any(|l| l == "/MANY/DRIVER59.INF;1"),
            "{plain}"
        );
        let long = run("isoinfo", &["-l", "-J", "-i", text(&path)]);
        assert!(long.contains("Jan  1 2020"), "{long}");
        let facts = run("isoinfo", &["-d", "-i", text(&path)]);
        assert!(facts.contains("Volume id: WINIMG_0001"), "{facts}");
        assert!(facts.contains("Joliet with UCS level 3 found"), "{facts}");
    }
    if have(&["7z"]) {
        let to = dir.path().join("out");
        run(
            "7z",
            &["x", "-bd", &format!("-o{}", text(&to)), text(&path)],
        );
        assert_eq!(
            fs::read(to.join("p/0001/kubelet.exe")).unwrap(),
            vec![0x5a; 70_001]
        );
        assert_eq!(
            fs::read(to.join("many/driver file 044.inf")).unwrap(),
            vec![44; 44]
        );
        assert!(to.join("p").join("x".repeat(103)).is_file());
    }
    if have(&["xorriso"]) {
        let out = Command::new("xorriso")
            .args([
                "-read_fs",
                "norock",
                "-indev",
                text(&path),
                "-find",
                "/",
                "-type",
                "f",
                "-exec",
                "lsdl",
            ])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{said}");
        assert!(
            !said.contains("WARNING") && !said.contains("FAILURE"),
            "{said}"
        );
    }
}

#[test]
fn everything_that_a_disc_cannot_hold_is_said_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = || DiscSource::Bytes(Vec::new());
    let long = "y".repeat(104);
    let bad = DiscTree::new("my/label")
        .with_file(long.clone(), bytes())
        .with_file("a:b", bytes())
        .with_file("Case.txt", bytes())
        .with_file("case.TXT", bytes())
        .with_file("d", bytes())
        .with_file("d/e", bytes())
        .with_file("twice", bytes())
        .with_file("twice", bytes())
        .with_file("dot.", bytes());
    let path = dir.path().join("x.iso");
    let error = iso::write(&bad, &path).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "\
cannot lay out the disc my/label
  | the label \"my/label\" is not 1 to 16 of A-Z, a-z, 0-9, _, - and space
  | twice is given twice
  | a:b: \"a:b\" contains ':', which names on a CD cannot have
  | Case.txt and case.TXT differ only in case
  | dot.: \"dot.\" ends in a dot or a space, which Windows drops
  | {long}: \"{long}\" has 104 characters; a name on a CD can have at most 103
  | d is both a file and a folder
  cure: rename, split or leave out these files"
        )
    );
    assert!(!path.exists());
    // Sparse, so nothing is written: the size alone refuses it.
    let huge = dir.path().join("huge.vhd");
    fs::File::create(&huge).unwrap().set_len(1 << 32).unwrap();
    let error = iso::write(
        &DiscTree::new("X").with_file("huge.vhd", DiscSource::Path(huge)),
        &path,
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "\
cannot lay out the disc X
  | huge.vhd has 4294967296 bytes; a file on an ISO 9660 disc can have at most 4294967295
  cure: rename, split or leave out these files"
    );
}

const TOOLS: [&str; 4] = ["genisoimage", "wimlib-imagex", "mkfs.vfat", "qemu-img"];

#[test]
fn the_overlay_differs_from_the_medium_in_its_boot_catalog_only() {
    if !have(&TOOLS) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let iso = dir.path().join("server.iso");
    windows(dir.path(), &iso);
    let before = fs::read(&iso).unwrap();
    let overlay = dir.path().join("install.qcow2");
    let made = overlay_without_prompt(&iso, &overlay).unwrap();
    assert_eq!(made.remark, None);
    assert_eq!((made.disc.format, made.disc.prompts), ("qcow2", false));
    run("qemu-img", &["check", text(&overlay)]);
    let raw = dir.path().join("flat.iso");
    run(
        "qemu-img",
        &["convert", "-O", "raw", text(&overlay), text(&raw)],
    );
    let after = fs::read(&raw).unwrap();
    assert_eq!(after.len(), before.len());
    let changed: Vec<usize> = (0..before.len())
        .filter(|i| before[*i] != after[*i])
        .collect();

    let medium = Medium::open(&raw).unwrap();
    let catalog = BootCatalog::read(medium.bytes()).unwrap();
    let efi = catalog.find_efi_entry().unwrap();
    assert!(
        changed
            .iter()
            .all(|i| (efi.at as usize + 8..efi.at as usize + 12).contains(i)),
        "{changed:?}"
    );
    assert_eq!(catalog.entries[0].platform, BootPlatform::Bios);
    let boots = &after[efi.load_rba as usize * 2048..][..1_474_560];
    let image = fs::read(
        dir.path()
            .join("root/efi/microsoft/boot/efisys_noprompt.bin"),
    )
    .unwrap();
    assert!(
        boots == image,
        "the EFI entry does not point at the no-prompt image"
    );
    let first = BootCatalog::read(Medium::open(&iso).unwrap().bytes()).unwrap();
    let prompt = fs::read(dir.path().join("root/efi/microsoft/boot/efisys.bin")).unwrap();
    let at = first.find_efi_entry().unwrap().load_rba as usize * 2048;
    assert!(before[at..at + prompt.len()] == prompt);
    assert!(
        fs::read(&iso).unwrap() == before,
        "the medium itself was changed"
    );
}

#[test]
fn a_medium_without_the_other_image_keeps_its_prompt_and_says_so() {
    if !have(&TOOLS) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    let iso = dir.path().join("x.iso");
    let overlay = dir.path().join("o.qcow2");
    put(&root, "README.TXT", b"x");
    let remark = |iso: &Path| {
        let made = overlay_without_prompt(iso, &overlay).unwrap();
        assert_eq!((made.disc.format, made.disc.prompts), ("raw", true));
        assert!(!overlay.exists());
        made.remark.unwrap()
    };
    media::udf(&root, &iso, &[]);
    assert_eq!(remark(&iso), "the medium has no El Torito boot catalog");
    put(&root, "efi/microsoft/boot/efisys.bin", &[1; 4096]);
    let boot = ["-e", "efi/microsoft/boot/efisys.bin", "-no-emul-boot"];
    media::udf(&root, &iso, &boot);
    assert_eq!(
        remark(&iso),
        "the medium has no efi/microsoft/boot/efisys_noprompt.bin"
    );
    put(&root, "efi/microsoft/boot/efisys_noprompt.bin", &[1; 4096]);
    media::udf(&root, &iso, &boot);
    assert_eq!(
        remark(&iso),
        "efi/microsoft/boot/efisys_noprompt.bin does not start with a FAT boot sector"
    );
}

#[test]
fn the_overlay_of_a_large_medium_has_its_size() {
    if !have(&TOOLS) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let iso = dir.path().join("server.iso");
    windows(dir.path(), &iso);
    // As large as a real one, and no whole number of sectors; the rest is a hole.
    let size = (5 << 30) + 700;
    fs::File::options()
        .write(true)
        .open(&iso)
        .unwrap()
        .set_len(size)
        .unwrap();
    let overlay = dir.path().join("o.qcow2");
    let made = overlay_without_prompt(&iso, &overlay).unwrap();
    assert_eq!(made.remark, None);
    run("qemu-img", &["check", text(&overlay)]);
    let info = run("qemu-img", &["info", "--output=json", text(&overlay)]);
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["virtual-size"], size.next_multiple_of(512));
    assert_eq!(info["backing-filename-format"], "raw");
    assert!(fs::metadata(&overlay).unwrap().len() < 1 << 20);
}

#[test]
fn a_proved_file_has_its_digest_while_it_is_copied() {
    let dir = tempfile::tempdir().unwrap();
    let (file, disc) = (dir.path().join("a.exe"), dir.path().join("p.iso"));
    let good = vec![0x5a; 700_001];
    let proved = || {
        let source = DiscSource::Verified {
            path: file.clone(),
            sha256: winimg_base::digest::Digest::sha256_of(&good),
        };
        DiscTree::new("X").with_file("p/a.exe", source)
    };
    fs::write(&file, &good).unwrap();
    iso::write(&proved(), &disc).unwrap();
    fs::remove_file(&disc).unwrap();
    let mut other = good.clone();
    other[700_000] ^= 1;
    for bad in [
        other,
        good[..700_000].to_vec(),
        [good.as_slice(), &[0]].concat(),
    ] {
        fs::write(&file, &bad).unwrap();
        let error = iso::write(&proved(), &disc).unwrap_err();
        assert_eq!(error.kind(), winimg_base::error::Kind::Unproved, "{error}");
        assert!(error.to_string().contains("a.exe"), "{error}");
        assert!(!disc.exists());
    }
}
