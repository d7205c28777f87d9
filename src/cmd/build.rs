//! `winimg build`: reads the recipe, builds the image and writes its records.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use url::Url;

use crate::answer;
use crate::build_report::{self, REPORT};
use crate::cli;
use crate::engine::console::BuildConsole;
use crate::engine::earlier;
use crate::engine::pause::{self, BuildPauses, PauseOptions};
use crate::engine::{self, BuildRequest, EngineOutcome, FinishedBuild, ScratchDirs};
use crate::record::sign::{SignOptions, Signers};
use crate::record::{self, BuildManifest, manifest};
use crate::report::{JsonLines, SinkGroup};
use crate::usage;
use winimg_base::digest::Digest;
use winimg_base::environment::read_variable;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Cancel, Event, FinishedArtifact, Sink};
use winimg_base::io;
use winimg_base::text::{Secret, column_width};
use winimg_machine::vm::{Hypervisor, HypervisorKind};
use winimg_supply::fetch::FetchOptions;
use winimg_supply::store::Store;

use super::recipe::RecipePurpose;
use super::{
    CommandContext, documents, hypervisor, print, print_json, recipe, shared_cache, signers,
    source, trial_runner,
};

pub fn run(args: &cli::BuildArgs, context: &CommandContext) -> Result<()> {
    let started = SystemTime::now();
    let ready = prepare(args, context)?;
    let (opened, store, hypervisor) = (&ready.opened, &ready.store, ready.hypervisor.as_ref());
    let (output, name) = (&ready.output, &opened.recipe.name.value);
    let cancel = &context.cancel;
    // Nothing is written before this; from here on the directory is exclusively ours.
    let mut scratch =
        ScratchDirs::create(output, hypervisor, store, context.sink.as_ref(), cancel)?;
    let events = open_events(output, args)?;
    let console = BuildConsole::open(scratch.run(), name, output)?;
    let sink: Arc<dyn Sink> = Arc::new(SinkGroup(vec![
        Arc::clone(&context.sink),
        Arc::clone(&events),
    ]));
    sink.emit(&Event::BuildStarted {
        name: name.clone(),
        line: context.recording.redact(&cli::quote_command_line()),
    });
    let options = pause_options(args, context);
    let pauses = BuildPauses::new(options, console, Arc::clone(&sink), cancel.clone())?;
    let request = BuildRequest {
        recipe: &opened.recipe,
        plan: &opened.plan,
        output: output.clone(),
        accel: hypervisor::choose_accel(args.accel, context),
        password: ready.password.clone(),
        pauses: &pauses,
        layers: args.layers,
        fresh: args.fresh,
        from_cache: args.from_cache,
        fingerprint: ready.fingerprint.clone(),
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
    let recording = record::writer::RecordContext {
        recipe_path: &args.recipe.recipe,
        started,
        builder: &ready.builder,
        signers: &ready.signers,
    };
    let built = engine::run(&request, &mut scratch, hypervisor);
    let concluded = built
        .and_then(|outcome| finish_build(args, &request, &recording, outcome, hypervisor, context))
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
    // Keep the report of the build that produced these files; a no-op build has nothing to add.
    if !unchanged || !output.join(REPORT).exists() {
        build_report::update(output, &context.recording, context.sink.as_ref());
    }
    concluded.map(|_| ())
}

/// Writes the records and prints the result. Returns the final event of the build.
fn finish_build(
    args: &cli::BuildArgs,
    request: &BuildRequest,
    recording: &record::writer::RecordContext,
    outcome: EngineOutcome,
    hypervisor: &dyn Hypervisor,
    context: &CommandContext,
) -> Result<Event> {
    let output = &request.output;
    let unchanged = matches!(outcome, EngineOutcome::Unchanged);
    let (artifacts, text) = match outcome {
        EngineOutcome::Unchanged => read_unchanged_output(output)?,
        EngineOutcome::Built(built) => {
            let mut manifest = record::writer::build_manifest(request, recording, &built);
            if args.tries {
                manifest.tries =
                    trial_runner::try_build(args, request, hypervisor, &manifest, context)?;
                manifest.finished = manifest::format_rfc3339(SystemTime::now());
            }
            let mut records = write_records(request, recording, &built, &manifest)?;
            let artifacts: Vec<FinishedArtifact> = built.artifacts.iter().map(Into::into).collect();
            // Written last: it shows how the build ended.
            records.push(output.join(REPORT));
            let text = render_summary(output, &artifacts, &records);
            (artifacts, text)
        }
    };
    let seconds = recording.started.elapsed().unwrap_or_default();
    let built = documents::BuildResult {
        recipe: request.recipe.name.value.clone(),
        output: output.display().to_string(),
        manifest: record::writer::MANIFEST.into(),
        unchanged,
        seconds: seconds.as_secs_f64(),
        artifacts,
    };
    if args.json {
        print_json(&serde_json::json!(built))?;
    } else {
        print(&text)?;
    }
    Ok(Event::Finished {
        output: built.output,
        artifacts: built.artifacts,
        seconds: built.seconds,
        unchanged,
    })
}

/// Returns the artifacts of an earlier build and the text of the result.
fn read_unchanged_output(output: &Path) -> Result<(Vec<FinishedArtifact>, String)> {
    let manifest = BuildManifest::read(&output.join(record::writer::MANIFEST))?;
    let text = format!(
        "nothing changed: {} is up to date with this recipe\n",
        output.display()
    );
    Ok((manifest.artifacts.iter().map(Into::into).collect(), text))
}

/// Prerequisites of a build, checked before anything is written.
struct BuildSetup {
    /// Hash of everything besides the disk that affects the output.
    fingerprint: Digest,
    opened: recipe::OpenedRecipe,
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

fn prepare(args: &cli::BuildArgs, context: &CommandContext) -> Result<BuildSetup> {
    source::require_file(&args.recipe, "build")?;
    let platform = hypervisor::choose_platform(&args.hypervisor, context)?;
    let look = RecipePurpose::Build(platform);
    let opened = recipe::open(&args.recipe, &args.lock, look, context)?;
    let configured = context.host.config.builder_id.as_deref();
    let builder = parse_builder(args.builder_id.as_deref().or(configured))?;
    let signing = signers::collect_options(&args.sign, context);
    let signers = Signers::open(&signing, &context.cancel)?;
    let mut fetch = opened.fetch_options(&args.network, context);
    fetch.shared = shared_cache::open_for_layers(&args.shared, fetch.offline, context)?;
    let fixed_epoch = signers::read_fixed_epoch()?;
    let epoch = fixed_epoch.unwrap_or_else(|| jiff::Timestamp::now().as_second());
    pause_options(args, context).check(&opened.plan)?;
    hypervisor::check_recipe(platform, &opened.recipe, context)?;
    let store = super::open_store(context)?;
    if args.tries {
        trial_runner::can_be_tried(&opened.recipe, platform)?;
    }
    let hypervisor = hypervisor::open(&args.hypervisor, &store, context)?;
    let needs = (&opened.recipe.machine).into();
    hypervisor.check_host(&needs, &context.cancel)?;
    let password = choose_password(
        args.admin_password_file.as_deref(),
        hypervisor.platform(),
        &store,
        fetch.shared.is_some(),
        &context.cancel,
    )?;
    let secrets = engine::collect_secrets(&opened.recipe, &password);
    context.recording.hide(secrets);
    opened.record_lock(&store)?;
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| Path::new("out").join(&opened.recipe.name.value));
    let output = std::path::absolute(&output).map_err(|e| Error::io("find", &output, e))?;
    let mut remarks = opened.remarks.clone();
    let age = opened.check_age(&store, Some(&output), args.allow_rollback, context)?;
    remarks.extend(age);
    let fingerprint = compute_fingerprint(args, &opened, &builder, &signing, fixed_epoch)?;
    Ok(BuildSetup {
        fingerprint,
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

/// Writes the records, stores the lock and output in the cache's state, and returns the records'
/// paths.
fn write_records(
    request: &BuildRequest,
    recording: &record::writer::RecordContext,
    built: &FinishedBuild,
    manifest: &BuildManifest,
) -> Result<Vec<PathBuf>> {
    let (store, output) = (request.store, &request.output);
    let mut records = record::writer::write_records(request, recording, manifest, request.cancel)?;
    records.extend(usage::write(output, built.usage.as_ref())?);
    records.extend(manifest.tries.iter().map(|tried| output.join(&tried.file)));
    if let Some(lock) = request.lock {
        store.record_built_with(&lock.lock.to_record())?;
    }
    if let Some(key) = &built.key {
        store.record_output(output, key, &list_files(output, built, &records))?;
    }
    if let Err(e) = earlier::remove(output) {
        let fact = e.problem().in_one_line();
        let text = format!("cannot remove the earlier image: {fact}");
        request.sink.warn(text);
    }
    let pages = manifest.tries.iter().map(|tried| output.join(&tried.file));
    records.extend(pages.map(|page| page.with_extension("html")));
    Ok(records)
}

/// Hash of everything besides the disk that affects the output. `epoch` is the time of the files,
/// if it is fixed.
fn compute_fingerprint(
    args: &cli::BuildArgs,
    opened: &recipe::OpenedRecipe,
    builder: &str,
    sign: &SignOptions,
    epoch: Option<i64>,
) -> Result<Digest> {
    let mut keys = Vec::new();
    for key in &sign.files {
        keys.push(io::compute_sha256(key)?.0);
    }
    let from_environment = sign.environment.as_ref().map_or("", Secret::expose);
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
        "source_date_epoch": epoch.map(|seconds| seconds.to_string()),
    })))
}

