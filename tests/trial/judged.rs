//! What is said of a clone, from the state that its disk was read into.

use winimg::trial::compare;
use winimg::trial::judge::{self, BuiltInAccount, ExpectedClone, MetadataAgent};
use winimg::trial::state::{
    AdministratorKeysFile, AgentLog, AgentRun, CloneAccount, CloneHostName, CloneLogEnd,
    CloneSetup, CloneState, CloudbaseInitState, DetectedHardware, DiskRoom, KnownFact, PluginState,
    RunEnd, ScriptEnd, ServiceFailure, ServiceStartType, SshdState, UserDataRun,
};
use winimg::verify::{FindingSeverity, VerifyFinding, VerifyReport};
use winimg_recipe::ReadOptions;
use winimg_recipe::target::{self, AdministratorState};

use super::{KEYS, identity};

const GIB: u64 = 1 << 30;

/// A clone as it should be. `number` makes it another machine.
pub fn good(number: u32) -> CloneState {
    let name = format!("clone-{}", ["a", "b"][number as usize]);
    CloneState {
        setup: KnownFact::Is(CloneSetup {
            image_state: Some("IMAGE_STATE_COMPLETE".into()),
            system_setup_in_progress: Some(0),
            setup_type: Some(0),
            command_line: None,
            oobe_in_progress: Some(0),
            generalization_state: Some(7),
        }),
        setup_logs: KnownFact::Is(vec![CloneLogEnd {
            path: r"Windows\Panther\UnattendGC\setupact.log".into(),
            errors: Vec::new(),
            last: vec!["2026-01-02 03:04:05, Info  OOBE is finished".into()],
        }]),
        host_name: KnownFact::Is(CloneHostName {
            computer: name.to_uppercase(),
            next: name.clone(),
            name,
        }),
        machine_sid: KnownFact::Is(format!("S-1-5-21-1-2-{number}")),
        machine_guid: KnownFact::Is(Some(format!("c0ffee00-0000-4000-8000-00000000000{number}"))),
        accounts: KnownFact::Is(vec![
            account("Administrator", 500, true, &[]),
            account("Guest", 501, true, &[]),
            account("capi", 1001, false, &KEYS),
        ]),
        sshd: KnownFact::Is(Some(SshdState {
            host_keys: vec![format!("ssh-ed25519 AAAA{number}")],
            administrators: AdministratorKeysFile::Profile,
            administrators_keys: Vec::new(),
        })),
        certificates: KnownFact::Is(Vec::new()),
        disk: KnownFact::Is(DiskRoom {
            disk: 64 * GIB,
            partition: 63 * GIB,
            volume: 63 * GIB - 512,
            behind: 1 << 20,
            partitions_behind: 0,
        }),
        cloudbase_init: KnownFact::Is(Some(cloudbase_init())),
        hardware: KnownFact::Is(DetectedHardware {
            secure_boot: Some(true),
            tpm: false,
        }),
        failed_services: KnownFact::Is(Vec::new()),
    }
}

fn account(name: &str, rid: u32, disabled: bool, keys: &[&str]) -> CloneAccount {
    CloneAccount {
        name: name.into(),
        rid,
        disabled,
        must_change_password: rid == 500,
        administrator: rid != 501,
        authorized_keys: keys.iter().map(ToString::to_string).collect(),
    }
}

fn cloudbase_init() -> CloudbaseInitState {
    let log = |name: &str, ends: &[RunEnd]| AgentLog {
        path: format!(r"C:\Program Files\Cloudbase Solutions\Cloudbase-Init\log\{name}"),
        runs: ends.iter().map(|end| run(*end, &[])).collect(),
        last: vec!["2026-01-02 03:04:05.000 1000 INFO cloudbaseinit.init [-] the last line".into()],
    };
    CloudbaseInitState {
        user: Some("capi".into()),
        sets_host_name: true,
        writes_keys: true,
        runs_user_data: true,
        first_pass: Some(log("cloudbase-init-unattend.log", &[RunEnd::Restart])),
        service: Some(log(
            "cloudbase-init.log",
            &[RunEnd::Restart, RunEnd::Done, RunEnd::Done],
        )),
        plugins: vec![PluginState {
            instance: "i-1".into(),
            plugin: "CreateUserPlugin".into(),
            done: true,
        }],
    }
}

fn run(end: RunEnd, errors: &[&str]) -> AgentRun {
    AgentRun {
        end,
        metadata: Some("OpenNebulaService".into()),
        errors: errors.iter().map(ToString::to_string).collect(),
        user_data: UserDataRun::default(),
    }
}

