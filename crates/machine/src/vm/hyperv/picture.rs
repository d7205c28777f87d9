//! Pictures of a Hyper-V machine's screen: from the 16-bit pixels that Hyper-V gives to PPM, which the judge reads, and PNG, which people do.
//!
//! Sources: Microsoft: GetVirtualSystemThumbnailImage (RGB565, little endian); W3C: PNG specification, 8-bit RGB without interlace.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::{Compression, write::ZlibEncoder};
use serde_json::Value;

use crate::vm::screen::split_ppm;

/// What a synthetic display has before anything sets it otherwise.
pub const WIDTH: u64 = 1024;
pub const HEIGHT: u64 = 768;
/// Pixels of a side.
const LARGEST: u64 = 8192;

/// A PPM of what `screen.ps1` answered. `None`: not a picture, or cut short.
pub fn ppm(answer: &Value) -> Option<Vec<u8>> {
    let side = |name: &str| {
        answer[name]
            .as_u64()
            .filter(|side| (1..=LARGEST).contains(side))
    };
    let (width, height) = (side("width")?, side("height")?);
    let pixels = BASE64.decode(answer["rgb565"].as_str()?).ok()?;
    let wanted = usize::try_from(width * height * 2).ok()?;
    let mut ppm = format!("P6\n{width} {height}\n255\n").into_bytes();
    for pixel in pixels.get(..wanted)?.as_chunks::<2>().0 {
        let pixel = u16::from_le_bytes(*pixel);
        let (red, green, blue) = (pixel >> 11, (pixel >> 5) & 0x3f, pixel & 0x1f);
        // The highest bits fill the lowest, so that white stays white.
        ppm.push((red << 3 | red >> 2) as u8);
        ppm.push((green << 2 | green >> 4) as u8);
        ppm.push((blue << 3 | blue >> 2) as u8);
    }
    Some(ppm)
}

/// The same picture as a PNG.
pub fn png(ppm: &[u8]) -> Option<Vec<u8>> {
    let (width, height, pixels) = split_ppm(ppm)?;
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
    for row in pixels.chunks_exact(width * 3) {
        // Filter 0: the bytes as they are.
        packed.write_all(&[0]).ok()?;
        packed.write_all(row).ok()?;
    }
    let packed = packed.finish().ok()?;
    let mut header = Vec::new();
    header.extend(u32::try_from(width).ok()?.to_be_bytes());
    header.extend(u32::try_from(height).ok()?.to_be_bytes());
    header.extend([8, 2, 0, 0, 0]);
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, data) in [(b"IHDR", &header), (b"IDAT", &packed), (b"IEND", &vec![])] {
        png.extend(u32::try_from(data.len()).ok()?.to_be_bytes());
        let mut crc = crc32fast::Hasher::new();
        crc.update(kind);
        crc.update(data);
        png.extend(kind);
        png.extend(data);
        png.extend(crc.finalize().to_be_bytes());
    }
    Some(png)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sixteen_bits_become_twenty_four_and_a_short_picture_is_none() {
        let pixels: Vec<u8> = [0xffffu16, 0xf800, 0x07e0, 0x001f]
            .into_iter()
            .flat_map(u16::to_le_bytes)
            .collect();
        let answer = json!({"width": 2, "height": 2, "rgb565": BASE64.encode(&pixels)});
        let expected = b"P6\n2 2\n255\n\xff\xff\xff\xff\x00\x00\x00\xff\x00\x00\x00\xff";
        assert_eq!(ppm(&answer).as_deref(), Some(&expected[..]));
        let short = json!({"width": 2, "height": 3, "rgb565": BASE64.encode(&pixels)});
        assert_eq!(ppm(&short), None);
        assert_eq!(ppm(&json!({"width": 0, "height": 3, "rgb565": ""})), None);
    }

    #[test]
    fn a_png_holds_its_chunks_and_the_rows_unchanged() {
        let png = png(b"P6\n1 2\n255\nabcdef").expect("a PNG");
        assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
        assert_eq!(
            &png[8..33],
            b"\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x02\x08\x02\x00\x00\x00\x16\xe3\x21\x70"
        );
        assert_eq!(&png[png.len() - 12..], b"\0\0\0\0IEND\xaeB`\x82");
        let length = u32::from_be_bytes(png[33..37].try_into().expect("four bytes")) as usize;
        let mut rows = Vec::new();
        let mut packed = flate2::read::ZlibDecoder::new(&png[41..41 + length]);
        std::io::Read::read_to_end(&mut packed, &mut rows).expect("unpacked");
        assert_eq!(rows, b"\0abc\0def");
    }
}
