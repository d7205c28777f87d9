//! The children of an element by their names, in AWS' answers.

use roxmltree::Node;

pub fn named<'a, 'i: 'a>(
    node: Node<'a, 'i>,
    name: &'a str,
) -> impl Iterator<Item = Node<'a, 'i>> + 'a {
    node.children().filter(move |n| n.tag_name().name() == name)
}

/// The text of the first one.
pub fn value<'a>(node: Node<'a, '_>, name: &'a str) -> Option<&'a str> {
    let mut children = node.children();
    let found = children.find(|child| child.tag_name().name() == name)?;
    found.text()
}
