//! Looks at a machine every two seconds: what Hyper-V says of it, and its screen. While Windows is installed the install asks for each look; while
//! steps run a thread does, and keeps what it found for whoever waits for the guest.
//!
//! What the looks mean is decided in `vm::watch` and `vm::watchdog`.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::figures::Figures;
use super::running::Running;
use super::{picture, words};
use crate::vm::screen::Screen;
use crate::vm::screen::dialog::{self, Known};
use crate::vm::seen::{Purpose, Seen, time};
use crate::vm::watch::{Limits, Sample, State, Verdict};
use crate::vm::watchdog::Watchdog;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Event, Sink};
use winimg_base::io::write_atomically;

pub const SAMPLE: Duration = Duration::from_secs(2);

/// Takes samples, keeps the pictures that are worth it, and tells where the machine is.
pub struct Lookout {
    pub running: Arc<Running>,
    pub sink: Arc<dyn Sink>,
    told: String,
    /// The last line of the machine's log.
    logged: String,
    restarts: u32,
    pub screen: Option<Vec<u8>>,
}

impl Lookout {
    pub fn new(running: Arc<Running>, sink: Arc<dyn Sink>) -> Self {
        Self {
            running,
            sink,
            told: String::new(),
            logged: String::new(),
            restarts: 0,
            screen: None,
        }
    }

    pub fn sample(&mut self) -> Sample {
        let now = self.running.elapsed();
        let figures = self.running.look();
        if figures.restarts > self.restarts {
            self.restarts = figures.restarts;
            let count = figures.restarts;
            self.sink.emit(&Event::Restarted { count });
        }
        self.log(now, &figures);
        let screen = match figures.state {
            State::Running => self.look_at_screen(now),
            _ => None,
        };
        Sample {
            at: now,
            screen,
            io: self.running.disk_bytes(),
            demand: Some(figures.demand),
            restarts: figures.restarts,
            state: figures.state,
            ..Sample::default()
        }
    }

    fn look_at_screen(&mut self, now: Duration) -> Option<Screen> {
        self.screen = self.running.ppm();
        let ppm = self.screen.as_ref()?;
        let screen = Screen::from_ppm(ppm)?;
        let mut pictures = self.running.pictures();
        if pictures.wants(&screen) {
            let file = pictures.next();
            let png = picture::png(ppm)?;
            if write_atomically(&file, &png).is_ok() {
                pictures.taken(&screen, now, &self.stage());
                self.sink.emit(&Event::Screen {
                    file: file.display().to_string(),
                });
            }
        }
        drop(pictures);
        Some(screen)
    }

    /// What Hyper-V says of the machine, each change a line of `machine.log`.
    fn log(&mut self, now: Duration, figures: &Figures) {
        let mut line = format!("{:?}", figures.state);
        let _ = write!(line, ", {}", figures.status);
        let _ = write!(line, ", heartbeat {}", figures.heartbeat);
        let _ = write!(line, ", {} restarts", figures.restarts);
        if line == self.logged {
            return;
        }
        let path = self.running.dir.join("machine.log");
        if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) {
            // A full disk is told by the work that needs it.
            let _ = writeln!(file, "{} after power-on: {line}", time(now));
        }
        self.logged = line;
    }

    pub fn seen(&self, still_since: Option<Duration>) -> Seen {
        Seen {
            still_since,
            ..self.running.last_look(&self.stage())
        }
    }

    /// Where the machine is, in a few words.
    pub fn stage(&self) -> String {
        let what = match self.running.purpose() {
            Purpose::Steps => return "Windows".to_string(),
            Purpose::Install => "Windows Setup",
            Purpose::Boot => "the disk boots",
        };
        match self.restarts {
            0 => what.to_string(),
            n => format!("{what} (restart {n})"),
        }
    }

    /// Tells the stage, once.
    pub fn tell(&mut self, text: String) {
        if text != self.told {
            let phase = match self.running.purpose() {
                Purpose::Install => "install",
                Purpose::Boot | Purpose::Steps => "boot",
            };
            self.sink.emit(&Event::Progress {
                phase,
                text: text.clone(),
            });
            self.told = text;
        }
    }
}

/// What the watch found, for whoever waits for the guest.
pub struct Finding {
    verdict: Verdict,
    seen: Seen,
    name: String,
}

impl Finding {
    pub fn error(&self) -> Option<Error> {
        words::error(&self.verdict, &self.seen, &self.name)
    }
}

/// Watches while steps run, until `end` closes.
pub fn keep(lookout: Lookout, limits: Limits, end: Receiver<()>) -> Result<JoinHandle<()>> {
    lookout.running.steps_begin();
    let mut watch = Watch {
        lookout,
        limits,
        dog: Watchdog::new(limits),
        read: None,
    };
    std::thread::Builder::new()
        .name("watchdog".into())
        .spawn(move || {
            while end.recv_timeout(SAMPLE) == Err(RecvTimeoutError::Timeout) {
                watch.look();
            }
        })
        .map_err(|e| Error::new(Kind::Failed, "no thread can be started").because(e))
}

struct Watch {
    lookout: Lookout,
    limits: Limits,
    dog: Watchdog,
    /// The last screen that stood still and was read, and whether it is a box that Windows never gets over.
    read: Option<(Screen, bool)>,
}

impl Watch {
    fn look(&mut self) {
        let running = Arc::clone(&self.lookout.running);
        if running.attended.is_on() {
            // What a person does to the machine is no fault of it.
            self.dog = Watchdog::new(self.limits);
            return running.find(None);
        }
        let sample = self.lookout.sample();
        if sample.state != State::Running {
            // Whoever waits for the guest sees the state itself.
            return;
        }
        let (now, screen) = (sample.at, sample.screen.clone());
        let mut verdict = self.dog.look(sample, running.silence());
        if verdict == Verdict::Fine && self.dog.stands && self.is_hopeless(screen) {
            let since = now.saturating_sub(self.limits.still);
            verdict = Verdict::StandsStill { since };
        }
        let since = match &verdict {
            Verdict::Fine => return running.find(None),
            Verdict::StandsStill { since } => Some(*since),
            _ => None,
        };
        if !running.has_finding() {
            running.find(Some(Finding {
                verdict,
                seen: self.lookout.seen(since),
                name: running.name.clone(),
            }));
        }
    }

    /// Setup's last words. Each screen that stands is read once.
    fn is_hopeless(&mut self, screen: Option<Screen>) -> bool {
        let Some(screen) = screen.filter(|s| !s.is_blank()) else {
            return false;
        };
        match &self.read {
            Some((read, hopeless)) if read.stands(&screen) => *hopeless,
            _ => {
                let ppm = self.lookout.screen.clone().unwrap_or_default();
                let text = self.lookout.running.words(&ppm).join("\n");
                let found = dialog::find(&text);
                let hopeless = matches!(found, Some(Known::Dialog(known)) if known.hopeless);
                self.read = Some((screen, hopeless));
                hopeless
            }
        }
    }
}
