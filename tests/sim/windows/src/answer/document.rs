//! The document: well-formed, ASCII, in the right namespace, with the identity attributes every component needs.
//!
//! Sources: Microsoft, Unattended Windows Setup Reference (component attributes, `wcm:action`); Windows Automation
//! Overview (the cached file is `%WINDIR%\Panther\unattend.xml`, passes already run are marked in it).

use std::fmt;

const NAMESPACE: &str = "urn:schemas-microsoft-com:unattend";
const WCM: &str = "http://schemas.microsoft.com/WMIConfig/2002/State";
const IDENTITY: [(&str, &str); 4] = [
    ("processorArchitecture", "amd64"),
    ("publicKeyToken", "31bf3856ad364e35"),
    ("language", "neutral"),
    ("versionScope", "nonSxS"),
];

/// A configuration pass of Windows Setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pass {
    WindowsPe,
    OfflineServicing,
    Generalize,
    Specialize,
    AuditSystem,
    AuditUser,
    OobeSystem,
}

impl Pass {
    pub const ALL: [Pass; 7] = [
        Pass::WindowsPe,
        Pass::OfflineServicing,
        Pass::Generalize,
        Pass::Specialize,
        Pass::AuditSystem,
        Pass::AuditUser,
        Pass::OobeSystem,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Pass::WindowsPe => "windowsPE",
            Pass::OfflineServicing => "offlineServicing",
            Pass::Generalize => "generalize",
            Pass::Specialize => "specialize",
            Pass::AuditSystem => "auditSystem",
            Pass::AuditUser => "auditUser",
            Pass::OobeSystem => "oobeSystem",
        }
    }

    pub fn named(name: &str) -> Option<Pass> {
        Pass::ALL.into_iter().find(|pass| pass.name() == name)
    }
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One element below a component (or the component itself).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    pub name: String,
    /// Text of a leaf with surrounding white space cut; empty for an inner element.
    pub text: String,
    /// `wcm:action`
    pub action: Option<String>,
    /// `wcm:keyValue`
    pub key: Option<String>,
    pub line: u32,
    pub children: Vec<Element>,
}

impl Element {
    pub fn get(&self, path: &str) -> Option<&Element> {
        path.split('/').try_fold(self, |at, name| {
            at.children.iter().find(|child| child.name == name)
        })
    }

    pub fn text(&self, path: &str) -> Option<&str> {
        self.get(path).map(|element| element.text.as_str())
    }

    pub fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    pub fn is_true(&self, path: &str) -> bool {
        self.text(path)
            .is_some_and(|text| text.eq_ignore_ascii_case("true"))
    }

    /// All children of the element at `path` (empty: of this one) that are called `name`.
    pub fn all<'a>(
        &'a self,
        path: &str,
        name: &'a str,
    ) -> impl Iterator<Item = &'a Element> + use<'a> {
        let at = if path.is_empty() {
            Some(self)
        } else {
            self.get(path)
        };
        at.into_iter()
            .flat_map(move |at| at.children.iter().filter(move |child| child.name == name))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub pass: Pass,
    /// `wasPassProcessed="true"`: a cached file whose pass has run.
    pub processed: bool,
    pub components: Vec<Element>,
}

/// A valid answer file. Whether its settings mean anything is for the schema and the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Where it was found, as Windows writes it (`D:\Autounattend.xml`).
    pub path: String,
    /// The file as read.
    pub source: String,
    pub settings: Vec<Settings>,
}

impl Answer {
    /// Reads a file. The error is the reason why Setup calls it invalid.
    pub fn parse(path: &str, bytes: &[u8]) -> Result<Answer, String> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        if let Some(at) = bytes.iter().position(|byte| !byte.is_ascii()) {
            return Err(format!("byte {at} is not ASCII"));
        }
        let source = String::from_utf8(bytes.to_vec()).map_err(|e| e.to_string())?;
        check_encoding(&source)?;
        let tree =
            roxmltree::Document::parse(&source).map_err(|e| format!("not well-formed: {e}"))?;
        let root = tree.root_element();
        if root.tag_name().name() != "unattend" || root.tag_name().namespace() != Some(NAMESPACE) {
            return Err(format!(
                "the root element is not <unattend xmlns=\"{NAMESPACE}\">"
            ));
        }
        let mut settings = Vec::new();
        for node in root.children().filter(roxmltree::Node::is_element) {
            match (node.tag_name().namespace(), node.tag_name().name()) {
                (Some(NAMESPACE), "settings") => settings.push(read_settings(node)?),
                (Some(NAMESPACE) | None, name) => {
                    return Err(at(node, &format!("<{name}> below <unattend>")));
                }
                _ => {} // foreign namespaces are allowed here (offline image hints, tools' own notes)
            }
        }
        let path = path.to_owned();
        Ok(Answer {
            path,
            settings,
            source: source.clone(),
        })
    }

    /// Whether this file holds settings for `pass` that have not run yet.
    pub fn has(&self, pass: Pass) -> bool {
        self.settings.iter().any(|settings| {
            settings.pass == pass && !settings.processed && !settings.components.is_empty()
        })
    }

    pub fn components(&self, pass: Pass) -> impl Iterator<Item = &Element> {
        self.settings
            .iter()
            .filter(move |s| s.pass == pass && !s.processed)
            .flat_map(|s| s.components.iter())
    }

    /// The component `name` of `pass`, its prefix `Microsoft-Windows-` left out.
    pub fn component(&self, pass: Pass, name: &str) -> Option<&Element> {
        self.components(pass).find(|held| {
            held.name
                .strip_prefix("Microsoft-Windows-")
                .unwrap_or(&held.name)
                == name
        })
    }
}

