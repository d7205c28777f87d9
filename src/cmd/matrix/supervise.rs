//! Runs builds as child processes: starts them as scheduled, reads their events, and stops them
//! when interrupted.
//!
//! Each child is this program as `winimg build`, and always ends with this process. Its events
//! arrive as lines of JSON, and are written to its log as text.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use crate::matrix::{HostResources, Schedule, VariantProgress, find_startable};
use crate::report::Terminal;
use crate::report::stream::EventLine;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Event, Phase, Sink as _};
use winimg_base::io;

const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time limit for a child to stop; its own time limits are shorter.
const PATIENCE: Duration = Duration::from_secs(300);
/// Time limit for reading the last events of a child that has ended.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A build to start.
pub struct BuildJob {
    /// Arguments of `winimg`.
    pub arguments: Vec<String>,
    pub log: PathBuf,
}

/// Result of a build.
#[derive(Debug)]
pub struct BuildOutcome {
    /// `None` if it was killed by a signal.
    pub status: Option<i32>,
    /// The final event, finished or failed.
    pub last: Option<Event>,
    /// The last line that was not an event.
    pub stray: Option<String>,
    pub seconds: f64,
}

impl BuildOutcome {
    pub fn is_good(&self) -> bool {
        self.status == Some(0)
    }
}

/// Progress that `run` reports about a variant, which it identifies by its index in the schedule.
pub enum BuildProgress<'a> {
    Started,
    Event(&'a Event),
    /// Other variants can now use its installation.
    Installed,
    Ended(&'a BuildOutcome),
}

enum ChildMessage {
    Event(usize, Box<Event>),
    Ended(usize, Result<BuildOutcome>),
}

/// Builds to run, and their limits.
pub struct MatrixRun<'a> {
    pub schedule: &'a Schedule,
    /// In the schedule's order.
    pub jobs: &'a [BuildJob],
    pub host: HostResources,
    pub keep_going: bool,
    pub cancel: &'a Cancel,
}

