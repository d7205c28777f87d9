//! The frame that winimg's pages share: one file that needs no other, without scripts and without a network.
//!
//! Pure but for `picture`. The page's own policy forbids scripts and requests; foreign text goes through `shown`.

mod shown;
mod treemap;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

pub use shown::{clock, link, plain, second, sentence, shown, size};
pub use treemap::{difference, treemap};

/// The page of a build, in its output folder.
pub const REPORT: &str = "report.html";

const STYLE: &str = include_str!("page.css");
/// A text of so many lines or bytes is higher than its box on some screen (`pre` in page.css).
const MANY: usize = 12;
const LONG: usize = 800;
/// The largest picture that a page holds, in bytes.
const LARGEST: u64 = 4 << 20;

/// One part of a page, which has a link at the top.
pub struct Section {
    /// Of its link.
    pub id: &'static str,
    pub title: &'static str,
    /// HTML; a section with none is left out.
    pub body: String,
}

/// The whole page: its title as text, what stands above the links as HTML, the sections.
pub fn html(title: &str, head: &str, sections: &[Section]) -> String {
    let mut nav = String::new();
    let mut body = String::new();
    for Section {
        id,
        title,
        body: content,
    } in sections.iter().filter(|section| !section.body.is_empty())
    {
        let _ = writeln!(nav, "<a href=\"#{id}\">{title}</a>");
        let _ = write!(
            body,
            "<section id=\"{id}\">\n<h2>{title}</h2>\n{content}</section>\n"
        );
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{head}<nav>\n{nav}</nav>\n{body}</main>\n</body>\n</html>\n",
        shown(title)
    )
}

/// Text as it is, in lines. What may scroll can be reached by keyboard.
pub fn text_block(text: &str) -> String {
    let reach = match text.len() > LONG || text.lines().count() > MANY {
        true => " tabindex=\"0\"",
        false => "",
    };
    format!("<pre{reach}>{}</pre>\n", shown(text))
}

pub fn table(class: &str, rows: &str) -> String {
    match (rows, class) {
        ("", _) => String::new(),
        (rows, "") => format!("<table>\n{rows}</table>\n"),
        (rows, class) => format!("<table class=\"{class}\">\n{rows}</table>\n"),
    }
}

/// Something that does not hold: `class` is `error`, `warning` or `unknown`, `headline` HTML, each part a name and a value.
pub fn finding(
    class: &str,
    headline: &str,
    parts: &[(String, String)],
    lines: &[String],
) -> String {
    let row = |(name, value): &(String, String)| {
        format!("<dt>{}</dt><dd>{}</dd>\n", shown(name), shown(value))
    };
    let rows: String = parts.iter().map(row).collect();
    let lines = match lines.is_empty() {
        true => String::new(),
        false => text_block(&lines.join("\n")),
    };
    format!(
        "<div class=\"cause {class}\">\n<p><strong>{headline}</strong></p>\n{}{lines}</div>\n",
        within("dl", &rows),
    )
}

/// Nothing where there is nothing in it.
pub fn within(tag: &str, body: &str) -> String {
    match body {
        "" => String::new(),
        body => format!("<{tag}>\n{body}</{tag}>\n"),
    }
}

/// A link to a file beside the page.
pub fn linked(file: &str) -> String {
    format!("<a href=\"{}\">{}</a>", link(file), shown(file))
}

/// A picture with its caption, which is HTML and links the file: `png` in base64, or none where it is too large for a page.
pub fn figure(file: &str, png: Option<&str>, alt: &str, caption: &str) -> String {
    let picture = match png {
        Some(png) => format!("<img alt=\"{alt}\" src=\"data:image/png;base64,{png}\">"),
        None => "<p class=\"note\">The picture is too large for this page.</p>".into(),
    };
    format!(
        "<figure>\n{picture}\n<figcaption><a href=\"{}\">{caption}</a></figcaption>\n</figure>\n",
        link(file)
    )
}

/// A PNG in base64; none where there is no such file, it is no PNG, or it is too large for a page.
pub fn picture(path: &Path) -> Option<String> {
    let small = fs::metadata(path).ok()?.len() <= LARGEST;
    let bytes = fs::read(path).ok().filter(|_| small)?;
    bytes
        .starts_with(b"\x89PNG\r\n\x1a\n")
        .then(|| BASE64.encode(bytes))
}
