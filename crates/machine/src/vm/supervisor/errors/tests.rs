use super::*;

fn seen(purpose: MachinePurpose, restarts: u32) -> MachineObservation {
    MachineObservation {
        purpose,
        elapsed: Duration::from_secs(95),
        still_since: Some(Duration::from_secs(50)),
        restarts,
        started: true,
        screenshot: Some("/run/w/screens/stopped.png".into()),
        ..MachineObservation::default()
    }
}

fn about(platform: HypervisorKind, retries: u32) -> WatchContext {
    WatchContext {
        platform,
        firmware: Duration::from_secs(120),
        retries,
    }
}

fn verdicts() -> [MachineVerdict; 7] {
    [
        MachineVerdict::PoweredOff,
        MachineVerdict::RestartLoop { restarts: 6 },
        MachineVerdict::NoBootDevice,
        MachineVerdict::FirmwareLate,
        MachineVerdict::DiskFailed,
        MachineVerdict::Stalled {
            since: Duration::from_secs(50),
        },
        MachineVerdict::Hangs {
            since: Duration::from_secs(50),
        },
    ]
}

/// Returns all messages for these platforms and purposes.
fn messages(platforms: &[HypervisorKind], purposes: &[MachinePurpose]) -> Vec<String> {
    let mut texts = Vec::new();
    for (platform, purpose) in platforms
        .iter()
        .flat_map(|p| purposes.iter().map(move |q| (p, q)))
    {
        for (verdict, restarts) in verdicts().iter().flat_map(|v| [(v, 0), (v, 2), (v, 5)]) {
            let rendered =
                explain_verdict(verdict, &seen(*purpose, restarts), &about(*platform, 0));
            texts.push(rendered.expect("an error").to_string());
        }
    }
    texts
}

#[test]
fn an_installed_windows_is_reported_without_a_word_of_setup() {
    let purposes = [MachinePurpose::Boot, MachinePurpose::Steps];
    for text in messages(&[HypervisorKind::Qemu, HypervisorKind::HyperV], &purposes) {
        assert!(
            !text.contains("Setup") && !text.contains("answer file"),
            "{text}"
        );
    }
}

#[test]
fn nobody_looks_for_a_guest_agent_under_hyper_v() {
    let purposes = [
        MachinePurpose::Install,
        MachinePurpose::Boot,
        MachinePurpose::Steps,
    ];
    for text in messages(&[HypervisorKind::HyperV], &purposes) {
        assert!(
            !text.contains("guest agent") && !text.contains("QEMU-GA"),
            "{text}"
        );
    }
}

#[test]
fn a_clone_that_restarts_for_ever_is_reported_with_what_asks_for_it() {
    let looping = MachineVerdict::RestartLoop { restarts: 9 };
    let rendered = explain_verdict(
        &looping,
        &seen(MachinePurpose::Clone, 9),
        &about(HypervisorKind::Qemu, 0),
    );
    assert_eq!(
        rendered.expect("an error").to_string(),
        "Windows keeps restarting\n  at: /run/w/screens/stopped.png\n  found: after 9 restarts within 1 min 35 s\n  \
         | likely: a command of the specialize pass, or the platform's agent, fails and requests a restart each time\n  \
         | likely: a stop error (blue screen), after which Windows restarts by itself\n  \
         cure: see the other screenshots in the same folder: they show the screen before each restart"
    );
}

#[test]
fn a_start_in_a_loop_is_reported_with_what_it_does_not_do() {
    let hangs = MachineVerdict::Hangs {
        since: Duration::from_secs(50),
    };
    let rendered = explain_verdict(
        &hangs,
        &seen(MachinePurpose::Clone, 1),
        &about(HypervisorKind::Qemu, 0),
    );
    assert_eq!(
        rendered.expect("an error").to_string(),
        "Windows hangs before it draws anything\n  at: /run/w/screens/stopped.png\n  \
         expected: Windows to read from a drive or draw something\n  \
         found: processor busy, no drive activity and no screen output for 45 s (since 50 s after power-on, after 1 restart)\n  \
         cure: build again; if it happens every time, the machine's CPU model or firmware is not compatible with this Windows"
    );
}

