//! Decides whether and when to retry.

use std::time::Duration;

use winimg_base::error::Error;

use super::FetchOptions;
use super::failure::FetchFailure;
use crate::store::ProgressWatch;

const MAX_WAIT: Duration = Duration::from_secs(30);
/// Longest `Retry-After` that is honoured; a longer one ends the retries.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(120);
/// Maximum number of attempts, with or without progress.
const MAX_TRIES: u32 = 1000;

/// Counts the attempts of one transfer.
#[derive(Default)]
pub(crate) struct RetryCounter {
    /// Attempts in a row without progress.
    without_progress: u32,
    total: u32,
    /// The most bytes that an attempt left for the next one.
    most_bytes: u64,
}

impl RetryCounter {
    /// Creates a counter for a transfer of which an earlier run left this many bytes.
    pub fn with_bytes(bytes: u64) -> Self {
        Self {
            most_bytes: bytes,
            ..Self::default()
        }
    }

    /// Waits until the next attempt, or gives up with the error. `have`: bytes that need not be
    /// transferred again.
    pub async fn wait(
        &mut self,
        failure: FetchFailure,
        have: u64,
        options: &FetchOptions,
        watch: &ProgressWatch,
    ) -> Result<(), Error> {
        let (wait, error) = self.next_wait(failure, have > self.most_bytes, options)?;
        self.most_bytes = self.most_bytes.max(have);
        let seconds = wait.as_secs_f64().ceil();
        watch.note(format!("{}; trying again in {seconds:.0} s", error.fact()));
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// Returns the wait before the next attempt, or the error to give up with. `progressed`: the
    /// attempt left bytes that need not be transferred again.
    fn next_wait(
        &mut self,
        failure: FetchFailure,
        progressed: bool,
        options: &FetchOptions,
    ) -> Result<(Duration, Error), Error> {
        let (error, retry_after, progressed) = match failure {
            FetchFailure::Final(error) => return Err(error),
            FetchFailure::Again { error, after } => (error, after, progressed),
            FetchFailure::Slow(error) => (error, None, false),
        };
        self.total += 1;
        self.without_progress = if progressed {
            1
        } else {
            self.without_progress + 1
        };
        if self.without_progress >= options.tries || self.total >= MAX_TRIES {
            return Err(match self.total {
                1 => error,
                n => error.lines([format!("gave up after {n} tries")]),
            });
        }
        if let Some(wait) = retry_after.filter(|wait| *wait > MAX_RETRY_AFTER) {
            return Err(error.lines([format!("the server asks to wait {} s", wait.as_secs())]));
        }
        let random = getrandom::u32().unwrap_or(u32::MAX / 2);
        let first = options.first_wait;
        let wait =
            retry_after.unwrap_or_else(|| compute_delay(self.without_progress, random, first));
        Ok((wait, error))
    }
}

/// Computes the wait: doubled for each attempt, with jitter so that builds do not retry in step.
fn compute_delay(without_progress: u32, random: u32, first: Duration) -> Duration {
    let doubled = first.saturating_mul(1 << without_progress.saturating_sub(1).min(16));
    let limited = doubled.min(MAX_WAIT);
    limited.mul_f64(0.5 + f64::from(random) / f64::from(u32::MAX) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use winimg_base::error::Kind;

    #[test]
    fn waits_double_up_to_a_limit() {
        let first = Duration::from_secs(1);
        let longest: Vec<u64> = (1..8)
            .map(|n| compute_delay(n, u32::MAX, first).as_secs())
            .collect();
        assert_eq!(longest, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(compute_delay(3, 0, first), Duration::from_secs(2));
        assert_eq!(compute_delay(u32::MAX, u32::MAX, first), MAX_WAIT);
    }

    fn failure(after: Option<u64>) -> FetchFailure {
        FetchFailure::Again {
            error: Error::new(Kind::Fetch, "broken"),
            after: after.map(Duration::from_secs),
        }
    }

    #[test]
    fn tries_without_progress_end_and_progress_starts_the_count_anew() {
        let options = FetchOptions::default();
        let mut tries = RetryCounter::default();
        for _ in 1..options.tries {
            assert!(tries.next_wait(failure(None), false, &options).is_ok());
        }
        assert!(tries.next_wait(failure(None), true, &options).is_ok());
        for _ in 2..options.tries {
            assert!(tries.next_wait(failure(None), false, &options).is_ok());
        }
        let error = tries.next_wait(failure(None), false, &options).unwrap_err();
        assert_eq!(error.to_string(), "broken\n  | gave up after 9 tries");
    }

    #[test]
    fn a_server_is_obeyed_within_reason() {
        let options = FetchOptions::default();
        let (wait, _) = RetryCounter::default()
            .next_wait(failure(Some(7)), false, &options)
            .unwrap();
        assert_eq!(wait, Duration::from_secs(7));
        let error = RetryCounter::default()
            .next_wait(failure(Some(3600)), false, &options)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "broken\n  | the server asks to wait 3600 s"
        );
    }
}
