//! Who asks Azure: an account's key or a signature from the environment, or a token of Azure's own chain of credentials.
//!
//! A certificate, a client's secret or a workload's token where the environment names one, and that one alone: a wrong one is an error
//! and not passed over. Else the machine's managed identity, and `az` where somebody logged in. (Azure Identity: credential chains)

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
use reqwest::header::{ACCEPT_ENCODING, HeaderValue};
use url::{Url, form_urlencoded};

use super::super::asks::{Asks, Files, Programs, Variables};
use crate::fetch::Proxies;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::text::Secret;
use winimg_base::unseen;

/// Whom the library asks for tokens for.
const STORAGE: &str = "https://storage.azure.com";

/// What the environment gives for a storage account.
#[derive(Clone, Debug)]
pub enum AccountLogin {
    /// `AZURE_STORAGE_KEY`
    Key(Secret),
    /// `AZURE_STORAGE_SAS_TOKEN`
    Signature(Secret),
}

pub struct Login(Signer<Credential>);

impl Login {
    /// For the blobs of an account.
    pub fn to_storage(account: &str, given: Option<&AccountLogin>, proxies: &Proxies) -> Self {
        let credential = given.map(|given| match given {
            AccountLogin::Key(key) => Credential::with_shared_key(account, key.expose()),
            AccountLogin::Signature(token) => {
                Credential::with_sas_token(token.expose().trim_start_matches('?'))
            }
        });
        Self::new(credential, STORAGE, proxies)
    }

    /// By tokens for `audience`, an address without a slash at its end.
    pub fn to(audience: &str, proxies: &Proxies) -> Self {
        Self::new(None, audience, proxies)
    }

    fn new(given: Option<Credential>, audience: &str, proxies: &Proxies) -> Self {
        let translated = |inner| Translated {
            inner,
            audience: audience.to_owned(),
        };
        let context = Context::new()
            .with_env(Variables)
            .with_file_read(Files)
            .with_http_send(translated(Asks::new(proxies)))
            .with_command_execute(Translated {
                inner: Programs,
                audience: audience.to_owned(),
            });
        Self(Signer::new(context, Chain(given), RequestSigner::new()))
    }

    /// The request with its `Authorization`, or with the signature in its address.
    pub async fn sign(&self, request: RequestBuilder) -> Result<RequestBuilder> {
        let (client, request) = request.build_split();
        let malformed = |e| Error::new(Kind::Publish, "a request cannot be made").because(e);
        let mut request = request.map_err(malformed)?;
        let unsignable = |e| Error::new(Kind::Publish, "an address cannot be signed").because(e);
        // Proxies may change it.
        let encoding = request.headers_mut().remove(ACCEPT_ENCODING);
        let mut parts = http::Request::new(()).into_parts().0;
        parts.method = request.method().clone();
        parts.uri = request.url().as_str().parse().map_err(unsignable)?;
        parts.headers = request.headers().clone();
        let signed = self.0.sign(&mut parts, None).await;
        signed.map_err(|e| unsigned(&e))?;
        if let Some(encoding) = encoding {
            parts.headers.insert(ACCEPT_ENCODING, encoding);
        }
        parts.headers.values_mut().for_each(hidden);
        // Not in words: it may hold a signature.
        let signed = Url::parse(&parts.uri.to_string());
        *request.url_mut() = signed.map_err(|_| {
            let fact = "the shared access signature makes no address";
            Error::new(Kind::Publish, fact).cure("check AZURE_STORAGE_SAS_TOKEN")
        })?;
        *request.headers_mut() = parts.headers;
        Ok(RequestBuilder::from_parts(client, request))
    }
}

/// A token goes to no other server.
fn hidden(value: &mut HeaderValue) {
    if value.as_bytes().starts_with(b"Bearer ") {
        value.set_sensitive(true);
    }
}

fn unsigned(e: &Unsigned) -> Error {
    Error::new(Kind::Publish, "there are no Azure credentials that can be used")
        .found(unseen::line(&e.to_string()))
        .cure(
            "set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or run `az login`; for blobs alone AZURE_STORAGE_KEY or \
             AZURE_STORAGE_SAS_TOKEN; on Azure a managed or a workload identity is taken",
        )
}

/// The credentials that were given, else those that the environment or the machine names.
#[derive(Debug)]
struct Chain(Option<Credential>);

impl ProvideCredential for Chain {
    type Credential = Credential;

    async fn provide_credential(
        &self,
        context: &Context,
    ) -> reqsign_core::Result<Option<Credential>> {
        let names = |name: &str| context.env_var(name).is_some_and(|value| !value.is_empty());
        if let Some(given) = &self.0 {
            return Ok(Some(given.clone()));
        }
        if names("AZURE_CLIENT_CERTIFICATE_PATH") {
            let certificate = ClientCertificateCredentialProvider::new();
            return certificate.provide_credential(context).await;
        }
        if names("AZURE_CLIENT_SECRET") {
            let secret = ClientSecretCredentialProvider::new();
            return secret.provide_credential(context).await;
        }
        if names("AZURE_FEDERATED_TOKEN_FILE") {
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

/// The library asks for tokens for storage alone. Others are had by the same questions with another audience in them.
#[derive(Debug)]
struct Translated<T> {
    inner: T,
    /// Without a slash at its end.
    audience: String,
}

impl<T> Translated<T> {
    fn word(&self, word: &str) -> String {
        match word.strip_prefix(STORAGE) {
            Some(rest @ ("/" | "/.default")) => format!("{}{rest}", self.audience),
            _ => word.to_owned(),
        }
    }

    /// The same names and values, in a query or a form.
    fn form(&self, form: &[u8]) -> String {
        let pairs = form_urlencoded::parse(form);
        let pairs = pairs.map(|(name, value)| (name, self.word(&value)));
        form_urlencoded::Serializer::new(String::new())
            .extend_pairs(pairs)
            .finish()
    }
}

impl HttpSend for Translated<Asks> {
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

impl CommandExecute for Translated<Programs> {
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
