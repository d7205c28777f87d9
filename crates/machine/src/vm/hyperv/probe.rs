//! Whether this host can run machines of Hyper-V, and what it lacks.
//!
//! Pure but for the two questions. All that is missing is reported at once, each with its cure.

use serde_json::Value;

use super::call::Call;
use super::host::Host;
use crate::vm::Probe;
use winimg_base::error::{Error, Kind, Result};
use winimg_base::event::Cancel;

/// What `probe.ps1` and `Get-VMHost` say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    os: String,
    build: String,
    hypervisor: bool,
    service: String,
    admin: bool,
    module: String,
    nested: bool,
}

/// What is known of a host that has all.
#[derive(Clone, Debug)]
pub struct Found {
    pub probe: Probe,
    /// Logical ones.
    pub processors: u64,
    /// Its machines make checkpoints by themselves unless that is switched off (Microsoft: Set-VM; since Windows 10 1709).
    pub checkpoints: bool,
}

/// For what is wrong with a question.
const LOOKING: &str = "look at this host";
/// The first build of Windows whose Set-VM knows AutomaticCheckpointsEnabled.
const CHECKPOINTS_SINCE: u64 = 16_299;

/// One thing that a build needs of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// It is there: a line that says so.
    Has(String),
    Lacks {
        what: &'static str,
        cure: &'static str,
    },
}

/// What was found of all that is needed.
#[derive(Clone, Debug)]
pub struct Examined {
    /// `Microsoft Windows Server 2022 Standard, 10.0.20348`
    pub host: String,
    pub needs: Vec<Need>,
    pub remarks: Vec<String>,
}

pub fn ask(host: &Host, cancel: &Cancel) -> Result<Found> {
    let facts = facts(host, cancel)?;
    let probe = judge(&facts)?;
    Ok(Found {
        probe,
        processors: processors(host, cancel)?,
        checkpoints: facts.makes_checkpoints(),
    })
}

pub fn examine(host: &Host, cancel: &Cancel) -> Result<Examined> {
    let facts = facts(host, cancel)?;
    let mut needs = needs(&facts);
    // Only a host that has all is asked more.
    if needs.iter().all(|need| matches!(need, Need::Has(_))) {
        let count = processors(host, cancel)?;
        needs.push(Need::Has(format!(
            "Hyper-V answers: {count} logical processors"
        )));
    }
    Ok(Examined {
        host: format!("{}, {}", facts.named(), facts.build),
        needs,
        remarks: facts.remarks(),
    })
}

fn facts(host: &Host, cancel: &Cancel) -> Result<Facts> {
    let answer = host.order(LOOKING, &Call::new("script:probe").select(&["*"]), cancel)?;
    Ok(Facts::of(answer.first().unwrap_or(&Value::Null)))
}

/// Logical ones.
fn processors(host: &Host, cancel: &Cancel) -> Result<u64> {
    let call = Call::new(r"Hyper-V\Get-VMHost").select(&["LogicalProcessorCount"]);
    let answer = host.order(LOOKING, &call, cancel)?;
    let count = answer.first();
    let count = count.and_then(|host| host["LogicalProcessorCount"].as_u64());
    Ok(count.unwrap_or(1).max(1))
}

impl Facts {
    fn of(answer: &Value) -> Self {
        let text = |name: &str| answer[name].as_str().unwrap_or_default().to_string();
        let flag = |name: &str| answer[name].as_bool().unwrap_or(false);
        Self {
            os: text("os"),
            build: match &answer["build"] {
                Value::Number(number) => format!("10.0.{number}"),
                other => other.as_str().unwrap_or_default().to_string(),
            },
            hypervisor: flag("hypervisorPresent"),
            service: text("service"),
            admin: flag("admin"),
            module: text("module"),
            nested: flag("nested"),
        }
    }

    fn named(&self) -> &str {
        match self.os.as_str() {
            "" => "an unknown Windows",
            os => os,
        }
    }

    fn remarks(&self) -> Vec<String> {
        let nested = "Hyper-V runs in a virtual machine itself (nested): it is slower, and deadlines stay as they are";
        let remarks = self.nested.then(|| nested.to_string());
        remarks.into_iter().collect()
    }

