//! Seeds that are written here, byte by byte: archives, hives, texts, discs of winimg's own.

use std::fs;
use std::path::Path;

use winimg_formats::iso::{DiscSource, DiscTree, write};

use super::seed;
use support::archives::{gzip, tar_entry, tar_file, tar_of, zip_of, zipped};
use support::evtx;
use support::hive::{self as hives, Key, List, sz};
use support::media::inf;
use support::tree::snapshot;
use support::udf as laid;

pub fn make() {
    archives();
    registry();
    texts();
    iso();
    udf();
    security();
    metadata();
}

fn archives() {
    let plain = tar_of(&[
        tar_entry(b"bin/", b'5', b"", ""),
        tar_file("bin/a.exe", "MZ"),
        tar_file("b.txt", "text"),
    ]);
    let pax = tar_of(&[
        tar_entry(b"pax", b'x', b"18 path=d/e.txt.x\n", ""),
        tar_file("short", "content"),
        tar_entry(b"././@LongLink", b'L', b"a/very/long/name\0", ""),
        tar_file("cut", "content"),
        tar_entry(b"global", b'g', b"16 comment=seed\n", ""),
    ]);
    let refused = tar_of(&[
        tar_file("../escaped", "x"),
        tar_entry(b"link", b'2', b"", "/etc/shadow"),
        tar_entry(b"sparse", b'S', b"", ""),
    ]);
    let packed = |which: u8, bytes: &[u8]| [&[which], bytes].concat();
    for (name, tar) in [("plain", &plain), ("pax", &pax), ("refused", &refused)] {
        seed("tar", name, tar);
        seed("packed-tar", &format!("{name}-gz"), &packed(2, tar));
        seed("packed-tar", &format!("{name}-zst"), &packed(3, tar));
    }
    seed("packed-tar", "gz", &packed(0, &gzip(&plain)));
    let zst = zstd::encode_all(&plain[..], 3).expect("memory");
    seed("packed-tar", "zst", &packed(1, &zst));

    let mut deflated = zipped("bin/b.dll", "");
    let text = "deflated ".repeat(20);
    let mut writer = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut writer, text.as_bytes()).expect("memory");
    deflated.content = writer.finish().expect("memory");
    deflated.method = 8;
    deflated.claims = Some(text.len() as u32);
    let mut zip = zip_of(&[deflated]);
    // The sum is of what is unpacked: in the local header, and in the directory's.
    let sum = crc32fast::hash(text.as_bytes()).to_le_bytes();
    let directory = zip
        .windows(4)
        .rposition(|w| w == b"PK\x01\x02")
        .expect("a directory");
    for at in [14, directory + 16] {
        zip[at..at + 4].copy_from_slice(&sum);
    }
    seed("zip", "deflated", &zip);
    seed(
        "zip",
        "stored",
        &zip_of(&[zipped("bin/a.exe", "MZ"), zipped("c/", "")]),
    );
    let mut link = zipped("link", "/etc/shadow");
    link.mode = 0o120_777;
    seed(
        "zip",
        "refused",
        &zip_of(&[link, zipped("../escaped", "x")]),
    );
}

fn registry() {
    let service = |name| {
        Key::new(name)
            .value("ImagePath", 2, &sz(r"C:\k\kubelet.exe"))
            .value("Start", 4, &[2, 0, 0, 0])
            .value(
                "DependOnService",
                7,
                &[sz("a"), sz("b"), vec![0, 0]].concat(),
            )
    };
    let services =
        |list| Key::new("Services").keys(list, ["kubelet", "rke2", "\u{17b}\u{f3}"].map(service));
    for (name, list) in [
        ("lh", List::Lh),
        ("lf", List::Lf),
        ("li", List::Li),
        ("ri", List::Ri(2)),
    ] {
        let root = Key::new("ROOT").keys(
            list,
            [Key::new("ControlSet001").keys(list, [services(list)])],
        );
        seed("hive", name, &hives::hive(&root));
    }
    let large = Key::new("ROOT").value("Segments", 3, &[7; hives::SEGMENT + 1]);
    seed("hive", "segments", &hives::hive(&large));
    let events = [
        ("EventLog", 6005, &[][..]),
        ("Service Control Manager", 7000, &["containerd", "%%1053"]),
    ];
    seed("evtx", "template", &evtx::log(&events));
}

