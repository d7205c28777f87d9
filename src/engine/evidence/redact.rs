//! Secrets taken out of everything that is kept: the build's own by their bytes, foreign ones by where they stand.
//!
//! Refuses to guess what a secret might be; an answer file that can't be taken apart is left out whole.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use roxmltree::{Document, Node};

use winimg_base::markup::{escape_xml, holds_secret};
use winimg_base::text::{Secret, masked};

const MARK: &str = "•••";
/// What Setup itself leaves of a password (Microsoft: "Windows Setup Automation Overview").
const DELETED: &str = "*SENSITIVE*DATA*DELETED*";

/// The secrets of one build in every form in which Windows, QEMU or a log may write them.
pub struct Redactor {
    /// A form and what stands in for it; longer ones first, so that none is left in part.
    forms: Vec<(Vec<u8>, Vec<u8>)>,
    begins: [bool; 256],
}

impl Default for Redactor {
    fn default() -> Self {
        Self {
            forms: Vec::new(),
            begins: [false; 256],
        }
    }
}

impl Redactor {
    pub fn new(secrets: &[Secret]) -> Self {
        let mut redactor = Self::default();
        redactor.add(secrets);
        redactor
    }

    pub fn add(&mut self, secrets: &[Secret]) {
        let secrets = secrets.iter().map(Secret::expose);
        let forms = secrets.filter(|secret| !secret.is_empty()).flat_map(forms);
        self.forms.extend(forms);
        let longest_first = |(form, _): &(Vec<u8>, Vec<u8>)| std::cmp::Reverse(form.len());
        self.forms.sort_by_key(longest_first);
        self.forms.dedup();
        for (form, _) in &self.forms {
            self.begins[usize::from(form[0])] = true;
        }
    }

    /// Bytes of any encoding.
    pub fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let here = self.begins[usize::from(byte)]
                .then(|| self.forms.iter().find(|(f, _)| bytes[at..].starts_with(f)))
                .flatten();
            match here {
                Some((form, mark)) => {
                    out.extend_from_slice(mark);
                    at += form.len();
                }
                None => {
                    out.push(byte);
                    at += 1;
                }
            }
        }
        out
    }

    /// Our own text.
    pub fn text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.bytes(text.as_bytes())).into_owned()
    }

    /// Text of the guest: product keys and the queries of URLs are taken out as well.
    pub fn foreign(&self, text: &str) -> String {
        masked(&self.text(text))
    }

    /// The longest form: what is cut out of a file may begin with the rest of one.
    pub fn longest(&self) -> usize {
        self.forms.first().map_or(0, |(form, _)| form.len())
    }
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// As it is, escaped for XML and as a text in JSON, in base64, and as an answer file encodes it (Microsoft: "Hide Sensitive Data in an Answer
/// File"), each in UTF-8 and in UTF-16.
fn forms(secret: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut texts = vec![secret.to_owned(), escape_xml(secret), BASE64.encode(secret)];
    // A message of QEMU's stands in a text of a line of JSON.
    let in_json = escape_json(secret);
    texts.push(escape_json(&in_json));
    texts.push(in_json);
    for suffix in ["", "AdministratorPassword", "Password"] {
        texts.push(BASE64.encode(utf16(&format!("{secret}{suffix}"))));
    }
    let both = |text: String| {
        let wide = utf16(&text);
        [
            (text.into_bytes(), MARK.as_bytes().to_vec()),
            (wide, utf16(MARK)),
        ]
    };
    texts.into_iter().flat_map(both).collect()
}

fn escape_json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// An answer file without the values of its passwords and product keys. `None`: it is no XML, so nobody knows what in it is
/// one.
pub fn answer_file(text: &str) -> Option<String> {
    let text = text.trim_start_matches('\u{feff}');
    let document = Document::parse(text).ok()?;
    let mut secret: Vec<Range<usize>> = document
        .descendants()
        .filter(|node| node.is_text() && is_secret(*node))
        .map(|node| node.range())
        .collect();
    secret.sort_by_key(|range| range.start);
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for range in secret {
        out.push_str(text.get(at..range.start)?);
        out.push_str(MARK);
        at = range.end;
    }
    out.push_str(text.get(at..)?);
    Some(out)
}

/// Whether a text stands in a password or a product key, its switches apart.
fn is_secret(text: Node<'_, '_>) -> bool {
    let value = text.text().unwrap_or_default().trim();
    let harmless = ["PlainText", "WillShowUI"];
    let own = text.parent().map_or("", |p| p.tag_name().name());
    let within = |node: Node<'_, '_>| {
        let name = node.tag_name().name();
        holds_secret(name) || name == "ProductKey"
    };
    !value.is_empty()
        && value != DELETED
        && !harmless.contains(&own)
        && text.ancestors().any(within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_taken_out_in_each_of_its_forms_and_nothing_else() {
        let redactor = Redactor::new(&[Secret::new("Pa<ss>-42!"), Secret::new("")]);
        for (text, left) in [
            ("net user x Pa<ss>-42! /add", "net user x ••• /add"),
            ("<V>Pa&lt;ss&gt;-42!</V>", "<V>•••</V>"),
            ("UGE8c3M+LTQyIQ==", "•••"),
            ("Pa<ss>-42 and Pa<ss", "Pa<ss>-42 and Pa<ss"),
        ] {
            assert_eq!(redactor.text(text), left);
            assert_eq!(redactor.bytes(&utf16(text)), utf16(left));
        }
        let quoted = Redactor::new(&[Secret::new(r#"Pa"ss\42"#)]);
        assert_eq!(
            quoted.text(r#"{"a":"Pa\"ss\\42","b":"{\"c\":\"Pa\\\"ss\\\\42\"}"}"#),
            r#"{"a":"•••","b":"{\"c\":\"•••\"}"}"#
        );
        let encoded = BASE64.encode(utf16("Pa<ss>-42!AdministratorPassword"));
        assert_eq!(redactor.text(&format!("={encoded}=")), "=•••=");
        assert_eq!(
            redactor.foreign("key AAAAA-BBBBB-CCCCC-DDDDD-EEEEE"),
            "key *****************************"
        );
    }

    #[test]
    fn an_answer_file_loses_its_passwords_and_keys_and_keeps_the_rest() {
        let file = |password: &str, own: &str, key: &str| {
            format!(
                "<unattend xmlns=\"urn:x\">\n<UserAccounts><AdministratorPassword><Value>{password}</Value>\
                 <PlainText>false</PlainText></AdministratorPassword></UserAccounts>\n<Credentials><Username>u</Username>\
                 <Password>{own}</Password></Credentials>\n<ProductKey><Key>{key}</Key><WillShowUI>OnError</WillShowUI>\
                 </ProductKey>\n</unattend>"
            )
        };
        assert_eq!(
            answer_file(&file("cABhAHMA", "<![CDATA[a<b]]>", "12345-x")).as_deref(),
            Some(file("•••", "•••", "•••").as_str())
        );
        let deleted = file(DELETED, DELETED, "");
        assert_eq!(
            answer_file(&format!("\u{feff}{deleted}")).as_deref(),
            Some(deleted.as_str())
        );
        assert_eq!(answer_file("<unattend><Value>secret"), None);
    }
}
