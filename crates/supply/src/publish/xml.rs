//! Helpers for XML answers: children of an element by name.

use roxmltree::Node;

pub fn find_children<'a, 'i: 'a>(
    node: Node<'a, 'i>,
    name: &'a str,
) -> impl Iterator<Item = Node<'a, 'i>> + 'a {
    node.children().filter(move |n| n.tag_name().name() == name)
}

/// Returns the text of the first child with this name.
pub fn read_text<'a>(node: Node<'a, '_>, name: &'a str) -> Option<&'a str> {
    let mut children = node.children();
    let found = children.find(|child| child.tag_name().name() == name)?;
    found.text()
}