fn texts() {
    let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    for (name, text) in [
        ("bare", hex.to_string()),
        ("gnu", format!("{hex}  kubelet.exe\n{hex} *other.exe\n")),
        (
            "path",
            format!("{hex}  ./bin/windows/amd64/kubelet.exe\r\n"),
        ),
        ("bsd", format!("SHA256 (kubelet.exe) = {hex}\n")),
        (
            "openssl",
            format!("SHA2-256(kubelet.exe)= {}\n", hex.to_uppercase()),
        ),
        ("sha512", format!("{hex}{hex}  kubelet.exe\n")),
    ] {
        seed("checksum", name, text.as_bytes());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // Refused, since the files that they name are not there; but they know all words.
    for (name, file) in [
        ("complete", "crates/recipe/tests/recipes/complete.toml"),
        (
            "mistakes",
            "crates/recipe/tests/recipes/twelve-mistakes.toml",
        ),
        ("demo", "recipes/demo.toml"),
        ("small", "tests/end_to_end/small.toml"),
    ] {
        let text = fs::read(root.join(file)).expect("a recipe of the tests");
        seed("recipe", &format!("refused-{name}"), &text);
    }
    seed("recipe", "smallest", SMALLEST.as_bytes());
    for (name, release) in [
        ("refused-bios", "2025-bios-eval"),
        ("2022", "2022-uefi-eval"),
        ("refused-2025", "2025-uefi-eval"),
    ] {
        let file = format!("tests/snapshots/winimg__media_answer__{release}.snap");
        seed("answer-file", name, snapshot(&file).as_bytes());
    }
    let subfolder = inf("N.cat", &["n.sys", "%dll%"]).replace("%dll% = 1,,", "%dll% = 1,below");
    let strings = format!("{subfolder}dll = n.dll\r\n[Strings.0407]\r\nx = \"y\"\r\n");
    seed("driver-inf", "strings", strings.as_bytes());
    seed(
        "driver-inf",
        "refused-absent",
        inf("n.cat", &["other.sys"]).as_bytes(),
    );
    let outside = inf("n.cat", &["..\\n.sys"]);
    seed("driver-inf", "refused-outside", outside.as_bytes());
}

/// A recipe that is right, with templates, conditions and steps of several kinds.
const SMALLEST: &str = r#"schema = 1
name = "small"
include = ["other.toml"]
[vars]
tier = "gold"
[media]
image = "datacenter-core"
[media.iso]
url = "https://example.com/x.iso"
unverified = "test"
[[steps]]
name = "settings {{kubernetes_version}}"
when = "{{tier}} == gold"
registry = { key = 'HKLM\SOFTWARE\Example', name = "Tier", type = "sz", data = "{{tier}}" }
[[steps]]
name = "script"
powershell = { script = "Set-Item -Path x -Value 'y'" }
[[steps]]
name = "file"
file = { path = 'C:\a\b.txt', content = "hello" }
[outputs]
raw = {}
"#;

fn iso() {
    let mut tree = DiscTree::new("SEED");
    for (path, text) in [
        ("Autounattend.xml", "<unattend/>"),
        ("sources/ei.cfg", "[Channel]\r\neval\r\n"),
        ("a folder/with a long name for Joliet.txt", "text"),
    ] {
        tree.add(path, DiscSource::Bytes(text.as_bytes().to_vec()));
    }
    let path = winimg_fuzz::ground::folder().join("seed.iso");
    write(&tree, &path).expect("a disc");
    seed("iso", "joliet", &fs::read(&path).expect("the disc"));
}

fn udf() {
    let folder = winimg_fuzz::ground::made().join("bases");
    for (name, metadata) in [
        ("udf-plain", Vec::new()),
        (
            "udf-metadata",
            (0..40).map(|n| 200 + (n * 7) % 40).collect(),
        ),
    ] {
        let (bytes, files) = laid::built(metadata, false);
        assert!(!files.is_empty());
        fs::write(folder.join(name), bytes).expect("a base");
    }
    // A change that changes nothing that matters, of each base.
    for which in 0..3 {
        seed("udf", &format!("base-{which}"), &[which]);
    }
}

fn security() {
    let system = [1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];
    let mut bytes = vec![
        1, 0, 4, 0x80, 48, 0, 0, 0, 48, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0,
    ];
    bytes.extend([2, 0, 28, 0, 1, 0, 0, 0]);
    bytes.extend([0, 3, 20, 0, 0xff, 1, 0x1f, 0]);
    bytes.extend(system);
    bytes.extend(system);
    seed("security", "one-entry", &bytes);
}

/// The first byte is the platform, and where Azure's is asked.
fn metadata() {
    for (name, which, text) in [
        (
            "openstack",
            0,
            "GET /openstack/latest/meta_data.json HTTP/1.1\r\n\r\n",
        ),
        (
            "password",
            0,
            "POST /openstack/2013-04-04/password HTTP/1.1\r\nContent-Length: 4\r\n\r\nQUJD",
        ),
        (
            "token",
            1,
            "PUT /latest/api/token HTTP/1.1\r\nX-aws-ec2-metadata-token-ttl-seconds: 60\r\n\r\n",
        ),
        (
            "ec2",
            2,
            "GET /latest/meta-data/public-keys/0/openssh-key HTTP/1.1\r\n\r\n",
        ),
        (
            "instance",
            3,
            "GET /metadata/instance/compute?api-version=2021-02-01 HTTP/1.1\r\nMetadata: true\r\n\r\n",
        ),
        (
            "goal-state",
            7,
            "GET /machine?comp=goalstate HTTP/1.1\r\nx-ms-version: 2015-04-05\r\n\r\n",
        ),
        (
            "refused-health",
            7,
            "POST /machine?comp=health HTTP/1.1\r\nx-ms-version: 2015-04-05\r\nContent-Length: 68\r\n\r\n\
             <Health><Container><ContainerId>x</ContainerId></Container></Health>",
        ),
    ] {
        seed("metadata", name, &[&[which], text.as_bytes()].concat());
    }
}
