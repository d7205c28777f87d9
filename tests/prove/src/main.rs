//! `prove`: runs winimg on a Windows medium, judges what it saw, and writes a proof; `make prove` starts it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use prove::cluster::Cluster;
use prove::join::Join;
use prove::ledger::Ledger;
use prove::proof::{Outcome, Proof, Row};
use prove::run::{self, Options};
use prove::{enter, page};
use signal_hook::consts::{SIGINT, SIGTERM};
use winimg::record::sign;
use winimg_base::event::Cancel;
use winimg_base::text::Secret;

/// Proves lines of docs/fidelity.toml on a Windows medium.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build, verify and try images from a medium, and write OUTPUT/BUILD.json and its page
    ///
    /// Ends with 1 where a row failed or a claim did not hold. Run again, it does what is not done yet.
    Run(Box<Run>),
    /// Write the page of a proof again
    Page {
        /// BUILD.json
        proof: PathBuf,
    },
    /// Write a proof into docs/fidelity.toml; refused where the medium is not known to be Microsoft's
    Enter {
        /// BUILD.json
        proof: PathBuf,
        /// Where the proof can be found, if not there
        #[arg(long, value_name = "ADDRESS")]
        record: Option<String>,
    },
}

#[derive(Args)]
struct Run {
    /// The Windows ISO
    #[arg(long)]
    iso: PathBuf,
    /// The virtio-win ISO, for QEMU
    #[arg(long)]
    virtio: Option<PathBuf>,
    #[arg(long, short, default_value = "proof")]
    output: PathBuf,
    /// Rows by name, or by a part of their names; all without
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// A recipe that every row includes last: other sources, digests, signers
    #[arg(long, value_name = "FILE")]
    with: Option<PathBuf>,
    /// Set a variable in each build
    #[arg(long = "var", value_name = "NAME=VALUE")]
    vars: Vec<String>,
    /// Override a value in each build
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    #[arg(long, default_value = if cfg!(windows) { "hyperv" } else { "qemu" }, value_parser = ["qemu", "hyperv"])]
    hypervisor: String,
    /// Accelerator, as for `winimg build`; without one a host of Linux has to have KVM
    #[arg(long)]
    accel: Option<String>,
    /// How long nothing may move on a clone until it counts as settled
    #[arg(long)]
    settle: Option<String>,
    /// File with what `kubeadm token create --print-join-command` prints: clones of node images join that cluster
    #[arg(long, value_name = "FILE", requires = "kubeconfig")]
    join: Option<PathBuf>,
    /// File by which kubectl asks that cluster for its nodes, and deletes those of clones
    #[arg(long, value_name = "FILE", requires = "join")]
    kubeconfig: Option<PathBuf>,
    /// Keep the artifacts and layers of rows that ended well
    #[arg(long)]
    keep: bool,
    /// The winimg to prove; the one beside this program without
    #[arg(long)]
    winimg: Option<PathBuf>,
    /// Secret key that signs the proof, as for `winimg sign`; WINIMG_SIGN_KEY holds one, too
    #[arg(long = "sign-key", value_name = "FILE")]
    keys: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(args) => proved(*args),
        Command::Page { proof } => paged(&proof),
        Command::Enter { proof, record } => entered(&proof, record),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The top of the source tree that this program was built from.
fn tree() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("tests/prove is two below")
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn ledger() -> Result<Ledger, String> {
    let path = tree().join("docs/fidelity.toml");
    Ledger::read(&read(&path)?).map_err(|e| format!("{}: {e}", path.display()))
}

fn proof(path: &Path) -> Result<Proof, String> {
    serde_json::from_str(&read(path)?).map_err(|e| format!("{}: {e}", path.display()))
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn proved(args: Run) -> Result<bool, String> {
    let beside = || {
        let own = std::env::current_exe().map_err(|e| e.to_string())?;
        Ok::<_, String>(own.with_file_name(format!("winimg{}", std::env::consts::EXE_SUFFIX)))
    };
    let cancel = Cancel::default();
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, cancel.flag()).map_err(|e| e.to_string())?;
    }
    let output = absolute(&args.output)?;
    let cluster = cluster(&args, &output)?;
    let options = Options {
        winimg: args.winimg.map_or_else(beside, |path| absolute(&path))?,
        tree: tree().to_owned(),
        iso: absolute(&args.iso)?,
        virtio: args.virtio.as_deref().map(absolute).transpose()?,
        output,
        cluster,
        with: args.with.as_deref().map(absolute).transpose()?,
        vars: args.vars,
        sets: args.sets,
        words: args.rows,
        hypervisor: args.hypervisor,
        accel: args.accel,
        settle: args.settle,
        keep: args.keep,
        cancel: cancel.clone(),
    };
    // Before anything is started: a key that signs nothing is seen at once.
    let signers = signers(args.keys)?;
    let ledger = ledger()?;
    let proof = run::run(&options, &ledger)?;
    let file = options.output.join(format!("{}.json", proof.build()));
    signed(&signers, &file)?;
    let failed = proof
        .verdicts
        .iter()
        .filter(|verdict| verdict.outcome == Outcome::Failed);
    let failed = failed.count();
    if !proof.is_windows() {
        println!("This was no Windows: nothing shows that the medium is Microsoft's.");
    }
    println!("{}", file.with_extension("html").display());
    let is_whole = proof.rows.iter().all(Row::is_good);
    Ok(is_whole && failed == 0)
}

