//! Which component may stand in which pass, which settings it has and what they may hold.
//!
//! The table holds the settings that server images use. A setting that is not in it is refused, as Setup refuses a
//! setting it does not know: the stand-in is not lenient where it is ignorant.
//!
//! Source: Microsoft, Unattended Windows Setup Reference.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::document::{Answer, Element, Pass};

const TABLE: &str = include_str!("schema.txt");

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Any,
    Text(usize),
    Int,
    Bool,
    Ui,
    Reboot,
}

#[derive(Default)]
struct Node {
    leaf: Option<Kind>,
    list: bool,
    keyed: bool,
    children: BTreeMap<&'static str, Node>,
}

struct Component {
    passes: Vec<Pass>,
    root: Node,
}

static SCHEMA: LazyLock<BTreeMap<&'static str, Component>> = LazyLock::new(|| {
    let mut schema: BTreeMap<&str, Component> = BTreeMap::new();
    let mut current = "";
    for line in TABLE
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
    {
        if let Some((path, kind)) = line
            .trim_start()
            .split_once(' ')
            .filter(|_| line.starts_with("  "))
        {
            let Some(component) = schema.get_mut(current) else {
                continue;
            };
            let node = path.split('/').fold(&mut component.root, |at, part| {
                let (name, mark) = part.split_once('[').unwrap_or((part, ""));
                let child = at.children.entry(name).or_default();
                child.list |= !mark.is_empty();
                child.keyed |= mark == "key]";
                child
            });
            node.leaf = Some(kind_named(kind));
        } else if let Some((name, passes)) = line.split_once(": ") {
            current = name;
            let passes = passes.split(' ').filter_map(Pass::named).collect();
            schema.insert(
                name,
                Component {
                    passes,
                    root: Node::default(),
                },
            );
        }
    }
    schema
});

fn kind_named(name: &str) -> Kind {
    match name {
        "int" => Kind::Int,
        "bool" => Kind::Bool,
        "ui" => Kind::Ui,
        "reboot" => Kind::Reboot,
        "any" => Kind::Any,
        _ => Kind::Text(
            name.trim_start_matches("text")
                .parse()
                .unwrap_or(usize::MAX),
        ),
    }
}

/// Checks the settings of one pass. The error says which setting does not exist or does not hold what it may.
pub fn check(answer: &Answer, pass: Pass) -> Result<(), String> {
    for component in answer.components(pass) {
        let known = SCHEMA
            .get(component.name.as_str())
            .ok_or_else(|| format!("unknown component {}", component.name))?;
        if !known.passes.contains(&pass) {
            return Err(format!(
                "component {} does not belong to pass {pass}",
                component.name
            ));
        }
        check_children(component, &known.root, &component.name)?;
    }
    Ok(())
}

/// Settings that Windows carries out and the stand-in does not. A `true` after the path: only that value.
const NOT_MODELLED: [(&str, &str, &str); 11] = [
    ("Setup", "RunSynchronous", ""),
    ("Setup", "RunAsynchronous", ""),
    ("Setup", "UseConfigurationSet", "true"),
    ("Setup", "ImageInstall/OSImage/InstallFrom/Path", ""),
    ("Setup", "ImageInstall/OSImage/Compact", "true"),
    ("Shell-Setup", "CopyProfile", "true"),
    ("Shell-Setup", "LogonCommands", ""),
    ("Deployment", "RunAsynchronous", ""),
    ("Deployment", "Reseal", ""),
    ("Deployment", "Generalize", ""),
    ("Networking-MPSSVC-Svc", "FirewallGroups", ""),
];

/// The first setting of `pass` that the stand-in would have to pass over in silence.
pub fn not_modelled(answer: &Answer, pass: Pass) -> Result<(), String> {
    for (component, path, only) in NOT_MODELLED {
        let element = answer
            .component(pass, component)
            .and_then(|held| held.get(path));
        if element.is_some_and(|element| only.is_empty() || element.text.eq_ignore_ascii_case(only))
        {
            return Err(format!("{component}/{path} in pass {pass}"));
        }
    }
    Ok(())
}

fn check_children(element: &Element, node: &Node, path: &str) -> Result<(), String> {
    let mut keys: Vec<&str> = Vec::new();
    let mut orders: Vec<u64> = Vec::new();
    for child in &element.children {
        let path = format!("{path}/{}", child.name);
        let at = |what: &str| format!("line {}: {path} {what}", child.line);
        let known = node
            .children
            .get(child.name.as_str())
            .ok_or_else(|| at("is not a setting"))?;
        if !known.list
            && element
                .children
                .iter()
                .filter(|other| other.name == child.name)
                .count()
                > 1
        {
            return Err(at("stands there twice"));
        }
        if known.list && child.action.as_deref() != Some("add") {
            return Err(at("is a list item without wcm:action=\"add\""));
        }
        if known.keyed {
            let key = child
                .key
                .as_deref()
                .filter(|key| !key.is_empty())
                .ok_or_else(|| at("has no wcm:keyValue"))?;
            if keys.contains(&key) {
                return Err(at("repeats a wcm:keyValue"));
            }
            keys.push(key);
        }
        if known.list && known.children.contains_key("Order") {
            let order = child
                .number("Order")
                .filter(|order| (1..=500).contains(order));
            let order = order.ok_or_else(|| at("has no Order of 1 to 500"))?;
            if orders.contains(&order) {
                return Err(at("repeats an Order"));
            }
            orders.push(order);
        }
        match known.leaf {
            Some(kind) if child.children.is_empty() => {
                check_leaf(&child.text, kind).map_err(|why| at(&why))?
            }
            Some(_) => return Err(at("holds elements")),
            None if !child.text.is_empty() => return Err(at("holds text")),
            None => check_children(child, known, &path)?,
        }
    }
    Ok(())
}

fn check_leaf(text: &str, kind: Kind) -> Result<(), String> {
    let fits = match kind {
        Kind::Any => true,
        Kind::Text(longest) => !text.is_empty() && text.chars().count() <= longest,
        Kind::Int => text.parse::<u32>().is_ok(),
        Kind::Bool => matches!(text.to_ascii_lowercase().as_str(), "true" | "false"),
        Kind::Ui => matches!(text, "Always" | "Never" | "OnError"),
        Kind::Reboot => matches!(text, "Always" | "Never" | "OnRequest"),
    };
    if fits {
        Ok(())
    } else {
        Err(format!("can't hold {text:?} ({kind:?})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_component_of_the_table_has_a_pass_and_a_setting() {
        for (name, component) in SCHEMA.iter() {
            assert!(
                !component.passes.is_empty() && !component.root.children.is_empty(),
                "{name}"
            );
        }
        assert!(SCHEMA.len() > 20);
    }
}
