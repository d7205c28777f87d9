//! The picture that a scripted guest shows: blocks that follow from a text, or a file's. And how Hyper-V's thumbnail holds a picture.

use std::path::Path;

use crate::engine::Picture;

const WIDTH: usize = 640;
const HEIGHT: usize = 400;

/// Not to be read, but unlike that of another text.
pub fn of(text: &str) -> Picture {
    let mut rgb = vec![0; WIDTH * HEIGHT * 3];
    let bytes = if text.is_empty() { 0 } else { 250 };
    for (n, byte) in text.bytes().cycle().take(bytes).enumerate() {
        let (left, top) = (n % 25 * 25, n / 25 * 40);
        for y in top..top + 32 {
            let from = (y * WIDTH + left) * 3;
            rgb[from..from + 60].fill(byte);
        }
    }
    Picture {
        width: WIDTH as u32,
        height: HEIGHT as u32,
        rgb,
    }
}

/// A binary PPM of 8 bits (Netpbm: ppm format).
pub fn read(path: &Path) -> Result<Picture, String> {
    let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let words: Vec<&[u8]> = bytes.splitn(5, u8::is_ascii_whitespace).collect();
    let number = |n: usize| std::str::from_utf8(words.get(n)?).ok()?.parse::<u32>().ok();
    match (words.first(), number(1), number(2), number(3), words.get(4)) {
        (Some(&b"P6"), Some(width), Some(height), Some(255), Some(rgb))
            if rgb.len() as u64 == u64::from(width) * u64::from(height) * 3 =>
        {
            Ok(Picture {
                width,
                height,
                rgb: rgb.to_vec(),
            })
        }
        _ => Err(format!("{}: no PPM of 8 bits", path.display())),
    }
}

/// The nearest pixels at another size, five bits red, six green, five blue, low byte first.
///
/// Source: Microsoft: GetVirtualSystemThumbnailImage method (the image is in RGB565 format).
pub fn thumbnail(picture: &Picture, width: u32, height: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(width as usize * height as usize * 2);
    for y in 0..height {
        for x in 0..width {
            let from_x = (u64::from(x) * u64::from(picture.width) / u64::from(width)) as usize;
            let from_y = (u64::from(y) * u64::from(picture.height) / u64::from(height)) as usize;
            let at = (from_y * picture.width as usize + from_x) * 3;
            let (r, g, b) = (picture.rgb[at], picture.rgb[at + 1], picture.rgb[at + 2]);
            let word = u16::from(r >> 3) << 11 | u16::from(g >> 2) << 5 | u16::from(b >> 3);
            out.extend(word.to_le_bytes());
        }
    }
    out
}