/// Returns the paths of the build's files, relative to its directory.
fn list_files(output: &Path, built: &FinishedBuild, records: &[PathBuf]) -> Vec<PathBuf> {
    let artifacts = built.artifacts.iter().map(|a| PathBuf::from(&a.file));
    let records = records.iter().map(|r| r.strip_prefix(output).unwrap_or(r));
    artifacts.chain(records.map(Path::to_path_buf)).collect()
}

/// Returns the pause options. With JSON events the build is not interactive.
fn pause_options(args: &cli::BuildArgs, context: &CommandContext) -> PauseOptions {
    PauseOptions {
        on_error: args.on_error,
        breaks: args.breaks.clone(),
        debug: args.debug,
        interactive: context.prints_text && pause::is_at_terminal(),
        keep_for: args.keep_for,
    }
}

/// Returns the builder's URI for the provenance.
fn parse_builder(given: Option<&str>) -> Result<String> {
    let Some(uri) = given.filter(|uri| !uri.is_empty()) else {
        return Ok(record::provenance::WORKSTATION.into());
    };
    match Url::parse(uri) {
        Ok(parsed) if parsed.username().is_empty() && parsed.password().is_none() => Ok(uri.into()),
        _ => Err(Error::new(
            Kind::Recipe,
            "the builder id must be a URI without credentials",
        )
        .at("--builder-id")
        .expected("such as https://ci.example.com/windows-images")),
    }
}

