//! Web pages where a file was expected: a login, a licence, a bot check, a "not found" that says 200.

use crate::error::{Error, Kind};

/// Bytes of a body that decide whether it is a page.
pub(super) const SNIFFED: usize = 512;
/// Bytes of a page in which its title is looked for.
pub(super) const TITLE_WITHIN: usize = 64 << 10;

/// Whether the file that is wanted is a page itself.
pub(super) fn is_wanted(file: &str) -> bool {
    let file = file.to_ascii_lowercase();
    [".html", ".htm", ".xhtml"]
        .iter()
        .any(|e| file.ends_with(e))
}

/// By the server's words.
pub(super) fn is_type(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    ["text/html", "application/xhtml+xml"]
        .iter()
        .any(|html| kind.eq_ignore_ascii_case(html))
}

/// By how the body starts (WHATWG MIME Sniffing, as far as pages in place of downloads go).
pub(super) fn is_page(body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let head = String::from_utf8_lossy(&body[..body.len().min(SNIFFED)]).to_ascii_lowercase();
    let head = head.trim_start();
    let head = match head.strip_prefix("<?xml") {
        Some(rest) => rest.split_once("?>").map_or("", |(_, r)| r).trim_start(),
        None => head,
    };
    head.starts_with("<!doctype html") || head.starts_with("<html") || head.starts_with("<head")
}

/// The text of `<title>`, on one line, cut to a sensible length.
fn title(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&body[..body.len().min(TITLE_WITHIN)]).into_owned();
    // ASCII only, so that byte positions stay those of `text`.
    let lower = text.to_ascii_lowercase();
    let open = lower.find("<title")?;
    let start = open + lower[open..].find('>')? + 1;
    let end = start + lower[start..].find("</title")?;
    let title: String = text[start..end]
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .filter(|c| !c.is_control())
        .take(120)
        .collect();
    (!title.is_empty()).then_some(title)
}

/// The plain sentence.
pub(super) fn error(what: &str, at: &str, body: &[u8]) -> Error {
    let titled = match title(body) {
        Some(title) => format!(" titled “{title}”"),
        None => String::new(),
    };
    Error::new(
        Kind::Fetch,
        format!("{what}: the server sent a web page{titled} instead of the file"),
    )
    .at(at)
    .cure(
        "open the address in a browser: the file may have moved, or the host wants a login, a licence or a human; \
         then name the file itself, or download it once and give its path",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_recognised_by_their_start() {
        for page in [
            "<!DOCTYPE html><html>",
            "\u{feff}\r\n <HTML lang=en>",
            "<?xml version=\"1.0\"?>\n<!DOCTYPE html PUBLIC",
        ] {
            assert!(is_page(page.as_bytes()), "{page}");
        }
        for file in ["MZ\0", "<?xml version=\"1.0\"?><unattend/>", "# <html>", ""] {
            assert!(!is_page(file.as_bytes()), "{file}");
        }
    }

    #[test]
    fn a_title_is_one_line() {
        let page = "<html><head><Title id=x>Just a\n  moment…</TITLE>";
        assert_eq!(title(page.as_bytes()).as_deref(), Some("Just a moment…"));
        assert_eq!(title(b"<html><title></title>"), None);
        assert_eq!(title(b"<html>\xff<title>x"), None);
    }
}
