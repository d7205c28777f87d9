//! `host.ps1`: what it takes, what it keeps, what it answers.

mod clock;
mod scripts;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::calls;
use crate::cmdlets::{self, Context};
use crate::config::{Config, Deed, Fault};
use crate::engine::{Power, SessionError};
use crate::object::{Object, Thing};
use crate::refusal::Refusal;
use crate::state::Held;
use crate::syntax::{self, Argument, Bound};
use crate::{fault, trace};

/// A line from winimg.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    pub id: u64,
    pub call: String,
    #[serde(default)]
    with: Map<String, Value>,
    #[serde(default)]
    select: Vec<String>,
    keep: Option<String>,
}

/// How a request ends.
pub struct Answer {
    pub outcome: Result<Vec<Value>, Refusal>,
    /// Faults of the process itself.
    pub faults: Vec<Fault>,
}

struct Session {
    vm: String,
    broken: bool,
}

pub struct Host {
    config: Config,
    /// Where `host.ps1` and the other scripts lie.
    scripts: PathBuf,
    kept: BTreeMap<String, Vec<Object>>,
    sessions: Vec<Session>,
    owned: String,
}

impl Host {
    pub fn new(config: Config, scripts: PathBuf) -> Self {
        Self {
            config,
            scripts,
            kept: BTreeMap::new(),
            sessions: Vec::new(),
            owned: String::new(),
        }
    }

    /// What a parameter is given.
    fn argument(&self, value: &Value) -> Result<Argument, Refusal> {
        Ok(match value {
            Value::Null => Argument::Null,
            Value::Bool(on) => Argument::Flag(*on),
            Value::Number(n) => match (n.as_i64(), n.as_u64()) {
                (Some(n), _) => Argument::Number(n.into()),
                (_, Some(n)) => Argument::Number(n.into()),
                _ => return Err(Refusal::stand_in(format!("{n} is no whole number"))),
            },
            Value::String(text) => Argument::Text(text.clone()),
            Value::Array(all) => Argument::List(
                all.iter()
                    .map(|v| self.argument(v))
                    .collect::<Result<_, _>>()?,
            ),
            Value::Object(map) => return self.special(map),
        })
    }

    fn special(&self, map: &Map<String, Value>) -> Result<Argument, Refusal> {
        match (map.len(), map.get("$kept"), map.get("$script")) {
            (1, Some(Value::String(name)), _) => self.of_kept(name),
            (1, Some(Value::Array(names)), _) => {
                let names = names.iter().filter_map(Value::as_str);
                Ok(Argument::List(
                    names.map(|n| self.of_kept(n)).collect::<Result<_, _>>()?,
                ))
            }
            (1, _, Some(Value::String(name))) => {
                let file = self.scripts.join(format!("{name}.ps1"));
                if !calls::GUEST_SCRIPTS.contains(&name.as_str()) || !file.is_file() {
                    return Err(Refusal::stand_in(format!(
                        "no guest script {name} beside host.ps1"
                    )));
                }
                Ok(Argument::Script(name.clone()))
            }
            _ => Err(Refusal::stand_in("an object is no parameter")),
        }
    }

    fn of_kept(&self, name: &str) -> Result<Argument, Refusal> {
        let kept = self.kept.get(name).and_then(|all| all.first());
        match kept {
            Some(object) => Ok(Argument::Kept(name.into(), object.thing.clone())),
            None => Err(Refusal::stand_in(format!(
                "nothing is kept under the name {name}"
            ))),
        }
    }

    pub fn answer(&mut self, request: &Request) -> Answer {
        let mut faults = Vec::new();
        let outcome = self.outcome(request, &mut faults);
        if let Err(refusal) = &outcome {
            let first = refusal.message.lines().next().unwrap_or_default();
            trace::write(self.config.trace.as_deref(), &format!("    {first}"));
        }
        Answer { outcome, faults }
    }

