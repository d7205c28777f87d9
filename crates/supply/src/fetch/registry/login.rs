//! How a registry is told who asks.

use winimg_base::text::Secret;

/// How a registry is told who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::fetch) enum Login {
    Password {
        user: String,
        password: Secret,
    },
    /// Tokens are asked for with it. (Docker: `identitytoken`, an OAuth2 refresh token)
    Identity(Secret),
    /// The token itself. (Docker: `registrytoken`)
    Bearer(Secret),
}
