//! Marks in the description of an item, by which winimg recognizes it. Pure.
//!
//! A mark may be surrounded by other text, so users can extend the description. There are two
//! marks: one while the files are being sent, and one when all of them are there.

use winimg_base::digest::Digest;

const WHOLE: &str = "winimg:sha256=";
const COMING: &str = "winimg:sending=";

/// A mark with the digest of the OVA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemMark {
    /// The item is complete.
    Whole(Digest),
    /// The item is being sent, or that was interrupted.
    Coming(Digest),
}

impl ItemMark {
    pub fn find(text: &str) -> Option<Self> {
        text.split_whitespace().find_map(|word| {
            if let Some(hex) = word.strip_prefix(WHOLE) {
                return Digest::from_hex(hex).ok().map(Self::Whole);
            }
            let hex = word.strip_prefix(COMING)?;
            Digest::from_hex(hex).ok().map(Self::Coming)
        })
    }

    /// Renders a description with the mark.
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
        for mark in [
            ItemMark::Whole(digest.clone()),
            ItemMark::Coming(digest.clone()),
        ] {
            let text = format!("Ask the platform team.\n{}", mark.text("10.0.20348.1"));
            assert_eq!(ItemMark::find(&text), Some(mark));
        }
        assert_eq!(ItemMark::find("winimg:sha256=12"), None);
        assert_eq!(ItemMark::find(&format!("sha256={}", digest.hex())), None);
    }
}
