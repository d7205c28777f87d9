//! `winimg watch`: the page of a build in a browser on this host, brought up to date as the build goes; or of all builds that run.
//!
//! Only looks. What a build writes into its output folder makes its page; its socket says where it is and shows its screen.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::cli;
use crate::engine::console::wire::{Ask, Format, Reply, State};
use crate::engine::evidence::Recording;
use crate::page::{Page, shown};
use crate::story;
use crate::watch::{Board, Part, Server};
use winimg_base::error::Result;
use winimg_base::event::Cancel;
use winimg_base::io;

use super::running::{Running, in_time, whole};
use super::{Context, interrupt, print};

/// How often a build is looked at.
const GLANCE: Duration = Duration::from_millis(500);
/// How often builds are looked for, and how often a picture of a screen is taken while somebody looks.
const SEARCH: Duration = Duration::from_secs(2);
/// How many times as long as making the page took it is left alone.
const REST: u32 = 9;

pub fn run(args: &cli::Watch, context: &Context) -> Result<()> {
    let stop = Cancel::default();
    let heard = stop.clone();
    interrupt::watch(move || heard.cancel())?;
    let mut watch = Watch::new(stop.clone(), context.recording.clone());
    let only = args.dir.as_deref().map(whole).transpose()?;
    if let Some(folder) = &only {
        let running = running_in(folder)?;
        if running.is_none() {
            story::page_of(folder, &context.recording)?;
        }
        watch.add(folder, running);
    }
    let server = Server::open(args.port, Arc::clone(&watch.board))?;
    if only.is_none() {
        watch.search()?;
    }
    print(&format!("{}\n", server.url(usize::from(only.is_some()))))?;
    if context.prints_text {
        context
            .sink
            .note("Ctrl-C ends the server; no build is touched");
    }
    let mut searched = Instant::now();
    while !stop.is_cancelled() {
        if only.is_none() && searched.elapsed() > SEARCH {
            watch.search()?;
            searched = Instant::now();
        }
        watch.list();
        std::thread::sleep(GLANCE / 5);
    }
    Ok(())
}

/// The build that runs into this folder.
fn running_in(folder: &Path) -> Result<Option<Running>> {
    let mut all = Running::all()?.into_iter();
    Ok(all.find(|running| running.state.output == folder))
}

/// All that is watched, and a thread for each build.
struct Watch {
    board: Arc<Board>,
    stop: Cancel,
    recording: Recording,
    /// The view of the list.
    list: usize,
    builds: Vec<Build>,
}

/// A line of the list. `view` is also its address.
struct Build {
    view: usize,
    folder: PathBuf,
    place: Arc<Mutex<Place>>,
}

/// Where a build is.
#[derive(Clone, Default)]
struct Place {
    name: String,
    text: String,
}

