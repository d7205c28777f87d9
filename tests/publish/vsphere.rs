//! An image in a content library: govmomi's vcsim behind a door that does what vCenter says of update sessions (`tests/vsphere/vcenter`),
//! asked by govc. What a real vCenter makes of it is not shown here.

use std::process::{Command, Stdio};
use std::sync::Once;

use support::unreliable::Unreliable;

use crate::publish::place::{GoServer, Place, StuckLine, complained, lasting, said};

pub const LOGIN: [(&str, &str); 2] = [
    ("GOVC_USERNAME", "publisher@vsphere.local"),
    ("GOVC_PASSWORD", "hunter2hunter2"),
];

/// vcsim with an empty library `images`.
pub struct Vcenter {
    server: GoServer,
    pub port: u16,
    secure: u16,
    /// For govc.
    sdk: String,
}

impl Vcenter {
    /// `None`, said: there is no Go, which builds it.
    pub fn start() -> Option<Self> {
        Self::of(1)
    }

    /// With so many datacenters, and so many clusters and datastores in each.
    pub fn of(several: usize) -> Option<Self> {
        static BUILT: Once = Once::new();
        let server = GoServer::start(&BUILT, ("vsphere", "vcenter"), &[&several.to_string()])?;
        let vcenter = Self {
            port: server.started[0].parse().expect("a port"),
            secure: server.started[1].parse().expect("a port"),
            sdk: server.started[2].clone(),
            server,
        };
        vcenter.govc(&["library.create", "-ds", "LocalDS_0", "images"]);
        Some(vcenter)
    }

