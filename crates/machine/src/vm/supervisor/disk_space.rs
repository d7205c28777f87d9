//! Watches the host's free space for the machine's disk, which grows as the guest writes.
//!
//! QEMU pauses a guest when a write finds no space (QEMU: QMP reference, BLOCK_IO_ERROR), except
//! with NVMe, which passes the error to Windows and corrupts its file system. The guest is
//! therefore paused before that, resumed when there is space again, and stopped after a while.
//! Hyper-V pauses such a machine itself. Never deletes anything.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Supervisor, spawn};
use crate::vm::observation::format_time;
use winimg_base::error::{Error, Kind, Result};
use winimg_recipe::quantity::parse_duration;

/// Free bytes below which the guest is paused: the amount a fast guest can write between two
/// checks.
const FLOOR: u64 = 256 << 20;
/// Free bytes at which it resumes in any case.
const PLENTY: u64 = 1 << 30;
/// Default of [`PATIENCE`].
const BUDGET: Duration = Duration::from_secs(600);
/// Environment variable with the limit for waiting; it belongs to the host, not to the recipe.
const PATIENCE: &str = "WINIMG_ROOM_WAIT";
const EVERY: Duration = Duration::from_millis(250);

/// Free and total bytes of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostDiskSpace {
    pub free: u64,
    pub whole: u64,
}

impl HostDiskSpace {
    fn read(folder: &Path) -> Result<Self> {
        fs4::available_space(folder)
            .and_then(|free| {
                let whole = fs4::total_space(folder)?;
                Ok(Self { free, whole })
            })
            .map_err(|e| Error::io("read the free space of", folder, e))
    }

    fn describe(&self) -> String {
        format!("{} MiB of {} MiB free", self.free >> 20, self.whole >> 20)
    }
}

/// Refuses a host without enough free space to start. `wanted` is the number of bytes that the
/// build is known to need.
pub fn check(folder: &Path, wanted: u64) -> Result<()> {
    let space = HostDiskSpace::read(folder)?;
    tracing::debug!(folder = %folder.display(), ?space, wanted, "free space");
    require_space(folder, space, wanted)
}

fn require_space(folder: &Path, space: HostDiskSpace, wanted: u64) -> Result<()> {
    let needed = wanted.max(2 * FLOOR);
    if space.free >= needed {
        return Ok(());
    }
    Err(
        Error::new(Kind::Host, "not enough free space for the machine's disk")
            .at(folder.display())
            .expected(format!("{} MiB free", needed >> 20))
            .found(space.describe())
            .cure(CURE),
    )
}

const CURE: &str = "free some space there (`winimg cache prune` removes unused entries), \
                    or move the cache to another disk";

/// Returns the limit for which a guest of this host waits for free space.
pub fn read_wait_limit() -> Result<Duration> {
    match std::env::var_os(PATIENCE) {
        Some(text) if !text.is_empty() => patience_of(&text.to_string_lossy()),
        _ => Ok(BUDGET),
    }
}