impl Watch {
    fn new(stop: Cancel, recording: Recording) -> Self {
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

    /// Adds the builds that have begun since.
    fn search(&mut self) -> Result<()> {
        for running in Running::all()? {
            let folder = running.state.output.clone();
            if !self.builds.iter().any(|build| build.folder == folder) {
                self.add(&folder, Some(running));
            }
        }
        Ok(())
    }

    /// Follows a build from now on.
    fn add(&mut self, folder: &Path, running: Option<Running>) {
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
        follower.glance();
        let stop = self.stop.clone();
        // One that cannot be started leaves the page as it is now.
        let _ = std::thread::Builder::new()
            .name("follow".into())
            .spawn(move || {
                while !stop.is_cancelled() {
                    std::thread::sleep(GLANCE);
                    follower.glance();
                }
            });
        let folder = folder.to_owned();
        self.builds.push(Build {
            view,
            folder,
            place,
        });
    }

    /// Brings the list up to date.
    fn list(&self) {
        let row = |build: &Build| {
            let Place { name, text } = lock(&build.place).clone();
            let folder = shown(&build.folder.display().to_string());
            let (view, name, text) = (build.view, shown(&name), shown(&text));
            format!(
                "<tr><td><a href=\"{view}/\">{name}</a></td><td>{text}</td><td>{folder}</td></tr>\n"
            )
        };
        let rows: String = self.builds.iter().map(row).collect();
        let builds = match rows.as_str() {
            "" => "<p>No build runs. One that starts appears here.</p>\n".into(),
            rows => format!(
                "<table>\n<tr><th>build</th><th>where it is</th><th>output folder</th></tr>\n{rows}</table>\n"
            ),
        };
        let title = "Builds on this host";
        let parts = [("head", format!("<h1>{title}</h1>\n")), ("builds", builds)];
        self.board
            .show(self.list, title, parts.map(Part::from).into());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks at one build again and again.
struct Follower {
    board: Arc<Board>,
    view: usize,
    folder: PathBuf,
    place: Arc<Mutex<Place>>,
    recording: Recording,
    running: Option<Running>,
    searched: Instant,
    /// When the last picture was taken.
    pictured: Option<Instant>,
    /// The files that `page` was made from, with their sizes and times.
    records: Vec<(String, u64, Option<SystemTime>)>,
    page: Option<Page>,
    /// When the page is made anew at the earliest: looking must not take much of the build's host.
    rests_until: Instant,
}

impl Follower {
    fn glance(&mut self) {
        let state = self.state();
        // A build's last record is written before its socket goes: what is read now is all of it.
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
        *lock(&self.place) = Place {
            name: name.clone().unwrap_or_else(|| named.clone()),
            text: state.as_ref().map_or_else(|| "ended".into(), State::place),
        };
        let parts = self.parts(state.as_ref(), name.as_deref());
        self.board.show(self.view, &named, parts);
    }

    /// Where the build is; none when no process of it answers.
    fn state(&mut self) -> Option<State> {
        if self.running.is_none() && self.searched.elapsed() > SEARCH {
            self.searched = Instant::now();
            self.running = running_in(&self.folder).ok().flatten();
        }
        let running = self.running.as_mut()?;
        match running.ask(&Ask::State, &mut |_| {}, &mut in_time()) {
            Ok(Reply::State(state)) => Some(state),
            _ => {
                self.running = None;
                None
            }
        }
    }

    /// Makes the page anew if a record has changed. One that is being written is read again next time.
    fn read(&mut self) {
        let began = Instant::now();
        if began < self.rests_until {
            return;
        }
        let records = records(&self.folder);
        if records == self.records {
            return;
        }
        if let Ok(page) = story::page_of(&self.folder, &self.recording) {
            self.page = Some(page);
            self.records = records;
        }
        self.rests_until = Instant::now() + began.elapsed() * REST;
    }

    /// While somebody looks.
    fn take_picture(&mut self) {
        let is_due = self.pictured.is_none_or(|at| at.elapsed() > SEARCH);
        let Some(running) = self.running.as_mut().filter(|_| is_due) else {
            return;
        };
        if self.pictured.is_some() && !self.board.is_watched(self.view) {
            return;
        }
        // A machine that is not there yet, or no more, has none.
        if let Ok(png) = running.picture(Format::Png, &mut in_time()) {
            self.board.show_screen(self.view, &png);
            self.pictured = Some(Instant::now());
        }
    }

    fn parts(&self, state: Option<&State>, name: Option<&str>) -> Vec<Part> {
        let mut parts = Vec::new();
        match &self.page {
            Some(page) => parts.push(("head", page.head.clone())),
            None => parts.push((
                "head",
                format!("<h1>{}</h1>\n", shown(name.unwrap_or("A build"))),
            )),
        }
        parts.push(("now", now(state, &self.folder)));
        if self.pictured.is_some() {
            parts.push(("screen", SCREEN.into()));
        }
        if let Some(page) = &self.page {
            parts.push(("nav", page.nav()));
            parts.extend(
                page.sections()
                    .iter()
                    .map(|section| (section.id, section.html())),
            );
        }
        parts.into_iter().map(Part::from).collect()
    }
}

/// Its source is set as pictures come.
const SCREEN: &str = "<section>\n<h2>The screen now</h2>\n<img id=\"screen-now\" alt=\"the screen of the build's machine\" src=\"screen\">\n</section>\n";

fn now(state: Option<&State>, folder: &Path) -> String {
    let Some(state) = state else {
        return "<p>No build works in this folder now.</p>\n".into();
    };
    let place = format!("<p><strong>Now: {}</strong></p>\n", shown(&state.place()));
    let Some(halt) = &state.paused else {
        return place;
    };
    let attach = format!("winimg attach {}", folder.display());
    let (text, attach) = (shown(&halt.text), shown(&attach));
    format!(
        "{place}<div class=\"cause warning\">\n<p>{text}</p>\n<p><code>{attach}</code></p>\n</div>\n"
    )
}

/// What lies in the output folder, but for what is hidden.
fn records(folder: &Path) -> Vec<(String, u64, Option<SystemTime>)> {
    let files = io::own_files_below(folder).unwrap_or_default();
    let seen = files.into_iter().filter(|name| !name.starts_with('.'));
    let about = |name: String| {
        let about = std::fs::metadata(folder.join(&name)).ok()?;
        Some((name, about.len(), about.modified().ok()))
    };
    seen.filter_map(about).collect()
}
