//! The Administrator's password: generated for each build, and encoded for answer files.
//!
//! The encoding hides nothing. The password is protected because the answer CD is readable only by
//! its owner and is deleted after Setup.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Secret;

/// Length of generated passwords in characters: over 140 bits.
const LENGTH: usize = 24;

/// Four character classes without characters that XML, cmd.exe or PowerShell treat specially and
/// without ones that are easily confused.
const CLASSES: [&[u8]; 4] = [
    b"ABCDEFGHJKLMNPQRSTUVWXYZ",
    b"abcdefghijkmnopqrstuvwxyz",
    b"23456789",
    b"-_.+=@#",
];

/// Longest password that Windows accepts in an answer file, in characters.
const MAX_LENGTH: usize = 127;

/// Generates a password of 24 characters with all four classes, using the operating system's
/// generator.
pub fn generate() -> Result<Secret> {
    let alphabet = CLASSES.concat();
    // Bytes from `fair` up would bias the result towards the first characters.
    let fair = 256 / alphabet.len() * alphabet.len();
    loop {
        let mut made = String::with_capacity(LENGTH);
        while made.len() < LENGTH {
            let mut bytes = [0; 64];
            getrandom::fill(&mut bytes).map_err(|e| {
                Error::new(Kind::Host, "the system's random number generator failed").because(e)
            })?;
            made.extend(
                bytes
                    .iter()
                    .map(|b| usize::from(*b))
                    .filter(|b| *b < fair)
                    .map(|b| char::from(alphabet[b % alphabet.len()]))
                    .take(LENGTH - made.len()),
            );
        }
        // Starting over keeps all passwords with four classes equally likely.
        if CLASSES
            .iter()
            .all(|class| made.bytes().any(|b| class.contains(&b)))
        {
            return Ok(Secret::new(made));
        }
    }
}

/// Refuses a password that the default policy of Windows Server refuses: it requires three of four
/// classes and at least 8 characters.
pub fn check(password: &Secret) -> Result<()> {
    let text = password.expose();
    let used = count_classes(text);
    let length = text.chars().count();
    let problem = match () {
        () if text.chars().any(char::is_control) => "contains a control character".to_string(),
        () if !(8..=MAX_LENGTH).contains(&length) => {
            format!("has {length} characters; Windows accepts 8 to {MAX_LENGTH}")
        }
        () if used < 3 => {
            format!("has {used} of the four character classes; Windows requires three")
        }
        () => return Ok(()),
    };
    let fact = format!("the Administrator password {problem}");
    Err(Error::new(Kind::Recipe, fact)
        .cure("use another one, or none: winimg then generates one for each build"))
}

/// Counts the character classes: uppercase and lowercase letters, digits, others.
fn count_classes(text: &str) -> usize {
    let kinds: [fn(char) -> bool; 4] = [
        char::is_uppercase,
        char::is_lowercase,
        |c| c.is_ascii_digit(),
        |c| !c.is_alphanumeric(),
    ];
    kinds.iter().filter(|kind| text.chars().any(kind)).count()
}

/// Returns the reason why Windows Server's default policy refuses a password for this account
/// (Microsoft: Password must meet complexity requirements). Account names of up to two characters
/// are not searched for in the password.
pub(super) fn find_weakness(password: &str, account: &str) -> Option<String> {
    let (lower, name) = (password.to_lowercase(), account.to_lowercase());
    let used = count_classes(password);
    if password.is_empty() {
        Some("it is empty".to_owned())
    } else if used < 3 {
        Some(format!(
            "it uses {used} of the four character classes; three are required"
        ))
    } else if name.chars().count() > 2 && lower.contains(&name) {
        Some("it contains the account name".to_owned())
    } else {
        None
    }
}

