//! The inputs, each with what proved it.

use super::super::{Component, Story};
use crate::page::{headed_table, prose, shown, size};
use winimg_base::event::Proof;

pub fn components(story: &Story) -> String {
    let rows: String = story.components.iter().map(row).collect();
    headed_table(
        "inputs",
        &["component", "proved by", "size and digest"],
        &rows,
    )
}

fn row(input: &Component) -> String {
    let version = input.version.iter().map(|v| format!(" {}", shown(v)));
    let license = input.license.iter();
    let license = license.map(|l| format!("<br><span class=\"source\">{}</span>", shown(l)));
    format!(
        "<tr><th scope=\"row\">{}{}{}<br><span class=\"source\">{}</span></th>{}<td>{}<br><code>{}</code></td></tr>\n",
        shown(&input.name),
        version.collect::<String>(),
        license.collect::<String>(),
        shown(&input.url),
        proof(input),
        size(input.bytes),
        shown(&input.digest)
    )
}

fn proof(input: &Component) -> String {
    let class = match &input.proof {
        Proof::Unverified { .. } => "bad",
        _ => "fine",
    };
    let signers = input.signers.iter();
    let signers: String = signers.map(|s| format!("<li>{}</li>", shown(s))).collect();
    let signers = match signers.as_str() {
        "" => String::new(),
        items => format!("<ul>{items}</ul>"),
    };
    format!(
        "<td class=\"{class}\">{}{signers}</td>",
        prose(&input.proof.to_string())
    )
}
