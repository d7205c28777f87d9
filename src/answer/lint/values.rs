//! Contents of single elements: types, lengths, product keys, the computer name.

use roxmltree::Node;

use super::super::keys::is_key;
use super::super::schema::{AllowedText, CONTENTS};
use super::{LintRun, find_components, find_element, trim_text};

pub(super) fn check_values(check: &mut LintRun, root: Node) {
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
            check_value(check, node, *content);
        }
        match name {
            "Key" if parent == "ProductKey" => check_product_key(check, node),
            "ProductKey" if node.children().all(|c| !c.is_element()) && parent == "component" => {
                check_product_key(check, node);
            }
            "ComputerName" => check_computer_name(check, node),
            "SkipMachineOOBE" | "SkipUserOOBE" => check.error_with_label(
                node,
                format!("{name} leaves Windows Setup unfinished"),
                "remove it",
            ),
            _ => {}
        }
    }
    check_eula(check, root);
}

fn check_value(check: &mut LintRun, node: Node, content: AllowedText) {
    let (name, value) = (node.tag_name().name(), trim_text(node));
    let number = value.parse::<u64>().ok();
    let complaint = match content {
        AllowedText::Bool if !matches!(value, "true" | "false") => {
            format!("{name} is true or false, not \"{value}\"")
        }
        AllowedText::ZeroOne if !matches!(value, "0" | "1") => {
            format!("{name} is 0 or 1, not \"{value}\"")
        }
        AllowedText::Number(from, to) if number.is_none_or(|n| n < from || n > to) => {
            format!("{name} is a number from {from} to {to}, not \"{value}\"")
        }
        AllowedText::OneOf(values) if !values.contains(&value) => {
            format!("{name} is {}, not \"{value}\"", values.join(", "))
        }
        AllowedText::Text(_) if value.is_empty() => format!("{name} must not be empty"),
        AllowedText::Text(most) if value.chars().count() > most => format!(
            "{name} has {} characters; the limit is {most}",
            value.chars().count()
        ),
        _ => return,
    };
    check.error(node, complaint);
}

fn check_product_key(check: &mut LintRun, node: Node) {
    let key = trim_text(node);
    let leave_out = "remove the element";
    if key.is_empty() {
        check.error_with_label(node, "an empty product key stops Windows Setup", leave_out);
    } else if check.facts.eval {
        check.error_with_label(node, "evaluation media take no product key", leave_out);
    } else if !is_key(key) {
        check.error(
            node,
            "a product key is five groups of five uppercase letters and digits, separated by \
             dashes",
        );
    }
}

fn check_computer_name(check: &mut LintRun, node: Node) {
    let name = trim_text(node);
    let length = name.chars().count();
    let problem = match name {
        "*" => return,
        "" => {
            return check.error_with_label(node, "an empty ComputerName", "use * for a random one");
        }
        _ if length > 15 => format!("has {length} characters; the limit is 15"),
        _ if name.chars().all(|c| c.is_ascii_digit()) => {
            "has digits only, which Windows refuses".into()
        }
        _ if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            || name.starts_with('-')
            || name.ends_with('-') =>
        {
            "may contain only letters, digits and inner dashes".into()
        }
        _ => return,
    };
    check.error(node, format!("the ComputerName \"{name}\" {problem}"));
}

/// Requires the licence terms to be accepted: otherwise Setup waits for input.
fn check_eula(check: &mut LintRun, root: Node) {
    for setup in find_components(root, Some("windowsPE"), "Microsoft-Windows-Setup") {
        match find_element(setup, "UserData/AcceptEula") {
            Some(eula) if trim_text(eula) == "true" => {}
            Some(eula) => check.error(eula, "AcceptEula has to be true: Setup waits for it"),
            None => check.error(setup, "there is no UserData/AcceptEula: Setup waits for it"),
        }
    }
}
