//! The one pass over the source: workers read, test and pack chunks in any order; one thread appends them in order, one
//! hashes the flat disk, one more each format that is hashed in the disk's order. Memory is bounded by a window of
//! chunks, whatever the size of the disk.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use libdeflater::{CompressionLvl, Compressor};

use super::chunk::{Buffers, CHUNK, Chunk, is_zero, touches};
use super::{Exporter, Job, thread_panicked, vmdk};
use winimg_base::digest::{Algorithm, Hasher};
use winimg_base::error::{Error, Result};
use winimg_base::event::Cancel;
use winimg_formats::disk::Disk;

/// Chunks without data that are handed around together: the threads would spend their time waking one another.
const AT_ONCE: u64 = 16;

/// What the pass saw in the source.
pub struct Totals {
    /// Bytes of the disk.
    pub len: u64,
    /// SHA-256 over the whole disk, unfinished so that a footer can follow. `None` when no format asked.
    pub flat: Option<Hasher>,
    /// CRC-32 of each chunk; `None` for one of zeros. What is read back is compared with these.
    pub chunks: Vec<Option<u32>>,
}

/// Values that arrive in any order and leave in theirs.
struct Lane<T> {
    next: u64,
    ready: BTreeMap<u64, T>,
}

impl<T> Lane<T> {
    fn new(active: bool, total: u64) -> Self {
        Self {
            next: if active { 0 } else { total },
            ready: BTreeMap::new(),
        }
    }
}

struct State {
    claimed: u64,
    /// Chunks that every worker step is done with.
    taken: u64,
    /// One for each of `Pass::hashes`.
    hash: Vec<Lane<Arc<Chunk>>>,
    append: Lane<Vec<u8>>,
    chunks: Vec<Option<u32>>,
    error: Option<Error>,
    stopped: bool,
}

impl State {
    /// How far all that follows the workers has come.
    fn followed(&self) -> u64 {
        let hashed = self.hash.iter().map(|lane| lane.next);
        hashed.chain([self.append.next]).min().unwrap_or_default()
    }
}

/// Who gets the chunks in order, in a thread of its own.
#[derive(Clone, Copy)]
enum Hash<'p> {
    Flat,
    Format(&'p dyn Exporter),
}

struct Pass<'p> {
    source: &'p dyn Disk,
    exporters: &'p [Box<dyn Exporter + 'p>],
    data: Vec<Range<u64>>,
    total: u64,
    /// How far workers may run ahead of the slowest of hashing and appending.
    window: u64,
    hashes: Vec<Hash<'p>>,
    appends: bool,
    buffers: Buffers,
    state: Mutex<State>,
    changed: Condvar,
}

