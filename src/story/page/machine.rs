//! What the build ran on, what the machine's programs said, and the files of the folder.

use super::super::Story;
use super::failed::part;
use crate::engine::evidence::{DEBUG, FOLDER};
use crate::page::{definitions, size, table, treemap};

pub fn machine(story: &Story) -> String {
    let mut out = definitions(&facts(story));
    let parts = story.failure.iter();
    let parts = parts.flat_map(|failure| failure.agent.iter().chain(&failure.machine));
    out.extend(parts.map(|said| part(story, said)));
    let debug = format!("{FOLDER}/{DEBUG}");
    if story.failure.is_some() && story.files.iter().any(|(file, _)| *file == debug) {
        out += &format!(
            "<p class=\"source\">What was decided, requested and answered on the way: {}</p>\n",
            story.linked(&debug)
        );
    }
    out
}

fn facts(story: &Story) -> Vec<(&'static str, String)> {
    let (course, built) = (&story.course, story.built.as_ref());
    let tool = built.map(|m| match &m.tool.commit {
        Some(commit) => format!("{} ({commit})", m.tool.version),
        None => m.tool.version.clone(),
    });
    let machine = built.and_then(|m| m.machine.as_ref()).map(|machine| {
        let on = |is_on, what: &str| match is_on {
            true => format!(", {what}"),
            false => format!(", no {what}"),
        };
        format!(
            "{}{}{}",
            machine.firmware.word(),
            on(machine.secure_boot, "Secure Boot"),
            on(machine.tpm, "TPM")
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
    let remarks = built.iter().flat_map(|m| &m.host.remarks);
    let recipe = built.map(|m| format!("{}, {}", m.recipe.path, m.recipe.digest));
    let facts = [
        ("winimg", tool.or_else(|| course.winimg.clone())),
        ("recipe", recipe.or_else(|| course.recipe_path.clone())),
        ("Windows", windows.or_else(|| course.media.clone())),
        ("host", host.or_else(|| course.host.clone())),
        ("machine", machine),
        ("targets", built.map(|m| m.targets.join(", "))),
    ];
    let facts = facts.into_iter();
    let facts = facts.filter_map(|(name, value)| Some((name, value.filter(|v| !v.is_empty())?)));
    let remarks = remarks.map(|remark| ("remark", remark.clone()));
    facts.chain(remarks).collect()
}

/// What the Windows volume holds, and what each layer added.
pub fn usage(story: &Story) -> String {
    story.usage.as_ref().map_or_else(String::new, treemap)
}

pub fn files(story: &Story) -> String {
    let row = |(file, bytes): &(String, u64)| {
        let (file, size) = (story.linked(file), size(*bytes));
        format!("<tr><td class=\"files\">{file}</td><td>{size}</td></tr>\n")
    };
    let rows: String = story.files.iter().map(row).collect();
    table("", &rows)
}
