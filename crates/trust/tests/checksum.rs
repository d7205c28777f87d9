//! Checksum files as publishers write them, and the broken ones.

use std::sync::OnceLock;
use std::time::SystemTime;

use winimg_base::problem::Problem;
use winimg_trust::checksum::{FoundChecksum, LIMIT, WantedChecksum};
use winimg_trust::{RefusalReason, SignatureRule, minisign};

use super::workshop::{IS_ANOTHER, PAGE, Shop, rendered, shop};

const A: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const B: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";
const SHA1: &str = "da39a3ee5e6b4b0d3255bfef95601890afd80709";

/// By the name that a recipe says.
fn find(bytes: &[u8], entry: &str) -> Result<FoundChecksum, Problem> {
    winimg_trust::checksum::find(bytes, WantedChecksum::Entry(entry))
}

fn found(text: &str, entry: &str) -> (String, String) {
    match find(text.as_bytes(), entry) {
        Ok(found) => (found.digest.to_string(), found.line),
        Err(refusal) => panic!("{text}: {refusal:?}"),
    }
}

#[test]
fn each_publishers_format_is_read() {
    let upper = A.to_uppercase();
    let pairs: Vec<&str> = (0..32).map(|at| &A[2 * at..2 * at + 2]).collect();
    let pairs = pairs.join(" ");
    let cases = [
        // dl.k8s.io: bare, no line end
        (A.to_string(), "kubelet.exe", A.to_string()),
        // cri-tools: bare, line end
        (
            format!("{A}\n"),
            "crictl-v1.36.0-windows-amd64.tar.gz",
            A.to_string(),
        ),
        // containerd, CNI plugins: sha256sum
        (
            format!("{A}  c.tar.gz\n"),
            "c.tar.gz",
            format!("{A}  c.tar.gz"),
        ),
        (
            format!("{A} *c.tar.gz\r\n"),
            "c.tar.gz",
            format!("{A} *c.tar.gz"),
        ),
        // windows-container-networking: a path in front
        (
            format!("{A}  ./release/w.zip\n"),
            "w.zip",
            format!("{A}  ./release/w.zip"),
        ),
        // rancher wins: several files
        (
            format!("{B}  install.ps1\n{A}  wins.exe\n{B}  uninstall.ps1\n"),
            "wins.exe",
            format!("{A}  wins.exe"),
        ),
        // Kubernetes SHA256SUMS: paths, no last line end
        (
            format!("{B}  bin/linux/amd64/kubelet\n{A}  bin/windows/amd64/kubelet.exe"),
            "kubelet.exe",
            format!("{A}  bin/windows/amd64/kubelet.exe"),
        ),
        (
            format!("{B}  bin/linux/amd64/kubectl\n{A}  bin/windows/amd64/kubectl"),
            "windows/amd64/kubectl",
            format!("{A}  bin/windows/amd64/kubectl"),
        ),
        // BSD and OpenSSL
        (
            format!("SHA256 (a b.iso) = {A}\n"),
            "a b.iso",
            format!("SHA256 (a b.iso) = {A}"),
        ),
        (
            format!("SHA2-256(a.iso)= {A}"),
            "a.iso",
            format!("SHA2-256(a.iso)= {A}"),
        ),
        (
            format!("# Fedora\nMD5 (a.iso) = {MD5}\nSHA256 (a.iso) = {A}\n"),
            "a.iso",
            format!("SHA256 (a.iso) = {A}"),
        ),
        // any case, BOM, Windows paths
        (
            format!("\u{feff}{upper}  .\\out\\a.zip\r\n"),
            "a.zip",
            format!("{upper}  .\\out\\a.zip"),
        ),
        // rancher wins: one file for all, by SHA-512 too
        (
            format!("{A}{B}  wins.exe\n{A}  wins.exe\n"),
            "wins.exe",
            format!("{A}  wins.exe"),
        ),
        // PowerShell's Get-FileHash as a table and as a list
        (
            format!(
                "\r\nAlgorithm       Hash           Path\r\n---------       ----           ----\r\n\
                 SHA256          {upper}       C:\\rel\\my app.zip\r\n\r\n"
            ),
            "my app.zip",
            format!("SHA256          {upper}       C:\\rel\\my app.zip"),
        ),
        (
            format!(
                "\r\n\r\nAlgorithm : SHA256\r\nHash      : {upper}\r\nPath      : C:\\rel\\a.zip\r\n\r\n"
            ),
            "a.zip",
            "Algorithm : SHA256".into(),
        ),
        // a digest of another kind beside it
        (
            format!("BLAKE2b (a.zip) = {A}{B}\nSHA256 (a.zip) = {A}\n"),
            "a.zip",
            format!("SHA256 (a.zip) = {A}"),
        ),
        // certutil -hashfile, today's, of Windows 7, and in German
        (
            format!(
                "SHA256 hash of a.zip:\r\n{A}\r\nCertUtil: -hashfile command completed successfully.\r\n"
            ),
            "a.zip",
            A.to_string(),
        ),
        (
            format!("SHA256 hash of file C:\\rel\\a.zip:\r\n{pairs}\r\nCertUtil: done.\r\n"),
            "a.zip",
            pairs.clone(),
        ),
        (
            format!(
                "SHA256-Hash von a.zip:\r\n{A}\r\nCertUtil: -hashfile-Befehl wurde erfolgreich ausgeführt.\r\n"
            ),
            "a.zip",
            A.to_string(),
        ),
        // several of these behind each other
        (
            format!(
                "SHA256 hash of b.zip:\n{B}\nCertUtil: done.\nSHA256 hash of a.zip:\n{A}\nCertUtil: done.\n"
            ),
            "a.zip",
            A.to_string(),
        ),
        // words above and below
        (
            format!("SHA256 checksums of release 1.0\n\n{A}  a.zip\n{B}  b.zip\n\nHave fun!\n"),
            "a.zip",
            format!("{A}  a.zip"),
        ),
        // an algorithm before the digest
        (format!("sha256:{A}\n"), "a.zip", format!("sha256:{A}")),
        (
            format!("SHA-256 = {A}\n"),
            "a.zip",
            format!("SHA-256 = {A}"),
        ),
        (
            format!("sha256:{B}  b.zip\nsha256:{A}  a.zip\n"),
            "a.zip",
            format!("sha256:{A}  a.zip"),
        ),
        // a sign between digest and name
        (
            format!("{B};b.zip\n{A};a.zip\n"),
            "a.zip",
            format!("{A};a.zip"),
        ),
        (
            format!("\"{A}\",\"a.zip\"\n"),
            "a.zip",
            format!("\"{A}\",\"a.zip\""),
        ),
        (
            format!("a.zip: {A}\nb.zip: {B}\n"),
            "a.zip",
            format!("a.zip: {A}"),
        ),
        (
            format!("a.zip  {A}\nb.zip  {B}\n"),
            "a.zip",
            format!("a.zip  {A}"),
        ),
        (
            format!("my app.zip;{A}\n"),
            "my app.zip",
            format!("my app.zip;{A}"),
        ),
        // the same thing twice
        (
            format!("{A}  a.zip\n{A}  ./a.zip\n"),
            "a.zip",
            format!("{A}  a.zip"),
        ),
    ];
    for (text, entry, line) in cases {
        assert_eq!(found(&text, entry), (format!("sha256:{A}"), line), "{text}");
    }
}

