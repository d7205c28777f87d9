//! Text of the live line: the phase, its elapsed time, its last duration, its progress, and its
//! step or transfer.
//!
//! Only builds text; the terminal shows it and truncates it to its width.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressState, ProgressStyle};

use super::transfer_rate::RateMeter;
use winimg_base::event::{Event, Phase};
use winimg_base::text::format_duration;

/// Progress of the work, from its events so far.
#[derive(Debug, Default)]
pub struct LiveProgress {
    phase: Option<RunningPhase>,
    /// `[2/41] containerd`
    step: Option<String>,
    paces: HashMap<String, RateMeter>,
    text: String,
}

#[derive(Clone, Copy, Debug)]
struct RunningPhase {
    phase: Phase,
    since: Instant,
    last_seconds: Option<f64>,
}

impl LiveProgress {
    /// Processes an event that happened at `now`; returns true if the live line has changed.
    pub fn update(&mut self, event: &Event, now: Instant) -> bool {
        let text = match event {
            Event::PhaseStarted {
                phase,
                last_seconds,
            } => {
                self.phase = Some(RunningPhase {
                    phase: *phase,
                    since: now,
                    last_seconds: *last_seconds,
                });
                (self.step, self.text) = (None, String::new());
                self.paces.clear();
                return true;
            }
            Event::PhaseFinished { .. } => {
                *self = Self::default();
                return false;
            }
            Event::Progress { phase, text } => match self.phase {
                Some(running) if running.phase == *phase => text.clone(),
                _ => format!("{phase}: {text}"),
            },
            Event::Bytes { what, done, total } => {
                let pace = self.paces.entry(what.clone()).or_default();
                pace.add(now, *done);
                render_transfer(what, *done, *total, pace)
            }
            Event::StepStarted { step, of, name, .. } => {
                self.step = Some(format!("[{step}/{of}] {name}"));
                String::new()
            }
            Event::StepFinished { .. } => {
                self.step = None;
                String::new()
            }
            Event::Output { text, .. } => match find_last_line(text) {
                Some(line) => line.to_owned(),
                None => return false,
            },
            _ => return false,
        };
        self.text = text;
        true
    }

    /// Returns the text after the phase and its time.
    pub fn render_message(&self) -> String {
        let step = self.step.iter().map(String::as_str);
        let text = Some(self.text.as_str()).filter(|text| !text.is_empty());
        step.chain(text).collect::<Vec<_>>().join(": ")
    }

