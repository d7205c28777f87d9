//! The pages of OpenStack's and EC2's services. A folder is served as the list of its entries.

use std::collections::{BTreeMap, BTreeSet};

use crate::http::HttpResponse;

/// Pages by their path, without a slash at either end.
#[derive(Debug, Default)]
pub(super) struct MetadataPages(BTreeMap<String, MetadataPage>);

#[derive(Debug)]
struct MetadataPage {
    content_type: &'static str,
    body: Vec<u8>,
}

impl MetadataPages {
    pub fn add_text(&mut self, path: impl Into<String>, body: impl Into<Vec<u8>>) {
        self.add(path, "text/plain", body);
    }

    pub fn add(
        &mut self,
        path: impl Into<String>,
        content_type: &'static str,
        body: impl Into<Vec<u8>>,
    ) {
        let body = body.into();
        self.0
            .insert(path.into(), MetadataPage { content_type, body });
    }

    /// Returns a page or the list of a folder. Ignores a trailing slash, like both services.
    pub fn get(&self, path: &str) -> Option<HttpResponse> {
        let path = path.trim_matches('/');
        if let Some(page) = self.0.get(path) {
            return Some(HttpResponse::ok(page.content_type, page.body.clone()));
        }
        let entries = self.list_entries(path);
        if entries.is_empty() {
            None
        } else {
            Some(HttpResponse::ok("text/plain", entries.join("\n")))
        }
    }

    /// Returns the entries of a folder; subfolders end in `/`.
    fn list_entries(&self, folder: &str) -> Vec<String> {
        let prefix = match folder {
            "" => String::new(),
            folder => format!("{folder}/"),
        };
        let below = self.0.keys().filter_map(|path| path.strip_prefix(&prefix));
        let names: BTreeSet<String> = below
            .map(|rest| match rest.split_once('/') {
                Some((name, _)) => format!("{name}/"),
                None => rest.to_owned(),
            })
            .collect();
        // A page with pages below it is listed only as a folder.
        names
            .iter()
            .filter(|name| !names.contains(&format!("{name}/")))
            .cloned()
            .collect()
    }
}
