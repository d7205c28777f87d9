//! What a running build shows to other terminals: a private socket that says where it is and takes pictures at any time,
//! and lets a person work in the guest while the build is paused. The socket is a Unix one: on Windows a build has none, and
//! pauses at its own terminal alone.
//!
//! The guest belongs to the build's own thread: what concerns it is handed over there and answered from there. Refuses
//! everything but looking while the build is not paused. No client can harm the build: lines are bounded, clients few,
//! and nobody waits for one that hangs.

mod line;
#[cfg(unix)]
mod serve;
pub mod wire;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::wire::{Ask, Format, Halt, Reply, State, Step};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Attended;
use winimg_machine::vm::{Camera, Machine};

pub use line::{run, wait_back};

/// Whether other terminals reach a paused build: the socket is a Unix one.
pub const HAS_SOCKET: bool = cfg!(unix);
pub const SOCKET: &str = "attach.sock";
/// A picture that QEMU wrote; no screen has 16384 by 16384 pixels.
const LARGEST_PICTURE: u64 = 64 << 20;

/// What the paused build's own thread has to do.
pub enum Work {
    /// A client asks; the last reply ends its wait.
    Asked { ask: Ask, reply: Sender<Reply> },
    /// A line typed at the build's own terminal; `None` at the end of its input.
    Typed(Option<String>),
}

/// The build's end of the socket. The build says where it is, and when it pauses.
pub struct Console {
    shared: Arc<Shared>,
    /// Dropped: closed, and everyone who is connected sent away.
    #[cfg(unix)]
    _socket: serve::Socket,
}

struct Shared {
    state: Mutex<State>,
    queue: Mutex<Option<Sender<Work>>>,
    view: Mutex<Option<View>>,
    photo: Mutex<()>,
    run_dir: PathBuf,
    typed_out: AtomicBool,
}

#[derive(Clone)]
struct View {
    camera: Arc<Camera>,
    attended: Attended,
}

impl Console {
    /// Serves `run_dir/attach.sock` until dropped. `run_dir` is private (0700).
    pub fn open(run_dir: &Path, name: &str, output: &Path) -> Result<Arc<Self>> {
        let shared = Shared::new(run_dir, name, output);
        Ok(Arc::new(Self {
            #[cfg(unix)]
            _socket: serve::Socket::open(&shared)?,
            shared,
        }))
    }

    /// The machine whose screen is shown from now on. Its end needs no word: its camera then says so.
    pub fn show(&self, machine: &dyn Machine) {
        *lock(&self.shared.view) = Some(View {
            camera: Arc::new(machine.camera()),
            attended: machine.attended(),
        });
    }

    /// The build is paused; from here on its thread is given work.
    pub(super) fn pause(&self, halt: Halt) -> Receiver<Work> {
        let (to, from) = channel();
        lock(&self.shared.state).paused = Some(halt);
        *lock(&self.shared.queue) = Some(to);
        if let Some(view) = &*lock(&self.shared.view) {
            view.attended.begin();
        }
        from
    }

    /// What nobody has answered by now is refused to its client.
    pub(super) fn resume(&self) {
        *lock(&self.shared.queue) = None;
        lock(&self.shared.state).paused = None;
        if let Some(view) = &*lock(&self.shared.view) {
            view.attended.end();
        }
    }

    /// A line from the build's own terminal: for the pause that is on, or for nobody.
    pub(super) fn type_in(&self, line: Option<String>) {
        if line.is_none() {
            self.shared.typed_out.store(true, Ordering::SeqCst);
        }
        if let Some(queue) = &*lock(&self.shared.queue) {
            let _ = queue.send(Work::Typed(line));
        }
    }

    pub(super) fn is_typed_out(&self) -> bool {
        self.shared.typed_out.load(Ordering::SeqCst)
    }

    /// The build is in this phase from now on.
    pub(super) fn enter(&self, phase: &str) {
        let mut state = lock(&self.shared.state);
        state.phase = phase.into();
        state.step = None;
    }

    /// This step begins. Steps are counted from 1.
    pub(super) fn reach(&self, number: usize, of: usize, name: &str) {
        let name = name.into();
        lock(&self.shared.state).step = Some(Step { number, of, name });
    }

    pub fn state(&self) -> State {
        lock(&self.shared.state).clone()
    }

    pub fn picture(&self, format: Format) -> Result<Vec<u8>> {
        self.shared.picture(format)
    }
}

impl Shared {
    fn new(run_dir: &Path, name: &str, output: &Path) -> Arc<Self> {
        let state = State {
            name: name.into(),
            output: output.into(),
            ..State::default()
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

    fn picture(&self, format: Format) -> Result<Vec<u8>> {
        // Not held while the picture is taken: QEMU may take its time, and the build must be able to pause.
        let Some(view) = lock(&self.view).clone() else {
            return Err(Error::new(Kind::Machine, "no machine runs yet"));
        };
        let _turn = lock(&self.photo);
        let file = self.run_dir.join(match format {
            Format::Png => ".attach.png",
            Format::Ppm => ".attach.ppm",
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
    if length > LARGEST_PICTURE {
        return Err(
            Error::new(Kind::Machine, "the picture is larger than a screen can be")
                .expected(format!("at most {LARGEST_PICTURE} bytes"))
                .found(format!("{length} bytes")),
        );
    }
    std::fs::read(file).map_err(|e| Error::io("read", file, e))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
