//! `winimg build`: reads, builds, records.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use url::Url;

use crate::answer;
use crate::cli;
use crate::engine::console::Console;
use crate::engine::pause::{self, OnError, Options, Pauses};
use crate::engine::{self, Leftovers, Outcome, Request, Scratch};
use crate::record::{self, manifest};
use crate::report::{Everywhere, JsonLines};
use winimg_base::digest::Digest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Event, Sink};
use winimg_base::io;
use winimg_base::text::Secret;
use winimg_machine::vm::Platform;
use winimg_recipe::lock::LockFile;
use winimg_supply::store::Store;

use super::recipe::Look;
use super::{Context, hypervisor, print, recipe, shared_cache, sign, source};

/// The name of the guests' password in the store.
const GUEST_PASSWORD: &str = "hyperv-password";

pub fn run(args: &cli::Build, context: &Context) -> Result<()> {
    let started = SystemTime::now();
    source::needs_file(&args.recipe, "build")?;
    let platform = hypervisor::platform(&args.hypervisor, context)?;
    let look = Look::Build(platform);
    let opened = recipe::open(&args.recipe, &args.lock, look, context)?;
    let builder = builder(args.builder_id.as_deref())?;
    // A key that does not sign is found before anything is begun.
    let signers = sign::signers(&args.sign, context)?;
    let mut fetch = opened.fetch_options(&args.network);
    fetch.shared = shared_cache::layers(&args.shared, fetch.offline, context)?;
    let epoch = sign::epoch()?;
    let options = options(args, context);
    options.check(&opened.plan)?;
    hypervisor::fits(platform, &opened.recipe, context)?;
    let store = super::store(context)?;
    let hypervisor = hypervisor::open(&args.hypervisor, &store, context)?;
    hypervisor.check_host(&context.cancel)?;
    let password = password(
        args.admin_password_file.as_deref(),
        hypervisor.platform(),
        &store,
        fetch.shared.is_some(),
        &context.cancel,
    )?;
    context
        .recording
        .hide(engine::secrets(&opened.recipe, &password));
    opened.remember_lock(&store)?;
    let mut remarks = opened.remarks.clone();
    remarks.extend(opened.check_serial(&store, args.allow_rollback, context)?);
    let (recipe, plan) = (&opened.recipe, &opened.plan);
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| Path::new("out").join(&recipe.name.value));
    let output = std::path::absolute(&output).map_err(|e| Error::io("find", &output, e))?;
    // From here on the directory is ours alone; until here nothing was made.
    let leftovers = Leftovers {
        hypervisor: hypervisor.as_ref(),
        store: &store,
        sink: context.sink.as_ref(),
        cancel: &context.cancel,
    };
    let mut scratch = Scratch::create(&output, &leftovers)?;
    let events = events(&output)?;
    let console = Console::open(scratch.run(), &recipe.name.value, &output)?;
    let sink: Arc<dyn Sink> = Arc::new(Everywhere(vec![
        Arc::clone(&context.sink),
        Arc::clone(&events),
        Arc::clone(&console) as Arc<dyn Sink>,
    ]));
    let pauses = Pauses::new(options, console, Arc::clone(&sink), context.cancel.clone())?;
    let request = Request {
        recipe,
        plan,
        output,
        accel: args.accel.into(),
        password,
        pauses: &pauses,
        layers: args.layers.into(),
        fresh: args.fresh,
        fingerprint: fingerprint(args, &opened, &builder)?,
        verify: !args.no_verify,
        epoch,
        store: &store,
        fetch,
        lock: opened.lock.as_ref(),
        remarks,
        recording: context.recording.clone(),
    };
    let built = engine::run(
        &request,
        &mut scratch,
        hypervisor.as_ref(),
        &sink,
        &context.cancel,
    );
    let recorded = built.and_then(|outcome| {
        let built = match outcome {
            Outcome::Unchanged => return Ok(None),
            Outcome::Built(built) => built,
        };
        let recording = record::built::Recording {
            recipe_path: &args.recipe.recipe,
            started,
            builder: &builder,
            signers: &signers,
        };
        let records = record::built::write(&request, &recording, &built, &context.cancel)?;
        if let Some(file) = request.lock {
            store.record_built_with(&file.lock.record())?;
        }
        if let Some(key) = &built.key {
            store.record_output(
                &request.output,
                key,
                &left(&request.output, &built, &records),
            )?;
        }
        Ok(Some((built, records)))
    });
    // The terminal is told by the caller; `events.jsonl` has to know it, too.
    match recorded.inspect_err(|error| events.emit(&Event::failed(error)))? {
        Some((built, records)) => summary(&request.output, &built, &records),
        None => print(&format!(
            "nothing changed: {} holds what this recipe makes\n",
            request.output.display()
        )),
    }
}