#[test]
fn what_does_not_boot_is_told_apart() {
    let fact = |purpose, restarts, retries| {
        let about = about(HypervisorKind::Qemu, retries);
        let rendered = explain_verdict(
            &MachineVerdict::NoBootDevice,
            &seen(purpose, restarts),
            &about,
        );
        rendered.expect("an error").fact().to_string()
    };
    let nothing = "the firmware finds nothing to boot";
    assert_eq!(fact(MachinePurpose::Install, 0, 0), nothing);
    let prompt = "the install disc's key prompt was not answered in 6 attempts";
    assert_eq!(fact(MachinePurpose::Install, 0, 5), prompt);
    let setup = "the disk does not boot after Windows Setup's restart";
    assert_eq!(fact(MachinePurpose::Install, 1, 0), setup);
    let no_windows = "the firmware finds no Windows on the disk";
    assert_eq!(fact(MachinePurpose::Boot, 0, 0), no_windows);
    let again = "the disk does not boot after Windows restarted";
    assert_eq!(fact(MachinePurpose::Boot, 1, 0), again);
    assert_eq!(fact(MachinePurpose::Steps, 0, 0), again);
    assert_eq!(fact(MachinePurpose::Clone, 0, 0), no_windows);
    assert_eq!(fact(MachinePurpose::Clone, 1, 0), again);
}

#[test]
fn what_secure_boot_refuses_is_named() {
    let message = |purpose, restarts| {
        let seen = MachineObservation {
            refused: true,
            failed_options: vec!["failed to load Boot0001: Access Denied".into()],
            ..seen(purpose, restarts)
        };
        let rendered = explain_verdict(
            &MachineVerdict::NoBootDevice,
            &seen,
            &about(HypervisorKind::Qemu, 0),
        );
        rendered.expect("an error").to_string()
    };
    assert_eq!(
        message(MachinePurpose::Install, 0),
        "Secure Boot rejects the install disc's boot loader: it is not signed by any of the firmware's keys\n  \
         at: /run/w/screens/stopped.png\n  found: 1 min 35 s after power-on, before the first restart\n  \
         | failed to load Boot0001: Access Denied\n  \
         cure: use a medium with Microsoft's own boot loader, or set secure_boot = false"
    );
    let disk = "Secure Boot rejects the boot loader on the disk: it is not signed by any of the firmware's keys\n";
    for (purpose, restarts) in [
        (MachinePurpose::Install, 1),
        (MachinePurpose::Boot, 0),
        (MachinePurpose::Clone, 0),
    ] {
        let message = message(purpose, restarts);
        assert!(message.starts_with(disk), "{message}");
    }
}

#[test]
fn a_guest_that_came_too_late_says_what_it_was_told() {
    let late = GuestTimeout {
        fact: "Windows accepted no PowerShell Direct session",
        found: Some("heartbeat OkApplicationsUnknown".into()),
        lines: vec!["the last attempt failed: The credential is invalid.".into()],
    };
    let rendered = too_late(
        &seen(MachinePurpose::Boot, 2),
        Duration::from_secs(600),
        late,
    );
    assert_eq!(
        rendered.to_string(),
        "Windows accepted no PowerShell Direct session within 10 min 0 s\n  \
         at: /run/w/screens/stopped.png\n  \
         found: heartbeat OkApplicationsUnknown, after 2 restarts\n  \
         | the last attempt failed: The credential is invalid.\n  \
         cure: check the screenshot; if Windows is still busy, set a longer timeout in [setup]"
    );
    let late = GuestTimeout {
        fact: "the guest agent did not answer",
        ..GuestTimeout::default()
    };
    let rendered = too_late(
        &seen(MachinePurpose::Install, 0),
        Duration::from_secs(60),
        late,
    );
    let text = rendered.to_string();
    assert!(
        text.contains("found: the machine is still working, before the first restart\n"),
        "{text}"
    );
}
