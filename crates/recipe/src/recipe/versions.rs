//! `versions` of a component: where its publisher lists what there is. Reading such a list is `lock::successor`'s.

use url::Url;

use winimg_base::text::Located;

/// A publisher's list of versions.
#[derive(Clone, Debug)]
pub struct Versions {
    pub url: Located<Url>,
    pub form: Form,
    /// What stands before a version in the list: `helm-` of a project that releases more than one thing.
    pub prefix: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A feed of releases as GitHub and GitLab make it: the last segment of each entry's address is a version (RFC 4287).
    Atom,
    /// Versions with blanks or line ends between them, such as `stable.txt` of dl.k8s.io.
    Text,
}
