//! Checks the contents of answer files in an image.
//!
//! sysprep copies its answer file to `Panther`, where the clone's Setup reads it, so that copy is
//! required. A file earlier in the search order would be used instead. None may contain a secret:
//! everyone who can log on to a clone can read them.
//!
//! Source: Microsoft, "Windows Setup Automation Overview" (implicit answer file search order;
//! passwords in the cached file are replaced by `*SENSITIVE*DATA*DELETED*`), "KMS client activation
//! and product keys".

use roxmltree::{Document, Node};

use crate::answer;

use super::finding::{Verdict, VerifyFinding, VerifyReport};
use super::image::InspectedImage;

/// Paths of answer files; true for the names of sysprep's own copies.
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
/// Windows' replacement of a used password.
const DELETED: &str = "*SENSITIVE*DATA*DELETED*";

pub fn check(image: &InspectedImage<'_>, report: &mut VerifyReport) {
    for (path, own) in PLACES {
        report.add(check_file(image, path, own), None);
    }
}

/// Checks a clone's answer files for secrets only; the search order no longer matters.
pub fn check_secrets(image: &InspectedImage<'_>, report: &mut VerifyReport) {
    for (path, _) in PLACES {
        report.add(check_file(image, path, true), None);
    }
}

fn check_file(image: &InspectedImage<'_>, path: &str, own: bool) -> Verdict {
    let Some(bytes) = image.volume.read(path, LIMIT)? else {
        return Ok(());
    };
    let text = decode_text(&bytes).ok_or_else(|| unreadable_finding(path))?;
    let secrets = list_secrets(&text).map_err(|why| unreadable_finding(path).found(why))?;
    if !secrets.is_empty() {
        return Err(VerifyFinding::error(format!("{path} contains a secret"))
            .found(secrets.join(", "))
            .cure("remove it from the answer file, and let the clone's agent set it"));
    }
    if own {
        Ok(())
    } else {
        Err(VerifyFinding::warning(format!(
            "a clone would use {path} instead of the answer file of sysprep"
        ))
        .cure("remove it in a step before the image is sealed"))
    }
}

fn unreadable_finding(path: &str) -> Box<VerifyFinding> {
    VerifyFinding::warning(format!("{path} is not a readable answer file"))
}

/// Decodes UTF-8, or UTF-16 with a byte order mark.
pub(super) fn decode_text(bytes: &[u8]) -> Option<String> {
    let (text, _, broken) = encoding_rs::UTF_8.decode(bytes);
    (!broken).then(|| text.into_owned())
}

/// Lists the secrets by element and line, never by value.
fn list_secrets(text: &str) -> Result<Vec<String>, String> {
    let document =
        Document::parse(text.trim_start_matches('\u{feff}')).map_err(|e| e.to_string())?;
    let mut found = Vec::new();
    for node in document.descendants().filter(Node::is_element) {
        let value = read_value(node);
        let secret = match node.tag_name().name() {
            "Password" | "AdministratorPassword" | "LocalAccountPassword" => {
                !value.is_empty() && value != DELETED
            }
            "ProductKey" | "Key" => is_product_key(&value) && !answer::is_published_key(&value),
            "AutoLogon" => {
                read_child(node, "Enabled").is_none_or(|v| v.eq_ignore_ascii_case("true"))
            }
            _ => false,
        };
        if secret {
            let name = node.tag_name().name();
            found.push(format!("{name} (line {})", count_line(text, node)));
        }
    }
    Ok(found)
}

/// Returns the `Value` below a password, or else the element's own text.
fn read_value(node: Node<'_, '_>) -> String {
    read_child(node, "Value").unwrap_or_else(|| node.text().unwrap_or_default().trim().to_owned())
}

fn read_child(node: Node<'_, '_>, name: &str) -> Option<String> {
    let child = node.children().find(|c| c.tag_name().name() == name)?;
    Some(child.text().unwrap_or_default().trim().to_owned())
}

fn is_product_key(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.len() == 5 && groups.iter().all(|g| g.len() == 5)
}

fn count_line(text: &str, node: Node<'_, '_>) -> usize {
    let before = &text.as_bytes()[..node.range().start.min(text.len())];
    before.iter().filter(|b| **b == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(inside: &str) -> Vec<String> {
        list_secrets(&format!("<unattend>\n{inside}\n</unattend>")).expect("XML")
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
