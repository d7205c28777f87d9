//! Text in the console's code page: 437 until `chcp 65001` makes it UTF-8. A batch file in UTF-8 is read as 437, as on
//! an en-US Windows, so its non-ASCII letters come out wrong here too.

/// Bytes 0x80 to 0xFF of code page 437.
const CP437: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}";

pub const UTF8: u32 = 65001;

pub fn decode(page: u32, bytes: &[u8]) -> String {
    if page == UTF8 || bytes.is_ascii() {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let table: Vec<char> = CP437.chars().collect();
    bytes
        .iter()
        .map(|&b| {
            if b < 0x80 {
                char::from(b)
            } else {
                table[usize::from(b) - 0x80]
            }
        })
        .collect()
}

pub fn encode(page: u32, text: &str) -> Vec<u8> {
    if page == UTF8 || text.is_ascii() {
        return text.as_bytes().to_vec();
    }
    let byte = |c: char| {
        if c.is_ascii() {
            c as u8
        } else {
            CP437
                .chars()
                .position(|known| known == c)
                .map_or(b'?', |at| (at + 0x80) as u8)
        }
    };
    text.chars().map(byte).collect()
}
