//! Checks that this host can run machines of Hyper-V.
//!
//! Pure except for two queries. Reports all missing requirements at once, each with its cure.

use serde_json::Value;

use super::call::CmdletCall;
use super::host::PowerShellHost;
use crate::vm::HypervisorProbe;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;

/// Output of `probe.ps1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    os: String,
    build: String,
    hypervisor: bool,
    service: String,
    admin: bool,
    module: String,
    nested: bool,
}

/// Properties of a host that meets all requirements.
#[derive(Clone, Debug)]
pub struct HyperVHost {
    pub probe: HypervisorProbe,
    /// Number of logical processors.
    pub processors: u64,
    /// True if machines create automatic checkpoints by default (Microsoft: Set-VM; since Windows
    /// 10 1709).
    pub checkpoints: bool,
}

/// Completes "Hyper-V refused to …" for the queries.
const LOOKING: &str = "describe this host";
/// First build of Windows whose Set-VM has AutomaticCheckpointsEnabled.
const CHECKPOINTS_SINCE: u64 = 16_299;

/// Requirement of a build on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostNeed {
    /// It is met; the text describes it.
    Has(String),
    Lacks {
        what: &'static str,
        cure: &'static str,
    },
}

/// All requirements with their results.
#[derive(Clone, Debug)]
pub struct HostReport {
    /// For example `Microsoft Windows Server 2022 Standard, 10.0.20348`.
    pub host: String,
    pub needs: Vec<HostNeed>,
    pub remarks: Vec<String>,
}

pub fn ask(host: &PowerShellHost, cancel: &Cancel) -> Result<HyperVHost> {
    let facts = read_facts(host, cancel)?;
    let probe = judge(&facts)?;
    Ok(HyperVHost {
        probe,
        processors: count_processors(host, cancel)?,
        checkpoints: facts.makes_checkpoints(),
    })
}

pub fn inspect_host(host: &PowerShellHost, cancel: &Cancel) -> Result<HostReport> {
    let facts = read_facts(host, cancel)?;
    let mut needs = needs(&facts);
    // Query only a host that meets all other requirements.
    if needs.iter().all(|need| matches!(need, HostNeed::Has(_))) {
        let count = count_processors(host, cancel)?;
        needs.push(HostNeed::Has(format!(
            "Hyper-V answers: {count} logical processors"
        )));
    }
    Ok(HostReport {
        host: format!("{}, {}", facts.os_name(), facts.build),
        needs,
        remarks: facts.list_remarks(),
    })
}

fn read_facts(host: &PowerShellHost, cancel: &Cancel) -> Result<HostFacts> {
    let answer = host.order(
        LOOKING,
        &CmdletCall::new("script:probe").select(&["*"]),
        cancel,
    )?;
    Ok(HostFacts::from_answer(
        answer.first().unwrap_or(&Value::Null),
    ))
}

/// Returns the number of logical processors.
fn count_processors(host: &PowerShellHost, cancel: &Cancel) -> Result<u64> {
    let call = CmdletCall::new(r"Hyper-V\Get-VMHost").select(&["LogicalProcessorCount"]);
    let answer = host.order(LOOKING, &call, cancel)?;
    let count = answer.first();
    let count = count.and_then(|host| host["LogicalProcessorCount"].as_u64());
    Ok(count.unwrap_or(1).max(1))
}

impl HostFacts {
    fn from_answer(answer: &Value) -> Self {
        let [os, service, module] = ["os", "service", "module"]
            .map(|name| answer[name].as_str().unwrap_or_default().to_string());
        let [hypervisor, admin, nested] = ["hypervisorPresent", "admin", "nested"]
            .map(|name| answer[name].as_bool().unwrap_or(false));
        Self {
            os,
            build: match &answer["build"] {
                Value::Number(number) => format!("10.0.{number}"),
                other => other.as_str().unwrap_or_default().to_string(),
            },
            hypervisor,
            service,
            admin,
            module,
            nested,
        }
    }

    fn os_name(&self) -> &str {
        match self.os.as_str() {
            "" => "an unknown Windows",
            os => os,
        }
    }

    fn list_remarks(&self) -> Vec<String> {
        let nested = "Hyper-V runs in a virtual machine (nested): it is slower, \
                      and deadlines are not extended";
        let remarks = self.nested.then(|| nested.to_string());
        remarks.into_iter().collect()
    }

    fn makes_checkpoints(&self) -> bool {
        let build = self.build.rsplit('.').next().map(str::parse::<u64>);
        !matches!(build, Some(Ok(build)) if build < CHECKPOINTS_SINCE)
    }
}

