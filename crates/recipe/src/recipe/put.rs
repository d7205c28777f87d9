//! Values put into the text of a recipe: everything else stays as it was written, comments and blanks too.
//!
//! Pure. Knows TOML and nothing of what the keys mean.

use toml_edit::{DocumentMut, Item, Table, TableLike, TomlError, Value};

/// A string for one key.
#[derive(Clone, Debug)]
pub struct Put<'a> {
    /// The tables that hold the key, from the outermost; made when they are not there.
    pub tables: Vec<&'a str>,
    pub key: &'a str,
    pub value: String,
    /// A key beside it that goes, and leaves its comments to this one.
    pub instead_of: Option<&'a str>,
    /// A comment behind the value, where none stands but one that begins with the same word and a colon.
    pub remark: Option<String>,
}

/// The text with all of them. The error says where the text is not TOML, or what holds no keys.
pub fn put(text: &str, all: &[Put<'_>]) -> Result<String, String> {
    let (mark, bare) = match text.strip_prefix('\u{feff}') {
        Some(bare) => ("\u{feff}", bare),
        None => ("", text),
    };
    let mut document: DocumentMut = bare.parse().map_err(|e: TomlError| e.to_string())?;
    for one in all {
        one.lay_into(document.as_table_mut())?;
    }
    let edited = document.to_string();
    // A file with both is left with both.
    let windows = text.matches("\r\n").count();
    let is_windows = windows > 0 && windows == text.matches('\n').count();
    Ok(match is_windows {
        true => format!("{mark}{}", winimg_base::text::crlf(&edited)),
        false => format!("{mark}{edited}"),
    })
}

/// A string as TOML writes it.
pub fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// The same without line breaks. The escapes that are written for JSON are among those of a basic string of TOML, which refuses one sign more.
pub fn in_one_line(text: &str) -> String {
    let text = serde_json::Value::String(text.to_owned()).to_string();
    text.replace('\u{7f}', "\\u007f")
}

/// A key as TOML writes it in a dotted path.
pub fn in_path(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match !key.is_empty() && key.chars().all(bare) {
        true => key.to_owned(),
        false => in_one_line(key),
    }
}

impl Put<'_> {
    fn lay_into(&self, root: &mut Table) -> Result<(), String> {
        let mut table: &mut dyn TableLike = root;
        // No comment fits into `{ … }`.
        let mut is_inline = false;
        for (depth, name) in self.tables.iter().enumerate() {
            let made = || {
                let mut table = Table::new();
                table.set_implicit(depth + 1 < self.tables.len());
                table.decor_mut().set_prefix("\n");
                Item::Table(table)
            };
            let item = table.entry(name).or_insert_with(made);
            is_inline |= item.is_inline_table();
            table = item
                .as_table_like_mut()
                .ok_or_else(|| format!("`{}` is no table", self.tables[..=depth].join(".")))?;
        }
        let mut value = Value::from(self.value.as_str());
        let old = [self.key].into_iter().chain(self.instead_of);
        let is_value = |key: &&str| table.get(key).is_some_and(Item::is_value);
        let old = old.into_iter().find(is_value);
        match old.and_then(|key| table.get(key)) {
            Some(Item::Value(was)) => *value.decor_mut() = was.decor().clone(),
            // A table under its own header, whose blanks are another's.
            _ => drop(table.remove(self.key)),
        }
        if let Some(remark) = self.remark.as_ref().filter(|_| !is_inline) {
            let suffix = value.decor().suffix().and_then(|s| s.as_str());
            let stands = suffix
                .unwrap_or_default()
                .trim()
                .trim_start_matches(['#', ' ']);
            let author = |text: &str| text.split_once(':').map(|(author, _)| author.to_string());
            if stands.is_empty() || author(stands) == author(remark) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pinned<'a>(tables: &[&'a str], key: &'a str) -> Put<'a> {
        Put {
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
        let virtio = Put {
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
        assert_eq!(said, "`vars` is no table");
        assert!(put("vars = \n", &[]).is_err());
    }
}
