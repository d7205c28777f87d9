//! What PowerShell and Hyper-V refuse, as errors that say what to do.
//!
//! Pure. Texts of Hyper-V differ by its language, so a cure is looked for by the error's code and its id first and by English words second; what
//! is not known is shown as it is. (Microsoft: about_Throw, ErrorRecord.FullyQualifiedErrorId; Win32 error codes.)

use serde_json::Value;

use super::call::Call;
use winimg_base::error::{Error, Kind};

/// Who refused, by the exception's type, which is the same in every language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refuser {
    /// A script in the guest (Microsoft: RemoteException).
    Guest,
    /// PowerShell Direct, which takes no such account or password. It throws this type for nothing else where a user is named (PowerShell:
    /// RemoteSessionHyperVSocketClient.Connect).
    LogOn,
    /// The cmdlet, or Hyper-V.
    Host,
}

impl Refuser {
    fn of(exception: &str) -> Self {
        match exception {
            "System.Management.Automation.RemoteException" => Self::Guest,
            "System.Management.Automation.Remoting.PSDirectException" => Self::LogOn,
            _ => Self::Host,
        }
    }
}

/// An error record of PowerShell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub call: String,
    pub message: String,
    pub id: String,
    pub category: String,
    pub by: Refuser,
}

impl Refusal {
    pub fn of(call: &Call, error: &Value) -> Self {
        let text = |name: &str| error[name].as_str().unwrap_or_default().to_string();
        Self {
            call: call.to_string(),
            message: text("message"),
            id: text("id"),
            category: text("category"),
            by: Refuser::of(&text("type")),
        }
    }

    fn holds(&self, words: &[&str]) -> bool {
        words.iter().any(|w| self.message.contains(w))
    }
}

/// Why a call gave nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    Refused(Refusal),
    /// It did not answer in time, and was ended.
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

impl Trouble {
    pub fn died(how: impl Into<String>) -> Self {
        Self::Died {
            how: how.into(),
            words: Vec::new(),
        }
    }

    pub fn garbled(line: &str) -> Self {
        Self::Garbled {
            line: line.chars().take(200).collect(),
        }
    }

    /// Whether the process can't be trusted any more.
    pub fn ends_process(&self) -> bool {
        !matches!(self, Self::Refused(_) | Self::NoPowerShell(_))
    }

    pub fn with_words(self, said: Vec<String>) -> Self {
        match self {
            Self::Died { how, .. } => Self::Died { how, words: said },
            other => other,
        }
    }

    /// One line.
    pub fn fact(&self) -> String {
        match self {
            Self::Refused(refusal) => first_line(&refusal.message),
            Self::Late { doing, seconds } => {
                format!("PowerShell did not answer {doing} within {seconds} s and was ended")
            }
            Self::Died { how, .. } => format!("the PowerShell that speaks to Hyper-V died: {how}"),
            Self::Garbled { line } => format!("PowerShell answered nonsense: {line}"),
            Self::NoPowerShell(how) => how.clone(),
            Self::Interrupted => "interrupted".to_string(),
        }
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_string()
}

/// A known refusal: how it is recognised, whose fault it is, and what to do.
struct Known {
    /// Of the message or the id: codes are the same in every language.
    codes: &'static [&'static str],
    words: &'static [&'static str],
    kind: Kind,
    cure: &'static str,
}

const KNOWN: &[Known] = &[
    Known {
        codes: &["0x8007000E", "0x800705AA"],
        words: &["Not enough memory in the system", "ran out of memory"],
        kind: Kind::Host,
        cure: "close other machines, or give this one less memory: [machine] memory",
    },
    Known {
        codes: &["0x80070020"],
        words: &["being used by another process", "is locked"],
        kind: Kind::Host,
        cure: "another program has the file open: another virtual machine, a backup, a virus scanner, or a mounted disk",
    },
    Known {
        codes: &["0x80070070"],
        words: &["not enough space on the disk", "not enough disk space"],
        kind: Kind::Host,
        cure: "make room there (`winimg cache prune` removes what builds no longer need), or put the cache elsewhere",
    },
    Known {
        codes: &["0x80070005"],
        words: &[
            "do not have the required permission",
            "Access is denied",
            "access denied",
            "requires elevation",
        ],
        kind: Kind::Host,
        cure: "run winimg from an elevated prompt: Hyper-V's disks are mounted by administrators only",
    },
    Known {
        codes: &["0x800706BA"],
        words: &[
            "was unable to connect to the service",
            "the service is not running",
        ],
        kind: Kind::Host,
        cure: "start Hyper-V's service: Start-Service vmms",
    },
    // Said of a service that does not run, and of an object that is gone.
    Known {
        codes: &[],
        words: &["Virtual Machine Management service"],
        kind: Kind::Machine,
        cure: "see whether Hyper-V's service runs (Get-Service vmms), and whether somebody removed the machine",
    },
    Known {
        codes: &["CommandNotFoundException"],
        words: &["is not recognized as the name of a cmdlet"],
        kind: Kind::Host,
        cure: "install Hyper-V's PowerShell module: Install-WindowsFeature Hyper-V-PowerShell",
    },
    Known {
        codes: &["0xC03A000E"],
        words: &[
            "chain of virtual hard disks is corrupted",
            "mismatch in the identifiers of the parent",
            "parent virtual hard disk",
        ],
        kind: Kind::Machine,
        cure: "a layer below this disk was changed: build with --fresh",
    },
    Known {
        codes: &["0xC0351000", "0xC035001E"],
        words: &["hypervisor is not running"],
        kind: Kind::Host,
        cure: "switch virtualisation on in the firmware, then: bcdedit /set hypervisorlaunchtype auto, and restart this host",
    },
];

