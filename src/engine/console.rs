//! The console of a running build for other terminals: a private socket that reports the state and
//! takes screenshots at any time, and gives access to the guest while the build is paused. It is a
//! Unix socket: on Windows there is none, and a build pauses only on its own terminal.
//!
//! The guest belongs to the build's own thread, so requests that need it are queued and answered
//! there. Rejects all other requests while the build is not paused. No client can harm the build:
//! lines are bounded, clients are few, and a client that hangs does not block anything.

mod line;
#[cfg(unix)]
mod serve;
pub mod wire;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::wire::{
    ConsoleReply, ConsoleRequest, ConsoleStatus, PauseState, ScreenFormat, StepPosition,
};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::UserControl;
use winimg_machine::vm::{ScreenCamera, VirtualMachine};

pub use line::{run, wait_back};

/// True if other terminals can reach a paused build: only Unix has the socket.
pub const HAS_SOCKET: bool = cfg!(unix);
pub const SOCKET: &str = "attach.sock";
/// Maximum size of a screenshot: no screen has 16384 by 16384 pixels.
const MAX_PICTURE_SIZE: u64 = 64 << 20;

/// Work for the paused build's own thread.
pub enum ConsoleWork {
    /// A client's request; the last reply ends its wait.
    Asked {
        ask: ConsoleRequest,
        reply: Sender<ConsoleReply>,
    },
    /// A line typed at the build's own terminal; `None` at the end of its input.
    Typed(Option<String>),
}

/// The build's side of the socket. The build publishes its state here, and when it pauses.
pub struct BuildConsole {
    shared: Arc<ConsoleShared>,
    /// Closed on drop, which disconnects all clients.
    #[cfg(unix)]
    _socket: serve::ConsoleSocket,
}

struct ConsoleShared {
    state: Mutex<ConsoleStatus>,
    queue: Mutex<Option<Sender<ConsoleWork>>>,
    view: Mutex<Option<MachineView>>,
    photo: Mutex<()>,
    run_dir: PathBuf,
    typed_out: AtomicBool,
}

#[derive(Clone)]
struct MachineView {
    camera: Arc<ScreenCamera>,
    attended: UserControl,
}

impl BuildConsole {
    /// Serves `run_dir/attach.sock` until dropped. `run_dir` is private (0700).
    pub fn open(run_dir: &Path, name: &str, output: &Path) -> Result<Arc<Self>> {
        let shared = ConsoleShared::new(run_dir, name, output);
        Ok(Arc::new(Self {
            #[cfg(unix)]
            _socket: serve::ConsoleSocket::open(&shared)?,
            shared,
        }))
    }

    /// Sets the VM to show. Its end needs no call: its camera then returns an error.
    pub fn show(&self, machine: &dyn VirtualMachine) {
        *lock(&self.shared.view) = Some(MachineView {
            camera: Arc::new(machine.camera()),
            attended: machine.attended(),
        });
    }

    /// Marks the build as paused and returns the queue of work for its thread.
    pub(super) fn pause(&self, halt: PauseState) -> Receiver<ConsoleWork> {
        let (to, from) = channel();
        lock(&self.shared.state).paused = Some(halt);
        *lock(&self.shared.queue) = Some(to);
        if let Some(view) = &*lock(&self.shared.view) {
            view.attended.begin();
        }
        from
    }

    /// Marks the build as running again. Requests that are still pending are rejected.
    pub(super) fn resume(&self) {
        *lock(&self.shared.queue) = None;
        lock(&self.shared.state).paused = None;
        if let Some(view) = &*lock(&self.shared.view) {
            view.attended.end();
        }
    }

    /// Forwards a line from the build's own terminal to the current pause, or drops it.
    pub(super) fn type_in(&self, line: Option<String>) {
        if line.is_none() {
            self.shared.typed_out.store(true, Ordering::SeqCst);
        }
        if let Some(queue) = &*lock(&self.shared.queue) {
            let _ = queue.send(ConsoleWork::Typed(line));
        }
    }

    pub(super) fn is_typed_out(&self) -> bool {
        self.shared.typed_out.load(Ordering::SeqCst)
    }

    /// Records the start of a phase.
    pub(super) fn enter(&self, phase: &str) {
        let mut state = lock(&self.shared.state);
        state.phase = phase.into();
        state.step = None;
    }

    /// Records the start of a step, counted from 1.
    pub(super) fn start_step(&self, number: usize, of: usize, name: &str) {
        let name = name.into();
        lock(&self.shared.state).step = Some(StepPosition { number, of, name });
    }

    pub fn state(&self) -> ConsoleStatus {
        lock(&self.shared.state).clone()
    }

    pub fn take_screenshot(&self, format: ScreenFormat) -> Result<Vec<u8>> {
        self.shared.take_screenshot(format)
    }
}

impl ConsoleShared {
    fn new(run_dir: &Path, name: &str, output: &Path) -> Arc<Self> {
        let state = ConsoleStatus {
            name: name.into(),
            output: output.into(),
            ..ConsoleStatus::default()
        };
        Arc::new(Self {
            state: Mutex::new(state),
            queue: Mutex::default(),
            view: Mutex::default(),
            photo: Mutex::default(),
            run_dir: run_dir.into(),
            typed_out: AtomicBool::default(),
        })
    }

    fn take_screenshot(&self, format: ScreenFormat) -> Result<Vec<u8>> {
        // Released while the screenshot is taken: QEMU may be slow, and the build must be able to
        // pause.
        let Some(view) = lock(&self.view).clone() else {
            return Err(Error::new(Kind::Machine, "no VM is running yet"));
        };
        let _turn = lock(&self.photo);
        let file = self.run_dir.join(match format {
            ScreenFormat::Png => ".attach.png",
            ScreenFormat::Ppm => ".attach.ppm",
        });
        let taken = (view.camera)(&file).and_then(|()| read_picture(&file));
        let _ = std::fs::remove_file(&file);
        taken
    }
}

fn read_picture(file: &Path) -> Result<Vec<u8>> {
    let length = std::fs::metadata(file)
        .map_err(|e| Error::io("read", file, e))?
        .len();
    if length > MAX_PICTURE_SIZE {
        return Err(Error::new(Kind::Machine, "the screenshot is too large")
            .expected(format!("at most {MAX_PICTURE_SIZE} bytes"))
            .found(format!("{length} bytes")));
    }
    std::fs::read(file).map_err(|e| Error::io("read", file, e))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
