//! Which accelerator, with which processor: from the option, the program and the canary's outcome.
//!
//! The weighing is pure but for the canary, which comes as a function. Never silently slower: every step down leaves a remark.

use serde::{Deserialize, Serialize};

use super::args::Acceleration;
use super::canary::Outcome;
use crate::vm::Accel;
use winimg_base::error::{Error, Kind, Result};

/// Hyper-V enlightenments (QEMU: docs/system/i386/hyperv): all that make Windows faster, and `hv-crash`, by which a stop error reports its code;
/// none that are for debugging, for Intel alone or for pinned processors.
const ENLIGHTENMENTS: &str = "hv-relaxed,hv-vapic,hv-spinlocks=0x1fff,hv-vpindex,hv-runtime,hv-synic,hv-time,hv-stimer,\
hv-stimer-direct,hv-tlbflush,hv-ipi,hv-frequencies,hv-crash";
/// What every KVM since 2016 has.
const FEW_ENLIGHTENMENTS: &str =
    "hv-relaxed,hv-vapic,hv-spinlocks=0x1fff,hv-vpindex,hv-synic,hv-time,hv-stimer";
/// Nested virtualisation makes Windows start its own hypervisor, which breaks boots; absent on the other vendor's host it is already off.
const HOST: &str = "host,-vmx,-svm";
/// On an AMD processor KVM can show the guest Intel's register IA32_ARCH_CAPABILITIES, at which some Windows guests crash
/// (dockur/windows, winpodx). Some builds of QEMU have no such property (dockur/windows#1405).
const ARCH_CAPABILITIES: &str = "arch-capabilities";
/// What emulation costs, against KVM: deadlines are multiplied by it.
const EMULATION_SLOWNESS: u32 = 10;

/// What was decided, and why nothing better.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    pub how: Acceleration,
    pub remarks: Vec<String>,
    pub slowness: u32,
}

/// What the host says before any guest runs.
pub struct Host<'a> {
    /// What QEMU was built with.
    pub accelerators: &'a [String],
    /// Why the kernel's KVM can't be opened; `None` when it can.
    pub kvm_obstacle: Option<String>,
    /// Whether the processor is AMD's.
    pub is_amd: bool,
}

/// The candidates of an accelerator, best first.
fn candidates(accel: &str, is_amd: bool) -> Vec<Acceleration> {
    let cpus = match accel {
        "kvm" => {
            let without_intel = format!("{HOST},{ARCH_CAPABILITIES}=off");
            let hosts = if is_amd {
                vec![without_intel.as_str(), HOST]
            } else {
                vec![HOST]
            };
            let enlightenments = [
                format!(",{ENLIGHTENMENTS}"),
                format!(",{FEW_ENLIGHTENMENTS}"),
                String::new(),
            ];
            let with = |host: &str| enlightenments.clone().map(|more| format!("{host}{more}"));
            hosts.into_iter().flat_map(with).collect()
        }
        // Windows' own hypervisor brings the enlightenments itself; `max` of WHPX and TCG is the most they can do.
        "hvf" => vec!["host".to_string()],
        _ => vec!["max".to_string()],
    };
    let accel = accel.to_string();
    let how = |cpu| Acceleration {
        accel: accel.clone(),
        cpu,
    };
    cpus.into_iter().map(how).collect()
}

/// Decides. `canary` sends one.
pub fn choose(
    asked: Accel,
    host: &Host<'_>,
    canary: &mut dyn FnMut(&Acceleration) -> Result<Outcome>,
) -> Result<Choice> {
    let mut remarks = Vec::new();
    let hardware = match asked {
        Accel::Auto if cfg!(target_os = "linux") => Some("kvm"),
        Accel::Auto if cfg!(target_os = "macos") => Some("hvf"),
        Accel::Auto | Accel::Tcg => None,
        Accel::Kvm => Some("kvm"),
        Accel::Hvf => Some("hvf"),
    };
    if let Some(accel) = hardware {
        match try_accelerator(accel, host, canary, &mut remarks)? {
            Some(how) => return Ok(Choice { how, remarks, slowness: 1 }),
            None if asked != Accel::Auto => {
                return Err(Error::new(Kind::Host, format!("--accel {accel} can't be used on this host"))
                    .lines(remarks)
                    .cure("build on a host where it works, or take --accel tcg (emulation, many times slower)"));
            }
            None => remarks.push(format!(
                "emulating the processor (TCG) instead: expect about {EMULATION_SLOWNESS} times the usual time"
            )),
        }
    }
    let how = candidates("tcg", false).remove(0);
    if let Some(remark) = canary(&how)?.remark("tcg") {
        return Err(Error::new(Kind::Host, "QEMU can't run even an emulated guest").found(remark));
    }
    Ok(Choice {
        how,
        remarks,
        slowness: EMULATION_SLOWNESS,
    })
}

