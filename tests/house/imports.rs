//! The paths that a file's code goes through: `use`, expressions and types, groups unfolded. Comments, texts and what stands
//! below `#[cfg(test)]` are no part of it.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Each path that begins with `crate`, `super` or `self`, by its names.
pub fn paths(text: &str) -> Vec<Vec<String>> {
    let tokens: TokenStream = text.parse().expect("Rust");
    let mut found = Vec::new();
    walk(tokens, &mut found);
    found
}

fn walk(tokens: TokenStream, found: &mut Vec<Vec<String>>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Punct(p) if p.as_char() == '#' && is_test(tokens.get(at + 1)) => {
                at = after_item(&tokens, at + 2);
                continue;
            }
            TokenTree::Ident(name) if starts(&tokens, at, &name.to_string()) => {
                at = path(&tokens, at, &mut Vec::new(), found);
                continue;
            }
            TokenTree::Group(group) => walk(group.stream(), found),
            _ => {}
        }
        at += 1;
    }
}

/// `[cfg(test)]`, `[cfg(all(test, unix))]`
fn is_test(token: Option<&TokenTree>) -> bool {
    let Some(TokenTree::Group(group)) = token else {
        return false;
    };
    let text = group.stream().to_string();
    text.starts_with("cfg")
        && text
            .split(|c: char| !c.is_alphanumeric())
            .any(|w| w == "test")
}

/// Behind the item that an attribute stands before: its semicolon, or its braces.
fn after_item(tokens: &[TokenTree], from: usize) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Punct(p) => p.as_char() == ';' || p.as_char() == ',',
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
    };
    let end = tokens[from..].iter().position(ends);
    end.map_or(tokens.len(), |n| from + n + 1)
}

fn starts(tokens: &[TokenTree], at: usize, name: &str) -> bool {
    let follows_path = at > 0
        && matches!(&tokens[at - 1], TokenTree::Punct(p) if p.as_char() == ':')
        && at > 1
        && matches!(&tokens[at - 2], TokenTree::Punct(p) if p.as_char() == ':');
    ["crate", "super", "self"].contains(&name) && !follows_path
}

fn is_separator(tokens: &[TokenTree], at: usize) -> bool {
    let colon = |n| matches!(tokens.get(n), Some(TokenTree::Punct(p)) if p.as_char() == ':');
    colon(at) && colon(at + 1)
}

/// Reads a path from its first name at `at`; where the reading ends.
fn path(
    tokens: &[TokenTree],
    mut at: usize,
    before: &mut Vec<String>,
    found: &mut Vec<Vec<String>>,
) -> usize {
    loop {
        match tokens.get(at) {
            Some(TokenTree::Ident(name)) => before.push(name.to_string()),
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                members(group.stream(), before, found);
                return at + 1;
            }
            _ => break,
        }
        at += 1;
        if !is_separator(tokens, at) {
            break;
        }
        at += 2;
    }
    found.push(before.clone());
    at
}

/// The members of `{a::b, c::{d, e}}`, each behind the path before the brace.
fn members(group: TokenStream, before: &[String], found: &mut Vec<Vec<String>>) {
    let tokens: Vec<TokenTree> = group.into_iter().collect();
    let comma = |t: &TokenTree| matches!(t, TokenTree::Punct(p) if p.as_char() == ',');
    for member in tokens.split(comma).filter(|m| !m.is_empty()) {
        path(member, 0, &mut before.to_vec(), found);
    }
}
