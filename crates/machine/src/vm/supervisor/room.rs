//! Room on the host for the machine's disk, which grows as the guest writes.
//!
//! QEMU stops a guest whose write finds no room (QEMU: QMP reference, BLOCK_IO_ERROR), but not for NVMe, which hands the error to Windows and
//! leaves its file system torn. So the guest is also stopped before that, goes on when there is room again, and is given up after a while. Hyper-V
//! pauses such a machine itself. Deletes nothing to make room.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Supervisor, spawn};
use crate::vm::driver::Hold;
use crate::vm::seen::time;
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::recipe::quantity::duration;

/// Free bytes below which the guest is stopped: what a fast guest can write between two looks.
const FLOOR: u64 = 256 << 20;
/// Free bytes at which it goes on in any case.
const PLENTY: u64 = 1 << 30;
/// How long it waits for room, where [`PATIENCE`] does not say.
const BUDGET: Duration = Duration::from_secs(600);
/// The variable of the environment that says how long: it is the host's affair, and no recipe's.
const PATIENCE: &str = "WINIMG_ROOM_WAIT";
const EVERY: Duration = Duration::from_millis(250);

/// Bytes of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub free: u64,
    pub whole: u64,
}

impl Space {
    fn of(folder: &Path) -> Result<Self> {
        let look = |r: std::io::Result<u64>| r.map_err(|e| Error::io("look at", folder, e));
        Ok(Self {
            free: look(fs4::available_space(folder))?,
            whole: look(fs4::total_space(folder))?,
        })
    }

    fn words(&self) -> String {
        format!("{} MiB of {} MiB free", self.free >> 20, self.whole >> 20)
    }
}

/// Refuses a machine whose disk could not even begin to grow. `wanted`: what the build knows that it needs.
pub fn check(folder: &Path, wanted: u64) -> Result<()> {
    let space = Space::of(folder)?;
    tracing::debug!(folder = %folder.display(), ?space, wanted, "free space");
    enough(folder, space, wanted)
}

fn enough(folder: &Path, space: Space, wanted: u64) -> Result<()> {
    let needed = wanted.max(2 * FLOOR);
    if space.free >= needed {
        return Ok(());
    }
    Err(
        Error::new(Kind::Host, "no room on this host for the machine's disk")
            .at(folder.display())
            .expected(format!("{} MiB free", needed >> 20))
            .found(space.words())
            .cure(CURE),
    )
}

const CURE: &str = "make room there (`winimg cache prune` removes what builds no longer need), or put the cache elsewhere";

/// How long a guest of this host waits for room.
pub fn patience() -> Result<Duration> {
    match std::env::var_os(PATIENCE) {
        Some(text) if !text.is_empty() => patience_of(&text.to_string_lossy()),
        _ => Ok(BUDGET),
    }
}