/// Of what decides the output beside the finished disk.
fn fingerprint(args: &cli::Build, opened: &recipe::Opened, builder: &str) -> Result<Digest> {
    let mut keys = Vec::new();
    for key in &args.sign.keys {
        keys.push(io::sha256(key)?.0);
    }
    let from_environment = std::env::var("WINIMG_SIGN_KEY").unwrap_or_default();
    keys.push(Digest::sha256_of(from_environment.as_bytes()));
    let lock = opened.lock.as_ref().map(LockFile::digest);
    Ok(Digest::of_json(&serde_json::json!({
        "format": 2,
        "tool": manifest::Tool::this(),
        "recipe": opened.recipe.digest,
        "path": args.recipe.recipe,
        "lock": lock,
        "lock_passed_over": args.lock.no_lock,
        "builder": builder,
        "keys": keys,
        "sign_command": args.sign.command,
        "verified": !args.no_verify,
        "source_date_epoch": std::env::var("SOURCE_DATE_EPOCH").ok(),
    })))
}

/// What the build left in its directory, by names in there.
fn left(output: &Path, built: &engine::Built, records: &[PathBuf]) -> Vec<PathBuf> {
    let artifacts = built.artifacts.iter().map(|a| PathBuf::from(&a.file));
    let records = records.iter().map(|r| r.strip_prefix(output).unwrap_or(r));
    artifacts.chain(records.map(Path::to_path_buf)).collect()
}

/// Where the build waits for a person. Nobody is asked where events are told as JSON.
fn options(args: &cli::Build, context: &Context) -> Options {
    Options {
        on_error: match args.on_error {
            cli::OnError::Cleanup => OnError::Cleanup,
            cli::OnError::Keep => OnError::Keep,
            cli::OnError::Ask => OnError::Ask,
        },
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

/// `events.jsonl` in the output directory.
fn events(output: &Path) -> Result<Arc<dyn Sink>> {
    let path = output.join("events.jsonl");
    let file = File::create(&path).map_err(|e| Error::io("write", &path, e))?;
    Ok(Arc::new(JsonLines::new(file)))
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
        let text = fs::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
        return Ok(Some(Secret::new(text.trim_end_matches(['\r', '\n']))));
    }
    let given = std::env::var("WINIMG_ADMIN_PASSWORD");
    Ok(given.ok().filter(|text| !text.is_empty()).map(Secret::new))
}

/// The artifacts' names and sizes: what a user copies from the end of a log.
fn summary(output: &Path, built: &engine::Built, records: &[PathBuf]) -> Result<()> {
    let mut text = format!("\n{}\n", output.display());
    let names = built.artifacts.iter().map(|a| a.file.len());
    let width = names.max().unwrap_or(0);
    for artifact in &built.artifacts {
        let size = indicatif::HumanBytes(artifact.bytes).to_string();
        text += &format!(
            "  {:<width$} {:>12}  {}\n",
            artifact.file, size, artifact.sha256
        );
    }
    for record in records {
        let record = record.strip_prefix(output).unwrap_or(record);
        text += &format!("  {}\n", record.display());
    }
    print(&text)
}
