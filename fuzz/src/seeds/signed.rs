//! Seeds that are signed, by throw-away keys: the programs that publishers use make them.

use std::fs;
use std::path::{Path, PathBuf};

use winimg_fuzz::{INSIDE, LISTED, SIGNED};

use super::{base, key, seed};
use support::media::{have, run, text};
use support::tree;

pub fn make(scratch: &Path) {
    let folder = scratch.join("signed");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("file"), SIGNED).expect("a file");
    sigstore();
    if have(&["openssl"]) {
        certificates(&folder);
        cosign(&folder);
        if have(&["osslsigncode", "python3"]) {
            authenticode(&folder);
        }
    }
    if have(&["minisign"]) {
        minisign(&folder);
    }
    if have(&["signify-openbsd"]) {
        signify(&folder);
    }
    if have(&["gpg"]) {
        openpgp(&folder);
    }
    for which in 0..6 {
        seed("signed-beside", &format!("{which}"), &[which]);
    }
}

fn in_folder(folder: &Path, name: &str) -> String {
    text(&folder.join(name)).to_string()
}

fn read(folder: &Path, name: &str) -> Vec<u8> {
    fs::read(folder.join(name)).expect("what the program made")
}

/// A root, a publisher under it, and a detached CMS signature.
fn certificates(folder: &Path) {
    let at = |name: &str| in_folder(folder, name);
    let extensions = "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=codeSigning\n";
    fs::write(folder.join("leaf.cnf"), extensions).expect("a file");
    let new_key = [
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
    ];
    let root = [
        "req",
        "-x509",
        "-days",
        "7300",
        "-subj",
        "/CN=Fuzzed Root",
        "-addext",
        "keyUsage=critical,keyCertSign",
    ];
    let (root_key, root_pem) = (at("root.key"), at("root.pem"));
    run(
        "openssl",
        &[
            &root[..],
            &new_key,
            &["-keyout", &root_key, "-out", &root_pem],
        ]
        .concat(),
    );
    let leaf = ["req", "-new", "-subj", "/CN=Fuzzed Publisher"];
    let (leaf_key, csr, leaf_pem) = (at("leaf.key"), at("leaf.csr"), at("leaf.pem"));
    run(
        "openssl",
        &[&leaf[..], &new_key, &["-keyout", &leaf_key, "-out", &csr]].concat(),
    );
    let sign = [
        "x509",
        "-req",
        "-days",
        "7300",
        "-set_serial",
        "7",
        "-in",
        &csr,
        "-CA",
        &root_pem,
    ];
    let extensions = at("leaf.cnf");
    run(
        "openssl",
        &[
            &sign[..],
            &[
                "-CAkey",
                &root_key,
                "-extfile",
                &extensions,
                "-out",
                &leaf_pem,
            ],
        ]
        .concat(),
    );
    key("root.pem", &read(folder, "root.pem"));
    seed("certificates", "root", &read(folder, "root.pem"));
    let (der, two) = (
        at("root.der"),
        [read(folder, "root.pem"), read(folder, "leaf.pem")].concat(),
    );
    run(
        "openssl",
        &["x509", "-in", &root_pem, "-outform", "DER", "-out", &der],
    );
    seed("certificates", "der", &read(folder, "root.der"));
    seed("certificates", "two", &two);
    let (file, p7s) = (at("file"), at("file.p7s"));
    for form in ["DER", "PEM"] {
        for more in [&[][..], &["-keyid"]] {
            let sign = [
                "cms", "-sign", "-binary", "-in", &file, "-signer", &leaf_pem, "-inkey", &leaf_key,
            ];
            run(
                "openssl",
                &[&sign[..], &["-outform", form, "-out", &p7s], more].concat(),
            );
            seed(
                "cms",
                &format!("{form}{}", more.concat()),
                &read(folder, "file.p7s"),
            );
        }
    }
}

