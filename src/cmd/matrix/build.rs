//! `winimg matrix build`: runs a separate build for each variant.

use std::io::IsTerminal as _;

use clap::Parser as _;

use crate::cli::{self, Cli, CliCommand};
use crate::doctor;
use crate::matrix::{HostResources, Schedule, ScheduledVariant, VariantProgress};
use winimg_base::diag::suggest;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Event, Phase};
use winimg_base::text::{count, format_duration};

use super::super::documents::{MatrixBuildResult, MatrixVariantResult, VariantState};
use super::super::recipe::RecipePurpose;
use super::super::{CommandContext, hypervisor, print, print_json};
use super::report;
use super::supervise::{self, BuildJob, BuildOutcome, BuildProgress, MatrixRun};
use super::{read_variants, schedule};
use crate::report::render_table;

pub fn run(args: &cli::MatrixBuildArgs, context: &CommandContext) -> Result<()> {
    let each = parse_build_arguments(&args.arguments)?;
    let platform = hypervisor::choose_platform(&each.hypervisor, context)?;
    let all = read_variants(&args.matrix, RecipePurpose::Build(platform), context)?;
    for read in &all {
        hypervisor::check_recipe(platform, &read.recipe, context)?;
    }
    let schedule = schedule(&all, &args.matrix.output, platform)?;
    let states = select_variants(&args.only, &schedule)?;
    let jobs: Vec<BuildJob> = schedule
        .variants
        .iter()
        .map(|v| create_job(v, args, context))
        .collect();
    let course = MatrixRun {
        schedule: &schedule,
        jobs: &jobs,
        host: measure_host(args),
        keep_going: args.keep_going,
        cancel: &context.cancel,
    };
    // In the matrix's order, for the page.
    let names: Vec<String> = all.iter().map(|r| r.variant.name.value.clone()).collect();
    let outcomes = supervise::run(
        &course,
        states,
        &mut |index: usize, told: BuildProgress<'_>| {
            let is_end = matches!(told, BuildProgress::Ended(_));
            report_progress(&schedule.variants[index].name, &jobs[index], told, context);
            if is_end {
                report::update_page(&args.matrix, &names, context);
            }
        },
    )?;
    let built = collect_results(args, &schedule, &jobs, &outcomes);
    if args.json {
        print_json(&serde_json::json!(built))?;
    } else {
        print(&render_summary(&built))?;
    }
    context.cancel.check()?;
    merge_failures(&built, &outcomes).map_or(Ok(()), Err)
}

/// Parses the arguments after `--` as those of `winimg build`. Rejects flags that the matrix
/// decides and those that need a person.
pub(super) fn parse_build_arguments(arguments: &[String]) -> Result<cli::BuildArgs> {
    let line = ["winimg", "build", "recipe.toml", "--log-format", "json"].map(String::from);
    let parsed = Cli::try_parse_from(line.into_iter().chain(arguments.iter().cloned()));
    let parsed = parsed.map_err(|error| {
        let text = error.to_string();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.is_empty())
            .take_while(|line| !line.starts_with("Usage"))
            .collect();
        Error::new(
            Kind::Recipe,
            "`winimg build` does not accept these arguments",
        )
        .lines(lines)
        .cure("put only arguments of `winimg build` after `--`")
    })?;
    let CliCommand::Build(build) = parsed.command else {
        return Err(Error::failed("the parsed command is not a build"));
    };
    let recipe = &build.recipe;
    let matrix = "set it in the matrix";
    let shared = "omit it: variants share layers";
    let alone = "build the variant separately: `winimg matrix plan --json` prints its arguments";
    let refused = [
        (
            "--output",
            build.output.is_some(),
            "put `--output` before `--`: it is the parent folder of all outputs",
        ),
        ("--json", build.json, "put `--json` before `--`"),
        (
            "--lock",
            build.lock.lock.is_some(),
            "run `winimg matrix lock`",
        ),
        (
            "--no-lock",
            build.lock.no_lock,
            "remove the lock files to build without locks",
        ),
        ("--var", !recipe.vars.is_empty(), matrix),
        ("--var-file", !recipe.var_files.is_empty(), matrix),
        (
            "--image-builder-vars",
            !recipe.image_builder_vars.is_empty(),
            matrix,
        ),
        ("--set", !recipe.set.is_empty(), matrix),
        ("--fresh", build.fresh, shared),
        (
            "--layers none",
            build.layers == crate::engine::LayerPolicy::None,
            shared,
        ),
        ("--break", !build.breaks.is_empty(), alone),
        ("--debug", build.debug, alone),
    ];
    match refused.into_iter().find(|(_, given, _)| *given) {
        None => Ok(*build),
        Some((flag, _, cure)) => {
            let fact = format!("{flag} cannot be used for every build of a matrix");
            Err(Error::new(Kind::Recipe, fact).cure(cure))
        }
    }
}

