//! `winimg matrix render`: the builds as the pipeline of an engine. Nothing is fetched, nothing is started.

use std::path::{Path, PathBuf};

use crate::cli;
use crate::matrix::pipeline::{self, Engine, File, Source};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_base::text::count;
use winimg_machine::vm::Platform;
use winimg_recipe::recipe::matrix::Pipeline;

use super::super::recipe::{self, Look};
use super::super::{Context, hypervisor, print};
use super::{Host, build, matrix, recipes, schedule};

pub fn run(args: &cli::MatrixRender, context: &Context) -> Result<()> {
    refuse_absolute(&args.file)?;
    let mut matrix = matrix(&args.file, context)?;
    let Some(pipeline) = matrix.pipeline.take() else {
        return Err(Error::new(Kind::Recipe, "the matrix has no [pipeline]")
            .at(args.file.display())
            .cure("write where its jobs run and what they share: docs/pipelines.md"));
    };
    let platform = platform(&pipeline, context)?;
    // Local files may be those of other machines.
    let look = Look::Files(Some(platform.is));
    let all = recipes(matrix, &args.file, Host::Other, look, context)?;
    for read in &all {
        hypervisor::fits(platform.is, &read.recipe, context)?;
    }
    let unlocked = all.iter().filter(|read| read.lock.is_none()).count();
    if unlocked > 0 {
        let file = args.file.display();
        context.sink.warn(format!(
            "{} without a lock: run `winimg matrix lock {file}` and commit {} before the pipeline runs",
            count(unlocked, "variant"),
            args.file.with_extension("locks").display()
        ));
    }
    let schedule = schedule(&all, args.engine.output(), platform.is)?;
    let source = Source {
        file: &args.file,
        pipeline: &pipeline,
        schedule: &schedule,
        names_machine: platform.is_named,
    };
    let complaints = pipeline::missing(args.engine, source);
    let is_whole = (!complaints.has_errors()).then_some(());
    recipe::report(is_whole, complaints, context)?;
    let files = pipeline::render(args.engine, source)?;
    match (&args.output, args.check) {
        (Some(folder), true) => check(folder, &files, &gone(folder, args, &files)),
        (Some(folder), false) => write(folder, &files, &gone(folder, args, &files)),
        (None, _) => show(args.engine, &files),
    }
}

/// What the machines of all jobs are.
struct Machines {
    is: Platform,
    /// Whether `arguments` say it.
    is_named: bool,
}

/// QEMU with KVM, unless the pipeline's own arguments say something else.
fn platform(pipeline: &Pipeline, context: &Context) -> Result<Machines> {
    let each = build::each(&pipeline.arguments);
    let each = each.map_err(|error| error.or_at("`arguments` of [pipeline]"))?;
    let named = each.hypervisor.hypervisor.is_some();
    let is = match named {
        true => hypervisor::platform(&each.hypervisor, context)?,
        // Not what this host is configured for.
        false => Platform::Qemu,
    };
    let is_named = named || each.accel.is_some();
    Ok(Machines { is, is_named })
}

/// A job's folder is another one.
fn refuse_absolute(file: &Path) -> Result<()> {
    if file.is_relative() {
        return Ok(());
    }
    let fact = "the matrix is named by an absolute path, which machines of a cluster do not have";
    Err(Error::new(Kind::Recipe, fact)
        .at(file.display())
        .cure("go to the top folder of the repository and name it from there"))
}

fn show(engine: Engine, files: &[File]) -> Result<()> {
    match files {
        [file] => print(&file.text),
        _ => {
            let fact = format!("the pipeline is {}", count(files.len(), "file"));
            let names = files.iter().map(|file| file.name.as_str());
            Err(Error::new(Kind::Recipe, fact)
                .at(format!("--engine {engine:?}").to_lowercase())
                .lines(names)
                .cure("give the folder to write them into with --output DIR"))
        }
    }
}

/// Files of a stage that the pipeline has no more, as an earlier run has written them.
fn gone(folder: &Path, args: &cli::MatrixRender, files: &[File]) -> Vec<PathBuf> {
    let names = pipeline::names(args.engine, &args.file).into_iter();
    let others = names.filter(|name| files.iter().all(|file| file.name != *name));
    let is_ours = |path: &PathBuf| {
        let text = io::read_text_limited(path, io::limit::TEXT).unwrap_or_default();
        text.starts_with(pipeline::HEADING)
    };
    let paths = others.map(|name| folder.join(name));
    paths.filter(is_ours).collect()
}

fn write(folder: &Path, files: &[File], gone: &[PathBuf]) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| Error::io("make", folder, e))?;
    for file in files {
        let path = folder.join(&file.name);
        io::write_atomically(&path, file.text.as_bytes())?;
        print(&format!("{}\n", path.display()))?;
    }
    for path in gone {
        std::fs::remove_file(path).map_err(|e| Error::io("remove", path, e))?;
        print(&format!("{}: removed\n", path.display()))?;
    }
    Ok(())
}

fn check(folder: &Path, files: &[File], gone: &[PathBuf]) -> Result<()> {
    let mut stale = Vec::new();
    for file in files {
        let path = folder.join(&file.name);
        match io::read_limited(&path, io::limit::TEXT) {
            Ok(there) if there == file.text.as_bytes() => {}
            Ok(_) => stale.push(format!("{}: it would change", path.display())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                stale.push(format!("{}: it is not there", path.display()));
            }
            Err(e) => return Err(Error::io("read", &path, e)),
        }
    }
    let gone = gone.iter();
    stale.extend(gone.map(|path| format!("{}: it would be removed", path.display())));
    if stale.is_empty() {
        return Ok(());
    }
    let fact = format!(
        "{} of the pipeline would change",
        count(stale.len(), "file")
    );
    Err(Error::new(Kind::Recipe, fact)
        .lines(stale)
        .cure("run `winimg matrix render` without --check, and commit what it writes"))
}
