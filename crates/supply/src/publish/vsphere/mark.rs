//! What winimg writes into the description of an item, to know it again. Pure.
//!
//! It is found between other words, so people may add to the description. There are two marks: one while the files are being sent,
//! and one when all of them are there.

use winimg_base::digest::Digest;

const WHOLE: &str = "winimg:sha256=";
const COMING: &str = "winimg:sending=";

/// The digest is that of the OVA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// All of it is there.
    Whole(Digest),
    /// It is being sent, or that broke off.
    Coming(Digest),
}

impl Mark {
    pub fn of(text: &str) -> Option<Self> {
        let digest = |hex: &str| Digest::from_hex(hex).ok();
        let mut words = text.split_whitespace();
        words.find_map(|word| match word.strip_prefix(WHOLE) {
            Some(hex) => digest(hex).map(Self::Whole),
            None => digest(word.strip_prefix(COMING)?).map(Self::Coming),
        })
    }

    /// A description with it.
    pub fn text(&self, build: &str) -> String {
        let (word, digest) = match self {
            Self::Whole(digest) => (WHOLE, digest),
            Self::Coming(digest) => (COMING, digest),
        };
        format!("Windows {build}, made by winimg. {word}{}", digest.hex())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_found_among_other_words() {
        let digest = Digest::sha256_of(b"x");
        for mark in [Mark::Whole(digest.clone()), Mark::Coming(digest.clone())] {
            let text = format!("Ask the platform team.\n{}", mark.text("10.0.20348.1"));
            assert_eq!(Mark::of(&text), Some(mark));
        }
        assert_eq!(Mark::of("winimg:sha256=12"), None);
        assert_eq!(Mark::of(&format!("sha256={}", digest.hex())), None);
    }
}