/// Returns the initial states: variants that `--only` does not name are left out.
fn select_variants(only: &[String], schedule: &Schedule) -> Result<Vec<VariantProgress>> {
    let names: Vec<&str> = schedule.variants.iter().map(|v| v.name.as_str()).collect();
    if let Some(unknown) = only.iter().find(|name| !names.contains(&name.as_str())) {
        let fact = format!("the matrix has no variant `{unknown}`");
        let cure = suggest(unknown, &names, "variants");
        return Err(Error::new(Kind::Recipe, fact).at("--only").cure(cure));
    }
    Ok(names
        .into_iter()
        .map(|name| {
            if only.is_empty() || only.iter().any(|wanted| wanted == name) {
                VariantProgress::Waiting
            } else {
                VariantProgress::Left
            }
        })
        .collect())
}

fn create_job(
    variant: &ScheduledVariant,
    args: &cli::MatrixBuildArgs,
    context: &CommandContext,
) -> BuildJob {
    let mut arguments: Vec<String> = ["build", "--log-format", "json"].map(String::from).into();
    if let Some(config) = &context.config {
        arguments.extend(["--config".into(), config.to_string_lossy().into_owned()]);
    }
    arguments.extend(variant.arguments.iter().cloned());
    let matrix = args.matrix.file.to_string_lossy();
    arguments.extend(["--variant-of".into(), matrix.into_owned()]);
    arguments.extend(args.arguments.iter().cloned());
    BuildJob {
        arguments,
        log: args.matrix.output.join(format!("{}.log", variant.name)),
    }
}

/// Returns the resources for VMs; like `doctor`, reserves memory for the host.
fn measure_host(args: &cli::MatrixBuildArgs) -> HostResources {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    let memory = super::super::doctor::read_memory();
    HostResources {
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        memory: memory.map(|bytes| bytes.saturating_sub(doctor::HOST)),
        jobs: args.jobs.map(usize::from),
    }
}

/// Prints a line about a variant's progress; its phases only on a terminal.
fn report_progress(name: &str, job: &BuildJob, told: BuildProgress<'_>, context: &CommandContext) {
    let watched = context.prints_text && std::io::stderr().is_terminal();
    let text = match told {
        BuildProgress::Started => format!("{name}: started, log in {}", job.log.display()),
        BuildProgress::Installed => format!("{name}: Windows is installed"),
        BuildProgress::Event(Event::PhaseStarted { phase, .. })
            if watched && *phase != Phase::Fetch =>
        {
            format!("{name}: {phase} …")
        }
        BuildProgress::Event(_) => return,
        BuildProgress::Ended(outcome) if outcome.is_good() => {
            format!("{name}: {}", describe_success(outcome))
        }
        BuildProgress::Ended(outcome) => {
            return context
                .sink
                .warn(format!("{name}: failed: {}", describe_failure(outcome)));
        }
    };
    context.sink.note(text);
}

fn describe_success(outcome: &BuildOutcome) -> String {
    match &outcome.last {
        Some(Event::Finished {
            unchanged: true, ..
        }) => "nothing changed".into(),
        _ => format!("built in {}", format_duration(outcome.seconds)),
    }
}

/// Returns the reason of a failure, in one sentence.
fn describe_failure(outcome: &BuildOutcome) -> String {
    match (&outcome.last, &outcome.stray, outcome.status) {
        (Some(Event::Failed { problem, .. }), ..) => problem.message.clone(),
        (_, Some(line), _) => line.clone(),
        (_, _, Some(status)) => format!("it exited with status {status}"),
        (_, _, None) => "it was killed by a signal".into(),
    }
}

