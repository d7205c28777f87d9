//! Checks an answer file before Windows Setup does: what Setup would stop at with a dialog, or pass over in silence, is
//! found here, each at its line of the XML.
//!
//! Refuses to show a password: texts in complaints have theirs blanked.

mod disk;
mod encryption;
mod image;
mod oobe;
mod password;
mod shape;
mod values;

use std::ops::Range;
use std::sync::Arc;

use roxmltree::{Document, Node};

use winimg_base::diag::{Diagnostic, Diagnostics, most_alike};
use winimg_base::markup::holds_secret;
use winimg_base::text::{Place, Source};
use winimg_formats::wim::{Image, MediaFacts, Release};
use winimg_recipe::recipe::Firmware;

use super::Facts;

pub(super) const NAMESPACE: &str = "urn:schemas-microsoft-com:unattend";
pub(super) const WCM: &str = "http://schemas.microsoft.com/WMIConfig/2002/State";

/// What an answer file has to agree with.
#[derive(Clone, Debug)]
pub struct LintFacts<'a> {
    /// How to name the file in complaints.
    pub name: String,
    pub firmware: Firmware,
    pub release: Release,
    /// Whether the install medium is for evaluation.
    pub eval: bool,
    /// Whether the machine has a TPM.
    pub tpm: bool,
    /// Those of the medium; none while the medium is not known.
    pub images: &'a [Image],
    /// An answer file on the install medium itself, which Setup could take instead.
    pub answer_file_on_medium: Option<&'a str>,
}

impl<'a> LintFacts<'a> {
    /// What the file rendered from `facts` for this medium has to agree with. `name` as in [`LintFacts::name`].
    pub fn new(name: impl Into<String>, facts: &Facts, medium: &'a MediaFacts) -> Self {
        Self {
            images: &medium.images.images,
            answer_file_on_medium: medium.answer_file.as_deref(),
            ..Self::without_medium(name, facts)
        }
    }

    /// The same while the medium is not known.
    pub(super) fn without_medium(name: impl Into<String>, facts: &Facts) -> Self {
        Self {
            name: name.into(),
            firmware: facts.firmware,
            release: facts.release,
            eval: facts.eval,
            tpm: facts.tpm,
            images: &[],
            answer_file_on_medium: None,
        }
    }
}

/// Every complaint about an answer file for Setup, in the order of its text.
pub fn lint(xml: &str, facts: &LintFacts) -> Diagnostics {
    judge(xml, facts, |check, root| {
        disk::all(check, root);
        image::all(check, root);
        oobe::all(check, root);
        password::all(check, root);
        encryption::all(check, root);
    })
}

/// Every complaint about an answer file that is given to sysprep: its form, its components and passes, its values.
/// Whether a clone gets through its first start alone is not judged: a cloud's agent may answer the rest.
pub fn lint_clone(name: &str, xml: &str) -> Diagnostics {
    let facts = LintFacts {
        name: name.into(),
        firmware: Firmware::Uefi,
        release: Release::Server2022,
        eval: false,
        tpm: false,
        images: &[],
        answer_file_on_medium: None,
    };
    judge(xml, &facts, |_, _| {})
}

/// What holds for every answer file, then `more`.
fn judge(xml: &str, facts: &LintFacts, more: impl FnOnce(&mut Check, Node)) -> Diagnostics {
    let mut check = Check {
        source: Arc::new(Source::new(facts.name.clone(), without_passwords(xml))),
        facts,
        found: Diagnostics::default(),
    };
    shape::ascii(&mut check, xml);
    shape::encoding(&mut check, xml);
    match Document::parse(xml) {
        Err(e) => check.malformed(xml, &e),
        Ok(document) => {
            let root = document.root_element();
            if shape::root(&mut check, root) {
                shape::settings(&mut check, root);
                shape::lists(&mut check, root);
                values::all(&mut check, root);
                more(&mut check, root);
            }
        }
    }
    let mut found = check.found;
    let start = |d: &Diagnostic| d.problem.place.as_ref().map_or(0, |p| p.span.start);
    found.0.sort_by_key(start);
    found
}

