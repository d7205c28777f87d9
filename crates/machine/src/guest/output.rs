//! Converts a program's output to text. The bytes arrive in arbitrary pieces.

use encoding_rs::{Decoder, UTF_16LE};

/// Bytes without a newline after which text is emitted anyway.
pub const LONGEST: usize = 4 << 10;

/// Decoder for UTF-8, or UTF-16 if the first bytes are clearly that (`wsl`, `reg export`). Other
/// encodings, such as OEM code pages, give replacement characters.
#[derive(Default)]
pub struct OutputText {
    kind: Option<OutputEncoding>,
    held: Vec<u8>,
}

enum OutputEncoding {
    Narrow,
    Wide(Box<Decoder>),
}

impl OutputText {
    /// Emits the lines that are complete.
    pub fn push(&mut self, bytes: &[u8], output: &mut dyn FnMut(&[u8])) {
        self.held.extend_from_slice(bytes);
        if self.held.len() >= 4 {
            self.emit(false, output);
        }
    }

    /// Emits the rest.
    pub fn end(mut self, output: &mut dyn FnMut(&[u8])) {
        self.emit(true, output);
    }

    fn emit(&mut self, last: bool, output: &mut dyn FnMut(&[u8])) {
        let kind = self.kind.get_or_insert_with(|| detect_encoding(&self.held));
        let text = match kind {
            OutputEncoding::Narrow => {
                let end = if last {
                    self.held.len()
                } else {
                    whole_lines(&self.held)
                };
                let text = String::from_utf8_lossy(&self.held[..end]).into_owned();
                self.held.drain(..end);
                text
            }
            OutputEncoding::Wide(decoder) => {
                let most = decoder.max_utf8_buffer_length(self.held.len());
                let mut text = String::with_capacity(most.unwrap_or_default());
                // The capacity suffices for all bytes.
                let _ = decoder.decode_to_string(&self.held, &mut text, last);
                self.held.clear();
                text
            }
        };
        if !text.is_empty() {
            output(text.as_bytes());
        }
    }
}

fn detect_encoding(bytes: &[u8]) -> OutputEncoding {
    let odd_zeros = bytes.iter().skip(1).step_by(2).filter(|b| **b == 0).count();
    let wide =
        bytes.starts_with(&[0xff, 0xfe]) || (bytes.len() >= 4 && odd_zeros * 5 > bytes.len() * 2);
    if wide {
        OutputEncoding::Wide(Box::new(UTF_16LE.new_decoder_with_bom_removal()))
    } else {
        OutputEncoding::Narrow
    }
}

/// Returns the end of the last complete line; in a single long line, that of a complete character.
fn whole_lines(bytes: &[u8]) -> usize {
    if let Some(newline) = bytes.iter().rposition(|b| *b == b'\n') {
        return newline + 1;
    }
    if bytes.len() < LONGEST {
        return 0;
    }
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(bytes: &[u8], size: usize) -> Vec<String> {
        let mut found = Vec::new();
        let mut take = |b: &[u8]| found.push(String::from_utf8(b.to_vec()).expect("text"));
        let mut text = OutputText::default();
        for piece in bytes.chunks(size) {
            text.push(piece, &mut take);
        }
        text.end(&mut take);
        found
    }

    #[test]
    fn pieces_are_whole_lines_wherever_the_bytes_are_cut() {
        let lines = "zażółć\r\ngęślą jaźń\r\nrest";
        for size in 1..12 {
            let found = pieces(lines.as_bytes(), size);
            assert_eq!(found.concat(), lines, "{size}");
            let (_, whole) = found.split_last().expect("pieces");
            assert!(whole.iter().all(|p| p.ends_with('\n')), "{found:?}");
        }
        let long = "ł".repeat(20_000);
        assert_eq!(pieces(long.as_bytes(), 999).concat(), long);
        let wide: Vec<u8> = "\u{feff}Ä wide\r\nline"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        for size in [1, 3, 5, 64] {
            assert_eq!(pieces(&wide, size).concat(), "Ä wide\r\nline", "{size}");
        }
        assert_eq!(pieces(b"\x8ft\xff\n", 2).concat(), "\u{fffd}t\u{fffd}\n");
        assert_eq!(pieces(b"ok", 1).concat(), "ok");
    }
}