fn open_events(output: &Path, args: &cli::BuildArgs) -> Result<Arc<dyn Sink>> {
    let path = output.join("events.jsonl");
    let file = File::create(&path).map_err(|e| Error::io("write", &path, e))?;
    let started = Event::started("build", Some(&args.recipe.recipe));
    Ok(Arc::new(JsonLines::new(file, started)))
}

/// Returns the Administrator's password from the file, from the environment, or a random one. It is
/// only on the answer disc, except for guests that are reached by logging on: theirs is kept in the
/// store for VMs booted from its layers.
fn choose_password(
    file: Option<&Path>,
    platform: HypervisorKind,
    store: &Store,
    shares: bool,
    cancel: &Cancel,
) -> Result<Secret> {
    let password = match (read_password(file)?, platform.spec().kept_password) {
        (Some(given), _) => given,
        (None, None) => answer::generate_password()?,
        (None, Some(_)) if shares => {
            let fact = format!(
                "sharing layers of {platform} VMs needs a shared password, and none is set"
            );
            return Err(Error::new(Kind::Recipe, fact).at("--cache-remote").cure(
                "set the same password on every runner: \
                 --admin-password-file or WINIMG_ADMIN_PASSWORD",
            ));
        }
        (None, Some(name)) => store.kept_secret(name, answer::generate_password, cancel)?,
    };
    answer::check_password(&password)?;
    Ok(password)
}

fn read_password(file: Option<&Path>) -> Result<Option<Secret>> {
    if let Some(path) = file {
        let text =
            io::read_text_argument(path, io::limit::KEY).map_err(|e| Error::io("read", path, e))?;
        return Ok(Some(Secret::new(text.trim_end_matches(['\r', '\n']))));
    }
    Ok(read_variable("WINIMG_ADMIN_PASSWORD").map(Secret::new))
}

/// Renders the artifacts with size and digest, and the records.
fn render_summary(output: &Path, artifacts: &[FinishedArtifact], records: &[PathBuf]) -> String {
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
