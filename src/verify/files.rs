//! Files and folders: there, gone, or with these bytes.

use winimg_base::digest::{Algorithm, Hasher};
use winimg_formats::disk::ntfs::Form;

use winimg_recipe::plan::check::Bytes;
use winimg_recipe::recipe::GuestPath;

use super::finding::{Finding, Verdict};
use super::image::{Answer, Image};

pub fn file(image: &Image<'_>, path: &GuestPath, content: &Bytes) -> Verdict {
    let Bytes { size, sha256 } = content;
    let expected = format!("{size} bytes, sha256:{sha256}");
    match digest(image, path.as_str())? {
        None => Err(Finding::error(format!("{path} is missing"))
            .expected(expected)
            .cure("see whether a later step removes it, and the log of the step that puts it there")),
        Some((_, found)) if found == *sha256 => Ok(()),
        Some((length, found)) => Err(Finding::error(format!("{path} is another file"))
            .expected(expected)
            .found(format!("{length} bytes, sha256:{found}"))
            .cure("see which later step or program writes it; let the step that has the last word put it there")),
    }
}

pub fn exists(image: &Image<'_>, path: &GuestPath) -> Verdict {
    match image.volume.exists(path.as_str())? {
        true => Ok(()),
        false => Err(Finding::error(format!("{path} is missing"))
            .cure("see whether a later step removes it, and the log of the step that makes it")),
    }
}

pub fn missing(image: &Image<'_>, path: &GuestPath) -> Verdict {
    match image.volume.exists(path.as_str())? {
        false => Ok(()),
        true => Err(Finding::error(format!("{path} is still there"))
            .expected("nothing of this name")
            .cure("see which later step or program brings it back")),
    }
}

/// Length and SHA-256 in hex; `None`: no such file. Bytes that are kept compressed, deduplicated or elsewhere are unknown.
pub fn digest(image: &Image<'_>, path: &str) -> Answer<Option<(u64, String)>> {
    let Some(facts) = image.volume.facts(path)? else {
        return Ok(None);
    };
    if facts.directory {
        return Err(Finding::error(format!("{path} is a folder")).expected("a file"));
    }
    if facts.form != Form::Plain {
        return Err(Finding::unknown(format!(
            "the bytes of {path}: it {}",
            facts.form
        )));
    }
    let mut hasher = Hasher::new(Algorithm::Sha256);
    let length = image.volume.copy(path, &mut hasher)?;
    Ok(length.map(|n| (n, hasher.finish().hex())))
}
