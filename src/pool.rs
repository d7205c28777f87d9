//! Parallel `map` on as many threads as there are processors; results and errors are as if one
//! thread had done it.
//!
//! Starts no thread for a list of one, and keeps none afterwards.

use std::cmp::Reverse;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use winimg_base::error::Result;

/// Applies `work` to each item and returns the results in the list's order. `size` is an item's
/// relative cost in any unit: the largest start first, so that none is still running alone at the
/// end. If several items fail, returns the error of the first in the list's order; items not
/// started by then are skipped.
pub fn map<T: Sync, R: Send>(
    items: &[T],
    size: impl Fn(&T) -> u64,
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = processors.min(items.len());
    if threads < 2 {
        return items.iter().map(work).collect();
    }
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&n| Reverse(size(&items[n])));
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        while let Some(&n) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = work(&items[n]);
            if result.is_err() {
                next.store(items.len(), Ordering::Relaxed);
            }
            done.push((n, result));
        }
        done
    };
    let mut all = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(take)).collect();
        let ended = workers.into_iter().map(|worker| worker.join());
        ended
            .flat_map(|done| done.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect::<Vec<_>>()
    });
    all.sort_by_key(|(n, _)| *n);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use winimg_base::error::Error;

    #[test]
    fn results_keep_the_order_of_the_list_whatever_is_begun_first() {
        let items: Vec<u64> = (0..1000).collect();
        let begun = Mutex::new(Vec::new());
        let found = map(
            &items,
            |n| n % 10,
            |n| {
                begun.lock().unwrap().push(*n);
                Ok(n * 2)
            },
        );
        assert_eq!(
            found.unwrap(),
            items.iter().map(|n| n * 2).collect::<Vec<_>>()
        );
        let begun = begun.into_inner().unwrap();
        assert_eq!(begun.len(), 1000);
    }

    #[test]
    fn an_error_ends_the_work() {
        let items: Vec<u64> = (0..1000).collect();
        let found = map(
            &items,
            |n| 1000 - n,
            |n| match n {
                0 => Err(Error::cancelled()),
                n => Ok(*n),
            },
        );
        assert_eq!(
            found.unwrap_err().to_string(),
            Error::cancelled().to_string()
        );
        let none: Vec<u64> = map(&[], |_: &u64| 0, |n| Ok(*n)).unwrap();
        assert!(none.is_empty());
    }
}