    /// Creates the line at the bottom. Its clock updates by itself.
    pub fn create_bar(&self) -> ProgressBar {
        let bar = ProgressBar::new_spinner();
        let running = self.phase;
        if let Ok(style) = ProgressStyle::with_template("{spinner} {head}{wide_msg}") {
            bar.set_style(style.with_key(
                "head",
                move |state: &ProgressState, w: &mut dyn std::fmt::Write| {
                    if let Some(running) = running {
                        let text =
                            render_head(running.phase, state.elapsed(), running.last_seconds);
                        let _ = w.write_str(&text);
                    }
                },
            ));
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        let since = self.phase.map(|running| running.since.elapsed());
        bar.with_elapsed(since.unwrap_or_default())
    }
}

/// Renders the phase and its time, such as `install 12:40, last time 38:00: `.
fn render_head(phase: Phase, elapsed: Duration, last_seconds: Option<f64>) -> String {
    let last = last_seconds
        .map(|last| format!(", last time {}", format_clock(last as u64)))
        .unwrap_or_default();
    format!("{phase} {}{last}: ", format_clock(elapsed.as_secs()))
}

/// Formats seconds as `0:07` or `1:02:03`.
fn format_clock(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// Returns the last line of an output that is not blank.
fn find_last_line(text: &str) -> Option<&str> {
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.map(str::trim_end)
}

/// Renders a transfer, such as `kubelet: 12.00 MiB of 51.36 MiB (23 %), 4.00 MiB/s, 10 s left`.
fn render_transfer(what: &str, done: u64, total: Option<u64>, pace: &RateMeter) -> String {
    let total = total.filter(|total| *total > 0);
    let mut text = match total {
        Some(total) => format!(
            "{what}: {} of {} ({} %)",
            HumanBytes(done),
            HumanBytes(total),
            u128::from(done) * 100 / u128::from(total)
        ),
        None => format!("{what}: {}", HumanBytes(done)),
    };
    if let Some(rate) = pace.compute_rate() {
        text += &format!(", {}/s", HumanBytes(rate as u64));
    }
    let left = total.and_then(|total| pace.estimate_seconds_left(total));
    if let Some(left) = left.filter(|left| *left >= 1.0) {
        text += &format!(
            ", {} left",
            format_duration(left.round()).replace(".0 s", " s")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(events: &[(u64, Event)]) -> LiveProgress {
        let start = Instant::now();
        let mut progress = LiveProgress::default();
        for (second, event) in events {
            progress.update(event, start + Duration::from_secs(*second));
        }
        progress
    }

    fn bytes(what: &str, done: u64, total: Option<u64>) -> Event {
        let what = what.into();
        Event::Bytes { what, done, total }
    }

    #[test]
    fn the_line_says_where_the_work_is() {
        let begun = |phase| Event::PhaseStarted {
            phase,
            last_seconds: None,
        };
        let progress = |phase, text: &str| Event::Progress {
            phase,
            text: text.into(),
        };
        let step = Event::StepStarted {
            step: 2,
            of: 41,
            name: "containerd".into(),
            place: "r:1:1".parse().expect("a place"),
        };
        let output = |text: &str| Event::Output {
            step: 2,
            text: text.into(),
        };
        let mib = 1 << 20;
        for (events, line) in [
            (vec![(0, begun(Phase::Install))], ""),
            (
                vec![
                    (0, begun(Phase::Install)),
                    (1, progress(Phase::Install, "Windows Setup (restart 1)")),
                ],
                "Windows Setup (restart 1)",
            ),
            // The machine's own word under another phase.
            (
                vec![
                    (0, begun(Phase::Provision)),
                    (1, progress(Phase::Boot, "the disk boots")),
                ],
                "boot: the disk boots",
            ),
            (
                vec![(0, begun(Phase::Provision)), (1, step.clone())],
                "[2/41] containerd",
            ),
            (
                vec![
                    (0, begun(Phase::Provision)),
                    (1, step),
                    (2, output("one\r\ntwo  \r\n\r\n")),
                    (2, output("\r\n")),
                ],
                "[2/41] containerd: two",
            ),
            (
                vec![(0, bytes("kubelet", 4 * mib, Some(12 * mib)))],
                "kubelet: 4.00 MiB of 12.00 MiB (33 %)",
            ),
            (
                vec![
                    (0, bytes("kubelet", 0, Some(12 * mib))),
                    (2, bytes("kubelet", 4 * mib, Some(12 * mib))),
                ],
                "kubelet: 4.00 MiB of 12.00 MiB (33 %), 2.00 MiB/s, 4 s left",
            ),
            (
                vec![
                    (0, bytes("media.iso", 0, None)),
                    (2, bytes("media.iso", mib, None)),
                ],
                "media.iso: 1.00 MiB, 512.00 KiB/s",
            ),
        ] {
            assert_eq!(after(&events).render_message(), line);
        }
    }

    #[test]
    fn the_phase_has_its_time_and_that_of_the_last_build() {
        let seconds = Duration::from_secs;
        assert_eq!(
            render_head(Phase::Install, seconds(7), None),
            "install 0:07: "
        );
        assert_eq!(
            render_head(Phase::Install, seconds(760), Some(3723.4)),
            "install 12:40, last time 1:02:03: "
        );
    }
}
