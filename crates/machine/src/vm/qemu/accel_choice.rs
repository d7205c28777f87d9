//! Selects the accelerator and processor model from the option, the program and the canary's
//! result.
//!
//! Pure except for the canary, which is passed as a function. Every fallback leaves a remark.

use serde::{Deserialize, Serialize};

use super::args::Acceleration;
use super::canary::CanaryOutcome;
use crate::vm::Accel;
use winimg_base::error::{Error, Kind, Result};

/// Hyper-V enlightenments (QEMU: docs/system/i386/hyperv): all that make Windows faster, and
/// `hv-crash`, with which a stop error reports its code; none for debugging, for Intel only or for
/// pinned processors.
const ENLIGHTENMENTS: &str = "hv-relaxed,hv-vapic,hv-spinlocks=0x1fff,hv-vpindex,hv-runtime,\
hv-synic,hv-time,hv-stimer,hv-stimer-direct,hv-tlbflush,hv-ipi,hv-frequencies,hv-crash";
/// Enlightenments of every KVM since 2016.
const FEW_ENLIGHTENMENTS: &str =
    "hv-relaxed,hv-vapic,hv-spinlocks=0x1fff,hv-vpindex,hv-synic,hv-time,hv-stimer";
/// Nested virtualisation is off because it makes Windows start its own hypervisor, which breaks
/// boots. The flag of the other vendor is ignored.
const HOST_CPU: &str = "host,-vmx,-svm";
/// Property that is off on AMD processors: KVM can expose Intel's register IA32_ARCH_CAPABILITIES,
/// on which some Windows guests crash (dockur/windows, winpodx). Some builds of QEMU do not have
/// the property (dockur/windows#1405).
const ARCH_CAPABILITIES: &str = "arch-capabilities";
/// Slowdown of emulation compared to KVM; deadlines are multiplied by it.
const EMULATION_SLOWNESS: u32 = 10;

/// Selected accelerator, with the reasons better ones were not used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccelChoice {
    pub how: Acceleration,
    pub remarks: Vec<String>,
    pub slowness: u32,
}

/// Properties of the host, known without running a guest.
pub struct HostAccel<'a> {
    /// Accelerators that QEMU was built with.
    pub accelerators: &'a [String],
    /// Reason KVM cannot be opened; `None` if it can.
    pub kvm_obstacle: Option<String>,
    /// True if the processor is from AMD.
    pub is_amd: bool,
}

/// Returns the candidates of an accelerator, best first.
fn list_candidates(accel: &str, is_amd: bool) -> Vec<Acceleration> {
    let cpus = match accel {
        "kvm" => {
            let without_intel = format!("{HOST_CPU},{ARCH_CAPABILITIES}=off");
            let hosts = if is_amd {
                vec![without_intel.as_str(), HOST_CPU]
            } else {
                vec![HOST_CPU]
            };
            let enlightenments = [
                format!(",{ENLIGHTENMENTS}"),
                format!(",{FEW_ENLIGHTENMENTS}"),
                String::new(),
            ];
            hosts
                .into_iter()
                .flat_map(|host| enlightenments.clone().map(|more| format!("{host}{more}")))
                .collect()
        }
        // `max` enables all features of TCG.
        "hvf" => vec!["host".to_string()],
        _ => vec!["max".to_string()],
    };
    cpus.into_iter()
        .map(|cpu| Acceleration {
            accel: accel.to_string(),
            cpu,
        })
        .collect()
}

