//! `winimg matrix build`: every variant is a build of its own.

use std::io::IsTerminal as _;
use std::path::Path;

use clap::Parser as _;

use crate::cli::{self, Cli, Command};
use crate::doctor;
use crate::matrix::{Host, Schedule, State, Variant};
use winimg_base::diag::suggestion;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::{Event, Phase};
use winimg_base::text::{count, duration};

use super::super::documents::{MatrixBuilt, MatrixVariant, VariantState};
use super::super::inputs::table;
use super::super::recipe::Look;
use super::super::{Context, hypervisor, print, print_json};
use super::report;
use super::supervise::{self, Course, Job, Outcome, Told};
use super::{schedule, variants};

pub fn run(args: &cli::MatrixBuild, context: &Context) -> Result<()> {
    let each = each(&args.arguments)?;
    let platform = hypervisor::platform(&each.hypervisor, context)?;
    let all = variants(&args.matrix, Look::Build(platform), context)?;
    for read in &all {
        hypervisor::fits(platform, &read.recipe, context)?;
    }
    let schedule = schedule(&all, &args.matrix.output, platform)?;
    let states = selected(&args.only, &schedule)?;
    let jobs: Vec<Job> = schedule
        .variants
        .iter()
        .map(|v| job(v, args, context))
        .collect();
    let course = Course {
        schedule: &schedule,
        jobs: &jobs,
        host: host(args),
        keep_going: args.keep_going,
        cancel: &context.cancel,
    };
    // As the matrix has them, for the page.
    let names: Vec<String> = all.iter().map(|r| r.variant.name.value.clone()).collect();
    let mut tell = |index: usize, told: Told<'_>| {
        let is_end = matches!(told, Told::Ended(_));
        said(&schedule.variants[index].name, &jobs[index], told, context);
        if is_end {
            report::keep_current(&args.matrix, &names, context);
        }
    };
    let outcomes = supervise::run(&course, states, &mut tell)?;
    let built = documents(args, &schedule, &jobs, &outcomes);
    match args.json {
        true => print_json(&serde_json::json!(built))?,
        false => print(&summary(&built))?,
    }
    context.cancel.check()?;
    failure(&built, &outcomes).map_or(Ok(()), Err)
}

/// What stands after `--`, as `winimg build` takes it. What the matrix decides, and what needs a person, is refused.
pub(super) fn each(arguments: &[String]) -> Result<cli::Build> {
    let line = ["winimg", "build", "recipe.toml", "--log-format", "json"].map(String::from);
    let parsed = Cli::try_parse_from(line.into_iter().chain(arguments.iter().cloned()));
    let parsed = parsed.map_err(|error| {
        let text = error.to_string();
        let lines = text.lines().filter(|line| !line.is_empty());
        let lines: Vec<&str> = lines.take_while(|l| !l.starts_with("Usage")).collect();
        Error::new(Kind::Recipe, "`winimg build` does not take these arguments")
            .lines(lines)
            .cure("write arguments of `winimg build` after `--`, and no others")
    })?;
    let Command::Build(build) = parsed.command else {
        return Err(Error::failed("what was parsed is no build"));
    };
    let recipe = &build.recipe;
    let matrix = "write it into the matrix";
    let shared = "leave it out: variants share layers";
    let alone = "build the variant alone: `winimg matrix plan --json` has its arguments";
    let refused = [
        (
            "--output",
            build.output.is_some(),
            "give `--output` before the `--`: it is the folder of all",
        ),
        ("--json", build.json, "give `--json` before the `--`"),
        (
            "--lock",
            build.lock.lock.is_some(),
            "run `winimg matrix lock`",
        ),
        (
            "--no-lock",
            build.lock.no_lock,
            "remove the locks: variants without one are built without",
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
            build.layers == crate::engine::Layers::None,
            shared,
        ),
        ("--break", !build.breaks.is_empty(), alone),
        ("--debug", build.debug, alone),
    ];
    match refused.into_iter().find(|(_, given, _)| *given) {
        None => Ok(*build),
        Some((flag, _, cure)) => {
            let fact = format!("{flag} cannot be given to every build of a matrix");
            Err(Error::new(Kind::Recipe, fact).cure(cure))
        }
    }
}

/// Which are to be built.
fn selected(only: &[String], schedule: &Schedule) -> Result<Vec<State>> {
    let names: Vec<&str> = schedule.variants.iter().map(|v| v.name.as_str()).collect();
    if let Some(unknown) = only.iter().find(|name| !names.contains(&name.as_str())) {
        let fact = format!("the matrix has no variant `{unknown}`");
        let cure = suggestion(unknown, &names, "variants");
        return Err(Error::new(Kind::Recipe, fact).at("--only").cure(cure));
    }
    let state = |name: &str| match only.is_empty() || only.iter().any(|wanted| wanted == name) {
        true => State::Waiting,
        false => State::Left,
    };
    Ok(names.into_iter().map(state).collect())
}

fn job(variant: &Variant, args: &cli::MatrixBuild, context: &Context) -> Job {
    let mut arguments: Vec<String> = ["build", "--log-format", "json"].map(String::from).into();
    if let Some(config) = &context.config {
        arguments.extend(["--config".into(), config.to_string_lossy().into_owned()]);
    }
    arguments.extend(variant.arguments.iter().cloned());
    let matrix = args.matrix.file.to_string_lossy();
    arguments.extend(["--variant-of".into(), matrix.into_owned()]);
    arguments.extend(args.arguments.iter().cloned());
    Job {
        arguments,
        log: args.matrix.output.join(format!("{}.log", variant.name)),
    }
}

