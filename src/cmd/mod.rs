//! Carries out the command line: one module a command, one exit status for each kind of error.

#[cfg(unix)]
mod attach;
mod build;
mod bundle;
mod cache;
mod diff;
mod doctor;
pub mod documents;
mod export;
mod fetch;
mod first_use;
mod host;
mod hypervisor;
mod in_short;
mod init;
mod inputs;
mod inspect;
mod interrupt;
mod lock;
mod lock_rule;
mod man;
mod matrix;
mod outdated;
mod partitions;
mod pin;
mod plan;
mod publish;
mod recipe;
mod report;
#[cfg(unix)]
mod running;
#[cfg(unix)]
mod screen;
mod shared_cache;
mod shipped;
mod sign;
mod source;
mod successors;
mod targets;
#[cfg(unix)]
mod trial;
mod trust;
#[cfg(not(unix))]
mod untried;
mod upgrade;
mod usage;
mod verify;
#[cfg(unix)]
mod watch;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock, Weak};

use clap::CommandFactory as _;
use tempfile::TempDir;

use crate::cli::{Cli, Command, LogFormat, Schema, Trust};
use crate::engine::evidence::Recording;
use crate::record;
use crate::report::{Ci, JsonLines, Quiet, Terminal, trace};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Event, Sink};
use winimg_base::io::{self, environment_secrets};
use winimg_base::unseen;
use winimg_recipe::recipe::{Mirrors, Recipe};
use winimg_supply::fetch::FetchOptions;
use winimg_supply::store::Store;

#[cfg(not(unix))]
use untried as trial;

pub use hypervisor::{Other, Others};

pub(crate) struct Context {
    pub sink: Arc<dyn Sink>,
    pub cancel: Cancel,
    /// Events are lines for people.
    pub prints_text: bool,
    /// What is traced, for a build that fails.
    pub recording: Recording,
    pub others: Others,
    /// What this host's configuration files say.
    pub host: host::Configured,
    /// The file that `--config` names instead of them.
    pub config: Option<OsString>,
    /// Where winimg's own recipes are if they cannot be in the cache; removed when the command ends.
    pub recipes: OnceLock<TempDir>,
}

/// Runs the command and says how it went: 0, or the error's kind (`docs/exit-status.md`).
pub fn run(cli: Cli) -> ExitCode {
    run_with(cli, |_| None)
}

/// The same for a program that has more hypervisors.
pub fn run_with(cli: Cli, others: Others) -> ExitCode {
    io::forbid_others_to_write();
    let ci = Ci::detect(|name| std::env::var(name).ok());
    let known = *ci.as_ref().unwrap_or(&Ci::None);
    let terminal = (cli.log_format == LogFormat::Text).then(|| Arc::new(Terminal::new(known)));
    let sink: Arc<dyn Sink> = match &terminal {
        Some(terminal) => Arc::clone(terminal) as Arc<dyn Sink>,
        None => {
            let started = Event::started(cli.command.name(), cli.command.recipe());
            Arc::new(JsonLines::new(std::io::stderr(), started))
        }
    };
    let mut context = Context {
        sink: match cli.quiet {
            true => Arc::new(Quiet(sink)),
            false => sink,
        },
        cancel: Cancel::default(),
        prints_text: terminal.is_some(),
        recording: Recording::default(),
        others,
        host: host::Configured::default(),
        config: cli.config.clone(),
        recipes: OnceLock::new(),
    };
    let listens = ci.and_then(|_| listen(&cli, terminal.as_ref(), &context.recording));
    if let Err(error) = listens {
        return failed(&error, &context);
    }
    match host::configured(&cli, &context) {
        Ok(host) => context.host = host,
        Err(error) => return failed(&error, &context),
    }
    let outcome = match &cli.command {
        // Its Ctrl-C is for the line that runs, its status that of the last line.
        #[cfg(unix)]
        Command::Attach(args) => attach::run(args),
        // That two images differ is no failure, and no success.
        Command::Diff(args) => watch_signals(&context).and_then(|()| diff::run(args, &context)),
        Command::Outdated(args) => {
            watch_signals(&context).and_then(|()| outdated::run(args, &context))
        }
        // Its Ctrl-C is its regular end.
        #[cfg(unix)]
        Command::Watch(args) => watch::run(args, &context).map(|()| ExitCode::SUCCESS),
        _ => watch_signals(&context)
            .and_then(|()| dispatch(cli.command, &context))
            .map(|()| ExitCode::SUCCESS),
    };
    match outcome {
        Ok(status) => status,
        Err(error) => failed(&error, &context),
    }
}

