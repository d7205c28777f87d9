//! Translates failures of PowerShell and Hyper-V into errors with a cure.
//!
//! Pure. Messages of Hyper-V are localized, so known errors are recognized by code and id first and
//! by English words second; others are shown unchanged. (Microsoft: about_Throw,
//! ErrorRecord.FullyQualifiedErrorId; Win32 error codes.)

use serde_json::Value;

use super::call::CmdletCall;
use crate::vm::symptoms;
use winimg_base::error::{Error, Kind};

/// Origin of a refusal, by the exception's type, which is not localized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalSource {
    /// A script in the guest (Microsoft: RemoteException).
    Guest,
    /// PowerShell Direct rejected the account or password. It throws this type for nothing else if
    /// a user is given (PowerShell: RemoteSessionHyperVSocketClient.Connect).
    LogOn,
    /// The cmdlet, or Hyper-V.
    Host,
}

impl RefusalSource {
    fn from_exception(exception: &str) -> Self {
        match exception {
            "System.Management.Automation.RemoteException" => Self::Guest,
            "System.Management.Automation.Remoting.PSDirectException" => Self::LogOn,
            _ => Self::Host,
        }
    }
}

/// PowerShell error record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRefusal {
    pub call: String,
    pub message: String,
    pub id: String,
    pub category: String,
    pub by: RefusalSource,
}

impl CallRefusal {
    pub fn from_record(call: &CmdletCall, error: &Value) -> Self {
        let [message, id, category, exception] = ["message", "id", "category", "type"]
            .map(|name| error[name].as_str().unwrap_or_default().to_string());
        Self {
            call: call.to_string(),
            message,
            id,
            category,
            by: RefusalSource::from_exception(&exception),
        }
    }
}

/// Failure of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallFailure {
    Refused(CallRefusal),
    /// PowerShell did not answer in time and was killed.
    Late {
        doing: String,
        seconds: u64,
    },
    Died {
        how: String,
        words: Vec<String>,
    },
    Garbled {
        line: String,
    },
    NoPowerShell(String),
    Interrupted,
}

impl CallFailure {
    pub fn from_death(how: impl Into<String>) -> Self {
        Self::Died {
            how: how.into(),
            words: Vec::new(),
        }
    }

    pub fn from_garbage(line: &str) -> Self {
        Self::Garbled {
            line: line.chars().take(200).collect(),
        }
    }

    /// Returns true if the process is in an unknown state.
    pub fn ends_process(&self) -> bool {
        !matches!(self, Self::Refused(_) | Self::NoPowerShell(_))
    }

    pub fn with_words(self, said: Vec<String>) -> Self {
        match self {
            Self::Died { how, .. } => Self::Died { how, words: said },
            other => other,
        }
    }

    /// Describes the failure in one line.
    pub fn describe(&self) -> String {
        match self {
            Self::Refused(refusal) => first_line(&refusal.message),
            Self::Late { doing, seconds } => {
                format!("PowerShell did not answer {doing} within {seconds} s and was killed")
            }
            Self::Died { how, .. } => format!("the PowerShell process for Hyper-V died: {how}"),
            Self::Garbled { line } => format!("unexpected output of PowerShell: {line}"),
            Self::NoPowerShell(how) => how.clone(),
            Self::Interrupted => "interrupted".to_string(),
        }
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_string()
}

/// Builds the error for a failed call. `doing` completes "Hyper-V refused to …".
pub fn explain(doing: &str, trouble: &CallFailure) -> Error {
    let refusal = match trouble {
        CallFailure::Refused(refusal) => refusal,
        CallFailure::Interrupted => return Error::cancelled(),
        CallFailure::NoPowerShell(_) => {
            return Error::new(Kind::Host, trouble.describe())
                .cure("Hyper-V needs Windows: on other hosts omit --hypervisor to use QEMU");
        }
        CallFailure::Died { words, .. } => {
            return Error::new(Kind::Machine, trouble.describe())
                .at(doing)
                .lines(words);
        }
        CallFailure::Late { .. } | CallFailure::Garbled { .. } => {
            return Error::new(Kind::Machine, trouble.describe())
                .at(doing)
                .cure("check Hyper-V's log: Get-WinEvent Microsoft-Windows-Hyper-V-VMMS-Admin");
        }
    };
    let known = symptoms::find_hyperv_refusal(&refusal.message, &refusal.id);
    let kind = known.map_or(Kind::Machine, |known| known.kind);
    let error = Error::new(kind, format!("Hyper-V refused to {doing}"))
        .at(&refusal.call)
        .found(first_line(&refusal.message))
        .lines(
            refusal
                .message
                .lines()
                .skip(1)
                .map(str::trim)
                .filter(|l| !l.is_empty()),
        );
    match known {
        Some(known) => error.cure(&known.cure),
        None => error.lines([format!("{} ({})", refusal.id, refusal.category)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(call: CmdletCall, message: &str) -> CallFailure {
        let error = json!({"message": message, "id": "InvalidParameter,Microsoft.HyperV.PowerShell.Commands.NewVM",
            "category": "InvalidArgument", "type": "Microsoft.HyperV.PowerShell.VirtualizationException"});
        CallFailure::Refused(CallRefusal::from_record(&call, &error))
    }

    #[test]
    fn what_hyper_v_refuses_is_reported_with_its_cure() {
        let start = CmdletCall::new(r"Hyper-V\Start-VM").with_kept("VM", "vm");
        let message = "'winimg-1' failed to start.\r\n\r\nNot enough memory in the system to start the virtual machine winimg-1 with ram size 4096 megabytes. (0x8007000E).";
        assert_eq!(
            explain("start the machine", &refused(start, message)).to_string(),
            "Hyper-V refused to start the machine\n  at: Hyper-V\\Start-VM -VM $vm\n  found: 'winimg-1' failed to start.\n  \
             | Not enough memory in the system to start the virtual machine winimg-1 with ram size 4096 megabytes. (0x8007000E).\n  \
             cure: stop other machines, or give this one less memory: [machine] memory"
        );
        let odd = CmdletCall::new(r"Hyper-V\New-VM").with_text("Name", "winimg-1");
        assert_eq!(
            explain("create the machine", &refused(odd, "Etwas ging schief.")).to_string(),
            "Hyper-V refused to create the machine\n  at: Hyper-V\\New-VM -Name winimg-1\n  found: Etwas ging schief.\n  \
             | InvalidParameter,Microsoft.HyperV.PowerShell.Commands.NewVM (InvalidArgument)"
        );
    }

    #[test]
    fn each_way_a_process_fails_is_named() {
        let late = CallFailure::Late {
            doing: r"Hyper-V\Get-VM".into(),
            seconds: 60,
        };
        let facts = [
            late,
            CallFailure::from_death("it ended"),
            CallFailure::from_garbage("WARNING: x"),
        ]
        .map(|t| explain("look at the machine", &t).fact().to_string());
        assert_eq!(
            facts,
            [
                r"PowerShell did not answer Hyper-V\Get-VM within 60 s and was killed",
                "the PowerShell process for Hyper-V died: it ended",
                "unexpected output of PowerShell: WARNING: x",
            ]
        );
    }
}
