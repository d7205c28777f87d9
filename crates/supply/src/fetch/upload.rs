//! Request bodies that send a part of a file, read while they are sent.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::stream;
use reqwest::Body;
use tokio::time::sleep;

use crate::store::ProgressWatch;
use winimg_base::error::{Error, Result};

const CHUNK: u64 = 1 << 20;

/// Bytes of a body that were read so far.
#[derive(Clone, Default)]
pub(crate) struct UploadProgress(Arc<AtomicU64>);

/// Returns a body of `size` bytes of a file from `start`, in chunks, and its progress.
pub(crate) fn open_range(
    path: &Path,
    start: u64,
    size: u64,
    watch: &ProgressWatch,
) -> Result<(Body, UploadProgress)> {
    let file = File::open(path)
        .and_then(|mut file| file.seek(SeekFrom::Start(start)).map(|_| file))
        .map_err(|e| Error::io("read", path, e))?;
    let moved = UploadProgress::default();
    let state = (file.take(size), moved.clone(), watch.clone());
    let body = stream::unfold(state, move |(mut file, moved, watch)| async move {
        let mut chunk = vec![0; CHUNK as usize];
        let read = match file.read(&mut chunk) {
            Ok(0) => return None,
            Ok(read) => read,
            Err(e) => return Some((Err(e), (file, moved, watch))),
        };
        chunk.truncate(read);
        let done = moved.0.fetch_add(read as u64, Ordering::SeqCst) + read as u64;
        // The task is ended when the run is.
        let _ = watch.report_bytes(done, Some(size));
        Some((Ok(chunk), (file, moved, watch)))
    });
    Ok((Body::wrap_stream(body), moved))
}

impl UploadProgress {
    /// Returns once nothing was read for `limit`.
    pub async fn stands_still(&self, limit: Duration) {
        let mut before = self.0.load(Ordering::SeqCst);
        loop {
            sleep(limit).await;
            let after = self.0.load(Ordering::SeqCst);
            if after == before {
                return;
            }
            before = after;
        }
    }
}
