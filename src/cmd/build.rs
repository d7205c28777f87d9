//! `winimg build`: reads, builds, records.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use url::Url;

use crate::answer;
use crate::cli;
use crate::engine::console::Console;
use crate::engine::earlier;
use crate::engine::pause::{self, Options, Pauses};
use crate::engine::{self, Built, Outcome, Request, Scratch};
use crate::page::REPORT;
use crate::record::sign::Signers;
use crate::record::{self, Manifest, manifest};
use crate::report::{Everywhere, JsonLines};
use crate::usage;
use winimg_base::digest::Digest;
use winimg_base::environment::variable;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Artifact, Cancel, Event, Sink};
use winimg_base::io;
use winimg_base::text::{Secret, column_width};
use winimg_machine::vm::{Hypervisor, Platform};
use winimg_supply::fetch::FetchOptions;
use winimg_supply::store::Store;

use super::recipe::Look;
use super::{
    Context, documents, hypervisor, print, print_json, recipe, report, shared_cache, sign, source,
    trial,
};

const GUEST_PASSWORD: &str = "hyperv-password";

pub fn run(args: &cli::Build, context: &Context) -> Result<()> {
    let started = SystemTime::now();
    let ready = ready(args, context)?;
    let (opened, store, hypervisor) = (&ready.opened, &ready.store, ready.hypervisor.as_ref());
    let (output, name) = (&ready.output, &opened.recipe.name.value);
    let (said, cancel) = (context.sink.as_ref(), &context.cancel);
    // From here on the directory is ours alone; until here nothing was made.
    let mut scratch = Scratch::create(output, hypervisor, store, said, cancel)?;
    let events = events(output, args)?;
    let console = Console::open(scratch.run(), name, output)?;
    let sink: Arc<dyn Sink> = Arc::new(Everywhere(vec![
        Arc::clone(&context.sink),
        Arc::clone(&events),
    ]));
    sink.emit(&Event::BuildStarted {
        name: name.clone(),
        line: context.recording.redacted(&cli::typed()),
    });
    let options = options(args, context);
    let pauses = Pauses::new(options, console, Arc::clone(&sink), cancel.clone())?;
    let request = Request {
        recipe: &opened.recipe,
        plan: &opened.plan,
        output: output.clone(),
        accel: hypervisor::accel(args.accel, context),
        password: ready.password.clone(),
        pauses: &pauses,
        layers: args.layers,
        fresh: args.fresh,
        from_cache: args.from_cache,
        fingerprint: fingerprint(args, opened, &ready.builder, context)?,
        verify: !args.no_verify,
        epoch: ready.epoch,
        store,
        fetch: ready.fetch.clone(),
        lock: opened.lock.as_ref(),
        lock_signers: &opened.lock_signers,
        remarks: ready.remarks.clone(),
        recording: context.recording.clone(),
        sink: &sink,
        cancel,
    };
    let recording = record::built::Recording {
        recipe_path: &args.recipe.recipe,
        started,
        builder: &ready.builder,
        signers: &ready.signers,
    };
    let built = engine::run(&request, &mut scratch, hypervisor);
    let concluded = built
        .and_then(|outcome| conclude(args, &request, &recording, outcome, hypervisor, context))
        .map_err(|error| error.lines(earlier::describe(output)));
    // The caller shows an error on the terminal; `events.jsonl` ends with it, too.
    match &concluded {
        Ok(finished) => sink.emit(finished),
        Err(error) => events.emit(&Event::failed(error)),
    }
    let unchanged = matches!(
        &concluded,
        Ok(Event::Finished {
            unchanged: true,
            ..
        })
    );
    // That of the build which made what lies here says more than that of one which found nothing to do.
    if !unchanged || !output.join(REPORT).exists() {
        report::keep_current(output, context);
    }
    concluded.map(|_| ())
}

/// Writes the records and prints the result; the event that ends the build.
fn conclude(
    args: &cli::Build,
    request: &Request,
    recording: &record::built::Recording,
    outcome: Outcome,
    hypervisor: &dyn Hypervisor,
    context: &Context,
) -> Result<Event> {
    let output = &request.output;
    let unchanged = matches!(outcome, Outcome::Unchanged);
    let (artifacts, text) = match outcome {
        Outcome::Unchanged => unchanged_output(output)?,
        Outcome::Built(built) => {
            let mut manifest = record::built::manifest(request, recording, &built);
            if args.tries {
                manifest.tries = trial::of_build(args, request, hypervisor, &manifest, context)?;
                manifest.finished = manifest::rfc3339(SystemTime::now());
            }
            let mut records = recorded(request, recording, &built, &manifest)?;
            let artifacts: Vec<Artifact> = built.artifacts.iter().map(Into::into).collect();
            // Written last of all: it shows how the build ended.
            records.push(output.join(REPORT));
            let text = summary(output, &artifacts, &records);
            (artifacts, text)
        }
    };
    let seconds = recording.started.elapsed().unwrap_or_default();
    let built = documents::Built {
        recipe: request.recipe.name.value.clone(),
        output: output.display().to_string(),
        manifest: record::built::MANIFEST.into(),
        unchanged,
        seconds: seconds.as_secs_f64(),
        artifacts,
    };
    match args.json {
        true => print_json(&serde_json::json!(built))?,
        false => print(&text)?,
    }
    Ok(Event::Finished {
        output: built.output,
        artifacts: built.artifacts,
        seconds: built.seconds,
        unchanged,
    })
}