/// A run of checks over one file.
pub(super) struct Check<'a> {
    source: Arc<Source>,
    facts: &'a LintFacts<'a>,
    found: Diagnostics,
}

impl Check<'_> {
    fn error(&mut self, node: Node, message: impl Into<String>) {
        self.error_with_label(node, message, "");
    }

    /// `label` stands beside the place.
    fn error_with_label(&mut self, node: Node, message: impl Into<String>, label: &str) {
        let error = Diagnostic::error(message).at(&self.place(node), label);
        self.found.push(error);
    }

    fn error_with_help(
        &mut self,
        node: Node,
        message: impl Into<String>,
        help: impl Into<Option<String>>,
    ) {
        self.error(node, message);
        if let (Some(help), Some(error)) = (help.into(), self.found.0.last_mut()) {
            error.problem.cures.push(help);
        }
    }

    /// The element's content when that is text, else the name in its opening tag.
    fn place(&self, node: Node) -> Place {
        let range = match node.first_child() {
            Some(text) if text.is_text() && node.children().count() == 1 => trimmed(text),
            _ => {
                let start = node.range().start + 1;
                start..start + node.tag_name().name().len()
            }
        };
        Place::new(&self.source, range)
    }

    fn malformed(&mut self, xml: &str, error: &roxmltree::Error) {
        let position = error.pos();
        let line_start: usize = xml
            .split_inclusive('\n')
            .take(position.row.saturating_sub(1) as usize)
            .map(str::len)
            .sum();
        let column: usize = xml[line_start..]
            .chars()
            .take(position.col.saturating_sub(1) as usize)
            .map(char::len_utf8)
            .sum();
        let at = line_start + column;
        // roxmltree ends its messages with the position, which the place says already.
        let text = error.to_string();
        let text = text.split(" at ").next().unwrap_or(&text).to_string();
        let place = Place::new(&self.source, at..(at + 1).min(xml.len()).max(at));
        self.found.push(
            Diagnostic::error(format!("the answer file is not well-formed XML: {text}"))
                .at(&place, ""),
        );
    }
}

fn trimmed(text: Node) -> Range<usize> {
    let range = text.range();
    let whole = &text.document().input_text()[range.clone()];
    let start = range.start + (whole.len() - whole.trim_start().len());
    start..start.max(range.start + whole.trim_end().len())
}

/// The children of a node that are elements of the answer file's namespace with this name.
pub(super) fn named<'a, 'i>(
    node: Node<'a, 'i>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children()
        .filter(move |n| n.has_tag_name((NAMESPACE, name)))
}

/// The first element at a path of names.
pub(super) fn at<'a, 'i>(node: Node<'a, 'i>, path: &'static str) -> Option<Node<'a, 'i>> {
    path.split('/')
        .try_fold(node, |here, name| named(here, name).next())
}

/// An element's text, trimmed.
pub(super) fn text<'a>(node: Node<'a, '_>) -> &'a str {
    node.text().unwrap_or("").trim()
}

/// The text at a path.
pub(super) fn text_at<'a>(node: Node<'a, '_>, path: &'static str) -> Option<&'a str> {
    at(node, path).map(text)
}

/// The components of a name, over all passes or in one.
pub(super) fn components<'a, 'i>(
    root: Node<'a, 'i>,
    pass: Option<&'static str>,
    name: &'static str,
) -> Vec<Node<'a, 'i>> {
    named(root, "settings")
        .filter(|s| pass.is_none() || s.attribute("pass") == pass)
        .flat_map(|s| named(s, "component"))
        .filter(|c| c.attribute("name") == Some(name))
        .collect()
}

/// The nearest of some names, when it is near enough to be a slip.
pub(super) fn nearest<'n>(
    wanted: &str,
    names: impl IntoIterator<Item = &'n str>,
) -> Option<String> {
    most_alike(wanted, names).map(|n| format!("did you mean \"{n}\"?"))
}

