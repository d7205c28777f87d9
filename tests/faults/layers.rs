//! Layers: what a failed or killed build keeps, and layers that were damaged.

use nix::sys::signal::Signal::{SIGINT, SIGKILL};

use crate::faults::case::Case;
use crate::faults::inputs::harm;
use crate::faults::site::Site;

const AFTER_SETUP: &str = "resuming from the layer after the installation";
const AFTER_RESTART: &str = "resuming from the layer after step `restart`";
/// Runs on the machine after the restart.
const LAST: &str = "command = '*\\steps\\004.cmd'";

fn case(name: &'static str) -> Case {
    Case::new("layers", name)
}

pub fn cases() -> Vec<Case> {
    let mut all = kept();
    all.extend(damaged());
    all
}

/// What was sealed before the end is not done again.
fn kept() -> Vec<Case> {
    let killed = "QEMU died: signal 9 (SIGKILL)";
    vec![
        case("a step fails after the restart")
            .answer(&format!("{LAST}\nexit = 5"))
            .fails(7, "a step failed in the guest")
            .goes_on(AFTER_RESTART),
        case("a step fails before the restart")
            .answer("command = '*\\steps\\001.cmd'\nexit = 5")
            .fails(7, "a step failed in the guest")
            .goes_on(AFTER_SETUP),
        case("QEMU killed after the restart")
            .fault("at = 'command'\nis = '*\\steps\\004.cmd'\ndo = 'signal'\nnumber = 9")
            .fails(8, killed)
            .goes_on(AFTER_RESTART),
        case("kill -9 after the restart")
            .answer(&format!("{LAST}\ndelay_ms = 2500"))
            .strike("steps\\\\004.cmd", &[(50, SIGKILL)])
            .drops(-9)
            .goes_on(AFTER_RESTART),
        case("Ctrl-C after the restart")
            .answer(&format!("{LAST}\ndelay_ms = 2500"))
            .strike("steps\\\\004.cmd", &[(50, SIGINT)])
            .refuses(130, "interrupted")
            .goes_on(AFTER_RESTART),
        case("QEMU killed as the installation is sealed")
            .fault("at = 'off'\ndo = 'signal'\nnumber = 9")
            .fails(8, killed),
        case("QEMU refuses to start from the layer")
            .fault("at = 'start'\nmachine = 2\ndo = 'exit'\nnumber = 1\nwords = 'out of memory'")
            .fails(8, "QEMU did not start: it ended with exit status 1")
            .goes_on(AFTER_SETUP),
        case("Windows does not start from the layer: nothing boots")
            .fault("at = 'boot'\nmachine = 2\ndo = 'nothing-boots'")
            .fails(8, "the firmware finds no Windows on the disk")
            .goes_on(AFTER_SETUP),
        case("Windows stands at a screen when it starts from the layer")
            .fault("at = 'boot'\nmachine = 2\ndo = 'stands-still'")
            .fails(8, "Windows")
            .goes_on(AFTER_SETUP),
        case("Windows restarts for ever when it starts from the layer")
            .fault("at = 'boot'\nmachine = 2\ndo = 'reset-loop'\nms = 1100")
            .fails(8, "Windows keeps restarting")
            .goes_on(AFTER_SETUP),
        case("the recipe's last steps change")
            .with_layers()
            .recipe("echo bye", "echo later")
            .says(AFTER_RESTART),
    ]
}

fn damage(name: &'static str, how: impl Fn(&Site) + Send + Sync + 'static) -> Case {
    case(name)
        .with_layers()
        .recipe("echo bye", "echo later")
        .before(move |site| {
            how(site);
            Box::new(())
        })
}

/// The earlier build's layers, spoiled before the next.
fn damaged() -> Vec<Case> {
    let rendered = "a cached layer is damaged";
    vec![
        damage("the layers' disks are cut", |site| {
            harm(site, "cache/layers", "disk.qcow2", |bytes| {
                bytes.truncate(bytes.len() / 2)
            });
        })
        .says(rendered),
        damage("the layers' disks have a flipped bit", |site| {
            harm(site, "cache/layers", "disk.qcow2", |bytes| {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
            });
        })
        .says(rendered),
        damage("the layers' firmware variables are empty", |site| {
            harm(site, "cache/layers", "uefi-vars.fd", |bytes| bytes.clear());
        })
        .says(rendered),
        damage("the layers' records are rubbish", |site| {
            harm(site, "cache/layers", "layer.json", |bytes| {
                *bytes = b"{\"key\": [".to_vec()
            });
        }),
        damage("the layers' stamps are gone", |site| {
            harm(site, "cache/layers", "stamps.json", |bytes| bytes.clear());
        })
        .says(AFTER_RESTART),
        damage("the layers are gone", |site| {
            std::fs::remove_dir_all(site.path("cache/layers")).expect("they were there");
        }),
        damage("the first layer alone is gone", |site| {
            let folders = std::fs::read_dir(site.path("cache/layers"))
                .expect("the layers")
                .flatten();
            for folder in folders.map(|e| e.path()) {
                let record = std::fs::read_to_string(folder.join("layer.json")).unwrap_or_default();
                if record.contains("\"parent\": null") || !record.contains("\"parent\"") {
                    std::fs::remove_dir_all(&folder).expect("it was there");
                }
            }
        }),
    ]
}
