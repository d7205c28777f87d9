//! Words people bring from other tools, and words that mean a secret.
//!
//! Only help lines come from here: no foreign word is ever obeyed.

use super::keys;

/// Packer's and image-builder's names (HashiCorp: Packer QEMU and Hyper-V builders, PowerShell and windows-restart
/// provisioners; kubernetes-sigs/image-builder: Windows variables), with what to write instead.
const FOREIGN: &[(&str, &str)] = &[
    ("sha1", "a SHA-1 proves nothing: write `sha256`"),
    ("md5", "an MD5 proves nothing: write `sha256`"),
    ("checksum", "write `sha256`, `sha512` or `checksum_url`"),
    ("digest", "write `sha256`, `sha512` or `checksum_url`"),
    ("iso_url", "write `url` under `[media.iso]`"),
    ("iso_urls", "write one `url` under `[media.iso]`"),
    ("os_iso_url", "write `url` under `[media.iso]`"),
    (
        "iso_checksum",
        "write `sha256`, `sha512` or `checksum_url` under `[media.iso]`",
    ),
    (
        "secondary_iso_images",
        "the virtio-win ISO goes under `[media.virtio]`",
    ),
    (
        "image_name",
        "write `image` under `[media]`: the name of the image inside the WIM",
    ),
    (
        "disk_size",
        "write `disk_size = \"64 GiB\"` under `[machine]`",
    ),
    ("memory", "write `memory = \"4 GiB\"` under `[machine]`"),
    ("cpus", "write `cpus` under `[machine]`"),
    (
        "efi_boot",
        "write `firmware = \"uefi\"` or `\"bios\"` under `[machine]`",
    ),
    (
        "efi_firmware_code",
        "the firmware files are found on the host; `firmware` stands under `[machine]`",
    ),
    (
        "efi_firmware_vars",
        "the firmware files are found on the host; `firmware` stands under `[machine]`",
    ),
    (
        "generation",
        "generation 2 is `firmware = \"uefi\"` under `[machine]`, generation 1 is `\"bios\"`",
    ),
    (
        "enable_secure_boot",
        "write `secure_boot` under `[machine]`",
    ),
    ("vtpm", "write `tpm` under `[machine]`"),
    (
        "disk_interface",
        "write `disk_bus` under `[machine]`: nvme, virtio or ahci",
    ),
    ("accelerator", "give `--accel` on the command line"),
    (
        "headless",
        "there is nothing to write: the machine never opens a window",
    ),
    ("output_directory", "give `--output` on the command line"),
    ("output_dir", "give `--output` on the command line"),
    ("vm_name", "write `name` at the top of the recipe"),
    ("build_name", "write `name` at the top of the recipe"),
    (
        "format",
        "write the formats under `[outputs]`: raw, vhd, ova, ami, qcow2",
    ),
    (
        "use_fixed_vhd_format",
        "`vhd = {}` under `[outputs]` is always fixed",
    ),
    (
        "vmx_version",
        "write `ova = { hardware_version = 19 }` under `[outputs]`",
    ),
    (
        "boot_command",
        "there is nothing to write: the key prompt is handled without typing",
    ),
    (
        "boot_wait",
        "there is nothing to write: the key prompt is handled without typing",
    ),
    (
        "shutdown_command",
        "write a step with `generalize = {}`; the shutdown follows by itself",
    ),
    ("unattend_timezone", "write `time_zone` under `[media]`"),
    (
        "cd_files",
        "copy files with a step: `copy = { path = …, to = … }`",
    ),
    (
        "provisioner",
        "each provisioner is a `[[steps]]` table with one verb",
    ),
    (
        "provisioners",
        "each provisioner is a `[[steps]]` table with one verb",
    ),
    ("variables", "write `[vars]`"),
    ("variable", "write `[vars]`"),
    ("shell", "the verbs are `cmd` and `powershell`"),
    ("inline_shell", "the verbs are `cmd` and `powershell`"),
    ("windows-restart", "the verb is `reboot = {}`"),
    ("windows_restart", "the verb is `reboot = {}`"),
    (
        "valid_exit_codes",
        "write `exit_codes = { ok = [0], reboot = [3010] }`",
    ),
    (
        "environment_vars",
        "set them inside the script, or for good with an `environment` step",
    ),
    (
        "scripts",
        "one step runs one script: write one step for each",
    ),
    ("elevated_user", "every step already runs as SYSTEM"),
    ("elevated_password", "every step already runs as SYSTEM"),
    ("pause_before", "use a step with `reboot` or `assert`"),
    (
        "containerd_url",
        "write `url` under `[components.containerd]`",
    ),
    (
        "containerd_version",
        "write `version` under `[components.containerd]`, or declare it under `[vars]`",
    ),
    (
        "kubernetes_semver",
        "declare it under `[vars]` to use it as `{{kubernetes_semver}}`",
    ),
    (
        "cloudbase_init_url",
        "write `url` under the cloudbase-init component",
    ),
];

