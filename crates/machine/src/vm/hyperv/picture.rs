//! Converts screenshots from Hyper-V's 16-bit pixels to PPM.
//!
//! Source: Microsoft: GetVirtualSystemThumbnailImage (RGB565, little endian).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

/// Default resolution of a synthetic display.
pub const WIDTH: u64 = 1024;
pub const HEIGHT: u64 = 768;
/// Maximum length of a side in pixels.
const LARGEST: u64 = 8192;

/// Converts the answer of `screen.ps1` to a PPM. `None` if it is invalid or truncated.
pub fn to_ppm(answer: &Value) -> Option<Vec<u8>> {
    let [width, height] = ["width", "height"].map(|name| answer[name].as_u64());
    let (width, height) = (width?, height?);
    if !(1..=LARGEST).contains(&width) || !(1..=LARGEST).contains(&height) {
        return None;
    }
    let pixels = BASE64.decode(answer["rgb565"].as_str()?).ok()?;
    let wanted = usize::try_from(width * height * 2).ok()?;
    let mut ppm = format!("P6\n{width} {height}\n255\n").into_bytes();
    for pixel in pixels.get(..wanted)?.as_chunks::<2>().0 {
        let pixel = u16::from_le_bytes(*pixel);
        let (red, green, blue) = (pixel >> 11, (pixel >> 5) & 0x3f, pixel & 0x1f);
        // Repeat the highest bits in the lowest, so that white stays white.
        ppm.push((red << 3 | red >> 2) as u8);
        ppm.push((green << 2 | green >> 4) as u8);
        ppm.push((blue << 3 | blue >> 2) as u8);
    }
    Some(ppm)
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
        assert_eq!(to_ppm(&answer).as_deref(), Some(&expected[..]));
        let short = json!({"width": 2, "height": 3, "rgb565": BASE64.encode(&pixels)});
        assert_eq!(to_ppm(&short), None);
        assert_eq!(
            to_ppm(&json!({"width": 0, "height": 3, "rgb565": ""})),
            None
        );
    }
}