fn expected() -> ExpectedClone {
    ExpectedClone {
        host_name: Some("clone-a".into()),
        user: Some("capi".into()),
        keys: KEYS.map(str::to_owned).to_vec(),
        agent: MetadataAgent::CloudbaseInit,
        has_own_agent: false,
        provisions: false,
        administrator: Some(BuiltInAccount {
            wanted: AdministratorState::Disabled,
            severity: FindingSeverity::Error,
            with_cloudbase_init: true,
        }),
        has_user_data: true,
        may_fail: vec!["flanneld".into()],
    }
}

fn is<T>(known: &mut KnownFact<T>) -> &mut T {
    match known {
        KnownFact::Is(value) => value,
        KnownFact::Unknown { unknown } => panic!("{unknown}"),
    }
}

fn agent(state: &mut CloneState) -> &mut CloudbaseInitState {
    is(&mut state.cloudbase_init).as_mut().expect("the agent")
}

fn service(state: &mut CloneState) -> &mut AgentLog {
    agent(state).service.as_mut().expect("its log")
}

fn user(state: &mut CloneState) -> &mut CloneAccount {
    is(&mut state.accounts).last_mut().expect("the user")
}

fn failure(
    event: u32,
    service: &str,
    starts: Option<ServiceStartType>,
    details: &[&str],
) -> ServiceFailure {
    ServiceFailure {
        event,
        service: service.into(),
        key: starts.map(|_| service.to_lowercase()),
        starts,
        since_last_start: true,
        details: details.iter().map(ToString::to_string).collect(),
    }
}

fn rendered(report: &VerifyReport) -> String {
    let mut text = format!("{}\n", report.summarize());
    for finding in &report.findings {
        text += &format!("{finding}\n");
    }
    text
}

#[test]
fn a_clone_as_its_metadata_asks_for_has_no_findings() {
    let report = judge::judge_clone(&good(0), &expected());
    assert_eq!(rendered(&report), "11 of 11 checks passed\n");
    assert_eq!(judge::find_unfinished(&good(0), &expected()), None);
}