fn failed(error: &Error, context: &Context) -> ExitCode {
    context.sink.emit(&Event::failed(error));
    ExitCode::from(error.kind().exit_status())
}

/// Traces to the terminal what the flags and WINIMG_LOG ask for, and a build's whole work to its recording.
fn listen(cli: &Cli, terminal: Option<&Arc<Terminal>>, recording: &Recording) -> Result<()> {
    let given = std::env::var(trace::VARIABLE).ok();
    let targets = trace::targets(cli.verbose, given.as_deref())?;
    let is_shown = !cli.quiet && (cli.verbose > 0 || given.is_some());
    let shown = terminal.filter(|_| is_shown);
    recording.hide(environment_secrets());
    let records = matches!(cli.command, Command::Build(_));
    trace::listen(
        shown.map(|terminal| (terminal, targets)),
        recording,
        records,
    );
    Ok(())
}

fn dispatch(command: Command, context: &Context) -> Result<()> {
    match command {
        Command::Init(args) => init::run(&args, context),
        Command::Validate(args) => plan::validate(&args, context),
        Command::Plan(args) => plan::show(&args, context),
        Command::Targets(args) => targets::run(&args, context),
        Command::Build(args) => build::run(&args, context),
        Command::Matrix { command } => matrix::run(&command, context),
        #[cfg(unix)]
        Command::Attach(args) => attach::run(&args).map(|_| ()),
        #[cfg(unix)]
        Command::Screen(args) => screen::run(&args),
        #[cfg(unix)]
        Command::Watch(args) => watch::run(&args, context),
        #[cfg(not(unix))]
        Command::Attach(_) => Err(no_socket("winimg attach")),
        #[cfg(not(unix))]
        Command::Screen(_) => Err(no_socket("winimg screen")),
        #[cfg(not(unix))]
        Command::Watch(_) => Err(no_socket("winimg watch")),
        Command::Lock(args) => lock::run(&args, context),
        Command::Pin(args) => pin::run(&args, context),
        Command::Fetch(args) => fetch::run(&args, context),
        Command::Bundle(args) => bundle::run(&args, context),
        Command::Cache { command } => cache::run(&command, context),
        Command::Trust {
            command: Trust::Update(args),
        } => trust::update(&args, context),
        Command::Export(args) => export::run(&args, context),
        Command::Publish(args) => publish::run(&args, context),
        Command::Try(args) => trial::run(&args, context),
        Command::Relay { socket } => trial::relay(&socket),
        Command::Report(args) => report::run(&args, context),
        Command::Diff(args) => diff::run(&args, context).map(|_| ()),
        Command::Outdated(args) => outdated::run(&args, context).map(|_| ()),
        Command::Sign(args) => sign::run(&args, context),
        Command::Verify(args) => verify::run(&args, context),
        Command::Inspect(args) => inspect::run(&args, context),
        Command::Doctor(args) => doctor::run(&args, context),
        Command::Schema {
            of: Schema::Manifest,
        } => print(&record::manifest::schema()),
        Command::Schema { of: Schema::Doctor } => print(&crate::doctor::schema()),
        Command::Schema { of: Schema::Config } => {
            print(include_str!("../../schemas/config-1.json"))
        }
        Command::Schema { of: Schema::Recipe } => {
            print(include_str!("../../recipes/recipe.schema.json"))
        }
        Command::Schema { of: Schema::Matrix } => {
            print(include_str!("../../schemas/matrix-1.json"))
        }
        Command::Schema { of: Schema::Try } => print(&crate::trial::result::schema()),
        Command::Schema { of: Schema::Diff } => print(&crate::diff::schema()),
        Command::Schema {
            of: Schema::Published,
        } => print(&crate::record::published::schema()),
        Command::Schema {
            of: Schema::DiskUsage,
        } => print(&crate::usage::schema()),
        Command::Schema { of: Schema::Target } => print(&winimg_recipe::recipe::target::schema()),
        Command::Man { dir } => man::run(&dir),
        Command::Schema { of: Schema::Events } => print(&crate::report::stream::schema()),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "winimg", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
    }
}

