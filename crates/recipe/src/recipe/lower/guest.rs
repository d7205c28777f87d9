//! Paths in the guest, where a step names them.

use crate::recipe::GuestPath;
use crate::recipe::fields::Fields;
use winimg_base::text::Located;

impl Fields<'_> {
    /// A guest path, `C:\…`.
    pub(super) fn guest_path(&self, key: &'static str, help: &str) -> Option<Located<GuestPath>> {
        let text = self.needed_string(key, help)?;
        self.guest_path_of(key, text)
    }

    pub(super) fn guest_path_if_given(&self, key: &'static str) -> Option<Located<GuestPath>> {
        let text = self.needed_if_given(key)?;
        self.guest_path_of(key, text)
    }

    /// Empty when the key is absent; `None` when one of the list is wrong.
    pub(super) fn guest_paths(&self, key: &'static str) -> Option<Vec<Located<GuestPath>>> {
        let Some(_) = self.get(key) else {
            return Some(Vec::new());
        };
        let read = |item| self.guest_path_of(key, self.text_of(key, item)?);
        let paths: Vec<_> = self.list(key)?.iter().map(read).collect();
        paths.into_iter().collect()
    }

    pub(super) fn guest_path_of(
        &self,
        key: &str,
        text: Located<String>,
    ) -> Option<Located<GuestPath>> {
        let path = match GuestPath::parse(&text.value) {
            Ok(path) => path,
            Err((why, help)) => {
                let fact = format!("`{key}` is not a path in the guest: {why}");
                self.cx.error(fact, &text.place, "", &help);
                return None;
            }
        };
        if let Err((why, help)) = path.fit() {
            let fact = format!("`{key}` cannot be `{path}`: {why}");
            self.cx.error(fact, &text.place, "", &help);
            return None;
        }
        Some(Located::new(path, text.place))
    }
}
