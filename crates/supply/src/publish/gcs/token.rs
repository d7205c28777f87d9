//! Google access tokens by application default credentials.
//!
//! `GOOGLE_APPLICATION_CREDENTIALS`, else the file of `gcloud auth application-default login`, else
//! the metadata of the machine: service accounts, users, workload identity federation,
//! impersonation. (Google Cloud: How Application Default Credentials works)

use std::path::PathBuf;
use std::time::{Duration, Instant};

use reqsign_core::{Context, ProvideCredential, Signer};
use reqsign_google::{
    Credential, FileCredentialProvider, RequestSigner, VmMetadataCredentialProvider,
};
use reqwest::RequestBuilder;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use tokio::sync::Mutex;

use super::super::credential_access::build_context;
use crate::fetch::Proxies;
use winimg_base::display_text;
use winimg_base::error::{Error, Kind, Result};

/// Scope of the tokens: objects, and nothing else of a project. (Cloud Storage: OAuth 2.0 scopes)
const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_write";
/// Time to keep a token. One of a service account's key is valid for an hour, one of metadata for
/// at least five minutes.
const KEPT: Duration = Duration::from_secs(240);
const VARIABLE: &str = "GOOGLE_APPLICATION_CREDENTIALS";

pub struct GcsToken {
    context: Context,
    /// The current token. With a service account's key the library would fetch one for every
    /// request.
    kept: Mutex<Option<(HeaderValue, Instant)>>,
}

impl GcsToken {
    pub fn new(proxies: &Proxies) -> Self {
        Self {
            context: build_context(proxies),
            kept: Mutex::new(None),
        }
    }

    /// Adds the `Authorization` to a request.
    pub async fn sign(&self, request: RequestBuilder) -> Result<RequestBuilder> {
        let mut kept = self.kept.lock().await;
        let fresh = kept.as_ref().filter(|(_, since)| since.elapsed() < KEPT);
        let value = match fresh {
            Some((value, _)) => value.clone(),
            None => {
                let value = self.ask().await?;
                *kept = Some((value.clone(), Instant::now()));
                value
            }
        };
        Ok(request.header(AUTHORIZATION, value))
    }

    /// Drops a rejected token, so that the next request fetches a new one.
    pub async fn forget(&self) {
        *self.kept.lock().await = None;
    }

    async fn ask(&self) -> Result<HeaderValue> {
        let mut parts = http::Request::new(()).into_parts().0;
        parts.uri = http::Uri::from_static("https://storage.googleapis.com/");
        let signer = RequestSigner::new("storage").with_scope(SCOPE);
        let signer = Signer::new(self.context.clone(), GoogleCredentialChain, signer);
        let signed = signer.sign(&mut parts, None).await;
        signed.map_err(|e| report_unsigned(&e.to_string()))?;
        let value = parts.headers.remove(AUTHORIZATION);
        value.ok_or_else(|| report_unsigned("they do not provide a token"))
    }
}

fn report_unsigned(words: &str) -> Error {
    Error::new(Kind::Publish, "there are no usable Google credentials")
        .found(display_text::sanitize_line(words))
        .cure(
            "set GOOGLE_APPLICATION_CREDENTIALS to a credentials file, or run `gcloud auth \
             application-default login`; on Google Cloud the machine's service account is used",
        )
}

/// Uses the first credentials that exist. Broken ones are an error: the permissions of other ones
/// would be a surprise.
#[derive(Debug)]
struct GoogleCredentialChain;

impl ProvideCredential for GoogleCredentialChain {
    type Credential = Credential;

    async fn provide_credential(
        &self,
        context: &Context,
    ) -> reqsign_core::Result<Option<Credential>> {
        let named = context.env_var(VARIABLE).filter(|path| !path.is_empty());
        let path = named.or_else(|| {
            let path = well_known(context)?;
            path.exists().then(|| path.to_string_lossy().into_owned())
        });
        match path {
            Some(path) => {
                let file = FileCredentialProvider::new(path).with_scope(SCOPE);
                file.provide_credential(context).await
            }
            None => {
                let machine = VmMetadataCredentialProvider::new().with_scope(SCOPE);
                machine.provide_credential(context).await
            }
        }
    }
}

/// Returns the file of gcloud.
fn well_known(context: &Context) -> Option<PathBuf> {
    let folder = match (read_variable(context, "CLOUDSDK_CONFIG"), cfg!(windows)) {
        (Some(folder), _) => PathBuf::from(folder),
        (None, true) => PathBuf::from(read_variable(context, "APPDATA")?).join("gcloud"),
        (None, false) => PathBuf::from(read_variable(context, "HOME")?).join(".config/gcloud"),
    };
    Some(folder.join("application_default_credentials.json"))
}

fn read_variable(context: &Context, name: &str) -> Option<String> {
    context.env_var(name).filter(|value| !value.is_empty())
}
