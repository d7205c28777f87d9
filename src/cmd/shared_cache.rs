//! Opens the shared cache that the arguments, the environment or this host's configuration select.
//!
//! Invalid settings are errors; an unreachable registry is not.

use std::env;
use std::path::Path;
use std::sync::Arc;

use crate::cli;
use crate::record::key;
use crate::record::sign;
use winimg_base::error::{Error, Kind, Result};
use winimg_supply::fetch::shared_cache::{
    self, CacheAddress, DEFAULT_TIMEOUTS, PushSettings, RegistryConfig, SharedCacheClient,
    SharedCacheSettings, SignFn,
};
use winimg_trust::{minisign, short_format};

use super::CommandContext;
use super::signers::read_secret;

/// Opens the cache for inputs only, for `fetch`.
pub fn open_for_inputs(
    args: &cli::SharedCacheArgs,
    offline: bool,
    context: &CommandContext,
) -> Result<Option<Arc<SharedCacheClient>>> {
    match find_address(args, context)? {
        Some(address) if !offline => open_remote(address, Vec::new(), None, context),
        _ => Ok(None),
    }
}

/// Opens the cache for inputs and layers, for `build`.
pub fn open_for_layers(
    args: &cli::SharedLayersArgs,
    offline: bool,
    context: &CommandContext,
) -> Result<Option<Arc<SharedCacheClient>>> {
    let from_environment = env::var("WINIMG_CACHE_KEY").unwrap_or_default();
    let mut texts: Vec<&str> = args.cache_keys.iter().map(String::as_str).collect();
    texts.extend(
        from_environment
            .split([',', ' ', '\n'])
            .map(str::trim)
            .filter(|text| !text.is_empty()),
    );
    let configured = &context.host.config.cache;
    if texts.is_empty() {
        texts.extend(configured.keys.iter().map(String::as_str));
    }
    let keys: Vec<_> = texts.into_iter().map(parse_key).collect::<Result<_>>()?;
    let Some(address) = find_address(&args.shared, context)? else {
        return match args.cache_push {
            None => Ok(None),
            Some(_) => Err(Error::new(Kind::Recipe, "no shared cache is configured")
                .at("--cache-push")
                .cure(
                    "set it with --cache-remote, WINIMG_CACHE_REMOTE, \
                         or `remote` under [cache] in the configuration file",
                )),
        };
    };
    let push = match args.cache_push {
        Some(mode) => Some(PushSettings {
            sign: open_signer(
                args.cache_sign_key.as_deref(),
                configured.sign_key.as_deref(),
            )?,
            is_required: mode == cli::CachePushMode::Required,
        }),
        None => None,
    };
    if offline {
        Ok(None)
    } else {
        open_remote(address, keys, push, context)
    }
}

/// Returns the address. Empty counts as unset: CI systems pass undefined variables that way.
fn find_address(
    args: &cli::SharedCacheArgs,
    context: &CommandContext,
) -> Result<Option<CacheAddress>> {
    let text = args.cache_remote.as_deref().map(str::trim);
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        return CacheAddress::parse(text)
            .map(Some)
            .map_err(|e| e.or_at("--cache-remote"));
    }
    match &context.host.config.cache.remote {
        Some(text) => CacheAddress::parse(&text.value)
            .map(Some)
            .map_err(|e| e.or_place(&text.place)),
        None => Ok(None),
    }
}

fn open_remote(
    address: CacheAddress,
    keys: Vec<minisign::MinisignRule>,
    push: Option<PushSettings>,
    context: &CommandContext,
) -> Result<Option<Arc<SharedCacheClient>>> {
    let configured = &context.host.config.cache;
    let registry_config = RegistryConfig {
        file: configured.credentials.clone(),
        token_host: configured.token_host.clone(),
    };
    let settings = SharedCacheSettings {
        login: shared_cache::find_credentials(
            &address.registry,
            &address.repository,
            &registry_config,
        )?,
        proxies: context.host.proxies.clone(),
        address,
        keys,
        push,
        patience: DEFAULT_TIMEOUTS,
    };
    SharedCacheClient::open(settings, &context.sink, &context.cancel).map(Some)
}

/// Parses a public key from its text, or reads it from a file.
fn parse_key(text: &str) -> Result<minisign::MinisignRule> {
    let (rule, at) = if short_format::is_key(text) {
        (minisign::MinisignRule::new(text), "--cache-key")
    } else {
        let text_in_file = key::read_bounded(Path::new(text))?;
        (minisign::MinisignRule::new(&text_in_file), text)
    };
    rule.map_err(|why| {
        Error::new(Kind::Recipe, format!("the key {why}"))
            .at(at)
            .expected("a minisign public key, as `minisign -G` writes it")
    })
}

fn open_signer(file: Option<&Path>, configured: Option<&Path>) -> Result<SignFn> {
    let environment = read_secret("WINIMG_CACHE_SIGN_KEY");
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
                    "use --cache-sign-key FILE, or set WINIMG_CACHE_SIGN_KEY to the key's text; \
                     `minisign -G` creates a key",
                ),
            );
        }
    };
    let key = sign::parse_minisign_key(&text, &at, read_secret("WINIMG_SIGN_PASSWORD").as_ref())?;
    Ok(Box::new(move |bytes, comment| key.sign(bytes, comment)))
}
