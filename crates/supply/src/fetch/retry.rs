//! When to try again, and the wait before it.

use std::time::Duration;

use winimg_base::error::Error;

use super::FetchOptions;
use super::failure::Failure;
use crate::store::Watch;

const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// A server that asks for more is not waited for.
const LONGEST_ASKED: Duration = Duration::from_secs(120);
/// Tries in all, however much each of them brings.
const TRIES_IN_ALL: u32 = 1000;

/// Counts the tries of one transfer.
#[derive(Default)]
pub(crate) struct Tries {
    /// In a row, without a further byte.
    barren: u32,
    all: u32,
    /// The most bytes that a try left for the next one.
    furthest: u64,
}

impl Tries {
    /// Begins with bytes that an earlier run brought.
    pub fn having(bytes: u64) -> Self {
        Self {
            furthest: bytes,
            ..Self::default()
        }
    }

    /// Waits until the next try, or gives up with the error. `have`: bytes that the next one need not bring again.
    pub async fn wait(
        &mut self,
        failure: Failure,
        have: u64,
        options: &FetchOptions,
        watch: &Watch,
    ) -> Result<(), Error> {
        let (wait, error) = self.after(failure, have > self.furthest, options)?;
        self.furthest = self.furthest.max(have);
        let seconds = wait.as_secs_f64().ceil();
        watch.note(format!("{}; trying again in {seconds:.0} s", error.fact()));
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// What to do after a failure: wait and try again, or give up with the error. `progressed`: the try brought bytes
    /// that a further one need not bring again.
    fn after(
        &mut self,
        failure: Failure,
        progressed: bool,
        options: &FetchOptions,
    ) -> Result<(Duration, Error), Error> {
        let (error, asked, progressed) = match failure {
            Failure::Final(error) => return Err(error),
            Failure::Again { error, after } => (error, after, progressed),
            Failure::Slow(error) => (error, None, false),
        };
        self.all += 1;
        self.barren = if progressed { 1 } else { self.barren + 1 };
        if self.barren >= options.tries || self.all >= TRIES_IN_ALL {
            return Err(match self.all {
                1 => error,
                n => error.lines([format!("given up after {n} tries")]),
            });
        }
        if let Some(asked) = asked.filter(|a| *a > LONGEST_ASKED) {
            return Err(error.lines([format!("the server asks to wait {} s", asked.as_secs())]));
        }
        let random = getrandom::u32().unwrap_or(u32::MAX / 2);
        let wait = asked.unwrap_or_else(|| delay(self.barren, random, options.first_wait));
        Ok((wait, error))
    }
}

/// Doubled for each try, then between half and the whole of that, so that many builds do not come back together.
fn delay(barren: u32, random: u32, first: Duration) -> Duration {
    let doubled = first.saturating_mul(1 << barren.saturating_sub(1).min(16));
    let whole = doubled.min(LONGEST_WAIT);
    whole.mul_f64(0.5 + f64::from(random) / f64::from(u32::MAX) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use winimg_base::error::Kind;

    #[test]
    fn waits_double_up_to_a_limit() {
        let first = Duration::from_secs(1);
        let longest: Vec<u64> = (1..8)
            .map(|n| delay(n, u32::MAX, first).as_secs())
            .collect();
        assert_eq!(longest, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(delay(3, 0, first), Duration::from_secs(2));
        assert_eq!(delay(u32::MAX, u32::MAX, first), LONGEST_WAIT);
    }

    fn failure(after: Option<u64>) -> Failure {
        Failure::Again {
            error: Error::new(Kind::Fetch, "broken"),
            after: after.map(Duration::from_secs),
        }
    }

    #[test]
    fn tries_without_progress_end_and_progress_starts_the_count_anew() {
        let options = FetchOptions::default();
        let mut tries = Tries::default();
        for _ in 1..options.tries {
            assert!(tries.after(failure(None), false, &options).is_ok());
        }
        assert!(tries.after(failure(None), true, &options).is_ok());
        for _ in 2..options.tries {
            assert!(tries.after(failure(None), false, &options).is_ok());
        }
        let error = tries.after(failure(None), false, &options).unwrap_err();
        assert_eq!(error.to_string(), "broken\n  | given up after 9 tries");
    }

    #[test]
    fn a_server_is_obeyed_within_reason() {
        let options = FetchOptions::default();
        let (wait, _) = Tries::default()
            .after(failure(Some(7)), false, &options)
            .unwrap();
        assert_eq!(wait, Duration::from_secs(7));
        let error = Tries::default()
            .after(failure(Some(3600)), false, &options)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "broken\n  | the server asks to wait 3600 s"
        );
    }
}
