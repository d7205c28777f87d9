//! A page as it is served: the same style as the file's, its parts in boxes that are replaced, and one script.
//!
//! Pure.

use std::fmt::Write as _;

use super::board::{Part, Shown};
use crate::page;

const SCRIPT: &str = include_str!("live.js");

/// For an answer that shows nothing.
pub const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'";
/// For a file of the build: a page of a trial with its style and pictures, and no script.
pub const FILES: &str = "default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; \
                         frame-ancestors 'none'";

/// The page's own script alone, which speaks with nobody but this server.
pub fn policy(nonce: &str) -> String {
    format!("{FILES}; script-src 'nonce-{nonce}'; connect-src 'self'")
}

pub fn page(shown: &Shown, nonce: &str) -> String {
    let mut main = String::new();
    for Part { id, html } in &shown.parts {
        // Read out where it changes.
        let role = match id.as_str() {
            "now" => " role=\"status\"",
            _ => "",
        };
        let _ = write!(main, "<div data-part=\"{id}\"{role}>\n{html}</div>\n");
    }
    let body = format!(
        "<p id=\"lost\" role=\"alert\" hidden>The connection to winimg watch is lost: this page is not updated any more.</p>\n\
         <main data-at=\"{}\">\n{main}</main>\n<script nonce=\"{nonce}\">\n{SCRIPT}</script>\n",
        shown.at
    );
    // No icon: browsers ask for one that is not named.
    page::framed(&shown.title, "<link rel=\"icon\" href=\"data:,\">\n", &body)
}