/// Where a key of the recipe itself belongs that stands in a table: TOML takes a key after a table's header for one of
/// that table.
pub fn of_the_top(key: &str) -> Option<String> {
    let row = keys::of("recipe").find(key);
    row.is_some_and(|row| !row.takes.has_header()).then(|| {
        format!("`{key}` is a key of the top level: move it above the first [table] of the file")
    })
}

/// What to write instead of another tool's word.
pub fn foreign(word: &str) -> Option<&'static str> {
    let found = FOREIGN.iter().find(|(name, _)| *name == word)?;
    Some(found.1)
}

/// What a recipe may say about a secret: nothing.
pub const SECRET_HELP: &str = "a recipe holds no secrets: give the Administrator password in the environment variable \
     WINIMG_ADMIN_PASSWORD or with `--admin-password-file FILE`";

/// Whether a variable of this name would hold a secret. `token_path` names a place, not a secret.
pub fn is_secret(name: &str) -> bool {
    let lower = name.to_lowercase();
    let segments: Vec<&str> = lower.split(['_', '-', '.']).collect();
    let harmless = [
        "file", "path", "url", "ttl", "length", "policy", "name", "dir", "enabled",
    ];
    if segments.last().is_some_and(|last| harmless.contains(last)) {
        return false;
    }
    let revealing = [
        "password",
        "passwd",
        "passphrase",
        "pwd",
        "secret",
        "token",
        "credential",
        "credentials",
        "apikey",
    ];
    segments.iter().any(|s| revealing.contains(s))
        || ["api_key", "private_key", "access_key"]
            .iter()
            .any(|k| lower.replace('-', "_").contains(k))
        || lower.ends_with("password")
}

/// Known in every recipe: the version of this program.
pub const OWN_VERSION: &str = "winimg_version";

/// Why a variable cannot have this name, and the cure.
pub fn refused_name(name: &str) -> Option<(String, String)> {
    if is_secret(name) {
        let fact = format!("`{name}` would be a secret");
        return Some((fact, SECRET_HELP.into()));
    }
    if name == "name" || name == "version" {
        let fact = format!("a variable cannot be called `{name}`");
        let help = format!(
            "`{{{{{name}}}}}` is a component's own {name}: say whose, as in `image_{name}`"
        );
        return Some((fact, help));
    }
    if name == OWN_VERSION {
        let fact = format!("a variable cannot be called `{name}`");
        let help = format!("`{{{{{name}}}}}` is the version of this program");
        return Some((fact, help));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let reserved = [
        "true",
        "false",
        "null",
        "undefined",
        "this",
        "else",
        "as",
        "raw",
    ];
    if !starts || !name.chars().all(plain) || reserved.contains(&name) {
        let fact = format!("a variable cannot be called `{name}`");
        let help = "letters, digits and `_`, a letter first, and none of Handlebars' own words";
        return Some((fact, help.into()));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets() {
        for name in [
            "password",
            "windows_admin_password",
            "WINDOWS_ADMIN_PASSWORD",
            "join-token",
            "adminpassword",
            "aws_secret_access_key",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "kubernetes_version",
            "token_path",
            "password_policy",
            "tokens",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
