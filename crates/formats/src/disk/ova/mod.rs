//! Reads OVAs: the members of the tar, and the disks inside.
//!
//! Nothing is unpacked; a member is a window of the file. [`OvaFile::check`] compares the manifest,
//! the descriptor and the disks with each other, like vCenter and ovftool before an import.

mod descriptor;
mod manifest;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::vmdk::stream::StreamVmdk;
use super::{Disk, FormatMark, ImageFormat, NamedDisk, OpenedImage, RawDisk};
use descriptor::OvfDescriptor;
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;

pub(super) const FORMAT: ImageFormat = ImageFormat {
    name: "OVA",
    family: "OVA",
    mark: FormatMark::Beginning(|ends| ends.has(257, b"ustar")),
    open: |image, cancel| {
        let disks = OvaFile::open(image.file)?.check(cancel)?;
        let has_several = disks.len() > 1;
        let named = disks
            .into_iter()
            .map(|(name, disk)| -> NamedDisk { (has_several.then_some(name), Box::new(disk)) });
        Ok(OpenedImage::InPlace(named.collect()))
    },
    to_qemu: |_, _| Ok(None),
    to_node: Some(|file, _| {
        let ova = OvaFile::open(file)?;
        let disk = ova.find_member("vmdk")?;
        let file = json!({"driver": "file", "filename": file});
        let window = json!({
            "driver": "raw", "offset": disk.offset, "size": disk.size, "file": file
        });
        Ok(json!({"driver": "vmdk", "file": window}))
    }),
};

/// A member of the tar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OvaMember {
    pub name: String,
    /// Offset of its bytes in the file.
    pub offset: u64,
    pub size: u64,
}

impl OvaMember {
    /// Returns the name without the `./` that `tar` writes for files of the current folder.
    fn plain_name(&self) -> &str {
        self.name.strip_prefix("./").unwrap_or(&self.name)
    }
}

/// An OVA with its list of members.
#[derive(Debug)]
pub struct OvaFile {
    path: PathBuf,
    pub members: Vec<OvaMember>,
}

