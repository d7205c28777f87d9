//! Screens as the judge compares them: a grid of checksums, so that a blinking cursor is not a change, and the colour that most of it has.
//!
//! Refuses to recognise text or pictures; it only says how much differs.

pub mod dialog;
pub mod ocr;
pub mod pictures;
mod png;

use std::collections::BTreeMap;

use flate2::Crc;

pub use self::png::png;

/// Pixels a cell is wide and high. A text cursor of 9 by 16 touches two cells at most, a dialog's caret three.
const CELL: usize = 16;

/// Cells that may differ between two looks at a screen that stands still.
pub const CURSOR_CELLS: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Screen {
    width: usize,
    height: usize,
    cells: Vec<u32>,
    /// The commonest colour of single pixels, and how many of a thousand have it.
    colour: ([u8; 3], usize),
}

/// Backgrounds of Windows' stop errors: Server 2016 to 2022, 2012 R2, and the text screens before. Server 2025's is black, which says nothing.
const STOP_BLUES: [[u8; 3]; 3] = [[0x00, 0x78, 0xd7], [0x11, 0x73, 0xaa], [0x00, 0x00, 0x80]];

impl Screen {
    /// From a binary PPM of 8 bits a channel, as QEMU's `screendump` writes it without a format. `None`: not one, or cut short.
    pub fn from_ppm(bytes: &[u8]) -> Option<Self> {
        let (width, height, pixels) = split_ppm(bytes)?;
        let columns = width.div_ceil(CELL);
        let rows = height.div_ceil(CELL);
        let mut sums: Vec<Crc> = (0..columns * rows).map(|_| Crc::new()).collect();
        for (y, line) in pixels.chunks_exact(width * 3).enumerate() {
            for (x, part) in line.chunks(CELL * 3).enumerate() {
                sums[y / CELL * columns + x].update(part);
            }
        }
        let cells = sums.iter().map(Crc::sum);
        Some(Self {
            width,
            height,
            cells: cells.collect(),
            colour: commonest(pixels),
        })
    }

    /// One colour and next to nothing else: no box, whatever Windows does behind it.
    pub fn is_blank(&self) -> bool {
        self.colour.1 >= 998
    }

    /// The colour of a stop error with something on it. Pages of Setup may have it too: a hint, no proof.
    pub fn is_stop_blue(&self) -> bool {
        let near = |a: u8, b: u8| a.abs_diff(b) <= 8;
        let (colour, share) = self.colour;
        let blue = |stop: &[u8; 3]| colour.iter().zip(stop).all(|(a, b)| near(*a, *b));
        (600..998).contains(&share) && STOP_BLUES.iter().any(blue)
    }

    /// How many cells differ; all of them when the resolution does.
    pub fn changed(&self, other: &Self) -> usize {
        if (self.width, self.height) != (other.width, other.height) {
            return self.cells.len().max(other.cells.len());
        }
        let pairs = self.cells.iter().zip(&other.cells);
        pairs.filter(|(a, b)| a != b).count()
    }

    /// The cells that differ from those of another screen of the same size: their places and what they show here.
    pub fn differing(&self, other: &Self) -> impl Iterator<Item = (usize, u32)> {
        let pairs = self.cells.iter().zip(&other.cells).enumerate();
        pairs.filter_map(|(place, (here, there))| (here != there).then_some((place, *here)))
    }

    /// The same but for a cursor.
    pub fn stands(&self, other: &Self) -> bool {
        self.changed(other) <= CURSOR_CELLS
    }

    /// A twentieth of the screen is new: worth a picture.
    pub fn is_another(&self, other: &Self) -> bool {
        self.changed(other) * 20 > self.cells.len()
    }
}

/// Looks at every seventh pixel: no screen's pattern has that width everywhere.
fn commonest(pixels: &[u8]) -> ([u8; 3], usize) {
    let mut counts: BTreeMap<[u8; 3], usize> = BTreeMap::new();
    let mut all = 0;
    for pixel in pixels.as_chunks::<3>().0.iter().step_by(7) {
        *counts.entry(*pixel).or_default() += 1;
        all += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map_or(([0; 3], 0), |(colour, count)| {
        (colour, count * 1000 / all.max(1))
    })
}

/// Width, height and exactly the pixels of a `P6` file.
pub fn split_ppm(bytes: &[u8]) -> Option<(usize, usize, &[u8])> {
    let mut rest = bytes;
    let mut word = || -> Option<&[u8]> {
        let start = rest.iter().position(|b| !b.is_ascii_whitespace())?;
        let end = start + rest[start..].iter().position(u8::is_ascii_whitespace)?;
        let word = &rest[start..end];
        // Exactly one blank ends the header, so no more than one is taken.
        rest = &rest[end + 1..];
        Some(word)
    };
    if word()? != b"P6" {
        return None;
    }
    let width: usize = std::str::from_utf8(word()?).ok()?.parse().ok()?;
    let height: usize = std::str::from_utf8(word()?).ok()?.parse().ok()?;
    if word()? != b"255" || width == 0 || height == 0 || width > 16384 || height > 16384 {
        return None;
    }
    Some((width, height, rest.get(..width * height * 3)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A black text screen of 720 by 400 with white rectangles at the given places.
    fn screen(rectangles: &[(usize, usize, usize, usize)]) -> Screen {
        let mut ppm = b"P6\n720 400\n255\n".to_vec();
        for y in 0..400 {
            for x in 0..720 {
                let lit = rectangles
                    .iter()
                    .any(|&(l, t, w, h)| (l..l + w).contains(&x) && (t..t + h).contains(&y));
                ppm.extend([if lit { 255 } else { 0 }; 3]);
            }
        }
        Screen::from_ppm(&ppm).expect("a whole PPM")
    }

    #[test]
    fn a_cursor_anywhere_is_not_a_change_but_a_line_of_text_is() {
        let empty = screen(&[]);
        for column in 0..80 {
            let cursor = screen(&[(column * 9, 16 * 7, 9, 16)]);
            assert!(cursor.stands(&empty), "column {column}");
            assert!(cursor.changed(&empty) > 0, "column {column}");
        }
        let caret = screen(&[(333, 120, 2, 22)]);
        assert!(caret.stands(&empty));
        let line = screen(&[(0, 0, 90, 16)]);
        assert!(!line.stands(&empty));
        assert!(!line.is_another(&empty));
        let dialog = screen(&[(100, 100, 400, 200)]);
        assert!(dialog.is_another(&empty));
    }

    #[test]
    fn a_blank_screen_a_blue_one_and_one_with_a_box_differ() {
        let of = |back: [u8; 3], text: usize| {
            let mut ppm = b"P6\n640 480\n255\n".to_vec();
            for n in 0..640 * 480 {
                ppm.extend(if n % 100 < text { [255; 3] } else { back });
            }
            let screen = Screen::from_ppm(&ppm).expect("a whole PPM");
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
        let other = Screen::from_ppm(&[b"P6\n1 1\n255\n".as_slice(), &[0; 3]].concat());
        assert!(other.expect("one pixel").is_another(&empty));
        for bad in [
            &b"P5\n1 1\n255\n\0\0\0"[..],
            b"P6\n1 1\n255\n\0\0",
            b"P6\n0 1\n255\n",
            b"P6\n1",
            b"",
        ] {
            assert_eq!(Screen::from_ppm(bad), None, "{bad:?}");
        }
    }
}