#[test]
fn the_length_decides_the_algorithm() {
    let long = format!("{A}{B}");
    assert_eq!(found(&long, "x").0, format!("sha512:{long}"));
    // Both are there: the store's own is taken.
    let both = format!("SHA512 (x) = {long}\nSHA256 (x) = {A}\n");
    assert_eq!(found(&both, "x").0, format!("sha256:{A}"));
}

#[test]
fn utf_16_from_powershell_is_read() {
    let text = format!("\u{feff}{A}  a.zip\r\n");
    let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(find(&bytes, "a.zip").unwrap().digest.hex(), A);
}

#[test]
fn a_name_in_latin_1_takes_nothing_from_the_other_lines() {
    let mut bytes = format!("{B}  gr").into_bytes();
    bytes.extend([0xf6, 0xdf, b'e']);
    bytes.extend(format!(".txt\n{A}  a.zip\n").into_bytes());
    assert_eq!(find(&bytes, "a.zip").unwrap().digest.hex(), A);
    assert_eq!(find(&bytes, "größe.txt").unwrap().digest.hex(), B);
}

#[test]
fn each_refusal_has_its_sentence() {
    let cases = [
        (String::new(), "is empty"),
        ("\r\n \n".into(), "is empty"),
        ("# only words\n".into(), "contains only comments"),
        ("\0\0\0".into(), "is not text"),
        (
            "<!DOCTYPE html>\n<html><title>Not Found".into(),
            "is a web page",
        ),
        (format!("<html>{A}</html>"), "is a web page"),
        ("Not Found\n".into(), "has a line 1 that is not a checksum"),
        // words, and no line that names the file
        (
            format!("release 1.0\n{A}\n"),
            "has a line 1 that is not a checksum",
        ),
        (format!("release 1.0\n{A}  b.zip\n"), "does not list a.zip"),
        // a second word about the file that is not understood
        (
            format!("{A}  a.zip\na.zip was replaced on Monday, it is {B} now\n"),
            "has a line 2 that is not a checksum",
        ),
        (
            format!("{A}  a.zip\nSHA512 (a.zip) = {B}\n"),
            "has a line 2 that is not a checksum",
        ),
        (
            format!("{A};a.zip\n{B};a.zip\n"),
            "lists two different digests for a.zip",
        ),
        (
            format!("sha512:{A}\n"),
            "has a line 1 that is not a checksum",
        ),
        (
            format!("sha3-256:{A}  a.zip\n"),
            "has a line 1 whose digest is a sha3-256: use a SHA-256",
        ),
        (
            format!("md5: {MD5}\n"),
            "has a line 1 whose digest is an MD5, which is not secure: use SHA-256",
        ),
        (format!("{A}  b.zip\n"), "does not list a.zip"),
        (format!("{A}  xa.zip\n"), "does not list a.zip"),
        (
            format!("{A}\n{B}\n"),
            "contains several digests without names",
        ),
        (
            format!("{A}  x/a.zip\n{B}  y/a.zip\n"),
            "lists two different digests for a.zip",
        ),
        (
            MD5.into(),
            "has a line 1 whose digest is an MD5, which is not secure: use SHA-256",
        ),
        (
            format!("{SHA1}  a.zip"),
            "has a line 1 whose digest is a SHA-1, which is not secure: use SHA-256",
        ),
        (
            format!("{}  a.zip", &A[..56]),
            "has a line 1 whose digest has 56 hex digits; SHA-256 has 64, SHA-512 has 128",
        ),
        (
            format!("SHA512 (a.zip) = {A}"),
            "has a line 1 that is not a checksum",
        ),
        (
            "-----BEGIN PGP SIGNATURE-----\n".into(),
            "is a signature, not a checksum file",
        ),
        (
            "untrusted comment: x\nRW\n".into(),
            "is a signature, not a checksum file",
        ),
        (
            format!("{{\"sha256\": \"{A}\"}}"),
            "is JSON, not a checksum file",
        ),
        (String::from_utf8_lossy(PAGE).into_owned(), "is a web page"),
        // GitHub's, where the file is missing
        ("Not Found".into(), "has a line 1 that is not a checksum"),
        // Azure's and S3's
        (
            "<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code></Error>".into(),
            "has a line 1 that is not a checksum",
        ),
        // certutil -hashfile of another file, and with MD5
        (
            format!("SHA256 hash of xa.zip:\r\n{A}\r\nCertUtil: done.\r\n"),
            "has a line 1 that is not a checksum",
        ),
        (
            format!("MD5 hash of a.zip:\r\n{MD5}\r\n"),
            "has a line 2 whose digest is an MD5, which is not secure: use SHA-256",
        ),
        // virtio-win's CHECKSUM: MD5, and of the RPMs alone
        (
            format!("{MD5}  virtio-win-0.1.285-1.noarch.rpm\n"),
            "does not list a.zip",
        ),
        (
            format!("MD5 (a.zip) = {MD5}"),
            "has a line 1 whose digest is an MD5, which is not secure: use SHA-256",
        ),
        // of a SHA-2's length, and none
        (
            format!("SHA3-256 (a.zip) = {A}"),
            "has a line 1 whose digest is a SHA3-256: use a SHA-256",
        ),
        (
            format!("BLAKE2b (a.zip) = {A}{B}"),
            "has a line 1 whose digest is a BLAKE2b: use a SHA-256",
        ),
        (
            format!("SHA512/256 (a.zip) = {A}"),
            "has a line 1 whose digest is a SHA512/256: use a SHA-256",
        ),
        // PowerShell
        (
            format!(
                "\r\nAlgorithm  Hash  Path\r\n---------  ----  ----\r\nSHA256  {A}  C:\\Users\\builder\\rel...\r\n"
            ),
            "has a line 4 whose path was truncated by PowerShell",
        ),
        (
            format!("Algorithm  Hash  Path\r\n---------  ----  ----\r\nMD5  {MD5}  C:\\a.zip\r\n"),
            "has a line 3 whose digest is an MD5, which is not secure: use SHA-256",
        ),
        (
            "Algorithm  Hash  Path\r\n---------  ----  ----\r\n".into(),
            "contains no digest",
        ),
        (
            format!("Algorithm : SHA256\r\nHash : {A}\r\n"),
            "has a line 1 that is not a checksum",
        ),
        (
            format!("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n{A}  a.zip\n"),
            "is clearsigned with OpenPGP",
        ),
    ];
    for (text, fact) in cases {
        assert_eq!(
            find(text.as_bytes(), "a.zip").unwrap_err().fact,
            fact,
            "{text:?}"
        );
    }
    let long = vec![b'a'; LIMIT as usize + 1];
    assert_eq!(find(&long, "a").unwrap_err().fact, "exceeds 1048576 bytes");
    assert_eq!(find(b"\xff\xfe\xff", "a").unwrap_err().fact, "is not text");
}