    /// What govc prints.
    pub fn govc(&self, arguments: &[&str]) -> String {
        let output = Command::new(GoServer::program("vcenter"))
            .arg("govc")
            .args(arguments)
            .env("GOVC_URL", &self.sdk)
            .env("GOVC_PERSIST_SESSION", "false")
            .env("GOVC_DATACENTER", "DC0")
            .env("GOVC_RESOURCE_POOL", "/DC0/host/DC0_C0/Resources")
            .stdin(Stdio::null())
            .output()
            .expect("govc");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {complaint}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Each request that came, with the session that it is of.
    pub fn requests(&self) -> String {
        self.server.requests()
    }

    /// How many times a file with this ending came.
    fn came(&self, ending: &str) -> usize {
        let requests = self.requests();
        let puts = requests.lines().filter(|line| line.starts_with("PUT "));
        puts.filter(|line| {
            line.split(' ')
                .nth(1)
                .is_some_and(|path| path.ends_with(ending))
        })
        .count()
    }
}

pub fn to(port: u16) -> String {
    format!("vsphere+http://127.0.0.1:{port}/images")
}

/// Sends the image until its disk should go, and kills it there.
fn killed(place: &Place, vcenter: &Vcenter) {
    killed_at(place, vcenter, &[], |request| {
        request.starts_with("PUT ") && request.contains(".vmdk")
    });
}

/// Publishes until a request of this kind comes, and kills it there.
pub fn killed_at(
    place: &Place,
    vcenter: &Vcenter,
    arguments: &[&str],
    is_last: impl Fn(&str) -> bool + Send + Sync + 'static,
) {
    let stuck = StuckLine::start(vcenter.port, is_last);
    let to = to(stuck.line.port);
    let mut all = vec!["--to", to.as_str()];
    all.extend(arguments);
    stuck.kill(place.command(&all, &LOGIN));
}

#[test]
#[ignore = "needs Go and its module proxy: make vsphere"]
fn an_image_becomes_one_item_that_govc_deploys_over_a_line_that_fails() {
    let Some(vcenter) = Vcenter::start() else {
        return;
    };
    let (place, line) = (Place::ova(19), Unreliable::every_third(vcenter.port));
    let to = to(line.port);
    let plan = place.publish(&["--to", &to, "--dry-run"], &LOGIN);
    insta::assert_snapshot!("vsphere_plan", lasting(&said(&plan)));
    assert_eq!(vcenter.govc(&["library.ls", "images/"]), "");

    let first = place.publish(&["--to", &to], &LOGIN);
    insta::assert_snapshot!("vsphere", lasting(&said(&first)));
    let object = &place.published()["publications"][0]["objects"][0];
    assert_eq!(object["known"], "digest");
    let info = vcenter.govc(&["library.info", "-json", "images/demo"]);
    let info: serde_json::Value = serde_json::from_str(&info).expect("JSON");
    assert_eq!(info[0]["id"], object["id"]);
    let (digest, _) = winimg_base::io::compute_sha256(&place.path("demo.ova")).expect("a digest");
    let mark = format!("made by winimg. winimg:sha256={}", digest.hex());
    let description = info[0]["description"].as_str().expect("a description");
    assert!(description.ends_with(&mark), "{description}");
    let files = vcenter.govc(&["library.ls", "images/demo/"]);
    let mut files: Vec<&str> = files.lines().collect();
    files.sort_unstable();
    assert_eq!(
        files,
        ["/images/demo/demo-disk1.vmdk", "/images/demo/demo.ovf"]
    );
    vcenter.govc(&["library.deploy", "/images/demo", "node-1"]);
    let machine = vcenter.govc(&["vm.info", "node-1"]);
    assert!(machine.contains("Memory:       4096MB"), "{machine}");

    let again = place.publish(&["--to", &to], &LOGIN);
    let lines = said(&again);
    assert!(lines.contains(": 0 sent, 1 already there\n"), "{lines}");
    assert_eq!(vcenter.govc(&["library.ls", "images/*"]), "/images/demo\n");
}

#[test]
#[ignore = "needs Go and its module proxy: make vsphere"]
fn another_image_of_the_same_name_takes_its_place_where_that_is_asked_for() {
    let Some(vcenter) = Vcenter::start() else {
        return;
    };
    let (old, new) = (Place::ova(19), Place::ova(20));
    let to = to(vcenter.port);
    said(&old.publish(&["--to", &to], &LOGIN));
    let refused = new.publish(&["--to", &to], &LOGIN);
    assert_eq!(refused.status.code(), Some(15));
    insta::assert_snapshot!("vsphere_other", lasting(&complained(&refused)));
    let beside = format!("{to}/demo-20");
    said(&new.publish(&["--to", &beside], &LOGIN));
    said(&new.publish(&["--to", &to, "--replace"], &LOGIN));
    let again = new.publish(&["--to", &to], &LOGIN);
    assert!(
        said(&again).contains(": 0 sent, 1 already there\n"),
        "{}",
        said(&again)
    );
    let items = vcenter.govc(&["library.ls", "images/*"]);
    let mut items: Vec<&str> = items.lines().collect();
    items.sort_unstable();
    assert_eq!(items, ["/images/demo", "/images/demo-20"]);
}

#[test]
#[ignore = "needs Go and its module proxy: make vsphere"]
fn a_killed_upload_is_continued_without_what_is_there() {
    let Some(vcenter) = Vcenter::start() else {
        return;
    };
    let place = Place::ova(19);
    killed(&place, &vcenter);
    assert_eq!((vcenter.came(".ovf"), vcenter.came(".vmdk")), (1, 0));
    let output = place.publish(&["--to", &to(vcenter.port)], &LOGIN);
    said(&output);
    let text = complained(&output);
    assert!(
        text.contains("demo: continuing an interrupted upload: 1 of 2 files are there"),
        "{text}"
    );
    assert_eq!((vcenter.came(".ovf"), vcenter.came(".vmdk")), (1, 1));
    vcenter.govc(&["library.deploy", "/images/demo", "node-1"]);
}

#[test]
#[ignore = "needs Go and its module proxy: make vsphere"]
fn what_a_killed_upload_left_of_another_image_is_ended() {
    let Some(vcenter) = Vcenter::start() else {
        return;
    };
    killed(&Place::ova(19), &vcenter);
    let (place, to) = (Place::ova(20), to(vcenter.port));
    let refused = place.publish(&["--to", &to], &LOGIN);
    let text = complained(&refused);
    assert!(
        text.contains(", which is being sent or is incomplete\n"),
        "{text}"
    );
    let output = place.publish(&["--to", &to, "--replace"], &LOGIN);
    said(&output);
    let text = complained(&output);
    assert!(
        text.contains("ending an update session that was left for another image"),
        "{text}"
    );
    assert_eq!(
        place.published()["publications"][0]["objects"][0]["known"],
        "digest"
    );
}

#[test]
#[ignore = "needs Go and its module proxy: make vsphere"]
fn a_wrong_password_and_a_library_that_is_not_there_are_named() {
    let Some(vcenter) = Vcenter::start() else {
        return;
    };
    let place = Place::ova(19);
    let wrong = [LOGIN[0], ("GOVC_PASSWORD", "hunter3hunter3")];
    let output = place.publish(&["--to", &to(vcenter.port)], &wrong);
    assert_eq!(output.status.code(), Some(15));
    insta::assert_snapshot!("vsphere_password", lasting(&complained(&output)));
    let nowhere = format!("vsphere+http://127.0.0.1:{}/Images", vcenter.port);
    let output = place.publish(&["--to", &nowhere], &LOGIN);
    assert_eq!(output.status.code(), Some(15));
    insta::assert_snapshot!("vsphere_library", lasting(&complained(&output)));
    assert!(!place.path("published.json").exists());
}

#[test]
#[ignore = "needs Go and its module proxy: make vsphere"]
fn a_traced_run_over_https_shows_neither_password_nor_session() {
    let Some(vcenter) = Vcenter::start() else {
        return;
    };
    let place = Place::ova(19);
    let to = format!("vsphere://127.0.0.1:{}/images", vcenter.secure);
    let stranger = place.publish(&["--to", &to, "--dry-run"], &LOGIN);
    assert_eq!(stranger.status.code(), Some(15));
    let roots = vcenter.server.folder.path().join("ca.pem");
    let mut variables = LOGIN.to_vec();
    variables.push(("SSL_CERT_FILE", roots.to_str().expect("a path")));
    variables.push(("WINIMG_LOG", "trace"));
    let output = place.publish(&["--to", &to, "-vv"], &variables);
    let text = said(&output) + &complained(&output);
    assert!(text.contains("request url=https://127.0.0.1"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    let requests = vcenter.requests();
    let mut sessions = 0;
    for id in requests.lines().filter_map(|line| line.split(' ').nth(2)) {
        assert!(!text.contains(id) || id.is_empty(), "{id}: {text}");
        sessions += usize::from(!id.is_empty());
    }
    assert!(sessions > 10, "{requests}");
    let last = requests.lines().last().expect("a request");
    assert!(
        last.starts_with("DELETE /rest/com/vmware/cis/session "),
        "{last}"
    );
}

#[test]
fn what_has_no_place_in_a_vcenter_is_refused_before_it_is_asked() {
    let (place, other) = (Place::ova(19), Place::new());
    let to = "vsphere://127.0.0.1:9/images";
    let all = [
        place.refused(&["--to", to, "--only", "ova"], &LOGIN),
        place.refused(&["--to", to, "--share", "210987654321"], &LOGIN),
        place.refused(&["--to", to], &[]),
        place.refused(&["--to", "vsphere+http://vc.example.com/images"], &LOGIN),
        other.refused(&["--to", to], &LOGIN),
    ];
    insta::assert_snapshot!("vsphere_refused", all.join("\n"));
}
