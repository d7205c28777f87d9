//! Pages of a page blob with data. Pure.

use std::ops::Range;

/// Size of a page in bytes; ranges are multiples of it (Azure Storage: understanding page blobs).
pub const PAGE: u64 = 512;
/// Maximum run of zeros in bytes that is sent along: a new request would take longer.
const GAP: u64 = 64 << 10;

/// Finds the runs of whole pages with data. The bytes are at offset `start` of the blob.
pub fn with_data(bytes: &[u8], start: u64) -> Vec<Range<u64>> {
    let pages = bytes.chunks(PAGE as usize).zip(0..);
    let held = pages.filter(|(page, _)| page.iter().any(|byte| *byte != 0));
    let mut runs: Vec<Range<u64>> = Vec::new();
    for (_, number) in held {
        let page = start + number * PAGE..start + (number + 1) * PAGE;
        match runs.last_mut() {
            Some(last) if page.start - last.end < GAP => last.end = page.end,
            _ => runs.push(page),
        }
    }
    runs
}

/// Page ranges that a blob already has, in order.
#[derive(Debug, Default)]
pub struct PageSet(Vec<Range<u64>>);

impl PageSet {
    /// Creates the set from the service's list, where ranges may be adjacent.
    pub fn new(mut listed: Vec<Range<u64>>) -> Self {
        listed.sort_by_key(|range| range.start);
        let mut all: Vec<Range<u64>> = Vec::new();
        for range in listed {
            match all.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => all.push(range),
            }
        }
        Self(all)
    }

    /// Returns true if the whole run is there.
    pub fn has(&self, run: &Range<u64>) -> bool {
        let after = self.0.partition_point(|range| range.start <= run.start);
        let before = after.checked_sub(1).and_then(|at| self.0.get(at));
        before.is_some_and(|range| range.end >= run.end)
    }

    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_zeros_are_left_out_where_a_request_takes_longer_than_they_do() {
        let mut bytes = vec![0; 1 << 20];
        assert!(with_data(&bytes, 0).is_empty());
        bytes[0] = 1;
        bytes[3 * 512 + 511] = 1;
        bytes[512 << 10] = 1;
        bytes[(1 << 20) - 1] = 1;
        let (start, kib) = (4 << 20, 1 << 10);
        let expected = [
            start..start + 2 * kib,
            start + 512 * kib..start + 512 * kib + 512,
            start + 1024 * kib - 512..start + 1024 * kib,
        ];
        assert_eq!(with_data(&bytes, start), expected);
    }

    #[test]
    fn a_run_is_there_if_all_of_it_is() {
        let there = PageSet::new(vec![1024..2048, 0..1024, 4096..8192]);
        for (run, expected) in [
            (0..2048, true),
            (512..1536, true),
            (1536..2560, false),
            (2048..2560, false),
            (4096..8192, true),
            (8192..8704, false),
        ] {
            assert_eq!(there.has(&run), expected, "{run:?}");
        }
        assert_eq!(there.bytes(), 6144);
    }
}
