//! Contents of single elements: types, lengths, product keys, the computer name.

use roxmltree::Node;

use super::super::keys::is_key;
use super::super::schema::{CONTENTS, Content};
use super::{Check, at, components, text};

pub(super) fn all(check: &mut Check, root: Node) {
    for node in root.descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        let parent = node.parent_element().map_or("", |p| p.tag_name().name());
        let content = CONTENTS
            .iter()
            .find(|(path, _)| match path.split_once('/') {
                Some((above, own)) => above == parent && own == name,
                None => *path == name,
            });
        if let Some((_, content)) = content {
            one(check, node, *content);
        }
        match name {
            "Key" if parent == "ProductKey" => product_key(check, node),
            "ProductKey" if node.children().all(|c| !c.is_element()) && parent == "component" => {
                product_key(check, node);
            }
            "ComputerName" => computer_name(check, node),
            "SkipMachineOOBE" | "SkipUserOOBE" => check.error_with_label(
                node,
                format!("{name} leaves Windows Setup half done"),
                "remove it",
            ),
            _ => {}
        }
    }
    eula(check, root);
}

fn one(check: &mut Check, node: Node, content: Content) {
    let (name, value) = (node.tag_name().name(), text(node));
    let number = value.parse::<u64>().ok();
    let complaint = match content {
        Content::Bool if !matches!(value, "true" | "false") => {
            format!("{name} is true or false, not \"{value}\"")
        }
        Content::ZeroOne if !matches!(value, "0" | "1") => {
            format!("{name} is 0 or 1, not \"{value}\"")
        }
        Content::Number(from, to) if number.is_none_or(|n| n < from || n > to) => {
            format!("{name} is a number from {from} to {to}, not \"{value}\"")
        }
        Content::OneOf(values) if !values.contains(&value) => {
            format!("{name} is {}, not \"{value}\"", values.join(", "))
        }
        Content::Text(_) if value.is_empty() => format!("{name} must not be empty"),
        Content::Text(most) if value.chars().count() > most => format!(
            "{name} has {} characters; Windows takes {most}",
            value.chars().count()
        ),
        _ => return,
    };
    check.error(node, complaint);
}

fn product_key(check: &mut Check, node: Node) {
    let key = text(node);
    let leave_out = "leave the element out";
    if key.is_empty() {
        check.error_with_label(node, "an empty product key stops Windows Setup", leave_out);
    } else if check.facts.eval {
        check.error_with_label(node, "evaluation media take no product key", leave_out);
    } else if !is_key(key) {
        check.error(
            node,
            "a product key is five groups of five capital letters and digits with dashes between",
        );
    }
}

fn computer_name(check: &mut Check, node: Node) {
    let name = text(node);
    let length = name.chars().count();
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let problem = match name {
        "*" => return,
        "" => {
            return check.error_with_label(node, "an empty ComputerName", "* makes a random one");
        }
        _ if length > 15 => format!("has {length} characters; Windows takes 15"),
        _ if name.chars().all(|c| c.is_ascii_digit()) => {
            "has digits only, which Windows refuses".into()
        }
        _ if !name.chars().all(fits) || name.starts_with('-') || name.ends_with('-') => {
            "is not letters, digits and inner dashes".into()
        }
        _ => return,
    };
    check.error(node, format!("the ComputerName \"{name}\" {problem}"));
}

/// Setup waits for a click unless the licence terms are accepted.
fn eula(check: &mut Check, root: Node) {
    for setup in components(root, Some("windowsPE"), "Microsoft-Windows-Setup") {
        match at(setup, "UserData/AcceptEula") {
            Some(eula) if text(eula) == "true" => {}
            Some(eula) => check.error(eula, "AcceptEula has to be true: Setup waits for it"),
            None => check.error(setup, "there is no UserData/AcceptEula: Setup waits for it"),
        }
    }
}
