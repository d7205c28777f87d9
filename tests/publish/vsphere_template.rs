//! A template in a vCenter's inventory: vcsim behind a door that lists the inventory and refuses what vCenter refuses
//! (`tests/vsphere/vcenter`), asked by govc. What a real vCenter makes of it is not shown here.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use support::unreliable::{Fate, Unreliable};

use crate::publish::place::{Place, complained, lasting, said};
use crate::publish::vsphere::{LOGIN, Vcenter, killed_at, to};

const SOURCE: &str = "node-winimg-source";

impl Vcenter {
    /// What govc says of each machine and template that is called so; `node*` are several.
    fn machines(&self, name: &str) -> Vec<Value> {
        let text = self.govc(&["vm.info", "-json", name]);
        let info: Value = serde_json::from_str(&text).expect("JSON");
        info["virtualMachines"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    }

    /// The names of what is called `node` and something, which are all templates.
    fn templates(&self) -> Vec<String> {
        let of = |machine: &Value| {
            assert_eq!(machine["config"]["template"], true, "{}", machine["name"]);
            machine["name"].as_str().expect("a name").to_owned()
        };
        let mut names: Vec<String> = self.machines("node*").iter().map(of).collect();
        names.sort_unstable();
        names
    }

    /// What govc says of an item.
    fn item(&self, name: &str) -> Value {
        let text = self.govc(&["library.info", "-json", &format!("images/{name}")]);
        let info: Value = serde_json::from_str(&text).expect("JSON");
        info[0].clone()
    }

    /// How many requests have this in their line.
    fn asked(&self, part: &str) -> usize {
        let requests = self.requests();
        requests.lines().filter(|line| line.contains(part)).count()
    }
}

/// Whether a request is of a kind, by its first line.
type Is = fn(&str) -> bool;

fn is_deploy(request: &str) -> bool {
    request.contains("~action=deploy")
}

fn is_template(request: &str) -> bool {
    request.starts_with("POST ") && request.contains("/vm-template/library-items")
}

fn is_removal(request: &str) -> bool {
    request.starts_with("DELETE /rest/vcenter/vm/")
}

fn described(place: &Place) -> String {
    let (digest, _) = winimg_base::io::compute_sha256(&place.path("demo.ova")).expect("a digest");
    format!("made by winimg. winimg:sha256={}", digest.hex())
}

#[test]
#[ignore = "needs Go and its module proxy: make vsphere"]
fn an_image_becomes_one_template_that_govc_deploys_over_a_line_that_fails() {
    let Some(vcenter) = Vcenter::start() else {
        return;
    };
    let (place, line) = (Place::ova(19), Unreliable::every_third(vcenter.port));
    let to = to(line.port);
    let publish = |more: &[&str]| {
        let mut all = vec!["--to", &to, "--template", "node"];
        all.extend(more);
        place.publish(&all, &LOGIN)
    };
    let plan = publish(&["--dry-run"]);
    insta::assert_snapshot!("vsphere_template_plan", lasting(&said(&plan)));
    assert_eq!(vcenter.govc(&["library.ls", "images/"]), "");

    let first = publish(&[]);
    insta::assert_snapshot!("vsphere_template", lasting(&said(&first)));
    assert_eq!(vcenter.templates(), ["node"]);
    let machine = &vcenter.machines("node")[0];
    let object = &place.published()["publications"][0]["objects"][1];
    assert_eq!(object["id"], machine["self"]["value"]);
    assert_eq!(object["name"], "template node");
    let item = vcenter.item("node");
    assert_eq!(item["type"], "vm-template");
    let description = item["description"].as_str().expect("a description");
    assert!(description.ends_with(&described(&place)), "{description}");
    vcenter.govc(&["vm.clone", "-vm", "node", "-on=false", "worker-1"]);

    let again = said(&publish(&[]));
    assert!(again.contains(": 0 done, 2 already there\n"), "{again}");
    assert_eq!(vcenter.templates(), ["node"]);
}

#[test]
#[ignore = "needs Go and its module proxy: make vsphere"]
fn another_template_of_the_name_is_kept_beside_the_one_that_replaces_it() {
    let Some(vcenter) = Vcenter::start() else {
        return;
    };
    let (old, new) = (Place::ova(19), Place::ova(20));
    let (to, beside) = (to(vcenter.port), format!("{}/demo-20", to(vcenter.port)));
    said(&old.publish(&["--to", &to, "--template", "node"], &LOGIN));
    let first = vcenter.machines("node")[0]["self"].clone();
    let refused = new.publish(&["--to", &beside, "--template", "node"], &LOGIN);
    assert_eq!(refused.status.code(), Some(15));
    insta::assert_snapshot!("vsphere_template_other", lasting(&complained(&refused)));
    assert!(!complained(&refused).contains(SOURCE));

    let replaced = new.publish(
        &["--to", &beside, "--template", "node", "--replace"],
        &LOGIN,
    );
    said(&replaced);
    let id = vcenter.item("node")["id"].clone();
    let names = vcenter.templates();
    assert_eq!(names.len(), 2, "{names:?}");
    let kept = &names[1];
    assert!(kept.starts_with("node-replaced-"), "{kept}");
    let words = format!("node: the previous one is now called {kept}");
    assert!(complained(&replaced).contains(&words));
    assert_eq!(vcenter.machines(kept)[0]["self"], first);
    assert_ne!(vcenter.item(kept)["id"], id);
    let description = vcenter.item("node")["description"].clone();
    let description = description.as_str().expect("a description");
    assert!(description.ends_with(&described(&new)), "{description}");
    let again = said(&new.publish(&["--to", &beside, "--template", "node"], &LOGIN));
    assert!(again.contains(": 0 done, 2 already there\n"), "{again}");
}

#[test]
#[ignore = "needs Go and its module proxy: make vsphere"]
fn a_template_is_made_after_a_kill_at_each_step_and_no_machine_stays() {
    let steps: [(&str, Is, usize); 3] = [
        ("deploy", is_deploy, 0),
        ("template", is_template, 1),
        ("removal", is_removal, 1),
    ];
    for (step, is_last, left) in steps {
        let Some(vcenter) = Vcenter::start() else {
            return;
        };
        let place = Place::ova(19);
        killed_at(&place, &vcenter, &["--template", "node"], is_last);
        assert_eq!(vcenter.machines(SOURCE).len(), left, "{step}");
        let output = place.publish(&["--to", &to(vcenter.port), "--template", "node"], &LOGIN);
        let lines = said(&output);
        assert!(lines.contains(": 1 done, 1 already there\n"), "{lines}");
        let words = format!("{SOURCE}: removing a machine that was left behind");
        assert_eq!(complained(&output).contains(&words), left == 1, "{step}");
        assert_eq!(vcenter.templates(), ["node"], "{step}");
        let made = vcenter.asked("POST /rest/vcenter/vm-template/library-items ");
        assert_eq!(made, 1, "{step}");
    }
}

#[test]
#[ignore = "needs Go and its module proxy: make vsphere"]
fn what_was_done_is_not_done_again_where_its_answer_is_lost() {
    let Some(vcenter) = Vcenter::start() else {
        return;
    };
    let lost = AtomicUsize::new(0);
    let line = Unreliable::start(vcenter.port, move |_, request| {
        let kinds = [is_deploy, is_template, is_removal];
        match kinds.iter().position(|is_one| is_one(request)) {
            // The first of each kind.
            Some(kind) if lost.fetch_or(1 << kind, Ordering::SeqCst) & (1 << kind) == 0 => {
                Fate::Lose
            }
            _ => Fate::Pass,
        }
    });
    let place = Place::ova(19);
    said(&place.publish(&["--to", &to(line.port), "--template", "node"], &LOGIN));
    assert_eq!(vcenter.templates(), ["node"]);
    let made = vcenter.asked("POST /rest/vcenter/vm-template/library-items ");
    assert_eq!(made, 1);
}

#[test]
#[ignore = "needs Go and its module proxy: make vsphere"]
fn what_is_not_replaced_in_the_end_gets_its_name_back() {
    let Some(vcenter) = Vcenter::start() else {
        return;
    };
    let (old, new) = (Place::ova(19), Place::ova(20));
    said(&old.publish(&["--to", &to(vcenter.port), "--template", "node"], &LOGIN));
    let first = vcenter.machines("node")[0]["self"].clone();
    let line = Unreliable::start(vcenter.port, |_, request| {
        if is_template(request) {
            Fate::Refuse
        } else {
            Fate::Pass
        }
    });
    let beside = format!("{}/demo-20", to(line.port));
    let arguments = ["--to", &beside, "--template", "node", "--replace"];
    let output = new.publish(&arguments, &LOGIN);
    assert_eq!(output.status.code(), Some(15));
    assert_eq!(vcenter.templates(), ["node"]);
    assert_eq!(vcenter.machines("node")[0]["self"], first);
}

#[test]
#[ignore = "needs Go and its module proxy: make vsphere"]
fn a_template_lies_where_it_was_wanted() {
    let Some(vcenter) = Vcenter::of(2) else {
        return;
    };
    vcenter.govc(&["folder.create", "/DC0/vm/nodes"]);
    vcenter.govc(&["folder.create", "/DC0/vm/nodes/windows 2022"]);
    let (place, to) = (Place::ova(19), to(vcenter.port));
    let folder = "/DC0/vm/nodes/windows 2022";
    let path = format!("{folder}/node");
    let arguments = [
        "--template",
        &path,
        "--cluster",
        "DC0_C1/DC0_C1_RP2",
        "--datastore",
        "LocalDS_1",
        "--network",
        "DC0_DVPG0",
    ];
    killed_at(&place, &vcenter, &arguments, is_template);
    let source = &vcenter.machines(&format!("{folder}/{SOURCE}"))[0];
    let neighbour = &vcenter.machines("DC0_C1_RP2_VM0")[0];
    assert_eq!(source["resourcePool"], neighbour["resourcePool"]);
    let mut all = vec!["--to", to.as_str()];
    all.extend(arguments);
    said(&place.publish(&all, &LOGIN));
    let info = vcenter.govc(&["vm.info", "-r", &path]);
    let shown: Vec<&str> = info
        .lines()
        .map(str::trim)
        .filter(|line| {
            ["Path:", "Storage:", "Network:"]
                .iter()
                .any(|word| line.starts_with(word))
        })
        .collect();
    insta::assert_snapshot!("vsphere_template_spot", shown.join("\n"));
    assert!(vcenter.machines(&format!("{folder}/{SOURCE}")).is_empty());
}

#[test]
#[ignore = "needs Go and its module proxy: make vsphere"]
fn names_that_lead_nowhere_or_to_several_are_all_said_before_anything_is_sent() {
    let Some(vcenter) = Vcenter::of(2) else {
        return;
    };
    let (place, to) = (Place::ova(19), to(vcenter.port));
    let refused = |arguments: &[&str]| {
        let mut all = vec!["--to", to.as_str()];
        all.extend(arguments);
        let output = place.publish(&all, &LOGIN);
        assert_eq!(output.status.code(), Some(15));
        lasting(&complained(&output))
    };
    let all = [
        refused(&["--template", "node"]),
        refused(&["--template", "/DC0/vm/node"]),
        refused(&[
            "--template",
            "/DC0/vm/nodes/node",
            "--cluster",
            "DC1_C0",
            "--datastore",
            "LocalDS_9",
            "--network",
            "nowhere",
        ]),
        refused(&[
            "--template",
            "/DC0/vm/DC0_C0_RP1_VM0",
            "--cluster",
            "DC0_C0/no pool",
            "--datastore",
            "LocalDS_1",
        ]),
        refused(&[
            "--template",
            "/DC9/vm/node",
            "--cluster",
            "C9",
            "--datastore",
            "LocalDS_1",
        ]),
    ];
    insta::assert_snapshot!("vsphere_template_place", all.join("\n"));
    assert_eq!(vcenter.govc(&["library.ls", "images/"]), "");
    assert!(!place.path("published.json").exists());
}

#[test]
#[ignore = "needs Go and its module proxy: make vsphere"]
fn what_vcenter_says_of_a_deployment_or_a_template_is_shown_and_no_machine_stays() {
    let Some(vcenter) = Vcenter::start() else {
        return;
    };
    let (place, to) = (Place::ova(19), to(vcenter.port));
    // Templates, which no list of machines has.
    let occupy = |name: &str| {
        let clone = [
            "vm.clone",
            "-vm",
            "DC0_C0_RP0_VM0",
            "-on=false",
            "-template",
            name,
        ];
        vcenter.govc(&clone)
    };
    let refused = |template: &str| {
        let output = place.publish(&["--to", &to, "--template", template], &LOGIN);
        assert_eq!(output.status.code(), Some(15));
        let complaint = complained(&output);
        let error = complaint.find("error: ").expect("an error");
        lasting(&complaint[error..])
    };
    occupy("node");
    occupy("worker-winimg-source");
    let all = [refused("node"), refused("worker")];
    insta::assert_snapshot!("vsphere_template_taken", all.join("\n"));
    assert!(vcenter.machines(SOURCE).is_empty());
    assert!(!place.path("published.json").exists());
}

#[test]
fn what_is_no_template_is_refused_before_anything_is_asked() {
    let place = Place::ova(19);
    let refused = |arguments: &[&str]| place.refused(arguments, &LOGIN);
    let to = "vsphere://127.0.0.1:9/images";
    let all = [
        refused(&["--to", "s3://images/x", "--template", "node"]),
        refused(&["--to", to, "--cluster", "c1"]),
        refused(&[
            "--to",
            to,
            "--template",
            "/dc1/node",
            "--cluster",
            "c1/",
            "--datastore",
            "",
        ]),
        refused(&["--to", to, "--template", "Demo"]),
    ];
    insta::assert_snapshot!("vsphere_template_refused", all.join("\n"));
}
