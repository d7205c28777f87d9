//! Checks that the outputs fit, before an hour of work is lost to a full disk.
//!
//! An estimate, since the compression ratio is unknown: fails if the outputs cannot fit, and warns
//! if they may not.

use std::path::Path;

use super::format::OutputSize;
use super::{add_disks, find_spec};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Sink;
use winimg_formats::disk::Disk;
use winimg_recipe::Outputs;

/// The minimum and maximum size of the outputs in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeEstimate {
    pub least: u64,
    pub most: u64,
}

/// Estimates the size of the outputs. `data`: the source's allocated bytes.
///
/// Flat files, and those in blocks, are sparse and take about that size. Compressed ones take from
/// 2/5 of it (about half for a Windows image) to slightly more than all.
pub fn estimate(data: u64, outputs: &Outputs) -> SizeEstimate {
    let mut estimate = SizeEstimate {
        least: 0,
        most: 16 << 20,
    };
    for format in add_disks(outputs).formats() {
        let (least, most) = match find_spec(format).size {
            OutputSize::Flat => (data, data),
            OutputSize::Packed => (data / 5 * 2, data + data / 64),
            OutputSize::Small => (0, 0),
        };
        estimate.least += least;
        estimate.most += most;
    }
    estimate
}

/// Compares the estimate with the free space in `directory`.
pub fn require(
    directory: &Path,
    disk: &dyn Disk,
    outputs: &Outputs,
    sink: &dyn Sink,
) -> Result<()> {
    let data: u64 = disk.data()?.iter().map(|r| r.end - r.start).sum();
    let estimate = estimate(data, outputs);
    let free = fs4::available_space(directory).map_err(|e| Error::io("look at", directory, e))?;
    tracing::debug!(
        directory = %directory.display(),
        data,
        least = estimate.least,
        most = estimate.most,
        free,
        "free space"
    );
    if free < estimate.least {
        return Err(Error::new(
            Kind::Host,
            format!(
                "{} has not enough free space for the outputs",
                directory.display()
            ),
        )
        .expected(format!("at least {} free", format_mib(estimate.least)))
        .found(format!("{} free", format_mib(free)))
        .cure("free some space, choose another --output, or fewer formats"));
    }
    if free < estimate.most {
        sink.warn(format!(
            "{} has {} free; the outputs may take up to {}",
            directory.display(),
            format_mib(free),
            format_mib(estimate.most)
        ));
    }
    Ok(())
}

fn format_mib(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use winimg_recipe::OutputFormat;

    #[test]
    fn flat_files_count_whole_and_packed_ones_by_their_range() {
        let outputs = Outputs::from([OutputFormat::Raw, OutputFormat::Vhd, OutputFormat::Qcow2]);
        let gib = 1 << 30;
        let e = estimate(5 * gib, &outputs);
        assert_eq!(e.least, 12 * gib);
        assert_eq!(e.most, 15 * gib + 5 * gib / 64 + (16 << 20));
    }
}
