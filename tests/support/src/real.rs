//! The lists of `tests/real`: what the real media consist of.

use std::collections::BTreeMap;
use std::path::Path;

use crate::media::{inf, put, run, text};
use crate::tree::root;

/// The releases of virtio-win's folders that winimg takes drivers for.
pub const RELEASES: [&str; 3] = ["2k19", "2k22", "2k25"];

/// The lines of a list without its comments.
pub fn lines(list: &str) -> Vec<String> {
    let path = root().join("tests/real").join(list);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{list}: {e}"));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// A list of folders with their files.
pub fn folders(list: &str) -> BTreeMap<String, Vec<String>> {
    let folder = |line: &String| {
        let (folder, files) = line.split_once(':').expect("a folder and its files");
        let files = files.split_whitespace().map(str::to_owned);
        (folder.to_owned(), files.collect())
    };
    lines(list).iter().map(folder).collect()
}

/// Makes the tree of a virtio-win medium with every folder and file of the list. Each driver of
/// `drivers` is for x64 a package whose INF names what the real one names, and whose catalog the
/// authority in the folder `ca` signed; it lists the INF and what that names. Every other file is a
/// text.
pub fn virtio(to: &Path, ca: &Path, drivers: &[&str]) {
    for (folder, files) in folders("virtio-win.txt") {
        for file in files {
            put(to, &format!("{folder}/{file}"), b"beside a driver");
        }
    }
    for (path, names) in folders("virtio-win-infs.txt") {
        let (driver, file) = path.split_once('/').expect("a folder");
        if !drivers.contains(&driver) {
            continue;
        }
        for release in RELEASES {
            package(to, ca, &format!("{driver}/{release}/amd64"), file, &names);
        }
    }
}

fn package(to: &Path, ca: &Path, folder: &str, file: &str, names: &[String]) {
    let (catalog, files) = names.split_first().expect("a catalog");
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    put(
        to,
        &format!("{folder}/{file}"),
        inf(catalog, &files).as_bytes(),
    );
    for name in &files {
        let path = format!("{folder}/{name}");
        put(to, &path, path.as_bytes());
    }
    let at = |name: &str| to.join(folder).join(name);
    let unsigned = ca.join("unsigned.cat");
    let maker = root().join("crates/trust/tests/catalog.py");
    let listed: Vec<_> = files.iter().copied().chain([file]).map(at).collect();
    let mut words = vec![text(&maker), text(&unsigned)];
    words.extend(listed.iter().map(|path| text(path)));
    run("python3", &words);
    // The folder spells the catalog as the list does, the INF as its author did.
    let signed = at(&catalog.to_lowercase());
    std::fs::remove_file(&signed).expect("the list has the catalog");
    let (certificate, key) = (ca.join("signer.pem"), ca.join("signer.key"));
    let signing = [
        "sign",
        "-h",
        "sha256",
        "-certs",
        text(&certificate),
        "-key",
        text(&key),
    ];
    let files = ["-in", text(&unsigned), "-out", text(&signed)];
    run("osslsigncode", &[&signing[..], &files].concat());
}
