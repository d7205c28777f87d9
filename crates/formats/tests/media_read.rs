//! Reading of media and WIM metadata: what a user is told about an ISO before anything boots.

use crate::media_damage;

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use support::media::{fat, have, put, run, text, udf, wim, windows};
use winimg_base::text::{Located, Place, SourceText};
use winimg_formats::udf::{FileSystem, Medium, MediumEntry};
use winimg_formats::wim::{MediaFacts, WimImages, WindowsRelease};

const TOOLS: [&str; 3] = ["genisoimage", "wimlib-imagex", "mkfs.vfat"];

/// A value at its place in a recipe.
fn selector(value: &str) -> Located<String> {
    let source = Arc::new(SourceText::new(
        "recipe.toml",
        format!("[media]\nimage = \"{value}\"\n"),
    ));
    Located::new(value.to_string(), Place::new(&source, 8..13))
}

/// Every path of a medium with its size, depth first.
fn listing(medium: &Medium) -> Vec<String> {
    fn walk(medium: &Medium, at: &str, out: &mut Vec<String>) {
        for entry in medium.read_dir(at).expect("a folder") {
            let path = format!("{at}/{}", entry.name);
            if entry.is_dir {
                out.push(format!("{path}/"));
                walk(medium, &path, out);
            } else {
                out.push(format!("{path} {}", entry.size));
            }
        }
    }
    let mut out = Vec::new();
    walk(medium, "", &mut out);
    out
}

fn content(medium: &Medium, entry: &MediumEntry) -> Vec<u8> {
    medium.read(entry, 64 << 20).expect("the content")
}

#[test]
fn an_install_medium_is_read_through_udf() {
    if !have(&TOOLS) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let iso = dir.path().join("server.iso");
    windows(dir.path(), &iso);
    let medium = Medium::open(&iso).unwrap();
    assert_eq!(medium.file_system, FileSystem::Udf);
    assert_eq!(medium.label, "SSS_X64FREE_EN-US_DV9");
    let wim = fs::read(dir.path().join("root/sources/install.wim")).unwrap();
    let entry = medium.find("SOURCES\\Install.WIM").unwrap().unwrap();
    assert_eq!(content(&medium, &entry), wim);
    let mut file = medium.open_file(&entry);
    file.seek(SeekFrom::End(-7)).unwrap();
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).unwrap();
    assert_eq!(tail, wim[wim.len() - 7..]);

    let facts = MediaFacts::read(&medium).unwrap();
    assert!(facts.eval);
    assert_eq!(facts.answer_file, None);
    let image = facts.images.pick(&selector("datacenter-core")).unwrap();
    assert_eq!(image.name, "Windows Server 2022 SERVERDATACENTERCORE");
    assert_eq!(image.version, "10.0.20348.587");
    assert_eq!(image.languages, ["en-US"]);
    assert!(facts.is_eval(image));
    let release = WindowsRelease::from_image(image).unwrap();
    assert_eq!(release, WindowsRelease::Server2022);
    assert_eq!(release.virtio_folder(), "2k22");
}

