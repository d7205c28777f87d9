//! XML as untangle sees it: names with their prefixes as written, `:`, `-` and `.` turned to `_`, no namespaces.

use roxmltree::{Document, Node};

/// An element's name as written, in untangle's spelling.
pub fn name(document: &Document<'_>, node: Node<'_, '_>) -> String {
    let text = &document.input_text()[node.range()];
    let end = text
        .find(|c: char| c.is_ascii_whitespace() || matches!(c, '>' | '/'))
        .unwrap_or(text.len());
    text.get(1..end)
        .unwrap_or_default()
        .replace([':', '-', '.'], "_")
}

/// The children with this name.
pub fn children<'a, 'i>(
    document: &Document<'i>,
    node: Node<'a, 'i>,
    wanted: &str,
) -> Vec<Node<'a, 'i>> {
    node.children()
        .filter(|child| child.is_element() && name(document, *child) == wanted)
        .collect()
}

/// The one element at this path below the document; several or none make untangle fail.
pub fn at<'a, 'i>(document: &'a Document<'i>, path: &[&str]) -> Result<Node<'a, 'i>, String> {
    path.iter().try_fold(document.root(), |node, wanted| {
        match children(document, node, wanted)[..] {
            [found] => Ok(found),
            [] => Err(format!("'None' has no attribute '{wanted}'")),
            _ => Err(format!("'list' object: more than one {wanted}")),
        }
    })
}

/// All text of an element.
pub fn cdata(node: Node<'_, '_>) -> String {
    node.children()
        .filter(Node::is_text)
        .filter_map(|text| text.text())
        .collect()
}

/// The attribute whose name is written like this.
pub fn attribute<'a>(document: &Document<'_>, node: Node<'a, '_>, wanted: &str) -> Option<&'a str> {
    node.attributes()
        .find(|held| &document.input_text()[held.range_qname()] == wanted)
        .map(|held| held.value())
}
