//! The process that meets the hostile server: it fetches or uploads, and prints what a user would
//! read.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::sync::Arc;

use minisign::KeyPair;
use winimg_base::digest::Digest;
use winimg_base::event::Sink;
use winimg_base::text::Secret;
use winimg_recipe::{self as recipe, InputId, LockedInput, ReadOptions, Recipe};
use winimg_supply::fetch::FetchRequest;
use winimg_supply::fetch::image::fetch_images;
use winimg_supply::fetch::shared_cache::{
    CacheAddress, Credentials, PushSettings, SharedCacheClient, SharedCacheSettings,
};
use winimg_supply::store::Store;

use super::answers;
use super::rows::{self, CONTENT, Part};
use super::{LOCKED, LONGEST};
use crate::fetch::desk::{Desk, lock_source};
use support::registry::pause;

/// Not a test of its own: the others start this binary again for it.
#[test]
#[ignore = "started by the other tests"]
fn child() {
    let set = |name: &str| env::var(name).unwrap();
    let name = set("TEST_ROW");
    let mut of_name = rows::ROWS.iter().filter(|row| row.name == name);
    let row = of_name
        .find(|row| format!("{:?}", row.part) == set("TEST_PART"))
        .unwrap();
    let mut desk = Desk::new();
    desk.options.tries = row.tries;
    desk.options.longest = LONGEST;
    desk.options.proxies.near = row.near.iter().map(|host| host.to_string()).collect();
    desk.options.patience = row.patience();
    let store = Store::open(set("TEST_STORE").as_ref()).unwrap();
    let host = if row.proxied {
        "files.example".to_owned()
    } else {
        set("TEST_HOST")
    };
    let text = match row.part {
        Part::File | Part::LockedFile | Part::ChecksumFile | Part::Signature => {
            file(&desk, &store, row, &host)
        }
        Part::Manifest | Part::Blob | Part::Realm | Part::Token => image(&desk, &store, row, &host),
        Part::Place | Part::Upload | Part::Tags => upload(&desk, &store, row, &host),
    };
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|line| line.trim().strip_suffix(" kB"));
    println!("CHILD\n{text}\nEND {}", peak.unwrap_or_default().trim());
}

/// What is read of a recipe with one component.
fn component(desk: &Desk, row: &rows::Row, host: &str) -> Recipe {
    let scheme = if row.tls { "https" } else { "http" };
    let proof = match row.part {
        Part::ChecksumFile => "checksum_url = \"{{url}}.sha256\"".to_owned(),
        Part::Signature => {
            let key = KeyPair::generate_unencrypted_keypair()
                .unwrap()
                .pk
                .to_base64();
            format!("signature = {{ kind = \"minisign\", key = \"{key}\" }}")
        }
        _ => format!("sha256 = \"{}\"", Digest::sha256_of(CONTENT).hex()),
    };
    let text = format!(
        "schema = 1\nname = \"hostile\"\n[media]\nimage = \"datacenter-core\"\n[media.iso]\n\
         url = \"x.iso\"\nunverified = \"test\"\n[outputs]\nraw = {{}}\n\
         [components.kubelet]\nurl = \"{scheme}://{host}/kubelet.exe\"\n{proof}\n"
    );
    let path = desk.write("recipe.toml", text);
    let (recipe, diagnostics) = recipe::read(&path, &ReadOptions::default());
    recipe.unwrap_or_else(|| panic!("{}", diagnostics.render(false)))
}

fn file(desk: &Desk, store: &Store, row: &rows::Row, host: &str) -> String {
    let recipe = component(desk, row, host);
    let inputs = recipe.inputs().filter(|i| i.id != InputId::Iso);
    let mut requests: Vec<FetchRequest> = inputs
        .filter_map(|i| FetchRequest::from_input(&i))
        .collect();
    if row.part == Part::LockedFile {
        requests[0].origin.locked = Some(LockedInput {
            digest: Digest::sha256_of(CONTENT),
            size: LOCKED,
            evidence: BTreeMap::new(),
            source: lock_source(),
        });
    }
    let sink = Arc::clone(&desk.events) as Arc<dyn Sink>;
    let fetched = winimg_supply::fetch::fetch(requests, store, sink, &desk.cancel, &desk.options);
    match fetched {
        Ok(fetched) => String::from_utf8_lossy(&fs::read(fetched[0].blob.path()).unwrap()).into(),
        Err(errors) => desk.text(&errors[0]),
    }
}

fn image(desk: &Desk, store: &Store, row: &rows::Row, host: &str) -> String {
    let scheme = if row.tls { "" } else { "http://" };
    let reference = format!("{scheme}{host}/pause:3.10.2");
    let digest = answers::image_digest(row.name).unwrap_or_else(|| pause().1);
    let spec = desk.container(&reference, desk.pin_image(&digest));
    let sink = Arc::clone(&desk.events) as Arc<dyn Sink>;
    let fetched = fetch_images(
        &[spec],
        "10.0.20348",
        store,
        &sink,
        &desk.cancel,
        &desk.options,
    );
    fetched.map_or_else(|error| desk.text(&error), |_| "it is fetched".into())
}

fn upload(desk: &Desk, store: &Store, row: &rows::Row, host: &str) -> String {
    let path = desk.write("kubelet.exe", CONTENT);
    let request = desk.request("kubelet", &path.display().to_string(), desk.pin(CONTENT));
    let sink = Arc::clone(&desk.events) as Arc<dyn Sink>;
    let fetched = winimg_supply::fetch::fetch(
        vec![request],
        store,
        Arc::clone(&sink),
        &desk.cancel,
        &desk.options,
    );
    let blob = fetched.unwrap().remove(0).blob;
    let scheme = if row.tls { "oci" } else { "oci+http" };
    let settings = SharedCacheSettings {
        proxies: Default::default(),
        address: CacheAddress::parse(&format!("{scheme}://{host}/team/cache")).unwrap(),
        login: (!row.proxied)
            .then(|| Credentials::new("ci", Secret::new("open-sesame")))
            .into(),
        keys: Vec::new(),
        push: Some(PushSettings {
            sign: Box::new(|_, _| Ok(String::new())),
            is_required: false,
        }),
        patience: row.patience(),
    };
    let remote = SharedCacheClient::open(settings, &sink, &desk.cancel).unwrap();
    remote.push_blob("kubelet", &blob).unwrap();
    match desk.warnings() {
        warnings if warnings.is_empty() => "it is given".into(),
        warnings => warnings.join("\n"),
    }
}
