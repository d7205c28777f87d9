//! Publishes a finished image to a bucket, an AMI, Azure, OpenStack, a vCenter, a server or a
//! registry.
//!
//! Sends one file after the other and checks the destination first: files that are there are not
//! sent again, and different files are only replaced if requested. Failed attempts are retried.
//! Does not validate the image; the caller has checked its files before.
//!
//! Each destination is a module with its address, flags, settings and requests; the enums in
//! `destination.rs` are the table of them.

mod address;
mod ami;
mod aws;
mod azure;
mod body;
mod bucket;
mod credential_access;
mod destination;
mod flags;
mod gcs;
mod glance;
mod login;
mod object;
mod publisher;
mod repository;
mod server;
mod service;
mod tar_members;
mod vsphere;
mod xml;

use reqwest::StatusCode;
use url::Url;

pub use destination::{AcceptedOutputs, Destination};
pub use flags::{DestinationFlag, FlagArity, FlagValues, refuse_flag};
pub use object::{
    FileRole, KnownBy, ObjectStatus, PublishFile, PublishImage, PublishObject, PublishedObject,
};
pub use publisher::{PublishHost, Publisher};

use crate::fetch::FetchOptions;
use crate::fetch::client::{HttpAnswer, HttpClient};
use crate::fetch::failure::FetchFailure;
use crate::fetch::retry::RetryCounter;
use crate::store::ProgressWatch;
use destination::{PublishTarget, RemoteObject};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};

/// Builds the client for an address, which uses http only on this machine.
fn build_client(address: &Url, options: &FetchOptions) -> HttpClient {
    let client = HttpClient::new(&options.proxies, options.patience);
    match address.scheme() {
        // A proxy would see the password, and localhost is another machine there.
        "http" => client.skip_proxies(),
        _ => client,
    }
}

/// Runs the work and retries transient failures.
async fn with_retries<T>(
    options: &FetchOptions,
    watch: &ProgressWatch,
    mut work: impl AsyncFnMut() -> Result<T, FetchFailure>,
) -> Result<T> {
    let mut tries = RetryCounter::default();
    loop {
        match work().await {
            Ok(done) => return Ok(done),
            Err(failure) => tries.wait(failure, 0, options, watch).await?,
        }
    }
}

/// Sends a request, and once more with a new token if the stored one has expired.
async fn retry_with_token(
    ask: impl AsyncFn() -> Result<HttpAnswer, FetchFailure>,
    forget: impl AsyncFnOnce(),
) -> Result<HttpAnswer, FetchFailure> {
    let answer = ask().await?;
    if answer.status() != StatusCode::UNAUTHORIZED {
        return Ok(answer);
    }
    forget().await;
    ask().await
}

/// Checks that the bytes read from the file `name` match the manifest's digest.
fn check_unchanged(name: &str, expected: &Digest, read: &Digest) -> Result<()> {
    if read == expected {
        return Ok(());
    }
    let fact = format!("{name} changed while it was being sent");
    Err(Error::new(Kind::Publish, fact)
        .expected(expected)
        .found(read))
}
