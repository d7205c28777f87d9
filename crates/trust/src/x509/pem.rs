//! Parses PEM: base64 between BEGIN and END lines. Refuses blocks without an end, or with anything
//! other than base64. (RFC 7468)

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Returns the contents of all blocks with one of these labels, or the file itself if it is not
/// PEM. The error fits after the file's name.
pub fn decode_blocks(file: &[u8], labels: &[&str]) -> Result<Vec<Vec<u8>>, String> {
    match std::str::from_utf8(file) {
        Ok(text) if text.contains("-----BEGIN ") => parse_blocks(text, labels),
        _ => Ok(vec![file.to_vec()]),
    }
}

fn parse_blocks(text: &str, labels: &[&str]) -> Result<Vec<Vec<u8>>, String> {
    let mut found = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let label = line
            .strip_prefix("-----BEGIN ")
            .and_then(|l| l.strip_suffix("-----"));
        let Some(label) = label.filter(|l| labels.contains(l)) else {
            continue;
        };
        let end = format!("-----END {label}-----");
        let mut body = String::new();
        loop {
            match lines.next() {
                Some(line) if line == end => break,
                Some(line) => body.push_str(line),
                None => return Err(format!("has a block {label} without its END line")),
            }
        }
        let bytes = STANDARD.decode(body);
        found.push(bytes.map_err(|e| format!("has a block {label} that is not base64: {e}"))?);
    }
    Ok(found)
}