    fn outcome(
        &mut self,
        request: &Request,
        faults: &mut Vec<Fault>,
    ) -> Result<Vec<Value>, Refusal> {
        let given: Vec<(String, Argument)> = request
            .with
            .iter()
            .map(|(name, value)| Ok((name.clone(), self.argument(value)?)))
            .collect::<Result<_, Refusal>>()?;
        let line = trace::line(&request.call, &given, request.keep.as_deref());
        trace::write(self.config.trace.as_deref(), &line);
        let config = self.config.clone();
        let mut held = Held::take(&config.state).map_err(Refusal::stand_in)?;
        let mut context = Context {
            config: &config,
            held: &mut held,
        };
        let objects = self.call(&mut context, &request.call, &given, &line, faults);
        held.save().map_err(Refusal::stand_in)?;
        drop(held);
        let objects = objects?;
        if let Some(name) = &request.keep {
            if objects.len() != 1 {
                let text = format!(
                    "one object is to be kept as {name}, but there are {}",
                    objects.len()
                );
                return Err(Refusal::stand_in(text));
            }
            self.kept.insert(name.clone(), objects.clone());
        }
        objects.iter().map(|o| o.select(&request.select)).collect()
    }

    fn call(
        &mut self,
        context: &mut Context<'_>,
        call: &str,
        given: &[(String, Argument)],
        line: &str,
        faults: &mut Vec<Fault>,
    ) -> Result<Vec<Object>, Refusal> {
        if let Some(name) = call.strip_prefix("script:") {
            if !calls::HOST_SCRIPTS.contains(&name)
                || !self.scripts.join(format!("{name}.ps1")).is_file()
            {
                return Err(Refusal::stand_in(format!(
                    "no script {name} beside host.ps1"
                )));
            }
            meet(context, call, call, line, faults)?;
            return self.script(context, name, &trace::map(given));
        }
        let (module, cmdlet) = allowed(call)?;
        if module == "Hyper-V" {
            let host = &self.config.host;
            if !host.module {
                return Err(Refusal::no_module(module));
            }
            if !host.elevated {
                return Err(Refusal::no_rights(cmdlet));
            }
        }
        let bound = syntax::bind(cmdlet, &trace::map(given))?;
        if module == "Hyper-V"
            && (context.held.state.service_stopped || self.config.host.service != "Running")
        {
            return Err(Refusal::gone(cmdlet));
        }
        meet(context, cmdlet, cmdlet, line, faults)?;
        match cmdlet {
            "New-PSSession" => self.new_session(context, &bound),
            "Invoke-Command" => self.invoke(context, &bound, faults),
            _ => cmdlets::carry_out(context, &bound),
        }
    }

    fn new_session(
        &mut self,
        context: &mut Context<'_>,
        call: &Bound,
    ) -> Result<Vec<Object>, Refusal> {
        let id = call.text("VMId").to_lowercase();
        let Some(Thing::Credential { user, password }) = call.things("Credential").pop() else {
            return Err(Refusal::stand_in("no credential"));
        };
        let Some(vm) = context.held.state.vms.get(&id) else {
            let text = format!("The input VMId {id} does not resolve to a single virtual machine.");
            return Err(Refusal::new(
                "New-PSSession",
                "InvalidVMIdNotSingle",
                "InvalidArgument",
                text,
            ));
        };
        let name = vm.name.clone();
        if context.power(&id)? != Power::Running {
            let text = format!("The virtual machine {name} is not in running state.");
            return Err(Refusal::new(
                "New-PSSession",
                "InvalidVMState",
                "InvalidArgument",
                text,
            ));
        }
        match context.engine(&id)?.open_session(&user, &password) {
            Ok(()) => {}
            Err(SessionError::Credential) => return Err(Refusal::credential("New-PSSession")),
            Err(SessionError::Hangs) => hang(),
            Err(_) => return Err(Refusal::ended("New-PSSession")),
        }
        let number = self.sessions.len() as u32;
        self.sessions.push(Session {
            vm: id.clone(),
            broken: false,
        });
        let properties = json!({
            "Id": number + 1, "Name": format!("Session{}", number + 1), "InstanceId": uuid::Uuid::new_v4().to_string(), "State": "Opened",
            "Availability": "Available", "ComputerName": name, "ComputerType": "VirtualMachine", "VMId": id, "VMName": name,
            "ConfigurationName": ""
        });
        Ok(vec![Object::new(Thing::Session(number), properties)])
    }

