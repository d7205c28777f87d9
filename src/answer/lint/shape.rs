//! The form of the file: ASCII, root, passes, components and lists.

use roxmltree::Node;

use winimg_base::diag::{self, Diagnostic};
use winimg_base::markup::{declared_encoding, is_wide_encoding};
use winimg_base::text::Place;

use super::super::schema::{COMPONENTS, KEYED_ITEMS, LIST_ITEMS, ORDERED_ITEMS, PASSES};
use super::{LintRun, NAMESPACE, WCM, find_text, iter_children, suggest_nearest, trim_text};

/// The attributes that identify a component of 64-bit Windows.
const IDENTITY: [(&str, &str); 4] = [
    ("processorArchitecture", "amd64"),
    ("publicKeyToken", "31bf3856ad364e35"),
    ("language", "neutral"),
    ("versionScope", "nonSxS"),
];

/// Reports the first non-ASCII character of each line: Setup's parser is only safe with ASCII.
pub(super) fn check_ascii(check: &mut LintRun, xml: &str) {
    let mut start = 0;
    for line in xml.split_inclusive('\n') {
        if let Some((at, c)) = line.char_indices().find(|(_, c)| !c.is_ascii()) {
            let at = start + at;
            let place = Place::new(&check.source, at..at + c.len_utf8());
            check.found.push(
                Diagnostic::error(format!(
                    "the answer file contains a non-ASCII character, U+{:04X}",
                    u32::from(c)
                ))
                .at(&place, "")
                .help(format!("write it as &#{};", u32::from(c))),
            );
        }
        start += line.len();
    }
}

/// Refuses a declaration of UTF-16 and the like: the file is written in ASCII, which its first line
/// would contradict.
pub(super) fn check_encoding(check: &mut LintRun, xml: &str) {
    let Some(declared) = declared_encoding(xml).filter(|at| is_wide_encoding(&xml[at.clone()]))
    else {
        return;
    };
    let name = &xml[declared.clone()];
    let fact = format!(
        "the answer file declares encoding=\"{name}\", but its bytes are UTF-8: the XML parser of \
         Windows refuses it"
    );
    let place = Place::new(&check.source, declared);
    check.found.push(
        Diagnostic::error(fact)
            .at(&place, "")
            .help("write encoding=\"utf-8\""),
    );
}

/// Checks the root element; returns false if further checks make no sense.
pub(super) fn check_root(check: &mut LintRun, root: Node) -> bool {
    if root.has_tag_name((NAMESPACE, "unattend")) {
        return true;
    }
    check.error_with_help(
        root,
        "the root of an answer file is <unattend> in the namespace \
         urn:schemas-microsoft-com:unattend",
        format!("write <unattend xmlns=\"{NAMESPACE}\">"),
    );
    false
}

pub(super) fn check_settings(check: &mut LintRun, root: Node) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for node in root.children().filter(Node::is_element) {
        if node.tag_name().namespace() != Some(NAMESPACE) {
            continue;
        }
        if node.tag_name().name() != "settings" {
            let name = node.tag_name().name();
            check.error_with_label(
                node,
                format!("<{name}> under <unattend> makes Setup reject the whole file"),
                "only <settings> and elements of other namespaces are allowed",
            );
            continue;
        }
        let pass = node.attribute("pass").unwrap_or("");
        if !PASSES.contains(&pass) {
            let help = suggest_nearest(pass, PASSES);
            check.error_with_help(node, format!("there is no pass \"{pass}\""), help);
            continue;
        }
        for component in node.children().filter(Node::is_element) {
            if !component.has_tag_name((NAMESPACE, "component")) {
                let name = component.tag_name().name();
                check.error(component, format!("<{name}> where <component> belongs"));
                continue;
            }
            let name = component.attribute("name").unwrap_or("");
            if seen.contains(&(pass, name)) {
                check.error(
                    component,
                    format!("{name} appears twice in the {pass} pass"),
                );
            }
            seen.push((pass, name));
            check_identity(check, component, name);
            check_component(check, component, name, pass);
        }
    }
}

