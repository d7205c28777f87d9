//! Screens as the judge compares them: a grid of checksums, so that a blinking cursor is not a change.
//!
//! Refuses to recognise text or pictures; it only says how much differs.

/// Pixels a cell is wide and high. A text cursor of 9 by 16 touches two cells at most, a dialog's caret three.
const CELL: usize = 16;

/// Cells that may differ between two looks at a screen that stands still.
pub const CURSOR_CELLS: usize = 4;

/// One look at the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Screen {
    width: usize,
    height: usize,
    cells: Vec<u32>,
}

impl Screen {
    /// From a binary PPM of 8 bits a channel, as QEMU's `screendump` writes it without a format. `None`: not one, or cut short.
    pub fn from_ppm(bytes: &[u8]) -> Option<Self> {
        let (width, height, pixels) = split_ppm(bytes)?;
        let columns = width.div_ceil(CELL);
        let rows = height.div_ceil(CELL);
        let mut hashers = vec![crc32fast::Hasher::new(); columns * rows];
        for (y, line) in pixels.chunks_exact(width * 3).enumerate() {
            for (x, part) in line.chunks(CELL * 3).enumerate() {
                hashers[y / CELL * columns + x].update(part);
            }
        }
        let cells = hashers.into_iter().map(crc32fast::Hasher::finalize);
        Some(Self {
            width,
            height,
            cells: cells.collect(),
        })
    }

    /// How many cells differ; all of them when the resolution does.
    pub fn changed(&self, other: &Self) -> usize {
        if (self.width, self.height) != (other.width, other.height) {
            return self.cells.len().max(other.cells.len());
        }
        let pairs = self.cells.iter().zip(&other.cells);
        pairs.filter(|(a, b)| a != b).count()
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
