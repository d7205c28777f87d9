//! Tables whose rows take long: which of them run, and a few at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Whether one of these words, which commas separate, is in one of a row's names; no words are in each.
pub fn is_wanted(words: &str, names: &[&str]) -> bool {
    let mut words = words.split(',').map(str::trim);
    words.any(|word| names.iter().any(|name| name.contains(word)))
}

/// Carries the rows out, so many at once, and gives what became of each as they end.
pub fn at_once<Row: Sync, Done: Send>(
    rows: &[Row],
    threads: usize,
    work: impl Fn(&Row) -> Done + Sync,
) -> Vec<Done> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let one = work(row);
                    done.lock().expect("no thread panics in here").push(one);
                }
            });
        }
    });
    done.into_inner().expect("no thread panicked in there")
}
