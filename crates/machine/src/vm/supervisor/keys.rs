//! When to press a key at the CD's prompt, and when to start over.
//!
//! A key is pressed only after the firmware said that it starts the CD, only until the CD is read in earnest (where the firmware says nothing:
//! only in the machine's first seconds), and never after Setup's first restart: the prompt that follows it must run out, or Setup would begin again. The key is `up`, which does nothing
//! where it is not waited for (Enter or Esc would open Setup's question whether to quit). Pure: times come from the caller.

use std::time::Duration;

use crate::vm::driver::Line;

/// Bytes read from the CD beyond which the loader has gone on: the firmware's own reads and the loader are far below.
const READ_IN_EARNEST: u64 = 4 << 20;
const EVERY: Duration = Duration::from_millis(250);
const AT_MOST: Duration = Duration::from_secs(8);
/// Where the firmware says nothing: the prompt comes seconds after power-on and waits for five; fast hosts show it early, evaluation media
/// late.
const BLIND: Duration = Duration::from_secs(15);
const BLIND_EVERY: Duration = Duration::from_millis(500);
/// Starting over when the prompt was missed.
const RETRIES: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Nothing,
    PressUp,
    /// The prompt was missed: reset the machine.
    StartOver,
    /// Nothing boots, and starting over does not help.
    GiveUp,
}

/// The prompt's state over one machine's life.
#[derive(Debug)]
pub struct Keys {
    prompts: bool,
    /// No log says when the prompt comes: when a key was pressed last.
    blind: Option<Option<Duration>>,
    pressing: Option<Pressing>,
    pub retries: u32,
    /// The CD's loader was started since power-on or the last reset.
    disc_started: bool,
    nothing_boots: bool,
    over: bool,
}

#[derive(Debug)]
struct Pressing {
    since: Duration,
    read_before: u64,
    last: Option<Duration>,
}

impl Keys {
    /// `prompts`: whether the medium asks at all.
    pub fn new(prompts: bool) -> Self {
        Self {
            prompts,
            blind: None,
            pressing: None,
            retries: 0,
            disc_started: false,
            nothing_boots: false,
            over: false,
        }
    }

    /// The same for a firmware whose log nobody sees.
    pub fn blind(prompts: bool) -> Self {
        Self {
            blind: Some(None),
            ..Self::new(prompts)
        }
    }

    /// The firmware's log went on. `disc_read`: bytes read from the install CD so far.
    pub fn saw(&mut self, line: &Line, now: Duration, disc_read: u64) {
        // A prompt on a medium that was thought to have none is answered all the same.
        self.prompts |= *line == Line::KeyPrompt;
        self.disc_started |= matches!(line, Line::DiscStarts | Line::KeyPrompt);
        match line {
            Line::DiscStarts | Line::KeyPrompt if self.prompts && !self.over => {
                self.nothing_boots = false;
                self.pressing.get_or_insert(Pressing {
                    since: now,
                    read_before: disc_read,
                    last: None,
                });
            }
            Line::DiskStarts | Line::Failed(_) | Line::Refused(_) => self.pressing = None,
            Line::NothingBoots => {
                self.pressing = None;
                self.nothing_boots = true;
            }
            Line::DiscStarts | Line::KeyPrompt => {}
        }
    }

    /// The guest restarted by itself: from here on no key is ever pressed.
    pub fn guest_restarted(&mut self) {
        self.over = true;
        self.pressing = None;
        self.nothing_boots = false;
    }

    /// Whether `tick` wants to know how much of the CD was read.
    pub fn is_pressing(&self) -> bool {
        self.pressing.is_some()
    }

    pub fn tick(&mut self, now: Duration, disc_read: u64) -> Act {
        if let Some(last) = &mut self.blind {
            let rests = last.is_some_and(|last| now.saturating_sub(last) < BLIND_EVERY);
            if !self.prompts || self.over || now >= BLIND || rests {
                return Act::Nothing;
            }
            *last = Some(now);
            return Act::PressUp;
        }
        if self.nothing_boots {
            return self.nothing_boots();
        }
        let Some(pressing) = &mut self.pressing else {
            return Act::Nothing;
        };
        let gone_on = disc_read.saturating_sub(pressing.read_before) > READ_IN_EARNEST;
        if gone_on || now.saturating_sub(pressing.since) > AT_MOST {
            self.pressing = None;
            // Once Setup is being read, no key may reach it any more.
            self.over |= gone_on;
            return Act::Nothing;
        }
        if pressing
            .last
            .is_some_and(|last| now.saturating_sub(last) < EVERY)
        {
            return Act::Nothing;
        }
        pressing.last = Some(now);
        Act::PressUp
    }

