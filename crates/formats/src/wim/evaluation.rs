//! Microsoft's evaluation media, recognized by their digest before they are read.
//!
//! The table is not complete: other media may be evaluation media, too.

use jiff::civil::Date;

use super::WindowsRelease;
use winimg_base::digest::Digest;

/// Days that Windows from evaluation media runs (Microsoft: Evaluation Center, Windows Server).
pub const DAYS: u32 = 180;

/// SHA-256 of the English medium, computed by rgl/windows-vagrant and others; Microsoft publishes
/// no digest.
fn medium_sha256(release: WindowsRelease) -> &'static str {
    match release {
        // 17763.737.190906-2324.rs5_release_svc_refresh_SERVER_EVAL_x64FRE_en-us_1.iso
        WindowsRelease::Server2019 => {
            "549bca46c055157291be6c22a3aaaed8330e78ef4382c99ee82c896426a1cee1"
        }
        // SERVER_EVAL_x64FRE_en-us.iso (20348.587)
        WindowsRelease::Server2022 => {
            "3e4fa6d8507b554856fc9ca6079cc402df11a8b79344871669f0251535255325"
        }
        // 26100.32230.260111-0550.lt_release_svc_refresh_SERVER_EVAL_x64FRE_en-us.iso
        WindowsRelease::Server2025 => {
            "7b052573ba7894c9924e3e87ba732ccd354d18cb75a883efa9b900ea125bfd51"
        }
    }
}

/// Returns the date of the medium's updates: the build date in its name, or the date of the update
/// with its revision (Microsoft: March 8, 2022, KB5011497, OS Build 20348.587).
pub fn date(release: WindowsRelease) -> Date {
    match release {
        WindowsRelease::Server2019 => Date::constant(2019, 9, 6),
        WindowsRelease::Server2022 => Date::constant(2022, 3, 8),
        WindowsRelease::Server2025 => Date::constant(2026, 1, 11),
    }
}

/// Finds the release of the evaluation medium with this digest.
pub fn find_release(digest: &Digest) -> Option<WindowsRelease> {
    let hex = digest.hex();
    WindowsRelease::ALL
        .into_iter()
        .find(|release| medium_sha256(*release) == hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The packs' own digests are of evaluation media, whatever release they are for.
    #[test]
    fn the_media_of_the_packs_are_known() {
        for release in WindowsRelease::ALL {
            let year = release.year();
            let packs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recipes/packs");
            let pack = format!("{packs}/windows-server-{year}.toml");
            let text = std::fs::read_to_string(&pack).expect("the pack");
            let line = text.lines().find(|l| l.starts_with("iso_checksum"));
            let hex = line.and_then(|l| l.split('"').nth(1)).expect("a digest");
            let digest = Digest::from_hex(hex).expect("a digest");
            assert_eq!(find_release(&digest), Some(release), "{pack}");
        }
        assert_eq!(find_release(&Digest::sha256_of(b"another medium")), None);
    }
}
