//! Which pages of a page blob hold data. Pure.

use std::ops::Range;

/// Bytes of a page, and what ranges of pages are whole numbers of (Azure Storage: understanding page blobs).
pub const PAGE: u64 = 512;
/// Bytes of zeros between two runs of data that are sent along: a request takes longer than they do.
const GAP: u64 = 64 << 10;

/// The runs of pages with data in these bytes, whose first one lies at `start` of the blob. Whole pages.
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

/// Ranges of pages that a blob has already, in order.
#[derive(Debug, Default)]
pub struct There(Vec<Range<u64>>);

impl There {
    /// Ranges as the service lists them: two of them may touch each other.
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

    /// Whether all of a run is there.
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
        let there = There::new(vec![1024..2048, 0..1024, 4096..8192]);
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