/// Files that are signed inside. The program is what the demo's components are made of.
fn authenticode(folder: &Path) {
    let at = |name: &str| in_folder(folder, name);
    let program = tree::root().join("tests/demo/program.py");
    run("python3", &[text(&program), &at("a.exe"), "=v1"]);
    fs::write(folder.join("a.ps1"), "Write-Output 'signed'\r\n").expect("a file");
    let mut files = vec!["a.exe", "a.ps1"];
    if have(&["gcab"]) {
        run("gcab", &["-c", &at("a.cab"), &at("file")]);
        files.push("a.cab");
    }
    if have(&["wixl"]) {
        fs::write(folder.join("a.wxs"), WXS).expect("a file");
        run("wixl", &["-o", &at("a.msi"), &at("a.wxs")]);
        files.push("a.msi");
    }
    for file in files {
        sign(folder, file);
        seed("authenticode", file, &read(folder, "signed"));
        base(&format!("signed-{file}"), &folder.join("signed"));
    }
    catalog(folder);
    base("signed-a.cat", &folder.join("signed"));
    for which in 0..INSIDE.len() as u8 {
        seed("signed-inside", &format!("{which}"), &[which]);
    }
}

/// Signs a file as the publisher, to `signed`.
fn sign(folder: &Path, file: &str) {
    let at = |name: &str| in_folder(folder, name);
    let _ = fs::remove_file(at("signed"));
    let (certificate, key, from, to) = (at("leaf.pem"), at("leaf.key"), at(file), at("signed"));
    let mut publisher = vec!["sign", "-h", "sha256", "-certs", &certificate, "-key", &key];
    // With the names of its streams.
    publisher.extend(file.ends_with(".msi").then_some("-add-msi-dse"));
    run(
        "osslsigncode",
        &[&publisher[..], &["-in", &from, "-out", &to]].concat(),
    );
}

/// A catalog of one file, made by the generator of the tests.
fn catalog(folder: &Path) {
    let at = |name: &str| in_folder(folder, name);
    fs::write(folder.join("driver.inf"), LISTED).expect("a file");
    let generator = tests_of_trust().join("catalog.py");
    let (listed, to) = (at("driver.inf"), at("driver.cat"));
    run("python3", &[text(&generator), &to, &listed]);
    sign(folder, "driver.cat");
    seed("catalog", "one-file", &read(folder, "signed"));
}

/// Bundles, an attestation and loose parts, by the instance of the tests.
fn sigstore() {
    let own = |name: &str| {
        let file = tests_of_trust().join("sigstore/own").join(name);
        fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
    };
    key("tool.exe", &own("tool.exe"));
    key("trusted_root.json", &own("trusted_root.json"));
    let root = own("trusted_root.json");
    seed("keys", "sigstore", &[&[4], &root[..]].concat());
    for (which, name) in [
        (0, "good"),
        (0, "called"),
        (1, "provenance"),
        (1, "called-provenance"),
    ] {
        let bundle = own(&format!("{name}.sigstore.json"));
        seed("sigstore", name, &[&[which], &bundle[..]].concat());
    }
    let loose = ["tool.exe.sig", "tool.exe.cert", "entries.json"].map(own);
    seed("sigstore", "loose", &[&[2], &loose.join(&0)[..]].concat());
}

fn tests_of_trust() -> PathBuf {
    tree::root().join("crates/trust/tests")
}

const WXS: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<Wix xmlns="http://schemas.microsoft.com/wix/2006/wi">
<Product Name="Seed" Id="*" UpgradeCode="5c7a1d60-9f0e-4d3f-9a50-7f0b2f1f0e01" Language="1033" Version="1.0.0" Manufacturer="Seed">
<Package Id="*" Compressed="yes" InstallerVersion="200"/>
<Directory Id="TARGETDIR" Name="SourceDir"/>
<Feature Id="F" Level="1"/>
</Product>
</Wix>
"#;