/// `doing` completes "Hyper-V refused to …".
pub fn explain(doing: &str, trouble: &Trouble) -> Error {
    let refusal = match trouble {
        Trouble::Refused(refusal) => refusal,
        Trouble::Interrupted => return Error::cancelled(),
        Trouble::NoPowerShell(_) => {
            return Error::new(Kind::Host, trouble.fact()).cure(
                "Hyper-V is a part of Windows: on another host leave --hypervisor away, and QEMU runs the machine",
            );
        }
        Trouble::Died { words, .. } => {
            return Error::new(Kind::Machine, trouble.fact())
                .at(doing)
                .lines(words);
        }
        Trouble::Late { .. } | Trouble::Garbled { .. } => {
            return Error::new(Kind::Machine, trouble.fact())
                .at(doing)
                .cure("see Hyper-V's own log: Get-WinEvent Microsoft-Windows-Hyper-V-VMMS-Admin");
        }
    };
    let known = KNOWN.iter().find(|known| {
        let code = |code: &&str| refusal.message.contains(*code) || refusal.id.contains(*code);
        known.codes.iter().any(code) || refusal.holds(known.words)
    });
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
        Some(known) => error.cure(known.cure),
        None => error.lines([format!("{} ({})", refusal.id, refusal.category)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(call: Call, message: &str) -> Trouble {
        let error = json!({"message": message, "id": "InvalidParameter,Microsoft.HyperV.PowerShell.Commands.NewVM",
            "category": "InvalidArgument", "type": "Microsoft.HyperV.PowerShell.VirtualizationException"});
        Trouble::Refused(Refusal::of(&call, &error))
    }

    #[test]
    fn what_hyper_v_refuses_is_reported_with_its_cure() {
        let start = Call::new(r"Hyper-V\Start-VM").kept("VM", "vm");
        let message = "'winimg-1' failed to start.\r\n\r\nNot enough memory in the system to start the virtual machine winimg-1 with ram size 4096 megabytes. (0x8007000E).";
        assert_eq!(
            explain("start the machine", &refused(start, message)).to_string(),
            "Hyper-V refused to start the machine\n  at: Hyper-V\\Start-VM -VM $vm\n  found: 'winimg-1' failed to start.\n  \
             | Not enough memory in the system to start the virtual machine winimg-1 with ram size 4096 megabytes. (0x8007000E).\n  \
             cure: close other machines, or give this one less memory: [machine] memory"
        );
        let odd = Call::new(r"Hyper-V\New-VM").text("Name", "winimg-1");
        assert_eq!(
            explain("make the machine", &refused(odd, "Etwas ging schief.")).to_string(),
            "Hyper-V refused to make the machine\n  at: Hyper-V\\New-VM -Name winimg-1\n  found: Etwas ging schief.\n  \
             | InvalidParameter,Microsoft.HyperV.PowerShell.Commands.NewVM (InvalidArgument)"
        );
    }

    #[test]
    fn each_way_a_process_fails_is_named() {
        let late = Trouble::Late {
            doing: r"Hyper-V\Get-VM".into(),
            seconds: 60,
        };
        let facts = [
            late,
            Trouble::died("it ended"),
            Trouble::garbled("WARNING: x"),
        ]
        .map(|t| explain("look at the machine", &t).fact().to_string());
        assert_eq!(
            facts,
            [
                r"PowerShell did not answer Hyper-V\Get-VM within 60 s and was ended",
                "the PowerShell that speaks to Hyper-V died: it ended",
                "PowerShell answered nonsense: WARNING: x",
            ]
        );
    }
}
