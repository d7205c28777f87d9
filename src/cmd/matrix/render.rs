//! `winimg matrix render`: renders the builds as a pipeline. Downloads nothing and starts no VM.

use std::path::{Path, PathBuf};

use crate::cli;
use crate::matrix::pipeline::{self, PipelineEngine, PipelineFile, PipelineSource};
use winimg_base::error::{Error, Kind, Result};
use winimg_base::io;
use winimg_base::text::count;
use winimg_machine::vm::HypervisorKind;
use winimg_recipe::matrix::Pipeline;

use super::super::recipe::{self, RecipePurpose};
use super::super::{CommandContext, hypervisor, print};
use super::{VariantHost, build, read_matrix, read_recipes, schedule};

pub fn run(args: &cli::MatrixRenderArgs, context: &CommandContext) -> Result<()> {
    refuse_absolute(&args.file)?;
    let mut matrix = read_matrix(&args.file, context)?;
    let Some(pipeline) = matrix.pipeline.take() else {
        return Err(Error::new(Kind::Recipe, "the matrix has no [pipeline]")
            .at(args.file.display())
            .cure("add a [pipeline] table (docs/pipelines.md)"));
    };
    let platform = choose_platform(&pipeline, context)?;
    // Local files may be on the machines that run the jobs.
    let look = RecipePurpose::Files(Some(platform.is));
    let all = read_recipes(matrix, &args.file, VariantHost::Other, look, context)?;
    for read in &all {
        hypervisor::check_recipe(platform.is, &read.recipe, context)?;
    }
    let unlocked = all.iter().filter(|read| read.lock.is_none()).count();
    if unlocked > 0 {
        let file = args.file.display();
        context.sink.warn(format!(
            "{} without a lock: run `winimg matrix lock {file}` and commit {} \
             before running the pipeline",
            count(unlocked, "variant"),
            args.file.with_extension("locks").display()
        ));
    }
    let schedule = schedule(&all, args.engine.output(), platform.is)?;
    let source = PipelineSource {
        file: &args.file,
        pipeline: &pipeline,
        schedule: &schedule,
        names_machine: platform.is_named,
    };
    let complaints = pipeline::check_settings(args.engine, source);
    let is_whole = (!complaints.has_errors()).then_some(());
    recipe::report(is_whole, complaints, context)?;
    let files = pipeline::render(args.engine, source)?;
    match (&args.output, args.check) {
        (Some(folder), true) => check(folder, &files, &find_stale(folder, args, &files)),
        (Some(folder), false) => write(folder, &files, &find_stale(folder, args, &files)),
        (None, _) => show(args.engine, &files),
    }
}

/// Platform of all jobs.
struct PipelinePlatform {
    is: HypervisorKind,
    /// True if `arguments` set it.
    is_named: bool,
}

/// Returns the platform that the pipeline's arguments set, by default QEMU with KVM.
fn choose_platform(pipeline: &Pipeline, context: &CommandContext) -> Result<PipelinePlatform> {
    let each = build::parse_build_arguments(&pipeline.arguments)
        .map_err(|error| error.or_at("`arguments` of [pipeline]"))?;
    let named = each.hypervisor.hypervisor.is_some();
    let is = if named {
        hypervisor::choose_platform(&each.hypervisor, context)?
    } else {
        // Ignores this host's configuration.
        HypervisorKind::Qemu
    };
    let is_named = named || each.accel.is_some();
    Ok(PipelinePlatform { is, is_named })
}

/// Rejects an absolute path: jobs run in a different folder.
fn refuse_absolute(file: &Path) -> Result<()> {
    if file.is_relative() {
        return Ok(());
    }
    let fact = "the matrix has an absolute path, which the machines of the jobs do not have";
    Err(Error::new(Kind::Recipe, fact)
        .at(file.display())
        .cure("run this in the repository's top folder with a relative path"))
}

fn show(engine: &PipelineEngine, files: &[PipelineFile]) -> Result<()> {
    match files {
        [file] => print(&file.text),
        _ => {
            let fact = format!("the pipeline has {}", count(files.len(), "file"));
            let names = files.iter().map(|file| file.name.as_str());
            Err(Error::new(Kind::Recipe, fact)
                .at(format!("--engine {}", engine.id))
                .lines(names)
                .cure("write them into a folder with --output DIR"))
        }
    }
}

/// Returns files of removed stages that an earlier run has written.
fn find_stale(folder: &Path, args: &cli::MatrixRenderArgs, files: &[PipelineFile]) -> Vec<PathBuf> {
    pipeline::list_names(args.engine, &args.file)
        .into_iter()
        .filter(|name| files.iter().all(|file| file.name != *name))
        .map(|name| folder.join(name))
        .filter(|path| {
            io::read_text_limited(path, io::limit::TEXT)
                .is_ok_and(|text| text.starts_with(pipeline::HEADING))
        })
        .collect()
}

fn write(folder: &Path, files: &[PipelineFile], gone: &[PathBuf]) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
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

fn check(folder: &Path, files: &[PipelineFile], gone: &[PathBuf]) -> Result<()> {
    let mut stale = Vec::new();
    for file in files {
        let path = folder.join(&file.name);
        match io::read_limited(&path, io::limit::TEXT) {
            Ok(there) if there == file.text.as_bytes() => {}
            Ok(_) => stale.push(format!("{}: would change", path.display())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                stale.push(format!("{}: does not exist", path.display()));
            }
            Err(e) => return Err(Error::io("read", &path, e)),
        }
    }
    stale.extend(
        gone.iter()
            .map(|path| format!("{}: would be removed", path.display())),
    );
    if stale.is_empty() {
        return Ok(());
    }
    let fact = format!(
        "{} of the pipeline would change",
        count(stale.len(), "file")
    );
    Err(Error::new(Kind::Recipe, fact)
        .lines(stale)
        .cure("run `winimg matrix render` without --check, and commit the files"))
}