/// Runs the builds whose state is `Waiting`. Returns the outcomes, `None` for builds that were not
/// started. After a failure starts no further builds unless `keep_going`.
pub fn run(
    course: &MatrixRun<'_>,
    mut states: Vec<VariantProgress>,
    tell: &mut dyn FnMut(usize, BuildProgress<'_>),
) -> Result<Vec<Option<BuildOutcome>>> {
    let mut outcomes: Vec<Option<BuildOutcome>> = states.iter().map(|_| None).collect();
    let mut broken = None;
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        loop {
            let has_failed = outcomes.iter().flatten().any(|outcome| !outcome.is_good());
            let goes_on = !course.cancel.is_cancelled()
                && broken.is_none()
                && (course.keep_going || !has_failed);
            let next = if goes_on {
                find_startable(course.schedule, &states, &course.host)
            } else {
                Vec::new()
            };
            for index in next {
                states[index] = VariantProgress::Running {
                    is_installed: false,
                };
                tell(index, BuildProgress::Started);
                let sender = sender.clone();
                let (job, cancel) = (&course.jobs[index], course.cancel);
                scope.spawn(move || {
                    let ended = run_child(index, job, &sender, cancel);
                    let _ = sender.send(ChildMessage::Ended(index, ended));
                });
            }
            if !states
                .iter()
                .any(|s| matches!(s, VariantProgress::Running { .. }))
            {
                break;
            }
            match receiver.recv_timeout(Duration::from_secs(1)) {
                Ok(ChildMessage::Event(index, event)) => {
                    tell(index, BuildProgress::Event(&event));
                    if is_installation(&event) && !states[index].is_installed() {
                        states[index] = VariantProgress::Running { is_installed: true };
                        tell(index, BuildProgress::Installed);
                    }
                }
                Ok(ChildMessage::Ended(index, ended)) => {
                    let is_good = ended.as_ref().is_ok_and(BuildOutcome::is_good);
                    let is_installed = is_good || states[index].is_installed();
                    states[index] = VariantProgress::Ended { is_installed };
                    match ended {
                        Ok(outcome) => {
                            tell(index, BuildProgress::Ended(outcomes[index].insert(outcome)))
                        }
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

/// Checks if the event shows that the installation is cached: every layer includes it.
fn is_installation(event: &Event) -> bool {
    matches!(event, Event::LayerUsed { .. } | Event::LayerSealed { .. })
}

/// Runs one child until it ends. It is killed if this thread ends first.
fn run_child(
    index: usize,
    job: &BuildJob,
    sender: &Sender<ChildMessage>,
    cancel: &Cancel,
) -> Result<BuildOutcome> {
    let began = Instant::now();
    let log = open_log(&job.log)?;
    let program = std::env::current_exe().map_err(start_error)?;
    let mut command = Command::new(program);
    command
        .args(&job.arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(start_error)?)
        .stderr(Stdio::piped());
    detach_child(&mut command);
    let mut child = io::spawn(&mut command).map_err(start_error)?;
    let (done, last_words) = mpsc::channel();
    if let Some(stream) = child.stderr.take() {
        let sender = sender.clone();
        // Not joined: another process may keep the pipe open.
        std::thread::spawn(move || done.send(read_events(index, stream, log, &sender)));
    }
    let status = wait(&mut child, cancel).map_err(start_error)?;
    let (last, stray) = last_words.recv_timeout(LAST_WORDS).unwrap_or_default();
    Ok(BuildOutcome {
        status: status.code(),
        last,
        stray,
        seconds: began.elapsed().as_secs_f64(),
    })
}

fn start_error(cause: std::io::Error) -> Error {
    Error::new(Kind::Failed, "cannot start a build").because(cause)
}

fn open_log(log: &std::path::Path) -> Result<File> {
    let folder = io::folder_of(log);
    std::fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
    // Both the child and this process append to the log.
    File::create(log)
        .and_then(|_| OpenOptions::new().append(true).open(log))
        .map_err(|e| Error::io("write", log, e))
}

/// Detaches the child from the terminal's Ctrl-C, which this process forwards once.
#[cfg(unix)]
fn detach_child(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    command.process_group(0);
}

/// Does nothing: Windows sends Ctrl-C to every process of a console.
#[cfg(not(unix))]
fn detach_child(_: &mut Command) {}

/// Waits for the child. On cancellation asks it to stop, and kills it if it does not.
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
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Sends SIGTERM. The child has not been reaped, so its process id is still valid.
#[cfg(unix)]
fn ask_to_stop(child: &Child) {
    use nix::sys::signal::{Signal, kill};
    if let Ok(number) = i32::try_from(child.id()) {
        let _ = kill(nix::unistd::Pid::from_raw(number), Signal::SIGTERM);
    }
}

#[cfg(not(unix))]
fn ask_to_stop(_: &Child) {}

/// Forwards events and writes them to the log. Returns the final event, and the last line that is
/// not an event.
fn read_events(
    index: usize,
    stream: impl Read,
    log: File,
    sender: &Sender<ChildMessage>,
) -> (Option<Event>, Option<String>) {
    let terminal = Terminal::into_log(log);
    let (mut last, mut stray) = (None, None);
    for line in BufReader::new(stream)
        .split(b'\n')
        .map_while(|line| line.ok())
    {
        let line = String::from_utf8_lossy(&line);
        match serde_json::from_str::<EventLine>(&line) {
            Ok(EventLine { event, .. }) => {
                terminal.emit(&event);
                match &event {
                    Event::Finished { .. } | Event::Failed { .. } => last = Some(event),
                    _ if is_reported(&event) => {
                        let _ = sender.send(ChildMessage::Event(index, Box::new(event)));
                    }
                    _ => {}
                }
            }
            // An event of a later winimg.
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

/// Checks if the event is a phase, or lets other variants start.
fn is_reported(event: &Event) -> bool {
    is_installation(event)
        || matches!(event, Event::PhaseStarted { phase, .. } if *phase != Phase::Media)
}