/// MSXML does not switch from bytes of one encoding to another that the declaration names.
fn check_encoding(source: &str) -> Result<(), String> {
    let declaration = source
        .strip_prefix("<?xml")
        .and_then(|rest| rest.split("?>").next());
    let declaration = declaration.unwrap_or_default().to_ascii_lowercase();
    match declaration.split_once("encoding") {
        Some((_, encoding))
            if ["utf-16", "ucs-2", "unicode"]
                .iter()
                .any(|w| encoding.contains(w)) =>
        {
            Err("switch from current encoding to specified encoding not supported".to_owned())
        }
        _ => Ok(()),
    }
}

fn at(node: roxmltree::Node<'_, '_>, what: &str) -> String {
    format!(
        "line {}: {what}",
        node.document().text_pos_at(node.range().start).row
    )
}

fn read_settings(node: roxmltree::Node<'_, '_>) -> Result<Settings, String> {
    let name = node
        .attribute("pass")
        .ok_or_else(|| at(node, "<settings> without pass"))?;
    let pass = Pass::named(name).ok_or_else(|| at(node, &format!("unknown pass {name:?}")))?;
    let mut components: Vec<Element> = Vec::new();
    for child in node.children().filter(roxmltree::Node::is_element) {
        if child.tag_name().name() != "component" || child.tag_name().namespace() != Some(NAMESPACE)
        {
            return Err(at(
                child,
                &format!("<{}> below <settings>", child.tag_name().name()),
            ));
        }
        let name = child
            .attribute("name")
            .ok_or_else(|| at(child, "<component> without name"))?;
        for (attribute, wanted) in IDENTITY {
            let found = child.attribute(attribute);
            if !found.is_some_and(|found| found.eq_ignore_ascii_case(wanted)) {
                let found = found.unwrap_or("missing");
                return Err(at(
                    child,
                    &format!("{name}: {attribute} is {found}, not {wanted}"),
                ));
            }
        }
        if components.iter().any(|other| other.name == name) {
            return Err(at(child, &format!("{name} twice in pass {pass}")));
        }
        let mut element = read_element(child)?;
        element.name = name.to_owned();
        components.push(element);
    }
    let processed = node.attribute("wasPassProcessed") == Some("true");
    Ok(Settings {
        pass,
        processed,
        components,
    })
}

fn read_element(node: roxmltree::Node<'_, '_>) -> Result<Element, String> {
    let mut children = Vec::new();
    for child in node.children().filter(roxmltree::Node::is_element) {
        if child.tag_name().namespace() != Some(NAMESPACE) {
            return Err(at(
                child,
                &format!(
                    "<{}> is not in the unattend namespace",
                    child.tag_name().name()
                ),
            ));
        }
        children.push(read_element(child)?);
    }
    let text: String = node
        .children()
        .filter_map(|child| if child.is_text() { child.text() } else { None })
        .collect();
    if !children.is_empty() && !text.trim().is_empty() {
        return Err(at(
            node,
            &format!(
                "<{}> holds text between its elements",
                node.tag_name().name()
            ),
        ));
    }
    Ok(Element {
        name: node.tag_name().name().to_owned(),
        text: if children.is_empty() {
            text.trim().to_owned()
        } else {
            String::new()
        },
        action: node.attribute((WCM, "action")).map(str::to_owned),
        key: node.attribute((WCM, "keyValue")).map(str::to_owned),
        line: node.document().text_pos_at(node.range().start).row,
        children,
    })
}

/// The copy for `%WINDIR%\Panther`: `done` passes marked as processed, every password of theirs replaced.
pub fn cached(source: &str, done: &[Pass]) -> Result<String, String> {
    let tree = roxmltree::Document::parse(source).map_err(|e| e.to_string())?;
    let mut edits: Vec<(usize, usize, String)> = Vec::new();
    for settings in tree
        .root_element()
        .children()
        .filter(|node| node.has_tag_name((NAMESPACE, "settings")))
    {
        if !settings
            .attribute("pass")
            .and_then(Pass::named)
            .is_some_and(|pass| done.contains(&pass))
        {
            continue;
        }
        if settings.attribute("wasPassProcessed").is_none() {
            let name_end = settings.range().start + "<settings".len();
            edits.push((name_end, name_end, " wasPassProcessed=\"true\"".to_owned()));
        }
        for password in settings
            .descendants()
            .filter(|node| node.tag_name().name().ends_with("Password"))
        {
            let held = password
                .children()
                .find(|child| child.tag_name().name() == "Value")
                .unwrap_or(password);
            for text in held.children().filter(roxmltree::Node::is_text) {
                if held != password || !password.children().any(|child| child.is_element()) {
                    edits.push((
                        text.range().start,
                        text.range().end,
                        "*SENSITIVE*DATA*DELETED*".to_owned(),
                    ));
                }
            }
        }
    }
    edits.sort();
    let mut out = String::with_capacity(source.len() + 64);
    let mut from = 0;
    for (start, end, text) in edits {
        out.push_str(&source[from..start]);
        out.push_str(&text);
        from = end;
    }
    out.push_str(&source[from..]);
    Ok(out)
}