/// Selects the accelerator. `canary` runs the boot canary.
pub fn choose(
    requested: Accel,
    host: &HostAccel<'_>,
    canary: &mut dyn FnMut(&Acceleration) -> Result<CanaryOutcome>,
) -> Result<AccelChoice> {
    let mut remarks = Vec::new();
    let hardware = match requested {
        Accel::Auto if cfg!(target_os = "linux") => Some("kvm"),
        Accel::Auto if cfg!(target_os = "macos") => Some("hvf"),
        Accel::Auto | Accel::Tcg => None,
        Accel::Kvm => Some("kvm"),
        Accel::Hvf => Some("hvf"),
    };
    if let Some(accel) = hardware {
        match try_accelerator(accel, host, canary, &mut remarks)? {
            Some(how) => {
                return Ok(AccelChoice {
                    how,
                    remarks,
                    slowness: 1,
                });
            }
            None if requested != Accel::Auto => {
                let fact = format!("--accel {accel} does not work on this host");
                return Err(Error::new(Kind::Host, fact).lines(remarks).cure(
                    "build on a host where it works, \
                     or use --accel tcg (emulation, many times slower)",
                ));
            }
            None => remarks.push(format!(
                "emulating the processor (TCG) instead: \
                 expect about {EMULATION_SLOWNESS} times the usual time"
            )),
        }
    }
    let how = list_candidates("tcg", false).remove(0);
    if let Some(remark) = canary(&how)?.describe("tcg") {
        let fact = "QEMU cannot run a guest, not even with emulation";
        return Err(Error::new(Kind::Host, fact).found(remark));
    }
    Ok(AccelChoice {
        how,
        remarks,
        slowness: EMULATION_SLOWNESS,
    })
}

fn try_accelerator(
    accel: &str,
    host: &HostAccel<'_>,
    canary: &mut dyn FnMut(&Acceleration) -> Result<CanaryOutcome>,
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
    let mut failures = Vec::new();
    let mut knows_property = true;
    for how in list_candidates(accel, host.is_amd) {
        if !knows_property && how.cpu.contains(ARCH_CAPABILITIES) {
            continue;
        }
        let outcome = canary(&how)?;
        let Some(remark) = outcome.describe(accel) else {
            remarks.append(&mut failures);
            return Ok(Some(how));
        };
        // If this QEMU does not know the property, it does not expose the register either.
        if matches!(&outcome, CanaryOutcome::Refused { words } if words.contains(ARCH_CAPABILITIES))
        {
            knows_property = false;
            continue;
        }
        // A simpler processor only helps against an unsupported flag, not against a crash.
        if !matches!(&outcome, CanaryOutcome::Refused { words } if mentions_enlightenment(words)) {
            remarks.push(remark);
            return Ok(None);
        }
        failures.push(remark);
    }
    remarks.append(&mut failures);
    Ok(None)
}

/// Recognizes QEMU's messages about enlightenments (target/i386/kvm/hyperv.c, kvm.c).
fn mentions_enlightenment(words: &str) -> bool {
    ["Hyper-V", "HyperV", "hv-"]
        .iter()
        .any(|name| words.contains(name))
}

/// Returns true if the host's processor is from AMD, or a derivative from Hygon (Linux:
/// /proc/cpuinfo, vendor_id).
pub fn is_amd() -> bool {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    is_amd_cpuinfo(&text)
}

fn is_amd_cpuinfo(cpuinfo: &str) -> bool {
    let vendor = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("vendor_id"));
    let vendor = vendor.map(|rest| rest.trim_start_matches([' ', '\t', ':']).trim_end());
    matches!(vendor, Some("AuthenticAMD" | "HygonGenuine"))
}

/// Returns the reason `/dev/kvm` cannot be used, with a cure.
#[cfg(target_os = "linux")]
pub fn kvm_obstacle() -> Option<String> {
    use std::io::ErrorKind;
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/kvm");
    Some(match opened.err()?.kind() {
        ErrorKind::NotFound => "this host has no /dev/kvm: virtualisation is off in its firmware, \
             or it is a VM without nested virtualisation"
            .to_string(),
        ErrorKind::PermissionDenied => {
            "no permission for /dev/kvm: add the user to the group kvm and log in again".to_string()
        }
        other => format!("cannot open /dev/kvm: {other}"),
    })
}

