//! Secure Boot and a TPM on QEMU: what a build and the clones of its image see of them, and a medium that the firmware refuses.
//!
//! The stand-in's boot files are signed with a key of Debian's ovmf that everybody has; a firmware that trusts it is named where QEMU's
//! firmware descriptors of a user are looked for.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use support::tree::root;
use winimg::trial::state::{self, DetectedHardware, KnownFact};
use winimg_base::event::Cancel;
use winimg_formats::disk::RawDisk;

use crate::end_to_end::program::{Build, processes_with};

const RECIPE: &str = "tests/end_to_end/trusted.toml";
const HOUR: Duration = Duration::from_secs(3600);

const BOTH: DetectedHardware = DetectedHardware {
    secure_boot: Some(true),
    tpm: true,
};

/// A folder of configuration with a firmware whose only key is that of the stand-in's medium.
pub fn firmware(folder: &Path) -> PathBuf {
    let image =
        |file: &str| json!({ "filename": format!("/usr/share/OVMF/{file}"), "format": "raw" });
    let descriptor = json!({
        "description": "OVMF with the key of Debian's ovmf",
        "interface-types": ["uefi"],
        "mapping": {
            "device": "flash",
            "executable": image("OVMF_CODE_4M.secboot.fd"),
            "nvram-template": image("OVMF_VARS_4M.snakeoil.fd"),
        },
        "targets": [{ "architecture": "x86_64", "machines": ["pc-q35-*"] }],
        "features": ["secure-boot", "enrolled-keys", "requires-smm"],
        "tags": [],
    });
    let config = folder.join("config");
    let descriptors = config.join("qemu/firmware");
    fs::create_dir_all(&descriptors).expect("a folder");
    fs::write(descriptors.join("10-standin.json"), descriptor.to_string()).expect("written");
    config
}

mod nightly {
    use super::*;

    #[test]
    #[ignore = "boots QEMU: make end-to-end-nightly"]
    fn a_build_and_its_clones_see_secure_boot_and_a_tpm() {
        let dir = tempfile::tempdir_in(root().join("target")).expect("a directory");
        let (output, cache) = (dir.path().join("out"), dir.path().join("cache"));
        let config = firmware(dir.path());
        let mut build = Build::start_where(
            RECIPE,
            &output,
            &cache,
            &["--try", "--settle", "15s"],
            &[("XDG_CONFIG_HOME", OsStr::new(&config))],
        );
        let status = build.end(2 * HOUR);
        assert_eq!(status.code(), Some(0), "{}", build.error());

        let disk = RawDisk::open(&output.join("trusted.raw")).expect("the image");
        let built = state::read(&disk, &Cancel::default()).expect("a Windows");
        assert_eq!(
            built.hardware,
            KnownFact::Is(BOTH),
            "the machine of the build"
        );
        let text = fs::read_to_string(output.join("try/trusted.json")).expect("a result");
        let tried: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(tried["verdict"], "good", "{tried:#}");
        assert_eq!(tried["hardware"]["tpm"], true, "{tried:#}");
        assert_eq!(tried["hardware"]["secure_boot"], true, "{tried:#}");
        assert_eq!(tried["remarks"], json!([]), "{tried:#}");
        let clones = tried["clones"].as_array().expect("clones");
        assert_eq!(clones.len(), 2, "{tried:#}");
        for clone in clones {
            let seen = &clone["state"]["hardware"];
            assert_eq!(
                *seen,
                serde_json::to_value(BOTH).expect("JSON"),
                "{tried:#}"
            );
        }
        let running = processes_with(dir.path().to_str().expect("UTF-8"));
        assert!(running.is_empty(), "{running:?}");
    }

    /// With the keys of this host's own firmware, which are Microsoft's.
    #[test]
    #[ignore = "boots QEMU: make end-to-end-nightly"]
    fn a_medium_that_no_key_of_the_firmware_signed_is_named() {
        let dir = tempfile::tempdir_in(root().join("target")).expect("a directory");
        let (output, cache) = (dir.path().join("out"), dir.path().join("cache"));
        let empty = dir.path().join("config");
        let mut build = Build::start_where(
            RECIPE,
            &output,
            &cache,
            &[],
            &[("XDG_CONFIG_HOME", OsStr::new(&empty))],
        );
        let status = build.end(HOUR);
        let error = build.error();
        assert_eq!(status.code(), Some(6), "{error}");
        for words in [
            "Secure Boot rejects the install disc's boot loader: it is not signed by any of the firmware's keys",
            "Access Denied",
        ] {
            assert!(error.contains(words), "{error}");
        }
    }
}
