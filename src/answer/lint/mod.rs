//! Checks an answer file before Windows Setup does: reports mistakes at which Setup would show a
//! dialog or which it would silently ignore, each at its line of the XML.
//!
//! Never shows a password: quoted lines have theirs blanked.

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

use winimg_base::diag::{Diagnostic, Diagnostics, find_most_similar};
use winimg_base::markup::is_secret_element;
use winimg_base::text::{Place, SourceText};
use winimg_formats::wim::{MediaFacts, WimImage, WindowsRelease};
use winimg_recipe::Firmware;

use super::AnswerFacts;

pub(super) const NAMESPACE: &str = "urn:schemas-microsoft-com:unattend";
pub(super) const WCM: &str = "http://schemas.microsoft.com/WMIConfig/2002/State";

/// Facts about the machine and the medium that an answer file has to match.
#[derive(Clone, Debug)]
pub struct LintFacts<'a> {
    /// Name of the file in diagnostics.
    pub name: String,
    pub firmware: Firmware,
    pub release: WindowsRelease,
    /// The install medium is for evaluation.
    pub eval: bool,
    /// The machine has a TPM.
    pub tpm: bool,
    /// Images of the medium; empty while the medium is not known.
    pub images: &'a [WimImage],
    /// An answer file on the install medium itself, which Setup could use instead.
    pub answer_file_on_medium: Option<&'a str>,
}

impl<'a> LintFacts<'a> {
    /// Returns the facts for the file rendered from `facts` for this medium.
    pub fn new(name: impl Into<String>, facts: &AnswerFacts, medium: &'a MediaFacts) -> Self {
        Self {
            images: &medium.images.images,
            answer_file_on_medium: medium.answer_file.as_deref(),
            ..Self::without_medium(name, facts)
        }
    }

    /// Returns the facts while the medium is not known.
    pub(super) fn without_medium(name: impl Into<String>, facts: &AnswerFacts) -> Self {
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

/// Lints an answer file for Setup. The diagnostics are in the order of its text.
pub fn lint(xml: &str, facts: &LintFacts) -> Diagnostics {
    run_checks(xml, facts, |check, root| {
        disk::check_disks(check, root);
        image::check_medium(check, root);
        oobe::check_oobe(check, root);
        password::check_passwords(check, root);
        encryption::check_encryption(check, root);
    })
}

/// Lints an answer file for sysprep: its form, its components and passes, its values. Does not
/// require it to be complete, because a cloud's agent may answer the rest on a clone's first boot.
pub fn lint_clone(name: &str, xml: &str) -> Diagnostics {
    let facts = LintFacts {
        name: name.into(),
        firmware: Firmware::Uefi,
        release: WindowsRelease::Server2022,
        eval: false,
        tpm: false,
        images: &[],
        answer_file_on_medium: None,
    };
    run_checks(xml, &facts, |_, _| {})
}

/// Runs the checks for every answer file, then `more`.
fn run_checks(xml: &str, facts: &LintFacts, more: impl FnOnce(&mut LintRun, Node)) -> Diagnostics {
    let mut check = LintRun {
        source: Arc::new(SourceText::new(facts.name.clone(), redact_passwords(xml))),
        facts,
        found: Diagnostics::default(),
    };
    shape::check_ascii(&mut check, xml);
    shape::check_encoding(&mut check, xml);
    match Document::parse(xml) {
        Err(e) => check.report_malformed(xml, &e),
        Ok(document) => {
            let root = document.root_element();
            if shape::check_root(&mut check, root) {
                shape::check_settings(&mut check, root);
                shape::check_lists(&mut check, root);
                values::check_values(&mut check, root);
                more(&mut check, root);
            }
        }
    }
    let mut found = check.found;
    found
        .0
        .sort_by_key(|d| d.problem.place.as_ref().map_or(0, |p| p.span.start));
    found
}

/// The state of linting one file.
pub(super) struct LintRun<'a> {
    source: Arc<SourceText>,
    facts: &'a LintFacts<'a>,
    found: Diagnostics,
}

impl LintRun<'_> {
    fn error(&mut self, node: Node, message: impl Into<String>) {
        self.error_with_label(node, message, "");
    }

