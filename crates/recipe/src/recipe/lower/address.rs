//! Where an input is: a URL, or a path on this machine.

use url::Url;

use crate::recipe::Address;
use crate::recipe::fields::Fields;
use winimg_base::text::Located;

/// http(s), `file://`, or a path, which is taken from the folder of the file that says it.
pub(super) fn address(
    fields: &Fields<'_>,
    key: &str,
    url: Located<String>,
) -> Option<Located<Address>> {
    let cx = fields.cx;
    let text = url.value.trim();
    let local = |path| Located::new(Address::Local(cx.sources.input(path)), url.place.clone());
    let parsed = match Url::parse(text) {
        // `C:\x` looks like a scheme of one letter.
        Ok(parsed) if parsed.scheme().len() > 1 => parsed,
        Err(error) if text.contains("://") => {
            let fact = format!("`{key}` is not a URL: {error}");
            cx.error(fact, &url.place, "", "");
            return None;
        }
        _ => {
            return Some(local(fields.folder(key, &url.place).join(text)));
        }
    };
    if parsed.scheme() == "file" {
        let Ok(path) = parsed.to_file_path() else {
            let fact = format!("`{key}` does not name a file of this machine");
            let help = "write file:///folder/name, or just the path";
            cx.error(fact, &url.place, "", help);
            return None;
        };
        return Some(match cx.sources.is_outside(&path) {
            true => local(path),
            false => Located::new(Address::Local(path), url.place),
        });
    }
    if !matches!(parsed.scheme(), "http" | "https") {
        let fact = format!("`{key}` has the scheme `{}`", parsed.scheme());
        let help = "it is http, https, file, or the path of a file";
        cx.error(fact, &url.place, "", help);
        return None;
    }
    if parsed.password().is_some() || !parsed.username().is_empty() {
        let fact = format!("`{key}` holds a user name or password");
        let help = "a recipe holds no secrets; take it out of the URL";
        cx.error(fact, &url.place, "", help);
        return None;
    }
    Some(Located::new(Address::Remote(parsed), url.place))
}