/// The first interrupt ends the work in order; the second ends the process at once, and QEMU with it.
fn watch_signals(context: &Context) -> Result<()> {
    let cancel = context.cancel.clone();
    // The watch outlives the command; the terminal's live line must not.
    let sink: Weak<dyn Sink> = Arc::downgrade(&context.sink);
    interrupt::watch(move || {
        if cancel.is_cancelled() {
            interrupt::exit_now(i32::from(Kind::Cancelled.exit_status()));
        }
        cancel.cancel();
        if let Some(sink) = sink.upgrade() {
            sink.note("interrupted: stopping and cleaning up (once more: at once)");
        }
    })
}

#[cfg(not(unix))]
fn no_socket(command: &str) -> Error {
    let fact = format!("`{command}` is not available on Windows yet");
    Error::new(Kind::Host, fact).cure("with --on-error ask, a build asks at its own terminal")
}

impl Context {
    /// Where the cache is.
    pub fn cache_folder(&self) -> Result<PathBuf> {
        Store::default_folder(self.host.said.cache.dir.as_deref())
    }

    /// This host's rules, then the recipe's.
    pub fn mirrors(&self, recipe: &Recipe) -> Mirrors {
        self.host.said.mirrors.over(&recipe.mirrors)
    }

    pub fn fetch_options(&self, offline: bool, recipe: &Recipe) -> FetchOptions {
        FetchOptions {
            offline,
            proxies: self.host.proxies.clone(),
            mirrors: self.mirrors(recipe),
            ..FetchOptions::default()
        }
    }
}

/// The store where the environment or the configuration says, with a word about what killed runs left there.
pub(crate) fn store(context: &Context) -> Result<Store> {
    let store = Store::open(&context.cache_folder()?)?;
    tracing::debug!(folder = %store.folder().display(), "the cache");
    store.report_swept(context.sink.as_ref());
    Ok(store)
}

/// Refuses a path at which nothing is, or something that can be neither a file nor a folder nor a disk.
fn must_exist(path: &Path) -> Result<()> {
    if path.exists() {
        io::refuse_streams(path).map_err(|e| Error::io("read", path, e))
    } else {
        Err(Error::new(Kind::Recipe, "there is no such file").at(path.display()))
    }
}

/// A record of a build, such as its manifest, and no image.
fn is_record(path: &Path) -> bool {
    let extension = path.extension();
    extension.is_some_and(|e| e.eq_ignore_ascii_case("json"))
}

fn print_json(value: &serde_json::Value) -> Result<()> {
    print_as_is(&unseen::json(&format!("{value:#}\n")))
}

/// Text for people. Names and words of others in it steer no terminal.
fn print(text: &str) -> Result<()> {
    print_as_is(&unseen::lines(text))
}

/// Standard output; a reader that went away (`| head`) is not an error.
fn print_as_is(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::new(Kind::Failed, "cannot write to standard output").because(e))
        }
        _ => Ok(()),
    }
}
