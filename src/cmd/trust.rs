//! `winimg trust update`: downloads Sigstore's current trust root from its repository.
//!
//! Rejects metadata that is not signed by the repository's owners, has expired, or is older than
//! metadata seen before.

use std::path::Path;

use url::Url;

use crate::cli;
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_supply::fetch::documents::Documents;
use winimg_supply::fetch::{FetchOptions, tuf};
use winimg_trust::sigstore;

use super::{CommandContext, host, print};

/// Maximum size of root metadata, in bytes.
const LIMIT: u64 = 1 << 20;

pub fn update(args: &cli::TrustUpdateArgs, context: &CommandContext) -> Result<()> {
    let own = host::trust_folder(context.host.own.as_deref());
    let (file, seen) = match (&args.to, &own) {
        (Some(to), _) => (to.clone(), io::with_suffix(to, ".tuf")),
        (None, Some(folder)) => (folder.join(host::TRUSTED_ROOT), folder.join("tuf")),
        (None, None) => {
            return Err(Error::new(
                Kind::Host,
                "this host has no configuration folder for the trust root",
            )
            .cure("give a file with --to, or set HOME"));
        }
    };
    let base = parse_url(args.url.as_deref().unwrap_or(tuf::PUBLIC_GOOD))?;
    let first = match &args.root {
        Some(path) => read(path)?,
        None => tuf::FIRST_ROOT.to_vec(),
    };
    io::create_folders(&seen)?;
    let store = super::open_store(context)?;
    let options = FetchOptions {
        proxies: context.host.proxies.clone(),
        mirrors: context.host.config.mirrors.clone(),
        ..FetchOptions::default()
    };
    let documents = Documents::new(&store, &context.sink, &context.cancel, &options);
    let found = tuf::refresh(&documents, &base, &first, &seen, jiff::Timestamp::now())?;
    // A signed root may still be unusable.
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

/// Parses a repository's URL and adds a trailing slash, so that names are joined below it.
fn parse_url(text: &str) -> Result<Url> {
    let parsed = match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
        Ok(url) => Err(format!("its scheme is {}", url.scheme())),
        Err(e) => Err(e.to_string()),
    };
    let mut url = parsed.map_err(|why| {
        Error::new(
            Kind::Recipe,
            format!("--url is not the URL of a TUF repository: {why}"),
        )
        .expected("such as https://tuf.example.com/")
    })?;
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    io::read_argument(path, LIMIT).map_err(|e| Error::io("read", path, e))
}
