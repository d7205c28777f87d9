//! `winimg trust update`: Sigstore's trust root, as its repository holds it now.
//!
//! Refuses what the repository's owners did not sign, what has ended, and what is older than what was seen here before.

use std::path::Path;

use url::Url;

use crate::cli;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_supply::fetch::documents::Documents;
use winimg_supply::fetch::{FetchOptions, tuf};
use winimg_trust::sigstore;

use super::{Context, host, print};

/// The longest root metadata, bytes.
const LIMIT: u64 = 1 << 20;

pub fn update(args: &cli::TrustUpdate, context: &Context) -> Result<()> {
    let own = host::trust_folder(context.host.own.as_deref());
    let (file, seen) = match (&args.to, &own) {
        (Some(to), _) => (to.clone(), io::with_suffix(to, ".tuf")),
        (None, Some(folder)) => (folder.join(host::TRUSTED_ROOT), folder.join("tuf")),
        (None, None) => {
            return Err(
                Error::new(Kind::Host, "this host has no folder for what it trusts")
                    .cure("name a file with --to, or set HOME"),
            );
        }
    };
    let base = address(args.url.as_deref().unwrap_or(tuf::PUBLIC_GOOD))?;
    let first = match &args.root {
        Some(path) => read(path)?,
        None => tuf::FIRST_ROOT.to_vec(),
    };
    io::create_folders(&seen)?;
    let store = super::store(context)?;
    let options = FetchOptions {
        proxies: context.host.proxies.clone(),
        mirrors: context.host.said.mirrors.clone(),
        ..FetchOptions::default()
    };
    let documents = Documents::new(&store, &context.sink, &context.cancel, &options);
    let found = tuf::refresh(&documents, &base, &first, &seen, jiff::Timestamp::now())?;
    // A root that could never prove anything is no root, even when it is signed.
    sigstore::check_root(&found.bytes).map_err(|why| {
        Error::new(
            Kind::Unproved,
            format!("the trust root of the repository {why}"),
        )
        .at(winimg_base::text::redact(base.as_str()))
    })?;
    let digest = Digest::sha256_of(&found.bytes);
    let is_new = io::read_limited(&file, LIMIT).ok().as_deref() != Some(&found.bytes);
    if is_new {
        io::write_atomically(&file, &found.bytes)?;
    }
    let what = if is_new { "written" } else { "up to date" };
    print(&format!(
        "{}: {what}, {digest} (TUF root {}, targets {})\n",
        file.display(),
        found.root,
        found.targets
    ))
}

/// With a slash at its end, so that names are joined below it.
fn address(text: &str) -> Result<Url> {
    let wrong = |why: String| {
        Error::new(
            Kind::Recipe,
            format!("--url is not the address of a TUF repository: {why}"),
        )
        .expected("such as https://tuf.example.com/")
    };
    let mut url = Url::parse(text).map_err(|e| wrong(e.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong(format!("its scheme is {}", url.scheme())));
    }
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    io::read_given(path, LIMIT).map_err(|e| Error::io("read", path, e))
}