/// What an earlier build made, and the result as people read it.
fn unchanged_output(output: &Path) -> Result<(Vec<Artifact>, String)> {
    let manifest = Manifest::read(&output.join(record::built::MANIFEST))?;
    let text = format!(
        "nothing changed: {} holds what this recipe makes\n",
        output.display()
    );
    Ok((manifest.artifacts.iter().map(Into::into).collect(), text))
}

/// What a build needs, each checked before anything is made.
struct Ready {
    opened: recipe::Opened,
    builder: String,
    signers: Signers,
    fetch: FetchOptions,
    epoch: i64,
    store: Store,
    hypervisor: Box<dyn Hypervisor>,
    password: Secret,
    remarks: Vec<String>,
    output: PathBuf,
}

fn ready(args: &cli::Build, context: &Context) -> Result<Ready> {
    source::needs_file(&args.recipe, "build")?;
    let platform = hypervisor::platform(&args.hypervisor, context)?;
    let look = Look::Build(platform);
    let opened = recipe::open(&args.recipe, &args.lock, look, context)?;
    let configured = context.host.said.builder_id.as_deref();
    let builder = builder(args.builder_id.as_deref().or(configured))?;
    let signers = sign::signers(&args.sign, context)?;
    let mut fetch = opened.fetch_options(&args.network, context);
    fetch.shared = shared_cache::layers(&args.shared, fetch.offline, context)?;
    let epoch = sign::epoch()?;
    options(args, context).check(&opened.plan)?;
    hypervisor::fits(platform, &opened.recipe, context)?;
    let store = super::store(context)?;
    if args.tries {
        trial::can_be_tried(&opened.recipe, platform)?;
    }
    let hypervisor = hypervisor::open(&args.hypervisor, &store, context)?;
    let needs = (&opened.recipe.machine).into();
    hypervisor.check_host(&needs, &context.cancel)?;
    let password = password(
        args.admin_password_file.as_deref(),
        hypervisor.platform(),
        &store,
        fetch.shared.is_some(),
        &context.cancel,
    )?;
    let secrets = engine::secrets(&opened.recipe, &password);
    context.recording.hide(secrets);
    opened.remember_lock(&store)?;
    let output = args.output.clone();
    let output = output.unwrap_or_else(|| Path::new("out").join(&opened.recipe.name.value));
    let output = std::path::absolute(&output).map_err(|e| Error::io("find", &output, e))?;
    let mut remarks = opened.remarks.clone();
    let age = opened.check_age(&store, Some(&output), args.allow_rollback, context)?;
    remarks.extend(age);
    Ok(Ready {
        opened,
        builder,
        signers,
        fetch,
        epoch,
        store,
        hypervisor,
        password,
        remarks,
        output,
    })
}

/// Writes the records, and remembers what was built with which lock; the records' paths.
fn recorded(
    request: &Request,
    recording: &record::built::Recording,
    built: &Built,
    manifest: &Manifest,
) -> Result<Vec<PathBuf>> {
    let (store, output) = (request.store, &request.output);
    let mut records = record::built::write(request, recording, manifest, request.cancel)?;
    records.extend(usage::write(output, built.usage.as_ref())?);
    records.extend(manifest.tries.iter().map(|tried| output.join(&tried.file)));
    if let Some(lock) = request.lock {
        store.record_built_with(&lock.lock.record())?;
    }
    if let Some(key) = &built.key {
        store.record_output(output, key, &left(output, built, &records))?;
    }
    if let Err(e) = earlier::remove(output) {
        let fact = e.problem().in_one_line();
        let text = format!("the earlier image could not be removed: {fact}");
        request.sink.warn(text);
    }
    let pages = manifest.tries.iter().map(|tried| output.join(&tried.file));
    records.extend(pages.map(|page| page.with_extension("html")));
    Ok(records)
}

