//! What goes wrong on a host with Hyper-V, and what winimg has to say of it.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use nix::sys::signal::Signal;

use crate::faults::site::{Run, Strike};
use crate::faults::soon::soon;
use crate::hyperv::host::Host;

/// Held while a screen is to be read: tesseract's time is limited, and several at once need it all.
static READING: Mutex<()> = Mutex::new(());

pub struct Row {
    pub name: &'static str,
    faults: String,
    recipe: Vec<(String, String)>,
    changes: Vec<(&'static str, &'static str)>,
    arguments: Vec<&'static str>,
    strike: Option<Strike>,
    status: i32,
    /// In the error's first line.
    cause: &'static str,
    /// Elsewhere in what was said.
    says: Vec<&'static str>,
    /// A machine ran: there is something to look at.
    evidence: bool,
    /// A box is on the screen: it is named soon, and its picture is kept.
    pictured: bool,
    /// It was killed: the next build does what it could not.
    abrupt: bool,
}

pub fn row(name: &'static str) -> Row {
    Row {
        name,
        faults: String::new(),
        recipe: Vec::new(),
        changes: Vec::new(),
        arguments: Vec::new(),
        strike: None,
        status: 0,
        cause: "",
        says: Vec::new(),
        evidence: false,
        pictured: false,
        abrupt: false,
    }
}

impl Row {
    pub fn fault(mut self, toml: &str) -> Self {
        self.faults = toml.into();
        self
    }

    pub fn recipe(mut self, from: &str, to: &str) -> Self {
        self.recipe.push((from.into(), to.into()));
        self
    }

    pub fn pictured(mut self) -> Self {
        self.pictured = true;
        self
    }

    pub fn host(mut self, from: &'static str, to: &'static str) -> Self {
        self.changes.push((from, to));
        self
    }

    fn strike(mut self, when: &'static str, blow: Signal) -> Self {
        self.strike = Some(Strike {
            when,
            blows: vec![(50, blow)],
        });
        self
    }

    pub fn fails(mut self, status: i32, cause: &'static str) -> Self {
        (self.status, self.cause, self.evidence) = (status, cause, true);
        self
    }

    fn refuses(mut self, status: i32, cause: &'static str) -> Self {
        (self.status, self.cause) = (status, cause);
        self
    }

    fn drops(mut self, status: i32) -> Self {
        (self.status, self.abrupt) = (status, true);
        self
    }

    fn says(mut self, text: &'static str) -> Self {
        self.says.push(text);
        self
    }

    /// One line of the table, and what is not as it has to be.
    pub fn carry_out(&self, template: &Host, folder: &Path) -> (String, Vec<String>) {
        let name: String = self
            .name
            .chars()
            .map(|c| if c.is_alphanumeric() { c } else { '-' })
            .collect();
        let dir = folder.join(name);
        let host = template.copy(dir.clone());
        let faults = format!("\n{}\n", self.faults);
        host.machine(&faults, &self.changes);
        host.site.recipe(&self.recipe);
        let _reading = self
            .pictured
            .then(|| READING.lock().unwrap_or_else(PoisonError::into_inner));
        let began = Instant::now();
        let run = host.build(&self.arguments, self.strike.as_ref());
        let seconds = began.elapsed().as_secs_f64();
        let mut wrong = self.judge(&host, &run);
        // The machines of the host are left as they are: the next build has to clean up.
        if self.abrupt {
            host.mend();
            let again = host.build(&[], None);
            if again.status != 0 {
                wrong.push(format!(
                    "the next build ended with {}:\n{}",
                    again.status, again.said
                ));
            }
            let left = host.left();
            if !left.is_empty() {
                wrong.push(format!("left after the next build: {left:?}"));
            }
        }
        if wrong.is_empty() {
            let _ = std::fs::remove_dir_all(&dir);
        }
        let cause = if run.status == 0 {
            "(goes well)"
        } else {
            run.cause()
        };
        (
            format!(
                "{:<62} | {seconds:>5.1} s | {:>3} | {cause}",
                self.name, run.status
            ),
            wrong,
        )
    }

