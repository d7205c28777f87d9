//! Runs the commands: one module per command, one exit status per kind of error.

#[cfg(unix)]
mod attach;
mod build;
mod builtin_recipes;
mod bundle;
mod cache;
mod diff;
mod disk;
mod doctor;
pub mod documents;
mod export;
mod fetch;
mod first_use;
mod host;
mod hypervisor;
mod init;
mod inputs;
mod inspect;
mod interrupt;
mod lock;
mod lock_rule;
mod man;
mod manifest_summary;
mod matrix;
mod outdated;
mod partitions;
mod pin;
mod pinned_input;
mod plan;
mod publish;
mod recipe;
mod report;
#[cfg(unix)]
mod running;
mod schema;
#[cfg(unix)]
mod screen;
mod shared_cache;
mod sign;
mod signers;
mod source;
mod successors;
mod target_specs;
mod targets;
#[cfg(unix)]
mod trial;
#[cfg(unix)]
mod trial_runner;
#[cfg(not(unix))]
mod trial_unsupported;
mod trust;
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

use crate::cli::{Cli, CliCommand, LogFormat, TrustCommand};
use crate::engine::evidence::TraceRecording;
use crate::report::{CiSystem, JsonLines, QuietSink, Terminal, trace};
use winimg_base::display_text;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Event, Sink};
use winimg_base::io::{self, environment_secrets};
use winimg_recipe::{Mirrors, Recipe};
use winimg_supply::fetch::FetchOptions;
use winimg_supply::store::Store;

#[cfg(not(unix))]
use trial_unsupported::{self as trial, self as trial_runner};

pub use hypervisor::{ExternalHypervisor, FindHypervisor};

pub(crate) struct CommandContext {
    pub sink: Arc<dyn Sink>,
    pub cancel: Cancel,
    /// True if events are printed as text, not JSON.
    pub prints_text: bool,
    /// Trace of a build, saved if it fails.
    pub recording: TraceRecording,
    pub others: FindHypervisor,
    /// Configuration of this host.
    pub host: host::HostConfiguration,
    /// Value of `--config`.
    pub config: Option<OsString>,
    /// Folder of the built-in recipes if they cannot be in the cache; removed when the command
    /// ends.
    pub recipes: OnceLock<TempDir>,
}

/// Runs the command. Returns 0 or the status of the error's kind (`docs/exit-status.md`).
pub fn run(cli: Cli) -> ExitCode {
    run_with(cli, |_| None)
}

/// Like [`run`], for a program that provides more hypervisors.
pub fn run_with(cli: Cli, others: FindHypervisor) -> ExitCode {
    io::forbid_others_to_write();
    let ci = CiSystem::detect(|name| std::env::var(name).ok());
    let known = *ci.as_ref().unwrap_or(&CiSystem::None);
    let terminal = (cli.log_format == LogFormat::Text).then(|| Arc::new(Terminal::new(known)));
    let sink: Arc<dyn Sink> = match &terminal {
        Some(terminal) => Arc::clone(terminal) as Arc<dyn Sink>,
        None => {
            let started = Event::started(cli.command.name(), cli.command.recipe());
            Arc::new(JsonLines::new(std::io::stderr(), started))
        }
    };
    let mut context = CommandContext {
        sink: if cli.quiet {
            Arc::new(QuietSink(sink))
        } else {
            sink
        },
        cancel: Cancel::default(),
        prints_text: terminal.is_some(),
        recording: TraceRecording::default(),
        others,
        host: host::HostConfiguration::default(),
        config: cli.config.clone(),
        recipes: OnceLock::new(),
    };
    if let Err(error) = ci.and_then(|_| start_tracing(&cli, terminal.as_ref(), &context.recording))
    {
        return report_failure(&error, &context);
    }
    match host::load_configuration(&cli, &context) {
        Ok(host) => context.host = host,
        Err(error) => return report_failure(&error, &context),
    }
    let outcome =
        watch_signals(&cli.command, &context).and_then(|()| dispatch(cli.command, &context));
    match outcome {
        Ok(status) => status,
        Err(error) => report_failure(&error, &context),
    }
}

fn report_failure(error: &Error, context: &CommandContext) -> ExitCode {
    context.sink.emit(&Event::failed(error));
    ExitCode::from(error.kind().exit_status())
}

/// Starts tracing to the terminal as the flags and WINIMG_LOG say, and to the recording of a build.
fn start_tracing(
    cli: &Cli,
    terminal: Option<&Arc<Terminal>>,
    recording: &TraceRecording,
) -> Result<()> {
    let given = std::env::var(trace::VARIABLE).ok();
    let targets = trace::parse_targets(cli.verbose, given.as_deref())?;
    let is_shown = !cli.quiet && (cli.verbose > 0 || given.is_some());
    let shown = terminal.filter(|_| is_shown);
    recording.hide(environment_secrets());
    let records = matches!(cli.command, CliCommand::Build(_));
    trace::install(
        shown.map(|terminal| (terminal, targets)),
        recording,
        records,
    );
    Ok(())
}

