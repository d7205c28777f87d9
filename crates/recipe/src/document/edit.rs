//! Edits values in the text of a recipe and preserves everything else, including comments and
//! whitespace.
//!
//! Pure. Knows TOML, but not the meaning of the keys.

use toml_edit::{DocumentMut, Item, Table, TableLike, TomlError, Value};

/// A new string value of a key.
#[derive(Clone, Debug)]
pub struct RecipeEdit<'a> {
    /// Path of the table with the key; missing tables are created.
    pub tables: Vec<&'a str>,
    pub key: &'a str,
    pub value: String,
    /// A key of the same table to replace; its comments are kept.
    pub instead_of: Option<&'a str>,
    /// A trailing comment. It only replaces a comment that begins with the same word and a colon.
    pub remark: Option<String>,
}

/// Applies the edits to the text. Fails if the text is not TOML, or if a path is not a table.
pub fn put(text: &str, all: &[RecipeEdit<'_>]) -> Result<String, String> {
    let (mark, bare) = match text.strip_prefix('\u{feff}') {
        Some(bare) => ("\u{feff}", bare),
        None => ("", text),
    };
    let mut document: DocumentMut = bare.parse().map_err(|e: TomlError| e.to_string())?;
    for one in all {
        one.lay_into(document.as_table_mut())?;
    }
    let edited = document.to_string();
    // A file with mixed line ends keeps them.
    let windows = text.matches("\r\n").count();
    let is_windows = windows > 0 && windows == text.matches('\n').count();
    Ok(if is_windows {
        format!("{mark}{}", winimg_base::text::to_crlf(&edited))
    } else {
        format!("{mark}{edited}")
    })
}

/// Renders a string as TOML.
pub fn quote(text: &str) -> String {
    Value::from(text).to_string()
}

/// Renders a string as TOML without line breaks. TOML's basic strings accept all escapes of JSON,
/// but also need one for U+007F.
pub fn in_one_line(text: &str) -> String {
    let text = serde_json::Value::String(text.to_owned()).to_string();
    text.replace('\u{7f}', "\\u007f")
}

/// Renders a key for a dotted path in TOML.
pub fn in_path(key: &str) -> String {
    let is_bare = !key.is_empty()
        && key
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if is_bare {
        key.to_owned()
    } else {
        in_one_line(key)
    }
}

impl RecipeEdit<'_> {
    fn lay_into(&self, root: &mut Table) -> Result<(), String> {
        let mut table: &mut dyn TableLike = root;
        // An inline table cannot contain comments.
        let mut is_inline = false;
        for (depth, name) in self.tables.iter().enumerate() {
            let item = table.entry(name).or_insert_with(|| {
                let mut table = Table::new();
                table.set_implicit(depth + 1 < self.tables.len());
                table.decor_mut().set_prefix("\n");
                Item::Table(table)
            });
            is_inline |= item.is_inline_table();
            table = item
                .as_table_like_mut()
                .ok_or_else(|| format!("`{}` is not a table", self.tables[..=depth].join(".")))?;
        }
        let mut value = Value::from(self.value.as_str());
        let old = [self.key]
            .into_iter()
            .chain(self.instead_of)
            .find(|key| table.get(key).is_some_and(Item::is_value));
        match old.and_then(|key| table.get(key)) {
            Some(Item::Value(was)) => *value.decor_mut() = was.decor().clone(),
            // A table with its own header has unrelated whitespace.
            _ => drop(table.remove(self.key)),
        }
        if let Some(remark) = self.remark.as_ref().filter(|_| !is_inline) {
            let suffix = value.decor().suffix().and_then(|s| s.as_str());
            let comment = suffix
                .unwrap_or_default()
                .trim()
                .trim_start_matches(['#', ' ']);
            if comment.is_empty() || find_author(comment) == find_author(remark) {
                value.decor_mut().set_suffix(format!("  # {remark}"));
            }
        }
        let above = old.and_then(|key| Some(table.key(key)?.leaf_decor().clone()));
        if let Some(gone) = self.instead_of {
            table.remove(gone);
        }
        table.insert(self.key, Item::Value(value));
        if let (Some(above), Some(mut key)) = (above, table.key_mut(self.key)) {
            *key.leaf_decor_mut() = above;
        }
        Ok(())
    }
}

