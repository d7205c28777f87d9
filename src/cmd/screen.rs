//! `winimg screen`: draws the screen of a running build's VM on the terminal, or writes it as a
//! PNG.
//!
//! Read-only. Pixels are averaged, not sharpened: the guest's text is readable if the terminal is
//! large enough.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::ops::Range;

use crate::cli;
use crate::engine::console::wire::ScreenFormat;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_machine::vm::screen::split_ppm;

use super::running::RunningBuild;

pub fn run(args: &cli::ScreenArgs) -> Result<()> {
    if args.png.is_none() && !std::io::stdout().is_terminal() {
        return Err(Error::new(Kind::Recipe, "there is no terminal to draw on")
            .cure("write a picture with --png FILE"));
    }
    let mut running = RunningBuild::find(args.dir.as_deref())?;
    if let Some(file) = &args.png {
        return io::write_atomically(
            file,
            &running.take_picture(ScreenFormat::Png, &mut || Ok(()))?,
        );
    }
    let ppm = running.take_picture(ScreenFormat::Ppm, &mut || Ok(()))?;
    let Some((width, height, pixels)) = split_ppm(&ppm) else {
        return Err(Error::new(Kind::Machine, "the VM's picture is not a PPM"));
    };
    let (columns, rows) = match terminal_size::terminal_size() {
        // The prompt needs the last row.
        Some((columns, rows)) => (columns.0.into(), usize::from(rows.0).saturating_sub(1)),
        None => (80, 24),
    };
    super::print_as_is(&render(pixels, (width, height), (columns, rows)))
}

/// Draws two pixels per character: the upper one is the colour of `▀`, the lower one its
/// background.
fn render(pixels: &[u8], size: (usize, usize), (columns, rows): (usize, usize)) -> String {
    let (width, height) = compute_size(size, (columns, rows * 2));
    let colour = |x: usize, y: usize| compute_average(pixels, size, (width, height), (x, y));
    let mut text = String::new();
    for y in (0..height).step_by(2) {
        let mut last = None;
        for x in 0..width {
            let pair = (colour(x, y), (y + 1 < height).then(|| colour(x, y + 1)));
            if last != Some(pair) {
                let (r, g, b) = pair.0;
                let _ = write!(text, "\x1b[38;2;{r};{g};{b}m");
                if let Some((r, g, b)) = pair.1 {
                    let _ = write!(text, "\x1b[48;2;{r};{g};{b}m");
                }
                last = Some(pair);
            }
            text.push('▀');
        }
        text.push_str("\x1b[0m\n");
    }
    text
}

/// Returns the largest size within `limit` with the picture's aspect ratio; does not enlarge a
/// small picture.
fn compute_size((width, height): (usize, usize), limit: (usize, usize)) -> (usize, usize) {
    let limit = (limit.0.clamp(1, width), limit.1.clamp(1, height));
    // Choose the smaller scale, compared without rounding.
    if limit.0 * height <= limit.1 * width {
        (limit.0, (height * limit.0 / width).max(1))
    } else {
        ((width * limit.1 / height).max(1), limit.1)
    }
}

/// Returns the mean colour of the pixels that one pixel of the smaller picture covers.
fn compute_average(
    pixels: &[u8],
    (width, height): (usize, usize),
    small: (usize, usize),
    (x, y): (usize, usize),
) -> (u8, u8, u8) {
    let (mut sum, mut count) = ([0_u64; 3], 0_u64);
    for row in compute_span(y, small.1, height) {
        for column in compute_span(x, small.0, width) {
            let at = (row * width + column) * 3;
            let Some(pixel) = pixels.get(at..at + 3) else {
                continue;
            };
            for (sum, value) in sum.iter_mut().zip(pixel) {
                *sum += u64::from(*value);
            }
            count += 1;
        }
    }
    let [r, g, b] = sum.map(|channel| (channel / count.max(1)) as u8);
    (r, g, b)
}

/// Returns the pixels of a row or column of length `full` that pixel `at` of `of` covers.
fn compute_span(at: usize, of: usize, full: usize) -> Range<usize> {
    let from = at * full / of;
    from..((at + 1) * full / of).max(from + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The characters' colours as `r,g,b/r,g,b`, one line a row.
    fn rendered(text: &str) -> String {
        text.replace("\x1b[38;2;", "\n  ")
            .replace("m\x1b[48;2;", " on ")
            .replace("\x1b[0m", "")
    }

    #[test]
    fn two_pixels_make_a_character_and_equal_neighbours_share_their_colours() {
        let (r, b, w) = ([255, 0, 0], [0, 0, 255], [255; 3]);
        let pixels = [[r, r, b], [w, w, w], [b, b, r]].concat().concat();
        assert_eq!(
            rendered(&render(&pixels, (3, 3), (80, 24))),
            "\n  255;0;0 on 255;255;255m▀▀\n  0;0;255 on 255;255;255m▀\n\n  0;0;255m▀▀\n  255;0;0m▀\n"
        );
    }

    #[test]
    fn a_large_screen_is_averaged_into_the_terminal_in_its_shape() {
        // Black and white columns in turn, four to a character.
        let row: Vec<u8> = (0..1024).flat_map(|x| [(x % 2 * 255) as u8; 3]).collect();
        let pixels = row.repeat(768);
        let text = render(&pixels, (1024, 768), (80, 100));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 30);
        for line in lines {
            assert_eq!(line.matches('▀').count(), 80, "{line}");
            // A character stands for 12 or 13 of the columns: 6 of 12 are white, or 6 or 7 of 13.
            for part in line
                .split(['m', '\x1b'])
                .filter(|part| part.contains(";2;"))
            {
                let grey = part.rsplit(';').next().expect("a colour");
                assert!(["117", "127", "137"].contains(&grey), "{part:?}");
            }
        }
        assert_eq!(compute_size((1024, 768), (200, 46)), (61, 46));
        assert_eq!(compute_size((1, 1), (80, 48)), (1, 1));
        assert_eq!(compute_size((2000, 1), (80, 48)), (80, 1));
    }
}
