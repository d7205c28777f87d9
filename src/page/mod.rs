//! The frame that winimg's pages share: one file that needs no other, without scripts and without a network.
//!
//! Pure but for `picture`. The page's own policy forbids scripts and requests; foreign text goes through `shown`.

mod shown;
mod treemap;

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use winimg_base::io;

pub use shown::{clock, in_one_line, link, plain, prose, second, sentence, shown, size};
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

impl Section {
    pub fn html(&self) -> String {
        let Self { id, title, body } = self;
        format!("<section id=\"{id}\">\n<h2>{title}</h2>\n{body}</section>\n")
    }
}

/// A page before it is written or served.
pub struct Page {
    /// Text.
    pub title: String,
    /// HTML that stands above the links.
    pub head: String,
    sections: Vec<Section>,
}

impl Page {
    pub fn new(title: String, head: String, sections: impl IntoIterator<Item = Section>) -> Self {
        let sections = sections.into_iter();
        Self {
            title,
            head,
            sections: sections
                .filter(|section| !section.body.is_empty())
                .collect(),
        }
    }

    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// A link to each section.
    pub fn nav(&self) -> String {
        let link = |Section { id, title, .. }: &Section| format!("<a href=\"#{id}\">{title}</a>\n");
        let links: String = self.sections.iter().map(link).collect();
        format!("<nav>\n{links}</nav>\n")
    }

    /// The whole file.
    pub fn html(&self) -> String {
        let Self { title, head, .. } = self;
        let body: String = self.sections.iter().map(Section::html).collect();
        let policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">\n";
        framed(
            title,
            policy,
            &format!("<main>\n{head}{}{body}</main>\n", self.nav()),
        )
    }
}

/// A document with the pages' style: its title as text, more of its head and its body as HTML.
pub fn framed(title: &str, head: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n{head}\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
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

/// A table under the names of its columns; nothing where it has no rows.
pub fn headed_table(class: &str, columns: &[&str], rows: &str) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let names = columns.iter();
    let names: String = names
        .map(|name| format!("<th scope=\"col\">{name}</th>"))
        .collect();
    table(class, &format!("<tr class=\"head\">{names}</tr>\n{rows}"))
}

/// Something that does not hold: `class` is `error`, `warning` or `unknown`, `headline` HTML, each part a name and a value.
pub fn finding(
    class: &str,
    headline: &str,
    parts: &[(String, String)],
    lines: &[String],
) -> String {
    let lines = match lines.is_empty() {
        true => String::new(),
        false => text_block(&lines.join("\n")),
    };
    format!(
        "<div class=\"cause {class}\">\n<p><strong>{headline}</strong></p>\n{}{lines}</div>\n",
        definitions(parts),
    )
}

/// Names, each with its value: text.
pub fn definitions<N: AsRef<str>>(parts: &[(N, String)]) -> String {
    let row = |(name, value): &(N, String)| {
        format!(
            "<dt>{}</dt><dd>{}</dd>\n",
            shown(name.as_ref()),
            prose(value)
        )
    };
    within("dl", &parts.iter().map(row).collect::<String>())
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
    let bytes = io::read_limited(path, LARGEST).ok()?;
    bytes
        .starts_with(b"\x89PNG\r\n\x1a\n")
        .then(|| BASE64.encode(bytes))
}