fn check_identity(check: &mut LintRun, component: Node, name: &str) {
    if name.is_empty() {
        check.error(component, "a component without a name");
    }
    for (attribute, value) in IDENTITY {
        match component.attribute(attribute) {
            Some(found) if found == value => {}
            Some(found) => check.error(
                component,
                format!("{name} has {attribute}=\"{found}\"; Setup looks for \"{value}\""),
            ),
            None => check.error(component, format!("{name} has no {attribute}=\"{value}\"")),
        }
    }
}

fn check_component(check: &mut LintRun, component: Node, name: &str, pass: &str) {
    if let Some((_, passes)) = COMPONENTS.iter().find(|(known, _)| *known == name) {
        if !passes.contains(&pass) {
            let why = format!("{name} has no settings in the {pass} pass");
            let help = format!("it belongs in {}", passes.join(", "));
            check.error_with_help(component, why, help);
        }
        return;
    }
    let known = COMPONENTS.iter().map(|(known, _)| *known);
    if !is_component_name(name)
        && let Some(help) = suggest_nearest(name, known.clone())
    {
        let why = format!("there is no component \"{name}\": Setup would stop there");
        return check.error_with_help(component, why, help);
    }
    let fact = format!("winimg does not know the component \"{name}\"");
    let mut warning = Diagnostic::warning(fact);
    warning = warning.at(&check.locate(component), "its settings are not checked");
    // The closest name only: Microsoft's own names are similar to each other.
    if let Some(known) = diag::find_nearest(name, known) {
        let help = format!("did you mean \"{known}\"? Setup stops at an unknown component");
        warning = warning.help(help);
    }
    check.found.push(warning);
}

/// Returns true for a name of the form that Microsoft uses: three words or more, separated by
/// dashes, such as `Networking-MPSSVC-Svc`. The table has only the most common ones.
fn is_component_name(name: &str) -> bool {
    name.split('-').count() >= 3
        && name.split('-').all(|word| {
            !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '.')
        })
}

/// Checks `wcm:action`, `wcm:keyValue` and `Order` of list items.
pub(super) fn check_lists(check: &mut LintRun, root: Node) {
    for node in root.descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        if LIST_ITEMS.contains(&name) && node.attribute((WCM, "action")) != Some("add") {
            check.error(node, format!("<{name}> has no wcm:action=\"add\""));
        }
        for item in KEYED_ITEMS {
            check_keys(check, node, item);
        }
        for item in ORDERED_ITEMS {
            check_orders(check, node, item);
        }
    }
}

fn check_keys(check: &mut LintRun, list: Node, item: &'static str) {
    let mut seen = Vec::new();
    for node in iter_children(list, item) {
        match node.attribute((WCM, "keyValue")) {
            None | Some("") => check.error(node, format!("<{item}> has no wcm:keyValue")),
            Some(key) if seen.contains(&key) => check.error_with_label(
                node,
                format!("two <{item}> have the wcm:keyValue \"{key}\""),
                "each needs its own",
            ),
            Some(key) => seen.push(key),
        }
    }
}

fn check_orders(check: &mut LintRun, list: Node, item: &'static str) {
    let items: Vec<Node> = iter_children(list, item).collect();
    let mut numbers = Vec::new();
    for node in &items {
        let Some(order) = iter_children(*node, "Order").next() else {
            check.error(*node, format!("<{item}> has no <Order>"));
            continue;
        };
        match trim_text(order).parse::<u32>() {
            Ok(n) if (1..=500).contains(&n) && !numbers.contains(&n) => numbers.push(n),
            Ok(n) if numbers.contains(&n) => {
                check.error(order, format!("two <{item}> have the Order {n}"));
            }
            _ => check.error(
                order,
                format!(
                    "an Order is a number from 1 to 500, not \"{}\"",
                    trim_text(order)
                ),
            ),
        }
    }
    let count = numbers.len() as u32;
    if let Some(beyond) = items.iter().find(|n| {
        let order = find_text(**n, "Order").and_then(|t| t.parse::<u32>().ok());
        numbers.len() == items.len() && order.is_some_and(|o| o > count)
    }) {
        let order = iter_children(*beyond, "Order").next().unwrap_or(*beyond);
        check.error(
            order,
            format!(
                "the Order {} leaves a gap: {count} <{item}> are numbered from 1 to {count}",
                trim_text(order)
            ),
        );
    }
}
