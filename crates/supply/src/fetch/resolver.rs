//! Looks up the names that servers give, and drops addresses that lie nearer than those servers may lead.
//!
//! What is asked is what was judged: a name that has another address at its second look-up gains nothing.

use std::io;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::policy::Refusal;
use super::space::Space;

/// For the names that servers of this space give.
pub(super) struct Within(pub Space);

impl Resolve for Within {
    fn resolve(&self, name: Name) -> Resolving {
        let from = self.0;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let (may, may_not): (Vec<_>, Vec<_>) =
                found.partition(|address| from.may_lead_to(Space::of(address.ip())));
            match (may.is_empty(), may_not.first()) {
                (true, Some(address)) => Err(Refusal::Reach {
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
