//! The machine dies, its agent dies, or both only seem to.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};

use crate::end_to_end::program::is;
use crate::faults_qemu::cases::{Case, EVERYTHING, INSTALLATION};
use crate::faults_qemu::scene::{LIMIT, Scene, shows};

/// Longer than the step's own limit, however slow the host is.
const LONG: &str =
    "[[steps]]\nname = \"waits\"\ntimeout = \"4 s\"\ncmd = \"ping -n 3000 127.0.0.1\"\n";
const SHORT: &str = "[[steps]]\nname = \"waits\"\ncmd = \"ping -n 10 127.0.0.1\"\n";

pub const CASES: &[Case] = &[
    Case {
        name: "QEMU killed in install",
        slug: "qemu-killed-install",
        steps: "",
        small: false,
        play: |scene| {
            let mut build = scene.start(&["--fresh"]);
            build.wait_for("Setup", LIMIT, shows("Windows Setup"));
            kill(scene.qemu(), Signal::SIGKILL).expect("the signal is sent");
            failed(scene, build, &["QEMU died: signal 9"])
        },
        reuses: INSTALLATION,
    },
    Case {
        name: "QEMU killed in provision",
        slug: "qemu-killed-provision",
        steps: SHORT,
        small: false,
        play: |scene| {
            let build = waiting(scene);
            kill(scene.qemu(), Signal::SIGKILL).expect("the signal is sent");
            failed(scene, build, &["QEMU died: signal 9"])
        },
        reuses: INSTALLATION,
    },
    Case {
        name: "a step kills the agent",
        slug: "agent-killed",
        steps: "[[steps]]\nname = \"kills\"\ncmd = \"taskkill /f /im qemu-ga.exe\"\n",
        small: false,
        play: |scene| {
            let build = scene.start(&[]);
            let said = failed(scene, build, &["the guest went down while the step ran"]);
            // The recipe itself is what is wrong: the rerun's is mended.
            let text = std::fs::read_to_string(scene.recipe()).expect("the recipe");
            let mended = text.replace("taskkill /f /im qemu-ga.exe", "ver");
            std::fs::write(scene.recipe(), mended).expect("the recipe");
            said
        },
        reuses: INSTALLATION,
    },
    Case {
        name: "QEMU stopped for 25 s, then goes on",
        slug: "qemu-stopped-short",
        steps: SHORT,
        small: false,
        play: |scene| {
            let mut build = waiting(scene);
            let qemu = scene.qemu();
            kill(qemu, Signal::SIGSTOP).expect("the signal is sent");
            std::thread::sleep(Duration::from_secs(25));
            kill(qemu, Signal::SIGCONT).expect("the signal is sent");
            let status = scene.end(&mut build);
            assert!(status.success(), "{}", build.error());
            "none: the late answers were waited for".into()
        },
        reuses: EVERYTHING,
    },
    Case {
        name: "QEMU stopped for longer than a step may take",
        slug: "qemu-stopped-long",
        steps: LONG,
        small: false,
        play: |scene| {
            let build = waiting(scene);
            let qemu = scene.qemu();
            kill(qemu, Signal::SIGSTOP).expect("the signal is sent");
            let words = ["did not end within", "does not answer", "did not answer"];
            let said = failed(scene, build, &words);
            let text = std::fs::read_to_string(scene.recipe()).expect("the recipe");
            let mended = text.replace("-n 3000", "-n 2");
            std::fs::write(scene.recipe(), mended).expect("the recipe");
            said
        },
        reuses: INSTALLATION,
    },
];

fn failed(scene: &Scene, build: crate::end_to_end::program::Build, words: &[&str]) -> String {
    let said = scene.fails(build, words);
    scene.nothing_is_lost_or_running();
    said
}

/// A build whose guest runs the step `waits`.
fn waiting(scene: &Scene) -> crate::end_to_end::program::Build {
    let mut build = scene.start(&[]);
    build.wait_for("the step", LIMIT, |e| {
        is(e, "step_started", "name", "waits")
    });
    build.wait_for("its command", LIMIT, |e| {
        is(e, "command", "event", "command")
    });
    build
}
