//! What the file says about the medium: the image, the language, the drivers.

use roxmltree::Node;

use winimg_base::diag::Diagnostic;
use winimg_formats::wim::{Image, Release};

use super::{Check, at, components, named, nearest, text, text_at};

pub(super) fn all(check: &mut Check, root: Node) {
    let setups = components(root, Some("windowsPE"), "Microsoft-Windows-Setup");
    if setups.is_empty() {
        check.error(
            root,
            "there is no Microsoft-Windows-Setup in the pass windowsPE: Setup would ask for everything",
        );
    }
    for setup in setups {
        image(check, setup);
    }
    language(check, root);
    for name in [
        "Microsoft-Windows-PnpCustomizationsWinPE",
        "Microsoft-Windows-PnpCustomizationsNonWinPE",
    ] {
        for component in components(root, None, name) {
            drivers(check, component);
        }
    }
    if let Some(path) = check.facts.answer_file_on_medium {
        check.found.push(
            Diagnostic::error(format!(
                "the install medium has an answer file of its own, {path}"
            ))
            .help("Setup could take that one: use an untouched medium"),
        );
    }
}

fn image(check: &mut Check, setup: Node) {
    let metadata: Vec<Node> = at(setup, "ImageInstall/OSImage/InstallFrom")
        .into_iter()
        .flat_map(|f| named(f, "MetaData"))
        .collect();
    let images = check.facts.images;
    if metadata.is_empty() && images.len() > 1 {
        let count = images.len();
        let why = format!("no MetaData chooses among the {count} images of the medium: Setup asks");
        check.error(at(setup, "ImageInstall").unwrap_or(setup), why);
    }
    for one in metadata {
        let (key, value) = (
            text_at(one, "Key").unwrap_or(""),
            text_at(one, "Value").unwrap_or(""),
        );
        let there: fn(&Image) -> String = match key {
            "/IMAGE/NAME" => |i| i.name.clone(),
            "/IMAGE/INDEX" => |i| i.index.to_string(),
            "/IMAGE/DESCRIPTION" => |i| i.description.clone(),
            _ => continue,
        };
        // Without images the medium is not known yet.
        if images.is_empty() || images.iter().any(|i| there(i).eq_ignore_ascii_case(value)) {
            continue;
        }
        let names: Vec<String> = images.iter().map(there).collect();
        let shown = images
            .iter()
            .find(|i| i.display_name.eq_ignore_ascii_case(value));
        let shown = shown.map(|i| {
            let name = &i.name;
            format!("that is what Setup shows; its /IMAGE/NAME is \"{name}\"")
        });
        let near = nearest(value, names.iter().map(String::as_str));
        let node = at(one, "Value").unwrap_or(one);
        let mut complaint =
            Diagnostic::error(format!("the medium has no image with {key} \"{value}\""))
                .at(&check.place(node), "");
        let cures = &mut complaint.problem.cures;
        cures.extend(shown.or(near));
        cures.push(format!("there are: {}", names.join(", ")));
        check.found.push(complaint);
    }
}

/// Setup shows its language page for a language that the medium does not have.
fn language(check: &mut Check, root: Node) {
    let name = "Microsoft-Windows-International-Core-WinPE";
    let found = components(root, Some("windowsPE"), name);
    if found.is_empty() {
        check.error(
            root,
            format!("there is no {name} in the pass windowsPE: Setup shows its language page"),
        );
    }
    let images = check.facts.images.iter();
    let languages: Vec<&String> = images.flat_map(|i| &i.languages).collect();
    for component in found {
        let Some(node) = at(component, "SetupUILanguage/UILanguage") else {
            let why = "there is no SetupUILanguage/UILanguage: Setup shows its language page";
            check.error(component, why);
            continue;
        };
        let wanted = text(node);
        if !languages.is_empty() && !languages.iter().any(|l| l.eq_ignore_ascii_case(wanted)) {
            let mut there: Vec<String> = languages.iter().map(|l| (*l).clone()).collect();
            there.dedup();
            let why = format!("the medium has no language \"{wanted}\"");
            check.error_with_help(node, why, format!("there are: {}", there.join(", ")));
        }
    }
}

/// A folder of another release makes the disk invisible to Setup.
fn drivers(check: &mut Check, component: Node) {
    let wanted = check.facts.release;
    for list in named(component, "DriverPaths") {
        for item in named(list, "PathAndCredentials") {
            let Some(node) = at(item, "Path") else {
                check.error(item, "a driver path without a <Path>");
                continue;
            };
            let other = Release::ALL.into_iter().find(|r| {
                *r != wanted
                    && text(node)
                        .split(['\\', '/'])
                        .any(|part| part.eq_ignore_ascii_case(r.virtio_folder()))
            });
            if let Some(other) = other {
                let folder = wanted.virtio_folder();
                let why =
                    format!("drivers of {other} for an image of {wanted}: its folder is {folder}");
                check.error(node, why);
            }
        }
    }
}
