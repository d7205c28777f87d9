//! Errors as `host.ps1` writes them: an error record's message, id, category and exception type.

use serde::Serialize;

pub const VIRTUALIZATION: &str = "Microsoft.HyperV.PowerShell.VirtualizationException";
pub const BINDING: &str = "System.Management.Automation.ParameterBindingException";
pub const REMOTING: &str = "System.Management.Automation.Remoting.PSRemotingTransportException";

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    pub message: String,
    pub id: String,
    pub category: String,
    #[serde(rename = "type")]
    pub kind: String,
}

/// The class that carries a cmdlet out: `Hyper-V\New-VM` is `Microsoft.HyperV.PowerShell.Commands.NewVM`.
pub fn class(cmdlet: &str) -> String {
    let name = cmdlet.replace('-', "");
    match cmdlet {
        "New-PSSession" | "Invoke-Command" => {
            format!("Microsoft.PowerShell.Commands.{name}Command")
        }
        _ if name.ends_with("VHD") => {
            format!(
                "Microsoft.Vhd.PowerShell.Cmdlets.{}",
                name.replace("VHD", "Vhd")
            )
        }
        _ => format!("Microsoft.HyperV.PowerShell.Commands.{name}"),
    }
}

impl Refusal {
    /// `id` is the part before the comma.
    pub fn new(cmdlet: &str, id: &str, category: &str, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            id: format!("{id},{}", class(cmdlet)),
            category: category.into(),
            kind: VIRTUALIZATION.into(),
        }
    }

    /// An argument that the cmdlet can't take.
    pub fn argument(cmdlet: &str, message: impl Into<String>) -> Self {
        Self::new(cmdlet, "InvalidParameter", "InvalidArgument", message)
    }

    pub fn of(mut self, kind: &str) -> Self {
        self.kind = kind.into();
        self
    }

    /// What no cmdlet would be asked for: the stand-in's own words, so that they are not taken for Windows'.
    pub fn stand_in(message: impl std::fmt::Display) -> Self {
        Self {
            message: format!("stand-in for Hyper-V: {message}"),
            id: "StandIn".into(),
            category: "NotImplemented".into(),
            kind: "System.NotImplementedException".into(),
        }
    }

    /// Source: GitHub: canonical/multipass 4053, pluralsight/PS-AutoLab-Env 133 (outputs of Get-VM).
    pub fn no_vm(cmdlet: &str, what: &str, which: &str) -> Self {
        let text = format!("Hyper-V was unable to find a virtual machine with {what} \"{which}\".");
        match cmdlet {
            "Get-VM" => Self::argument(cmdlet, text),
            _ => Self::new(cmdlet, "ObjectNotFound", "ObjectNotFound", text),
        }
    }

    /// The object is kept, its virtual machine is gone, or `vmms` does not run.
    pub fn gone(cmdlet: &str) -> Self {
        Self::new(
            cmdlet,
            "ObjectNotFound",
            "ObjectNotFound",
            "Hyper-V encountered an error trying to access an object on computer 'STANDIN' because the object was not found. The object might \
             have been deleted. Verify that the Virtual Machine Management service on the computer is running.",
        )
    }

    pub fn no_rights(cmdlet: &str) -> Self {
        Self::new(
            cmdlet,
            "AccessDenied",
            "PermissionDenied",
            "You do not have the required permission to complete this task. Contact the administrator of the authorization policy for the \
             computer 'STANDIN'.",
        )
    }

    pub fn no_module(module: &str) -> Self {
        Self {
            message: format!(
                "The module '{module}' could not be loaded. For more information, run 'Import-Module {module}'."
            ),
            id: "CouldNotAutoLoadModule".into(),
            category: "ObjectNotFound".into(),
            kind: "System.Management.Automation.CommandNotFoundException".into(),
        }
    }

    pub fn wrong_state(cmdlet: &str, name: &str, what: &str) -> Self {
        let text = format!(
            "{what} failed.\nThe operation cannot be performed while the virtual machine is in its current state.\n'{name}' could not be changed: \
             The operation cannot be performed while the virtual machine is in its current state."
        );
        Self::new(cmdlet, "InvalidState", "InvalidOperation", text)
    }

    /// Source: Microsoft: System error codes (0x80070020).
    pub fn in_use(cmdlet: &str, path: &str) -> Self {
        let text = format!(
            "The system failed to use '{path}'.\nThe process cannot access the file because it is being used by another process. (0x80070020)."
        );
        Self::new(cmdlet, "ObjectInUse", "ResourceBusy", text)
    }

    pub fn no_file(cmdlet: &str, path: &str) -> Self {
        let text = format!("The system cannot find the file specified. (0x80070002). '{path}'");
        Self::new(cmdlet, "ObjectNotFound", "ObjectNotFound", text)
    }

    /// Source: GitHub: kubernetes/minikube 18049 (output of Start-VM).
    pub fn no_memory(name: &str, id: &str, mebibytes: u64) -> Self {
        let id = id.to_uppercase();
        Self::new(
            "Start-VM",
            "OutOfMemory",
            "FromStdErr",
            format!(
                "'{name}' failed to start.\nNot enough memory in the system to start the virtual machine {name}.\nCould not initialize memory: Not \
                 enough memory resources are available to complete this operation. (0x8007000E).\n'{name}' failed to start. (Virtual machine ID \
                 {id})\nNot enough memory in the system to start the virtual machine {name} with ram size {mebibytes} megabytes. (Virtual machine ID \
                 {id})\n'{name}' could not initialize memory: Not enough memory resources are available to complete this operation. \
                 (0x8007000E). (Virtual machine ID {id})"
            ),
        )
    }

    /// Source: GitHub: hashicorp/vagrant 11978 (output of Enable-VMTPM).
    pub fn no_key_protector(name: &str, id: &str) -> Self {
        let id = id.to_uppercase();
        let text = format!(
            "The operation failed.\n\nThe selected security settings of a virtual machine cannot be changed without a valid key protector \
             configured.\n\nThe operation failed.\n\nThe selected security settings of virtual machine '{name}' cannot be changed without a \
             valid key protector configured. Configure a valid key protector and try again. (Virtual machine ID {id})"
        );
        Self::new("Enable-VMTPM", "OperationFailed", "NotSpecified", text)
    }

    /// Source: Microsoft: Manage Windows virtual machines with PowerShell Direct, troubleshooting.
    pub fn credential(cmdlet: &str) -> Self {
        Self::new(
            cmdlet,
            "InvalidCredential",
            "OpenError",
            "The credential is invalid.",
        )
        .of("System.Management.Automation.Remoting.PSDirectException")
    }

    /// Source: as above.
    pub fn ended(cmdlet: &str) -> Self {
        let text = "An error has occurred which Windows PowerShell cannot handle. A remote session might have ended.";
        Self::new(cmdlet, "CreateRemoteRunspaceForVMFailed", "OpenError", text)
            .of("System.Management.Automation.Remoting.PSRemotingDataStructureException")
    }

    /// A session that was open breaks under a command.
    ///
    /// Its words are a guess after PowerShell's resources for remoting.
    pub fn broke() -> Self {
        Self {
            message: "The background process reported an error with the following message: \"The Hyper-V socket target process has ended.\"."
                .into(),
            id: "2100,PSSessionStateBroken".into(),
            category: "OperationStopped".into(),
            kind: REMOTING.into(),
        }
    }

    /// A command in a session that broke before.
    ///
    /// Source: as above.
    pub fn broken(number: u32, vm: &str) -> Self {
        Self {
            message: format!(
                "Because the session state for session Session{number}, {vm} is not equal to Open, you cannot run a command in the session. The session \
                 state is Broken."
            ),
            id: "PSSessionStateBroken".into(),
            category: "OpenError".into(),
            kind: "System.Management.Automation.Runspaces.InvalidRunspaceStateException".into(),
        }
    }
}
