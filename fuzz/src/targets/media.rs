//! Install media: ISO 9660 and UDF trees, El Torito, the WIM's description, the overlay without a prompt.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;

use winimg_formats::iso::{BootCatalog, overlay_without_prompt};
use winimg_formats::udf::Medium;
use winimg_formats::wim::{MediaFacts, WimImages, WindowsRelease};

use crate::ground::{self, Base};
use crate::seal;

/// Folders and entries that are looked at; a real medium has more.
const MOST: usize = 64;

pub fn iso(bytes: &[u8]) -> bool {
    let understood = walk(bytes.to_vec());
    if understood {
        ground::on_file(bytes, |path| {
            let overlay = ground::folder().join("overlay.qcow2");
            let _ = overlay_without_prompt(path, &overlay);
        });
    }
    understood
}

pub fn udf(input: &[u8]) -> bool {
    static BASES: OnceLock<Vec<Base>> = OnceLock::new();
    let names = ["udf-plain", "udf-metadata", "udf-windows"];
    let bases = BASES.get_or_init(|| names.map(Base::load).into());
    let mut bytes = ground::changed(bases, input);
    let as_it_is = walk(bytes.clone());
    seal::udf(&mut bytes);
    walk(bytes) || as_it_is
}

pub fn wim(bytes: &[u8]) -> bool {
    let Ok(images) = WimImages::read(&mut Cursor::new(bytes), "fuzzed.wim") else {
        return false;
    };
    for image in &images.images {
        let _ = (
            image.is_eval(),
            image.short_name(),
            WindowsRelease::from_image(image),
        );
    }
    true
}

fn walk(bytes: Vec<u8>) -> bool {
    let Ok(medium) = Medium::from_bytes(Arc::new(bytes), Path::new("fuzzed.iso")) else {
        return false;
    };
    let mut todo = vec![String::new()];
    let mut whole = true;
    for _ in 0..MOST {
        let Some(at) = todo.pop() else { break };
        let Ok(entries) = medium.read_dir(&at) else {
            whole = false;
            continue;
        };
        for entry in entries.into_iter().take(MOST) {
            whole &= entry.is_dir || medium.read(&entry, 2 << 20).is_ok();
            if entry.is_dir {
                todo.push(format!("{at}/{}", entry.name));
            }
        }
    }
    let _ = BootCatalog::read(medium.bytes());
    let _ = MediaFacts::read(&medium);
    whole
}