fn needs(facts: &HostFacts) -> Vec<HostNeed> {
    let module = facts.module.as_str();
    let there = !matches!(facts.service.as_str(), "" | "missing");
    let runs = "Hyper-V's service (vmms) is running".to_string();
    vec![
        to_need(
            !matches!(module, "" | "missing"),
            format!("the Hyper-V module for Windows PowerShell, version {module}"),
            "the Hyper-V module for Windows PowerShell",
            "Install-WindowsFeature Hyper-V-PowerShell, or on a client \
             Enable-WindowsOptionalFeature -Online \
             -FeatureName Microsoft-Hyper-V-Management-PowerShell",
        ),
        if there {
            to_need(
                facts.service == "Running",
                runs,
                "Hyper-V's service, which is stopped",
                "Start-Service vmms",
            )
        } else {
            HostNeed::Lacks {
                what: "the Hyper-V role, whose service is vmms",
                cure: "Install-WindowsFeature Hyper-V -Restart, or on a client \
                       Enable-WindowsOptionalFeature -Online -FeatureName Microsoft-Hyper-V -All",
            }
        },
        to_need(
            facts.hypervisor,
            "the hypervisor is running".into(),
            "a running hypervisor",
            "enable virtualisation in the firmware, \
             then bcdedit /set hypervisorlaunchtype auto, and restart",
        ),
        to_need(
            facts.admin,
            "this prompt has the rights to run machines".into(),
            "rights to run machines",
            "run winimg from an elevated prompt",
        ),
    ]
}

fn to_need(is_met: bool, words: String, what: &'static str, cure: &'static str) -> HostNeed {
    if is_met {
        HostNeed::Has(words)
    } else {
        HostNeed::Lacks { what, cure }
    }
}

fn judge(facts: &HostFacts) -> Result<HypervisorProbe> {
    let needs = needs(facts);
    let lacks = needs.iter().filter_map(|need| match need {
        HostNeed::Has(_) => None,
        HostNeed::Lacks { what, cure } => Some(format!("{what}: {cure}")),
    });
    let lacks: Vec<String> = lacks.collect();
    if !lacks.is_empty() {
        let words = match lacks.len() {
            1 => "1 requirement of Hyper-V is missing on this host".to_string(),
            n => format!("{n} requirements of Hyper-V are missing on this host"),
        };
        return Err(Error::new(Kind::Host, words)
            .found(facts.os_name())
            .lines(lacks)
            .cure("install or enable the above and build again"));
    }
    Ok(HypervisorProbe {
        version: format!("Hyper-V {}", facts.build),
        accel: "hyperv".into(),
        remarks: facts.list_remarks(),
        slowness: 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_host_that_has_all_is_named_by_its_build() {
        let facts = HostFacts::from_answer(&json!({
            "os": "Microsoft Windows Server 2022 Standard", "build": "10.0.20348", "hypervisorPresent": true,
            "service": "Running", "admin": true, "module": "2.0.0.0", "nested": true,
        }));
        let probe = judge(&facts).expect("a good host");
        assert_eq!(
            (probe.version.as_str(), probe.accel.as_str(), probe.slowness),
            ("Hyper-V 10.0.20348", "hyperv", 1)
        );
        assert_eq!(probe.remarks.len(), 1);
        assert!(facts.makes_checkpoints());
        let old = HostFacts::from_answer(&json!({"build": "10.0.14393"}));
        assert!(!old.makes_checkpoints());
    }

    #[test]
    fn all_that_is_missing_is_reported_at_once() {
        let facts = HostFacts::from_answer(&json!({
            "os": "Microsoft Windows 11 Pro", "build": "10.0.22631", "hypervisorPresent": false,
            "service": "Stopped", "admin": false, "module": "", "nested": false,
        }));
        assert_eq!(
            judge(&facts).expect_err("nothing is there").to_string(),
            "4 requirements of Hyper-V are missing on this host\n  found: Microsoft Windows 11 Pro\n  \
             | the Hyper-V module for Windows PowerShell: Install-WindowsFeature Hyper-V-PowerShell, or on a client Enable-WindowsOptionalFeature -Online -FeatureName Microsoft-Hyper-V-Management-PowerShell\n  \
             | Hyper-V's service, which is stopped: Start-Service vmms\n  \
             | a running hypervisor: enable virtualisation in the firmware, then bcdedit /set hypervisorlaunchtype auto, and restart\n  \
             | rights to run machines: run winimg from an elevated prompt\n  \
             cure: install or enable the above and build again"
        );
    }
}
