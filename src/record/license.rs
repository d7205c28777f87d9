//! A component's licence from the recipe, in SPDX's terms.
//!
//! Never presents free text as an expression: SBOM readers reject documents with unknown licences.

use spdx::{Expression, LicenseItem, ParseMode};

use super::compute_uuid;

/// A licence (SPDX specification 2.3, Annex D).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpdxLicense {
    /// The recipe has none.
    Missing,
    /// An expression; `own` are the `LicenseRef-…` in it, which SPDX documents have to explain.
    Expression { text: String, own: Vec<String> },
    /// Text that is not an expression.
    Words(String),
}

/// Accepts deprecated names (`GPL-2.0`), which are on SPDX's list too.
const MODE: ParseMode = ParseMode {
    allow_deprecated: true,
    ..ParseMode::STRICT
};

impl SpdxLicense {
    pub fn parse(text: Option<&str>) -> Self {
        let Some(text) = text.map(str::trim).filter(|t| !t.is_empty()) else {
            return Self::Missing;
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

    /// Returns the value of SPDX's `licenseDeclared`.
    pub fn to_declared(&self) -> String {
        match self {
            Self::Missing => "NOASSERTION".into(),
            Self::Expression { text, .. } => text.clone(),
            Self::Words(words) => format!("LicenseRef-{}", compute_uuid(words)),
        }
    }

    /// Returns the references that an SPDX document has to explain, with their text.
    pub fn list_references(&self) -> Vec<(String, String)> {
        match self {
            Self::Missing => Vec::new(),
            Self::Expression { own, .. } => {
                let text = "The recipe names this licence; its text is not known here.";
                own.iter().map(|id| (id.clone(), text.into())).collect()
            }
            Self::Words(words) => vec![(self.to_declared(), words.clone())],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SpdxLicense;

    #[test]
    fn expressions_are_distinguished_from_words() {
        let own = |text: &str| match SpdxLicense::parse(Some(text)) {
            SpdxLicense::Expression { own, .. } => own.join(" "),
            other => format!("{other:?}"),
        };
        assert_eq!(own("Apache-2.0 OR MIT"), "");
        assert_eq!(own("GPL-2.0"), "");
        assert_eq!(own("LicenseRef-a AND MIT"), "LicenseRef-a");
        assert_eq!(own("GPL-2.0-only WITH Classpath-exception-2.0"), "");
        assert_eq!(own("Microsoft's terms"), "Words(\"Microsoft's terms\")");
        assert_eq!(SpdxLicense::parse(Some(" ")), SpdxLicense::Missing);
    }
}
