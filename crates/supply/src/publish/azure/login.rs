//! Logins to Azure: an account's key or a signature from the environment, or a token of Azure's
//! credential chain.
//!
//! If the environment names a certificate, a client secret or a workload token, only that is used:
//! a wrong one is an error, and not skipped. Otherwise the machine's managed identity, then a login
//! with `az`. (Azure Identity: credential chains)

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Uri;
use reqsign_azure_storage::{
    AzureCliCredentialProvider, ClientCertificateCredentialProvider,
    ClientSecretCredentialProvider, Credential, ImdsCredentialProvider, RequestSigner,
    WorkloadIdentityCredentialProvider,
};
use reqsign_core::{
    CommandExecute, CommandOutput, Context, Error as Unsigned, HttpSend, ProvideCredential, Signer,
};
use reqwest::RequestBuilder;
use reqwest::header::HeaderValue;
use url::{Url, form_urlencoded};

use super::super::credential_access::{
    CleanEnv, CredentialFiles, CredentialHttp, CredentialPrograms, sign,
};
use crate::fetch::Proxies;
use winimg_base::display_text;
use winimg_base::environment::read_variable;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Secret;

/// Audience of the library's tokens.
const STORAGE: &str = "https://storage.azure.com";

/// Login to a storage account from the environment.
#[derive(Clone, Debug)]
pub enum AccountLogin {
    /// `AZURE_STORAGE_KEY`
    Key(Secret),
    /// `AZURE_STORAGE_SAS_TOKEN`
    Signature(Secret),
}

impl AccountLogin {
    /// Reads `AZURE_STORAGE_KEY` or `AZURE_STORAGE_SAS_TOKEN`, and checks it.
    pub fn from_environment() -> Result<Option<Self>> {
        parse_account(
            read_variable("AZURE_STORAGE_KEY"),
            read_variable("AZURE_STORAGE_SAS_TOKEN"),
        )
    }
}

pub struct AzureLogin(Signer<Credential>);

impl AzureLogin {
    /// Creates a login for the blobs of an account.
    pub fn to_storage(account: &str, given: Option<&AccountLogin>, proxies: &Proxies) -> Self {
        let credential = given.map(|given| match given {
            AccountLogin::Key(key) => Credential::with_shared_key(account, key.expose()),
            AccountLogin::Signature(token) => {
                Credential::with_sas_token(token.expose().trim_start_matches('?'))
            }
        });
        Self::new(credential, STORAGE, proxies)
    }

    /// Creates a login by tokens for `audience`, an address without a slash at its end.
    pub fn to(audience: &str, proxies: &Proxies) -> Self {
        Self::new(None, audience, proxies)
    }

    fn new(given: Option<Credential>, audience: &str, proxies: &Proxies) -> Self {
        let context = Context::new()
            .with_env(CleanEnv)
            .with_file_read(CredentialFiles)
            .with_http_send(AudienceTranslator {
                inner: CredentialHttp::new(proxies),
                audience: audience.to_owned(),
            })
            .with_command_execute(AudienceTranslator {
                inner: CredentialPrograms,
                audience: audience.to_owned(),
            });
        Self(Signer::new(
            context,
            AzureCredentialChain(given),
            RequestSigner::new(),
        ))
    }

    /// Adds the `Authorization` to a request, or the signature to its address.
    pub async fn sign(&self, request: RequestBuilder) -> Result<RequestBuilder> {
        let (request, signed) = sign(&self.0, request, unsigned).await?;
        let (client, request) = request.build_split();
        let mut request = request
            .map_err(|e| Error::new(Kind::Publish, "a request cannot be built").because(e))?;
        request.headers_mut().values_mut().for_each(hidden);
        // Not shown: it may contain a signature.
        *request.url_mut() = Url::parse(&signed.to_string()).map_err(|_| {
            let fact = "the shared access signature cannot be part of an address";
            Error::new(Kind::Publish, fact).cure("check AZURE_STORAGE_SAS_TOKEN")
        })?;
        Ok(RequestBuilder::from_parts(client, request))
    }
}

/// Marks tokens as sensitive, so that they are not sent to another server.
fn hidden(value: &mut HeaderValue) {
    if value.as_bytes().starts_with(b"Bearer ") {
        value.set_sensitive(true);
    }
}

fn unsigned(e: &Unsigned) -> Error {
    Error::new(Kind::Publish, "there are no usable Azure credentials")
        .found(display_text::sanitize_line(&e.to_string()))
        .cure(
            "set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or run `az login`; for \
             blobs only, AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN; on Azure a managed or \
             workload identity is used",
        )
}

/// Uses the given credentials, else those of the environment or the machine.
#[derive(Debug)]
struct AzureCredentialChain(Option<Credential>);

impl ProvideCredential for AzureCredentialChain {
    type Credential = Credential;

