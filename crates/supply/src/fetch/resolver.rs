//! Resolves host names that servers name, and drops addresses that those servers may not redirect
//! to.
//!
//! The connection uses the checked addresses, so a name that resolves differently later (DNS
//! rebinding) gains nothing.

use std::io;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::policy::UrlRefusal;
use super::zone::NetworkZone;

/// Resolver for names that servers of this zone name.
pub(super) struct ZoneResolver(pub NetworkZone);

impl Resolve for ZoneResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let from = self.0;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let (may, may_not): (Vec<_>, Vec<_>) =
                found.partition(|address| from.may_lead_to(NetworkZone::from_ip(address.ip())));
            match (may.is_empty(), may_not.first()) {
                (true, Some(address)) => Err(UrlRefusal::Reach {
                    host: name.as_str().to_owned(),
                    address: address.ip(),
                }
                .into()),
                (true, None) => Err(io::Error::other("the name has no address").into()),
                (false, _) => Ok(Box::new(may.into_iter()) as Addrs),
            }
        })
    }
}