    fn judge(&self, host: &Host, run: &Run) -> Vec<String> {
        let mut wrong = Vec::new();
        if run.status != self.status {
            wrong.push(format!(
                "ended with {} instead of {}:\n{}",
                run.status, self.status, run.said
            ));
        } else if !run.cause().contains(self.cause) {
            wrong.push(format!("the cause is not `{}`:\n{}", self.cause, run.said));
        }
        for text in self.says.iter().filter(|t| !run.said.contains(**t)) {
            wrong.push(format!("it does not say `{text}`:\n{}", run.said));
        }
        let page = ["out/report.html", "out/failure/error.txt"];
        if self.evidence && !page.iter().any(|p| host.site.path(p).exists()) {
            wrong.push("there is no out/report.html".into());
        }
        if self.pictured {
            wrong.extend(soon(&host.site));
            if !host.site.path("out/failure/screens/stopped.png").is_file() {
                wrong.push("there is no picture of what stopped".into());
            }
        }
        if run.said.contains("guest agent") {
            wrong.push(format!("nobody here has a guest agent:\n{}", run.said));
        }
        for secret in host.passwords() {
            if host.site.read("trace.txt").contains(&secret) || run.said.contains(&secret) {
                wrong.push("the password shows".into());
            }
        }
        let left = if self.abrupt {
            host.site.orphans()
        } else {
            host.left()
        };
        if !left.is_empty() {
            wrong.push(format!("left: {left:?}"));
        }
        wrong
    }
}

pub fn rows() -> Vec<Row> {
    let mut all = hosts();
    all.extend(machines());
    all.extend(sessions());
    all.extend(disks());
    all.extend(processes());
    all
}

/// The host can't have machines at all, or not this one.
fn hosts() -> Vec<Row> {
    vec![
        row("Hyper-V's service is stopped")
            .host("[install]", "[host]\nservice = 'Stopped'\n\n[install]")
            .refuses(3, "")
            .says("vmms"),
        row("not elevated")
            .host("[install]", "[host]\nelevated = false\n\n[install]")
            .refuses(3, "")
            .says("elevated"),
        row("the module is missing")
            .host("[install]", "[host]\nmodule = false\n\n[install]")
            .refuses(3, "")
            .says("Hyper-V-PowerShell"),
        row("the hypervisor does not run")
            .host("[install]", "[host]\nhypervisor = false\n\n[install]")
            .refuses(3, "")
            .says("hypervisorlaunchtype"),
        row("a TPM can't be had")
            .recipe("[machine]\n", "[machine]\ntpm = true\n")
            .fault("[[fault]]\nat = {call = 'Set-VMKeyProtector'}\ndo = 'refuses'\nwords = 'The operation cannot be performed. (0x80070057).'")
            .refuses(8, "Hyper-V refused to configure the machine")
            .says("Set-VMKeyProtector -VM $vm -NewLocalKeyProtector"),
        row("a recipe that asks for a network")
            .recipe("[machine]\n", "[machine]\nnetwork = true\n")
            .refuses(2, "winimg builds Hyper-V machines without a network")
            .says("set network = false"),
        row("the host has not enough memory")
            .fault("[[fault]]\nat = {call = 'Start-VM'}\ndo = 'no-memory'")
            .fails(3, "Hyper-V refused to start the machine")
            .says("Not enough memory in the system to start the virtual machine")
            .says("[machine] memory"),
        row("the service stops while Windows is being installed")
            .fault("[[fault]]\nat = {call = 'Get-VM', is = '*-Id*', nth = 2}\ndo = 'service-stops'")
            .fails(8, ""),
    ]
}

/// The machine ends, or stands.
fn machines() -> Vec<Row> {
    vec![
        row("the machine vanishes during Setup")
            .fault("[[fault]]\nat = {call = 'Get-VM', is = '*-Id*', nth = 2}\ndo = 'vm-vanishes'")
            .host("refused = 0", "refused = 0\nstretch_ms = 20000")
            .fails(8, "the VM no longer exists in Hyper-V"),
        row("the machine vanishes in a step")
            .fault("[[fault]]\nat = {call = 'guest:poll', is = '*001.cmd*'}\ndo = 'vm-vanishes'")
            .fails(8, "the VM no longer exists in Hyper-V"),
        row("the host's disk is full during Setup")
            .fault("[[fault]]\nat = {call = 'Get-VM', is = '*-Id*', nth = 2}\ndo = 'disk-full'")
            .host("refused = 0", "refused = 0\nstretch_ms = 20000")
            .fails(3, "the host ran out of disk or memory"),
        row("the host's disk is full in a step")
            .fault("[[fault]]\nat = {call = 'guest:poll', is = '*001.cmd*'}\ndo = 'disk-full'")
            .fails(3, "the host ran out of disk or memory"),
        row("the machine is saved in a step")
            .fault("[[fault]]\nat = {call = 'guest:poll', is = '*001.cmd*'}\ndo = 'saved'")
            .fails(8, "the machine was saved"),
        row("the machine powers off during Setup")
            .fault("[[fault]]\nat = {call = 'Get-VM', is = '*-Id*', nth = 2}\ndo = 'powers-off'")
            .host("refused = 0", "refused = 0\nstretch_ms = 20000")
            .fails(
                6,
                "the machine powered off while Windows was being installed",
            ),
        row("the machine powers off in a step")
            .fault("[[fault]]\nat = {call = 'guest:poll', is = '*001.cmd*'}\ndo = 'powers-off'")
            .fails(7, "the guest went down while the step ran"),
        row("the guest restarts in a step")
            .fault("[[fault]]\nat = {call = 'guest:poll', is = '*001.cmd*'}\ndo = 'restarts'")
            .fails(7, "the guest went down while the step ran"),
        row("Setup stands at a screen")
            .fault("[[fault]]\nat = {call = 'Get-VM', is = '*-Id*'}\ndo = 'stands-still'")
            .host("refused = 0", "refused = 0\nstretch_ms = 20000")
            .fails(6, "Windows Setup is waiting for input"),
        row("Windows takes no session at all")
            .host("refused = 0", "refused = 1000")
            .fails(6, "Windows accepted no PowerShell Direct session within")
            .says("The credential is invalid."),
        row("a checkpoint is made of the machine")
            .fault("[[fault]]\nat = {call = 'guest:poll', is = '*001.cmd*'}\ndo = 'checkpoint'")
            .fails(8, "another program created a checkpoint of the machine"),
    ]
}

