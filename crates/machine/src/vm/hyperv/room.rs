//! Room on the host for the machine's disk, looked at before the machine is made.
//!
//! Later Hyper-V itself pauses a machine whose disk finds no room, and the watch tells that. Deletes nothing to make room.

use std::path::Path;

use winimg_base::error::{Error, Kind, Result};

/// Bytes that have to be free in any case.
const FLOOR: u64 = 512 << 20;

/// Refuses a machine whose disk could not even begin to grow. `wanted`: what the build knows that it needs.
pub fn check(folder: &Path, wanted: u64) -> Result<()> {
    let free = fs4::available_space(folder).map_err(|e| Error::io("look at", folder, e))?;
    let needed = wanted.max(FLOOR);
    if free >= needed {
        return Ok(());
    }
    Err(
        Error::new(Kind::Host, "no room on this host for the machine's disk")
            .at(folder.display())
            .expected(format!("{} MiB free", needed >> 20))
            .found(format!("{} MiB free", free >> 20))
            .cure("make room there (`winimg cache prune` removes what builds no longer need), or put the cache elsewhere"),
    )
}
