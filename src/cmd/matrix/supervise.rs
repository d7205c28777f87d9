//! Builds as processes of their own: started in their turn, heard, and asked to stop when we are.
//!
//! Each child is this program as `winimg build`. It ends with us, however we end. Its events are its lines of JSON; its log holds them as
//! people read them.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use crate::matrix::{Host, Schedule, State, startable};
use crate::report::Terminal;
use crate::report::stream::Line;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Event, Phase, Sink as _};
use winimg_base::io;

const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// For a child that was asked to stop; its own waits are shorter.
const PATIENCE: Duration = Duration::from_secs(300);
/// For what a child that has ended said last.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A build to start.
pub struct Job {
    /// All that follows `winimg`.
    pub arguments: Vec<String>,
    pub log: PathBuf,
}

/// How a build ended.
#[derive(Debug)]
pub struct Outcome {
    /// `None`: a signal ended it.
    pub status: Option<i32>,
    /// The last event of a build that ended well or failed.
    pub last: Option<Event>,
    /// The last line that was no event.
    pub stray: Option<String>,
    pub seconds: f64,
}

impl Outcome {
    pub fn is_good(&self) -> bool {
        self.status == Some(0)
    }
}

/// What `run` reports about a variant, which it names by its place in the schedule.
pub enum Told<'a> {
    Started,
    Said(&'a Event),
    /// From now on others can go on from its installation.
    Installed,
    Ended(&'a Outcome),
}

enum Heard {
    Said(usize, Box<Event>),
    Ended(usize, Result<Outcome>),
}

/// What to run, and how.
pub struct Course<'a> {
    pub schedule: &'a Schedule,
    /// In the schedule's order.
    pub jobs: &'a [Job],
    pub host: Host,
    pub keep_going: bool,
    pub cancel: &'a Cancel,
}