fn collect_results(
    args: &cli::MatrixBuildArgs,
    schedule: &Schedule,
    jobs: &[BuildJob],
    outcomes: &[Option<BuildOutcome>],
) -> MatrixBuildResult {
    MatrixBuildResult {
        variants: schedule
            .variants
            .iter()
            .zip(jobs)
            .zip(outcomes)
            .map(|((variant, job), outcome)| collect_result(args, variant, job, outcome.as_ref()))
            .collect(),
        page: report::page_path(&args.matrix).display().to_string(),
    }
}

fn collect_result(
    args: &cli::MatrixBuildArgs,
    variant: &ScheduledVariant,
    job: &BuildJob,
    outcome: Option<&BuildOutcome>,
) -> MatrixVariantResult {
    let finished = outcome.and_then(|outcome| match &outcome.last {
        Some(Event::Finished {
            artifacts,
            unchanged,
            ..
        }) if outcome.is_good() => Some((artifacts.clone(), *unchanged)),
        _ => None,
    });
    let unchanged = finished.as_ref().is_some_and(|(_, unchanged)| *unchanged);
    MatrixVariantResult {
        name: variant.name.clone(),
        state: match outcome {
            None => VariantState::Left,
            Some(outcome) if !outcome.is_good() => VariantState::Failed,
            Some(_) if unchanged => VariantState::Unchanged,
            Some(_) => VariantState::Built,
        },
        status: outcome.and_then(|outcome| outcome.status),
        error: outcome
            .filter(|outcome| !outcome.is_good())
            .map(describe_failure),
        seconds: outcome.map(|outcome| outcome.seconds),
        output: args.matrix.output.join(&variant.name).display().to_string(),
        log: job.log.display().to_string(),
        artifacts: finished.map(|(artifacts, _)| artifacts).unwrap_or_default(),
    }
}

fn render_summary(built: &MatrixBuildResult) -> String {
    let rows: Vec<Vec<String>> = built
        .variants
        .iter()
        .map(|variant| {
            let bytes = variant.artifacts.iter().map(|a| a.bytes).sum::<u64>();
            let size = match bytes {
                0 => "-".into(),
                bytes => indicatif::HumanBytes(bytes).to_string(),
            };
            vec![
                variant.name.clone(),
                variant.state.describe().into(),
                variant.seconds.map_or_else(|| "-".into(), format_duration),
                size,
                variant.output.clone(),
            ]
        })
        .collect();
    let titles = ["variant", "state", "took", "size", "output"];
    format!(
        "{}\n{}\n",
        render_table(&titles, &rows, &[2, 3]),
        built.page
    )
}

/// Combines the failures into one error of the first one's kind.
fn merge_failures(built: &MatrixBuildResult, outcomes: &[Option<BuildOutcome>]) -> Option<Error> {
    let first = outcomes
        .iter()
        .flatten()
        .find(|outcome| !outcome.is_good())?;
    let kind = match &first.last {
        Some(Event::Failed { kind, .. }) => *kind,
        _ => Kind::Failed,
    };
    let lines: Vec<String> = built
        .variants
        .iter()
        .filter(|v| v.state == VariantState::Failed)
        .map(|v| {
            let why = v.error.as_deref().unwrap_or_default();
            format!("{}: {why} ({})", v.name, v.log)
        })
        .collect();
    let left = built
        .variants
        .iter()
        .filter(|v| v.state == VariantState::Left)
        .count();
    let fact = format!(
        "{} of {} failed",
        lines.len(),
        count(built.variants.len(), "variant")
    );
    let error = Error::new(kind, fact).lines(lines);
    Some(match left {
        0 => error.cure("see report.html in their output folders; a rerun skips finished variants"),
        left => {
            let left = count(left, "variant");
            let cure = "fix it and rerun; finished variants are skipped, \
                        and --keep-going builds the others first";
            error.found(format!("{left} not built")).cure(cure)
        }
    })
}
