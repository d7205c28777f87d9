//! Decides when to press a key at the CD's boot prompt, and when to reset and try again.
//!
//! Keys are pressed from the firmware's report that it starts the CD until the CD is being read
//! (without a firmware log: only in the first seconds), and never after Setup's first restart: the
//! prompt must time out then, or Setup would start over. The key is `up`, which is harmless where
//! no key is expected (Enter or Esc would open Setup's question whether to quit). Pure: times come
//! from the caller.

use std::time::Duration;

use crate::vm::supervisor::driver::FirmwareEvent;

/// Bytes read from the CD that show that the loader is past the prompt; firmware and loader read
/// far less.
const READ_IN_EARNEST: u64 = 4 << 20;
const EVERY: Duration = Duration::from_millis(250);
const AT_MOST: Duration = Duration::from_secs(8);
/// Time in which keys are pressed without a firmware log. The prompt appears seconds after power-on
/// and lasts five seconds: early on fast hosts, late with evaluation media.
const BLIND: Duration = Duration::from_secs(15);
const BLIND_EVERY: Duration = Duration::from_millis(500);
/// Resets after a missed prompt.
const RETRIES: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAction {
    Nothing,
    PressUp,
    /// The prompt was missed: reset the machine.
    StartOver,
    /// Nothing boots, and a reset does not help.
    GiveUp,
}

/// State of the boot prompt over the life of a machine.
#[derive(Debug)]
pub struct PromptKeys {
    prompts: bool,
    /// `Some` without a firmware log; contains the time of the last key press.
    blind: Option<Option<Duration>>,
    pressing: Option<KeyPresses>,
    pub retries: u32,
    /// The CD's loader has started since power-on or the last reset.
    disc_started: bool,
    nothing_boots: bool,
    over: bool,
}

#[derive(Debug)]
struct KeyPresses {
    since: Duration,
    read_before: u64,
    last: Option<Duration>,
}

impl PromptKeys {
    /// `prompts` is true if the medium shows a prompt.
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

    /// Creates the state for a firmware without a log.
    pub fn new_without_log(prompts: bool) -> Self {
        Self {
            blind: Some(None),
            ..Self::new(prompts)
        }
    }

    /// Processes a firmware event. `disc_read` is the number of bytes read from the install CD so
    /// far.
    pub fn observe(&mut self, line: &FirmwareEvent, now: Duration, disc_read: u64) {
        // An unexpected prompt is answered as well.
        self.prompts |= *line == FirmwareEvent::KeyPrompt;
        self.disc_started |= matches!(line, FirmwareEvent::DiscStarts | FirmwareEvent::KeyPrompt);
        match line {
            FirmwareEvent::DiscStarts | FirmwareEvent::KeyPrompt if self.prompts && !self.over => {
                self.nothing_boots = false;
                self.pressing.get_or_insert(KeyPresses {
                    since: now,
                    read_before: disc_read,
                    last: None,
                });
            }
            FirmwareEvent::DiskStarts | FirmwareEvent::Failed(_) | FirmwareEvent::Refused(_) => {
                self.pressing = None
            }
            FirmwareEvent::NothingBoots => {
                self.pressing = None;
                self.nothing_boots = true;
            }
            FirmwareEvent::DiscStarts | FirmwareEvent::KeyPrompt => {}
        }
    }

    /// Called when the guest has restarted: from now on no key is pressed.
    pub fn guest_restarted(&mut self) {
        self.over = true;
        self.pressing = None;
        self.nothing_boots = false;
    }

    /// Returns true if `next_action` needs the current number of bytes read from the CD.
    pub fn is_pressing(&self) -> bool {
        self.pressing.is_some()
    }

    pub fn next_action(&mut self, now: Duration, disc_read: u64) -> KeyAction {
        if let Some(last) = &mut self.blind {
            let rests = last.is_some_and(|last| now.saturating_sub(last) < BLIND_EVERY);
            if !self.prompts || self.over || now >= BLIND || rests {
                return KeyAction::Nothing;
            }
            *last = Some(now);
            return KeyAction::PressUp;
        }
        if self.nothing_boots {
            return self.nothing_boots();
        }
        let Some(pressing) = &mut self.pressing else {
            return KeyAction::Nothing;
        };
        let gone_on = disc_read.saturating_sub(pressing.read_before) > READ_IN_EARNEST;
        if gone_on || now.saturating_sub(pressing.since) > AT_MOST {
            self.pressing = None;
            // Once Setup is being read, it must not receive keys.
            self.over |= gone_on;
            return KeyAction::Nothing;
        }
        if pressing
            .last
            .is_some_and(|last| now.saturating_sub(last) < EVERY)
        {
            return KeyAction::Nothing;
        }
        pressing.last = Some(now);
        KeyAction::PressUp
    }

