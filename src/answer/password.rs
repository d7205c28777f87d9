//! The Administrator's password: made at random for each build, and encoded as answer files want it.
//!
//! The encoding hides nothing. What protects the password is that the answer CD is readable by its owner only and is
//! deleted after Setup.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Secret;

/// Characters of a password made here: over 140 bits.
const LENGTH: usize = 24;

/// Four classes, none of which XML, cmd.exe or PowerShell treat specially, and none easily confused.
const CLASSES: [&[u8]; 4] = [
    b"ABCDEFGHJKLMNPQRSTUVWXYZ",
    b"abcdefghijkmnopqrstuvwxyz",
    b"23456789",
    b"-_.+=@#",
];

/// Longest password that Windows accepts in an answer file, characters.
const LONGEST: usize = 127;

/// A password of 24 characters with all four classes, from the operating system's generator.
pub fn generate() -> Result<Secret> {
    let alphabet = CLASSES.concat();
    // Bytes from `fair` up would make the first characters likelier.
    let fair = 256 / alphabet.len() * alphabet.len();
    loop {
        let mut made = String::with_capacity(LENGTH);
        while made.len() < LENGTH {
            let mut bytes = [0; 64];
            getrandom::fill(&mut bytes).map_err(|e| {
                Error::new(Kind::Host, "the system's random number generator failed").because(e)
            })?;
            let fitting = bytes.iter().map(|b| usize::from(*b)).filter(|b| *b < fair);
            made.extend(
                fitting
                    .map(|b| char::from(alphabet[b % alphabet.len()]))
                    .take(LENGTH - made.len()),
            );
        }
        // Drawing anew keeps every password with all classes equally likely.
        if CLASSES
            .iter()
            .all(|class| made.bytes().any(|b| class.contains(&b)))
        {
            return Ok(Secret::new(made));
        }
    }
}

/// Refuses a password that the default policy of Windows Server refuses: three of four classes, 8 characters or more.
pub fn check(password: &Secret) -> Result<()> {
    let text = password.expose();
    let used = kinds(text);
    let length = text.chars().count();
    let problem = match () {
        () if text.chars().any(char::is_control) => "holds a control character".to_string(),
        () if !(8..=LONGEST).contains(&length) => {
            format!("has {length} characters; Windows takes 8 to {LONGEST}")
        }
        () if used < 3 => {
            format!("has {used} of the four kinds of characters; Windows wants three")
        }
        () => return Ok(()),
    };
    let fact = format!("the Administrator password {problem}");
    Err(Error::new(Kind::Recipe, fact)
        .cure("give another, or none: winimg then makes a random one for each build"))
}

/// Counts the kinds of characters: capital and small letters, digits, others.
fn kinds(text: &str) -> usize {
    let kinds: [fn(char) -> bool; 4] = [
        char::is_uppercase,
        char::is_lowercase,
        |c| c.is_ascii_digit(),
        |c| !c.is_alphanumeric(),
    ];
    kinds.iter().filter(|kind| text.chars().any(kind)).count()
}

/// Returns why "Password must meet complexity requirements", which is the default of Windows
/// Server, refuses a password for this account (Microsoft: Password must meet complexity
/// requirements). Names longer than two characters are looked for.
pub(super) fn weakness(password: &str, account: &str) -> Option<String> {
    let (lower, name) = (password.to_lowercase(), account.to_lowercase());
    let used = kinds(password);
    if password.is_empty() {
        Some("it is empty".to_owned())
    } else if used < 3 {
        Some(format!(
            "it has {used} of the four kinds of characters, and needs three"
        ))
    } else if name.chars().count() > 2 && lower.contains(&name) {
        Some("it holds the name of its account".to_owned())
    } else {
        None
    }
}

/// Returns the password of a `<Value>` with `<PlainText>false</PlainText>`; `element` is the name
/// of the element around it.
pub(super) fn decode(value: &str, element: &str) -> Option<String> {
    let bytes = STANDARD.decode(value).ok()?;
    let (pairs, odd) = bytes.as_chunks::<2>();
    let units: Vec<u16> = pairs.iter().copied().map(u16::from_le_bytes).collect();
    let text = String::from_utf16(&units).ok().filter(|_| odd.is_empty())?;
    text.strip_suffix(element).map(str::to_owned)
}

/// `<Value>` of an `<AdministratorPassword>` with `<PlainText>false</PlainText>`: base64 of the UTF-16LE bytes of the
/// password and the element's name (Microsoft: "Hide Sensitive Data in an Answer File").
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
            (
                "Vagrant1",
                "vagrant",
                Some("it holds the name of its account"),
            ),
            (
                "vagrant",
                "vagrant",
                Some("it has 1 of the four kinds of characters, and needs three"),
            ),
            (
                "vagrant1",
                "Administrator",
                Some("it has 2 of the four kinds of characters, and needs three"),
            ),
            ("", "user", Some("it is empty")),
        ] {
            assert_eq!(
                weakness(password, account).as_deref(),
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
            "the Administrator password has 7 characters; Windows takes 8 to 127"
        );
        assert_eq!(
            say("onlylowercase"),
            "the Administrator password has 1 of the four kinds of characters; Windows wants three"
        );
    }
}
