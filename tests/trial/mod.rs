//! What a clone is given at its first boot, and what is said of it.

#[cfg(unix)]
mod cloudbase_init;
mod discs;
#[cfg(unix)]
mod hardware;
mod judged;
pub mod page;
mod result;
mod services;
#[cfg(unix)]
mod sockets;
mod state;
#[cfg(unix)]
mod user_data;

use winimg::trial::metadata::CloneIdentity;
use winimg::trial::user_data::UserData;
use winimg_base::text::Secret;

/// RSA and Ed25519, with a comment that XML and YAML have to quote.
pub const KEYS: [&str; 2] = [
    "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQDdnmVc anna <anna@example.com> & \"co\"",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHu0 ben: # 2",
];

/// Bytes that are neither UTF-8 nor without an end of line.
pub const USER_DATA: &[u8] = b"#ps1\r\nWrite-Host '\xfc <&>'\r\n";

pub fn identity() -> CloneIdentity {
    CloneIdentity {
        instance: "0c2f1d0e-0b7a-4d52-9a64-6e1a5e2f7a31".into(),
        host_name: "clone-a".into(),
        user: "capi".into(),
        ssh_keys: KEYS.map(str::to_owned).to_vec(),
        user_data: USER_DATA.into(),
        password: Secret::new("Open-Sesame<42>!"),
    }
}

/// Of a machine that was given a name and nothing else.
pub fn bare() -> CloneIdentity {
    CloneIdentity {
        ssh_keys: Vec::new(),
        user_data: UserData::default(),
        ..identity()
    }
}