    fn nothing_boots(&mut self) -> KeyAction {
        // A reset does not help if the firmware could not even start the disc.
        if !self.prompts || !self.disc_started || self.over || self.retries >= RETRIES {
            return KeyAction::GiveUp;
        }
        self.nothing_boots = false;
        self.disc_started = false;
        self.retries += 1;
        KeyAction::StartOver
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
    fn presses(keys: &mut PromptKeys, from: u64, to: u64, disc_read: u64) -> Vec<u64> {
        (from..to)
            .step_by(50)
            .filter(|&t| keys.next_action(ms(t), disc_read) == KeyAction::PressUp)
            .collect()
    }

    #[test]
    fn no_key_before_the_disc_starts_and_none_after_it_is_read() {
        let mut keys = PromptKeys::new(true);
        assert_eq!(presses(&mut keys, 0, 3000, 0), NONE);
        keys.observe(&FirmwareEvent::DiscStarts, ms(3000), 1000);
        assert_eq!(
            presses(&mut keys, 3000, 4000, 2000),
            [3000, 3250, 3500, 3750]
        );
        keys.observe(&FirmwareEvent::KeyPrompt, ms(4000), 2000);
        assert_eq!(presses(&mut keys, 4000, 4500, 2000), [4000, 4250]);
        assert_eq!(presses(&mut keys, 4500, 9000, 8 << 20), NONE);
        keys.observe(&FirmwareEvent::DiscStarts, ms(9000), 8 << 20);
        assert_eq!(presses(&mut keys, 9000, 12000, 8 << 20), NONE);
    }

    #[test]
    fn without_a_log_keys_are_pressed_in_the_first_seconds_alone() {
        let pressed = presses(&mut PromptKeys::new_without_log(true), 0, 60_000, 0);
        assert_eq!(pressed[..3], [0, 500, 1000]);
        assert_eq!((pressed.len(), pressed.last()), (30, Some(&14_500)));
        assert_eq!(
            presses(&mut PromptKeys::new_without_log(false), 0, 60_000, 0),
            NONE
        );
        let mut keys = PromptKeys::new_without_log(true);
        keys.guest_restarted();
        assert_eq!(presses(&mut keys, 0, 60_000, 0), NONE);
    }

    #[test]
    fn keys_end_after_eight_seconds_and_after_the_first_restart() {
        let mut keys = PromptKeys::new(true);
        keys.observe(&FirmwareEvent::DiscStarts, ms(0), 0);
        assert_eq!(presses(&mut keys, 0, 60_000, 0).last(), Some(&8000));
        let mut keys = PromptKeys::new(true);
        keys.guest_restarted();
        keys.observe(&FirmwareEvent::KeyPrompt, ms(0), 0);
        assert_eq!(presses(&mut keys, 0, 9000, 0), NONE);
        keys.observe(&FirmwareEvent::NothingBoots, ms(9000), 0);
        assert_eq!(keys.next_action(ms(9000), 0), KeyAction::GiveUp);
    }

    #[test]
    fn a_missed_prompt_starts_over_five_times() {
        let mut keys = PromptKeys::new(true);
        let mut acts = Vec::new();
        for round in 0..7 {
            keys.observe(&FirmwareEvent::DiscStarts, ms(round * 10_000), 0);
            keys.observe(
                &FirmwareEvent::Failed("Time out".into()),
                ms(round * 10_000 + 5000),
                0,
            );
            assert_eq!(
                presses(&mut keys, round * 10_000 + 5000, round * 10_000 + 9000, 0),
                NONE
            );
            keys.observe(&FirmwareEvent::NothingBoots, ms(round * 10_000 + 9000), 0);
            acts.push(keys.next_action(ms(round * 10_000 + 9000), 0));
        }
        assert_eq!(acts[..5], [KeyAction::StartOver; 5]);
        assert_eq!(acts[5..], [KeyAction::GiveUp; 2]);
    }

    #[test]
    fn a_medium_without_prompt_gets_no_key_and_no_retry() {
        let mut keys = PromptKeys::new(false);
        keys.observe(&FirmwareEvent::DiscStarts, ms(0), 0);
        assert_eq!(presses(&mut keys, 0, 9000, 0), NONE);
        keys.observe(&FirmwareEvent::NothingBoots, ms(9000), 0);
        assert_eq!(keys.next_action(ms(9000), 0), KeyAction::GiveUp);
    }

    #[test]
    fn a_prompt_that_was_not_expected_is_answered() {
        let mut keys = PromptKeys::new(false);
        keys.observe(&FirmwareEvent::DiscStarts, ms(0), 0);
        keys.observe(&FirmwareEvent::KeyPrompt, ms(100), 0);
        assert_eq!(presses(&mut keys, 100, 500, 0), [100, 350]);
    }

    #[test]
    fn a_disc_that_does_not_start_is_no_missed_prompt() {
        let mut keys = PromptKeys::new(true);
        keys.observe(&FirmwareEvent::Failed("failed to load".into()), ms(0), 0);
        keys.observe(&FirmwareEvent::NothingBoots, ms(0), 0);
        assert_eq!(
            (keys.next_action(ms(0), 0), keys.retries),
            (KeyAction::GiveUp, 0)
        );
    }
}
