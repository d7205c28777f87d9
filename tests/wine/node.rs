//! A recipe carried out on Wine by winimg's own parts: reader, planner, store, payload disc, agent client, engine.
//!
//! Of a build only what needs a machine is missing: Setup, the bootstrap that lays `payload.cmd` down, and the seal.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::tree;
use winimg::engine::run::{SettleReason, StepRecord, StepRunner};
use winimg::engine::{inputs, payload};
use winimg_base::error::Error;
use winimg_base::event::{Cancel, SilentSink, Sink};
use winimg_base::text::to_crlf;
use winimg_machine::guest::agent::{AgentGuest as Client, AgentHost, AgentPort};
use winimg_machine::guest::{Guest as _, GuestCommand};
use winimg_recipe::plan::{self, BuildPlan};
use winimg_recipe::{self as recipe, Recipe};
use winimg_supply::fetch::FetchOptions;
use winimg_supply::store::Store;

use crate::wine::agent::Agent;
use crate::wine::glib::Glib;
use crate::wine::prefix::{Look, Prefix, made};

/// For a machine with other things to do; a good run needs none of it.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Node {
    pub prefix: Arc<Prefix>,
    pub client: Client,
    work: tempfile::TempDir,
}

impl Node {
    pub fn new(glib: Glib) -> Self {
        let prefix = Arc::new(Prefix::new());
        let port = Arc::new(Mutex::new(AgentPort::default()));
        let stream = Agent::start(Arc::clone(&prefix), glib, Arc::clone(&port));
        let discs = Arc::clone(&prefix);
        let host = AgentHost {
            check: Box::new(|| Ok(())),
            port: Box::new(move || *port.lock().expect("lock")),
            discs: Box::new(move |iso| {
                discs.insert(iso);
                Ok(())
            }),
            on_contact: Box::new(|_| {}),
            now: Box::new(std::time::Instant::now),
        };
        let mut client = Client::new(stream, host, PATIENCE).expect("a client");
        assert!(
            client.try_open(PATIENCE).expect("a channel"),
            "the agent does not answer"
        );
        let work = tempfile::tempdir_in(made()).expect("a folder");
        Self {
            prefix,
            client,
            work,
        }
    }

    /// The steps' records as text, or the error as the user reads it.
    pub fn build(&mut self, name: &str, text: &str) -> Result<String, Error> {
        let (recipe, plan) = self.plan(name, text);
        self.carry_out(&recipe, &plan)
            .map(|records| rendered(&records))
    }

    /// The error of steps that fail, as the user reads it.
    pub fn build_error(&mut self, name: &str, text: &str) -> String {
        self.build(name, text).expect_err(name).to_string()
    }

    /// The error of a command that is not run.
    pub fn run_error(&mut self, command: &GuestCommand) -> String {
        let ran = self.client.run(command, &mut |_| {});
        ran.expect_err(&command.program).to_string()
    }

    pub fn plan(&self, name: &str, steps: &str) -> (Recipe, BuildPlan) {
        // A folder beside the recipe, for what is taken from one.
        support::media::driver(self.work.path(), "tree", "example");
        let programs = made().join("programs").display().to_string();
        let text = format!("{}{steps}", include_str!("recipes/head.toml"));
        self.read(name, &text, vec![("programs".into(), programs)])
    }

    /// A whole recipe, which may include the shipped packs.
    pub fn read(&self, name: &str, text: &str, vars: Vec<(String, String)>) -> (Recipe, BuildPlan) {
        let file = self.work.path().join(format!("{name}.toml"));
        std::fs::write(&file, text).expect("a recipe");
        let options = recipe::ReadOptions {
            search: vec![tree::root().join("recipes")],
            vars,
            ..Default::default()
        };
        let (recipe, complaints) = recipe::read(&file, &options);
        let recipe = recipe.unwrap_or_else(|| panic!("{}", complaints.render(false)));
        let plan =
            plan::make(&recipe).unwrap_or_else(|complaints| panic!("{}", complaints.render(false)));
        (recipe, plan)
    }

    pub fn carry_out(
        &mut self,
        recipe: &Recipe,
        plan: &BuildPlan,
    ) -> Result<Vec<StepRecord>, Error> {
        let sink: Arc<dyn Sink> = Arc::new(SilentSink);
        let (work, cancel) = (self.work.path(), Cancel::default());
        let store = Store::open(&work.join("store"))?;
        let inputs = inputs::fetch(&inputs::InputContext {
            recipe,
            plan,
            store: &store,
            options: &FetchOptions::default(),
            platform: winimg_machine::vm::HypervisorKind::Qemu,
            sink: &sink,
            cancel: &cancel,
        })?;
        let payload = payload::write(plan, 0, &inputs, work, 1_700_000_000, &cancel)?;
        self.bootstrap();
        let logs = work.join("logs");
        std::fs::create_dir_all(&logs).expect("a folder");
        let engine = StepRunner {
            plan,
            payload: &payload,
            logs: &logs,
            slowness: 1,
            sink,
            cancel,
            leaves_restarts: false,
        };
        engine.insert_payload(&mut self.client)?;
        let steps = plan.steps.iter().enumerate();
        steps
            .map(|(n, step)| {
                Ok(engine
                    .run_step(&mut self.client, n + 1, step, SettleReason::None)?
                    .record)
            })
            .collect()
    }

    /// What SetupComplete.cmd and its like leave for the steps.
    fn bootstrap(&self) {
        let folder = self.prefix.host(r"C:\winimg");
        std::fs::create_dir_all(&folder).expect("a folder");
        // Wine has no servicing that could be asked whether it is at rest.
        let at_rest = "@if \"%1\"==\"000-2\" exit /b 0\n";
        let script = include_str!("../../unattend/bootstrap/payload.cmd");
        let script = to_crlf(&format!("{at_rest}{script}"));
        std::fs::write(folder.join("payload.cmd"), script).expect("a script");
    }

    pub fn logs(&self) -> PathBuf {
        self.work.path().join("logs")
    }

    /// Carries the plan out twice. Gives the first run, what changed by it since `before`, and which codes differ the second
    /// time, which must not change anything.
    pub fn twice(&mut self, name: &str, steps: &str, before: &Look) -> String {
        let (recipe, plan) = self.plan(name, steps);
        let mut once = |which: &str| {
            let records = self.carry_out(&recipe, &plan);
            let records = records.unwrap_or_else(|e| panic!("{name}, {which} run: {e}"));
            (rendered(&records), self.prefix.look())
        };
        let (first_said, first) = once("first");
        let (second_said, second) = once("second");
        let again = second.since(&first);
        assert_eq!(again, "", "{name}: the second run changed this");
        let differs = first_said
            .lines()
            .zip(second_said.lines())
            .filter(|(a, b)| a != b);
        let differs: String = differs.map(|(_, b)| format!("{b}\n")).collect();
        format!(
            "{first_said}\nwhat changed\n{}\nthe second time\n{differs}",
            first.since(before)
        )
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.prefix.end();
    }
}

/// Each command with its code, as the manifest has them.
fn rendered(records: &[StepRecord]) -> String {
    let mut out = String::new();
    for record in records {
        out.push_str(&format!("{}: {}", record.verb, record.name));
        if record.reboots > 0 {
            out.push_str(&format!(", reboots: {}", record.reboots));
        }
        out.push('\n');
        for command in &record.commands {
            let code = command
                .exit_code
                .map_or_else(|| "gone".into(), |code| code.to_string());
            out.push_str(&format!("  {code:>4}  {}\n", command.line));
        }
    }
    out
}
