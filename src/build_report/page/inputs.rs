//! The inputs with their proofs.

use super::super::{BuildReport, ReportInput};
use crate::page::{escape_html, render_headed_table, render_prose};
use winimg_base::event::InputProof;
use winimg_base::text::format_size;

pub fn render_inputs(report: &BuildReport) -> String {
    let rows: String = report.components.iter().map(render_row).collect();
    render_headed_table(
        "inputs",
        &["component", "proved by", "size and digest"],
        &rows,
    )
}

fn render_row(input: &ReportInput) -> String {
    let version = input
        .version
        .as_ref()
        .map(|v| format!(" {}", escape_html(v)));
    let license = input
        .license
        .as_ref()
        .map(|l| format!("<br><span class=\"source\">{}</span>", escape_html(l)));
    format!(
        "<tr><th scope=\"row\">{}{}{}<br><span class=\"source\">{}</span></th>{}\
         <td>{}<br><code>{}</code></td></tr>\n",
        escape_html(&input.name),
        version.unwrap_or_default(),
        license.unwrap_or_default(),
        escape_html(&input.url),
        render_proof(input),
        format_size(input.bytes),
        escape_html(&input.digest)
    )
}

fn render_proof(input: &ReportInput) -> String {
    let class = match &input.proof {
        InputProof::Unverified { .. } => "bad",
        _ => "fine",
    };
    let items: String = input
        .signers
        .iter()
        .map(|s| format!("<li>{}</li>", escape_html(s)))
        .collect();
    let signers = match items.as_str() {
        "" => String::new(),
        items => format!("<ul>{items}</ul>"),
    };
    format!(
        "<td class=\"{class}\">{}{signers}</td>",
        render_prose(&input.proof.to_string())
    )
}
