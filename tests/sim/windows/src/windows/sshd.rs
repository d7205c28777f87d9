//! What OpenSSH's server does when its service starts: host keys of this machine's own, where there are none
//! (Win32-OpenSSH: contrib/win32/win32compat, `ssh-keygen -A`; Microsoft: OpenSSH server configuration).
//!
//! The public keys have OpenSSH's form and are as new as real ones; the private ones hold noise. Nobody can log in.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Machine;
use super::service::manager;
use crate::machine::debug;

pub const SERVICE: &str = "sshd";
const FOLDER: &str = r"C:\ProgramData\ssh";

/// Fields of each kind's public key, in bytes, behind its name (RFC 4253, 6.6; RFC 5656, 3.1; RFC 8709, 4).
const KINDS: [(&str, &str, Option<&str>, &[usize]); 3] = [
    ("rsa", "ssh-rsa", None, &[3, 385]),
    ("ecdsa", "ecdsa-sha2-nistp256", Some("nistp256"), &[65]),
    ("ed25519", "ssh-ed25519", None, &[32]),
];

/// The service has started.
pub fn started(machine: &Arc<Machine>) {
    for (short, name, curve, lengths) in KINDS {
        let file = format!(r"{FOLDER}\ssh_host_{short}_key");
        let Ok(private) = manager(machine).locate(&file) else {
            continue;
        };
        if private.host.exists() {
            continue;
        }
        let made = blob(name, curve, lengths).and_then(|blob| keys(&private.host, name, &blob));
        if let Err(fault) = made {
            debug(&format!("{file}: {fault}"));
        }
    }
}

fn blob(name: &str, curve: Option<&str>, lengths: &[usize]) -> std::io::Result<Vec<u8>> {
    let mut fields: Vec<Vec<u8>> = vec![name.into()];
    fields.extend(curve.map(Into::into));
    for length in lengths {
        let mut noise = vec![0; *length];
        File::open("/dev/urandom")?.read_exact(&mut noise)?;
        // As a number it is positive; as a point it is not compressed.
        noise[0] = if curve.is_some() { 4 } else { noise[0] & 0x7f };
        fields.push(noise);
    }
    let with_length = |field: &Vec<u8>| [&(field.len() as u32).to_be_bytes()[..], field].concat();
    Ok(fields.iter().flat_map(with_length).collect())
}

fn keys(private: &Path, name: &str, blob: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = private.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut noise = [0; 48];
    File::open("/dev/urandom")?.read_exact(&mut noise)?;
    let noise = STANDARD.encode(noise);
    let text = format!(
        "-----BEGIN OPENSSH PRIVATE KEY-----\n{noise}\n-----END OPENSSH PRIVATE KEY-----\n"
    );
    std::fs::write(private, text)?;
    let public = format!(
        "{name} {} nt authority\\system@standin\n",
        STANDARD.encode(blob)
    );
    // `ssh_host_rsa_key.pub`: the name of the private one has no extension.
    std::fs::write(private.with_extension("pub"), public)
}