/// PowerShell Direct.
fn sessions() -> Vec<Row> {
    vec![
        row("the credential is refused twice, then taken").fault("[[fault]]\nat = {call = 'New-PSSession', times = 2}\ndo = 'credential-invalid'"),
        row("the session ends in a step")
            .fault("[[fault]]\nat = {call = 'guest:poll', is = '*001.cmd*'}\ndo = 'session-ends'"),
        row("the session ends as a step starts")
            .fault("[[fault]]\nat = {call = 'guest:start', is = '*001.cmd*'}\ndo = 'session-ends'"),
        row("a session does not open, and nothing answers")
            .fault("[[fault]]\nat = {call = 'New-PSSession', times = 0}\ndo = 'hangs'")
            .fails(6, "Windows accepted no PowerShell Direct session within 20 s")
            .says("the last attempt failed: PowerShell did not answer Microsoft.PowerShell.Core\\New-PSSession within"),
        row("a session breaks in a step, and the next one does not open")
            .fault("[[fault]]\nat = {call = 'guest:poll', is = '*001.cmd*'}\ndo = 'session-ends'\n[[fault]]\nat = {call = 'New-PSSession', nth = 3}\ndo = 'hangs'")
            .fails(8, "the guest did not answer in time during a command")
            .says("PowerShell did not answer Microsoft.PowerShell.Core\\New-PSSession within 10 s and was killed"),
        row("the guest's clock jumps as a step starts")
            .fault("[[fault]]\nat = {call = 'guest:start', is = '*001.cmd*'}\ndo = 'clock-jumps'\n[[run]]\ncommand = '*\\steps\\001.cmd'\ndelay_ms = 1000"),
        row("the guest's clock jumps, and the program hangs")
            .fault("[[fault]]\nat = {call = 'guest:start', is = '*001.cmd*'}\ndo = 'clock-jumps'\n[[run]]\ncommand = '*\\steps\\001.cmd'\ndelay_ms = 600000")
            .fails(7, "the program did not end within"),
        row("Windows restarts by itself after a feature")
            .recipe("still_limit = \"4s\"", "still_limit = \"4s\"\nsettle_time = \"2s\"")
            .recipe("cmd = \"echo hello\"\ntimeout = \"3s\"", "feature = \"Containers\"")
            .fault("[[fault]]\nat = {call = 'guest:poll', is = '*000-2*'}\ndo = 'restarts'\n[[run]]\ncommand = '*\\dism.exe *'\nexit = 3010"),
        row("the session ends while Windows comes to rest")
            .recipe("still_limit = \"4s\"", "still_limit = \"4s\"\nsettle_time = \"2s\"")
            .recipe("cmd = \"echo hello\"\ntimeout = \"3s\"", "feature = \"Containers\"")
            .fault("[[fault]]\nat = {call = 'guest:poll', is = '*000-2*'}\ndo = 'session-ends'\n[[run]]\ncommand = '*\\dism.exe *'\nexit = 3010"),
        row("servicing does not end")
            .recipe("reboot = {}", "checkpoint = {}")
            .recipe("generalize = {}", "generalize = {}\ntimeout = \"3s\"")
            .fault("[[run]]\ncommand = '*payload.cmd 000-2'\nexit = 1618\noutput = \"servicing is at work: process TiWorker.exe\\r\\n\"")
            .fails(7, "Windows was still busy after")
            .says("servicing is at work: process TiWorker.exe"),
        row("the guest forgets a job")
            .fault("[[fault]]\nat = {call = 'guest:poll', is = '*001.cmd*'}\ndo = 'forgets'")
            .fails(8, "lost the program it ran"),
        row("a program fails")
            .fault("[[run]]\ncommand = '*\\steps\\001.cmd'\nexit = 1603\noutput = 'Fatal error during installation.'")
            .fails(7, "a step failed in the guest")
            .says("Fatal error during installation."),
        row("a program hangs")
            .fault("[[run]]\ncommand = '*\\steps\\001.cmd'\ndelay_ms = 600000")
            .fails(7, "the program did not end within"),
        row("no picture can be had of the screen")
            .fault("[[fault]]\nat = {call = 'script:screen', times = 0}\ndo = 'refuses'\nwords = \"the screen can't be had: code 32775\""),
        row("the disc can't be taken out of the drive")
            .fault("[[fault]]\nat = {call = 'Set-VMDvdDrive', times = 0}\ndo = 'refuses'\nwords = 'The operation cannot be performed while the object is in use.'\nid = 'ObjectInUse'")
            .fails(8, ""),
    ]
}

