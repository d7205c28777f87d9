//! Discs that winimg makes: the answer CD and payload CDs (ISO 9660 with Joliet), and the overlay
//! that lets an install medium boot without its key prompt.
//!
//! Refuses to copy or change an install medium. The `udf` module reads media.

mod eltorito;
mod layout;
mod names;
mod noprompt;
mod qcow2;
mod record;
mod tree;
mod write;

use std::path::{Path, PathBuf};

pub use eltorito::{BootCatalog, BootEntry, BootPlatform};
pub use noprompt::{BootMedium, copy_without_prompt, overlay_without_prompt};
pub use tree::{DiscSource, DiscTree};
pub use write::write;

/// A CD medium as a machine gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CdImage {
    pub file: PathBuf,
    /// `raw` for an ISO, `qcow2` for an overlay.
    pub format: &'static str,
    /// True if the firmware's "Press any key" prompt has to be answered.
    pub prompts: bool,
}

impl CdImage {
    /// Uses the ISO unchanged. It boots without a prompt: under BIOS the medium asks for a key only
    /// when a bootable hard disk exists, and the disk of a new build is blank.
    pub fn raw(iso: &Path) -> Self {
        Self {
            file: iso.to_owned(),
            format: "raw",
            prompts: false,
        }
    }
}
