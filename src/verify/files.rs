//! Checks of files and folders: existence, absence, content.

use winimg_base::digest::{Algorithm, Hasher};
use winimg_formats::disk::ntfs::NtfsContentForm;

use winimg_recipe::GuestPath;
use winimg_recipe::plan::check::FileDigest;

use super::finding::{Verdict, VerifyFinding};
use super::image::{CheckResult, InspectedImage};

pub fn check_file(image: &InspectedImage<'_>, path: &GuestPath, content: &FileDigest) -> Verdict {
    let FileDigest { size, sha256 } = content;
    let expected = format!("{size} bytes, sha256:{sha256}");
    match hash_file(image, path.as_str())? {
        None => Err(VerifyFinding::error(format!("{path} is missing"))
            .expected(expected)
            .cure("check whether a later step removes it, and the log of the step that writes it")),
        Some((_, found)) if found == *sha256 => Ok(()),
        Some((length, found)) => Err(VerifyFinding::error(format!("{path} has other content"))
            .expected(expected)
            .found(format!("{length} bytes, sha256:{found}"))
            .cure(
                "find the later step or program that writes it, and let only the last step write \
                 it",
            )),
    }
}

pub fn check_exists(image: &InspectedImage<'_>, path: &GuestPath) -> Verdict {
    if image.volume.exists(path.as_str())? {
        Ok(())
    } else {
        Err(VerifyFinding::error(format!("{path} is missing"))
            .cure("check whether a later step removes it, and the log of the step that creates it"))
    }
}

pub fn check_missing(image: &InspectedImage<'_>, path: &GuestPath) -> Verdict {
    if image.volume.exists(path.as_str())? {
        Err(VerifyFinding::error(format!("{path} still exists"))
            .expected("nothing with this name")
            .cure("find the later step or program that creates it"))
    } else {
        Ok(())
    }
}

/// Returns a file's length and SHA-256 in hex; `None` if there is no such file. Compressed,
/// deduplicated and offline files are reported as unknown.
pub fn hash_file(image: &InspectedImage<'_>, path: &str) -> CheckResult<Option<(u64, String)>> {
    let Some(facts) = image.volume.read_file_info(path)? else {
        return Ok(None);
    };
    if facts.is_directory {
        return Err(VerifyFinding::error(format!("{path} is a folder")).expected("a file"));
    }
    if facts.form != NtfsContentForm::Plain {
        return Err(VerifyFinding::unknown(format!(
            "the bytes of {path}: it {}",
            facts.form
        )));
    }
    let mut hasher = Hasher::new(Algorithm::Sha256);
    let length = image.volume.copy(path, &mut hasher)?;
    Ok(length.map(|n| (n, hasher.finish().hex())))
}
