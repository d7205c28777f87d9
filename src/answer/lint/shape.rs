//! The form of the file: ASCII, root, passes, components and lists.

use roxmltree::Node;

use winimg_base::diag::{self, Diagnostic};
use winimg_base::markup::{declared_encoding, is_wide_encoding};
use winimg_base::text::Place;

use super::super::schema::{COMPONENTS, KEYED_ITEMS, LIST_ITEMS, ORDERED_ITEMS, PASSES};
use super::{Check, NAMESPACE, WCM, named, nearest, text, text_at};

/// The attributes that identify a component of 64-bit Windows.
const IDENTITY: [(&str, &str); 4] = [
    ("processorArchitecture", "amd64"),
    ("publicKeyToken", "31bf3856ad364e35"),
    ("language", "neutral"),
    ("versionScope", "nonSxS"),
];

/// Setup's parser is only safe with ASCII. The first other character of each line is complained about.
pub(super) fn ascii(check: &mut Check, xml: &str) {
    let mut start = 0;
    for line in xml.split_inclusive('\n') {
        if let Some((at, c)) = line.char_indices().find(|(_, c)| !c.is_ascii()) {
            let at = start + at;
            let place = Place::new(&check.source, at..at + c.len_utf8());
            check.found.push(
                Diagnostic::error(format!(
                    "the answer file holds a character outside ASCII, U+{:04X}",
                    u32::from(c)
                ))
                .at(&place, "")
                .help(format!("write it as &#{};", u32::from(c))),
            );
        }
        start += line.len();
    }
}

/// Refuses a declaration of UTF-16 and the like: the file is written in ASCII, and its first line
/// would deny that.
pub(super) fn encoding(check: &mut Check, xml: &str) {
    let Some(declared) = declared_encoding(xml).filter(|at| is_wide_encoding(&xml[at.clone()]))
    else {
        return;
    };
    let name = &xml[declared.clone()];
    let fact = format!(
        "the answer file declares encoding=\"{name}\", but its bytes are UTF-8: the XML parser of Windows refuses it"
    );
    let place = Place::new(&check.source, declared);
    check.found.push(
        Diagnostic::error(fact)
            .at(&place, "")
            .help("write encoding=\"utf-8\""),
    );
}

/// Whether the root is such that going on makes sense.
pub(super) fn root(check: &mut Check, root: Node) -> bool {
    if root.has_tag_name((NAMESPACE, "unattend")) {
        return true;
    }
    check.error_with_help(
        root,
        "the root of an answer file is <unattend> in the namespace urn:schemas-microsoft-com:unattend",
        format!("write <unattend xmlns=\"{NAMESPACE}\">"),
    );
    false
}

pub(super) fn settings(check: &mut Check, root: Node) {
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
                "only <settings>, or elements of other namespaces",
            );
            continue;
        }
        let pass = node.attribute("pass").unwrap_or("");
        if !PASSES.contains(&pass) {
            let help = nearest(pass, PASSES);
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
                check.error(component, format!("{name} stands twice in the pass {pass}"));
            }
            seen.push((pass, name));
            identity(check, component, name);
            supports(check, component, name, pass);
        }
    }
}

fn identity(check: &mut Check, component: Node, name: &str) {
    if name.is_empty() {
        check.error(component, "a component without a name");
    }
    for (attribute, value) in IDENTITY {
        match component.attribute(attribute) {
            Some(is) if is == value => {}
            Some(is) => check.error(
                component,
                format!("{name} has {attribute}=\"{is}\"; Setup looks for \"{value}\""),
            ),
            None => check.error(component, format!("{name} has no {attribute}=\"{value}\"")),
        }
    }
}

fn supports(check: &mut Check, component: Node, name: &str, pass: &str) {
    if let Some((_, passes)) = COMPONENTS.iter().find(|(known, _)| *known == name) {
        if !passes.contains(&pass) {
            let why = format!("{name} has no settings in the pass {pass}");
            let help = format!("it belongs into {}", passes.join(", "));
            check.error_with_help(component, why, help);
        }
        return;
    }
    let known = COMPONENTS.iter().map(|(known, _)| *known);
    if !is_name_of_component(name)
        && let Some(help) = nearest(name, known.clone())
    {
        let why = format!("there is no component \"{name}\": Setup stops at it");
        return check.error_with_help(component, why, help);
    }
    let fact = format!("winimg does not know the component \"{name}\"");
    let mut warning = Diagnostic::warning(fact);
    warning = warning.at(&check.place(component), "its settings are not checked");
    // A slip or two: Microsoft's own names are alike, too.
    if let Some(known) = diag::nearest(name, known) {
        let help =
            format!("did you mean \"{known}\"? Setup stops at a component that is not there");
        warning = warning.help(help);
    }
    check.found.push(warning);
}

/// Says that a name has the form of Microsoft's: three words or more with dashes between, such as
/// `Networking-MPSSVC-Svc`. The table has only those that images of servers need most.
fn is_name_of_component(name: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '.')
    };
    name.split('-').count() >= 3 && name.split('-').all(is_word)
}

/// `wcm:action`, `wcm:keyValue` and `Order` of list items.
pub(super) fn lists(check: &mut Check, root: Node) {
    for node in root.descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        if LIST_ITEMS.contains(&name) && node.attribute((WCM, "action")) != Some("add") {
            check.error(node, format!("<{name}> has no wcm:action=\"add\""));
        }
        for item in KEYED_ITEMS {
            keys(check, node, item);
        }
        for item in ORDERED_ITEMS {
            orders(check, node, item);
        }
    }
}

fn keys(check: &mut Check, list: Node, item: &'static str) {
    let mut seen = Vec::new();
    for node in named(list, item) {
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

fn orders(check: &mut Check, list: Node, item: &'static str) {
    let items: Vec<Node> = named(list, item).collect();
    let mut numbers = Vec::new();
    for node in &items {
        let Some(order) = named(*node, "Order").next() else {
            check.error(*node, format!("<{item}> has no <Order>"));
            continue;
        };
        match text(order).parse::<u32>() {
            Ok(n) if (1..=500).contains(&n) && !numbers.contains(&n) => numbers.push(n),
            Ok(n) if numbers.contains(&n) => {
                check.error(order, format!("two <{item}> have the Order {n}"));
            }
            _ => check.error(
                order,
                format!(
                    "an Order is a number from 1 to 500, not \"{}\"",
                    text(order)
                ),
            ),
        }
    }
    let count = numbers.len() as u32;
    if let Some(beyond) = items.iter().find(|n| {
        let order = text_at(**n, "Order").and_then(|t| t.parse::<u32>().ok());
        numbers.len() == items.len() && order.is_some_and(|o| o > count)
    }) {
        let order = named(*beyond, "Order").next().unwrap_or(*beyond);
        check.error(
            order,
            format!(
                "the Order {} leaves a gap: {count} <{item}> are numbered from 1 to {count}",
                text(order)
            ),
        );
    }
}
