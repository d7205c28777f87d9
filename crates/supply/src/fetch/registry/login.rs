//! Logins to registries.

use winimg_base::text::Secret;

/// A login to a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::fetch) enum RegistryLogin {
    Password {
        user: String,
        password: Secret,
    },
    /// A token to request tokens with. (Docker: `identitytoken`, an OAuth2 refresh token)
    Identity(Secret),
    /// The token itself. (Docker: `registrytoken`)
    Bearer(Secret),
}
