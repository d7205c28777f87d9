//! Addresses of inputs: a URL, or a path on this machine.

use url::Url;

use crate::FileAddress;
use crate::fields::TableReader;
use winimg_base::text::Located;

/// Parses an http(s) or `file://` URL, or a path relative to the file that contains it.
pub(super) fn parse_address(
    fields: &TableReader<'_>,
    key: &str,
    url: Located<String>,
) -> Option<Located<FileAddress>> {
    let cx = fields.cx;
    let text = url.value.trim();

    let parsed = match Url::parse(text) {
        // `C:\x` looks like a scheme of one letter.
        Ok(parsed) if parsed.scheme().len() > 1 => parsed,
        Err(error) if text.contains("://") => {
            let fact = format!("`{key}` is not a URL: {error}");
            cx.error(fact, &url.place, "", "");
            return None;
        }
        _ => {
            let path = fields.base_folder(key, &url.place).join(text);
            let address = FileAddress::Local(cx.sources.resolve_input(path));
            return Some(Located::new(address, url.place));
        }
    };
    if parsed.scheme() == "file" {
        let Ok(path) = parsed.to_file_path() else {
            let fact = format!("`{key}` is not a file on this machine");
            let help = "write file:///folder/name, or just the path";
            cx.error(fact, &url.place, "", help);
            return None;
        };
        let path = if cx.sources.is_outside(&path) {
            cx.sources.resolve_input(path)
        } else {
            path
        };
        return Some(Located::new(FileAddress::Local(path), url.place));
    }
    if !matches!(parsed.scheme(), "http" | "https") {
        let fact = format!("`{key}` has the scheme `{}`", parsed.scheme());
        let help = "use http, https, file, or the path of a file";
        cx.error(fact, &url.place, "", help);
        return None;
    }
    if parsed.password().is_some() || !parsed.username().is_empty() {
        let fact = format!("`{key}` contains a user name or password");
        let help = "a recipe contains no secrets; remove it from the URL";
        cx.error(fact, &url.place, "", help);
        return None;
    }
    Some(Located::new(FileAddress::Remote(parsed), url.place))
}
