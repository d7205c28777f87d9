//! Compares words with a text that was read from a picture, in which letters are wrong, lines are broken anywhere and marks are lost.
//!
//! Pure. Refuses to be clever: letters and digits alone count, look-alikes are one, and a few errors are forgiven in a long phrase.

/// Longer texts are no screen's.
const LONGEST: usize = 16 << 10;
/// One letter in so many may be wrong.
const FORGIVEN: usize = 9;

/// Lower case, without blanks, line breaks and marks; letters that readers mix up are one.
pub fn squash(text: &str) -> String {
    let plain = text.chars().filter_map(|c| match c.to_ascii_lowercase() {
        'l' | '|' | '!' => Some('i'),
        'o' => Some('0'),
        c if c.is_ascii_alphanumeric() => Some(c),
        _ => None,
    });
    plain.take(LONGEST).collect()
}

/// Whether `phrase` occurs in `text` but for a few wrong, lost or added letters; both squashed. Short phrases must fit exactly.
pub fn holds(text: &str, phrase: &str) -> bool {
    let allowed = phrase.len() / FORGIVEN;
    text.contains(phrase) || (allowed > 0 && best(text.as_bytes(), phrase.as_bytes()) <= allowed)
}

/// The fewest edits that make `phrase` a part of `text` (P. Sellers, The theory and computation of evolutionary distances, 1980).
fn best(text: &[u8], phrase: &[u8]) -> usize {
    // column[n]: edits from the first n letters of the phrase to some end of the text read so far.
    let mut column: Vec<usize> = (0..=phrase.len()).collect();
    let mut best = phrase.len();
    for letter in text {
        let mut diagonal = 0;
        for (n, wanted) in phrase.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != wanted);
            diagonal = column[n + 1];
            column[n + 1] = replaced.min(diagonal + 1).min(column[n] + 1);
        }
        best = best.min(column[phrase.len()]);
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaks_marks_look_alikes_and_a_few_errors_are_forgiven() {
        let phrase = squash("Windows could not parse or process the unattend answer file");
        for text in [
            "Windows could not parse or process the unattend answer file [A:\\Autounattend.xml]",
            "Windows cou1d n0t parse\nor process the\n  unattend answer fi|e.",
            "x WINDOWS COULD NOT PARSE OR PROCESS THE UNATTENO ANSVER FLE for pass",
        ] {
            assert!(holds(&squash(text), &phrase), "{text}");
        }
        for text in [
            "",
            "Windows could not finish configuring the system",
            "Windows could not apply the unattend answer file's <DiskConfiguration> setting",
        ] {
            assert!(!holds(&squash(text), &phrase), "{text}");
        }
        assert!(!holds("hithera", "hithere"), "a short phrase fits exactly");
        assert_eq!(best(b"abcxefgh", b"cdef"), 1);
    }
}