fn patience_of(text: &str) -> Result<Duration> {
    parse_duration(text).map_err(|help| {
        Error::new(Kind::Host, format!("{PATIENCE} is not a duration"))
            .found(text)
            .cure(help)
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpaceAction {
    Nothing,
    Stop,
    GoOn,
    GiveUp,
}

#[derive(Debug)]
struct SpaceGuard {
    patience: Duration,
    /// Time at which the guest was paused, and the free bytes at that time.
    waits: Option<(Duration, u64)>,
}

impl SpaceGuard {
    fn new(patience: Duration) -> Self {
        Self {
            patience,
            waits: None,
        }
    }

    /// Decides what to do. `no_room` is true if the hypervisor paused the guest at a failed write.
    fn next_action(&mut self, now: Duration, space: HostDiskSpace, no_room: bool) -> SpaceAction {
        let Some((since, then)) = self.waits else {
            if space.free >= FLOOR && !no_room {
                return SpaceAction::Nothing;
            }
            self.waits = Some((now, space.free));
            return SpaceAction::Stop;
        };
        // With much free space the limit may be a quota: wait until more is free than before.
        let more = space.free >= then.saturating_add(space.whole / 20);
        if space.free >= FLOOR && (more || (then < PLENTY && space.free >= PLENTY)) {
            self.waits = None;
            return SpaceAction::GoOn;
        }
        if now.saturating_sub(since) >= self.patience {
            SpaceAction::GiveUp
        } else {
            SpaceAction::Nothing
        }
    }
}

#[derive(Clone, Debug)]
pub struct DiskFull {
    folder: PathBuf,
    waited: Duration,
    space: HostDiskSpace,
}

impl DiskFull {
    pub fn error(&self) -> Error {
        let fact = format!(
            "the host's disk is full: the guest waited {} for free space",
            format_time(self.waited)
        );
        Error::new(Kind::Host, fact)
            .at(self.folder.display())
            .found(self.space.describe())
            .cure(CURE)
    }
}

/// Builds the error for a guest's write that failed on the host.
pub fn write_failed(folder: &Path) -> Error {
    let error = Error::new(
        Kind::Host,
        "a write to the machine's disk failed on this host",
    )
    .at(folder.display())
    .lines(["the last writes of Windows are lost: the disk cannot be trusted"]);
    match HostDiskSpace::read(folder) {
        Ok(space) if space.free < PLENTY => error.found(space.describe()).cure(CURE),
        Ok(space) => error
            .found(space.describe())
            .cure("check the host's log (dmesg) and its quotas for the reason"),
        Err(_) => error,
    }
}

pub(super) fn keep(supervisor: Arc<Supervisor>, patience: Duration) -> Result<JoinHandle<()>> {
    spawn("room", move || watch(&supervisor, patience))
}

fn watch(supervisor: &Supervisor, patience: Duration) {
    let (folder, sink) = (supervisor.disk_folder(), &supervisor.sink);
    let driver = &supervisor.driver;
    let began = Instant::now();
    let mut keeper = SpaceGuard::new(patience);
    while !supervisor.is_over(EVERY) {
        let Some(space) = HostDiskSpace::read(folder)
            .ok()
            .filter(|_| supervisor.powered_on.get().is_some())
        else {
            continue;
        };
        let no_room = driver.found_no_room();
        match keeper.next_action(began.elapsed(), space, no_room) {
            SpaceAction::Nothing => {}
            SpaceAction::Stop => {
                supervisor.clock.stop();
                if !no_room {
                    let _ = driver.pause();
                }
                sink.warn(format!(
                    "the host's disk is full: the guest is paused until space is free, \
                     for at most {} ({} in {})",
                    format_time(patience),
                    space.describe(),
                    folder.display()
                ));
            }
            SpaceAction::GoOn => {
                // The clock last: it marks the reason while the guest is paused.
                let went_on = driver.go_on();
                supervisor.clock.go_on();
                if went_on.is_ok() {
                    sink.note(format!(
                        "the host's disk has free space again: the guest continues ({})",
                        space.describe()
                    ));
                }
            }
            SpaceAction::GiveUp => {
                let folder = folder.to_path_buf();
                let waited = patience;
                let _ = supervisor.no_room.set(DiskFull {
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

    /// A file system of 100 GiB.
    fn mib(free: u64) -> HostDiskSpace {
        HostDiskSpace {
            free: free << 20,
            whole: 100 << 30,
        }
    }

    /// Returns the action of each minute. `minutes`: free MiB, and true if QEMU paused the guest.
    fn acts(minutes: &[(u64, bool)]) -> Vec<SpaceAction> {
        let mut keeper = SpaceGuard::new(BUDGET);
        let look = |(minute, (free, no_room)): (usize, &(u64, bool))| {
            let now = Duration::from_secs(minute as u64 * 60);
            keeper.next_action(now, mib(*free), *no_room)
        };
        minutes.iter().enumerate().map(look).collect()
    }

    #[test]
    fn the_guest_waits_goes_on_and_is_given_up() {
        use SpaceAction::*;
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
        let mut keeper = SpaceGuard::new(patience_of("1m30s").expect("a time"));
        let mut look = |s| keeper.next_action(Duration::from_secs(s), mib(10), false);
        assert_eq!(
            [look(0), look(89), look(90)],
            [SpaceAction::Stop, SpaceAction::Nothing, SpaceAction::GiveUp]
        );
        let error = patience_of("long").expect_err("no time");
        assert_eq!(
            error.to_string(),
            "WINIMG_ROOM_WAIT is not a duration\n  found: long\n  \
             cure: write it as \"90s\", \"45m\", \"2h\" or \"1h30m\""
        );
    }

    #[test]
    fn a_small_file_system_needs_no_gibibyte() {
        let mut keeper = SpaceGuard::new(BUDGET);
        let mut look = |free| {
            let whole = 600 << 20;
            keeper.next_action(Duration::ZERO, HostDiskSpace { whole, ..mib(free) }, false)
        };
        assert_eq!(
            [look(250), look(279), look(280)],
            [SpaceAction::Stop, SpaceAction::Nothing, SpaceAction::GoOn]
        );
    }

    #[test]
    fn a_full_host_is_refused_with_its_numbers() {
        let space = mib(511);
        let folder = Path::new("/cache/layers/.new-1");
        let error = require_space(folder, space, 0).expect_err("no room");
        assert_eq!(
            error.to_string(),
            "not enough free space for the machine's disk\n  at: /cache/layers/.new-1\n  \
             expected: 512 MiB free\n  found: 511 MiB of 102400 MiB free\n  cure: free some space there \
             (`winimg cache prune` removes unused entries), or move the cache to another disk"
        );
        assert!(require_space(folder, mib(512), 0).is_ok());
        assert!(require_space(folder, mib(5 << 10), 6 << 30).is_err());
        let gone = DiskFull {
            folder: folder.into(),
            waited: BUDGET,
            space,
        };
        assert_eq!(
            gone.error().fact(),
            "the host's disk is full: the guest waited 10 min 0 s for free space"
        );
    }
}
