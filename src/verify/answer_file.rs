//! Answer files that are left in an image, judged by what they hold.
//!
//! sysprep keeps a copy of the file it was given in `Panther`, and the clone takes its settings from it: that one has to
//! be there. A file that stands earlier in the search order would be taken instead of it. Neither may hold a secret:
//! everybody who may log on to a clone can read them.
//!
//! Source: Microsoft, "Windows Setup Automation Overview" (implicit answer file search order; passwords in the cached file
//! are replaced by `*SENSITIVE*DATA*DELETED*`), "KMS client activation and product keys".

use roxmltree::{Document, Node};

use crate::answer;

use super::finding::{Finding, Report, Verdict};
use super::image::Image;

/// The places, and whether the file of this name is sysprep's own copy.
const PLACES: [(&str, bool); 9] = [
    (r"C:\Windows\Panther\unattend.xml", true),
    (r"C:\Windows\Panther\unattend-original.xml", true),
    (r"C:\Windows\Panther\autounattend.xml", false),
    (r"C:\Windows\Panther\Unattend\unattend.xml", false),
    (r"C:\Windows\Panther\Unattend\autounattend.xml", false),
    (r"C:\Windows\System32\Sysprep\unattend.xml", false),
    (r"C:\Windows\System32\Sysprep\Panther\unattend.xml", true),
    (r"C:\autounattend.xml", false),
    (r"C:\unattend.xml", false),
];
const LIMIT: u64 = 16 << 20;
/// What Windows writes over a password that it has used.
const DELETED: &str = "*SENSITIVE*DATA*DELETED*";

pub fn check(image: &Image<'_>, report: &mut Report) {
    for (path, own) in PLACES {
        report.add(file(image, path, own), None);
    }
}

/// Of a clone: whose files they are does not matter any more.
pub fn check_secrets(image: &Image<'_>, report: &mut Report) {
    for (path, _) in PLACES {
        report.add(file(image, path, true), None);
    }
}

fn file(image: &Image<'_>, path: &str, own: bool) -> Verdict {
    let Some(bytes) = image.volume.read(path, LIMIT)? else {
        return Ok(());
    };
    let unread = || Finding::warning(format!("{path} can't be read as an answer file"));
    let text = text(&bytes).ok_or_else(unread)?;
    let secrets = secrets(&text).map_err(|why| unread().found(why))?;
    if !secrets.is_empty() {
        return Err(Finding::error(format!("{path} holds a secret"))
            .found(secrets.join(", "))
            .cure(
                "take it out of the answer file; the agent on the clone sets passwords and keys",
            ));
    }
    match own {
        true => Ok(()),
        false => Err(Finding::warning(format!(
            "{path} is left: a clone takes it before the file that sysprep was given"
        ))
        .cure("remove it in a step before the image is sealed")),
    }
}

/// UTF-8 or UTF-16, by the mark at the beginning.
pub(super) fn text(bytes: &[u8]) -> Option<String> {
    let (text, _, broken) = encoding_rs::UTF_8.decode(bytes);
    (!broken).then(|| text.into_owned())
}

/// What is secret in it, in words and never in full.
fn secrets(text: &str) -> Result<Vec<String>, String> {
    let document =
        Document::parse(text.trim_start_matches('\u{feff}')).map_err(|e| e.to_string())?;
    let mut found = Vec::new();
    for node in document.descendants().filter(Node::is_element) {
        let value = value(node);
        let secret = match node.tag_name().name() {
            "Password" | "AdministratorPassword" | "LocalAccountPassword" => {
                !value.is_empty() && value != DELETED
            }
            "ProductKey" | "Key" => is_product_key(&value) && !answer::is_published_key(&value),
            "AutoLogon" => child(node, "Enabled").is_none_or(|v| v.eq_ignore_ascii_case("true")),
            _ => false,
        };
        if secret {
            let name = node.tag_name().name();
            found.push(format!("{name} (line {})", line(text, node)));
        }
    }
    Ok(found)
}

/// Of a password the `Value` below it; an empty one is no secret. Otherwise the element's own text.
fn value(node: Node<'_, '_>) -> String {
    child(node, "Value").unwrap_or_else(|| node.text().unwrap_or_default().trim().to_owned())
}

fn child(node: Node<'_, '_>, name: &str) -> Option<String> {
    let child = node.children().find(|c| c.tag_name().name() == name)?;
    Some(child.text().unwrap_or_default().trim().to_owned())
}

fn is_product_key(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.len() == 5 && groups.iter().all(|g| g.len() == 5)
}

fn line(text: &str, node: Node<'_, '_>) -> usize {
    let before = &text.as_bytes()[..node.range().start.min(text.len())];
    before.iter().filter(|b| **b == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(inside: &str) -> Vec<String> {
        secrets(&format!("<unattend>\n{inside}\n</unattend>")).expect("XML")
    }

    #[test]
    fn secrets_are_named_by_their_line_and_not_shown() {
        for (inside, expected) in [
            (
                "<UserAccounts><AdministratorPassword><Value>cABhAHMAcwA=</Value><PlainText>false</PlainText>\
                 </AdministratorPassword></UserAccounts>",
                "AdministratorPassword (line 2)",
            ),
            (
                "<ProductKey><Key>ABCDE-FGHIJ-KLMNO-PQRST-UVWXY</Key></ProductKey>",
                "Key (line 2)",
            ),
            (
                "<ProductKey>ABCDE-FGHIJ-KLMNO-PQRST-UVWXY</ProductKey>",
                "ProductKey (line 2)",
            ),
            (
                "<AutoLogon><Enabled>true</Enabled></AutoLogon>",
                "AutoLogon (line 2)",
            ),
        ] {
            assert_eq!(judged(inside), [expected]);
        }
        let harmless = [
            "<AdministratorPassword><Value>*SENSITIVE*DATA*DELETED*</Value></AdministratorPassword>",
            "<AdministratorPassword>*SENSITIVE*DATA*DELETED*</AdministratorPassword>",
            "<ProductKey><Key>WX4NM-KYWYW-QJJR4-XV3QB-6VM33</Key><WillShowUI>OnError</WillShowUI></ProductKey>",
            "<AutoLogon><Enabled>false</Enabled></AutoLogon>",
            "<ComputerName>*</ComputerName>",
        ];
        for inside in harmless {
            assert!(judged(inside).is_empty(), "{inside}");
        }
    }
}