fn cosign(folder: &Path) {
    let at = |name: &str| in_folder(folder, name);
    let (private, public, signature, file) = (
        at("cosign.key"),
        at("cosign.pub"),
        at("cosign.sig"),
        at("file"),
    );
    run(
        "openssl",
        &[
            "ecparam",
            "-name",
            "prime256v1",
            "-genkey",
            "-noout",
            "-out",
            &private,
        ],
    );
    run(
        "openssl",
        &["ec", "-in", &private, "-pubout", "-out", &public],
    );
    run(
        "openssl",
        &[
            "dgst", "-sha256", "-sign", &private, "-out", &signature, &file,
        ],
    );
    run(
        "openssl",
        &["base64", "-A", "-in", &signature, "-out", &at("cosign.b64")],
    );
    key("cosign.pub", &read(folder, "cosign.pub"));
    seed("cosign", "bare", &read(folder, "cosign.b64"));
    seed(
        "keys",
        "cosign",
        &[&[3], &read(folder, "cosign.pub")[..]].concat(),
    );
}

fn minisign(folder: &Path) {
    let at = |name: &str| in_folder(folder, name);
    let (public, private, file) = (at("minisign.pub"), at("minisign.key"), at("file"));
    run("minisign", &["-G", "-W", "-p", &public, "-s", &private]);
    // Its own comment would name this file, which is judged by another name.
    let sign = ["-S", "-s", &private, "-m", &file, "-t", "of the seeds"];
    run("minisign", &sign);
    key("minisign.pub", &read(folder, "minisign.pub"));
    seed("minisign", "good", &read(folder, "file.minisig"));
    seed(
        "keys",
        "minisign",
        &[&[1], &read(folder, "minisign.pub")[..]].concat(),
    );
}

fn signify(folder: &Path) {
    let at = |name: &str| in_folder(folder, name);
    let (public, private, file) = (at("signify.pub"), at("signify.sec"), at("file"));
    run(
        "signify-openbsd",
        &["-G", "-n", "-p", &public, "-s", &private],
    );
    run(
        "signify-openbsd",
        &["-S", "-s", &private, "-m", &file, "-x", &at("file.sig")],
    );
    key("signify.pub", &read(folder, "signify.pub"));
    seed("signify", "good", &read(folder, "file.sig"));
    seed(
        "keys",
        "signify",
        &[&[2], &read(folder, "signify.pub")[..]].concat(),
    );
}

fn openpgp(folder: &Path) {
    let home = folder.join("gnupg");
    fs::create_dir(&home).expect("a folder");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).expect("its mode");
    }
    let file = in_folder(folder, "file");
    let gpg = |arguments: &[&str]| {
        let common = [
            "--homedir",
            text(&home),
            "--batch",
            "--quiet",
            "--yes",
            "--passphrase",
            "",
            "--pinentry-mode",
            "loopback",
        ];
        run("gpg", &[&common[..], arguments].concat())
    };
    gpg(&[
        "--quick-gen-key",
        "Fuzzed <fuzz@example.com>",
        "ed25519",
        "sign",
        "never",
    ]);
    let listed = gpg(&["--with-colons", "--list-keys"]);
    let fingerprint = listed.lines().find_map(|l| l.strip_prefix("fpr:"));
    let fingerprint = fingerprint
        .unwrap_or_default()
        .trim_matches(':')
        .to_string();
    let to = |name: &str| in_folder(folder, name);
    gpg(&["--armor", "--output", &to("key.asc"), "--export"]);
    gpg(&[
        "--armor",
        "--output",
        &to("file.asc"),
        "--detach-sign",
        &file,
    ]);
    gpg(&["--output", &to("file.gpg"), "--detach-sign", &file]);
    fs::write(
        folder.join("SHA256SUMS"),
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  kubelet.exe\n",
    )
    .expect("a file");
    gpg(&[
        "--output",
        &to("SHA256SUMS.asc"),
        "--clearsign",
        &to("SHA256SUMS"),
    ]);
    let _ = std::process::Command::new("gpgconf")
        .args(["--homedir", text(&home), "--kill", "all"])
        .status();
    key("openpgp.asc", &read(folder, "key.asc"));
    key("openpgp.fingerprint", fingerprint.as_bytes());
    seed("openpgp", "armoured", &read(folder, "file.asc"));
    seed("openpgp", "binary", &read(folder, "file.gpg"));
    seed("signed-text", "good", &read(folder, "SHA256SUMS.asc"));
    seed(
        "keys",
        "openpgp",
        &[&[0], &read(folder, "key.asc")[..]].concat(),
    );
}
