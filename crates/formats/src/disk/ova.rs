//! OVAs that are read: the tar's members, and the one disk inside.
//!
//! Nothing is unpacked; a member is a window of the file.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::vmdk::StreamVmdk;
use super::{Disk, RawDisk};
use winimg_base::error::{Error, Result};

/// A member of the tar, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    /// Where its bytes begin in the file.
    pub offset: u64,
    pub size: u64,
}

/// An OVA whose members were listed.
#[derive(Debug)]
pub struct Ova {
    path: PathBuf,
    pub members: Vec<Member>,
}

impl Ova {
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        let bad = |e| Error::io("read the tar of", path, e);
        let mut archive = tar::Archive::new(file);
        let mut members = Vec::new();
        for entry in archive.entries_with_seek().map_err(bad)? {
            let entry = entry.map_err(bad)?;
            members.push(Member {
                name: String::from_utf8_lossy(&entry.path_bytes()).into_owned(),
                offset: entry.raw_file_position(),
                size: entry.size(),
            });
        }
        Ok(Self {
            path: path.to_owned(),
            members,
        })
    }

    /// The first member whose name ends in `.extension`.
    pub fn member(&self, extension: &str) -> Result<&Member> {
        self.members
            .iter()
            .find(|m| m.name.rsplit('.').next() == Some(extension))
            .ok_or_else(|| {
                Error::failed(format!(
                    "{} has no .{extension} member",
                    self.path.display()
                ))
                .lines(self.members.iter().map(|m| &m.name))
            })
    }

    /// A member's bytes in the file.
    pub fn window(&self, member: &Member) -> Result<RawDisk> {
        RawDisk::open(&self.path)?.window(member.offset, member.size)
    }

    /// A small member's text.
    pub fn text(&self, member: &Member) -> Result<String> {
        const LIMIT: u64 = 4 << 20;
        let refused = |why: String| {
            Error::failed(format!("{} in {} {why}", member.name, self.path.display()))
        };
        if member.size > LIMIT {
            return Err(refused(format!("has {} bytes", member.size)));
        }
        let mut bytes = vec![0; member.size as usize];
        self.window(member)?.read_at(0, &mut bytes)?;
        String::from_utf8(bytes).map_err(|_| refused("is not UTF-8".into()))
    }

    /// The disk, all its markers walked.
    pub fn disk(&self) -> Result<StreamVmdk> {
        StreamVmdk::open(self.window(self.member("vmdk")?)?)
    }
}
