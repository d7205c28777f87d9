//! The picture that the guest shows: blocks that follow from a text, or a file's.

use std::io::Write as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;

const WIDTH: usize = 640;
const HEIGHT: usize = 400;

#[derive(Clone, Debug)]
pub struct Screen {
    width: usize,
    height: usize,
    /// Three bytes each.
    pixels: Vec<u8>,
}

impl Default for Screen {
    fn default() -> Self {
        Self::of("")
    }
}

impl Screen {
    /// Not to be read, but unlike that of another text.
    pub fn of(text: &str) -> Self {
        let mut pixels = vec![0; WIDTH * HEIGHT * 3];
        for (n, byte) in text
            .bytes()
            .cycle()
            .take(if text.is_empty() { 0 } else { 250 })
            .enumerate()
        {
            let (left, top) = (n % 25 * 25, n / 25 * 40);
            for y in top..top + 32 {
                let from = (y * WIDTH + left) * 3;
                pixels[from..from + 60].fill(byte);
            }
        }
        Self {
            width: WIDTH,
            height: HEIGHT,
            pixels,
        }
    }

    /// A binary PPM of 8 bits; black when it is none.
    pub fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap_or_default();
        let words: Vec<&[u8]> = bytes.splitn(5, u8::is_ascii_whitespace).collect();
        let number = |n: usize| {
            std::str::from_utf8(words.get(n)?)
                .ok()?
                .parse::<usize>()
                .ok()
        };
        match (words.first(), number(1), number(2), number(3), words.get(4)) {
            (Some(&b"P6"), Some(width), Some(height), Some(255), Some(pixels))
                if pixels.len() == width * height * 3 =>
            {
                Self {
                    width,
                    height,
                    pixels: pixels.to_vec(),
                }
            }
            _ => Self::default(),
        }
    }

    pub fn ppm(&self) -> Vec<u8> {
        [
            format!("P6\n{} {}\n255\n", self.width, self.height).as_bytes(),
            &self.pixels,
        ]
        .concat()
    }

    /// W3C: PNG specification; 8 bits, no filter.
    pub fn png(&self) -> Vec<u8> {
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
        for line in self.pixels.chunks(self.width * 3) {
            let _ = packed.write_all(&[0]);
            let _ = packed.write_all(line);
        }
        let mut head = Vec::new();
        for number in [self.width, self.height] {
            head.extend(u32::try_from(number).unwrap_or(0).to_be_bytes());
        }
        head.extend([8, 2, 0, 0, 0]);
        let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
        for (name, data) in [
            (b"IHDR", head),
            (b"IDAT", packed.finish().unwrap_or_default()),
            (b"IEND", Vec::new()),
        ] {
            png.extend(u32::try_from(data.len()).unwrap_or(0).to_be_bytes());
            let body = [&name[..], &data].concat();
            png.extend(&body);
            png.extend(crc32fast::hash(&body).to_be_bytes());
        }
        png
    }
}
