//! OVAs that are read: the tar's members, and the disks inside.
//!
//! Nothing is unpacked; a member is a window of the file. [`Ova::checked`] compares the manifest, the descriptor and the
//! disks with each other, as vCenter and ovftool do before they take a package.

mod descriptor;
mod manifest;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::vmdk::StreamVmdk;
use super::{Disk, RawDisk};
use descriptor::Descriptor;
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;

/// A member of the tar, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    /// Where its bytes begin in the file.
    pub offset: u64,
    pub size: u64,
}

impl Member {
    /// Without the `./` that `tar` writes for files of the current folder.
    fn plain_name(&self) -> &str {
        self.name.strip_prefix("./").unwrap_or(&self.name)
    }
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

    /// All disks with the names of their members, after everything that the package says of itself was compared with what
    /// is in it: digests, the files that the descriptor names, their sizes, the disks' capacities. All complaints at once.
    pub fn checked(&self, cancel: &Cancel) -> Result<Vec<(String, StreamVmdk)>> {
        let path = self.path.display();
        if !self.members.iter().any(|m| m.name.ends_with(".ovf")) {
            return Err(Error::failed(format!(
                "{path} is a tar archive, but not an OVA: it has no .ovf"
            ))
            .lines(self.members.iter().map(|m| &m.name))
            .cure("unpack it, and give the disk that is in it"));
        }
        let mut package = Package {
            ova: self,
            complaints: Vec::new(),
        };
        let descriptor = package.descriptor();
        package.check_manifest(descriptor.as_ref(), cancel)?;
        let disks = match &descriptor {
            Some(descriptor) => package.disks(descriptor)?,
            None => Vec::new(),
        };
        if package.complaints.is_empty() {
            return Ok(disks);
        }
        Err(Error::failed(format!("{path} is not a sound OVA"))
            .lines(package.complaints)
            .cure(
                "copy it again from where it was made, or make it again: vCenter refuses it, too",
            ))
    }

    fn named(&self, name: &str) -> Option<&Member> {
        let mut members = self.members.iter();
        members.find(|member| member.plain_name() == name)
    }

    /// The disk, all its markers walked.
    pub fn disk(&self) -> Result<StreamVmdk> {
        StreamVmdk::open(self.window(self.member("vmdk")?)?)
    }
}

/// A package while it is compared with itself.
struct Package<'o> {
    ova: &'o Ova,
    complaints: Vec<String>,
}