    fn invoke(
        &mut self,
        context: &mut Context<'_>,
        call: &Bound,
        faults: &mut Vec<Fault>,
    ) -> Result<Vec<Object>, Refusal> {
        let (Some(Thing::Session(number)), Some(Argument::Script(script))) =
            (call.things("Session").pop(), call.get("ScriptBlock"))
        else {
            return Err(Refusal::stand_in(
                "Invoke-Command takes a session and a script here",
            ));
        };
        let arguments: Option<Vec<Value>> = call
            .all("ArgumentList")
            .iter()
            .map(Argument::to_json)
            .collect();
        let arguments =
            arguments.ok_or_else(|| Refusal::stand_in("an argument that can't be sent"))?;
        let vm = self.sessions[number as usize].vm.clone();
        if self.sessions[number as usize].broken {
            return Err(Refusal::broken(number + 1, &vm));
        }
        let about = about(&mut context.held.state.jobs, script, &arguments);
        let met = meet(
            context,
            &format!("guest:{script}"),
            "Invoke-Command",
            &about,
            faults,
        );
        let session_ends = faults.iter().any(|f| f.deed == Deed::SessionEnds);
        met?;
        if session_ends || context.power(&vm)? != Power::Running {
            self.sessions[number as usize].broken = true;
            return Err(Refusal::broke());
        }
        if context.held.state.clock_jumped {
            clock::must_not_matter(&self.scripts, script, &arguments)?;
        }
        match context.engine(&vm)?.guest(script, &arguments) {
            Ok(value) => Ok(vec![Object::new(Thing::Plain, value)]),
            Err(SessionError::Threw(text)) => Err(Refusal {
                message: text,
                id: "RemoteException".into(),
                category: "NotSpecified".into(),
                kind: "System.Management.Automation.RemoteException".into(),
            }),
            Err(SessionError::Hangs) => hang(),
            Err(_) => {
                self.sessions[number as usize].broken = true;
                Err(Refusal::broke())
            }
        }
    }

    /// The input has ended: what was made by who asked goes, too.
    pub fn end(&mut self) -> Result<(), String> {
        let config = self.config.clone();
        let mut held = Held::take(&config.state)?;
        if self.owned.is_empty() || !held.state.vms.contains_key(&self.owned) {
            return Ok(());
        }
        trace::write(config.trace.as_deref(), "# The input ended.");
        let mut context = Context {
            config: &config,
            held: &mut held,
        };
        if let Ok(mut engine) = context.engine(&self.owned) {
            engine.turn_off();
        }
        cmdlets::forget(&mut context, &self.owned);
        held.save()
    }
}

/// What a fault can look for: the script, its arguments, and the command line of the job that they name.
fn about(jobs: &mut BTreeMap<String, String>, script: &str, arguments: &[Value]) -> String {
    let texts: Vec<String> = arguments
        .iter()
        .map(|v| v.as_str().map_or(v.to_string(), str::to_owned))
        .collect();
    if let ("start", [id, program, line, ..]) = (script, texts.as_slice()) {
        jobs.insert(id.clone(), format!("{program} {line}"));
    }
    let job = texts
        .first()
        .and_then(|id| jobs.get(id))
        .filter(|_| script != "start");
    let shown = texts
        .iter()
        .take(3)
        .map(|t| t.chars().take(400).collect::<String>());
    format!(
        "{script} {} {}",
        shown.collect::<Vec<_>>().join(" "),
        job.map_or("", |j| j)
    )
    .trim_end()
    .to_string()
}

/// What is on the allow-list, as module and cmdlet.
fn allowed(call: &str) -> Result<(&'static str, &'static str), Refusal> {
    let (module, cmdlet) = call.split_once('\\').unwrap_or(("", call));
    let found = calls::CMDLETS.iter().find(|(m, _)| *m == module);
    let cmdlet = found.and_then(|(m, all)| Some((*m, *all.iter().find(|c| **c == cmdlet)?)));
    cmdlet.ok_or_else(|| Refusal {
        message: format!("this call is not allowed: {call}"),
        id: format!("this call is not allowed: {call}"),
        category: "OperationStopped".into(),
        kind: "System.Management.Automation.RuntimeException".into(),
    })
}

fn meet(
    context: &mut Context<'_>,
    name: &str,
    cmdlet: &str,
    text: &str,
    faults: &mut Vec<Fault>,
) -> Result<(), Refusal> {
    let due = fault::due(context.config, &mut context.held.state, name, text);
    faults.extend(due.iter().cloned());
    due.iter()
        .try_for_each(|f| fault::befall(context, f, cmdlet, text))
}

/// For ever, as far as a caller's patience goes; a stand-in that nobody ends does end.
pub fn hang() -> ! {
    std::thread::sleep(std::time::Duration::from_secs(600));
    std::process::exit(1);
}
