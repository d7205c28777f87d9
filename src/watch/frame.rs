//! Renders a served page: the style of the file, its parts in replaceable elements, and one script.
//!
//! Pure.

use std::fmt::Write as _;

use super::board::{PagePart, PageSnapshot};
use crate::page;

const SCRIPT: &str = include_str!("live.js");

/// Policy of a response that is not a page.
pub const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";
/// Policy of a build's file, such as a trial's page with style and pictures but no script.
pub const FILES: &str = "default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; \
                         base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns the policy of a page: only its own script, which may connect only to this server.
pub fn render_policy(nonce: &str) -> String {
    format!("{FILES}; script-src 'nonce-{nonce}'; connect-src 'self'")
}

pub fn render_page(shown: &PageSnapshot, nonce: &str) -> String {
    let mut main = String::new();
    for PagePart { id, html } in &shown.parts {
        // Screen readers announce its changes.
        let role = match id.as_str() {
            "now" => " role=\"status\"",
            _ => "",
        };
        let _ = write!(main, "<div data-part=\"{id}\"{role}>\n{html}</div>\n");
    }
    let body = format!(
        "<p id=\"lost\" role=\"alert\" hidden>The connection to winimg watch is lost: this page is \
         no longer updated.</p>\n\
         <main data-at=\"{}\">\n{main}</main>\n<script nonce=\"{nonce}\">\n{SCRIPT}</script>\n",
        shown.at
    );
    // An empty icon: browsers request a default one otherwise.
    page::wrap_document(&shown.title, "<link rel=\"icon\" href=\"data:,\">\n", &body)
}
