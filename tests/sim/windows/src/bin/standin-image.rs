//! Lays out the files of one image of install.wim: standin-image DIRECTORY --product P --edition E --kind K --build N
//! --revision N --release R.

use std::path::PathBuf;
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
        release: option("--release")?,
    };
    let root = PathBuf::from(root);
    std::fs::create_dir_all(&root).map_err(|e| e.to_string())?;
    create_image(&root, &facts)
}