fn disks() -> Vec<Row> {
    vec![
        row("the disk can't be made")
            .fault("[[fault]]\nat = {call = 'New-VHD'}\ndo = 'locked'")
            .refuses(3, "Hyper-V refused to create the machine's disk")
            .says("0x80070020"),
        row("the disk is not whole")
            .fault("[[fault]]\nat = {call = 'Test-VHD'}\ndo = 'refuses'\nwords = 'The file or directory is corrupted and unreadable. (0x80070570).'")
            .fails(8, "the machine's disk is damaged"),
        row("the disk can't be mounted")
            .fault("[[fault]]\nat = {call = 'Mount-VHD'}\ndo = 'locked'")
            .says("it could not be compacted"),
        row("Optimize-VHD fails")
            .fault("[[fault]]\nat = {call = 'Optimize-VHD'}\ndo = 'refuses'\nwords = 'The request is not supported. (0x80070032).'")
            .says("it could not be compacted"),
        row("the machine can't be removed at first")
            .fault("[[fault]]\nat = {call = 'Remove-VM'}\ndo = 'refuses'\nwords = 'The operation cannot be performed while the object is in use.'\nid = 'ObjectInUse'"),
    ]
}

/// PowerShell itself, and winimg.
fn processes() -> Vec<Row> {
    vec![
        row("PowerShell dies in a step")
            .fault("[[fault]]\nat = {call = 'guest:poll', is = '*001.cmd*'}\ndo = 'dies'"),
        row("PowerShell dies whenever a program is asked for")
            .fault("[[fault]]\nat = {call = 'guest:poll', times = 0}\ndo = 'dies'")
            .fails(8, "the PowerShell process for Hyper-V died"),
        row("PowerShell dies as the machine is made")
            .fault("[[fault]]\nat = {call = 'New-VM'}\ndo = 'dies'")
            .fails(8, "the PowerShell process for Hyper-V died"),
        row("PowerShell says rubbish")
            .fault("[[fault]]\nat = {call = 'Set-VM'}\ndo = 'garbage'")
            .fails(8, "unexpected output of PowerShell"),
        row("PowerShell answers something else")
            .fault("[[fault]]\nat = {call = 'Set-VM'}\ndo = 'other-id'")
            .fails(8, "unexpected output of PowerShell"),
        row("replies come in pieces of 700 bytes")
            .fault("[[fault]]\nat = {call = 'Get-VMHost'}\ndo = 'splits'\nnumber = 700"),
        row("Ctrl-C during Setup")
            .host("refused = 0", "refused = 0\nstretch_ms = 8000")
            .strike("\"phase\":\"install\"", Signal::SIGINT)
            .refuses(130, "interrupted"),
        row("kill -9 during Setup")
            .host("refused = 0", "refused = 0\nstretch_ms = 3000")
            .strike("\"phase\":\"install\"", Signal::SIGKILL)
            .drops(-9),
        row("kill -9 in a step")
            .fault("[[run]]\ncommand = '*\\steps\\001.cmd'\ndelay_ms = 2000")
            .strike("steps\\\\001.cmd", Signal::SIGKILL)
            .drops(-9),
    ]
}
