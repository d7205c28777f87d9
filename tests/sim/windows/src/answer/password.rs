//! Passwords of answer files: their encoding and Windows Server's default policy.
//!
//! Source: Microsoft, "Hide sensitive data in an answer file"; the encoding is base64 of UTF-16LE of the password
//! followed by the element's own name.

use base64::Engine;

use super::document::Element;

/// The plain password of an element with `Value` and `PlainText`; `suffix` is `AdministratorPassword` or `Password`.
pub fn decode(element: &Element, suffix: &str) -> Result<String, String> {
    let value = element
        .text("Value")
        .ok_or_else(|| format!("<{suffix}> without <Value>"))?;
    if element.text("PlainText").is_none() || element.is_true("PlainText") {
        return Ok(value.to_owned());
    }
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(value)
        .map_err(|e| format!("<{suffix}>: {e}"))?;
    if bytes.len() % 2 != 0 {
        return Err(format!("<{suffix}>: {} bytes are not UTF-16", bytes.len()));
    }
    let units: Vec<u16> = bytes
        .chunks_exact(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
        .collect();
    let text = String::from_utf16(&units).map_err(|e| format!("<{suffix}>: {e}"))?;
    text.strip_suffix(suffix)
        .map(str::to_owned)
        .ok_or_else(|| format!("<{suffix}>: the decoded value does not end in {suffix:?}"))
}

/// "Password must meet complexity requirements": three of four classes, the account's name not inside.
pub fn meets_policy(password: &str, account: &str) -> bool {
    let classes = [
        password.chars().any(|c| c.is_uppercase()),
        password.chars().any(|c| c.is_lowercase()),
        password.chars().any(|c| c.is_ascii_digit()),
        password.chars().any(|c| !c.is_alphanumeric()),
    ];
    let named = account.len() > 2 && password.to_lowercase().contains(&account.to_lowercase());
    !password.is_empty() && classes.iter().filter(|held| **held).count() >= 3 && !named
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(value: &str, plain: &str) -> Element {
        let leaf = |name: &str, text: &str| Element {
            name: name.into(),
            text: text.into(),
            ..Element::default()
        };
        Element {
            children: vec![leaf("Value", value), leaf("PlainText", plain)],
            ..Element::default()
        }
    }

    #[test]
    fn public_vectors_decode() {
        let vagrant =
            "dgBhAGcAcgBhAG4AdABBAGQAbQBpAG4AaQBzAHQAcgBhAHQAbwByAFAAYQBzAHMAdwBvAHIAZAA=";
        assert_eq!(
            decode(&element(vagrant, "false"), "AdministratorPassword"),
            Ok("vagrant".into())
        );
        assert_eq!(
            decode(&element("vagrant", "true"), "AdministratorPassword"),
            Ok("vagrant".into())
        );
        assert!(decode(&element(vagrant, "false"), "Password").is_ok_and(|text| text != "vagrant"));
        assert!(decode(&element("dgBhAA==", "false"), "AdministratorPassword").is_err());
    }

    #[test]
    fn policy_wants_three_classes() {
        for (password, fits) in [
            ("Winimg-Build-1!", true),
            ("vagrant", false),
            ("Vagrant1", true),
            ("", false),
            ("Administrator1!", false),
        ] {
            assert_eq!(meets_policy(password, "Administrator"), fits, "{password}");
        }
    }
}
