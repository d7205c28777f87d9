//! Web pages served in place of a file: a login, a licence, a bot check, a "not found" with status
//! 200.

use winimg_base::error::{Error, Kind};
use winimg_base::markup::find_page_title;

/// Returns true if the wanted file is itself a web page, by its name.
pub(super) fn is_wanted(file: &str) -> bool {
    let file = file.to_ascii_lowercase();
    [".html", ".htm", ".xhtml"]
        .iter()
        .any(|e| file.ends_with(e))
}

/// Returns true if the server's content type is a web page's.
pub(super) fn is_type(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim();
    ["text/html", "application/xhtml+xml"]
        .iter()
        .any(|html| kind.eq_ignore_ascii_case(html))
}

/// Builds the error for a web page in place of the file.
pub(super) fn error(what: &str, at: &str, body: &[u8]) -> Error {
    let titled = match find_page_title(body) {
        Some(title) => format!(" titled “{title}”"),
        None => String::new(),
    };
    Error::new(
        Kind::Fetch,
        format!("{what}: the server sent a web page{titled} instead of the file"),
    )
    .at(at)
    .cure(
        "open the address in a browser: the file may have moved, or the host requires a login, a \
         licence or a captcha; then use the direct address of the file, or download it once and \
         give its path",
    )
}