#[test]
fn every_way_to_name_an_image_finds_it() {
    if !have(&["wimlib-imagex"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (file, solid) in [("install.wim", false), ("install.esd", true)] {
        let path = dir.path().join(file);
        wim(&path, "9", solid);
        let images = WimImages::read(&mut fs::File::open(&path).unwrap(), file).unwrap();
        let found: Vec<(&str, u32)> = [
            "Windows Server 2022 SERVERSTANDARDCORE",
            "windows server 2022 serverstandard",
            "3",
            "SERVERDATACENTER",
            "Windows Server 2022 Datacenter Evaluation",
            "datacenter-core",
            "Datacenter Core",
            "standard-desktop",
            "standard",
        ]
        .map(|w| (w, images.pick(&selector(w)).unwrap().index))
        .to_vec();
        assert_eq!(
            found,
            [
                ("Windows Server 2022 SERVERSTANDARDCORE", 1),
                ("windows server 2022 serverstandard", 2),
                ("3", 3),
                ("SERVERDATACENTER", 4),
                ("Windows Server 2022 Datacenter Evaluation", 3),
                ("datacenter-core", 3),
                ("Datacenter Core", 3),
                ("standard-desktop", 2),
                ("standard", 2),
            ]
        );
    }
}

#[test]
fn a_wrong_image_lists_what_is_there() {
    if !have(&["wimlib-imagex"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("install.wim");
    wim(&path, "9", false);
    let images = WimImages::read(&mut fs::File::open(&path).unwrap(), "install.wim").unwrap();
    let error = images.pick(&selector("datacentre-core")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "\
the medium has no image \"datacentre-core\"
  at: install.wim
  recipe: recipe.toml:2:1
  |  1  Windows Server 2022 SERVERSTANDARDCORE    (standard-core)
  |  2  Windows Server 2022 SERVERSTANDARD        (standard)
  |  3  Windows Server 2022 SERVERDATACENTERCORE  (datacenter-core)
  |  4  Windows Server 2022 SERVERDATACENTER      (datacenter)
  cure: did you mean \"datacenter-core\"?"
    );
    assert_eq!(error.kind().exit_status(), 2);
    let arm = dir.path().join("arm.wim");
    wim(&arm, "12", false);
    let images = WimImages::read(&mut fs::File::open(&arm).unwrap(), "arm.wim").unwrap();
    assert_eq!(
        images.pick(&selector("2")).unwrap_err().to_string(),
        "\
the image must be x64; Windows Server 2022 SERVERSTANDARD is arm64
  at: arm.wim
  recipe: recipe.toml:2:1
  cure: use the x64 install medium"
    );
}

#[test]
fn a_wim_that_is_none_or_cut_short_is_refused() {
    if !have(&["wimlib-imagex"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("install.wim");
    wim(&path, "9", false);
    let whole = fs::read(&path).unwrap();
    let say = |bytes: &[u8]| {
        WimImages::read(&mut std::io::Cursor::new(bytes), "x.wim")
            .unwrap_err()
            .fact()
            .to_string()
    };
    assert_eq!(
        say(b"MSWIM"),
        "this is not a WIM: it has fewer than 208 bytes"
    );
    assert_eq!(
        say(&[7; 300]),
        "this is not a WIM: it does not start with MSWIM"
    );
    assert!(
        say(&whole[..whole.len() - 20])
            .starts_with("this WIM is truncated: it ends within its XML data of")
    );
    let mut second = whole.clone();
    second[40] = 2;
    assert_eq!(
        say(&second),
        "this is part 2 of a split WIM; the images are described in part 1"
    );
}

#[test]
fn large_folders_long_names_and_empty_files_are_read() {
    if !have(&["genisoimage"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    // Over 200 entries: the directory has many blocks, and descriptors cross them.
    let long = "n".repeat(90);
    let mut expected = vec!["/many/".to_string()];
    for n in 0..200 {
        let name = format!("many/{long}{n:03}.txt");
        put(&root, &name, format!("{n}").as_bytes());
        expected.push(format!("/{name} {}", n.to_string().len()));
    }
    put(&root, "nul", b"");
    put(&root, "\u{fc}ber.txt", b"umlaut");
    expected.extend(["/nul 0".to_string(), "/\u{fc}ber.txt 6".to_string()]);
    let iso = dir.path().join("x.iso");
    udf(&root, &iso, &["-input-charset", "utf-8"]);
    let medium = Medium::open(&iso).unwrap();
    assert_eq!(medium.file_system, FileSystem::Udf);
    assert_eq!(listing(&medium), expected);
    let one = medium
        .find(&format!("MANY/{}123.TXT", long.to_uppercase()))
        .unwrap()
        .unwrap();
    assert_eq!(content(&medium, &one), b"123");
}

#[test]
fn joliet_and_plain_iso_9660_are_read_too() {
    if !have(&["genisoimage"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    put(&root, "viostor/2k22/amd64/viostor.inf", b"[Version]");
    put(&root, "Long Name With Spaces.txt", b"x");
    let iso = dir.path().join("x.iso");
    run(
        "genisoimage",
        &[
            "-quiet",
            "-J",
            "-V",
            "virtio-win-0.1.285",
            "-o",
            text(&iso),
            text(&root),
        ],
    );
    let medium = Medium::open(&iso).unwrap();
    assert_eq!(medium.file_system, FileSystem::Joliet);
    assert_eq!(medium.label, "virtio-win-0.1.285");
    let tree = listing(&medium);
    assert_eq!(
        tree,
        [
            "/Long Name With Spaces.txt 1",
            "/viostor/",
            "/viostor/2k22/",
            "/viostor/2k22/amd64/",
            "/viostor/2k22/amd64/viostor.inf 9",
        ]
    );
    run(
        "genisoimage",
        &["-quiet", "-V", "PLAIN", "-o", text(&iso), text(&root)],
    );
    let medium = Medium::open(&iso).unwrap();
    assert_eq!(medium.file_system, FileSystem::Iso9660);
    assert_eq!(listing(&medium)[0], "/LONG_NAM.TXT 1");
    assert!(
        medium
            .find("viostor/2k22/amd64/viostor.inf")
            .unwrap()
            .is_some()
    );
}

#[test]
fn a_file_that_is_no_iso_says_what_it_is() {
    let say = |bytes: &[u8]| {
        Medium::from_bytes(Arc::new(bytes.to_vec()), Path::new("in.iso"))
            .unwrap_err()
            .to_string()
    };
    let page = b"\n<!DOCTYPE html>\n<html><head><title>Making sure\n you're not a bot!</title></head></html>";
    assert_eq!(
        say(page),
        "\
this is a web page, not an ISO: its title is \"Making sure you're not a bot!\"
  at: in.iso
  cure: download the ISO with a browser, or use another url"
    );
    assert_eq!(
        say(b"<html><body>hello"),
        "\
this is a web page, not an ISO: it has no title
  at: in.iso
  cure: download the ISO with a browser, or use another url"
    );
    let facts: Vec<String> = [
        &b"\x1f\x8b\x08rest"[..],
        b"PK\x03\x04rest",
        b"",
        b"hello",
        &[0; 100_000],
        b"MSWIM\0\0\0",
    ]
    .iter()
    .map(|b| say(b).lines().next().unwrap().to_string())
    .collect();
    assert_eq!(
        facts,
        [
            "this is a gzip archive, not an ISO",
            "this is a zip archive, not an ISO",
            "this file is empty, not an ISO",
            "this file has only 5 bytes: too short for an ISO",
            "this is not an ISO: it has neither an ISO 9660 nor a UDF volume descriptor",
            "this is a WIM file, not an ISO",
        ]
    );
}

#[test]
fn a_broken_download_is_called_cut_short() {
    if !have(&["genisoimage"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    put(&dir.path().join("root"), "big.bin", &vec![1; 3 << 20]);
    let iso = dir.path().join("x.iso");
    udf(&dir.path().join("root"), &iso, &[]);
    let mut bytes = fs::read(&iso).unwrap();
    let whole = bytes.len();
    bytes.truncate(1 << 20);
    let error = Medium::from_bytes(Arc::new(bytes), Path::new("x.iso")).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "\
this ISO is truncated
  at: x.iso
  expected: at least {whole} bytes (from its volume descriptor)
  found: 1048576 bytes
  cure: the download is incomplete: fetch it again"
        )
    );
}

#[test]
fn a_medium_without_windows_lists_its_root() {
    if !have(&["genisoimage"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    put(&dir.path().join("root"), "casper/vmlinuz", b"x");
    let iso = dir.path().join("x.iso");
    udf(&dir.path().join("root"), &iso, &[]);
    let error = MediaFacts::read(&Medium::open(&iso).unwrap()).unwrap_err();
    assert_eq!(
        error.to_string().replace(text(dir.path()), ""),
        "\
this is not a Windows install medium: it has no sources/install.wim, .esd or .swm
  at: /x.iso (UDF, label \"SSS_X64FREE_EN-US_DV9\")
  | casper/
  cure: use the ISO of Windows Server 2019, 2022 or 2025"
    );
    // With its UDF damaged only the ISO 9660 tree is left, which says nothing about Windows.
    let mut bytes = fs::read(&iso).unwrap();
    let partition = (256 * 2048..bytes.len())
        .step_by(2048)
        .find(|at| bytes[*at..*at + 2] == [0, 1])
        .unwrap();
    bytes[partition + 16] ^= 1;
    let medium = Medium::from_bytes(Arc::new(bytes), Path::new("x.iso")).unwrap();
    let error = MediaFacts::read(&medium).unwrap_err().to_string();
    assert!(
        error.contains(
            "\n  found: its UDF file system cannot be read: no file set descriptor at offset "
        ),
        "{error}"
    );
}

/// A medium with these files of `from` in `sources`, each under its new name.
fn medium_with(folder: &Path, files: &[(&str, &str)]) -> std::path::PathBuf {
    let root = folder.join("medium");
    let _ = fs::remove_dir_all(&root);
    for (from, name) in files {
        let bytes = fs::read(folder.join(from)).unwrap();
        put(&root, &format!("sources/{name}"), &bytes);
    }
    let iso = folder.join("split.iso");
    udf(&root, &iso, &[]);
    iso
}

#[test]
fn a_split_install_image_needs_all_of_its_parts() {
    if !have(&["wimlib-imagex", "genisoimage"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    for (name, seed) in [("one", 1), ("other", 7)] {
        // Files that do not compress: a part holds 1 MB.
        let mut state: u64 = seed;
        for file in ["a", "b"] {
            let bytes: Vec<u8> = std::iter::repeat_with(|| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 33) as u8
            })
            .take(1_500_000)
            .collect();
            put(&folder.join(name), file, &bytes);
        }
        let wim = folder.join(format!("{name}.wim"));
        let source = folder.join(name);
        run(
            "wimlib-imagex",
            &["capture", text(&source), text(&wim), "Windows"],
        );
        let first = folder.join(format!("{name}.swm"));
        run("wimlib-imagex", &["split", text(&wim), text(&first), "1"]);
    }
    let one = ("one.swm", "install.swm");
    let (two, three) = (("one2.swm", "install2.swm"), ("one3.swm", "install3.swm"));
    let read = |files: &[(&str, &str)]| {
        let iso = medium_with(folder, files);
        let found = MediaFacts::read(&Medium::open(&iso).unwrap());
        found
            .map(|facts| facts.images.part.of)
            .map_err(|e| e.to_string())
    };
    assert_eq!(read(&[one, two, three]), Ok(3));
    assert_eq!(
        read(&[one]).unwrap_err().replace(text(folder), ""),
        "\
the install image is split, and its parts are incomplete
  at: /split.iso:sources/install.swm
  expected: 3 parts of the same WIM
  | sources/install2.swm is missing
  | sources/install3.swm is missing
  cure: put all parts on the medium, or join them: wimlib-imagex join"
    );
    let error = read(&[one, two, ("one2.swm", "install3.swm")]).unwrap_err();
    let why = "sources/install3.swm is marked as part 2 of 3";
    assert!(error.contains(why), "{error}");
    let error = read(&[one, two, ("other3.swm", "install3.swm")]).unwrap_err();
    assert!(
        error.contains("sources/install3.swm belongs to another WIM"),
        "{error}"
    );
    let whole = fs::read(folder.join("one2.swm")).unwrap();
    fs::write(folder.join("cut.swm"), &whole[..whole.len() - 2000]).unwrap();
    let error = read(&[one, ("cut.swm", "install2.swm"), three]).unwrap_err();
    assert!(
        error.contains("sources/install2.swm: this WIM is truncated"),
        "{error}"
    );
    // A part that says nothing of its images is no install image.
    let error = read(&[("one2.swm", "install.swm")]).unwrap_err();
    assert!(error.contains("this is part 2 of a split WIM"), "{error}");
}

#[test]
fn a_medium_of_another_kind_has_no_install_image_and_a_cut_one_is_an_error() {
    if !have(&TOOLS) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    put(&folder.join("root"), "casper/vmlinuz", b"x");
    let iso = folder.join("x.iso");
    udf(&folder.join("root"), &iso, &[]);
    assert!(
        MediaFacts::try_read(&Medium::open(&iso).unwrap())
            .unwrap()
            .is_none()
    );
    wim(&folder.join("a.wim"), "9", false);
    let whole = fs::read(folder.join("a.wim")).unwrap();
    fs::write(folder.join("cut.wim"), &whole[..whole.len() - 1000]).unwrap();
    let iso = medium_with(folder, &[("cut.wim", "install.wim")]);
    let error = MediaFacts::try_read(&Medium::open(&iso).unwrap()).unwrap_err();
    assert!(
        error.to_string().contains("this WIM is truncated"),
        "{error}"
    );
}

#[test]
fn damaged_media_never_crash_the_reader() {
    if !have(&TOOLS) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    put(&root, "a/b/c.txt", b"c");
    put(&root, "sources/ei.cfg", b"[Channel]\nRetail\n");
    wim(&root.join("sources/install.wim"), "9", false);
    fat(&root.join("efi.bin"), "X");
    fs::File::options()
        .write(true)
        .open(root.join("efi.bin"))
        .unwrap()
        .set_len(4096)
        .unwrap();
    let iso = dir.path().join("x.iso");
    udf(&root, &iso, &["-J", "-e", "efi.bin", "-no-emul-boot"]);
    let whole = fs::read(&iso).unwrap();
    media_damage::damage(&whole, 1500);
}

/// A WIM around some XML data.
fn wim_of(xml: &str) -> Vec<u8> {
    let mut out = vec![0; 208];
    out[..8].copy_from_slice(b"MSWIM\0\0\0");
    let data: Vec<u8> = std::iter::once(0xfeff)
        .chain(xml.encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    out[44] = xml.matches("<IMAGE").count() as u8;
    out[72..76].copy_from_slice(&(data.len() as u32).to_le_bytes());
    out[80] = 208;
    out[88..92].copy_from_slice(&(data.len() as u32).to_le_bytes());
    out.extend(data);
    out
}

#[test]
fn hostile_wim_metadata_is_refused_in_words() {
    let say = |xml: &str| {
        WimImages::read(&mut std::io::Cursor::new(wim_of(xml)), "x.wim")
            .unwrap_err()
            .fact()
            .to_string()
    };
    let deep = "<a>".repeat(200_000);
    assert!(say(&deep).starts_with("the XML data of this WIM is not well-formed"));
    let bomb = "<!DOCTYPE a [<!ENTITY b \"cc\">]><WIM>&b;</WIM>";
    assert!(say(bomb).starts_with("the XML data of this WIM is not well-formed"));
    assert_eq!(
        say("<WMI/>"),
        "the XML data of this WIM has <WMI> instead of <WIM>"
    );
    assert_eq!(
        say("<WIM><IMAGE/></WIM>"),
        "the XML data of this WIM has an IMAGE without a number as its INDEX"
    );
    let mut more = wim_of("<WIM><IMAGE INDEX=\"1\"/></WIM>");
    more[44] = 2;
    assert_eq!(
        WimImages::read(&mut std::io::Cursor::new(more), "x.wim")
            .unwrap_err()
            .fact(),
        "the header of this WIM has 2 images, but its XML data has 1"
    );
}
