//! Web pages where a file was expected: a login, a licence, a bot check, a "not found" that says 200.

use winimg_base::error::{Error, Kind};
use winimg_base::markup::page_title;

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

/// The plain sentence.
pub(super) fn error(what: &str, at: &str, body: &[u8]) -> Error {
    let titled = match page_title(body) {
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
