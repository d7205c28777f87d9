//! kill -9 of winimg itself, in every phase.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::end_to_end::program::is;
use crate::faults_qemu::cases::{Case, EVERYTHING, INSTALLATION};
use crate::faults_qemu::scene::{LIMIT, Scene, begins, names, shows};

const KILLED: &str = "killed by signal 9";

pub const CASES: &[Case] = &[
    Case {
        name: "kill -9 in fetch",
        slug: "killed-fetch",
        steps: "",
        small: false,
        play: |scene| at(scene, &["--fresh"], begins("fetch")),
        reuses: INSTALLATION,
    },
    Case {
        name: "kill -9 in media",
        slug: "killed-media",
        steps: "",
        small: false,
        play: |scene| at(scene, &["--fresh"], begins("media")),
        reuses: INSTALLATION,
    },
    Case {
        name: "kill -9 in install (Setup from the medium)",
        slug: "killed-setup",
        steps: "",
        small: false,
        play: |scene| at(scene, &["--fresh"], shows("Windows Setup")),
        reuses: INSTALLATION,
    },
    Case {
        name: "kill -9 in install (after the restart)",
        slug: "killed-restarted",
        steps: "",
        small: false,
        play: |scene| {
            at(scene, &["--fresh"], |event| {
                is(event, "restarted", "event", "restarted")
            })
        },
        reuses: INSTALLATION,
    },
    Case {
        name: "kill -9 in boot (from a layer)",
        slug: "killed-boot",
        steps: "",
        small: false,
        play: |scene| {
            let build = started(scene, &[], begins("boot"));
            scene.qemu();
            killed(scene, build)
        },
        reuses: INSTALLATION,
    },
    Case {
        name: "kill -9 in provision (a command runs)",
        slug: "killed-command",
        steps: "",
        small: false,
        play: |scene| at(scene, &[], |event| is(event, "command", "event", "command")),
        reuses: INSTALLATION,
    },
    Case {
        name: "kill -9 while a layer is sealed",
        slug: "killed-layer",
        steps: "[[steps]]\nname = \"hold\"\ncheckpoint = {}\n\n[[steps]]\nname = \"after\"\ncmd = \"ver\"\n",
        small: false,
        play: while_a_layer_is_sealed,
        reuses: INSTALLATION,
    },
    Case {
        name: "kill -9 as the seal begins",
        slug: "killed-seal",
        steps: "",
        small: false,
        play: |scene| at(scene, &[], begins("seal")),
        reuses: INSTALLATION,
    },
    Case {
        name: "kill -9 in verify",
        slug: "killed-verify",
        steps: "",
        small: false,
        play: |scene| at(scene, &[], begins("verify")),
        reuses: INSTALLATION,
    },
    Case {
        name: "kill -9 in export",
        slug: "killed-export",
        steps: "",
        small: false,
        play: |scene| at(scene, &[], begins("export")),
        reuses: EVERYTHING,
    },
];

fn started(
    scene: &Scene,
    more: &[&str],
    moment: impl Fn(&Value) -> bool,
) -> crate::end_to_end::program::Build {
    let mut build = scene.start(more);
    build.wait_for("the moment", LIMIT, moment);
    build
}

fn killed(scene: &mut Scene, build: crate::end_to_end::program::Build) -> String {
    scene.kill(build);
    scene.nothing_is_lost_or_running();
    KILLED.into()
}

fn at(scene: &mut Scene, more: &[&str], moment: impl Fn(&Value) -> bool) -> String {
    let build = started(scene, more, moment);
    killed(scene, build)
}

/// After the machine powered off for the checkpoint, before the layer has its name.
fn while_a_layer_is_sealed(scene: &mut Scene) -> String {
    let build = started(scene, &[], |event| {
        is(event, "step_started", "name", "hold")
    });
    let qemu = scene.qemu();
    let folder = format!("/proc/{qemu}");
    let deadline = Instant::now() + LIMIT;
    while std::fs::exists(&folder).unwrap_or(false) {
        assert!(Instant::now() < deadline, "the machine did not power off");
        std::thread::sleep(Duration::from_millis(2));
    }
    let said = killed(scene, build);
    let layers = names(&scene.cache.join("layers"));
    assert!(
        layers.iter().any(|name| name.starts_with(".new-")),
        "the kill came too late: {layers:?}"
    );
    said
}