fn try_accelerator(
    accel: &str,
    host: &Host<'_>,
    canary: &mut dyn FnMut(&Acceleration) -> Result<Outcome>,
    remarks: &mut Vec<String>,
) -> Result<Option<Acceleration>> {
    if !host.accelerators.iter().any(|a| a == accel) {
        remarks.push(format!(
            "this QEMU was built without {}",
            accel.to_uppercase()
        ));
        return Ok(None);
    }
    if accel == "kvm"
        && let Some(why) = &host.kvm_obstacle
    {
        remarks.push(why.clone());
        return Ok(None);
    }
    let mut lacking = Vec::new();
    let mut knows_property = true;
    for how in candidates(accel, host.is_amd) {
        if !knows_property && how.cpu.contains(ARCH_CAPABILITIES) {
            continue;
        }
        let outcome = canary(&how)?;
        let Some(remark) = outcome.remark(accel) else {
            remarks.append(&mut lacking);
            return Ok(Some(how));
        };
        // A property that this QEMU lacks is one that the guest does not see either: nothing is worse without it.
        if matches!(&outcome, Outcome::Refused { words } if words.contains(ARCH_CAPABILITIES)) {
            knows_property = false;
            continue;
        }
        // Only a processor flag that this kernel lacks is worth a plainer processor; a crash stays a crash.
        if !matches!(&outcome, Outcome::Refused { words } if names_enlightenment(words)) {
            remarks.push(remark);
            return Ok(None);
        }
        lacking.push(remark);
    }
    remarks.append(&mut lacking);
    Ok(None)
}

/// QEMU words it in several ways (target/i386/kvm/hyperv.c, kvm.c).
fn names_enlightenment(words: &str) -> bool {
    ["Hyper-V", "HyperV", "hv-"]
        .iter()
        .any(|name| words.contains(name))
}

/// Whether the host's processor is AMD's, or Hygon's, which is made after it (Linux: /proc/cpuinfo, vendor_id).
pub fn is_amd() -> bool {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    names_amd(&text)
}

fn names_amd(cpuinfo: &str) -> bool {
    let vendor = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("vendor_id"));
    let vendor = vendor.map(|rest| rest.trim_start_matches([' ', '\t', ':']).trim_end());
    matches!(vendor, Some("AuthenticAMD" | "HygonGenuine"))
}

/// Why `/dev/kvm` can't be used, in words with a cure.
#[cfg(target_os = "linux")]
pub fn kvm_obstacle() -> Option<String> {
    use std::io::ErrorKind;
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/kvm");
    Some(match opened.err()?.kind() {
        ErrorKind::NotFound => {
            "this host has no /dev/kvm: virtualisation is off in its firmware, or it is itself a guest without nesting".to_string()
        }
        ErrorKind::PermissionDenied => {
            "no permission for /dev/kvm: add the user to the group kvm and log in again".to_string()
        }
        other => format!("/dev/kvm can't be opened: {other}"),
    })
}

