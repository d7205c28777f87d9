//! Lays out the files of one image of install.wim: standin-image DIRECTORY --product P --edition E --kind K --build N
//! --revision N --release R.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use winimg_standin::windows::{ImageFacts, create_image};

fn main() -> ExitCode {
    match lay_out(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("standin-image: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn lay_out(arguments: Vec<String>) -> Result<(), String> {
    let (root, options) = arguments.split_first().ok_or("no directory given")?;
    let option = |name: &str| {
        let pair = options.chunks(2).find(|pair| pair[0] == name);
        pair.and_then(|pair| pair.get(1))
            .cloned()
            .ok_or_else(|| format!("{name} is missing"))
    };
    let number = |name: &str| {
        option(name)?
            .parse::<u32>()
            .map_err(|e| format!("{name}: {e}"))
    };
    let facts = ImageFacts {
        product_name: option("--product")?,
        edition_id: option("--edition")?,
        installation_type: option("--kind")?,
        build: number("--build")?,
        revision: number("--revision")?,
        display_version: option("--release")?,
    };
    let root = PathBuf::from(root);
    std::fs::create_dir_all(&root).map_err(|e| e.to_string())?;
    create_image(&root, &facts)?;
    for hive in ["SYSTEM", "SOFTWARE", "SAM", "SECURITY", "DEFAULT"] {
        let path = root.join("Windows/System32/config").join(hive);
        set_time(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

/// Puts SOURCE_DATE_EPOCH in place of the time a hive was made, so that equal input gives an equal image. All keys of a
/// new hive carry the time of its header (offset 12, FILETIME); the header ends with the XOR of its words.
fn set_time(hive: &Path) -> std::io::Result<()> {
    let Some(epoch) = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse::<u64>().ok()) else {
        return Ok(());
    };
    let mut bytes = std::fs::read(hive)?;
    let old = bytes[12..20].to_vec();
    let new = ((epoch + 11_644_473_600) * 10_000_000).to_le_bytes();
    for at in (0..bytes.len() - 7).step_by(4) {
        if bytes[at..at + 8] == old[..] {
            bytes[at..at + 8].copy_from_slice(&new);
        }
    }
    let words = bytes[..508].chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let sum = words.fold(0, |sum, word| sum ^ word);
    bytes[508..512].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(hive, bytes)
}
