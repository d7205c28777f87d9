//! The machine and versions of the build, the machine's logs, and the files of the folder.

use super::super::BuildReport;
use super::failure::render_log_part;
use crate::engine::evidence::{DEBUG, FOLDER};
use crate::page::{render_definitions, render_table, render_treemap};
use winimg_base::text::format_size;

pub fn render_machine(report: &BuildReport) -> String {
    let mut out = render_definitions(&list_facts(report));
    out.extend(
        report
            .failure
            .iter()
            .flat_map(|failure| failure.agent.iter().chain(&failure.machine))
            .map(|log| render_log_part(report, log)),
    );
    let debug = format!("{FOLDER}/{DEBUG}");
    if report.failure.is_some() && report.files.iter().any(|(file, _)| *file == debug) {
        out += &format!(
            "<p class=\"source\">Debug log: {}</p>\n",
            report.render_link(&debug)
        );
    }
    out
}

fn list_facts(report: &BuildReport) -> Vec<(&'static str, String)> {
    let (timeline, built) = (&report.timeline, report.built.as_ref());
    let tool = built.map(|m| match &m.tool.commit {
        Some(commit) => format!("{} ({commit})", m.tool.version),
        None => m.tool.version.clone(),
    });
    let machine = built.and_then(|m| m.machine.as_ref()).map(|machine| {
        format!(
            "{}, {}Secure Boot, {}TPM",
            machine.firmware.as_str(),
            if machine.secure_boot { "" } else { "no " },
            if machine.tpm { "" } else { "no " }
        )
    });
    let windows = built.map(|m| {
        let w = &m.windows;
        format!(
            "{}, {} {}, {}",
            w.display_name, w.edition, w.build, w.language
        )
    });
    let host = built.map(|m| format!("{}, {}", m.host.qemu, m.host.accelerator));
    let remarks = built
        .iter()
        .flat_map(|m| &m.host.remarks)
        .map(|remark| ("remark", remark.clone()));
    let recipe = built.map(|m| format!("{}, {}", m.recipe.path, m.recipe.digest));
    let facts = [
        ("winimg", tool.or_else(|| timeline.winimg.clone())),
        ("recipe", recipe.or_else(|| timeline.recipe_path.clone())),
        ("Windows", windows.or_else(|| timeline.media.clone())),
        ("host", host.or_else(|| timeline.host.clone())),
        ("machine", machine),
        ("targets", built.map(|m| m.targets.join(", "))),
    ];
    facts
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.filter(|v| !v.is_empty())?)))
        .chain(remarks)
        .collect()
}

/// Renders the disk usage of the Windows volume, and the files that each layer added.
pub fn render_usage(report: &BuildReport) -> String {
    report
        .usage
        .as_ref()
        .map_or_else(String::new, render_treemap)
}

pub fn render_files(report: &BuildReport) -> String {
    let rows: String = report
        .files
        .iter()
        .map(|(file, bytes)| {
            let (file, size) = (report.render_link(file), format_size(*bytes));
            format!("<tr><td class=\"files\">{file}</td><td>{size}</td></tr>\n")
        })
        .collect();
    render_table("", &rows)
}