#[test]
fn a_refusal_lists_what_the_file_names() {
    let text = format!("{A}  b.zip\n{B}  ./x/c.zip\n");
    assert_eq!(
        find(text.as_bytes(), "a.zip").unwrap_err(),
        Problem::new("does not list a.zip")
            .lines(["it lists b.zip", "it lists x/c.zip"])
            .cure("name the line with checksum_entry, or use the checksum file of this version")
    );
}

/// As a caller does it: judged first, then read.
#[test]
fn a_signed_checksum_file_is_judged_before_it_is_read() {
    static MADE: OnceLock<Shop> = OnceLock::new();
    let made = shop(&MADE, "checksum.sh");
    let rule =
        SignatureRule::Minisign(minisign::MinisignRule::new(&made.text("release.pub")).unwrap());
    let judge = |file: &str, signature: &str| made.judge(&rule, file, signature, SystemTime::now());
    judge("sums", "sums.minisig").unwrap();
    let found = find(&made.bytes("sums"), "app.exe").unwrap();
    let file = winimg_base::digest::Digest::sha256_of(&made.bytes("app.exe"));
    assert_eq!(found.digest, file);

    let (reason, words) = rendered(judge("changed", "sums.minisig"));
    assert_eq!(
        (reason, words.as_str()),
        (RefusalReason::Changed, IS_ANOTHER)
    );
    let (reason, words) = rendered(judge("sums", "other.minisig"));
    assert_eq!(reason, RefusalReason::OtherKey);
    assert!(words.starts_with("it was made with a different minisign key | expected: key "));

    // Well signed, and about another file.
    judge("renamed", "renamed.minisig").unwrap();
    let refusal = find(&made.bytes("renamed"), "app.exe").unwrap_err();
    assert_eq!(refusal.fact, "does not list app.exe");
    assert_eq!(refusal.lines, ["it lists setup.exe"]);
}

