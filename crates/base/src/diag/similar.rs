//! Finds known names that are similar to an unknown word.

/// Finds the candidate that `word` was probably meant to be: equal except for case, `-` and `_`, or
/// a few typos away (Damerau-Levenshtein, about one per three letters), or starting with `word`.
pub fn find_nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str, IntoIter: Clone>,
) -> Option<&'a str> {
    let candidates = candidates.into_iter();
    let folded = fold_word(word);
    let length = folded.chars().count();
    let limit = (length / 3).clamp(1, 3);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates.clone() {
        // A greater difference in length means a greater distance.
        if candidate.chars().count().abs_diff(length) > limit {
            continue;
        }
        let distance = strsim::damerau_levenshtein(&folded, &fold_word(candidate));
        let shorter = folded.len().min(candidate.len());
        // Any two short words are within the limit of each other.
        if distance > limit || (distance > 0 && shorter < 3) {
            continue;
        }
        if best.is_none_or(|(best_distance, _)| distance < best_distance) {
            best = Some((distance, candidate));
        }
    }
    let prefix_match = candidates
        .clone()
        .find(|candidate| folded.len() >= 3 && fold_word(candidate).starts_with(&folded));
    best.map(|(_, candidate)| candidate).or(prefix_match)
}

fn fold_word(word: &str) -> String {
    word.to_lowercase().replace(['-', ' '], "_")
}

/// Finds the candidate most similar to `word`, for names of several words, for which
/// [`find_nearest`] is too strict; `None` if none is similar (Jaro-Winkler, ignoring case).
pub fn find_most_similar<T: AsRef<str>>(
    word: &str,
    candidates: impl IntoIterator<Item = T>,
) -> Option<T> {
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

/// Returns `did you mean `x`?`, or lists the candidates if none is near; `what` is a noun such as
/// "variables".
pub fn suggest(word: &str, candidates: &[&str], what: &str) -> String {
    if let Some(near) = find_nearest(word, candidates.iter().copied()) {
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
    fn only_similar_words_are_found() {
        let words = ["cpus", "memory", "disk_size", "iso"];
        for (word, want) in [
            ("cpu", Some("cpus")),
            ("Disk-Size", Some("disk_size")),
            ("memroy", Some("memory")),
            ("is", None),
            ("mem", Some("memory")),
            ("firmware", None),
        ] {
            assert_eq!(find_nearest(word, words), want, "{word}");
        }
    }
}
