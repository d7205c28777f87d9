use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use super::*;
use winimg_base::diag::Diagnostics;
use winimg_base::event::{Cancel, SilentSink};
use winimg_machine::guest::GuestDelivery;
use winimg_recipe::plan::BuildPlan;

const WORKER: &str = "servicing is at work: process TiWorker.exe\r\n";
const PENDING: &str = "servicing waits for a restart: RebootPending\r\n";

/// What the guest does next, when it is waited for or asked.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// It goes down while it has to stay up.
    Falls,
    /// It goes down when it is asked.
    FallsAsked,
    /// It answers the question.
    Answers(i64, &'static str),
}

/// A guest with its own clock: a wait takes the time that was asked for, a question takes a second.
struct Scripted {
    began: Instant,
    passed: Duration,
    events: VecDeque<Event>,
    /// What was asked of it, in order.
    asked: Vec<String>,
}

impl Guest for Scripted {
    fn stay_up(&mut self, time: Duration) -> Result<bool> {
        self.asked.push(format!("up {} s", time.as_secs()));
        self.passed += time;
        match self.events.front() {
            Some(Event::Falls) => {
                self.events.pop_front();
                Ok(false)
            }
            _ => Ok(true),
        }
    }

    fn run(&mut self, command: &GuestCommand, output: &mut dyn FnMut(&[u8])) -> Result<GuestExit> {
        assert!(command.arguments.contains(&"000-2".to_owned()));
        self.asked.push("asked".into());
        self.passed += Duration::from_secs(1);
        // The last event repeats.
        let event = match self.events.len() {
            1 => self.events[0],
            _ => self.events.pop_front().expect("an event"),
        };
        match event {
            Event::Answers(code, text) => {
                output(text.as_bytes());
                Ok(GuestExit::Code(code))
            }
            Event::Falls | Event::FallsAsked => Ok(GuestExit::GuestGone),
        }
    }

    fn reboot(&mut self, timeout: Duration) -> Result<()> {
        self.asked
            .push(format!("restart within {} s", timeout.as_secs()));
        Ok(())
    }

    fn wait_for_return(&mut self, timeout: Duration) -> Result<()> {
        self.asked
            .push(format!("back within {} s", timeout.as_secs()));
        Ok(())
    }

    fn now(&self) -> Instant {
        self.began + self.passed
    }

    fn is_there(&mut self) -> Result<bool> {
        unreachable!("`stay_up` answers")
    }

    fn has_restarted(&mut self) -> bool {
        unreachable!("nobody asks")
    }

    fn is_off(&mut self) -> Result<bool> {
        unreachable!("nobody asks")
    }

    fn put(&mut self, _: GuestDelivery<'_>) -> Result<()> {
        unreachable!("nothing is put")
    }

    fn get(&mut self, _: &str, _: usize) -> Result<Option<Vec<u8>>> {
        unreachable!("nothing is read")
    }

    fn shut_down(&mut self) -> Result<()> {
        unreachable!("it goes on")
    }
}

/// The restarts and what was asked of the guest, or the error.
fn settled(steady_first: bool, events: &[Event]) -> (Result<u32>, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = BuildPlan {
        steps: Vec::new(),
        payload: Vec::new(),
        clone_checks: Vec::new(),
        warnings: Diagnostics::default(),
    };
    let engine = StepRunner {
        plan: &plan,
        payload: Path::new("payload.iso"),
        logs: folder.path(),
        slowness: 1,
        sink: Arc::new(SilentSink),
        cancel: Cancel::default(),
        leaves_restarts: false,
    };
    let mut log = StepLog::open(folder.path(), 1, "features").expect("a log");
    let mut guest = Scripted {
        began: Instant::now(),
        passed: Duration::ZERO,
        events: events.iter().copied().collect(),
        asked: Vec::new(),
    };
    let wait = SettleRequest {
        number: 1,
        settle: SettleWait {
            steady: Duration::from_secs(90),
            timeout: Duration::from_secs(1200),
        },
        steady_first,
        reboot_timeout: Duration::from_secs(600),
        log: &mut log,
    };
    let settled = engine.wait_until_idle(&mut guest, wait);
    (settled.map(|settled| settled.restarts), guest.asked)
}

