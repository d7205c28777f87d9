//! The cache that machines share, as arguments and environment name it.
//!
//! What the user wrote wrongly is an error; what the registry does is none.

use std::env;
use std::path::Path;
use std::sync::Arc;

use crate::cli;
use crate::record::key;
use crate::record::sign;
use winimg_base::error::{Error, Kind, Result};
use winimg_supply::fetch::sharing::{self, Address, Patience, Remote, Settings, Sign};
use winimg_trust::{minisign, short};

use super::Context;
use super::sign::secret;

/// For `fetch`: inputs only.
pub fn inputs(
    args: &cli::SharedCacheArgs,
    offline: bool,
    context: &Context,
) -> Result<Option<Arc<Remote>>> {
    match address(args)? {
        Some(address) if !offline => opened(address, Vec::new(), None, context),
        _ => Ok(None),
    }
}

/// For `build`: layers, too.
pub fn layers(
    args: &cli::SharedLayersArgs,
    offline: bool,
    context: &Context,
) -> Result<Option<Arc<Remote>>> {
    let from_environment = env::var("WINIMG_CACHE_KEY").unwrap_or_default();
    let from_environment = from_environment.split([',', ' ', '\n']).map(str::trim);
    let given_there = from_environment.filter(|text| !text.is_empty());
    let texts = args.cache_keys.iter().map(String::as_str);
    let keys: Vec<_> = texts.chain(given_there).map(given).collect::<Result<_>>()?;
    let Some(address) = address(&args.shared)? else {
        return Ok(None);
    };
    let push = match args.cache_push {
        true => Some(signer(args.cache_sign_key.as_deref())?),
        false => None,
    };
    match offline {
        true => Ok(None),
        false => opened(address, keys, push, context),
    }
}

/// Empty is as good as unset: that is how CI systems hand over a variable that there is not.
fn address(args: &cli::SharedCacheArgs) -> Result<Option<Address>> {
    let text = args.cache_remote.as_deref().map(str::trim);
    let text = text.filter(|text| !text.is_empty());
    text.map(Address::parse).transpose()
}

fn opened(
    address: Address,
    keys: Vec<minisign::Rule>,
    push: Option<Sign>,
    context: &Context,
) -> Result<Option<Arc<Remote>>> {
    let settings = Settings {
        credentials: sharing::credentials(&address.registry)?,
        address,
        keys,
        push,
        patience: Patience::default(),
    };
    Remote::open(settings, &context.sink, &context.cancel).map(Some)
}

/// A public key: the text itself, or a file.
fn given(text: &str) -> Result<minisign::Rule> {
    let refused = |at: &str, why: &str| {
        Error::new(Kind::Recipe, format!("the key {why}"))
            .at(at)
            .expected("a minisign public key, as `minisign -G` writes it")
    };
    if short::is_key(text) {
        return minisign::Rule::new(text).map_err(|why| refused("--cache-key", &why));
    }
    let read = key::read_bounded(Path::new(text))?;
    minisign::Rule::new(&read).map_err(|why| refused(text, &why))
}

fn signer(file: Option<&Path>) -> Result<Sign> {
    let environment = secret("WINIMG_CACHE_SIGN_KEY");
    let (text, at) = match (file, environment) {
        (Some(path), _) => (
            winimg_base::text::Secret::new(key::read_bounded(path)?),
            path.display().to_string(),
        ),
        (None, Some(text)) => (text, "WINIMG_CACHE_SIGN_KEY".to_owned()),
        (None, None) => {
            return Err(
                Error::new(Kind::Recipe, "--cache-push needs a key to sign layers with").cure(
                    "--cache-sign-key FILE, or the key's text in WINIMG_CACHE_SIGN_KEY; `minisign -G` makes one",
                ),
            );
        }
    };
    let key = sign::minisign_key(&text, &at, secret("WINIMG_SIGN_PASSWORD").as_ref())?;
    Ok(Box::new(move |bytes, comment| key.sign(bytes, comment)))
}
