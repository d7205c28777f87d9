//! A comparison in lines for people, as `diff` writes them.
//!
//! Pure. Names come from images: what steers a terminal is made harmless.

use super::{Diff, Difference, How, Kind};
use crate::page::{difference, in_one_line, size};

/// `+` only in the second, `-` only in the first, `~` in both, but not the same.
pub fn text(diff: &Diff) -> String {
    let mut text = format!("- {}\n+ {}\n", in_one_line(&diff.a), in_one_line(&diff.b));
    let mut kind = None;
    for found in &diff.differences {
        if kind != Some(found.kind) {
            text += &format!("\n{}\n", title(found.kind));
            kind = Some(found.kind);
        }
        text += &lines(found);
    }
    if !diff.folders.is_empty() {
        text += "\nSize by folder\n";
    }
    for change in &diff.folders {
        let known = |bytes: Option<u64>| bytes.map_or_else(|| "not listed".into(), size);
        let (before, after) = (known(change.before), known(change.after));
        let by = difference(change.before.unwrap_or(0), change.after.unwrap_or(0));
        text += &format!(
            "~ {}: {before} -> {after} ({by})\n",
            in_one_line(&change.path)
        );
    }
    if diff.is_empty() {
        text += "\nNothing differs in what was compared.\n";
    }
    for (number, lack) in diff.not_compared.iter().enumerate() {
        if number == 0 {
            text += "\nNot compared\n";
        }
        text += &format!("  {}\n", in_one_line(lack));
    }
    text
}

fn lines(found: &Difference) -> String {
    let name = in_one_line(&found.name);
    let said = |value: &Option<String>| {
        value
            .as_deref()
            .map_or_else(|| "nothing".into(), in_one_line)
    };
    let sign = match found.change {
        How::Added => '+',
        How::Removed => '-',
        How::Changed => '~',
    };
    if found.change == How::Changed {
        let fields = found.fields.iter();
        let fields = fields.map(|f| {
            format!(
                "    {}: {} -> {}\n",
                f.name,
                said(&f.before),
                said(&f.after)
            )
        });
        return format!("{sign} {name}\n{}", fields.collect::<String>());
    }
    let known = found.fields.iter();
    let known = known.filter(|f| ["version", "start", "state"].contains(&f.name.as_str()));
    let known: Vec<String> = known
        .map(|f| {
            format!(
                "{} {}",
                f.name,
                said(&f.after.clone().or_else(|| f.before.clone()))
            )
        })
        .collect();
    match known.is_empty() {
        true => format!("{sign} {name}\n"),
        false => format!("{sign} {name} ({})\n", known.join(", ")),
    }
}

fn title(kind: Kind) -> &'static str {
    match kind {
        Kind::Build => "Build",
        Kind::Windows => "Windows",
        Kind::Machine => "Machine",
        Kind::Target => "Targets",
        Kind::Component => "Components",
        Kind::File => "Files",
        Kind::Registry => "Registry",
        Kind::Service => "Services",
        Kind::Feature => "Features and updates",
        Kind::Package => "Windows packages",
        Kind::Setting => "Settings",
        Kind::Artifact => "Artifacts",
    }
}
