//! `winimg watch`: serves live pages of one build, or of all running builds, to a browser on this
//! host.
//!
//! Read-only. A page is rendered from the records in the output folder; the build's socket provides
//! its state and screen.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::build_report;
use crate::cli;
use crate::engine::console::wire::{ConsoleReply, ConsoleRequest, ConsoleStatus, ScreenFormat};
use crate::engine::evidence::TraceRecording;
use crate::page::{HtmlPage, escape_html};
use crate::watch::{Board, PagePart, WatchServer};
use winimg_base::error::Result;
use winimg_base::event::Cancel;
use winimg_base::io;

use super::running::{RunningBuild, limit_wait, to_absolute};
use super::{CommandContext, interrupt, print};

/// Interval of updates of a build.
const GLANCE: Duration = Duration::from_millis(500);
/// Interval of searches for builds, and of screenshots while a client is connected.
const SEARCH: Duration = Duration::from_secs(2);
/// Pause after rendering a page, as a multiple of the time that rendering took.
const REST: u32 = 9;

pub fn run(args: &cli::WatchArgs, context: &CommandContext) -> Result<()> {
    let stop = Cancel::default();
    let heard = stop.clone();
    interrupt::watch(move || heard.cancel())?;
    let mut watch = BuildWatch::new(stop.clone(), context.recording.clone());
    let only = args.dir.as_deref().map(to_absolute).transpose()?;
    if let Some(folder) = &only {
        let running = find_running(folder)?;
        if running.is_none() {
            build_report::page_path(folder, &context.recording)?;
        }
        watch.add(folder, running);
    }
    let server = WatchServer::open(args.port, Arc::clone(&watch.board))?;
    if only.is_none() {
        watch.find_builds()?;
    }
    print(&format!("{}\n", server.url(usize::from(only.is_some()))))?;
    if context.prints_text {
        context
            .sink
            .note("press Ctrl-C to stop the server; builds are not affected");
    }
    let mut searched = Instant::now();
    while !stop.is_cancelled() {
        if only.is_none() && searched.elapsed() > SEARCH {
            watch.find_builds()?;
            searched = Instant::now();
        }
        watch.update_list();
        std::thread::sleep(GLANCE / 5);
    }
    Ok(())
}

/// Finds the running build with this output folder.
fn find_running(folder: &Path) -> Result<Option<RunningBuild>> {
    let mut all = RunningBuild::find_all()?.into_iter();
    Ok(all.find(|running| running.state.output == folder))
}

/// The watched builds, each with its own thread.
struct BuildWatch {
    board: Arc<Board>,
    stop: Cancel,
    recording: TraceRecording,
    /// The view of the list.
    list: usize,
    builds: Vec<WatchedBuild>,
}

/// A line of the list. `view` is also the path of its URL.
struct WatchedBuild {
    view: usize,
    folder: PathBuf,
    place: Arc<Mutex<WatchedProgress>>,
}

/// Name and progress of a build.
#[derive(Clone, Default)]
struct WatchedProgress {
    name: String,
    text: String,
}

impl BuildWatch {
    fn new(stop: Cancel, recording: TraceRecording) -> Self {
        let board = Arc::new(Board::default());
        let list = board.add(None);
        Self {
            board,
            stop,
            recording,
            list,
            builds: Vec::new(),
        }
    }

    /// Adds new builds.
    fn find_builds(&mut self) -> Result<()> {
        for running in RunningBuild::find_all()? {
            let folder = running.state.output.clone();
            if !self.builds.iter().any(|build| build.folder == folder) {
                self.add(&folder, Some(running));
            }
        }
        Ok(())
    }

    /// Starts following a build.
    fn add(&mut self, folder: &Path, running: Option<RunningBuild>) {
        let view = self.board.add(Some(folder));
        let place = Arc::default();
        let mut follower = Follower {
            board: Arc::clone(&self.board),
            view,
            folder: folder.to_owned(),
            place: Arc::clone(&place),
            recording: self.recording.clone(),
            running,
            searched: Instant::now(),
            pictured: None,
            records: Vec::new(),
            page: None,
            rests_until: Instant::now(),
        };
        follower.update();
        let stop = self.stop.clone();
        // If the thread cannot be started, the page is not updated.
        let _ = std::thread::Builder::new()
            .name("follow".into())
            .spawn(move || {
                while !stop.is_cancelled() {
                    std::thread::sleep(GLANCE);
                    follower.update();
                }
            });
        let folder = folder.to_owned();
        self.builds.push(WatchedBuild {
            view,
            folder,
            place,
        });
    }