    /// Adds an error with a label next to its place.
    fn error_with_label(&mut self, node: Node, message: impl Into<String>, label: &str) {
        let error = Diagnostic::error(message).at(&self.locate(node), label);
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

    /// Returns the place of the element's text, or of the name in its opening tag.
    fn locate(&self, node: Node) -> Place {
        let range = match node.first_child() {
            Some(text) if text.is_text() && node.children().count() == 1 => trim_range(text),
            _ => {
                let start = node.range().start + 1;
                start..start + node.tag_name().name().len()
            }
        };
        Place::new(&self.source, range)
    }

    fn report_malformed(&mut self, xml: &str, error: &roxmltree::Error) {
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
        // roxmltree ends its messages with the position, which the place already shows.
        let text = error.to_string();
        let text = text.split(" at ").next().unwrap_or(&text).to_string();
        let place = Place::new(&self.source, at..(at + 1).min(xml.len()).max(at));
        self.found.push(
            Diagnostic::error(format!("the answer file is not well-formed XML: {text}"))
                .at(&place, ""),
        );
    }
}

fn trim_range(text: Node) -> Range<usize> {
    let range = text.range();
    let whole = &text.document().input_text()[range.clone()];
    let start = range.start + (whole.len() - whole.trim_start().len());
    start..start.max(range.start + whole.trim_end().len())
}

/// Returns the child elements with this name in the answer file's namespace.
pub(super) fn iter_children<'a, 'i>(
    node: Node<'a, 'i>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children()
        .filter(move |n| n.has_tag_name((NAMESPACE, name)))
}

/// Finds the first element at a path of names.
pub(super) fn find_element<'a, 'i>(node: Node<'a, 'i>, path: &'static str) -> Option<Node<'a, 'i>> {
    path.split('/')
        .try_fold(node, |here, name| iter_children(here, name).next())
}

/// Returns an element's text, trimmed.
pub(super) fn trim_text<'a>(node: Node<'a, '_>) -> &'a str {
    node.text().unwrap_or("").trim()
}

/// Returns the text at a path.
pub(super) fn find_text<'a>(node: Node<'a, '_>, path: &'static str) -> Option<&'a str> {
    find_element(node, path).map(trim_text)
}

/// Finds the components with a name, in all passes or in one.
pub(super) fn find_components<'a, 'i>(
    root: Node<'a, 'i>,
    pass: Option<&'static str>,
    name: &'static str,
) -> Vec<Node<'a, 'i>> {
    iter_children(root, "settings")
        .filter(|s| pass.is_none() || s.attribute("pass") == pass)
        .flat_map(|s| iter_children(s, "component"))
        .filter(|c| c.attribute("name") == Some(name))
        .collect()
}

/// Suggests the most similar name if the difference may be a typo.
pub(super) fn suggest_nearest<'n>(
    wanted: &str,
    names: impl IntoIterator<Item = &'n str>,
) -> Option<String> {
    find_most_similar(wanted, names).map(|n| format!("did you mean \"{n}\"?"))
}

/// Blanks the text of every password byte for byte, so that places stay valid; `PlainText` is not
/// one. Works on text, since a file that is not well-formed has to be shown too.
fn redact_passwords(xml: &str) -> String {
    let mut out = String::with_capacity(xml.len());
    let mut rest = xml;
    // `secret` is the element whose text is secret; `harmless` is true inside its `PlainText`.
    let (mut secret, mut harmless) = (None::<&str>, false);
    while let Some(open) = rest.find('<') {
        let (text, markup) = rest.split_at(open);
        let is_shown = secret.is_none() || harmless;
        push_text(&mut out, text, is_shown);
        // CDATA sections and comments contain no tags.
        let enclosed = [("<![CDATA[", "]]>"), ("<!--", "-->")]
            .into_iter()
            .find(|(open, _)| markup.starts_with(open));
        if let Some((open, close)) = enclosed {
            let inside = &markup[open.len()..];
            let end = inside
                .find(close)
                .map_or(markup.len(), |at| at + open.len());
            out.push_str(open);
            push_text(&mut out, &markup[open.len()..end], is_shown);
            rest = &markup[end..];
            // `-->` and `]]>` start no tag.
            let len = close.len().min(rest.len());
            out.push_str(&rest[..len]);
            rest = &rest[len..];
            continue;
        }
        let end = markup.find('>').map_or(markup.len(), |end| end + 1);
        let tag = &markup[..end];
        out.push_str(tag);
        rest = &markup[end..];
        let name = tag
            .trim_matches(['<', '>'])
            .trim_start_matches('/')
            .split(|c: char| c.is_whitespace() || c == '/')
            .next()
            .unwrap_or_default();
        let closes = tag.starts_with("</");
        let is_empty = tag.ends_with("/>");
        harmless = !closes && name == "PlainText";
        if closes && secret == Some(name) {
            secret = None;
        } else if !closes && !is_empty && secret.is_none() && is_secret_element(name) {
            secret = Some(name);
        }
    }
    push_text(&mut out, rest, secret.is_none() || harmless);
    out
}

/// Appends a text, or an asterisk for each of its bytes.
fn push_text(out: &mut String, text: &str, is_shown: bool) {
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
    use super::redact_passwords;

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
            assert_eq!(redact_passwords(xml), expected);
            assert_eq!(expected.len(), xml.len(), "{xml}");
        }
    }
}