/// The control plane that was given.
fn cluster(args: &Run, output: &Path) -> Result<Option<Cluster>, String> {
    let (Some(join), Some(kubeconfig)) = (&args.join, &args.kubeconfig) else {
        return Ok(None);
    };
    let parsed = Join::parse(&read(join)?).map_err(|e| format!("{}: {e}", join.display()))?;
    Ok(Some(Cluster {
        join: parsed,
        kubeconfig: absolute(kubeconfig)?,
        kubectl: "kubectl".into(),
        folder: output.join("work"),
    }))
}

fn signers(files: Vec<PathBuf>) -> Result<sign::Signers, String> {
    let secret = |name| {
        std::env::var(name)
            .ok()
            .filter(|value| !value.trim().is_empty())
            .map(Secret::new)
    };
    let options = sign::SignOptions {
        files,
        environment: secret("WINIMG_SIGN_KEY"),
        password: secret("WINIMG_SIGN_PASSWORD"),
        command: None,
        public_key: None,
    };
    sign::Signers::open(&options, &Cancel::default()).map_err(|e| e.to_string())
}

/// Signatures beside the proof, as those that `winimg sign` writes beside a lock.
fn signed(signers: &sign::Signers, file: &Path) -> Result<(), String> {
    let beside = |suffix: &str| PathBuf::from(format!("{}{suffix}", file.display()));
    if signers.is_empty() {
        return Ok(());
    }
    let bytes = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let comment = format!("file:{name}\thashed");
    let made = signers
        .sign_one(&bytes, &comment, &Cancel::default())
        .map_err(|e| e.to_string())?;
    for (suffix, content) in made {
        let path = beside(suffix);
        std::fs::write(&path, content).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

fn paged(path: &Path) -> Result<bool, String> {
    let html = page::page(&proof(path)?, &ledger()?);
    let to = path.with_extension("html");
    std::fs::write(&to, html).map_err(|e| format!("{}: {e}", to.display()))?;
    println!("{}", to.display());
    Ok(true)
}

fn entered(path: &Path, record: Option<String>) -> Result<bool, String> {
    let file = tree().join("docs/fidelity.toml");
    let record = record.unwrap_or_else(|| path.display().to_string());
    let text = enter::entered(&read(&file)?, &proof(path)?, &record)?;
    std::fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
    println!(
        "INSTA_UPDATE=always cargo test -p winimg-prove writes the tables of docs/fidelity.md"
    );
    Ok(true)
}