#[test]
fn a_refusal_says_what_to_do_instead() {
    let clear = "name its key with checksum_signature and form = \"clearsigned\", or copy the line's digest into the recipe \
                 as sha256";
    let cut = format!("SHA256  {A}  C:\\rel...");
    let cases: &[(&str, &[&str], &str)] = &[
        ("-----BEGIN PGP SIGNED MESSAGE-----", &[], clear),
        (
            "-----BEGIN PGP SIGNATURE-----",
            &[],
            "name it with checksum_signature, and the checksum file with checksum_url",
        ),
        ("[]", &[], "copy the digest into the recipe as sha256"),
        (
            &cut,
            &[&cut],
            "write only the digest: (Get-FileHash FILE).Hash > FILE.sha256",
        ),
    ];
    for (text, lines, cure) in cases {
        let refusal = find(text.as_bytes(), "a.zip").unwrap_err();
        assert_eq!(refusal.lines, *lines, "{text}");
        assert_eq!(refusal.cures, [*cure], "{text}");
    }
}

/// A list of several folders names a file of the same name in each.
#[test]
fn a_line_about_a_file_of_the_same_name_in_another_folder_is_not_taken() {
    let by_path = |text: &str, path: &str| {
        winimg_trust::checksum::find(text.as_bytes(), WantedChecksum::Path(path))
            .map(|found| found.digest.hex())
            .map_err(|problem| (problem.fact, problem.expected, problem.found))
    };
    let tree = format!("{B}  bin/arm64/kubelet.exe\n{A}  bin/amd64/kubelet.exe\n");
    let taken = by_path(&tree, "/v1.33.0/bin/amd64/kubelet.exe");
    assert_eq!(taken.as_deref(), Ok(A));
    let other = format!("{B}  bin/arm64/kubelet.exe\n{A}  bin/amd64/kubectl.exe\n");
    let refused = by_path(&other, "/v1.33.0/bin/amd64/kubelet.exe").unwrap_err();
    let fact = "lists a file of that name in a different folder than it was fetched from";
    assert_eq!(
        refused,
        (
            fact.to_string(),
            Some("/v1.33.0/bin/amd64/kubelet.exe".into()),
            Some("bin/arm64/kubelet.exe".into())
        )
    );
    // The folder in which its publisher made all of them says nothing.
    for own in [
        format!("{A}  ./release/w.zip\n{B}  ./release/x.zip\n"),
        format!("SHA256  {A}  C:\\rel\\w.zip\n"),
        format!("{A}  /home/builder/out/w.zip\n"),
        format!("{A}  w.zip\n{B}  docs/w.txt\n"),
        A.to_string(),
    ] {
        let taken = by_path(&own, "/tool/releases/download/v1/w.zip");
        assert_eq!(taken.as_deref(), Ok(A), "{own}");
    }
}

#[test]
fn a_second_digest_of_the_file_is_given_too() {
    let both = format!("{A}{B}  wins.exe\n{A}  wins.exe\n");
    let found = find(both.as_bytes(), "wins.exe").unwrap();
    assert_eq!(found.digest.hex(), A);
    assert_eq!(found.also.unwrap().hex(), format!("{A}{B}"));
}