impl OvaFile {
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        let mut archive = tar::Archive::new(file);
        let mut members = Vec::new();
        let entries = archive
            .entries_with_seek()
            .map_err(|e| Error::io("read the tar of", path, e))?;
        for entry in entries {
            let entry = entry.map_err(|e| Error::io("read the tar of", path, e))?;
            members.push(OvaMember {
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

    /// Finds the first member with a name that ends in `.extension`.
    pub fn find_member(&self, extension: &str) -> Result<&OvaMember> {
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

    /// Opens the window of a member's bytes in the file.
    pub fn open_window(&self, member: &OvaMember) -> Result<RawDisk> {
        RawDisk::open(&self.path)?.into_window(member.offset, member.size)
    }

    /// Reads the text of a small member.
    pub fn read_text(&self, member: &OvaMember) -> Result<String> {
        const LIMIT: u64 = 4 << 20;
        let name = format!("{} in {}", member.name, self.path.display());
        if member.size > LIMIT {
            return Err(Error::failed(format!("{name} has {} bytes", member.size)));
        }
        let mut bytes = vec![0; member.size as usize];
        self.open_window(member)?.read_at(0, &mut bytes)?;
        String::from_utf8(bytes).map_err(|_| Error::failed(format!("{name} is not UTF-8")))
    }

    /// Returns all disks with the names of their members, after checking the package: the place of
    /// the descriptor, digests, the files in the descriptor, their sizes, the disks' capacities.
    /// Reports all problems of its content at once.
    pub fn check(&self, cancel: &Cancel) -> Result<Vec<(String, StreamVmdk)>> {
        let path = self.path.display();
        let Some(descriptor) = self.members.iter().find(|m| m.name.ends_with(".ovf")) else {
            return Err(Error::failed(format!(
                "{path} is a tar archive but not an OVA: it has no .ovf"
            ))
            .lines(self.members.iter().map(|m| &m.name))
            .cure("unpack it, and pass the disk that is in it"));
        };
        self.check_order(descriptor)?;
        let mut package = OvaCheck {
            ova: self,
            complaints: Vec::new(),
        };
        let descriptor = package.parse_descriptor();
        package.check_manifest(descriptor.as_ref(), cancel)?;
        let disks = match &descriptor {
            Some(descriptor) => package.check_disks(descriptor)?,
            None => Vec::new(),
        };
        if package.complaints.is_empty() {
            return Ok(disks);
        }
        Err(Error::failed(format!("{path} is not a valid OVA"))
            .lines(package.complaints)
            .cure("copy it again from its source, or recreate it: vCenter would refuse it, too"))
    }

    /// Checks that the descriptor is the first member (DMTF, DSP0243, "Distribution as a single
    /// file"): vCenter and ovftool read it before the disks arrive.
    fn check_order(&self, descriptor: &OvaMember) -> Result<()> {
        match self.members.first() {
            Some(first) if first != descriptor => {
                let name = descriptor.plain_name();
                let fact = format!(
                    "{} does not begin with its OVF descriptor",
                    self.path.display()
                );
                Err(Error::failed(fact)
                    .expected(format!("{name} as the first file, as DSP0243 requires"))
                    .found(&first.name)
                    .cure(format!(
                        "unpack it, and pack it again with the descriptor first, or vCenter and \
                         ovftool refuse it: tar --format=ustar -cf new.ova {name} FILES"
                    )))
            }
            _ => Ok(()),
        }
    }

    fn find_by_name(&self, name: &str) -> Option<&OvaMember> {
        self.members
            .iter()
            .find(|member| member.plain_name() == name)
    }

    /// Opens the disk and walks all its markers.
    pub fn open_disk(&self) -> Result<StreamVmdk> {
        StreamVmdk::open(self.open_window(self.find_member("vmdk")?)?)
    }
}

/// A package under check.
struct OvaCheck<'o> {
    ova: &'o OvaFile,
    complaints: Vec<String>,
}

impl OvaCheck<'_> {
    fn report(&mut self, complaint: impl Into<String>) {
        self.complaints.push(complaint.into());
    }

    fn read_text(&mut self, extension: &str) -> Option<String> {
        let member = self.ova.find_member(extension).ok()?;
        match self.ova.read_text(member) {
            Ok(text) => Some(text),
            Err(error) => {
                self.report(error.problem().in_one_line());
                None
            }
        }
    }

    fn parse_descriptor(&mut self) -> Option<OvfDescriptor> {
        match OvfDescriptor::parse(&self.read_text("ovf")?) {
            Ok(descriptor) => Some(descriptor),
            Err(why) => {
                self.report(why);
                None
            }
        }
    }

    /// Checks the manifest, which is optional but must list the descriptor and each file in it.
    fn check_manifest(
        &mut self,
        descriptor: Option<&OvfDescriptor>,
        cancel: &Cancel,
    ) -> Result<()> {
        let Some(text) = self.read_text("mf") else {
            return Ok(());
        };
        let lines = match manifest::parse(&text) {
            Ok(lines) => lines,
            Err(why) => {
                self.report(why);
                return Ok(());
            }
        };
        for line in &lines {
            let name = &line.name;
            let Some(member) = self.ova.find_by_name(name) else {
                self.report(format!(
                    "the manifest lists {name}, which is not in the archive"
                ));
                continue;
            };
            let window = match self.ova.open_window(member) {
                Ok(window) => window,
                Err(error) => {
                    self.report(format!("{name}: {}", error.fact()));
                    continue;
                }
            };
            let found = manifest::compute_digest(line.kind, &window, cancel)?;
            if found != line.hex {
                let expected = &line.hex;
                self.report(format!(
                    "{name} does not match its digest in the manifest: {expected} expected, \
                     {found} found"
                ));
            }
        }
        let listed: BTreeSet<&str> = lines.iter().map(|line| line.name.as_str()).collect();
        let own = self
            .ova
            .members
            .iter()
            .map(OvaMember::plain_name)
            .filter(|name| name.ends_with(".ovf"));
        let described = descriptor
            .iter()
            .flat_map(|d| &d.files)
            .filter_map(|file| self.ova.of_href(&file.href))
            .map(OvaMember::plain_name);
        let needed: BTreeSet<String> = own.chain(described).map(String::from).collect();
        for name in needed.iter().filter(|name| !listed.contains(name.as_str())) {
            self.report(format!("the manifest does not list {name}"));
        }
        Ok(())
    }

    fn check_disks(&mut self, descriptor: &OvfDescriptor) -> Result<Vec<(String, StreamVmdk)>> {
        for file in &descriptor.files {
            let href = &file.href;
            match self.ova.of_href(href) {
                _ if file.packed.is_some() => {
                    let why = file.packed.unwrap_or_default();
                    self.report(format!("{href} {why}, which is not supported"));
                }
                None => self.report(format!(
                    "the descriptor lists {href}, which is not in the archive"
                )),
                Some(member) if file.size.is_some_and(|size| size != member.size) => {
                    let (said, size) = (file.size.unwrap_or_default(), member.size);
                    self.report(format!(
                        "{href} has {size} bytes, but {said} in the descriptor"
                    ));
                }
                Some(_) => {}
            }
        }
        for id in &descriptor.used {
            if descriptor.disks.iter().any(|disk| disk.id == *id) {
                continue;
            }
            self.report(format!(
                "the machine uses the disk {id}, which the descriptor does not describe"
            ));
        }
        let mut disks = Vec::new();
        let mut seen = BTreeSet::new();
        for disk in &descriptor.disks {
            let id = &disk.id;
            let Some(reference) = &disk.file else {
                self.report(format!(
                    "the disk {id} has no file: empty disks are not supported"
                ));
                continue;
            };
            let Some(file) = descriptor.files.iter().find(|file| file.id == *reference) else {
                self.report(format!(
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
            let opened = self.ova.open_window(member).and_then(StreamVmdk::open);
            match opened {
                Ok(vmdk) => {
                    let len = vmdk.len();
                    if let Some(capacity) = disk.capacity.filter(|c| !c.is_of(len)) {
                        let said = capacity.number.saturating_mul(capacity.unit);
                        let name = &member.name;
                        self.report(format!(
                            "{name} is a disk of {len} bytes, but {said} in the descriptor"
                        ));
                    }
                    disks.push((member.plain_name().to_owned(), vmdk));
                }
                Err(error) => self.report(error.problem().in_one_line()),
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
                self.report(format!(
                    "{name} is in the archive but not in the descriptor"
                ));
            }
        }
        if disks.is_empty() && self.complaints.is_empty() {
            self.report("the descriptor describes no disk");
        }
        Ok(disks)
    }
}

impl OvaFile {
    /// Finds the member with a descriptor's href, in which spaces may be written as `%20`.
    fn of_href(&self, href: &str) -> Option<&OvaMember> {
        self.find_by_name(href)
            .or_else(|| self.find_by_name(&href.replace("%20", " ")))
    }
}