    fn nothing_boots(&mut self) -> Act {
        // A disc that the firmware could not even start does not get better by starting over.
        if !self.prompts || !self.disc_started || self.over || self.retries >= RETRIES {
            return Act::GiveUp;
        }
        self.nothing_boots = false;
        self.disc_started = false;
        self.retries += 1;
        Act::StartOver
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [u64; 0] = [];

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// Ticks every 50 ms from `from` to `to`; gives the times at which keys were pressed.
    fn presses(keys: &mut Keys, from: u64, to: u64, disc_read: u64) -> Vec<u64> {
        (from..to)
            .step_by(50)
            .filter(|&t| keys.tick(ms(t), disc_read) == Act::PressUp)
            .collect()
    }

    #[test]
    fn no_key_before_the_disc_starts_and_none_after_it_is_read() {
        let mut keys = Keys::new(true);
        assert_eq!(presses(&mut keys, 0, 3000, 0), NONE);
        keys.saw(&Line::DiscStarts, ms(3000), 1000);
        assert_eq!(
            presses(&mut keys, 3000, 4000, 2000),
            [3000, 3250, 3500, 3750]
        );
        keys.saw(&Line::KeyPrompt, ms(4000), 2000);
        assert_eq!(presses(&mut keys, 4000, 4500, 2000), [4000, 4250]);
        assert_eq!(presses(&mut keys, 4500, 9000, 8 << 20), NONE);
        keys.saw(&Line::DiscStarts, ms(9000), 8 << 20);
        assert_eq!(presses(&mut keys, 9000, 12000, 8 << 20), NONE);
    }

    #[test]
    fn without_a_log_keys_are_pressed_in_the_first_seconds_alone() {
        let pressed = presses(&mut Keys::blind(true), 0, 60_000, 0);
        assert_eq!(pressed[..3], [0, 500, 1000]);
        assert_eq!((pressed.len(), pressed.last()), (30, Some(&14_500)));
        assert_eq!(presses(&mut Keys::blind(false), 0, 60_000, 0), NONE);
        let mut keys = Keys::blind(true);
        keys.guest_restarted();
        assert_eq!(presses(&mut keys, 0, 60_000, 0), NONE);
    }

    #[test]
    fn keys_end_after_eight_seconds_and_after_the_first_restart() {
        let mut keys = Keys::new(true);
        keys.saw(&Line::DiscStarts, ms(0), 0);
        assert_eq!(presses(&mut keys, 0, 60_000, 0).last(), Some(&8000));
        let mut keys = Keys::new(true);
        keys.guest_restarted();
        keys.saw(&Line::KeyPrompt, ms(0), 0);
        assert_eq!(presses(&mut keys, 0, 9000, 0), NONE);
        keys.saw(&Line::NothingBoots, ms(9000), 0);
        assert_eq!(keys.tick(ms(9000), 0), Act::GiveUp);
    }

    #[test]
    fn a_missed_prompt_starts_over_five_times() {
        let mut keys = Keys::new(true);
        let mut acts = Vec::new();
        for round in 0..7 {
            keys.saw(&Line::DiscStarts, ms(round * 10_000), 0);
            keys.saw(
                &Line::Failed("Time out".into()),
                ms(round * 10_000 + 5000),
                0,
            );
            assert_eq!(
                presses(&mut keys, round * 10_000 + 5000, round * 10_000 + 9000, 0),
                NONE
            );
            keys.saw(&Line::NothingBoots, ms(round * 10_000 + 9000), 0);
            acts.push(keys.tick(ms(round * 10_000 + 9000), 0));
        }
        assert_eq!(acts[..5], [Act::StartOver; 5]);
        assert_eq!(acts[5..], [Act::GiveUp; 2]);
    }

    #[test]
    fn a_medium_without_prompt_gets_no_key_and_no_retry() {
        let mut keys = Keys::new(false);
        keys.saw(&Line::DiscStarts, ms(0), 0);
        assert_eq!(presses(&mut keys, 0, 9000, 0), NONE);
        keys.saw(&Line::NothingBoots, ms(9000), 0);
        assert_eq!(keys.tick(ms(9000), 0), Act::GiveUp);
    }

    #[test]
    fn a_prompt_that_was_not_expected_is_answered() {
        let mut keys = Keys::new(false);
        keys.saw(&Line::DiscStarts, ms(0), 0);
        keys.saw(&Line::KeyPrompt, ms(100), 0);
        assert_eq!(presses(&mut keys, 100, 500, 0), [100, 350]);
    }

    #[test]
    fn a_disc_that_does_not_start_is_no_missed_prompt() {
        let mut keys = Keys::new(true);
        keys.saw(&Line::Failed("failed to load".into()), ms(0), 0);
        keys.saw(&Line::NothingBoots, ms(0), 0);
        assert_eq!((keys.tick(ms(0), 0), keys.retries), (Act::GiveUp, 0));
    }
}