impl Package<'_> {
    fn complain(&mut self, complaint: impl Into<String>) {
        self.complaints.push(complaint.into());
    }

    fn text(&mut self, extension: &str) -> Option<String> {
        let member = self.ova.member(extension).ok()?;
        match self.ova.text(member) {
            Ok(text) => Some(text),
            Err(error) => {
                self.complain(error.problem().in_one_line());
                None
            }
        }
    }

    fn descriptor(&mut self) -> Option<Descriptor> {
        match Descriptor::parse(&self.text("ovf")?) {
            Ok(descriptor) => Some(descriptor),
            Err(why) => {
                self.complain(why);
                None
            }
        }
    }

    /// A package need not have a manifest. One that has must list the descriptor and each file that it names.
    fn check_manifest(&mut self, descriptor: Option<&Descriptor>, cancel: &Cancel) -> Result<()> {
        let Some(text) = self.text("mf") else {
            return Ok(());
        };
        let lines = match manifest::parse(&text) {
            Ok(lines) => lines,
            Err(why) => {
                self.complain(why);
                return Ok(());
            }
        };
        for line in &lines {
            let name = &line.name;
            let Some(member) = self.ova.named(name) else {
                self.complain(format!(
                    "the manifest names {name}, which is not in the archive"
                ));
                continue;
            };
            let window = match self.ova.window(member) {
                Ok(window) => window,
                Err(error) => {
                    self.complain(format!("{name}: {}", error.fact()));
                    continue;
                }
            };
            let found = manifest::digest(line.kind, &window, cancel)?;
            if found != line.hex {
                let expected = &line.hex;
                self.complain(format!(
                    "{name} has another digest than the manifest says: {expected} expected, {found} found"
                ));
            }
        }
        let listed: BTreeSet<&str> = lines.iter().map(|line| line.name.as_str()).collect();
        let own = self.ova.members.iter().map(Member::plain_name);
        let own = own.filter(|name| name.ends_with(".ovf")).map(String::from);
        let named = descriptor.iter().flat_map(|d| &d.files);
        let named = named.filter_map(|file| self.ova.of_href(&file.href));
        let named = named.map(|member| member.plain_name().to_owned());
        let needed: BTreeSet<String> = own.chain(named).collect();
        for name in needed.iter().filter(|name| !listed.contains(name.as_str())) {
            self.complain(format!("the manifest does not list {name}"));
        }
        Ok(())
    }

    fn disks(&mut self, descriptor: &Descriptor) -> Result<Vec<(String, StreamVmdk)>> {
        for file in &descriptor.files {
            let href = &file.href;
            match self.ova.of_href(href) {
                _ if file.packed.is_some() => {
                    let why = file.packed.unwrap_or_default();
                    self.complain(format!("{href} {why}, which is not read"));
                }
                None => self.complain(format!(
                    "the descriptor names {href}, which is not in the archive"
                )),
                Some(member) if file.size.is_some_and(|size| size != member.size) => {
                    let (said, size) = (file.size.unwrap_or_default(), member.size);
                    self.complain(format!(
                        "{href} has {size} bytes, the descriptor says {said}"
                    ));
                }
                Some(_) => {}
            }
        }
        let has = |id: &String| descriptor.disks.iter().any(|disk| disk.id == *id);
        for id in descriptor.used.iter().filter(|id| !has(id)) {
            self.complain(format!(
                "the machine uses the disk {id}, which the descriptor does not describe"
            ));
        }
        let mut disks = Vec::new();
        let mut seen = BTreeSet::new();
        for disk in &descriptor.disks {
            let id = &disk.id;
            let Some(reference) = &disk.file else {
                self.complain(format!(
                    "the disk {id} has no file: an empty disk is not read"
                ));
                continue;
            };
            let Some(file) = descriptor.files.iter().find(|file| file.id == *reference) else {
                self.complain(format!(
                    "the disk {id} is in the file {reference}, which is not described"
                ));
                continue;
            };
            let Some(member) = self
                .ova
                .of_href(&file.href)
                .filter(|_| file.packed.is_none())
            else {
                continue;
            };
            seen.insert(member.name.as_str());
            let opened = self.ova.window(member).and_then(StreamVmdk::open);
            match opened {
                Ok(vmdk) => {
                    let len = vmdk.len();
                    if let Some(capacity) = disk.capacity.filter(|c| !c.is_of(len)) {
                        let said = capacity.number.saturating_mul(capacity.unit);
                        let name = &member.name;
                        self.complain(format!(
                            "{name} is a disk of {len} bytes, the descriptor says {said}"
                        ));
                    }
                    disks.push((member.plain_name().to_owned(), vmdk));
                }
                Err(error) => self.complain(error.problem().in_one_line()),
            }
        }
        let vmdks = self
            .ova
            .members
            .iter()
            .filter(|m| m.name.ends_with(".vmdk"));
        for extra in vmdks.filter(|m| !seen.contains(m.name.as_str())) {
            let name = &extra.name;
            if descriptor
                .files
                .iter()
                .all(|file| file.href != extra.plain_name())
            {
                self.complain(format!(
                    "{name} is in the archive, but not in the descriptor"
                ));
            }
        }
        if disks.is_empty() && self.complaints.is_empty() {
            self.complain("the descriptor describes no disk");
        }
        Ok(disks)
    }
}

impl Ova {
    /// The member that a descriptor names, where blanks may be written as `%20`.
    fn of_href(&self, href: &str) -> Option<&Member> {
        self.named(href)
            .or_else(|| self.named(&href.replace("%20", " ")))
    }
}
