//! Texts: recipes, checksum files, answer files.

use std::fs;

use winimg::answer::{LintFacts, lint, lint_clone};
use winimg_formats::driver;
use winimg_formats::wim::WindowsRelease;
use winimg_recipe::{Firmware, ReadOptions, read};
use winimg_trust::checksum::{self, WantedChecksum};

use crate::ground;

pub fn checksum(bytes: &[u8]) -> bool {
    let found = checksum::find(bytes, WantedChecksum::Entry("kubelet.exe"));
    let _ = checksum::find(
        bytes,
        WantedChecksum::Path("/v1/bin/windows/amd64/kubelet.exe"),
    );
    match found {
        Ok(found) => {
            let line = found.line.to_lowercase();
            let hex = found.digest.to_string();
            let hex = hex.rsplit(':').next().unwrap_or_default();
            assert!(line.contains(hex), "{hex} does not stand in {line:?}");
            true
        }
        Err(_) => false,
    }
}

/// A recipe beside two other files that it can include. Its complaints are shown, with colours and without.
pub fn recipe(bytes: &[u8]) -> bool {
    let folder = ground::folder().join("recipe");
    if !folder.exists() {
        fs::create_dir(&folder).expect("a temporary folder");
        fs::write(
            folder.join("other.toml"),
            "schema = 1\n[vars]\nkubernetes_version = \"1.2.3\"\n",
        )
        .expect("a file");
        fs::write(
            folder.join("circle.toml"),
            "schema = 1\ninclude = [\"recipe.toml\"]\n",
        )
        .expect("a file");
    }
    let path = folder.join("recipe.toml");
    fs::write(&path, bytes).expect("a file");
    let (recipe, diagnostics) = read(&path, &ReadOptions::default());
    let shown = diagnostics.render(false);
    let _ = diagnostics.render(true);
    ground::say(|| shown.clone());
    assert!(
        recipe.is_some() || !shown.is_empty(),
        "no recipe and no complaint"
    );
    recipe.is_some()
}

/// The INF of a driver's folder. What is taken is in the folder, whatever the INF names.
pub fn driver_inf(bytes: &[u8]) -> bool {
    const FILES: [&str; 4] = ["n.cat", "n.sys", "below/n.dll", "n.pdb"];
    let folder = ground::folder().join("driver");
    if !folder.exists() {
        fs::create_dir_all(folder.join("below")).expect("a temporary folder");
        for file in FILES {
            fs::write(folder.join(file), "MZ").expect("a file");
        }
    }
    fs::write(folder.join("n.inf"), bytes).expect("a file");
    let chosen = driver::in_folder(&folder, driver::is_here).expect("a folder that is read");
    match chosen {
        Ok(chosen) => {
            let mut all = chosen.paths();
            assert!(all.remove("n.inf"), "the INF belongs to its package");
            assert!(all.iter().all(|path| FILES.contains(path)), "{all:?}");
            let left_out = chosen.left_out.len();
            assert_eq!(all.len() + left_out, FILES.len(), "{:?}", chosen.left_out);
            true
        }
        Err(faults) => {
            ground::say(|| format!("{:?}", driver::merge_faults(faults)));
            false
        }
    }
}

/// An answer file that a recipe brings, for Setup and for a clone.
pub fn answer_file(bytes: &[u8]) -> bool {
    let Ok(xml) = std::str::from_utf8(bytes) else {
        return false;
    };
    let facts = LintFacts {
        name: "Autounattend.xml".into(),
        firmware: Firmware::Uefi,
        release: WindowsRelease::Server2022,
        eval: true,
        tpm: false,
        images: &[],
        answer_file_on_medium: None,
    };
    let complaints = lint(xml, &facts);
    let _ = (
        complaints.render(true),
        lint_clone("clone.xml", xml).render(false),
    );
    !complaints.has_errors()
}
