//! Markup: escapes text for XML, and detects web pages by their first bytes.
//!
//! Does not parse documents.

use std::ops::Range;

use crate::display_text::is_unprintable;

/// Number of bytes that are examined to detect a web page.
pub const SNIFF_LEN: usize = 512;
/// Number of bytes of a page that are searched for its title.
pub const TITLE_SEARCH_LEN: usize = 64 << 10;

/// Escapes text for an XML element or attribute.
pub fn escape_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            _ => out.push(c),
        }
    }
    out
}

/// Finds the encoding's name in the XML declaration, without the quotes.
pub fn declared_encoding(xml: &str) -> Option<Range<usize>> {
    let declaration = &xml[..xml.find("?>")?];
    let attributes = declaration.strip_prefix("<?xml")?;
    if !attributes.starts_with(char::is_whitespace) {
        return None;
    }
    let (_, after) = attributes.split_once("encoding")?;
    let after = after.trim_start().strip_prefix('=')?.trim_start();
    let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let start = declaration.len() - after.len() + 1;
    let len = declaration[start..].find(quote)?;
    Some(start..start + len)
}

/// Returns true for the name of an encoding with two or four bytes per ASCII letter.
pub fn is_wide_encoding(name: &str) -> bool {
    const WIDE: [&str; 6] = [
        "utf-16",
        "utf16",
        "utf-32",
        "ucs-2",
        "ucs-4",
        "iso-10646-ucs",
    ];
    let name = name.trim().to_ascii_lowercase();
    name == "unicode" || WIDE.iter().any(|wide| name.starts_with(wide))
}

/// Converts an XML document to ASCII, the only encoding that Windows Setup's parser handles
/// reliably: all other characters become character references, and a byte order mark is removed.
/// References are not expanded in CDATA, so a CDATA section with such a character becomes escaped
/// text.
pub fn to_ascii_xml(xml: &str) -> String {
    const CDATA: &str = "<![CDATA[";
    let mut out = String::with_capacity(xml.len());
    let mut rest = xml.strip_prefix('\u{feff}').unwrap_or(xml);
    while let Some(at) = rest.find("<!") {
        let (before, special) = rest.split_at(at);
        push_ascii(&mut out, before);
        let (open, close) = match special {
            _ if special.starts_with(CDATA) => (CDATA, "]]>"),
            _ if special.starts_with("<!--") => ("<!--", "-->"),
            _ => ("<!", ""),
        };
        let inside = &special[open.len()..];
        let len = inside.find(close).unwrap_or(inside.len());
        let text = &inside[..len];
        rest = inside.get(len + close.len()..).unwrap_or_default();
        if open == CDATA && !text.is_ascii() {
            push_ascii(&mut out, &escape_xml(text));
            continue;
        }
        out.push_str(open);
        push_ascii(&mut out, text);
        out.push_str(&inside[len..inside.len() - rest.len()]);
    }
    push_ascii(&mut out, rest);
    out
}

fn push_ascii(out: &mut String, text: &str) {
    for c in text.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            out.push_str(&format!("&#{};", u32::from(c)));
        }
    }
}

/// Returns true if an element of this name in an answer file contains a secret (Microsoft:
/// Unattended Windows Setup Reference): `AdministratorPassword`, the `Password` of `Credentials`,
/// `SafeModeAdminPassword` and so on, and the blob of an offline domain join, which includes the
/// machine's password.
pub fn is_secret_element(element: &str) -> bool {
    let name = element.rsplit(':').next().unwrap_or_default();
    let name = name.to_ascii_lowercase();
    name.ends_with("password") || matches!(name.as_str(), "accountdata" | "keymaterial")
}

/// Returns true if a body is a web page, by its start (WHATWG MIME Sniffing, reduced to pages in
/// place of downloads).
pub fn is_web_page(body: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&body[..body.len().min(SNIFF_LEN)]).to_ascii_lowercase();
    let mut head = head.trim_start_matches('\u{feff}').trim_start();
    for (open, close) in [("<?xml", "?>"), ("<!--", "-->")] {
        if let Some(rest) = head.strip_prefix(open) {
            head = rest.split_once(close).map_or("", |(_, r)| r).trim_start();
        }
    }
    ["<!doctype html", "<html", "<head"]
        .iter()
        .any(|start| head.starts_with(start))
}

