//! Uploads of blobs to a registry, whole or in pieces.

use bytes::Bytes;

use super::{PIECE, RegistryRepository, is_refusal};
use crate::fetch::registry::{BlobUpload, RegistryError};
use crate::fetch::retry::RetryCounter;
use crate::fetch::upload;
use crate::publish::body::ObjectBody;
use crate::publish::{PublishObject, with_retries};
use crate::store::ProgressWatch;
use winimg_base::error::Result;

impl RegistryRepository {
    /// Pushes a blob in one request.
    pub(super) async fn send_blob(
        &self,
        object: &PublishObject,
        watch: &ProgressWatch,
    ) -> Result<()> {
        with_retries(&self.options, watch, async || {
            let ObjectBody::File { path, start } = &object.body else {
                let (bytes, _) = object.body.read(0, object.size).await?;
                let given = self.client.give_blob(bytes, &object.sha256, object.size);
                return given
                    .await
                    .map_err(|e| self.classify_error(&object.name, e));
            };
            let (body, moved) = upload::open_range(path, *start, object.size, watch)?;
            let stall = self.options.patience.stall;
            tokio::select! {
                given = self.client.give_blob(body, &object.sha256, object.size) => {
                    given.map_err(|e| self.classify_error(&object.name, e))
                }
                () = moved.stands_still(stall) => {
                    let silent = crate::fetch::client::HttpFault::Silent(stall);
                    Err(self.classify_error(&object.name, silent.into()))
                }
            }
        })
        .await
    }

    pub(super) async fn send_in_pieces(
        &self,
        object: &PublishObject,
        watch: &ProgressWatch,
    ) -> Result<()> {
        let mut tries = RetryCounter::default();
        let (mut upload, mut done): (Option<BlobUpload>, u64) = (None, 0);
        loop {
            let failure = match self.go_on(object, &mut upload, &mut done, watch).await {
                Ok(()) => return Ok(()),
                // Not every registry accepts pieces.
                Err(RegistryError::Status(status, _))
                    if done == 0 && is_refusal(status.as_u16()) =>
                {
                    return self.send_blob(object, watch).await;
                }
                Err(e) => self.classify_error(&object.name, e),
            };
            tries.wait(failure, done, &self.options, watch).await?;
            let Some(started) = upload.take() else {
                continue;
            };
            let reached = with_retries(&self.options, watch, async || {
                match self.client.query_upload(&started).await {
                    Ok(reached) => Ok(Some(reached)),
                    Err(e) if e.is_passing() => Err(self.classify_error(&object.name, e)),
                    Err(_) => Ok(None),
                }
            });
            match reached.await? {
                Some((next, have)) if have <= object.size => (upload, done) = (Some(next), have),
                // Some registries forget an interrupted upload: use one request.
                _ => return self.send_blob(object, watch).await,
            }
        }
    }

    /// Pushes the pieces that are left.
    async fn go_on(
        &self,
        object: &PublishObject,
        upload: &mut Option<BlobUpload>,
        done: &mut u64,
        watch: &ProgressWatch,
    ) -> Result<(), RegistryError> {
        let mut at = match upload.take() {
            Some(started) => upload.insert(started),
            None => upload.insert(self.client.begin_upload().await?),
        };
        while *done < object.size {
            let length = PIECE.min(object.size - *done);
            let (bytes, _) = object.body.read(*done, length).await?;
            let next = self.client.give_piece(at, *done, bytes).await?;
            at = upload.insert(next);
            *done += length;
            watch.report_bytes(*done, Some(object.size))?;
        }
        self.client
            .end_upload(at, Bytes::new(), &object.sha256, 0)
            .await
    }
}