/// Runs the builds whose state is `Waiting`; of each that was started how it ended. After a failure no further one is started, unless
/// `keep_going`.
pub fn run(
    course: &Course<'_>,
    mut states: Vec<State>,
    tell: &mut dyn FnMut(usize, Told<'_>),
) -> Result<Vec<Option<Outcome>>> {
    let mut outcomes: Vec<Option<Outcome>> = states.iter().map(|_| None).collect();
    let mut broken = None;
    std::thread::scope(|scope| {
        let (said, heard) = mpsc::channel();
        loop {
            let has_failed = outcomes.iter().flatten().any(|outcome| !outcome.is_good());
            let goes_on = !course.cancel.is_cancelled()
                && broken.is_none()
                && (course.keep_going || !has_failed);
            let next = match goes_on {
                true => startable(course.schedule, &states, &course.host),
                false => Vec::new(),
            };
            for index in next {
                states[index] = State::Running {
                    is_installed: false,
                };
                tell(index, Told::Started);
                let said = said.clone();
                let (job, cancel) = (&course.jobs[index], course.cancel);
                scope.spawn(move || {
                    let ended = child(index, job, &said, cancel);
                    let _ = said.send(Heard::Ended(index, ended));
                });
            }
            if !states.iter().any(|s| matches!(s, State::Running { .. })) {
                break;
            }
            match heard.recv_timeout(Duration::from_secs(1)) {
                Ok(Heard::Said(index, event)) => {
                    tell(index, Told::Said(&event));
                    if installs(&event) && !states[index].is_installed() {
                        states[index] = State::Running { is_installed: true };
                        tell(index, Told::Installed);
                    }
                }
                Ok(Heard::Ended(index, ended)) => {
                    let is_good = ended.as_ref().is_ok_and(Outcome::is_good);
                    let is_installed = is_good || states[index].is_installed();
                    states[index] = State::Ended { is_installed };
                    match ended {
                        Ok(outcome) => tell(index, Told::Ended(outcomes[index].insert(outcome))),
                        Err(error) => broken = broken.take().or(Some(error)),
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
    });
    match broken {
        Some(error) => Err(error),
        None => Ok(outcomes),
    }
}

/// Whether the installation is a layer now. Any layer that a build goes on from holds one.
fn installs(event: &Event) -> bool {
    matches!(event, Event::LayerUsed { .. } | Event::LayerSealed { .. })
}

/// Runs one child to its end, on the thread that it ends with.
fn child(index: usize, job: &Job, said: &Sender<Heard>, cancel: &Cancel) -> Result<Outcome> {
    let began = Instant::now();
    let log = open(&job.log)?;
    let cannot = |e| Error::new(Kind::Failed, "a build cannot be started").because(e);
    let program = std::env::current_exe().map_err(cannot)?;
    let mut command = Command::new(program);
    command
        .args(&job.arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(cannot)?)
        .stderr(Stdio::piped());
    apart(&mut command);
    let mut child = io::spawn(&mut command).map_err(cannot)?;
    let (done, last_words) = mpsc::channel();
    if let Some(stream) = child.stderr.take() {
        let said = said.clone();
        // Not waited for without end: it may be that something else holds the other end.
        std::thread::spawn(move || done.send(read(index, stream, log, &said)));
    }
    let status = wait(&mut child, cancel).map_err(cannot)?;
    let (last, stray) = last_words.recv_timeout(LAST_WORDS).unwrap_or_default();
    Ok(Outcome {
        status: status.code(),
        last,
        stray,
        seconds: began.elapsed().as_secs_f64(),
    })
}

fn open(log: &std::path::Path) -> Result<File> {
    let folder = io::folder_of(log);
    std::fs::create_dir_all(folder).map_err(|e| Error::io("make", folder, e))?;
    let cannot = |e| Error::io("write", log, e);
    // What the child prints and what it says go to one end.
    File::create(log).map_err(cannot)?;
    OpenOptions::new().append(true).open(log).map_err(cannot)
}

/// Out of reach of the terminal's Ctrl-C, which is ours to pass on, once.
#[cfg(unix)]
fn apart(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    command.process_group(0);
}

/// Windows tells every process of a console.
#[cfg(not(unix))]
fn apart(_: &mut Command) {}

/// Asks the child to stop when we are asked to, and kills it if it does not.
fn wait(child: &mut Child, cancel: &Cancel) -> std::io::Result<ExitStatus> {
    let mut asked = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        match asked {
            None if cancel.is_cancelled() => {
                ask_to_stop(child);
                asked = Some(Instant::now());
            }
            Some(since) if since.elapsed() > PATIENCE => child.kill()?,
            _ => {}
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// It has not been waited for, so that its number is still its own.
#[cfg(unix)]
fn ask_to_stop(child: &Child) {
    use nix::sys::signal::{Signal, kill};
    if let Ok(number) = i32::try_from(child.id()) {
        let _ = kill(nix::unistd::Pid::from_raw(number), Signal::SIGTERM);
    }
}

#[cfg(not(unix))]
fn ask_to_stop(_: &Child) {}

/// Passes events on and writes them into the log; the last event, and the last line that is none.
fn read(
    index: usize,
    stream: impl Read,
    log: File,
    said: &Sender<Heard>,
) -> (Option<Event>, Option<String>) {
    let terminal = Terminal::into_log(log);
    let (mut last, mut stray) = (None, None);
    for line in BufReader::new(stream)
        .split(b'\n')
        .map_while(|line| line.ok())
    {
        let line = String::from_utf8_lossy(&line);
        match serde_json::from_str::<Line>(&line) {
            Ok(Line { event, .. }) => {
                terminal.emit(&event);
                match &event {
                    Event::Finished { .. } | Event::Failed { .. } => last = Some(event),
                    _ if is_told(&event) => {
                        let _ = said.send(Heard::Said(index, Box::new(event)));
                    }
                    _ => {}
                }
            }
            // Of a later winimg.
            Err(_) if line.starts_with('{') => {}
            Err(_) => {
                let text = line.trim_end().to_owned();
                terminal.emit(&Event::Note { text: text.clone() });
                stray = Some(text).filter(|text| !text.is_empty()).or(stray);
            }
        }
    }
    (last, stray)
}

/// The phases, and what decides whether others may start.
fn is_told(event: &Event) -> bool {
    installs(event) || matches!(event, Event::PhaseStarted { phase, .. } if *phase != Phase::Media)
}
