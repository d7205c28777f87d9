//! References to the medium: the image, the language, the drivers.

use roxmltree::Node;

use winimg_base::diag::Diagnostic;
use winimg_formats::wim::{WimImage, WindowsRelease};

use super::{
    LintRun, find_components, find_element, find_text, iter_children, suggest_nearest, trim_text,
};

pub(super) fn check_medium(check: &mut LintRun, root: Node) {
    let setups = find_components(root, Some("windowsPE"), "Microsoft-Windows-Setup");
    if setups.is_empty() {
        check.error(
            root,
            "there is no Microsoft-Windows-Setup in the windowsPE pass: Setup would prompt \
             for every setting",
        );
    }
    for setup in setups {
        check_image(check, setup);
    }
    check_language(check, root);
    for name in [
        "Microsoft-Windows-PnpCustomizationsWinPE",
        "Microsoft-Windows-PnpCustomizationsNonWinPE",
    ] {
        for component in find_components(root, None, name) {
            check_drivers(check, component);
        }
    }
    if let Some(path) = check.facts.answer_file_on_medium {
        check.found.push(
            Diagnostic::error(format!(
                "the install medium already contains an answer file: {path}"
            ))
            .help("Setup could use that one instead: use an unmodified medium"),
        );
    }
}

fn check_image(check: &mut LintRun, setup: Node) {
    let metadata: Vec<Node> = find_element(setup, "ImageInstall/OSImage/InstallFrom")
        .into_iter()
        .flat_map(|f| iter_children(f, "MetaData"))
        .collect();
    let images = check.facts.images;
    if metadata.is_empty() && images.len() > 1 {
        let count = images.len();
        let why = format!(
            "no MetaData selects one of the medium's {count} images: Setup would ask which one to \
             install"
        );
        check.error(find_element(setup, "ImageInstall").unwrap_or(setup), why);
    }
    for entry in metadata {
        let (key, value) = (
            find_text(entry, "Key").unwrap_or(""),
            find_text(entry, "Value").unwrap_or(""),
        );
        let property: fn(&WimImage) -> String = match key {
            "/IMAGE/NAME" => |i| i.name.clone(),
            "/IMAGE/INDEX" => |i| i.index.to_string(),
            "/IMAGE/DESCRIPTION" => |i| i.description.clone(),
            _ => continue,
        };
        // An empty list means that the medium is not known yet.
        if images.is_empty()
            || images
                .iter()
                .any(|i| property(i).eq_ignore_ascii_case(value))
        {
            continue;
        }
        let names: Vec<String> = images.iter().map(property).collect();
        let display_name_hint = images
            .iter()
            .find(|i| i.display_name.eq_ignore_ascii_case(value))
            .map(|i| {
                let name = &i.name;
                format!("that is the name Setup displays; its /IMAGE/NAME is \"{name}\"")
            });
        let suggestion = suggest_nearest(value, names.iter().map(String::as_str));
        let node = find_element(entry, "Value").unwrap_or(entry);
        let mut diagnostic =
            Diagnostic::error(format!("the medium has no image with {key} \"{value}\""))
                .at(&check.locate(node), "");
        let cures = &mut diagnostic.problem.cures;
        cures.extend(display_name_hint.or(suggestion));
        cures.push(format!("available: {}", names.join(", ")));
        check.found.push(diagnostic);
    }
}

/// Requires one of the languages on the medium: for any other, Setup shows its language page.
fn check_language(check: &mut LintRun, root: Node) {
    let name = "Microsoft-Windows-International-Core-WinPE";
    let found = find_components(root, Some("windowsPE"), name);
    if found.is_empty() {
        check.error(
            root,
            format!("there is no {name} in the windowsPE pass: Setup shows its language page"),
        );
    }
    let images = check.facts.images.iter();
    let languages: Vec<&String> = images.flat_map(|i| &i.languages).collect();
    for component in found {
        let Some(node) = find_element(component, "SetupUILanguage/UILanguage") else {
            let why = "there is no SetupUILanguage/UILanguage: Setup shows its language page";
            check.error(component, why);
            continue;
        };
        let wanted = trim_text(node);
        if !languages.is_empty() && !languages.iter().any(|l| l.eq_ignore_ascii_case(wanted)) {
            let mut available: Vec<String> = languages.iter().map(|l| (*l).clone()).collect();
            available.dedup();
            let why = format!("the medium has no language \"{wanted}\"");
            check.error_with_help(node, why, format!("available: {}", available.join(", ")));
        }
    }
}

/// Rejects drivers for another release, with which Setup would not find the disk.
fn check_drivers(check: &mut LintRun, component: Node) {
    let wanted = check.facts.release;
    for list in iter_children(component, "DriverPaths") {
        for item in iter_children(list, "PathAndCredentials") {
            let Some(node) = find_element(item, "Path") else {
                check.error(item, "PathAndCredentials has no <Path>");
                continue;
            };
            let other = WindowsRelease::ALL.into_iter().find(|r| {
                *r != wanted
                    && trim_text(node)
                        .split(['\\', '/'])
                        .any(|part| part.eq_ignore_ascii_case(r.virtio_folder()))
            });
            if let Some(other) = other {
                let folder = wanted.virtio_folder();
                let why = format!(
                    "drivers for {other}, but the image is {wanted}: use the folder {folder}"
                );
                check.error(node, why);
            }
        }
    }
}
