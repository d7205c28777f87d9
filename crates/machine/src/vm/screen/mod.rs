//! Screens for comparison: a grid of checksums, so that a blinking cursor is not a change, and the
//! most common colour.
//!
//! Recognizes neither text nor pictures; only measures differences.

pub mod ocr;
pub mod pictures;
mod png;

use std::collections::BTreeMap;

use flate2::Crc;

pub use self::png::encode_png;

/// Width and height of a cell in pixels. A text cursor of 9 by 16 touches at most two cells, a
/// dialog's caret three.
const CELL_SIZE: usize = 16;

/// Cells that may differ between two samples of an unchanged screen.
pub const CURSOR_CELLS: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenGrid {
    width: usize,
    height: usize,
    cells: Vec<u32>,
    /// Most common pixel colour, and its share in thousandths.
    colour: ([u8; 3], usize),
}

/// Backgrounds of Windows' stop errors: Server 2016 to 2022, 2012 R2, and the older text screens.
/// Server 2025 has a black one, which is not specific.
const STOP_BLUES: [[u8; 3]; 3] = [[0x00, 0x78, 0xd7], [0x11, 0x73, 0xaa], [0x00, 0x00, 0x80]];

impl ScreenGrid {
    /// Parses a binary PPM of 8 bits per channel, the default format of QEMU's `screendump`. `None`
    /// if it is invalid or truncated.
    pub fn from_ppm(bytes: &[u8]) -> Option<Self> {
        let (width, height, pixels) = split_ppm(bytes)?;
        let columns = width.div_ceil(CELL_SIZE);
        let rows = height.div_ceil(CELL_SIZE);
        let mut sums: Vec<Crc> = (0..columns * rows).map(|_| Crc::new()).collect();
        for (y, line) in pixels.chunks_exact(width * 3).enumerate() {
            for (x, part) in line.chunks(CELL_SIZE * 3).enumerate() {
                sums[y / CELL_SIZE * columns + x].update(part);
            }
        }
        let cells = sums.iter().map(Crc::sum);
        Some(Self {
            width,
            height,
            cells: cells.collect(),
            colour: find_most_common_color(pixels),
        })
    }

    /// Returns true if the screen has almost only one colour, so that it shows no dialog.
    pub fn is_blank(&self) -> bool {
        self.colour.1 >= 998
    }

    /// Returns true if the background has the colour of a stop error. Only a hint: pages of Setup
    /// may have it too.
    pub fn is_stop_blue(&self) -> bool {
        let (colour, share) = self.colour;
        (600..998).contains(&share)
            && STOP_BLUES
                .iter()
                .any(|blue| colour.iter().zip(blue).all(|(a, b)| a.abs_diff(*b) <= 8))
    }

    /// Returns the number of different cells; all cells if the resolution differs.
    pub fn count_changed(&self, other: &Self) -> usize {
        if (self.width, self.height) != (other.width, other.height) {
            return self.cells.len().max(other.cells.len());
        }
        let pairs = self.cells.iter().zip(&other.cells);
        pairs.filter(|(a, b)| a != b).count()
    }

    /// Returns the positions and checksums of the cells that differ from a screen of the same size.
    pub fn iter_changed(&self, other: &Self) -> impl Iterator<Item = (usize, u32)> {
        let pairs = self.cells.iter().zip(&other.cells).enumerate();
        pairs.filter_map(|(place, (here, there))| (here != there).then_some((place, *here)))
    }

    /// Returns true if the screens are equal apart from a cursor.
    pub fn is_unchanged(&self, other: &Self) -> bool {
        self.count_changed(other) <= CURSOR_CELLS
    }

    /// Returns true if more than a twentieth of the screen differs, which is worth a picture.
    pub fn differs_widely(&self, other: &Self) -> bool {
        self.count_changed(other) * 20 > self.cells.len()
    }
}

/// Returns the most common colour and its share. Samples every seventh pixel: no pattern of a
/// screen has that period.
fn find_most_common_color(pixels: &[u8]) -> ([u8; 3], usize) {
    let mut counts: BTreeMap<[u8; 3], usize> = BTreeMap::new();
    let mut all = 0;
    for pixel in pixels.as_chunks::<3>().0.iter().step_by(7) {
        *counts.entry(*pixel).or_default() += 1;
        all += 1;
    }
    let most_common = counts.into_iter().max_by_key(|(_, count)| *count);
    most_common.map_or(([0; 3], 0), |(colour, count)| {
        (colour, count * 1000 / all.max(1))
    })
}