#[cfg(not(target_os = "linux"))]
pub fn kvm_obstacle() -> Option<String> {
    Some("KVM is a part of Linux".to_string())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Which accelerator and processor won, and each remark in a line of its own; or the error's text.
    fn run(
        asked: Accel,
        accelerators: &[&str],
        obstacle: Option<&str>,
        canary: &dyn Fn(&Acceleration) -> Outcome,
    ) -> String {
        let host = Host {
            accelerators: &accelerators
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
            kvm_obstacle: obstacle.map(Into::into),
            is_amd: false,
        };
        match choose(asked, &host, &mut |how| Ok(canary(how))) {
            Ok(Choice {
                how,
                remarks,
                slowness,
            }) => {
                let won = format!("{} {} x{slowness}", how.accel, how.cpu);
                [vec![won], remarks].concat().join("\n")
            }
            Err(e) => e.to_string(),
        }
    }

    fn refused(words: &str) -> Outcome {
        Outcome::Refused {
            words: words.into(),
        }
    }

    const ALL: &[&str] = &["tcg", "kvm"];
    const EMULATING: &str =
        "emulating the processor (TCG) instead: expect about 10 times the usual time";

    #[test]
    fn a_healthy_host_has_nothing_to_remark_and_missing_kvm_is_told_apart() {
        let works = |accelerators: &[&str], obstacle| {
            run(Accel::Auto, accelerators, obstacle, &|_| Outcome::Works)
        };
        assert_eq!(works(ALL, None), format!("kvm {HOST},{ENLIGHTENMENTS} x1"));
        assert_eq!(
            works(&["tcg"], None),
            format!("tcg max x10\nthis QEMU was built without KVM\n{EMULATING}")
        );
        assert_eq!(
            works(ALL, Some("no permission")),
            format!("tcg max x10\nno permission\n{EMULATING}")
        );
    }

    #[test]
    fn auto_falls_back_loudly_and_a_named_one_does_not() {
        let crawl = |how: &Acceleration| match how.accel.as_str() {
            "kvm" => Outcome::Crawls {
                limit: std::time::Duration::from_millis(1500),
            },
            _ => Outcome::Works,
        };
        let remark = "the kernel offers KVM, but a guest on it crawls: four instructions took more than 1500 ms";
        assert_eq!(
            run(Accel::Auto, ALL, None, &crawl),
            format!("tcg max x10\n{remark}\n{EMULATING}")
        );
        assert_eq!(
            run(Accel::Kvm, ALL, None, &crawl),
            format!(
                "--accel kvm can't be used on this host\n  | {remark}\n  \
                 cure: build on a host where it works, or take --accel tcg (emulation, many times slower)"
            )
        );
    }

    #[test]
    fn an_older_kernel_gets_fewer_enlightenments_and_says_so() {
        let words = "Hyper-V TLB flush (hv-tlbflush) is not supported by kernel";
        let older = |how: &Acceleration| match how.cpu.contains("hv-tlbflush") {
            true => refused(words),
            false => Outcome::Works,
        };
        assert_eq!(
            run(Accel::Kvm, ALL, None, &older),
            format!("kvm {HOST},{FEW_ENLIGHTENMENTS} x1\nQEMU does not start with KVM ({words})")
        );
    }

    /// A kernel whose KVM lacks enlightenments and crashes as well: only what decided is shown.
    #[test]
    fn a_plainer_processor_that_fails_too_has_one_remark() {
        let how = "QEMU ended with signal 6 (SIGABRT)";
        let fails = |tried: &Acceleration| match tried.cpu.as_str() {
            "max" => Outcome::Works,
            HOST => Outcome::Crashes {
                how: how.into(),
                words: String::new(),
            },
            _ => refused("kernel doesn't allow setting HyperV VP_INDEX"),
        };
        let crash = format!("the kernel offers KVM, but a guest on it crashes: {how}");
        assert_eq!(
            run(Accel::Auto, ALL, None, &fails),
            format!("tcg max x10\n{crash}\n{EMULATING}")
        );
    }

    #[test]
    fn amd_hosts_hide_a_register_of_intel_where_qemu_can() {
        let tried = |lacks: bool| {
            let mut tried = Vec::new();
            let host = Host {
                accelerators: &["kvm".to_owned()],
                kvm_obstacle: None,
                is_amd: true,
            };
            let choice = choose(Accel::Kvm, &host, &mut |how| {
                tried.push(how.cpu.clone());
                let words = "Property 'host-x86_64-cpu.arch-capabilities' not found";
                Ok(if lacks && how.cpu.contains("arch-capabilities") {
                    refused(words)
                } else {
                    Outcome::Works
                })
            });
            let choice = choice.expect("a choice");
            assert_eq!(choice.remarks, Vec::<String>::new());
            assert_eq!(tried.last(), Some(&choice.how.cpu));
            tried
        };
        let hidden = format!("{HOST},arch-capabilities=off,{ENLIGHTENMENTS}");
        assert_eq!(tried(false), std::slice::from_ref(&hidden));
        assert_eq!(tried(true), [hidden, format!("{HOST},{ENLIGHTENMENTS}")]);
    }

    #[test]
    fn an_amd_processor_is_known_by_its_vendor() {
        let of = |vendor: &str| names_amd(&format!("processor\t: 0\nvendor_id\t: {vendor}\n"));
        assert!(of("AuthenticAMD") && of("HygonGenuine"));
        assert!(!of("GenuineIntel") && !names_amd(""));
    }

    #[test]
    fn emulation_that_fails_is_an_error() {
        assert_eq!(
            run(Accel::Tcg, ALL, None, &|_| refused("no such machine")),
            "QEMU can't run even an emulated guest\n  found: QEMU does not start with TCG (no such machine)"
        );
    }
}