/// Of what decides the output beside the finished disk.
fn fingerprint(
    args: &cli::Build,
    opened: &recipe::Opened,
    builder: &str,
    context: &Context,
) -> Result<Digest> {
    let mut keys = Vec::new();
    let sign = sign::options(&args.sign, context);
    for key in &sign.files {
        keys.push(io::sha256(key)?.0);
    }
    let from_environment = std::env::var("WINIMG_SIGN_KEY").unwrap_or_default();
    keys.push(Digest::sha256_of(from_environment.as_bytes()));
    let lock = opened.lock.as_ref().map(|file| file.digest());
    Ok(Digest::of_json(&serde_json::json!({
        "format": 3,
        "tool": manifest::Tool::this(),
        "recipe": opened.recipe.digest,
        "path": args.recipe.recipe,
        "lock": lock,
        "lock_passed_over": args.lock.no_lock,
        "builder": builder,
        "keys": keys,
        "sign_command": sign.command,
        "verified": !args.no_verify,
        "tried": args.tries,
        "source_date_epoch": std::env::var("SOURCE_DATE_EPOCH").ok(),
    })))
}

/// What the build left in its directory, by names in there.
fn left(output: &Path, built: &Built, records: &[PathBuf]) -> Vec<PathBuf> {
    let artifacts = built.artifacts.iter().map(|a| PathBuf::from(&a.file));
    let records = records.iter().map(|r| r.strip_prefix(output).unwrap_or(r));
    artifacts.chain(records.map(Path::to_path_buf)).collect()
}

/// Where the build waits for a person. Nobody is asked where events are printed as JSON.
fn options(args: &cli::Build, context: &Context) -> Options {
    Options {
        on_error: args.on_error,
        breaks: args.breaks.clone(),
        debug: args.debug,
        interactive: context.prints_text && pause::is_at_terminal(),
        keep_for: args.keep_for,
    }
}

/// Who builds, as the provenance names it.
fn builder(given: Option<&str>) -> Result<String> {
    let Some(uri) = given.filter(|uri| !uri.is_empty()) else {
        return Ok(record::provenance::WORKSTATION.into());
    };
    match Url::parse(uri) {
        Ok(parsed) if parsed.username().is_empty() && parsed.password().is_none() => Ok(uri.into()),
        _ => Err(Error::new(
            Kind::Recipe,
            "the builder's id is not a URI without credentials",
        )
        .at("--builder-id")
        .expected("such as https://ci.example.com/windows-images")),
    }
}

fn events(output: &Path, args: &cli::Build) -> Result<Arc<dyn Sink>> {
    let path = output.join("events.jsonl");
    let file = File::create(&path).map_err(|e| Error::io("write", &path, e))?;
    let started = Event::started("build", Some(&args.recipe.recipe));
    Ok(Arc::new(JsonLines::new(file, started)))
}

/// From the file, from the environment, or random. It never leaves the answer disc; but Hyper-V's guests are reached by
/// logging on, so theirs is kept beside the layers, for the machine that is booted from one of them.
fn password(
    file: Option<&Path>,
    platform: Platform,
    store: &Store,
    shares: bool,
    cancel: &Cancel,
) -> Result<Secret> {
    let password = match (given_password(file)?, platform) {
        (Some(given), _) => given,
        (None, Platform::Qemu) => answer::generate_password()?,
        (None, Platform::HyperV) if shares => {
            let fact =
                "layers of Hyper-V's machines are shared, but not the password that opens them";
            return Err(Error::new(Kind::Recipe, fact).at("--cache-remote").cure(
                "give every runner the same: --admin-password-file or WINIMG_ADMIN_PASSWORD",
            ));
        }
        (None, Platform::HyperV) => {
            store.kept_secret(GUEST_PASSWORD, answer::generate_password, cancel)?
        }
    };
    answer::check_password(&password)?;
    Ok(password)
}

fn given_password(file: Option<&Path>) -> Result<Option<Secret>> {
    if let Some(path) = file {
        let text =
            io::read_text_given(path, io::limit::KEY).map_err(|e| Error::io("read", path, e))?;
        return Ok(Some(Secret::new(text.trim_end_matches(['\r', '\n']))));
    }
    Ok(variable("WINIMG_ADMIN_PASSWORD").map(Secret::new))
}

/// The artifacts' names and sizes: what a user copies from the end of a log.
fn summary(output: &Path, artifacts: &[Artifact], records: &[PathBuf]) -> String {
    let mut text = format!("\n{}\n", output.display());
    let width = column_width(artifacts.iter().map(|a| a.file.len()));
    for artifact in artifacts {
        let size = indicatif::HumanBytes(artifact.bytes).to_string();
        text += &format!(
            "  {:<width$} {:>12}  sha256:{}\n",
            artifact.file, size, artifact.sha256
        );
    }
    for record in records {
        let record = record.strip_prefix(output).unwrap_or(record);
        text += &format!("  {}\n", record.display());
    }
    text
}