#[cfg(not(target_os = "linux"))]
pub fn kvm_obstacle() -> Option<String> {
    Some("KVM is only available on Linux".to_string())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Which accelerator and processor won, and each remark in a line of its own; or the error's
    /// text.
    fn run(
        requested: Accel,
        accelerators: &[&str],
        obstacle: Option<&str>,
        canary: &dyn Fn(&Acceleration) -> CanaryOutcome,
    ) -> String {
        let host = HostAccel {
            accelerators: &accelerators
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
            kvm_obstacle: obstacle.map(Into::into),
            is_amd: false,
        };
        match choose(requested, &host, &mut |how| Ok(canary(how))) {
            Ok(AccelChoice {
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

    fn refused(words: &str) -> CanaryOutcome {
        CanaryOutcome::Refused {
            words: words.into(),
        }
    }

    const ALL: &[&str] = &["tcg", "kvm"];
    const EMULATING: &str =
        "emulating the processor (TCG) instead: expect about 10 times the usual time";

    #[test]
    fn a_healthy_host_has_nothing_to_remark_and_missing_kvm_is_told_apart() {
        let works = |accelerators: &[&str], obstacle| {
            run(Accel::Auto, accelerators, obstacle, &|_| {
                CanaryOutcome::Works
            })
        };
        assert_eq!(
            works(ALL, None),
            format!("kvm {HOST_CPU},{ENLIGHTENMENTS} x1")
        );
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
            "kvm" => CanaryOutcome::Crawls {
                limit: std::time::Duration::from_millis(1500),
            },
            _ => CanaryOutcome::Works,
        };
        let remark = "the kernel offers KVM, but a guest on it crawls: \
                      four instructions took more than 1500 ms";
        assert_eq!(
            run(Accel::Auto, ALL, None, &crawl),
            format!("tcg max x10\n{remark}\n{EMULATING}")
        );
        assert_eq!(
            run(Accel::Kvm, ALL, None, &crawl),
            format!(
                "--accel kvm does not work on this host\n  | {remark}\n  \
                 cure: build on a host where it works, or use --accel tcg \
                 (emulation, many times slower)"
            )
        );
    }

    #[test]
    fn an_older_kernel_gets_fewer_enlightenments_and_says_so() {
        let words = "Hyper-V TLB flush (hv-tlbflush) is not supported by kernel";
        let older = |how: &Acceleration| {
            if how.cpu.contains("hv-tlbflush") {
                refused(words)
            } else {
                CanaryOutcome::Works
            }
        };
        assert_eq!(
            run(Accel::Kvm, ALL, None, &older),
            format!(
                "kvm {HOST_CPU},{FEW_ENLIGHTENMENTS} x1\nQEMU does not start with KVM ({words})"
            )
        );
    }

    /// A kernel whose KVM lacks enlightenments and crashes as well: only what decided is shown.
    #[test]
    fn a_plainer_processor_that_fails_too_has_one_remark() {
        let how = "QEMU ended with signal 6 (SIGABRT)";
        let fails = |tried: &Acceleration| match tried.cpu.as_str() {
            "max" => CanaryOutcome::Works,
            HOST_CPU => CanaryOutcome::Crashes {
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
            let host = HostAccel {
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
                    CanaryOutcome::Works
                })
            });
            let choice = choice.expect("a choice");
            assert_eq!(choice.remarks, Vec::<String>::new());
            assert_eq!(tried.last(), Some(&choice.how.cpu));
            tried
        };
        let hidden = format!("{HOST_CPU},arch-capabilities=off,{ENLIGHTENMENTS}");
        assert_eq!(tried(false), std::slice::from_ref(&hidden));
        assert_eq!(
            tried(true),
            [hidden, format!("{HOST_CPU},{ENLIGHTENMENTS}")]
        );
    }

    #[test]
    fn an_amd_processor_is_known_by_its_vendor() {
        let of = |vendor: &str| is_amd_cpuinfo(&format!("processor\t: 0\nvendor_id\t: {vendor}\n"));
        assert!(of("AuthenticAMD") && of("HygonGenuine"));
        assert!(!of("GenuineIntel") && !is_amd_cpuinfo(""));
    }

    #[test]
    fn emulation_that_fails_is_an_error() {
        assert_eq!(
            run(Accel::Tcg, ALL, None, &|_| refused("no such machine")),
            "QEMU cannot run a guest, not even with emulation\n  \
             found: QEMU does not start with TCG (no such machine)"
        );
    }
}
