//! `versions` of a component: the publisher's list of versions, which `lock::successor` reads.

use url::Url;

use winimg_base::text::Located;

/// A publisher's list of versions.
#[derive(Clone, Debug)]
pub struct VersionList {
    pub url: Located<Url>,
    pub form: VersionListFormat,
    /// Prefix of a version in the list: `helm-` for a project that releases several things.
    pub prefix: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionListFormat {
    /// A feed of releases on GitHub or GitLab: the last segment of each entry's URL is a version
    /// (RFC 4287).
    Atom,
    /// Versions separated by whitespace, such as `stable.txt` of dl.k8s.io.
    Text,
}
