//! A licence as the recipe says it, in the words of SPDX.
//!
//! Refuses to pass free text off as an expression: documents that claim a licence nobody knows are refused by their readers.

use spdx::{Expression, LicenseItem, ParseMode};

use super::uuid_of;

/// What is known of a licence (SPDX specification 2.3, Annex D).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum License {
    /// The recipe says nothing.
    Unsaid,
    /// An expression; `own` are the `LicenseRef-…` in it, which SPDX documents have to explain.
    Expression { text: String, own: Vec<String> },
    /// Words that are no expression.
    Words(String),
}

/// Deprecated names (`GPL-2.0`) are on SPDX's list all the same.
const MODE: ParseMode = ParseMode {
    allow_deprecated: true,
    ..ParseMode::STRICT
};

impl License {
    pub fn read(said: Option<&str>) -> Self {
        let Some(text) = said.map(str::trim).filter(|t| !t.is_empty()) else {
            return Self::Unsaid;
        };
        let Ok(expression) = Expression::parse_mode(text, MODE) else {
            return Self::Words(text.into());
        };
        let mut own: Vec<String> = expression
            .requirements()
            .filter_map(|r| match &r.req.license {
                LicenseItem::Other(other) if other.doc_ref.is_none() => {
                    Some(format!("LicenseRef-{}", other.lic_ref))
                }
                _ => None,
            })
            .collect();
        own.sort();
        own.dedup();
        Self::Expression {
            text: text.into(),
            own,
        }
    }

    /// For SPDX's `licenseDeclared`.
    pub fn declared(&self) -> String {
        match self {
            Self::Unsaid => "NOASSERTION".into(),
            Self::Expression { text, .. } => text.clone(),
            Self::Words(words) => format!("LicenseRef-{}", uuid_of(words)),
        }
    }

    /// The references that an SPDX document has to explain, with what is known of them.
    pub fn references(&self) -> Vec<(String, String)> {
        match self {
            Self::Unsaid => Vec::new(),
            Self::Expression { own, .. } => {
                let text = "The recipe names this licence; its text is not known here.";
                own.iter().map(|id| (id.clone(), text.into())).collect()
            }
            Self::Words(words) => vec![(self.declared(), words.clone())],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::License;

    #[test]
    fn expressions_are_told_from_words() {
        let own = |said: &str| match License::read(Some(said)) {
            License::Expression { own, .. } => own.join(" "),
            other => format!("{other:?}"),
        };
        assert_eq!(own("Apache-2.0 OR MIT"), "");
        assert_eq!(own("GPL-2.0"), "");
        assert_eq!(own("LicenseRef-a AND MIT"), "LicenseRef-a");
        assert_eq!(own("GPL-2.0-only WITH Classpath-exception-2.0"), "");
        assert_eq!(own("Microsoft's terms"), "Words(\"Microsoft's terms\")");
        assert_eq!(License::read(Some(" ")), License::Unsaid);
    }
}