    fn makes_checkpoints(&self) -> bool {
        let build = self.build.rsplit('.').next().map(str::parse::<u64>);
        !matches!(build, Some(Ok(build)) if build < CHECKPOINTS_SINCE)
    }
}

fn needs(facts: &Facts) -> Vec<Need> {
    let has = |there: bool, words: String, what: &'static str, cure: &'static str| match there {
        true => Need::Has(words),
        false => Need::Lacks { what, cure },
    };
    let module = facts.module.as_str();
    let there = !matches!(facts.service.as_str(), "" | "missing");
    let runs = "Hyper-V's service (vmms) runs".to_string();
    vec![
        has(
            !matches!(module, "" | "missing"),
            format!("the Hyper-V module for Windows PowerShell, version {module}"),
            "the Hyper-V module for Windows PowerShell",
            "Install-WindowsFeature Hyper-V-PowerShell, or on a client \
             Enable-WindowsOptionalFeature -Online -FeatureName Microsoft-Hyper-V-Management-PowerShell",
        ),
        match there {
            true => has(
                facts.service == "Running",
                runs,
                "Hyper-V's service, which does not run",
                "Start-Service vmms",
            ),
            false => Need::Lacks {
                what: "the Hyper-V role, whose service is vmms",
                cure: "Install-WindowsFeature Hyper-V -Restart, or on a client \
                       Enable-WindowsOptionalFeature -Online -FeatureName Microsoft-Hyper-V -All",
            },
        },
        has(
            facts.hypervisor,
            "the hypervisor runs".into(),
            "a running hypervisor",
            "switch virtualisation on in the firmware, then bcdedit /set hypervisorlaunchtype auto, and restart",
        ),
        has(
            facts.admin,
            "this prompt has the rights to run machines".into(),
            "rights",
            "run winimg from an elevated prompt",
        ),
    ]
}

fn judge(facts: &Facts) -> Result<Probe> {
    let needs = needs(facts);
    let lacks = needs.iter().filter_map(|need| match need {
        Need::Has(_) => None,
        Need::Lacks { what, cure } => Some(format!("{what}: {cure}")),
    });
    let lacks: Vec<String> = lacks.collect();
    if !lacks.is_empty() {
        let words = match lacks.len() {
            1 => "1 requirement of Hyper-V is missing on this host".to_string(),
            n => format!("{n} requirements of Hyper-V are missing on this host"),
        };
        return Err(Error::new(Kind::Host, words)
            .found(facts.named())
            .lines(lacks)
            .cure("install or enable the above and build again"));
    }
    Ok(Probe {
        version: format!("Hyper-V {}", facts.build),
        accel: "hyperv".into(),
        remarks: facts.remarks(),
        slowness: 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_host_that_has_all_is_named_by_its_build() {
        let facts = Facts::of(&json!({
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
        let old = Facts::of(&json!({"build": "10.0.14393"}));
        assert!(!old.makes_checkpoints());
    }

    #[test]
    fn all_that_is_missing_is_reported_at_once() {
        let facts = Facts::of(&json!({
            "os": "Microsoft Windows 11 Pro", "build": "10.0.22631", "hypervisorPresent": false,
            "service": "Stopped", "admin": false, "module": "", "nested": false,
        }));
        assert_eq!(
            judge(&facts).expect_err("nothing is there").to_string(),
            "4 requirements of Hyper-V are missing on this host\n  found: Microsoft Windows 11 Pro\n  \
             | the Hyper-V module for Windows PowerShell: Install-WindowsFeature Hyper-V-PowerShell, or on a client Enable-WindowsOptionalFeature -Online -FeatureName Microsoft-Hyper-V-Management-PowerShell\n  \
             | Hyper-V's service, which does not run: Start-Service vmms\n  \
             | a running hypervisor: switch virtualisation on in the firmware, then bcdedit /set hypervisorlaunchtype auto, and restart\n  \
             | rights: run winimg from an elevated prompt\n  \
             cure: install or enable the above and build again"
        );
    }
}