/// The file with the text of every password blanked, byte for byte, so that places stay right. `PlainText` is no password.
/// Works on text, since a file that is not well-formed has to be shown too.
fn without_passwords(xml: &str) -> String {
    let mut out = String::with_capacity(xml.len());
    let mut rest = xml;
    // The element whose text is a secret, and whether the text belongs to `PlainText` in it.
    let (mut secret, mut harmless) = (None::<&str>, false);
    while let Some(open) = rest.find('<') {
        let (text, markup) = rest.split_at(open);
        let is_shown = secret.is_none() || harmless;
        push(&mut out, text, is_shown);
        // In CDATA and in a comment there are no tags.
        let enclosed = [("<![CDATA[", "]]>"), ("<!--", "-->")];
        let enclosed = enclosed.iter().find(|(open, _)| markup.starts_with(open));
        if let Some((open, close)) = enclosed {
            let inside = &markup[open.len()..];
            let end = inside
                .find(close)
                .map_or(markup.len(), |at| at + open.len());
            out.push_str(open);
            push(&mut out, &markup[open.len()..end], is_shown);
            rest = &markup[end..];
            // `-->` and `]]>` begin no tag.
            let len = close.len().min(rest.len());
            out.push_str(&rest[..len]);
            rest = &rest[len..];
            continue;
        }
        let end = markup.find('>').map_or(markup.len(), |end| end + 1);
        let tag = &markup[..end];
        out.push_str(tag);
        rest = &markup[end..];
        let name = tag.trim_matches(['<', '>']).trim_start_matches('/');
        let name = name.split(|c: char| c.is_whitespace() || c == '/').next();
        let name = name.unwrap_or_default();
        let closes = tag.starts_with("</");
        let is_empty = tag.ends_with("/>");
        harmless = !closes && name == "PlainText";
        if closes && secret == Some(name) {
            secret = None;
        } else if !closes && !is_empty && secret.is_none() && holds_secret(name) {
            secret = Some(name);
        }
    }
    push(&mut out, rest, secret.is_none() || harmless);
    out
}

/// Appends a text, or as many asterisks as it has bytes.
fn push(out: &mut String, text: &str, is_shown: bool) {
    if is_shown {
        out.push_str(text);
        return;
    }
    out.extend(text.bytes().map(|b| match b {
        b'\r' | b'\n' | b' ' | b'\t' => char::from(b),
        _ => '*',
    }));
}

#[cfg(test)]
mod tests {
    use super::without_passwords;

    #[test]
    fn every_form_of_a_password_is_blanked_in_its_place() {
        for (xml, expected) in [
            (
                "<Credentials><Domain>d</Domain><Password>Secret-42</Password></Credentials><Path>x</Path>",
                "<Credentials><Domain>d</Domain><Password>*********</Password></Credentials><Path>x</Path>",
            ),
            (
                "<AdministratorPassword><Value>a&amp;b</Value><PlainText>true</PlainText></AdministratorPassword><a>b</a>",
                "<AdministratorPassword><Value>*******</Value><PlainText>true</PlainText></AdministratorPassword><a>b</a>",
            ),
            (
                "<Password>\n <Value><![CDATA[a<b>]]></Value><!-- was c --></Password>d",
                "<Password>\n <Value><![CDATA[****]]></Value><!-- *** * --></Password>d",
            ),
            (
                "<SafeModeAdminPassword>é</SafeModeAdminPassword>",
                "<SafeModeAdminPassword>**</SafeModeAdminPassword>",
            ),
            (
                "<u:MachinePassword x='1'>a</u:MachinePassword>",
                "<u:MachinePassword x='1'>*</u:MachinePassword>",
            ),
            (
                "<AccountData>blob</AccountData>",
                "<AccountData>****</AccountData>",
            ),
            // Nothing is in it, and nothing is blanked behind it.
            ("<Password/><Order>1</Order>", "<Password/><Order>1</Order>"),
            (
                "<Password></Password><Order>1</Order>",
                "<Password></Password><Order>1</Order>",
            ),
            // Not well-formed: what follows may belong to the password.
            ("<Password>a<Order>1", "<Password>*<Order>*"),
            ("<a><!-- <Password> -->b</a>", "<a><!-- <Password> -->b</a>"),
            ("<Password><!-->a", "<Password><!--**"),
        ] {
            assert_eq!(without_passwords(xml), expected);
            assert_eq!(expected.len(), xml.len(), "{xml}");
        }
    }
}
