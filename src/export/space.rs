//! Whether the outputs fit, before an hour of work is lost to a full disk.
//!
//! An estimate: what deflate saves is not known beforehand. Refuses only what can't fit, and warns of what may not.

use std::path::Path;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Sink;
use winimg_formats::disk::Disk;
use winimg_recipe::recipe::Outputs;

/// Bytes that the outputs take: at least, and at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    pub least: u64,
    pub most: u64,
}

/// `data` is the source's allocated bytes. Flat files take that, and so do those in blocks, where they can have holes; compressed ones from 2/5 of it (a Windows image takes
/// about half) to a little more than all.
pub fn estimate(data: u64, outputs: &Outputs) -> Estimate {
    let outputs = outputs.with_disks();
    let count = |asked: bool| u64::from(asked);
    let flat = [
        outputs.raw,
        outputs.vhd,
        outputs.vhd_dynamic,
        outputs.vhdx,
        outputs.vhdx_fixed,
        outputs.vmdk_flat,
        outputs.vma,
        outputs.box_hyperv.is_some(),
    ];
    let packed = [
        outputs.ova.is_some(),
        outputs.vmdk,
        outputs.qcow2,
        outputs.box_libvirt.is_some(),
        outputs.box_virtualbox.is_some(),
        outputs.container_disk,
    ];
    let flat: u64 = flat.into_iter().map(count).sum();
    let packed: u64 = packed.into_iter().map(count).sum();
    Estimate {
        least: flat * data + packed * (data / 5 * 2),
        most: flat * data + packed * (data + data / 64) + (16 << 20),
    }
}

/// Compares the estimate with what is free in `directory`.
pub fn require(
    directory: &Path,
    disk: &dyn Disk,
    outputs: &Outputs,
    sink: &dyn Sink,
) -> Result<()> {
    let data: u64 = disk.data()?.iter().map(|r| r.end - r.start).sum();
    let estimate = estimate(data, outputs);
    let free = fs4::available_space(directory).map_err(|e| Error::io("look at", directory, e))?;
    tracing::debug!(directory = %directory.display(), data, least = estimate.least, most = estimate.most, free, "free space");
    let mib = |bytes: u64| format!("{} MiB", bytes.div_ceil(1 << 20));
    if free < estimate.least {
        return Err(Error::new(
            Kind::Host,
            format!(
                "{} has not enough room for the outputs",
                directory.display()
            ),
        )
        .expected(format!("at least {} free", mib(estimate.least)))
        .found(format!("{} free", mib(free)))
        .cure("make room, choose another --output, or ask for fewer formats"));
    }
    if free < estimate.most {
        sink.warn(format!(
            "{} has {} free; the outputs may take up to {}",
            directory.display(),
            mib(free),
            mib(estimate.most)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_files_count_whole_and_packed_ones_by_their_range() {
        let outputs = Outputs {
            raw: true,
            vhd: true,
            qcow2: true,
            ..Outputs::default()
        };
        let gib = 1 << 30;
        let e = estimate(5 * gib, &outputs);
        assert_eq!(e.least, 12 * gib);
        assert_eq!(e.most, 15 * gib + 5 * gib / 64 + (16 << 20));
    }
}
