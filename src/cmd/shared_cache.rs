//! The cache that machines share, as arguments, environment and the host's configuration name it.
//!
//! What the user wrote wrongly is an error; what the registry does is none.

use std::env;
use std::path::Path;
use std::sync::Arc;

use crate::cli;
use crate::record::key;
use crate::record::sign;
use winimg_base::error::{Error, Kind, Result};
use winimg_supply::fetch::sharing::{
    self, Address, PATIENCE, Places, Push, Remote, Settings, Sign,
};
use winimg_trust::{minisign, short};

use super::Context;
use super::sign::secret;

/// For `fetch`: inputs only.
pub fn inputs(
    args: &cli::SharedCacheArgs,
    offline: bool,
    context: &Context,
) -> Result<Option<Arc<Remote>>> {
    match address(args, context)? {
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
    let mut texts: Vec<&str> = args.cache_keys.iter().map(String::as_str).collect();
    texts.extend(given_there);
    let configured = &context.host.said.cache;
    if texts.is_empty() {
        texts.extend(configured.keys.iter().map(String::as_str));
    }
    let keys: Vec<_> = texts.into_iter().map(given).collect::<Result<_>>()?;
    let Some(address) = address(&args.shared, context)? else {
        return match args.cache_push {
            None => Ok(None),
            Some(_) => Err(Error::new(Kind::Recipe, "there is no shared cache to upload to")
                .at("--cache-push")
                .cure("name it: --cache-remote, WINIMG_CACHE_REMOTE, or `remote` under [cache] of the configuration file")),
        };
    };
    let push = match args.cache_push {
        Some(how) => Some(Push {
            sign: signer(
                args.cache_sign_key.as_deref(),
                configured.sign_key.as_deref(),
            )?,
            is_required: how == cli::CachePush::Required,
        }),
        None => None,
    };
    match offline {
        true => Ok(None),
        false => opened(address, keys, push, context),
    }
}

/// Empty is as good as unset: that is how CI systems hand over a variable that there is not.
fn address(args: &cli::SharedCacheArgs, context: &Context) -> Result<Option<Address>> {
    let text = args.cache_remote.as_deref().map(str::trim);
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        return Address::parse(text)
            .map(Some)
            .map_err(|e| e.or_at("--cache-remote"));
    }
    let configured = context.host.said.cache.remote.as_ref();
    let parsed =
        configured.map(|text| Address::parse(&text.value).map_err(|e| e.from_place(&text.place)));
    parsed.transpose()
}

fn opened(
    address: Address,
    keys: Vec<minisign::Rule>,
    push: Option<Push>,
    context: &Context,
) -> Result<Option<Arc<Remote>>> {
    let configured = &context.host.said.cache;
    let places = Places {
        file: configured.credentials.clone(),
        token_host: configured.token_host.clone(),
    };
    let settings = Settings {
        login: sharing::credentials(&address.registry, &address.repository, &places)?,
        proxies: context.host.proxies.clone(),
        address,
        keys,
        push,
        patience: PATIENCE,
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

fn signer(file: Option<&Path>, configured: Option<&Path>) -> Result<Sign> {
    let environment = secret("WINIMG_CACHE_SIGN_KEY");
    let file = file.or(configured.filter(|_| environment.is_none()));
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
