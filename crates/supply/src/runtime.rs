//! The one async runtime of winimg: everything else is synchronous and waits for it here.
//!
//! It is built for the first request and lives as long as the process, so its threads and open
//! connections serve all later requests. It is never shut down: a name lookup that hangs cannot be
//! interrupted, and no caller has to wait for it.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// Runs one task until it ends or the run is cancelled.
pub(crate) fn run<T>(cancel: &Cancel, work: impl Future<Output = T>) -> Result<T> {
    block_on(async {
        tokio::select! {
            biased;
            () = wait_until_cancelled(cancel) => Err(Error::cancelled()),
            result = work => Ok(result),
        }
    })?
}

/// Runs one task until it ends.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> Result<T> {
    let runtime = match RUNTIME.get() {
        Some(runtime) => runtime,
        None => {
            let built = Builder::new_multi_thread()
                .worker_threads(2)
                .thread_name("winimg-network")
                .enable_all()
                .build()
                .map_err(|e| Error::new(Kind::Host, "no threads can be started").because(e))?;
            RUNTIME.get_or_init(|| built)
        }
    };
    Ok(runtime.block_on(work))
}

pub(crate) async fn wait_until_cancelled(cancel: &Cancel) {
    while !cancel.is_cancelled() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Runs work that reads and hashes files off the async threads.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let span = tracing::Span::current();
    match tokio::task::spawn_blocking(move || span.in_scope(work)).await {
        Ok(result) => result,
        Err(e) => Err(Error::new(Kind::Failed, "a thread ended unexpectedly").because(e)),
    }
}