type Sabotage = (&'static str, fn(&mut CloneState));

const SABOTAGES: &[Sabotage] = &[
    ("Setup did not get to specialize", |state| {
        let setup = is(&mut state.setup);
        setup.image_state = Some("IMAGE_STATE_GENERALIZE_RESEAL_TO_OOBE".into());
        setup.system_setup_in_progress = Some(1);
        setup.setup_type = Some(2);
        setup.command_line = Some(r"oobe\windeploy.exe".into());
        setup.generalization_state = Some(3);
    }),
    ("the image was not armed", |state| {
        is(&mut state.setup).generalization_state = Some(3);
    }),
    ("a specialize command failed", |state| {
        let setup = is(&mut state.setup);
        setup.image_state = Some("IMAGE_STATE_UNDEPLOYABLE".into());
        setup.system_setup_in_progress = Some(1);
        is(&mut state.setup_logs).insert(
            0,
            CloneLogEnd {
                path: r"Windows\Panther\setupact.log".into(),
                errors: vec!["2026-01-02 03:04:04, Error  command 2 ended with 1".into()],
                last: vec!["2026-01-02 03:04:05, Info  bye".into()],
            },
        );
    }),
    ("windeploy.exe is still at work", |state| {
        is(&mut state.setup).system_setup_in_progress = Some(1);
    }),
    ("no agent", |state| *is(&mut state.cloudbase_init) = None),
    ("the agent did not start", |state| {
        agent(state).service = None
    }),
    ("the agent waits", |state| {
        service(state).runs = vec![run(RunEnd::Open, &[])];
    }),
    ("the agent was not started after its restart", |state| {
        service(state).runs = vec![run(
            RunEnd::Restart,
            &["init: plugin 'X' failed with error 'y'"],
        )];
    }),
    ("no metadata", |state| {
        service(state).runs = vec![AgentRun {
            metadata: None,
            ..run(RunEnd::Done, &["init: No metadata service found"])
        }];
    }),
    ("a plugin fails", |state| {
        service(state).runs = vec![run(
            RunEnd::Done,
            &["init: plugin 'X' failed with error 'y'"],
        )];
    }),
    ("a plugin failed once", |state| {
        service(state).runs[0] = run(RunEnd::Restart, &["init: plugin 'X' failed with error 'y'"]);
    }),
    ("a script of the user data fails", |state| {
        let script = |code, said: &[&str]| ScriptEnd {
            code,
            said: said.iter().map(ToString::to_string).collect(),
        };
        service(state).runs[1].user_data.scripts = vec![
            script(0, &[]),
            script(1001, &["restart, please"]),
            script(
                1,
                &[
                    r"C:\Windows\system32>***",
                    "error execution phase preflight: no route to host",
                ],
            ),
        ];
    }),
    ("user data of no known kind", |state| {
        service(state).runs[1].user_data.refused = vec!["Unsupported user_data format".into()];
    }),
    ("nobody uses the user data", |state| {
        agent(state).runs_user_data = false;
    }),
    ("the first pass fails", |state| {
        let first = agent(state).first_pass.as_mut().expect("its log");
        first.runs = vec![run(
            RunEnd::Open,
            &["init: plugin 'X' failed with error 'y'"],
        )];
    }),
    ("the first pass does not end", |state| {
        let first = agent(state).first_pass.as_mut().expect("its log");
        first.runs = vec![run(RunEnd::Open, &[])];
    }),
    ("another host name", |state| {
        let name = is(&mut state.host_name);
        (name.name, name.next) = ("WIN-1".into(), "WIN-1".into());
        name.computer = "WIN-1".into();
    }),
    ("the host name waits for a restart", |state| {
        let name = is(&mut state.host_name);
        name.name = "WIN-1".into();
    }),
    ("nobody takes the host name", |state| {
        let name = is(&mut state.host_name);
        (name.name, name.next) = ("WIN-1".into(), "WIN-1".into());
        agent(state).sets_host_name = false;
    }),
    ("no user", |state| {
        is(&mut state.accounts).pop();
    }),
    ("nobody makes the user", |state| agent(state).user = None),
    ("the built-in account renamed and disabled", |state| {
        let accounts = is(&mut state.accounts);
        accounts.pop();
        accounts[0].name = "capi".into();
    }),
    ("the user is disabled", |state| user(state).disabled = true),
    ("the user is no administrator", |state| {
        user(state).administrator = false;
    }),
    ("the user must change its password", |state| {
        user(state).must_change_password = true;
    }),
    ("no key", |state| user(state).authorized_keys.clear()),
    ("another key", |state| {
        user(state).authorized_keys.remove(0);
    }),
    ("sshd looks elsewhere", |state| {
        let sshd = is(&mut state.sshd).as_mut().expect("sshd");
        sshd.administrators = AdministratorKeysFile::Machine;
    }),
    ("nobody takes the keys", |state| {
        user(state).authorized_keys.clear();
        agent(state).writes_keys = false;
    }),
    ("the built-in account is enabled", |state| {
        is(&mut state.accounts)[0].disabled = false;
    }),
    ("C: did not grow", |state| {
        let room = is(&mut state.disk);
        (room.partition, room.behind) = (59 * GIB, 4 * GIB);
        room.volume = room.partition;
    }),
    ("the volume did not grow", |state| {
        is(&mut state.disk).volume = 59 * GIB;
    }),
    ("a partition behind C:", |state| {
        is(&mut state.disk).partitions_behind = 1;
    }),
    ("a service failed", |state| {
        *is(&mut state.failed_services) = vec![
            failure(7009, "Containerd", Some(ServiceStartType::Auto), &["30000"]),
            failure(
                7000,
                "Containerd",
                Some(ServiceStartType::Auto),
                &["error 1053"],
            ),
        ];
    }),
    ("a service failed before the last start", |state| {
        let failure = failure(
            7000,
            "Containerd",
            Some(ServiceStartType::Auto),
            &["error 1053"],
        );
        *is(&mut state.failed_services) = vec![ServiceFailure {
            since_last_start: false,
            ..failure
        }];
    }),
    ("a service that nobody needs failed", |state| {
        *is(&mut state.failed_services) = vec![failure(
            7023,
            "Kubelet",
            Some(ServiceStartType::Demand),
            &["error 2"],
        )];
    }),
    ("a service that is not known failed", |state| {
        *is(&mut state.failed_services) = vec![failure(7034, "Some service", None, &["1"])];
    }),
    ("a hive can't be read", |state| {
        state.host_name = KnownFact::from_reason(
            "the hive SYSTEM has changes that are only in its transaction logs",
        );
    }),
];

#[test]
fn each_fault_of_a_clone_is_named_alone() {
    let mut text = String::new();
    for (what, sabotage) in SABOTAGES {
        let mut state = good(0);
        sabotage(&mut state);
        let report = judge::judge_clone(&state, &expected());
        assert_eq!(report.findings.len(), 1, "{what}: {}", rendered(&report));
        text += &format!("--- {what}\n{}\n", report.findings[0]);
    }
    insta::assert_snapshot!(text);
}

#[test]
fn what_kept_a_clone_from_its_end_is_named() {
    let unfinished: Vec<&str> = SABOTAGES
        .iter()
        .filter(|(_, sabotage)| {
            let mut state = good(0);
            sabotage(&mut state);
            judge::find_unfinished(&state, &expected()).is_some()
        })
        .map(|(what, _)| *what)
        .collect();
    assert_eq!(
        unfinished,
        [
            "Setup did not get to specialize",
            "the image was not armed",
            "a specialize command failed",
            "windeploy.exe is still at work",
            "no agent",
            "the agent did not start",
            "the agent waits",
            "the agent was not started after its restart",
            "no metadata",
        ]
    );
}

/// Errors of the agent that follow from what is wrong with the user are lines of that finding.
#[test]
fn a_plugin_that_fails_for_want_of_its_user_is_no_fault_of_its_own() {
    let mut state = good(0);
    agent(&mut state).user = None;
    is(&mut state.accounts).pop();
    let error =
        "init: plugin 'SetUserSSHPublicKeysPlugin' failed with error 'User profile not found!'";
    service(&mut state).runs = vec![run(RunEnd::Done, &[error])];
    assert_eq!(
        rendered(&judge::judge_clone(&state, &expected())),
        format!(
            "8 of 9 checks passed, 1 failed\n\
             error: cloudbase-init is not configured to create the user in the metadata\n  expected: capi\n  | {error}\n  \
             cure: add CreateUserPlugin to `plugins` of cloudbase-init.conf, unless the platform itself creates the user\n"
        )
    );
}

/// One more boot is for what it can mend.
#[test]
fn a_fault_that_no_start_mends_is_told_after_the_first() {
    let mut state = good(0);
    assert_eq!(judge::find_permanent_faults(&state, &expected()), None);
    is(&mut state.disk).volume = 59 * GIB;
    let report = judge::find_permanent_faults(&state, &expected()).expect("a fault");
    assert_eq!(report.findings.len(), 1, "{}", rendered(&report));
    let error = "init: plugin 'ExtendVolumesPlugin' failed with error 'y'";
    service(&mut state).runs = vec![run(RunEnd::Done, &[error])];
    assert_eq!(judge::find_permanent_faults(&state, &expected()), None);
}

/// Where the platform has an agent, that may do it.
#[test]
fn what_cloudbase_init_leaves_to_the_platforms_agent_is_doubtful() {
    let expected = ExpectedClone {
        has_own_agent: true,
        ..expected()
    };
    let mut state = good(0);
    is(&mut state.host_name).next = "WIN-1".into();
    user(&mut state).authorized_keys.clear();
    agent(&mut state).sets_host_name = false;
    agent(&mut state).writes_keys = false;
    let summary = judge::judge_clone(&state, &expected).summarize();
    assert_eq!(summary, "9 of 11 checks passed, 2 warnings");
    agent(&mut state).user = None;
    let summary = judge::judge_clone(&state, &expected).summarize();
    assert_eq!(summary, "8 of 10 checks passed, 2 warnings");
}

/// A clone as Azure leaves it: the built-in account is its user, and cloudbase-init runs the user data alone.
fn provisioned() -> (CloneState, ExpectedClone) {
    let mut state = good(0);
    *is(&mut state.accounts) = vec![CloneAccount {
        must_change_password: false,
        ..account("capi", 500, false, &[])
    }];
    agent(&mut state).user = None;
    agent(&mut state).sets_host_name = false;
    let expected = ExpectedClone {
        keys: Vec::new(),
        provisions: true,
        ..expected()
    };
    (state, expected)
}

#[test]
fn what_the_platform_itself_gives_a_clone_is_judged_on_it() {
    let findings = |sabotage: fn(&mut CloneState)| {
        let (mut state, expected) = provisioned();
        sabotage(&mut state);
        let report = judge::judge_clone(&state, &expected);
        report.findings.iter().map(|f| format!("{f}\n")).collect()
    };
    let all: String = findings(|_| {});
    assert_eq!(all, "");
    let renamed: String = findings(|state| {
        let name = is(&mut state.host_name);
        (name.name, name.next) = ("WIN-1".into(), "WIN-1".into());
    });
    assert_eq!(
        renamed,
        "error: the clone's host name differs from its metadata\n  expected: clone-a\n  \
         found: WIN-1, and the computer name CLONE-A\n  \
         cure: the platform's answer file has the name: check if an answer file in the image takes precedence, or if something renames the clone\n"
    );
    let disabled: String = findings(|state| user(state).disabled = true);
    assert_eq!(
        disabled,
        "error: the user capi is disabled and cannot log in\n  expected: enabled\n  \
         found: the built-in account, renamed by the platform, which does not enable it\n  \
         cure: leave the account with the RID 500 enabled in the image (docs/accounts.md)\n"
    );
    let nobody: String = findings(|state| user(state).name = "Administrator".into());
    assert_eq!(
        nobody,
        "error: the clone has no user capi\n  \
         cure: the platform's answer file renames the built-in account: check if an answer file in the image takes precedence, \
         or if something renames the account\n\
         error: the built-in account Administrator is enabled on the clone\n  expected: disabled\n  found: enabled\n  \
         cure: disable the account with the RID 500 in the clone's specialize pass (docs/accounts.md)\n"
    );
}

/// A clone that is given no answer file, and whose image has none.
#[test]
fn a_clone_that_no_answer_file_answers_for_stops_in_the_out_of_box_experience() {
    let (mut state, expected) = provisioned();
    let setup = is(&mut state.setup);
    setup.image_state = Some("IMAGE_STATE_UNDEPLOYABLE".into());
    (setup.system_setup_in_progress, setup.setup_type) = (Some(1), Some(2));
    setup.oobe_in_progress = Some(1);
    let line = "2026-01-02 03:04:05, Info  UnattendSearch: no unattend file with settings for pass [oobeSystem]";
    is(&mut state.setup_logs)[0].last = vec![line.into()];
    agent(&mut state).service = None;
    let unfinished = judge::find_unfinished(&state, &expected).expect("a finding");
    let text = unfinished.to_string();
    assert!(
        text.starts_with("error: Setup has not finished on the clone: it stopped in its specialize pass or in the out-of-box experience\n"),
        "{text}"
    );
    let lines = format!("\n  | Windows\\Panther\\UnattendGC\\setupact.log:\n  |   {line}\n");
    assert!(text.contains(&lines), "{text}");
    let seen = VerifyFinding::error("Windows stopped: the page for country and language");
    let text = judge::explain_stopped(seen, &state).to_string() + "\n";
    let fact = "error: Windows stopped: the page for country and language";
    assert_eq!(text, format!("{fact}{lines}"));
}

#[test]
fn a_service_that_waits_for_the_cluster_may_fail() {
    let mut state = good(0);
    *is(&mut state.failed_services) = vec![failure(
        7023,
        "Flanneld",
        Some(ServiceStartType::Auto),
        &["error 1"],
    )];
    assert!(judge::judge_clone(&state, &expected()).findings.is_empty());
}

/// The disk says why a clone stands at a box of Setup; of one that did not come so far it says nothing.
#[test]
fn what_a_clone_stopped_at_goes_with_what_its_disk_says() {
    let seen =
        || VerifyFinding::error("Windows stopped: an unexpected restart").cure("build again");
    let mut state = good(0);
    is(&mut state.setup).image_state = Some("IMAGE_STATE_UNDEPLOYABLE".into());
    service(&mut state).runs.clear();
    let first = |state: &CloneState| judge::explain_stopped(seen(), state).to_string();
    let log = r"Windows\Panther\UnattendGC\setupact.log:";
    let lines = format!("\n  | {log}\n  |   2026-01-02 03:04:05, Info  OOBE is finished");
    let fact = "error: Windows stopped: an unexpected restart";
    assert_eq!(first(&state), format!("{fact}{lines}\n  cure: build again"));
    service(&mut state).runs = vec![run(RunEnd::Restart, &[])];
    let path = service(&mut state).path.clone();
    assert_eq!(
        first(&state),
        format!(
            "{fact}{lines}\n  | likely: cloudbase-init's service ran during Setup and restarted the clone: {path}\n  \
             cure: set cloudbase-init's service to start on demand in the image: SetupComplete.cmd starts it (packs/cloudbase-init.toml)"
        )
    );
    is(&mut state.setup).image_state = Some("IMAGE_STATE_GENERALIZE_RESEAL_TO_OOBE".into());
    assert_eq!(first(&state), format!("{fact}\n  cure: build again"));
}

/// The agent of EC2 leaves no traces that are known; an image may bring cloudbase-init in its place.
#[test]
fn what_another_agent_has_done_is_unknown() {
    let expected = ExpectedClone {
        agent: MetadataAgent::Other("ec2launch".into()),
        ..expected()
    };
    assert!(judge::judge_clone(&good(0), &expected).findings.is_empty());
    let mut state = good(0);
    *is(&mut state.cloudbase_init) = None;
    is(&mut state.host_name).name = "EC2AMAZ-1".into();
    assert_eq!(judge::find_unfinished(&state, &expected), None);
    assert_eq!(
        rendered(&judge::judge_clone(&state, &expected)),
        "3 of 4 checks passed, 1 can only be checked on a running Windows\n\
         unknown: whether ec2launch has finished: its traces are unknown\n"
    );
}

/// The metadata's name may have a domain, and Windows' NetBIOS name is cut at 15 characters.
#[test]
fn a_host_name_may_be_cut_as_cloudbase_init_cuts_it() {
    let named = |metadata: &str, clone: &str| {
        let mut state = good(0);
        *is(&mut state.host_name) = CloneHostName {
            name: clone.into(),
            next: clone.into(),
            computer: clone.chars().take(15).collect::<String>().to_uppercase(),
        };
        let expected = ExpectedClone {
            host_name: Some(metadata.into()),
            ..expected()
        };
        judge::judge_clone(&state, &expected).is_good()
    };
    assert!(named("clone-a.example.org", "CLONE-A"));
    assert!(named("a-very-long-node-name", "a-very-long-nod"));
    assert!(named("fourteen-chars-x", "fourteen-chars0"));
    assert!(!named("clone-a", "clone-b"));
    assert!(!named("clone-a", "clone"));
}

#[test]
fn two_machines_differ_and_what_both_lack_is_said() {
    let compared = compare::compare_clones(&good(0), &good(1));
    let json = serde_json::to_string(&compared).expect("JSON");
    assert_eq!(
        json,
        r#"[{"what":"host-name","outcome":"differs"},{"what":"machine-sid","outcome":"differs"},{"what":"machine-guid","outcome":"differs"},{"what":"ssh-host-keys","outcome":"differs"},{"what":"certificates","outcome":"absent"}]"#
    );
    assert_eq!(
        rendered(&compare::report(&compared, true)),
        "5 of 5 checks passed\n"
    );
}

#[test]
fn what_two_clones_share_is_named() {
    let mut one = good(0);
    *is(&mut one.certificates) = vec!["AB12".into(), "CD34".into()];
    let mut other = one.clone();
    *is(&mut other.certificates) = vec!["CD34".into()];
    other.machine_guid = KnownFact::from_reason("the hive SOFTWARE is missing");
    let compared = compare::compare_clones(&one, &other);
    insta::assert_snapshot!(rendered(&compare::report(&compared, true)));
    // Of an image that was not generalized nobody expects otherwise.
    let unsealed = compare::report(&compared, false);
    assert_eq!(
        unsealed.count(FindingSeverity::Error),
        0,
        "{}",
        rendered(&unsealed)
    );
}

/// Each shipped target: what a clone of it has to be.
#[test]
fn targets_ask_for_what_their_form_has_a_place_for() {
    let recipes = concat!(env!("CARGO_MANIFEST_DIR"), "/recipes");
    let (targets, problems) = target::load_all(&ReadOptions {
        search: vec![recipes.into()],
        ..ReadOptions::default()
    });
    assert!(problems.0.is_empty(), "{problems:?}");
    let mut text = String::new();
    for target in &targets {
        let asked = ExpectedClone::from_target(target, &identity(), &[]);
        text += &format!(
            "{}: name {}, user {}, keys {}, agent {:?}, built-in account {}\n",
            target.name,
            asked.host_name.as_deref().unwrap_or("-"),
            asked.user.as_deref().unwrap_or("-"),
            asked.keys.len(),
            asked.agent,
            asked
                .administrator
                .map_or("either".to_owned(), |asked| format!(
                    "{:?} ({}, {})",
                    asked.wanted,
                    asked.severity.name(),
                    if asked.with_cloudbase_init {
                        "with cloudbase-init"
                    } else {
                        "always"
                    }
                )),
        );
    }
    insta::assert_snapshot!(text);
}
