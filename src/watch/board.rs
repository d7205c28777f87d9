//! What is shown of each build, in parts that are sent again when they change.
//!
//! Each change has a number, which grows over all views: who has seen up to one asks for what came after it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A piece of a page, replaced as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub id: String,
    /// HTML.
    pub html: String,
}

impl From<(&str, String)> for Part {
    fn from((id, html): (&str, String)) -> Self {
        let id = id.to_owned();
        Self { id, html }
    }
}

/// A page as it is now.
#[derive(Clone, Debug)]
pub struct Shown {
    pub title: String,
    pub parts: Vec<Part>,
    /// The number of the last change.
    pub at: u64,
}

/// What changed since a number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The number to ask after next.
    pub at: u64,
    /// The ids of all parts in their order, where a part came or went.
    pub order: Option<Vec<String>>,
    pub parts: Vec<Part>,
    /// A new picture of the screen is there.
    pub screen: bool,
}

/// The builds, by their numbers from 0.
#[derive(Default)]
pub struct Board {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    at: u64,
    closed: bool,
    views: Vec<View>,
}

struct View {
    /// The build's output folder; none for the list of builds.
    folder: Option<PathBuf>,
    title: String,
    parts: Vec<(Part, u64)>,
    /// When a part came or went.
    ordered: u64,
    screen: Option<(Arc<[u8]>, u64)>,
    /// Clients that wait for changes.
    clients: usize,
}

impl Board {
    /// A view without parts yet. Its number.
    pub fn add(&self, folder: Option<&Path>) -> usize {
        let mut inner = self.lock();
        inner.views.push(View {
            folder: folder.map(Path::to_owned),
            title: String::new(),
            parts: Vec::new(),
            ordered: 0,
            screen: None,
            clients: 0,
        });
        inner.views.len() - 1
    }

    /// The view consists of these parts now.
    pub fn show(&self, view: usize, title: &str, parts: Vec<Part>) {
        let mut inner = self.lock();
        let at = inner.at + 1;
        let Some(view) = inner.views.get_mut(view) else {
            return;
        };
        let old = std::mem::take(&mut view.parts);
        let is_same = |part: &Part| {
            old.iter()
                .find(|(other, _)| other == part)
                .map(|(_, at)| *at)
        };
        view.parts = parts
            .into_iter()
            .map(|part| (is_same(&part).unwrap_or(at), part))
            .map(|(at, part)| (part, at))
            .collect();
        let ids = |parts: &[(Part, u64)]| -> Vec<String> {
            parts.iter().map(|(part, _)| part.id.clone()).collect()
        };
        if ids(&old) != ids(&view.parts) {
            view.ordered = at;
        }
        view.title = title.to_owned();
        let is_changed = view.ordered == at || view.parts.iter().any(|(_, of)| *of == at);
        if is_changed {
            inner.at = at;
            self.changed.notify_all();
        }
    }

    /// The screen of the build's machine, as PNG.
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

    /// The page as it is now; none where there is no such view.
    pub fn page(&self, view: usize) -> Option<Shown> {
        let inner = self.lock();
        let at = inner.at;
        inner.views.get(view).map(|view| Shown {
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

    /// Whether a client waits for changes of this view.
    pub fn is_watched(&self, view: usize) -> bool {
        self.lock()
            .views
            .get(view)
            .is_some_and(|view| view.clients > 0)
    }

    /// What changed in this view since `seen`, waiting for it up to `patience`; none at the end.
    pub fn wait(&self, view: usize, seen: u64, patience: Duration) -> Option<Changes> {
        let deadline = Instant::now() + patience;
        let mut inner = self.lock();
        loop {
            if inner.closed {
                return None;
            }
            let changes = inner.views.get(view)?.since(seen, inner.at);
            let left = deadline.saturating_duration_since(Instant::now());
            if changes.is_some() || left.is_zero() {
                return Some(changes.unwrap_or(Changes {
                    at: seen,
                    ..Changes::default()
                }));
            }
            let woken = self.changed.wait_timeout(inner, left);
            inner = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Counts a client of the view until the guard is dropped.
    pub fn client(&self, view: usize) -> Client<'_> {
        self.count(view, 1);
        Client { board: self, view }
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

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl View {
    fn since(&self, seen: u64, at: u64) -> Option<Changes> {
        let is_new = |of: u64| of > seen;
        let changed = self.parts.iter().filter(|(_, of)| is_new(*of));
        let changes = Changes {
            at,
            order: is_new(self.ordered)
                .then(|| self.parts.iter().map(|(part, _)| part.id.clone()).collect()),
            parts: changed.map(|(part, _)| part.clone()).collect(),
            screen: self.screen.as_ref().is_some_and(|(_, of)| is_new(*of)),
        };
        let has_any = changes.order.is_some() || !changes.parts.is_empty() || changes.screen;
        has_any.then_some(changes)
    }
}

/// A client that waits for changes.
pub struct Client<'a> {
    board: &'a Board,
    view: usize,
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        self.board.count(self.view, -1);
    }
}