/// Drives `exporters` over `source`. `progress` gets bytes done and bytes in all, a few times a second.
pub fn run(
    source: &dyn Disk,
    exporters: &[Box<dyn Exporter + '_>],
    job: &Job<'_>,
    progress: &dyn Fn(u64, u64),
    cancel: &Cancel,
) -> Result<Totals> {
    let any = |f: fn(super::Needs) -> bool| exporters.iter().any(|e| f(e.needs()));
    let total = match any(|n| n.chunks || n.stream || n.ordered) {
        true => source.len() / CHUNK,
        false => 0,
    };
    let appends = any(|n| n.stream);
    let flat = any(|n| n.flat_digest).then_some(Hash::Flat);
    let ordered = exporters.iter().filter(|e| e.needs().ordered);
    let ordered = ordered.map(|e| Hash::Format(e.as_ref()));
    let hashes: Vec<Hash<'_>> = flat.into_iter().chain(ordered).collect();
    let pass = Pass {
        source,
        exporters,
        data: source.data()?,
        total,
        window: 24 + 4 * job.threads() as u64,
        appends,
        buffers: Buffers::default(),
        state: Mutex::new(State {
            claimed: 0,
            taken: 0,
            hash: hashes.iter().map(|_| Lane::new(true, total)).collect(),
            append: Lane::new(appends, total),
            chunks: vec![None; total as usize],
            error: None,
            stopped: false,
        }),
        changed: Condvar::new(),
        hashes,
    };
    let flat = thread::scope(|scope| {
        for _ in 0..job.threads() {
            scope.spawn(|| pass.work());
        }
        if appends {
            scope.spawn(|| pass.append());
        }
        let pass = &pass;
        let lanes = 0..pass.hashes.len();
        let hashes: Vec<_> = lanes.map(|i| scope.spawn(move || pass.hash(i))).collect();
        pass.watch(progress, cancel);
        // A panic becomes an error by the alarm, or goes on up when the scope ends.
        let ends = hashes.into_iter().filter_map(|hash| hash.join().ok());
        ends.flatten().next()
    });
    let state = pass.state.into_inner().unwrap_or_else(|p| p.into_inner());
    match state.error {
        Some(error) => Err(error),
        None => Ok(Totals {
            len: source.len(),
            flat,
            chunks: state.chunks,
        }),
    }
}

impl Pass<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked raises the alarm, which ends the pass: the state is not used after that.
        self.state.lock().unwrap_or_else(|p| p.into_inner())
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed.wait(state).unwrap_or_else(|p| p.into_inner())
    }

    fn stop(&self, error: Error) {
        let mut state = self.lock();
        state.stopped = true;
        state.error.get_or_insert(error);
        self.changed.notify_all();
    }

    /// Until all is done or stopped, shows progress and watches cancel.
    fn watch(&self, progress: &dyn Fn(u64, u64), cancel: &Cancel) {
        let mut state = self.lock();
        loop {
            let done = state.taken.min(state.followed());
            if state.stopped || done == self.total {
                drop(state);
                progress(done * CHUNK, self.total * CHUNK);
                return;
            }
            let waited = self.changed.wait_timeout(state, Duration::from_millis(100));
            let (next, timeout) = waited.unwrap_or_else(|p| p.into_inner());
            state = next;
            if timeout.timed_out() || cancel.is_cancelled() {
                drop(state);
                if cancel.is_cancelled() {
                    self.stop(Error::cancelled());
                }
                progress(done * CHUNK, self.total * CHUNK);
                state = self.lock();
            }
        }
    }

    /// The next chunk, when the window allows one, or the next few that hold nothing. `None`: there is no more to do.
    fn claim(&self) -> Option<Range<u64>> {
        let mut state = self.lock();
        loop {
            if state.stopped || state.claimed == self.total {
                return None;
            }
            let open = state.followed() + self.window;
            let first = state.claimed;
            if first < open {
                let most = open.min(self.total).min(first + AT_ONCE);
                let empty = (first..most).take_while(|&index| !touches(&self.data, index));
                state.claimed += (empty.count() as u64).max(1);
                return Some(first..state.claimed);
            }
            state = self.wait(state);
        }
    }

    fn work(&self) {
        let _alarm = Alarm(self);
        // 1.8 times as fast as level 6, and its files are 2 % larger.
        let mut compressor = Compressor::new(CompressionLvl::new(1).unwrap_or_default());
        while let Some(run) = self.claim() {
            if let Err(e) = self.take(run, &mut compressor) {
                return self.stop(e);
            }
        }
    }

    fn take(&self, run: Range<u64>, compressor: &mut Compressor) -> Result<()> {
        let mut taken = Vec::new();
        for index in run {
            let chunk = self.read(index)?;
            for exporter in self.exporters {
                if exporter.needs().chunks {
                    exporter.take(&chunk)?;
                }
            }
            let packed = match self.appends {
                true => vmdk::pack(&chunk, compressor)?,
                false => Vec::new(),
            };
            let crc = chunk.data.as_deref().map(libdeflater::crc32);
            taken.push((chunk, crc, packed));
        }
        let mut state = self.lock();
        for (chunk, crc, packed) in taken {
            let index = chunk.index;
            state.chunks[index as usize] = crc;
            state.taken += 1;
            let chunk = Arc::new(chunk);
            for lane in &mut state.hash {
                lane.ready.insert(index, Arc::clone(&chunk));
            }
            if self.appends {
                state.append.ready.insert(index, packed);
            }
        }
        self.changed.notify_all();
        Ok(())
    }

    fn read(&self, index: u64) -> Result<Chunk> {
        let mut data = None;
        if touches(&self.data, index) {
            let mut buffer = self.buffers.take();
            self.source.read_at(index * CHUNK, &mut buffer)?;
            data = Some(buffer).filter(|b| !is_zero(b));
        }
        Ok(Chunk { index, data })
    }

    /// The next values of a lane, as many as have come, by their chunks' numbers. `None`: the lane is at its end.
    fn next<T>(&self, lane: impl Fn(&mut State) -> &mut Lane<T>) -> Option<Vec<(u64, T)>> {
        let mut state = self.lock();
        loop {
            let stopped = state.stopped;
            let Lane { next, ready } = lane(&mut state);
            if stopped || *next == self.total {
                return None;
            }
            let come: Vec<(u64, T)> = (*next..)
                .map_while(|index| ready.remove_entry(&index))
                .collect();
            if !come.is_empty() {
                return Some(come);
            }
            state = self.wait(state);
        }
    }

    fn advance<T>(&self, lane: impl Fn(&mut State) -> &mut Lane<T>, chunks: usize) {
        lane(&mut self.lock()).next += chunks as u64;
        self.changed.notify_all();
    }

    fn append(&self) {
        let _alarm = Alarm(self);
        while let Some(come) = self.next(|s| &mut s.append) {
            for (index, packed) in &come {
                for exporter in self.exporters {
                    if !exporter.needs().stream {
                        continue;
                    }
                    if let Err(e) = exporter.append(*index, packed) {
                        return self.stop(e);
                    }
                }
            }
            self.advance(|s| &mut s.append, come.len());
        }
    }

    /// Gives the flat disk's hash, where the lane is for that.
    fn hash(&self, lane: usize) -> Option<Hasher> {
        let _alarm = Alarm(self);
        let mut hasher = Hasher::new(Algorithm::Sha256);
        while let Some(come) = self.next(|s| &mut s.hash[lane]) {
            let chunks = come.len();
            for (_, chunk) in come {
                match self.hashes[lane] {
                    Hash::Flat => match &chunk.data {
                        Some(bytes) => hasher.update(bytes),
                        None => hasher.zeros(CHUNK),
                    },
                    Hash::Format(exporter) => {
                        if let Err(e) = exporter.hash(&chunk) {
                            self.stop(e);
                            return None;
                        }
                    }
                }
            }
            self.advance(|s| &mut s.hash[lane], chunks);
        }
        matches!(self.hashes[lane], Hash::Flat).then_some(hasher)
    }
}

/// Ends the pass when its thread panics: the others would wait for its chunk forever.
struct Alarm<'p>(&'p Pass<'p>);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop(thread_panicked());
        }
    }
}
