//! Shared frame of winimg's HTML pages: one self-contained file without scripts or network access.
//!
//! Pure except for reading pictures. Each page's Content-Security-Policy forbids scripts and
//! requests; foreign text is escaped.

mod text;
mod treemap;

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use winimg_base::event::FindingSeverity;
use winimg_base::io;

pub use text::{encode_link, escape_html, format_clock, format_second, render_prose, to_sentence};
pub use treemap::render_treemap;

/// The page of a build, in its output folder.
pub const REPORT: &str = "report.html";

const STYLE: &str = include_str!("page.css");
/// A text with more lines or bytes than this scrolls in its box on some screens (`pre` in
/// page.css).
const SCROLLED_LINES: usize = 12;
const SCROLLED_BYTES: usize = 800;
/// Largest picture embedded in a page, in bytes.
const MAX_PICTURE_SIZE: u64 = 4 << 20;

/// A section of a page, linked at the top.
pub struct PageSection {
    /// Anchor of its link.
    pub id: &'static str,
    pub title: &'static str,
    /// HTML; a section with an empty body is omitted.
    pub body: String,
}

impl PageSection {
    pub fn render(&self) -> String {
        let Self { id, title, body } = self;
        format!("<section id=\"{id}\">\n<h2>{title}</h2>\n{body}</section>\n")
    }
}

/// A page before it is written or served.
pub struct HtmlPage {
    /// Plain text.
    pub title: String,
    /// HTML above the links.
    pub head: String,
    sections: Vec<PageSection>,
}

impl HtmlPage {
    pub fn new(
        title: String,
        head: String,
        sections: impl IntoIterator<Item = PageSection>,
    ) -> Self {
        Self {
            title,
            head,
            sections: sections
                .into_iter()
                .filter(|section| !section.body.is_empty())
                .collect(),
        }
    }

    pub fn sections(&self) -> &[PageSection] {
        &self.sections
    }

    /// Renders a link to each section.
    pub fn render_nav(&self) -> String {
        let links: String = self
            .sections
            .iter()
            .map(|PageSection { id, title, .. }| format!("<a href=\"#{id}\">{title}</a>\n"))
            .collect();
        format!("<nav>\n{links}</nav>\n")
    }

    /// Renders the whole file.
    pub fn render(&self) -> String {
        let Self { title, head, .. } = self;
        let body: String = self.sections.iter().map(PageSection::render).collect();
        let policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
                      img-src data:; style-src 'unsafe-inline'\">\n";
        wrap_document(
            title,
            policy,
            &format!("<main>\n{head}{}{body}</main>\n", self.render_nav()),
        )
    }
}

/// Wraps HTML in a document with the pages' style. `title` is plain text, `head` and `body` are
/// HTML.
pub fn wrap_document(title: &str, head: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n{head}\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escape_html(title)
    )
}

/// Renders preformatted text. A box that may scroll is reachable by keyboard.
pub fn render_text_block(text: &str) -> String {
    let reach = if text.len() > SCROLLED_BYTES || text.lines().count() > SCROLLED_LINES {
        " tabindex=\"0\""
    } else {
        ""
    };
    format!("<pre{reach}>{}</pre>\n", escape_html(text))
}

pub fn render_table(class: &str, rows: &str) -> String {
    match (rows, class) {
        ("", _) => String::new(),
        (rows, "") => format!("<table>\n{rows}</table>\n"),
        (rows, class) => format!("<table class=\"{class}\">\n{rows}</table>\n"),
    }
}

/// Renders a table with column headings, or nothing if it has no rows.
pub fn render_headed_table(class: &str, columns: &[&str], rows: &str) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let names: String = columns
        .iter()
        .map(|name| format!("<th scope=\"col\">{name}</th>"))
        .collect();
    render_table(class, &format!("<tr class=\"head\">{names}</tr>\n{rows}"))
}

/// Returns the first word of a finding's headline.
pub fn severity_word(severity: FindingSeverity) -> &'static str {
    match severity {
        FindingSeverity::Error => "Error",
        FindingSeverity::Warning => "Warning",
        FindingSeverity::Unknown => "Unknown",
    }
}

/// Renders a failed check: `headline` is HTML, each part a name and a value.
pub fn render_finding(
    severity: FindingSeverity,
    headline: &str,
    parts: &[(String, String)],
    lines: &[String],
) -> String {
    let lines = if lines.is_empty() {
        String::new()
    } else {
        render_text_block(&lines.join("\n"))
    };
    format!(
        "<div class=\"cause {}\">\n<p><strong>{headline}</strong></p>\n{}{lines}</div>\n",
        severity.name(),
        render_definitions(parts),
    )
}

/// Renders a definition list. Names and values are plain text.
pub fn render_definitions<N: AsRef<str>>(parts: &[(N, String)]) -> String {
    let rows: String = parts
        .iter()
        .map(|(name, value)| {
            format!(
                "<dt>{}</dt><dd>{}</dd>\n",
                escape_html(name.as_ref()),
                render_prose(value)
            )
        })
        .collect();
    wrap_tag("dl", &rows)
}

/// Wraps `body` in a tag; an empty body gives nothing.
pub fn wrap_tag(tag: &str, body: &str) -> String {
    match body {
        "" => String::new(),
        body => format!("<{tag}>\n{body}</{tag}>\n"),
    }
}

/// Renders a link to a file beside the page.
pub fn render_link(file: &str) -> String {
    format!(
        "<a href=\"{}\">{}</a>",
        encode_link(file),
        escape_html(file)
    )
}

/// Renders a picture whose caption, in HTML, links to the file. `png` is base64, or `None` if it is
/// too large to embed.
pub fn render_figure(file: &str, png: Option<&str>, alt: &str, caption: &str) -> String {
    let picture = match png {
        Some(png) => format!("<img alt=\"{alt}\" src=\"data:image/png;base64,{png}\">"),
        None => "<p class=\"note\">The picture is too large for this page.</p>".into(),
    };
    format!(
        "<figure>\n{picture}\n<figcaption><a href=\"{}\">{caption}</a></figcaption>\n</figure>\n",
        encode_link(file)
    )
}

/// Reads a PNG as base64. Returns `None` if the file does not exist, is no PNG, or is too large to
/// embed.
pub fn read_png_base64(path: &Path) -> Option<String> {
    let bytes = io::read_limited(path, MAX_PICTURE_SIZE).ok()?;
    bytes
        .starts_with(b"\x89PNG\r\n\x1a\n")
        .then(|| BASE64.encode(bytes))
}