    /// Updates the list of builds.
    fn update_list(&self) {
        let rows: String = self
            .builds
            .iter()
            .map(|build| {
                let WatchedProgress { name, text } = lock(&build.place).clone();
                let folder = escape_html(&build.folder.display().to_string());
                let (view, name, text) = (build.view, escape_html(&name), escape_html(&text));
                format!(
                    "<tr><td><a href=\"{view}/\">{name}</a></td>\
                     <td>{text}</td><td>{folder}</td></tr>\n"
                )
            })
            .collect();
        let builds = match rows.as_str() {
            "" => "<p>No builds are running. New builds appear here.</p>\n".into(),
            rows => format!(
                "<table>\n<tr><th>build</th><th>progress</th><th>output folder</th></tr>\n\
                 {rows}</table>\n"
            ),
        };
        let title = "Builds on this host";
        let parts = [("head", format!("<h1>{title}</h1>\n")), ("builds", builds)];
        self.board
            .show(self.list, title, parts.map(PagePart::from).into());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Updates the page of one build.
struct Follower {
    board: Arc<Board>,
    view: usize,
    folder: PathBuf,
    place: Arc<Mutex<WatchedProgress>>,
    recording: TraceRecording,
    running: Option<RunningBuild>,
    searched: Instant,
    /// Time of the last screenshot.
    pictured: Option<Instant>,
    /// The files that `page` was rendered from, with their sizes and times.
    records: Vec<(String, u64, Option<SystemTime>)>,
    page: Option<HtmlPage>,
    /// Earliest time to render the page again: watching must not slow the build down.
    rests_until: Instant,
}

impl Follower {
    fn update(&mut self) {
        let state = self.query_state();
        // A build writes its last record before it closes its socket, so this reads all of them.
        self.read();
        if state.is_some() {
            self.take_picture();
        } else {
            self.pictured = None;
        }
        let page = self.page.as_ref();
        let name = state.as_ref().map(|state| state.name.clone());
        let named = page.map_or_else(
            || self.folder.display().to_string(),
            |page| page.title.clone(),
        );
        *lock(&self.place) = WatchedProgress {
            name: name.clone().unwrap_or_else(|| named.clone()),
            text: state
                .as_ref()
                .map_or_else(|| "ended".into(), ConsoleStatus::describe_position),
        };
        let parts = self.render_parts(state.as_ref(), name.as_deref());
        self.board.show(self.view, &named, parts);
    }

    /// Returns the build's state, or `None` if it does not respond.
    fn query_state(&mut self) -> Option<ConsoleStatus> {
        if self.running.is_none() && self.searched.elapsed() > SEARCH {
            self.searched = Instant::now();
            self.running = find_running(&self.folder).ok().flatten();
        }
        let running = self.running.as_mut()?;
        match running.ask(&ConsoleRequest::State, &mut |_| {}, &mut limit_wait()) {
            Ok(ConsoleReply::State(state)) => Some(state),
            _ => {
                self.running = None;
                None
            }
        }
    }

    /// Renders the page again if a record has changed. A record that is being written is read again
    /// next time.
    fn read(&mut self) {
        let began = Instant::now();
        if began < self.rests_until {
            return;
        }
        let records = list_records(&self.folder);
        if records == self.records {
            return;
        }
        if let Ok(page) = build_report::page_path(&self.folder, &self.recording) {
            self.page = Some(page);
            self.records = records;
        }
        self.rests_until = Instant::now() + began.elapsed() * REST;
    }

    /// Takes a screenshot if a client is connected.
    fn take_picture(&mut self) {
        let is_due = self.pictured.is_none_or(|at| at.elapsed() > SEARCH);
        let Some(running) = self.running.as_mut().filter(|_| is_due) else {
            return;
        };
        if self.pictured.is_some() && !self.board.is_watched(self.view) {
            return;
        }
        // Without a running VM there is none.
        if let Ok(png) = running.take_picture(ScreenFormat::Png, &mut limit_wait()) {
            self.board.show_screen(self.view, &png);
            self.pictured = Some(Instant::now());
        }
    }

    fn render_parts(&self, state: Option<&ConsoleStatus>, name: Option<&str>) -> Vec<PagePart> {
        let mut parts = Vec::new();
        match &self.page {
            Some(page) => parts.push(("head", page.head.clone())),
            None => parts.push((
                "head",
                format!("<h1>{}</h1>\n", escape_html(name.unwrap_or("A build"))),
            )),
        }
        parts.push(("now", render_state(state, &self.folder)));
        if self.pictured.is_some() {
            parts.push(("screen", SCREEN.into()));
        }
        if let Some(page) = &self.page {
            parts.push(("nav", page.render_nav()));
            parts.extend(
                page.sections()
                    .iter()
                    .map(|section| (section.id, section.render())),
            );
        }
        parts.into_iter().map(PagePart::from).collect()
    }
}

/// Section of the live screen; the page's script updates the image's source.
const SCREEN: &str = "<section>\n<h2>Screen</h2>\n\
    <img id=\"screen-now\" alt=\"screen of the build's VM\" src=\"screen\">\n</section>\n";

fn render_state(state: Option<&ConsoleStatus>, folder: &Path) -> String {
    let Some(state) = state else {
        return "<p>The build has ended.</p>\n".into();
    };
    let place = format!(
        "<p><strong>Now: {}</strong></p>\n",
        escape_html(&state.describe_position())
    );
    let Some(halt) = &state.paused else {
        return place;
    };
    let attach = format!("winimg attach {}", folder.display());
    let (text, attach) = (escape_html(&halt.text), escape_html(&attach));
    format!(
        "{place}<div class=\"cause warning\">\n<p>{text}</p>\n\
         <p><code>{attach}</code></p>\n</div>\n"
    )
}

/// Lists the files in the output folder that are not hidden, with size and modification time.
fn list_records(folder: &Path) -> Vec<(String, u64, Option<SystemTime>)> {
    io::own_files_below(folder)
        .unwrap_or_default()
        .into_iter()
        .filter(|name| !name.starts_with('.'))
        .filter_map(|name| {
            let about = std::fs::metadata(folder.join(&name)).ok()?;
            Some((name, about.len(), about.modified().ok()))
        })
        .collect()
}