fn well(steady_first: bool, events: &[Event]) -> (u32, Vec<String>) {
    let (settled, asked) = settled(steady_first, events);
    (settled.expect("it comes to rest"), asked)
}

fn text(error: &Error) -> String {
    let text = error.to_string();
    let lines = text.lines().filter(|line| !line.contains("full log"));
    lines.collect::<Vec<_>>().join("\n")
}

const REST: Event = Event::Answers(0, "");

#[test]
fn after_servicing_windows_has_to_stay_up_before_it_is_asked() {
    assert_eq!(
        well(true, &[REST]),
        (0, vec!["up 90 s".into(), "asked".into()])
    );
    assert_eq!(
        well(false, &[REST]),
        (0, vec!["up 0 s".into(), "asked".into()]),
        "before the seal"
    );
}

#[test]
fn a_restart_that_windows_starts_by_itself_is_waited_for() {
    let again = ["up 90 s", "back within 600 s", "up 90 s", "asked"];
    assert_eq!(well(true, &[Event::Falls, REST]), (1, strings(&again)));
    let asked = ["up 0 s", "asked", "back within 600 s", "up 90 s", "asked"];
    assert_eq!(
        well(false, &[Event::FallsAsked, REST]),
        (1, strings(&asked)),
        "the wait begins again, and is the long one"
    );
    let five = [[Event::Falls; 5].as_slice(), &[REST]].concat();
    assert_eq!(well(true, &five).0, 5, "as often as at a start");
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(ToString::to_string).collect()
}

#[test]
fn a_guest_that_never_stays_up_is_an_error() {
    let (error, asked) = settled(true, &[Event::Falls; 9]);
    let backs = asked.iter().filter(|what| what.starts_with("back"));
    assert_eq!(backs.count(), 5);
    assert_eq!(
        text(&error.expect_err("it flaps")).lines().next(),
        Some("Windows does not stay up after servicing")
    );
}

#[test]
fn work_is_waited_for_and_named_when_it_does_not_end() {
    let busy = Event::Answers(1618, WORKER);
    assert_eq!(
        well(true, &[busy, busy, REST]),
        (
            0,
            strings(&["up 90 s", "asked", "up 5 s", "asked", "up 5 s", "asked"])
        )
    );
    let (error, _) = settled(true, &[busy]);
    assert_eq!(
        text(&error.expect_err("it works for ever")),
        "Windows was still busy after 20 min\n  \
         expected: no pending restart and no servicing in progress\n  \
         found: servicing is at work: process TiWorker.exe\n  \
         | > C:\\Windows\\System32\\cmd.exe /d /c C:\\winimg\\payload.cmd 000-2\n  \
         | servicing is at work: process TiWorker.exe\n  \
         cure: give the step a longer `timeout`, or see C:\\Windows\\Logs\\CBS\\CBS.log for what servicing is waiting for"
    );
}

#[test]
fn a_pending_restart_is_carried_out_twice_at_most() {
    let pending = Event::Answers(3010, PENDING);
    assert_eq!(
        well(false, &[pending, REST]),
        (
            1,
            strings(&[
                "up 0 s",
                "asked",
                "restart within 600 s",
                "up 90 s",
                "asked"
            ])
        )
    );
    let (error, asked) = settled(false, &[pending]);
    let restarts = asked.iter().filter(|what| what.starts_with("restart"));
    assert_eq!(restarts.count(), 2);
    let error = text(&error.expect_err("it is pending for ever"));
    assert!(
        error.contains("found: servicing waits for a restart: RebootPending"),
        "{error}"
    );
}

#[test]
fn a_question_that_cannot_be_asked_is_an_error() {
    let (error, _) = settled(
        false,
        &[Event::Answers(9, "no drive holds winimg.payload\r\n")],
    );
    let error = text(&error.expect_err("no disc"));
    assert!(
        error.starts_with("cannot query whether Windows is idle\n")
            && error.contains("found: exit code 9")
            && error.contains("no drive holds winimg.payload"),
        "{error}"
    );
}
