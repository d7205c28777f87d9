//! Login for publishing to a server or a registry, from the environment.

use crate::fetch::registry::LoginVariables;
use winimg_base::environment::read_variable;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Secret;

pub const OF_PUBLISH: LoginVariables = LoginVariables {
    user: "WINIMG_PUBLISH_USER",
    password: "WINIMG_PUBLISH_PASSWORD",
};
const TOKEN: &str = "WINIMG_PUBLISH_TOKEN";

/// A login to a server.
pub enum ServerLogin {
    Password { user: String, password: Secret },
    Token(Secret),
}

impl ServerLogin {
    /// Reads `WINIMG_PUBLISH_TOKEN`, or `WINIMG_PUBLISH_USER` and `WINIMG_PUBLISH_PASSWORD`.
    pub fn of_environment() -> Result<Option<Self>> {
        let user = read_variable(OF_PUBLISH.user);
        match (
            read_variable(TOKEN),
            user,
            read_variable(OF_PUBLISH.password),
        ) {
            (None, None, None) => Ok(None),
            (Some(token), None, None) if token.chars().all(|c| c.is_ascii_graphic()) => {
                Ok(Some(Self::Token(Secret::new(token))))
            }
            (Some(_), None, None) => Err(Error::new(
                Kind::Recipe,
                "a token contains a space, a line break or another invalid character",
            )
            .at(TOKEN)
            .cure("set it to the token only, in one line")),
            (None, Some(user), Some(password)) => Ok(Some(Self::Password {
                user,
                password: Secret::new(password),
            })),
            _ => Err(Error::new(
                Kind::Recipe,
                "the environment has an incomplete or ambiguous login for publishing",
            )
            .expected(
                "WINIMG_PUBLISH_TOKEN alone, or WINIMG_PUBLISH_USER and WINIMG_PUBLISH_PASSWORD",
            )),
        }
    }
}
