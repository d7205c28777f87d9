//! Encodes screenshots as PNG.
//!
//! Source: W3C: PNG specification, 8-bit RGB without interlace.

use std::io::Write as _;

use flate2::{Compression, write::ZlibEncoder};

use super::split_ppm;

/// Converts a PPM to a PNG. `None` if it is not a PPM of 8 bits per channel, or truncated.
pub fn encode_png(ppm: &[u8]) -> Option<Vec<u8>> {
    let (width, height, pixels) = split_ppm(ppm)?;
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
    for row in pixels.chunks_exact(width * 3) {
        // Filter 0: raw bytes.
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
        let mut crc = flate2::Crc::new();
        crc.update(kind);
        crc.update(data);
        png.extend(kind);
        png.extend(data);
        png.extend(crc.sum().to_be_bytes());
    }
    Some(png)
}

#[cfg(test)]
mod tests {

    #[test]
    fn a_png_holds_its_chunks_and_the_rows_unchanged() {
        let png = super::encode_png(b"P6\n1 2\n255\nabcdef").expect("a PNG");
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
