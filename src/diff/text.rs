//! Renders a comparison as text in the style of `diff`.
//!
//! Pure. Names come from images, so terminal escape sequences are removed.

use super::{DiffChange, DiffEntry, DiffKind, ImageDiff};
use winimg_base::display_text::strip_line;
use winimg_base::text::{format_difference, format_size};

/// Renders the comparison: `+` only in the second, `-` only in the first, `~` changed.
pub fn render(diff: &ImageDiff) -> String {
    let mut text = format!("- {}\n+ {}\n", strip_line(&diff.a), strip_line(&diff.b));
    let mut kind = None;
    for found in &diff.differences {
        if kind != Some(found.kind) {
            text += &format!("\n{}\n", title(found.kind));
            kind = Some(found.kind);
        }
        text += &render_entry(found);
    }
    if !diff.folders.is_empty() {
        text += "\nSize by folder\n";
    }
    for change in &diff.folders {
        let before = change
            .before
            .map_or_else(|| "not listed".into(), format_size);
        let after = change
            .after
            .map_or_else(|| "not listed".into(), format_size);
        let by = format_difference(change.before.unwrap_or(0), change.after.unwrap_or(0));
        text += &format!(
            "~ {}: {before} -> {after} ({by})\n",
            strip_line(&change.path)
        );
    }
    if diff.is_empty() {
        text += "\nNo differences.\n";
    }
    if !diff.not_compared.is_empty() {
        text += "\nNot compared\n";
    }
    for reason in &diff.not_compared {
        text += &format!("  {}\n", strip_line(reason));
    }
    text
}

fn render_entry(found: &DiffEntry) -> String {
    let name = strip_line(&found.name);

    let sign = match found.change {
        DiffChange::Added => '+',
        DiffChange::Removed => '-',
        DiffChange::Changed => '~',
    };
    if found.change == DiffChange::Changed {
        let fields: String = found
            .fields
            .iter()
            .map(|f| {
                format!(
                    "    {}: {} -> {}\n",
                    f.name,
                    format_value(f.before.as_deref()),
                    format_value(f.after.as_deref())
                )
            })
            .collect();
        return format!("{sign} {name}\n{fields}");
    }
    let known: Vec<String> = found
        .fields
        .iter()
        .filter(|f| ["version", "start", "state"].contains(&f.name.as_str()))
        .map(|f| {
            let value = f.after.as_deref().or(f.before.as_deref());
            format!("{} {}", f.name, format_value(value))
        })
        .collect();
    if known.is_empty() {
        format!("{sign} {name}\n")
    } else {
        format!("{sign} {name} ({})\n", known.join(", "))
    }
}

fn format_value(value: Option<&str>) -> String {
    value.map_or_else(|| "nothing".into(), strip_line)
}

fn title(kind: DiffKind) -> &'static str {
    match kind {
        DiffKind::Build => "Build",
        DiffKind::Windows => "Windows",
        DiffKind::Machine => "Machine",
        DiffKind::Target => "Targets",
        DiffKind::Component => "Components",
        DiffKind::File => "Files",
        DiffKind::Registry => "Registry",
        DiffKind::Service => "Services",
        DiffKind::Feature => "Features and updates",
        DiffKind::Package => "Windows packages",
        DiffKind::Setting => "Settings",
        DiffKind::Artifact => "Artifacts",
    }
}