/// What is left for machines: `doctor` leaves the host as much.
fn host(args: &cli::MatrixBuild) -> Host {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    let memory = super::super::doctor::memory();
    Host {
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        memory: memory.map(|bytes| bytes.saturating_sub(doctor::HOST)),
        jobs: args.jobs.map(usize::from),
    }
}

/// One line for what happens to a variant; its phases only where somebody watches.
fn said(name: &str, job: &Job, told: Told<'_>, context: &Context) {
    let watched = context.prints_text && std::io::stderr().is_terminal();
    let text = match told {
        Told::Started => format!("{name}: starts, log in {}", job.log.display()),
        Told::Installed => format!("{name}: the installation is here"),
        Told::Said(Event::PhaseStarted { phase, .. }) if watched && *phase != Phase::Fetch => {
            format!("{name}: {phase} …")
        }
        Told::Said(_) => return,
        Told::Ended(outcome) if outcome.is_good() => format!("{name}: {}", ended_well(outcome)),
        Told::Ended(outcome) => {
            return context
                .sink
                .warn(format!("{name}: failed: {}", fact(outcome)));
        }
    };
    context.sink.note(text);
}

fn ended_well(outcome: &Outcome) -> String {
    match &outcome.last {
        Some(Event::Finished {
            unchanged: true, ..
        }) => "nothing changed".into(),
        _ => format!("built in {}", duration(outcome.seconds)),
    }
}

/// Why a build failed, in one sentence.
fn fact(outcome: &Outcome) -> String {
    match (&outcome.last, &outcome.stray, outcome.status) {
        (Some(Event::Failed { problem, .. }), ..) => problem.message.clone(),
        (_, Some(line), _) => line.clone(),
        (_, _, Some(status)) => format!("it ended with status {status}"),
        (_, _, None) => "a signal ended it".into(),
    }
}

fn documents(
    args: &cli::MatrixBuild,
    schedule: &Schedule,
    jobs: &[Job],
    outcomes: &[Option<Outcome>],
) -> MatrixBuilt {
    let each = schedule.variants.iter().zip(jobs).zip(outcomes);
    let variant = |((variant, job), outcome): ((&Variant, &Job), &Option<Outcome>)| {
        let finished = outcome.as_ref().and_then(|outcome| match &outcome.last {
            Some(Event::Finished {
                artifacts,
                unchanged,
                ..
            }) if outcome.is_good() => Some((artifacts.clone(), *unchanged)),
            _ => None,
        });
        let failed = outcome.as_ref().filter(|outcome| !outcome.is_good());
        let unchanged = finished.as_ref().is_some_and(|(_, unchanged)| *unchanged);
        MatrixVariant {
            name: variant.name.clone(),
            state: match outcome {
                None => VariantState::Left,
                Some(outcome) if !outcome.is_good() => VariantState::Failed,
                Some(_) if unchanged => VariantState::Unchanged,
                Some(_) => VariantState::Built,
            },
            status: outcome.as_ref().and_then(|outcome| outcome.status),
            error: failed.map(fact),
            seconds: outcome.as_ref().map(|outcome| outcome.seconds),
            output: args.matrix.output.join(&variant.name).display().to_string(),
            log: job.log.display().to_string(),
            artifacts: finished.map(|(artifacts, _)| artifacts).unwrap_or_default(),
        }
    };
    MatrixBuilt {
        variants: each.map(variant).collect(),
        page: report::page_path(&args.matrix).display().to_string(),
    }
}

fn summary(built: &MatrixBuilt) -> String {
    let row = |variant: &MatrixVariant| {
        let bytes = variant.artifacts.iter().map(|a| a.bytes).sum::<u64>();
        let size = match bytes {
            0 => "-".into(),
            bytes => indicatif::HumanBytes(bytes).to_string(),
        };
        vec![
            variant.name.clone(),
            variant.state.word().into(),
            variant.seconds.map_or_else(|| "-".into(), duration),
            size,
            variant.output.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = built.variants.iter().map(row).collect();
    let titles = ["variant", "state", "took", "size", "output"];
    format!("{}\n{}\n", table(&titles, &rows, &[2, 3]), built.page)
}

/// The failed ones, as one error of the kind of the first.
fn failure(built: &MatrixBuilt, outcomes: &[Option<Outcome>]) -> Option<Error> {
    let of = |state| built.variants.iter().filter(move |v| v.state == state);
    let number = of(VariantState::Failed).count();
    let first = outcomes
        .iter()
        .flatten()
        .find(|outcome| !outcome.is_good())?;
    let kind = match &first.last {
        Some(Event::Failed { kind, .. }) => *kind,
        _ => Kind::Failed,
    };
    let line = |v: &MatrixVariant| {
        let (name, why) = (&v.name, v.error.as_deref().unwrap_or_default());
        format!("{name}: {why} ({})", Path::new(&v.log).display())
    };
    let lines: Vec<String> = of(VariantState::Failed).map(line).collect();
    let left = of(VariantState::Left).count();
    let fact = format!(
        "{number} of {} failed",
        count(built.variants.len(), "variant")
    );
    let error = Error::new(kind, fact).lines(lines);
    Some(match left {
        0 => {
            error.cure("see report.html in their output folders; what is built is not built again")
        }
        left => {
            let left = count(left, "variant");
            let cure = "mend it and run the same again: what is built is not built again; --keep-going builds the others first";
            error.found(format!("{left} not built")).cure(cure)
        }
    })
}
