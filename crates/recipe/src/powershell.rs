//! Checks the syntax of PowerShell scripts with the tree-sitter grammar; PowerShell itself is not
//! used.
//!
//! The grammar misreads a few valid forms, such as `tool.exe --flag="a b"`, so the results are only
//! warnings.

use std::ops::Range;

use tree_sitter::{Node, Parser};

/// Maximum number of reported errors: those after the first are often consequential.
const MAX_ERRORS: usize = 3;

/// A syntax error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxFault {
    /// Byte range in the script.
    pub span: Range<usize>,
    /// Counted from 1.
    pub line: usize,
    /// Characters, counted from 1.
    pub column: usize,
    /// The missing token, if the grammar knows it.
    pub missing: Option<String>,
}

/// Finds the first syntax errors, in the script's order.
pub fn find_faults(script: &str) -> Vec<SyntaxFault> {
    let mut parser = Parser::new();
    let language = tree_sitter_powershell::LANGUAGE.into();
    let tree = match parser.set_language(&language) {
        Ok(()) => parser.parse(script, None),
        Err(_) => None,
    };
    let mut found = Vec::new();
    if let Some(tree) = tree.filter(|t| t.root_node().has_error()) {
        collect(tree.root_node(), script, &mut found);
    }
    found
}

fn collect(node: Node<'_>, script: &str, found: &mut Vec<SyntaxFault>) {
    if found.len() == MAX_ERRORS || !node.has_error() {
        return;
    }
    if node.is_error() || node.is_missing() {
        let span = node.byte_range();
        let before = script.get(..span.start).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        found.push(SyntaxFault {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
            missing: node.is_missing().then(|| node.kind().to_string()),
            span,
        });
        return;
    }
    let mut cursor = node.walk();
    for child in node.children(&mut cursor) {
        collect(child, script, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_their_line_and_column() {
        let shown = |script: &str| -> Vec<(usize, usize)> {
            find_faults(script)
                .iter()
                .map(|f| (f.line, f.column))
                .collect()
        };
        assert_eq!(shown("Get-Item 'C:\\x'\nif ($x) { exit 3 }\n"), []);
        assert_eq!(shown("$a = 1\nif $a { exit 1 }\n").len(), 1);
        assert_eq!(shown("$a = 1\nif $a { exit 1 }\n")[0].0, 2);
        assert_eq!(
            shown("foreach ($x in $y) {\n  $x\n")
                .first()
                .map(|f| f.0 > 0),
            Some(true)
        );
    }
}
