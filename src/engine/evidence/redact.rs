//! Redacts secrets in everything that is saved: the build's own by value, those in answer files by
//! their element.
//!
//! Does not guess other secrets; an answer file that cannot be parsed is not saved.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use roxmltree::{Document, Node};

use winimg_base::markup::{escape_xml, is_secret_element};
use winimg_base::text::{Secret, mask_secrets};

const MARK: &str = "•••";
/// Setup's own replacement for a password (Microsoft: "Windows Setup Automation Overview").
const DELETED: &str = "*SENSITIVE*DATA*DELETED*";

/// The secrets of one build, in every encoding that Windows, QEMU or a log may use.
pub struct Redactor {
    /// Encodings and their replacements; longer ones first, so that no part of one is left.
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
        let forms = secrets
            .filter(|secret| !secret.is_empty())
            .flat_map(encode_forms);
        self.forms.extend(forms);
        self.forms
            .sort_by_key(|(form, _)| std::cmp::Reverse(form.len()));
        self.forms.dedup();
        for (form, _) in &self.forms {
            self.begins[usize::from(form[0])] = true;
        }
    }

    /// Redacts bytes in any encoding.
    pub fn redact_bytes(&self, bytes: &[u8]) -> Vec<u8> {
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

    /// Redacts winimg's own text.
    pub fn redact_text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.redact_bytes(text.as_bytes())).into_owned()
    }

    /// Redacts text of the guest, including product keys and the queries of URLs.
    pub fn redact_guest_text(&self, text: &str) -> String {
        mask_secrets(&self.redact_text(text))
    }

    /// Returns the length of the longest encoding: the end of a file may start with the rest of
    /// one.
    pub fn longest_len(&self) -> usize {
        self.forms.first().map_or(0, |(form, _)| form.len())
    }
}

fn encode_utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Returns the encodings of a secret: plain, escaped for XML and for JSON, in base64, and encoded
/// for an answer file (Microsoft: "Hide Sensitive Data in an Answer File"), each in UTF-8 and in
/// UTF-16.
fn encode_forms(secret: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut texts = vec![secret.to_owned(), escape_xml(secret), BASE64.encode(secret)];
    // A line of JSON may quote a message of QEMU, which is JSON itself.
    let in_json = escape_json(secret);
    texts.push(escape_json(&in_json));
    texts.push(in_json);
    for suffix in ["", "AdministratorPassword", "Password"] {
        texts.push(BASE64.encode(encode_utf16(&format!("{secret}{suffix}"))));
    }
    texts
        .into_iter()
        .flat_map(|text| {
            let wide = encode_utf16(&text);
            [
                (text.into_bytes(), MARK.as_bytes().to_vec()),
                (wide, encode_utf16(MARK)),
            ]
        })
        .collect()
}

fn escape_json(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Redacts the passwords and product keys of an answer file. Returns `None` if it is not XML,
/// because its secrets cannot be found then.
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

/// Returns true for text inside a password or product key, except for their switches.
fn is_secret(text: Node<'_, '_>) -> bool {
    let value = text.text().unwrap_or_default().trim();
    let harmless = ["PlainText", "WillShowUI"];
    let own = text.parent().map_or("", |p| p.tag_name().name());
    !value.is_empty()
        && value != DELETED
        && !harmless.contains(&own)
        && text.ancestors().any(|node| {
            let name = node.tag_name().name();
            is_secret_element(name) || name == "ProductKey"
        })
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
            assert_eq!(redactor.redact_text(text), left);
            assert_eq!(
                redactor.redact_bytes(&encode_utf16(text)),
                encode_utf16(left)
            );
        }
        let quoted = Redactor::new(&[Secret::new(r#"Pa"ss\42"#)]);
        assert_eq!(
            quoted.redact_text(r#"{"a":"Pa\"ss\\42","b":"{\"c\":\"Pa\\\"ss\\\\42\"}"}"#),
            r#"{"a":"•••","b":"{\"c\":\"•••\"}"}"#
        );
        let encoded = BASE64.encode(encode_utf16("Pa<ss>-42!AdministratorPassword"));
        assert_eq!(redactor.redact_text(&format!("={encoded}=")), "=•••=");
        assert_eq!(
            redactor.redact_guest_text("key AAAAA-BBBBB-CCCCC-DDDDD-EEEEE"),
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
