//! Pages below folders, as OpenStack's and EC2's services have them: a folder is the list of its entries.

use std::collections::{BTreeMap, BTreeSet};

use crate::http::Response;

/// Pages by their path, without a slash at either end.
#[derive(Debug, Default)]
pub(super) struct Pages(BTreeMap<String, Page>);

#[derive(Debug)]
struct Page {
    content_type: &'static str,
    body: Vec<u8>,
}

impl Pages {
    pub fn text(&mut self, path: impl Into<String>, body: impl Into<Vec<u8>>) {
        self.add(path, "text/plain", body);
    }

    pub fn add(
        &mut self,
        path: impl Into<String>,
        content_type: &'static str,
        body: impl Into<Vec<u8>>,
    ) {
        let body = body.into();
        self.0.insert(path.into(), Page { content_type, body });
    }

    /// A slash at the end of `path` changes nothing, as in both services.
    pub fn get(&self, path: &str) -> Option<Response> {
        let path = path.trim_matches('/');
        if let Some(page) = self.0.get(path) {
            return Some(Response::ok(page.content_type, page.body.clone()));
        }
        let entries = self.entries(path);
        match entries.is_empty() {
            true => None,
            false => Some(Response::ok("text/plain", entries.join("\n"))),
        }
    }

    /// What stands right below a folder, itself a folder where it ends in `/`.
    fn entries(&self, folder: &str) -> Vec<String> {
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
        // A page that has pages below it is a folder.
        let is_folder = |name: &String| names.contains(&format!("{name}/"));
        names.iter().filter(|n| !is_folder(n)).cloned().collect()
    }
}
