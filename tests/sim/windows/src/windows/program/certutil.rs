//! certutil.exe: file digests and certificate stores.

use sha2::Digest;

use super::Arguments;
use super::small::unknown;
use crate::windows::process::Process;
use crate::windows::regf::REG_BINARY;

/// `-hashfile FILE SHA256|SHA384|SHA512` and `-addstore STORE FILE`.
pub fn run(p: &mut Process, args: &Arguments) -> u32 {
    let list: Vec<&str> = args.list.iter().map(String::as_str).collect();
    let words: Vec<&str> = list
        .iter()
        .copied()
        .filter(|word| !matches!(word.to_ascii_lowercase().as_str(), "-f" | "/f"))
        .collect();
    let verb = words
        .first()
        .map(|word| word.to_ascii_lowercase().replacen('/', "-", 1));
    let read = |path: &str| {
        let found = p
            .locate(path)
            .and_then(|found| found.existing())
            .map_err(|error| 0x8007_0000 | error.0)?;
        std::fs::read(found.host).map_err(|_| 0x8007_0005u32)
    };
    let done = match (verb.as_deref(), &words[1.min(words.len())..]) {
        (Some("-hashfile"), [file, rest @ ..]) => read(file).and_then(|bytes| {
            let name = rest.first().map_or("SHA1".into(), |name| name.to_ascii_uppercase());
            let hash = match name.as_str() {
                "SHA1" => sha1_smol::Sha1::from(&bytes).digest().bytes().to_vec(),
                "SHA256" => sha2::Sha256::digest(&bytes).to_vec(),
                "SHA384" => sha2::Sha384::digest(&bytes).to_vec(),
                "SHA512" => sha2::Sha512::digest(&bytes).to_vec(),
                _ => return Err(0x8009_0008),
            };
            let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            Ok(format!("{name} hash of {file}:\n{hex}\nCertUtil: -hashfile command completed successfully.\n"))
        }),
        (Some("-addstore"), [store, file]) => read(file).and_then(|bytes| add_certificate(p, store, &bytes)),
        _ => return unknown(p, "certutil", &list.join(" "), 0x8007_0057),
    };
    match done {
        Ok(text) => {
            p.print(&text);
            0
        }
        Err(code) => {
            p.complain(&format!(
                "CertUtil: {} command FAILED: 0x{code:08x}\n",
                words[0]
            ));
            code
        }
    }
}

/// A certificate as its store keeps it: a property list with the certificate itself (property 32), by its SHA-1.
fn add_certificate(p: &Process, store: &str, bytes: &[u8]) -> Result<String, u32> {
    const BAD_DATA: u32 = 0x8009_2009;
    let known = [
        "ROOT",
        "CA",
        "MY",
        "TRUSTEDPUBLISHER",
        "DISALLOWED",
        "TRUSTEDPEOPLE",
    ];
    let store = known
        .iter()
        .find(|known| known.eq_ignore_ascii_case(store))
        .ok_or(0x8007_0002u32)?;
    let text = String::from_utf8_lossy(bytes);
    let der = match text
        .split_once("-----BEGIN CERTIFICATE-----")
        .and_then(|(_, rest)| rest.split_once("-----END CERTIFICATE-----"))
    {
        Some((body, _)) => {
            use base64::Engine;
            base64::engine::general_purpose::STANDARD
                .decode(body.split_whitespace().collect::<String>())
                .map_err(|_| BAD_DATA)?
        }
        None => bytes.to_vec(),
    };
    // One DER sequence of exactly this length.
    let whole = match der[..] {
        [0x30, 0x82, high, low, ..] => der.len() == 4 + (usize::from(high) << 8 | usize::from(low)),
        [0x30, len @ 0..=0x7f, ..] => der.len() == 2 + usize::from(len),
        [0x30, 0x81, len, ..] => der.len() == 3 + usize::from(len),
        _ => false,
    };
    if !whole {
        return Err(BAD_DATA);
    }
    let thumb = sha1_smol::Sha1::from(&der)
        .digest()
        .to_string()
        .to_uppercase();
    let mut blob = Vec::new();
    [32u32, 1, der.len() as u32]
        .iter()
        .for_each(|word| blob.extend(word.to_le_bytes()));
    blob.extend(&der);
    let key = format!(r"HKLM\SOFTWARE\Microsoft\SystemCertificates\{store}\Certificates\{thumb}");
    p.machine
        .registry()
        .set(&key, "Blob", (REG_BINARY, blob))
        .map_err(|_| 0x8007_0005u32)?;
    Ok(format!(
        "{store}\nCertificate added to store.\nCertUtil: -addstore command completed successfully.\n"
    ))
}