/// Decodes the password of a `<Value>` with `<PlainText>false</PlainText>`; `element` is the name
/// of the enclosing element.
pub(super) fn decode(value: &str, element: &str) -> Option<String> {
    let bytes = STANDARD.decode(value).ok()?;
    let (pairs, odd) = bytes.as_chunks::<2>();
    let units: Vec<u16> = pairs.iter().copied().map(u16::from_le_bytes).collect();
    let text = String::from_utf16(&units).ok().filter(|_| odd.is_empty())?;
    text.strip_suffix(element).map(str::to_owned)
}

/// Encodes the `<Value>` of an `<AdministratorPassword>` with `<PlainText>false</PlainText>`:
/// base64 of the UTF-16LE bytes of the password followed by the element's name (Microsoft: "Hide
/// Sensitive Data in an Answer File").
pub(super) fn encode_administrator(password: &Secret) -> String {
    let text = format!("{}AdministratorPassword", password.expose());
    let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_encodings() {
        assert_eq!(
            encode_administrator(&Secret::new("vagrant")),
            "dgBhAGcAcgBhAG4AdABBAGQAbQBpAG4AaQBzAHQAcgBhAHQAbwByAFAAYQBzAHMAdwBvAHIAZAA="
        );
        assert_eq!(
            encode_administrator(&Secret::new("Winimg-Build-1!")),
            "VwBpAG4AaQBtAGcALQBCAHUAaQBsAGQALQAxACEAQQBkAG0AaQBuAGkAcwB0AHIAYQB0AG8AcgBQAGEAcwBzAHcAbwByAGQA"
        );
    }

    #[test]
    fn encoded_passwords_are_decoded() {
        let vagrant =
            "dgBhAGcAcgBhAG4AdABBAGQAbQBpAG4AaQBzAHQAcgBhAHQAbwByAFAAYQBzAHMAdwBvAHIAZAA=";
        for (value, element, expected) in [
            (vagrant, "AdministratorPassword", Some("vagrant")),
            // The longer word ends in the shorter one.
            (vagrant, "Password", Some("vagrantAdministrator")),
            (
                "dgBhAGcAcgBhAG4AdABQAGEAcwBzAHcAbwByAGQA",
                "Password",
                Some("vagrant"),
            ),
            (
                "dgBhAGcAcgBhAG4AdABQAGEAcwBzAHcAbwByAGQA",
                "AdministratorPassword",
                None,
            ),
            ("vagrant", "Password", None),
            ("dgBh", "Password", None),
            ("", "Password", None),
        ] {
            assert_eq!(decode(value, element).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn the_policy_wants_three_kinds_and_no_name() {
        for (password, account, expected) in [
            ("Winimg-Build-1!", "Administrator", None),
            ("Vagrant1", "Administrator", None),
            ("Vagrant1", "va", None),
            ("Vagrant1", "vagrant", Some("it contains the account name")),
            (
                "vagrant",
                "vagrant",
                Some("it uses 1 of the four character classes; three are required"),
            ),
            (
                "vagrant1",
                "Administrator",
                Some("it uses 2 of the four character classes; three are required"),
            ),
            ("", "user", Some("it is empty")),
        ] {
            assert_eq!(
                find_weakness(password, account).as_deref(),
                expected,
                "{password}"
            );
        }
    }

    #[test]
    fn made_passwords_pass_every_policy_and_differ() {
        let made: Vec<Secret> = (0..200).map(|_| generate().unwrap()).collect();
        for password in &made {
            check(password).unwrap();
            let text = password.expose();
            assert_eq!(text.len(), LENGTH);
            for class in CLASSES {
                assert!(text.bytes().any(|b| class.contains(&b)));
            }
        }
        for (n, one) in made.iter().enumerate() {
            assert!(!made[n + 1..].contains(one));
        }
    }

    #[test]
    fn weak_passwords_are_refused_without_being_shown() {
        let say = |p: &str| check(&Secret::new(p)).unwrap_err().fact().to_string();
        assert_eq!(
            say("Short1!"),
            "the Administrator password has 7 characters; Windows accepts 8 to 127"
        );
        assert_eq!(
            say("onlylowercase"),
            "the Administrator password has 1 of the four character classes; Windows requires three"
        );
    }
}
