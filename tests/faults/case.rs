//! One case: what goes wrong, what winimg has to say of it, and what has to be true before and after the next build.

use std::any::Any;

use nix::sys::signal::Signal;

use crate::faults::site::{Run, Site, Strike};

/// Held while the faulty build runs: a mount, a lock, a server.
pub type Guard = Box<dyn Any>;

type Before = Box<dyn Fn(&Site) -> Guard + Send + Sync>;
type After = Box<dyn Fn(&Site) + Send + Sync>;
/// What is wrong with what the faulty build left.
type Judged = Box<dyn Fn(&Site, &Run) -> Vec<String> + Send + Sync>;
/// What the next build used of the first, or why that is too little.
type Reused = Box<dyn Fn(&Site, &Run) -> Result<String, String> + Send + Sync>;

pub struct Case {
    pub group: &'static str,
    pub name: &'static str,
    /// Faults and answers of the script.
    pub faults: String,
    pub recipe: Vec<(String, String)>,
    pub script: Vec<(String, String)>,
    pub arguments: Vec<&'static str>,
    pub strike: Option<Strike>,
    pub before: Option<Before>,
    pub after: Option<After>,
    pub status: i32,
    /// In the first line of the error.
    pub cause: &'static str,
    /// Elsewhere in what was said.
    pub says: Vec<&'static str>,
    /// A machine ran, so that there is something to look at.
    pub evidence: bool,
    /// It ended without a chance to clean up: the next build does it.
    pub abrupt: bool,
    /// Layers of the earlier build stay in the cache.
    pub layers: bool,
    /// The next build is made with the recipe as it is when nothing is wrong.
    pub mended: bool,
    pub reused: Option<Reused>,
    pub judged: Vec<Judged>,
}

impl Case {
    /// A build that must go well nevertheless, until the case says otherwise.
    pub fn new(group: &'static str, name: &'static str) -> Self {
        Self {
            group,
            name,
            faults: String::new(),
            recipe: Vec::new(),
            script: Vec::new(),
            arguments: Vec::new(),
            strike: None,
            before: None,
            after: None,
            status: 0,
            cause: "",
            says: Vec::new(),
            evidence: false,
            abrupt: false,
            layers: false,
            mended: true,
            reused: None,
            judged: Vec::new(),
        }
    }

    pub fn fault(mut self, toml: &str) -> Self {
        self.faults += &format!("\n[[fault]]\n{toml}\n");
        self
    }

    pub fn faults(self, all: impl IntoIterator<Item = String>) -> Self {
        all.into_iter().fold(self, |case, toml| case.fault(&toml))
    }

    /// The guest's answer to a command.
    pub fn answer(mut self, toml: &str) -> Self {
        self.faults += &format!("\n[[run]]\n{toml}\n");
        self
    }

    pub fn recipe(mut self, from: &str, to: &str) -> Self {
        self.recipe.push((from.into(), to.into()));
        self
    }

    pub fn script(mut self, from: &str, to: &str) -> Self {
        self.script.push((from.into(), to.into()));
        self
    }

    pub fn with(mut self, arguments: &[&'static str]) -> Self {
        self.arguments.extend(arguments);
        self
    }

    pub fn strike(mut self, when: &'static str, blows: &[(u64, Signal)]) -> Self {
        self.strike = Some(Strike {
            when,
            blows: blows.to_vec(),
        });
        self
    }

    pub fn before(mut self, how: impl Fn(&Site) -> Guard + Send + Sync + 'static) -> Self {
        self.before = Some(Box::new(how));
        self
    }

    /// Between the two builds.
    pub fn after(mut self, how: impl Fn(&Site) + Send + Sync + 'static) -> Self {
        self.after = Some(Box::new(how));
        self
    }

    /// Ends with `status` and says `cause`; a machine ran.
    pub fn fails(mut self, status: i32, cause: &'static str) -> Self {
        (self.status, self.cause, self.evidence) = (status, cause, true);
        self
    }

    /// Ends with `status` and says `cause` before there is a machine to look at.
    pub fn refuses(mut self, status: i32, cause: &'static str) -> Self {
        (self.status, self.cause) = (status, cause);
        self
    }

    pub fn says(mut self, text: &'static str) -> Self {
        self.says.push(text);
        self
    }

    /// Ends with `status` and no more words, and leaves its folders to the next build.
    pub fn drops(mut self, status: i32) -> Self {
        (self.status, self.abrupt) = (status, true);
        self
    }

    pub fn with_layers(mut self) -> Self {
        self.layers = true;
        self
    }

    pub fn reused(
        mut self,
        how: impl Fn(&Site, &Run) -> Result<String, String> + Send + Sync + 'static,
    ) -> Self {
        self.reused = Some(Box::new(how));
        self
    }

    /// More to hold of what the faulty build left.
    pub fn judged(
        mut self,
        how: impl Fn(&Site, &Run) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        self.judged.push(Box::new(how));
        self
    }

    /// The next build has to go on from the layer whose line holds this text.
    pub fn goes_on(self, from: &'static str) -> Self {
        self.reused(move |_, run| {
            if run.said.contains(from) {
                Ok(from.to_string())
            } else {
                Err(format!("the next build did not say: {from}"))
            }
        })
    }
}
