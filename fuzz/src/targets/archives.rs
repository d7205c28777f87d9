//! Archives of publishers: listed and unpacked, with a look at what was written where.

use std::fs;
use std::io::Write;
use std::path::Path;

use winimg_formats::archive::{
    ArchiveFile, ArchiveFilter, ArchiveFormat, UnpackLimits, list, unpack,
};

use crate::{ground, seal};

pub fn zip(bytes: &[u8]) -> bool {
    both(bytes, ArchiveFormat::Zip)
}

pub fn tar(bytes: &[u8]) -> bool {
    let mut sealed = bytes.to_vec();
    seal::tar(&mut sealed);
    both(&sealed, ArchiveFormat::Tar)
}

/// The first byte chooses: compressed bytes as they are, or a tar that is compressed here.
pub fn packed(bytes: &[u8]) -> bool {
    let Some((which, rest)) = bytes.split_first() else {
        return false;
    };
    match which % 4 {
        0 => both(rest, ArchiveFormat::TarGz),
        1 => both(rest, ArchiveFormat::TarZst),
        2 => {
            let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            writer.write_all(rest).expect("memory");
            both(&writer.finish().expect("memory"), ArchiveFormat::TarGz)
        }
        _ => both(
            &zstd::encode_all(rest, 1).expect("memory"),
            ArchiveFormat::TarZst,
        ),
    }
}

fn both(bytes: &[u8], format: ArchiveFormat) -> bool {
    let folder = ground::folder().join("archive");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).expect("a temporary folder");
    let (file, out) = (folder.join("file"), folder.join("out"));
    fs::write(&file, bytes).expect("a temporary file");
    let archive = ArchiveFile {
        file: &file,
        format,
        name: "fuzzed",
    };
    let limits = UnpackLimits {
        total: 4 << 20,
        entries: 200,
        ratio: 200,
    };
    let listed = list(&archive, &limits);
    let unpacked = unpack(&archive, &out, &limits, &ArchiveFilter::default());
    let mut there: Vec<String> = fs::read_dir(&folder)
        .expect("the folder")
        .map(|e| {
            e.expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    there.sort();
    match unpacked {
        Ok(files) => {
            assert_eq!(there, ["file", "out"], "more than the wanted folder");
            let mut found = Vec::new();
            walk(&out, "", &mut found);
            found.sort();
            let rendered: Vec<String> = files.iter().map(|f| f.path.clone()).collect();
            assert_eq!(found, rendered, "other files than it tells");
            let members = listed.expect("what can be unpacked can be listed");
            assert_eq!(
                members.iter().filter(|m| !m.is_folder).count(),
                rendered.len()
            );
            true
        }
        Err(_) => {
            assert_eq!(there, ["file"], "something is left of a refused archive");
            false
        }
    }
}

fn walk(folder: &Path, at: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("a UTF-8 name");
        let path = format!("{at}{name}");
        let kind = entry.file_type().expect("a type");
        assert!(kind.is_dir() || kind.is_file(), "{path} is {kind:?}");
        if kind.is_dir() {
            walk(&entry.path(), &format!("{path}/"), found)
        } else {
            found.push(path)
        }
    }
}