/// Returns width, height and pixels of a `P6` file.
pub fn split_ppm(bytes: &[u8]) -> Option<(usize, usize, &[u8])> {
    let (magic, rest) = split_word(bytes)?;
    let (width, rest) = split_word(rest)?;
    let (height, rest) = split_word(rest)?;
    let (depth, rest) = split_word(rest)?;
    if magic != b"P6" || depth != b"255" {
        return None;
    }
    let width: usize = std::str::from_utf8(width).ok()?.parse().ok()?;
    let height: usize = std::str::from_utf8(height).ok()?.parse().ok()?;
    if width == 0 || height == 0 || width > 16384 || height > 16384 {
        return None;
    }
    Some((width, height, rest.get(..width * height * 3)?))
}

/// Splits off the first word. Exactly one whitespace character ends the header, so only one is
/// skipped after the word.
fn split_word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = bytes.iter().position(|b| !b.is_ascii_whitespace())?;
    let end = start + bytes[start..].iter().position(u8::is_ascii_whitespace)?;
    Some((&bytes[start..end], &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A black text screen of 720 by 400 with white rectangles at the given places.
    fn screen(rectangles: &[(usize, usize, usize, usize)]) -> ScreenGrid {
        let mut ppm = b"P6\n720 400\n255\n".to_vec();
        for y in 0..400 {
            for x in 0..720 {
                let lit = rectangles
                    .iter()
                    .any(|&(l, t, w, h)| (l..l + w).contains(&x) && (t..t + h).contains(&y));
                ppm.extend([if lit { 255 } else { 0 }; 3]);
            }
        }
        ScreenGrid::from_ppm(&ppm).expect("a whole PPM")
    }

    #[test]
    fn a_cursor_anywhere_is_not_a_change_but_a_line_of_text_is() {
        let empty = screen(&[]);
        for column in 0..80 {
            let cursor = screen(&[(column * 9, 16 * 7, 9, 16)]);
            assert!(cursor.is_unchanged(&empty), "column {column}");
            assert!(cursor.count_changed(&empty) > 0, "column {column}");
        }
        let caret = screen(&[(333, 120, 2, 22)]);
        assert!(caret.is_unchanged(&empty));
        let line = screen(&[(0, 0, 90, 16)]);
        assert!(!line.is_unchanged(&empty));
        assert!(!line.differs_widely(&empty));
        let dialog = screen(&[(100, 100, 400, 200)]);
        assert!(dialog.differs_widely(&empty));
    }

    #[test]
    fn a_blank_screen_a_blue_one_and_one_with_a_box_differ() {
        let of = |back: [u8; 3], text: usize| {
            let mut ppm = b"P6\n640 480\n255\n".to_vec();
            for n in 0..640 * 480 {
                ppm.extend(if n % 100 < text { [255; 3] } else { back });
            }
            let screen = ScreenGrid::from_ppm(&ppm).expect("a whole PPM");
            (screen.is_blank(), screen.is_stop_blue())
        };
        assert_eq!(of([0; 3], 0), (true, false));
        assert_eq!(of([0, 0x78, 0xd7], 0), (true, false));
        assert_eq!(of([0, 0x78, 0xd4], 3), (false, true));
        assert_eq!(of([0, 0x78, 0xd7], 60), (false, false));
        assert_eq!(of([0x18, 0x00, 0x52], 3), (false, false));
    }

    #[test]
    fn another_resolution_is_another_screen_and_rubbish_is_none() {
        let empty = screen(&[]);
        let other = ScreenGrid::from_ppm(&[b"P6\n1 1\n255\n".as_slice(), &[0; 3]].concat());
        assert!(other.expect("one pixel").differs_widely(&empty));
        for bad in [
            &b"P5\n1 1\n255\n\0\0\0"[..],
            b"P6\n1 1\n255\n\0\0",
            b"P6\n0 1\n255\n",
            b"P6\n1",
            b"",
        ] {
            assert_eq!(ScreenGrid::from_ppm(bad), None, "{bad:?}");
        }
    }
}
