//! The pages of builds as parts, which are sent again when they change.
//!
//! Changes are numbered across all views: a client asks for the changes after the last one it has
//! seen.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A piece of a page, replaced as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagePart {
    pub id: String,
    /// HTML.
    pub html: String,
}

impl From<(&str, String)> for PagePart {
    fn from((id, html): (&str, String)) -> Self {
        let id = id.to_owned();
        Self { id, html }
    }
}

/// A page as it is now.
#[derive(Clone, Debug)]
pub struct PageSnapshot {
    pub title: String,
    pub parts: Vec<PagePart>,
    /// The number of the last change.
    pub at: u64,
}

/// Changes since a number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageChanges {
    /// The number of the last change in this set.
    pub at: u64,
    /// The ids of all parts in order, if a part was added or removed.
    pub order: Option<Vec<String>>,
    pub parts: Vec<PagePart>,
    /// There is a new picture of the screen.
    pub screen: bool,
}

/// The builds, by their numbers from 0.
#[derive(Default)]
pub struct Board {
    inner: Mutex<BoardState>,
    changed: Condvar,
}

#[derive(Default)]
struct BoardState {
    at: u64,
    closed: bool,
    views: Vec<BoardView>,
}

struct BoardView {
    /// The build's output folder; `None` for the list of builds.
    folder: Option<PathBuf>,
    title: String,
    parts: Vec<(PagePart, u64)>,
    /// Number of the last change that added or removed a part.
    ordered: u64,
    screen: Option<(Arc<[u8]>, u64)>,
    /// Clients that wait for changes.
    clients: usize,
}

impl Board {
    /// Adds a view without parts. Returns its number.
    pub fn add(&self, folder: Option<&Path>) -> usize {
        let mut inner = self.lock();
        inner.views.push(BoardView {
            folder: folder.map(Path::to_owned),
            title: String::new(),
            parts: Vec::new(),
            ordered: 0,
            screen: None,
            clients: 0,
        });
        inner.views.len() - 1
    }

    /// Replaces the parts of a view.
    pub fn show(&self, view: usize, title: &str, parts: Vec<PagePart>) {
        let mut inner = self.lock();
        let at = inner.at + 1;
        let Some(view) = inner.views.get_mut(view) else {
            return;
        };
        let old = std::mem::take(&mut view.parts);
        view.parts = parts
            .into_iter()
            .map(|part| match old.iter().find(|(other, _)| *other == part) {
                Some((_, unchanged_since)) => (part, *unchanged_since),
                None => (part, at),
            })
            .collect();
        if !old.iter().map(|(part, _)| &part.id).eq(view.ids()) {
            view.ordered = at;
        }
        view.title = title.to_owned();
        let is_changed = view.ordered == at || view.parts.iter().any(|(_, of)| *of == at);
        if is_changed {
            inner.at = at;
            self.changed.notify_all();
        }
    }

    /// Replaces the screen of the build's machine, a PNG.
    pub fn show_screen(&self, view: usize, png: &[u8]) {
        let mut inner = self.lock();
        let at = inner.at + 1;
        let Some(view) = inner.views.get_mut(view) else {
            return;
        };
        if view.screen.as_ref().is_some_and(|(old, _)| **old == *png) {
            return;
        }
        view.screen = Some((png.into(), at));
        inner.at = at;
        self.changed.notify_all();
    }

    /// Returns the current page; `None` if there is no such view.
    pub fn snapshot(&self, view: usize) -> Option<PageSnapshot> {
        let inner = self.lock();
        let at = inner.at;
        inner.views.get(view).map(|view| PageSnapshot {
            title: view.title.clone(),
            parts: view.parts.iter().map(|(part, _)| part.clone()).collect(),
            at,
        })
    }

    pub fn screen(&self, view: usize) -> Option<Arc<[u8]>> {
        let inner = self.lock();
        let (png, _) = inner.views.get(view)?.screen.as_ref()?;
        Some(Arc::clone(png))
    }

    pub fn folder(&self, view: usize) -> Option<PathBuf> {
        self.lock().views.get(view)?.folder.clone()
    }

    /// Returns true if a client is waiting for changes of this view.
    pub fn is_watched(&self, view: usize) -> bool {
        self.lock()
            .views
            .get(view)
            .is_some_and(|view| view.clients > 0)
    }

    /// Waits up to `patience` for changes of this view after `seen`; `None` once the board is
    /// closed.
    pub fn wait(&self, view: usize, seen: u64, patience: Duration) -> Option<PageChanges> {
        let deadline = Instant::now() + patience;
        let mut inner = self.lock();
        loop {
            if inner.closed {
                return None;
            }
            let changes = inner.views.get(view)?.collect_changes(seen, inner.at);
            let left = deadline.saturating_duration_since(Instant::now());
            if changes.is_some() || left.is_zero() {
                return Some(changes.unwrap_or(PageChanges {
                    at: seen,
                    ..PageChanges::default()
                }));
            }
            let woken = self.changed.wait_timeout(inner, left);
            inner = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Counts a client of the view until the guard is dropped.
    pub fn register_client(&self, view: usize) -> WaitingClient<'_> {
        self.count(view, 1);
        WaitingClient { board: self, view }
    }

    fn count(&self, view: usize, by: isize) {
        if let Some(view) = self.lock().views.get_mut(view) {
            view.clients = view.clients.saturating_add_signed(by);
        }
    }

    /// Ends every wait.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, BoardState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BoardView {
    fn ids(&self) -> impl Iterator<Item = &String> {
        self.parts.iter().map(|(part, _)| &part.id)
    }

    fn collect_changes(&self, seen: u64, at: u64) -> Option<PageChanges> {
        let changes = PageChanges {
            at,
            order: (self.ordered > seen).then(|| self.ids().cloned().collect()),
            parts: self
                .parts
                .iter()
                .filter(|(_, changed)| *changed > seen)
                .map(|(part, _)| part.clone())
                .collect(),
            screen: self
                .screen
                .as_ref()
                .is_some_and(|(_, changed)| *changed > seen),
        };
        let has_any = changes.order.is_some() || !changes.parts.is_empty() || changes.screen;
        has_any.then_some(changes)
    }
}

/// A client that waits for changes.
pub struct WaitingClient<'a> {
    board: &'a Board,
    view: usize,
}

impl Drop for WaitingClient<'_> {
    fn drop(&mut self) {
        self.board.count(self.view, -1);
    }
}