/// Returns the text of a page's `<title>` on one line, truncated; `None` if it has none.
pub fn find_page_title(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&body[..body.len().min(TITLE_SEARCH_LEN)]).into_owned();
    // Only ASCII is lowered, so byte positions are the same as in `text`.
    let lower = text.to_ascii_lowercase();
    let open = lower.find("<title")?;
    let start = open + lower[open..].find('>')? + 1;
    let end = start + lower[start..].find("</title")?;
    let title: String = text[start..end]
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .filter(|c| !is_unprintable(*c))
        .take(120)
        .collect();
    (!title.is_empty()).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xml_is_escaped_and_converted_to_ascii() {
        assert_eq!(
            escape_xml(r#"<a b="c" d='e'>&"#),
            "&lt;a b=&quot;c&quot; d=&apos;e&apos;&gt;&amp;"
        );
        assert_eq!(to_ascii_xml("\u{feff}<a>ä€</a>"), "<a>&#228;&#8364;</a>");
    }

    #[test]
    fn the_encoding_is_only_read_from_the_declaration() {
        for (xml, expected) in [
            (
                "<?xml version=\"1.0\" encoding=\"utf-16\"?><a/>",
                Some("utf-16"),
            ),
            (
                "<?xml version='1.0' encoding = 'UTF-8' ?><a/>",
                Some("UTF-8"),
            ),
            ("<?xml version='1.0'?><a encoding='utf-16'/>", None),
            ("<?xml-stylesheet encoding='utf-16'?><a/>", None),
            ("<a encoding='utf-16'/>", None),
            ("<?xml encoding='utf-16", None),
            ("<?xml encoding='utf-16?>", None),
            ("", None),
        ] {
            let found = declared_encoding(xml).map(|range| &xml[range]);
            assert_eq!(found, expected, "{xml}");
        }
        for (name, is_wide) in [
            ("utf-16", true),
            ("UTF-16LE", true),
            ("ISO-10646-UCS-2", true),
            ("Unicode", true),
            ("utf-8", false),
            ("us-ascii", false),
            ("windows-1252", false),
        ] {
            assert_eq!(is_wide_encoding(name), is_wide, "{name}");
        }
    }

    #[test]
    fn cdata_keeps_its_meaning_in_ascii() {
        for (xml, expected) in [
            (
                "<a><![CDATA[echo Größe & <b>]]> ü</a>",
                "<a>echo Gr&#246;&#223;e &amp; &lt;b&gt; &#252;</a>",
            ),
            // A section that is ASCII is kept, even next to one that is not.
            (
                "<a><![CDATA[a & b]]><![CDATA[ß]]>c</a>",
                "<a><![CDATA[a & b]]>&#223;c</a>",
            ),
            // Comments and unclosed sections contain no CDATA.
            (
                "<a><!-- <![CDATA[ ä --><![CDATA[x]]></a>",
                "<a><!-- <![CDATA[ &#228; --><![CDATA[x]]></a>",
            ),
            ("<!DOCTYPE a><a>ä</a>", "<!DOCTYPE a><a>&#228;</a>"),
            ("<a><![CDATA[x", "<a><![CDATA[x"),
            ("<a><!", "<a><!"),
        ] {
            assert_eq!(to_ascii_xml(xml), expected, "{xml}");
        }
    }

    #[test]
    fn pages_are_recognised_by_their_start() {
        for page in [
            "<!DOCTYPE html><html>",
            "\u{feff}\r\n <HTML lang=en>",
            "<?xml version=\"1.0\"?>\n<!DOCTYPE html PUBLIC",
            "<!-- saved from a browser -->\n<html>",
        ] {
            assert!(is_web_page(page.as_bytes()), "{page}");
        }
        for file in ["MZ\0", "<?xml version=\"1.0\"?><unattend/>", "# <html>", ""] {
            assert!(!is_web_page(file.as_bytes()), "{file}");
        }
    }

    #[test]
    fn a_title_is_one_line() {
        let page = "<html><head><Title id=x>Just a\n  moment…</TITLE>";
        assert_eq!(
            find_page_title(page.as_bytes()).as_deref(),
            Some("Just a moment…")
        );
        assert_eq!(find_page_title(b"<html><title></title>"), None);
        assert_eq!(find_page_title(b"<html>\xff<title>x"), None);
    }
}
