//! Discs that winimg makes: the answer CD and payload CDs (ISO 9660 with Joliet), and the overlay that lets an install
//! medium boot without its key prompt.
//!
//! Refuses to copy or change an install medium. Reading media is `udf`'s.

mod eltorito;
mod layout;
mod names;
mod noprompt;
mod qcow2;
mod record;
mod tree;
mod write;

use std::path::{Path, PathBuf};

pub use eltorito::{BootEntry, Catalog, Platform};
pub use noprompt::{NoPrompt, copy_without_prompt, without_prompt};
pub use tree::{Source, Tree};
pub use write::write;

/// A CD medium as a machine gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disc {
    pub file: PathBuf,
    /// `raw` for an ISO, `qcow2` for an overlay.
    pub format: &'static str,
    /// Whether the firmware's "Press any key" prompt has to be answered.
    pub prompts: bool,
}

impl Disc {
    /// The ISO as it is, which nothing stops from booting: under BIOS the medium asks for a key only when a bootable
    /// hard disk exists, and the disk of a new build is blank.
    pub fn raw(iso: &Path) -> Self {
        Self {
            file: iso.to_owned(),
            format: "raw",
            prompts: false,
        }
    }
}
