//! Access tokens of Google, by the chain of its application default credentials.
//!
//! `GOOGLE_APPLICATION_CREDENTIALS`, else what `gcloud auth application-default login` left, else the metadata of the machine: service
//! accounts, users, workload identity federation, impersonation. (Google Cloud: How Application Default Credentials works)

use std::path::PathBuf;
use std::time::{Duration, Instant};

use reqsign_core::{Context, ProvideCredential, Signer};
use reqsign_google::{
    Credential, FileCredentialProvider, RequestSigner, VmMetadataCredentialProvider,
};
use reqwest::RequestBuilder;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use tokio::sync::Mutex;

use super::super::asks::context;
use crate::fetch::Proxies;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::unseen;

/// What winimg may do with it: objects, and nothing else of a project. (Cloud Storage: OAuth 2.0 scopes)
const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_write";
/// A token of a service account's key lives for an hour, one of metadata for five minutes at least.
const KEPT: Duration = Duration::from_secs(240);
const VARIABLE: &str = "GOOGLE_APPLICATION_CREDENTIALS";

pub struct Token {
    context: Context,
    /// The library asks Google for another one with every request that a service account's key signs.
    kept: Mutex<Option<(HeaderValue, Instant)>>,
}

impl Token {
    pub fn new(proxies: &Proxies) -> Self {
        Self {
            context: context(proxies),
            kept: Mutex::new(None),
        }
    }

    /// The request with its `Authorization`.
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

    /// After one that was not taken the next request asks anew.
    pub async fn forget(&self) {
        *self.kept.lock().await = None;
    }

    async fn ask(&self) -> Result<HeaderValue> {
        let mut parts = http::Request::new(()).into_parts().0;
        parts.uri = http::Uri::from_static("https://storage.googleapis.com/");
        let signer = RequestSigner::new("storage").with_scope(SCOPE);
        let signer = Signer::new(self.context.clone(), Chain, signer);
        let signed = signer.sign(&mut parts, None).await;
        signed.map_err(|e| unsigned(&e.to_string()))?;
        let value = parts.headers.remove(AUTHORIZATION);
        value.ok_or_else(|| unsigned("they give no token"))
    }
}

fn unsigned(words: &str) -> Error {
    Error::new(Kind::Publish, "there are no Google credentials that can be used")
        .found(unseen::line(words))
        .cure(
            "set GOOGLE_APPLICATION_CREDENTIALS to a file of credentials, or run `gcloud auth application-default login`; on Google Cloud the \
             service account of the machine is taken",
        )
}

/// The first that is there. What is there and broken is an error: another one's rights would surprise.
#[derive(Debug)]
struct Chain;

impl ProvideCredential for Chain {
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

/// Where gcloud writes them.
fn well_known(context: &Context) -> Option<PathBuf> {
    let set = |name: &str| context.env_var(name).filter(|value| !value.is_empty());
    let folder = match (set("CLOUDSDK_CONFIG"), cfg!(windows)) {
        (Some(folder), _) => PathBuf::from(folder),
        (None, true) => PathBuf::from(set("APPDATA")?).join("gcloud"),
        (None, false) => PathBuf::from(set("HOME")?).join(".config/gcloud"),
    };
    Some(folder.join("application_default_credentials.json"))
}
