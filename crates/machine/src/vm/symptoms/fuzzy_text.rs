//! Finds phrases in OCR text, which has wrong letters, arbitrary line breaks and no punctuation.
//!
//! Pure. Only letters and digits are compared, look-alikes are equal, and a long phrase may have a
//! few errors.

/// Length limit of a screen's text.
const MAX_TEXT: usize = 16 << 10;
/// One letter per this many may be wrong.
const LETTERS_PER_ERROR: usize = 9;

/// Converts to lower case and removes spaces, line breaks and punctuation. Letters that OCR
/// confuses are unified.
pub fn normalize_text(text: &str) -> String {
    let plain = text.chars().filter_map(|c| match c.to_ascii_lowercase() {
        'l' | '|' | '!' => Some('i'),
        'o' => Some('0'),
        c if c.is_ascii_alphanumeric() => Some(c),
        _ => None,
    });
    plain.take(MAX_TEXT).collect()
}

/// Returns true if `text` contains `phrase`, apart from a few wrong, missing or added letters. Both
/// are normalized. Short phrases must match exactly.
pub fn contains_fuzzy(text: &str, phrase: &str) -> bool {
    let allowed = phrase.len() / LETTERS_PER_ERROR;
    text.contains(phrase)
        || (allowed > 0 && count_edits(text.as_bytes(), phrase.as_bytes()) <= allowed)
}

/// Returns the smallest number of edits that make `phrase` a substring of `text` (P. Sellers, The
/// theory and computation of evolutionary distances, 1980).
fn count_edits(text: &[u8], phrase: &[u8]) -> usize {
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
        let phrase = normalize_text("Windows could not parse or process the unattend answer file");
        for text in [
            "Windows could not parse or process the unattend answer file [A:\\Autounattend.xml]",
            "Windows cou1d n0t parse\nor process the\n  unattend answer fi|e.",
            "x WINDOWS COULD NOT PARSE OR PROCESS THE UNATTENO ANSVER FLE for pass",
        ] {
            assert!(contains_fuzzy(&normalize_text(text), &phrase), "{text}");
        }
        for text in [
            "",
            "Windows could not finish configuring the system",
            "Windows could not apply the unattend answer file's <DiskConfiguration> setting",
        ] {
            assert!(!contains_fuzzy(&normalize_text(text), &phrase), "{text}");
        }
        assert!(
            !contains_fuzzy("hithera", "hithere"),
            "a short phrase fits exactly"
        );
        assert_eq!(count_edits(b"abcxefgh", b"cdef"), 1);
    }
}