fn patience_of(text: &str) -> Result<Duration> {
    duration(text).map_err(|help| {
        Error::new(Kind::Host, format!("{PATIENCE} is not a time"))
            .found(text)
            .cure(help)
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Nothing,
    Stop,
    GoOn,
    GiveUp,
}

#[derive(Debug)]
struct Keeper {
    patience: Duration,
    /// Since when the guest waits, and the room there was then.
    waits: Option<(Duration, u64)>,
}

impl Keeper {
    fn new(patience: Duration) -> Self {
        Self {
            patience,
            waits: None,
        }
    }

    /// `no_room`: the hypervisor stopped the guest because a write found none.
    fn look(&mut self, now: Duration, space: Space, no_room: bool) -> Act {
        let Some((since, then)) = self.waits else {
            if space.free >= FLOOR && !no_room {
                return Act::Nothing;
            }
            self.waits = Some((now, space.free));
            return Act::Stop;
        };
        // Where much is free a quota may be what is full: then only more than before helps.
        let more = space.free >= then.saturating_add(space.whole / 20);
        if space.free >= FLOOR && (more || (then < PLENTY && space.free >= PLENTY)) {
            self.waits = None;
            return Act::GoOn;
        }
        match now.saturating_sub(since) >= self.patience {
            true => Act::GiveUp,
            false => Act::Nothing,
        }
    }
}

#[derive(Clone, Debug)]
pub struct NoRoom {
    folder: PathBuf,
    waited: Duration,
    space: Space,
}

impl NoRoom {
    pub fn error(&self) -> Error {
        let fact = format!(
            "the host's disk is full: the guest waited {} for room",
            time(self.waited)
        );
        Error::new(Kind::Host, fact)
            .at(self.folder.display())
            .found(self.space.words())
            .cure(CURE)
    }
}

/// A write of the guest's that failed on the host and was not held back.
pub fn write_failed(folder: &Path) -> Error {
    let error = Error::new(
        Kind::Host,
        "a write to the machine's disk failed on this host",
    )
    .at(folder.display())
    .lines(["what Windows wrote last is lost: the disk can't be relied on"]);
    match Space::of(folder) {
        Ok(space) if space.free < PLENTY => error.found(space.words()).cure(CURE),
        Ok(space) => error
            .found(space.words())
            .cure("look for the reason in the host's log (dmesg) and its quotas"),
        Err(_) => error,
    }
}

pub(super) fn keep(
    supervisor: Arc<Supervisor>,
    hold: Arc<dyn Hold>,
    patience: Duration,
) -> Result<JoinHandle<()>> {
    spawn("room", move || watch(&supervisor, &*hold, patience))
}

fn watch(supervisor: &Supervisor, hold: &dyn Hold, patience: Duration) {
    let (folder, sink) = (supervisor.disk_folder(), &supervisor.sink);
    let began = Instant::now();
    let mut keeper = Keeper::new(patience);
    while !supervisor.is_over(EVERY) {
        let Some(space) = Space::of(folder)
            .ok()
            .filter(|_| supervisor.powered_on.get().is_some())
        else {
            continue;
        };
        let no_room = hold.found_no_room();
        match keeper.look(began.elapsed(), space, no_room) {
            Act::Nothing => {}
            Act::Stop => {
                supervisor.clock.stop();
                if !no_room {
                    let _ = hold.hold();
                }
                sink.warn(format!(
                    "the host's disk is full: the guest stands still until there is room, for {} at most ({} in {})",
                    time(patience),
                    space.words(),
                    folder.display()
                ));
            }
            Act::GoOn => {
                // The clock last: as long as the guest is stopped, the reason has to be there.
                let went_on = hold.go_on();
                supervisor.clock.go_on();
                if went_on.is_ok() {
                    sink.note(format!(
                        "there is room again: the guest continues ({})",
                        space.words()
                    ));
                }
            }
            Act::GiveUp => {
                let folder = folder.to_path_buf();
                let waited = patience;
                let _ = supervisor.no_room.set(NoRoom {
                    folder,
                    waited,
                    space,
                });
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a file system of 100 GiB.
    fn mib(free: u64) -> Space {
        Space {
            free: free << 20,
            whole: 100 << 30,
        }
    }

    /// What is done each minute, for MiB that are free and whether QEMU stopped the guest.
    fn acts(minutes: &[(u64, bool)]) -> Vec<Act> {
        let mut keeper = Keeper::new(BUDGET);
        let look = |(minute, (free, no_room)): (usize, &(u64, bool))| {
            let now = Duration::from_secs(minute as u64 * 60);
            keeper.look(now, mib(*free), *no_room)
        };
        minutes.iter().enumerate().map(look).collect()
    }

    #[test]
    fn the_guest_waits_goes_on_and_is_given_up() {
        use Act::*;
        let few = |free| (free, false);
        assert_eq!(
            acts(&[9000, 255, 300, 1023, 1024, 256, 255].map(few)),
            [Nothing, Stop, Nothing, Nothing, GoOn, Nothing, Stop]
        );
        // A quota: much is free, and a write found no room all the same.
        assert_eq!(
            acts(&[(9000, true), (9000, true), (14119, true), (14120, true)]),
            [Stop, Nothing, Nothing, GoOn]
        );
        let mut minutes = vec![few(10); 11];
        minutes[0] = few(100);
        let mut expected = vec![Nothing; 11];
        (expected[0], expected[10]) = (Stop, GiveUp);
        assert_eq!(acts(&minutes), expected);
    }

    #[test]
    fn how_long_is_the_hosts_affair() {
        let mut keeper = Keeper::new(patience_of("1m30s").expect("a time"));
        let mut look = |s| keeper.look(Duration::from_secs(s), mib(10), false);
        assert_eq!(
            [look(0), look(89), look(90)],
            [Act::Stop, Act::Nothing, Act::GiveUp]
        );
        let error = patience_of("long").expect_err("no time");
        assert_eq!(
            error.to_string(),
            "WINIMG_ROOM_WAIT is not a time\n  found: long\n  \
             cure: write it as \"90s\", \"45m\", \"2h\" or \"1h30m\""
        );
    }

    #[test]
    fn a_small_file_system_needs_no_gibibyte() {
        let mut keeper = Keeper::new(BUDGET);
        let mut look = |free| {
            let whole = 600 << 20;
            keeper.look(Duration::ZERO, Space { whole, ..mib(free) }, false)
        };
        assert_eq!(
            [look(250), look(279), look(280)],
            [Act::Stop, Act::Nothing, Act::GoOn]
        );
    }

    #[test]
    fn a_full_host_is_refused_with_its_numbers() {
        let space = mib(511);
        let folder = Path::new("/cache/layers/.new-1");
        let error = enough(folder, space, 0).expect_err("no room");
        assert_eq!(
            error.to_string(),
            "no room on this host for the machine's disk\n  at: /cache/layers/.new-1\n  \
             expected: 512 MiB free\n  found: 511 MiB of 102400 MiB free\n  cure: make room there \
             (`winimg cache prune` removes what builds no longer need), or put the cache elsewhere"
        );
        assert!(enough(folder, mib(512), 0).is_ok());
        assert!(enough(folder, mib(5 << 10), 6 << 30).is_err());
        let gone = NoRoom {
            folder: folder.into(),
            waited: BUDGET,
            space,
        };
        assert_eq!(
            gone.error().fact(),
            "the host's disk is full: the guest waited 10 min 0 s for room"
        );
    }
}