    async fn provide_credential(
        &self,
        context: &Context,
    ) -> reqsign_core::Result<Option<Credential>> {
        if let Some(given) = &self.0 {
            return Ok(Some(given.clone()));
        }
        if is_set(context, "AZURE_CLIENT_CERTIFICATE_PATH") {
            let certificate = ClientCertificateCredentialProvider::new();
            return certificate.provide_credential(context).await;
        }
        if is_set(context, "AZURE_CLIENT_SECRET") {
            let secret = ClientSecretCredentialProvider::new();
            return secret.provide_credential(context).await;
        }
        if is_set(context, "AZURE_FEDERATED_TOKEN_FILE") {
            let workload = WorkloadIdentityCredentialProvider::new();
            return workload.provide_credential(context).await;
        }
        let identity = ImdsCredentialProvider::new();
        if let Ok(Some(credential)) = identity.provide_credential(context).await {
            return Ok(Some(credential));
        }
        let cli = AzureCliCredentialProvider::new();
        cli.provide_credential(context).await
    }
}

fn is_set(context: &Context, name: &str) -> bool {
    context.env_var(name).is_some_and(|value| !value.is_empty())
}

/// Replaces the audience in token requests: the library itself only requests tokens for storage.
#[derive(Debug)]
struct AudienceTranslator<T> {
    inner: T,
    /// Without a slash at its end.
    audience: String,
}

impl<T> AudienceTranslator<T> {
    fn word(&self, word: &str) -> String {
        match word.strip_prefix(STORAGE) {
            Some(rest @ ("/" | "/.default")) => format!("{}{rest}", self.audience),
            _ => word.to_owned(),
        }
    }

    /// Translates the values in a query or a form.
    fn form(&self, form: &[u8]) -> String {
        let pairs = form_urlencoded::parse(form);
        let pairs = pairs.map(|(name, value)| (name, self.word(&value)));
        form_urlencoded::Serializer::new(String::new())
            .extend_pairs(pairs)
            .finish()
    }
}

impl HttpSend for AudienceTranslator<CredentialHttp> {
    async fn http_send(
        &self,
        request: http::Request<Bytes>,
    ) -> reqsign_core::Result<http::Response<Bytes>> {
        let (mut parts, body) = request.into_parts();
        if let Some(query) = parts.uri.query() {
            let query = self.form(query.as_bytes());
            let whole = parts.uri.to_string();
            let base = whole.split('?').next().unwrap_or_default();
            let uri = format!("{base}?{query}").parse::<Uri>();
            parts.uri = uri.map_err(|e| Unsigned::unexpected(e.to_string()))?;
        }
        let body = self.form(&body).into();
        let request = http::Request::from_parts(parts, body);
        self.inner.http_send(request).await
    }
}

impl CommandExecute for AudienceTranslator<CredentialPrograms> {
    async fn command_execute(
        &self,
        program: &str,
        arguments: &[&str],
    ) -> reqsign_core::Result<CommandOutput> {
        let words: Vec<String> = arguments.iter().map(|word| self.word(word)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.inner.command_execute(program, &words).await
    }
}

fn parse_account(key: Option<String>, signature: Option<String>) -> Result<Option<AccountLogin>> {
    if let Some(key) = key {
        return match STANDARD.decode(&key) {
            Ok(_) => Ok(Some(AccountLogin::Key(Secret::new(key)))),
            Err(_) => {
                let expected = "a storage account's key: base64, with no space or line break";
                Err(reject_secret("AZURE_STORAGE_KEY", expected))
            }
        };
    }
    let Some(signature) = signature else {
        return Ok(None);
    };
    let is_signature =
        signature.contains("sig=") && signature.chars().all(|c| c.is_ascii_graphic());
    if is_signature {
        Ok(Some(AccountLogin::Signature(Secret::new(signature))))
    } else {
        let expected = "a shared access signature: sv=…&sig=…, with no space or line break";
        Err(reject_secret("AZURE_STORAGE_SAS_TOKEN", expected))
    }
}

fn reject_secret(name: &str, expected: &str) -> Error {
    Error::new(Kind::Recipe, format!("{name} is invalid"))
        .expected(expected)
        .cure(format!("set {name} again; its value is not shown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storage_accounts_secret_that_cannot_be_used_is_named() {
        let some = |text: &str| Some(text.to_owned());
        let read = |key, signature| match parse_account(key, signature) {
            Ok(Some(AccountLogin::Key(_))) => "a key".to_owned(),
            Ok(Some(AccountLogin::Signature(_))) => "a signature".to_owned(),
            Ok(None) => "none".to_owned(),
            Err(error) => error.fact().to_owned(),
        };
        assert_eq!(read(None, None), "none");
        assert_eq!(read(some("c2VjcmV0"), some("sig=x")), "a key");
        assert_eq!(
            read(some("c2Vj cmV0"), None),
            "AZURE_STORAGE_KEY is invalid"
        );
        assert_eq!(read(None, some("?sv=1&sig=ab%2Bc%3D")), "a signature");
        for wrong in ["sv=1&sig=a b", "sv=1&sig=a\nb", "hunter2"] {
            assert_eq!(
                read(None, some(wrong)),
                "AZURE_STORAGE_SAS_TOKEN is invalid"
            );
        }
    }
}
