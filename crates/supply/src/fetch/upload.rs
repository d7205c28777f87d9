//! The body of a request that gives a part of a file, read while it is sent.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::stream;
use reqwest::Body;
use tokio::time::sleep;

use crate::store::Watch;
use winimg_base::error::{Error, Result};

const CHUNK: u64 = 1 << 20;

/// How far a body is.
#[derive(Clone, Default)]
pub(crate) struct Moved(Arc<AtomicU64>);

/// The bytes of a file, as many as `size`, in chunks; and how far it is.
pub(crate) fn body(path: &Path, start: u64, size: u64, watch: &Watch) -> Result<(Body, Moved)> {
    let unread = |e| Error::io("read", path, e);
    let mut file = File::open(path).map_err(unread)?;
    file.seek(SeekFrom::Start(start)).map_err(unread)?;
    let moved = Moved::default();
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
        let _ = watch.bytes(done, Some(size));
        Some((Ok(chunk), (file, moved, watch)))
    });
    Ok((Body::wrap_stream(body), moved))
}

impl Moved {
    /// Ends when nothing was read for so long.
    pub async fn stands_still(&self, limit: Duration) {
        let now = || self.0.load(Ordering::SeqCst);
        let mut before = now();
        loop {
            sleep(limit).await;
            let after = now();
            if after == before {
                return;
            }
            before = after;
        }
    }
}