/// Returns the word before the colon of a comment.
fn find_author(comment: &str) -> Option<&str> {
    comment.split_once(':').map(|(author, _)| author)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pinned<'a>(tables: &[&'a str], key: &'a str) -> RecipeEdit<'a> {
        RecipeEdit {
            tables: tables.to_vec(),
            key,
            value: "5aa0".into(),
            instead_of: None,
            remark: Some("seen at https://example.com/x".into()),
        }
    }

    #[test]
    fn what_was_written_stays_as_it_was_written() {
        let text = "# A recipe.\nschema = 1\n\n[vars]   # ours\n# Which one.\nnssm_sha256   = { required = \"its digest\" }\n\
                    tier = 'gold'  # never silver\nkept = { required = \"theirs\" } # look it up\n\n\
                    [media.virtio]\nurl        = \"v.iso\"\n# None is published.\nunverified = \"none\"\n\n[outputs]\nvhd = {}\n# The end.\n";
        let virtio = RecipeEdit {
            instead_of: Some("unverified"),
            ..pinned(&["media", "virtio"], "sha256")
        };
        let all = [
            pinned(&["vars"], "nssm_sha256"),
            pinned(&["vars"], "kept"),
            pinned(&["vars"], "other"),
            virtio,
            pinned(&["components", "tool"], "sha256"),
        ];
        let expected = "# A recipe.\nschema = 1\n\n[vars]   # ours\n# Which one.\nnssm_sha256   = \"5aa0\"  # seen at https://example.com/x\n\
                        tier = 'gold'  # never silver\nkept = \"5aa0\" # look it up\nother = \"5aa0\"  # seen at https://example.com/x\n\n\
                        [media.virtio]\nurl        = \"v.iso\"\n# None is published.\nsha256 = \"5aa0\"  # seen at https://example.com/x\n\n\
                        [outputs]\nvhd = {}\n\n[components.tool]\nsha256 = \"5aa0\"  # seen at https://example.com/x\n# The end.\n";
        assert_eq!(put(text, &all).unwrap(), expected);
        // As Windows' editors write it.
        let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        let found = put(&windows, &all).unwrap();
        assert_eq!(found, format!("\u{feff}{}", expected.replace('\n', "\r\n")));
        assert_eq!(found.parse::<DocumentMut>().map(|_| ()).ok(), Some(()));
    }

    #[test]
    fn a_file_with_both_ends_of_lines_keeps_its_unix_ones() {
        let found = put("a = 1\nb = 2\r\nc = 3\n", &[pinned(&["vars"], "x")]).unwrap();
        assert!(found.starts_with("a = 1\nb = 2"), "{found:?}");
        assert!(found.contains("\nc = 3\n\n[vars]\nx = "), "{found:?}");
    }

    #[test]
    fn every_way_of_writing_a_table_holds_a_value() {
        for (text, expected) in [
            (
                "[vars.x]\nrequired = \"why\"\n",
                "[vars]\nx = \"5aa0\"  # seen at https://example.com/x\n",
            ),
            (
                "vars = { x = { required = \"why\" } }\n",
                "vars = { x = \"5aa0\" }\n",
            ),
            (
                "vars.y = 1\n",
                "vars.y = 1\nvars.x = \"5aa0\"  # seen at https://example.com/x\n",
            ),
            (
                "",
                "\n[vars]\nx = \"5aa0\"  # seen at https://example.com/x\n",
            ),
        ] {
            let found = put(text, &[pinned(&["vars"], "x")]).unwrap();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn what_cannot_hold_a_value_is_reported() {
        let said = put("vars = 1\n", &[pinned(&["vars"], "x")]).unwrap_err();
        assert_eq!(said, "`vars` is not a table");
        assert!(put("vars = \n", &[]).is_err());
    }
}
