//! The screens that stop an installation, with Windows' own words where they are known.
//!
//! A dialog stays: nothing here offers a way on. `why` is the stand-in's own reason, shown apart and written to
//! setuperr.log; the real dialog gives less.

/// A dialog or page that waits for somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialog {
    pub title: &'static str,
    pub text: String,
    pub why: String,
}

fn titled(title: &'static str, text: impl Into<String>, why: impl Into<String>) -> Dialog {
    Dialog {
        title,
        text: text.into(),
        why: why.into(),
    }
}

fn setup(text: impl Into<String>, why: impl Into<String>) -> Dialog {
    titled("Windows Setup", text, why)
}

/// The file is not XML, or not an answer file.
pub fn invalid_file(path: &str, pass: &str, why: impl Into<String>) -> Dialog {
    let text = format!(
        "Windows could not parse or process the unattend answer file [{path}] for pass [{pass}]. The answer file is invalid."
    );
    setup(text, why)
}

/// A component or setting that does not exist, or not in this pass, or not with this value.
pub fn unknown_setting(path: &str, pass: &str, why: impl Into<String>) -> Dialog {
    let text = format!(
        "Windows could not parse or process the unattend answer file [{path}] for pass [{pass}]. A component or setting \
         specified in the answer file does not exist."
    );
    setup(text, why)
}

/// `setting` is the element's name, such as `DiskConfiguration`.
pub fn cannot_apply(setting: &str, why: impl Into<String>) -> Dialog {
    setup(
        format!("Windows could not apply the unattend answer file's <{setting}> setting."),
        why,
    )
}

pub fn cannot_read_key(why: impl Into<String>) -> Dialog {
    setup(
        "Windows cannot read the <ProductKey> setting from the unattend answer file.",
        why,
    )
}

pub fn no_system_partition(why: impl Into<String>) -> Dialog {
    let text = "Setup was unable to create a new system partition or locate an existing system partition. See the Setup \
                log files for more information.";
    setup(text, why)
}

pub fn quit() -> Dialog {
    let why = "Enter or Escape was pressed while Setup was at work; Enter goes back to it";
    Dialog {
        title: "Install Windows",
        text: "Are you sure you want to quit?".to_owned(),
        why: why.to_owned(),
    }
}

pub fn media_driver(why: impl Into<String>) -> Dialog {
    let text = "A media driver your computer needs is missing. This could be a DVD, USB or hard disk driver.";
    titled("Install Windows", text, why)
}

pub fn cannot_install(why: impl Into<String>) -> Dialog {
    let text = "Windows cannot install required files. The file may be corrupt or missing. Make sure all files required for \
                installation are available, and restart the installation.";
    setup(text, why)
}

/// A page of the interactive Setup that the answer file did not answer.
pub fn page(text: impl Into<String>, why: impl Into<String>) -> Dialog {
    titled("Install Windows", text, why)
}

pub fn could_not_configure(why: impl Into<String>) -> Dialog {
    let text = "Windows could not finish configuring the system. To attempt to resume configuration, restart the computer.";
    titled("Install Windows", text, why)
}

pub fn restarted_unexpectedly(why: impl Into<String>) -> Dialog {
    let text = "The computer restarted unexpectedly or encountered an unexpected error. Windows installation cannot proceed. \
                To install Windows, click \"OK\" to restart the computer, and then restart the installation.";
    titled("Install Windows", text, why)
}

pub fn invalid_product_key(why: impl Into<String>) -> Dialog {
    let text = "The unattend answer file contains an invalid product key. Either remove the invalid key or provide a valid \
                product key in the unattend answer file to proceed with Windows installation.";
    setup(text, why)
}

/// Not a dialog of Windows: the stand-in lacks what the file asks for and won't pretend.
pub fn not_modelled(why: impl Into<String>) -> Dialog {
    let text = "The answer file uses a setting that this stand-in can't carry out. Windows might.";
    titled("winimg stand-in", text, why)
}

/// Not a dialog of Windows: a program of the installed system asked for something that the stand-in lacks.
pub fn program_not_modelled(why: impl Into<String>) -> Dialog {
    let text = "A program asked for something that this stand-in can't carry out. Windows might.";
    titled("winimg stand-in", text, why)
}

/// A page of the out-of-box experience.
pub fn welcome_page(text: &str, why: impl Into<String>) -> Dialog {
    titled("Windows Server", text, why)
}

/// A bug check.
pub fn stop_code(code: &str, why: impl Into<String>) -> Dialog {
    let text = format!("Your device ran into a problem and needs to restart.\n\nStop code: {code}");
    titled(":(", text, why)
}

/// Settings of a pass that exist but can't be carried out.
pub fn not_applicable(path: &str, pass: &str, component: &str, why: impl Into<String>) -> Dialog {
    let text = format!(
        "Windows could not parse or process the unattend answer file [{path}] for pass [{pass}]. The settings specified in \
         the answer file cannot be applied. The error was detected while processing settings for component \
         [Microsoft-Windows-{component}]."
    );
    titled("Install Windows", text, why)
}
