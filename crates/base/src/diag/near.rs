//! Names that are like a word which is none.

/// The candidate that `word` was probably meant to be, if any is near: the same but for case, `-` and `_`, or a
/// slip or two away (Damerau-Levenshtein, about one slip in three letters), or the beginning of it.
pub fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str, IntoIter: Clone>,
) -> Option<&'a str> {
    let candidates = candidates.into_iter();
    let plain = |s: &str| s.to_lowercase().replace(['-', ' '], "_");
    let wanted = plain(word);
    let letters = wanted.chars().count();
    let limit = (letters / 3).clamp(1, 3);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates.clone() {
        // What differs in length by more is farther away anyway.
        if candidate.chars().count().abs_diff(letters) > limit {
            continue;
        }
        let distance = strsim::damerau_levenshtein(&wanted, &plain(candidate));
        let shorter = wanted.len().min(candidate.len());
        // A word of two letters is near to every other word of two letters.
        if distance > limit || (distance > 0 && shorter < 3) {
            continue;
        }
        if best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    let longer = |candidate: &&str| wanted.len() >= 3 && plain(candidate).starts_with(&wanted);
    let beginning = candidates.clone().find(longer);
    best.map(|(_, candidate)| candidate).or(beginning)
}

/// The candidate most like `word`, for names of several words, where the few slips of [`nearest`] are too strict; `None`
/// when none is like it (Jaro-Winkler, case ignored).
pub fn most_alike<T: AsRef<str>>(word: &str, candidates: impl IntoIterator<Item = T>) -> Option<T> {
    let wanted = word.to_lowercase();
    candidates
        .into_iter()
        .map(|name| {
            let near = strsim::jaro_winkler(&wanted, &name.as_ref().to_lowercase());
            (near, name)
        })
        .filter(|(near, _)| *near > 0.85)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// `did you mean `x`?`, or what is there when nothing is near; `what` as in "variables".
pub fn suggestion(word: &str, candidates: &[&str], what: &str) -> String {
    if let Some(near) = nearest(word, candidates.iter().copied()) {
        return format!("did you mean `{near}`?");
    }
    if candidates.is_empty() {
        return format!("there are no {what}");
    }
    let mut names = candidates.to_vec();
    names.sort_unstable();
    format!("{what}: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_and_no_far_ones() {
        let words = ["cpus", "memory", "disk_size", "iso"];
        for (word, want) in [
            ("cpu", Some("cpus")),
            ("Disk-Size", Some("disk_size")),
            ("memroy", Some("memory")),
            ("is", None),
            ("mem", Some("memory")),
            ("firmware", None),
        ] {
            assert_eq!(nearest(word, words), want, "{word}");
        }
    }
}