/// Runs the command. Those that return a status have outcomes that are neither success nor an
/// error.
fn dispatch(command: CliCommand, context: &CommandContext) -> Result<ExitCode> {
    let done = match command {
        #[cfg(unix)]
        CliCommand::Attach(args) => return attach::run(&args),
        CliCommand::Diff(args) => return diff::run(&args, context),
        CliCommand::Outdated(args) => return outdated::run(&args, context),
        CliCommand::Init(args) => init::run(&args, context),
        CliCommand::Validate(args) => plan::validate(&args, context),
        CliCommand::Plan(args) => plan::show(&args, context),
        CliCommand::Targets(args) => targets::run(&args, context),
        CliCommand::Build(args) => build::run(&args, context),
        CliCommand::Matrix { command } => matrix::run(&command, context),
        #[cfg(unix)]
        CliCommand::Screen(args) => screen::run(&args),
        #[cfg(unix)]
        CliCommand::Watch(args) => watch::run(&args, context),
        #[cfg(not(unix))]
        CliCommand::Attach(_) => Err(unsupported_error("winimg attach")),
        #[cfg(not(unix))]
        CliCommand::Screen(_) => Err(unsupported_error("winimg screen")),
        #[cfg(not(unix))]
        CliCommand::Watch(_) => Err(unsupported_error("winimg watch")),
        CliCommand::Lock(args) => lock::run(&args, context),
        CliCommand::Pin(args) => pin::run(&args, context),
        CliCommand::Fetch(args) => fetch::run(&args, context),
        CliCommand::Bundle(args) => bundle::run(&args, context),
        CliCommand::Cache { command } => cache::run(&command, context),
        CliCommand::Trust {
            command: TrustCommand::Update(args),
        } => trust::update(&args, context),
        CliCommand::Export(args) => export::run(&args, context),
        CliCommand::Publish(args) => publish::run(&args, context),
        CliCommand::Try(args) => trial::run(&args, context),
        CliCommand::Relay { socket } => trial::relay(&socket),
        CliCommand::Report(args) => report::run(&args, context),
        CliCommand::Sign(args) => sign::run(&args, context),
        CliCommand::Verify(args) => verify::run(&args, context),
        CliCommand::Inspect(args) => inspect::run(&args, context),
        CliCommand::Doctor(args) => doctor::run(&args, context),
        CliCommand::Schema { of } => print(&schema::render(of)),
        CliCommand::Man { dir } => man::run(&dir),
        CliCommand::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "winimg", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Cancels the work on the first interrupt; on the second, exits at once, which ends QEMU too.
fn watch_signals(command: &CliCommand, context: &CommandContext) -> Result<()> {
    // The first handles Ctrl-C itself; it is the regular way to stop the second.
    if cfg!(unix) && matches!(command, CliCommand::Attach(_) | CliCommand::Watch(_)) {
        return Ok(());
    }
    let cancel = context.cancel.clone();
    // The handler outlives the command; the terminal's live line must not.
    let sink: Weak<dyn Sink> = Arc::downgrade(&context.sink);
    interrupt::watch(move || {
        if cancel.is_cancelled() {
            interrupt::exit_now(i32::from(Kind::Cancelled.exit_status()));
        }
        cancel.cancel();
        if let Some(sink) = sink.upgrade() {
            sink.note("interrupted: cleaning up (press Ctrl-C again to exit now)");
        }
    })
}

#[cfg(not(unix))]
fn unsupported_error(command: &str) -> Error {
    let fact = format!("`{command}` is not available on Windows yet");
    Error::new(Kind::Host, fact).cure("use --on-error ask: the build prompts on its own terminal")
}

impl CommandContext {
    /// Returns the cache folder.
    pub fn cache_folder(&self) -> Result<PathBuf> {
        Store::default_folder(self.host.config.cache.dir.as_deref())
    }

    /// Returns this host's mirrors, which take precedence, and the recipe's.
    pub fn mirrors(&self, recipe: &Recipe) -> Mirrors {
        self.host.config.mirrors.merge(&recipe.mirrors)
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

/// Opens the store, and reports removed leftovers of killed runs.
pub(crate) fn open_store(context: &CommandContext) -> Result<Store> {
    let store = Store::open(&context.cache_folder()?)?;
    tracing::debug!(folder = %store.folder().display(), "the cache");
    store.report_swept(context.sink.as_ref());
    Ok(store)
}

/// Fails if the path does not exist, or is not a file, a folder or a disk.
fn must_exist(path: &Path) -> Result<()> {
    if path.exists() {
        io::refuse_streams(path).map_err(|e| Error::io("read", path, e))
    } else {
        Err(Error::new(Kind::Recipe, "there is no such file").at(path.display()))
    }
}

/// Checks if the path is a record of a build, such as its manifest, by its extension.
fn is_record(path: &Path) -> bool {
    path.extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("json"))
}

fn print_json(value: &serde_json::Value) -> Result<()> {
    print_as_is(&display_text::escape_json(&format!("{value:#}\n")))
}

/// Prints text without the terminal escape sequences that foreign names may contain.
fn print(text: &str) -> Result<()> {
    print_as_is(&display_text::sanitize_lines(text))
}

/// Writes to standard output; a closed pipe (`| head`) is not an error.
fn print_as_is(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::new(Kind::Failed, "cannot write to standard output").because(e))
        }
        _ => Ok(()),
    }
}
