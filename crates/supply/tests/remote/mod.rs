//! Layers and inputs over a real registry: what is shared arrives whole, and what is not to be
//! believed does not arrive.

mod site;

use std::fs;
use std::sync::Arc;

use oci_client::Reference;
use oci_client::client::{Client, ClientConfig, ClientProtocol};
use oci_client::manifest::{OciImageManifest, OciManifest};
use oci_client::secrets::RegistryAuth;
use winimg_base::digest::Digest;
use winimg_base::error::Kind;
use winimg_base::event::{Cancel, Sink};
use winimg_base::text::Secret;
use winimg_supply::fetch::shared_cache::Credentials;
use winimg_supply::store::{LayerLookup, ProgressWatch};

use site::*;
use support::docker_registry::Registry;

/// Changes a layer's manifest as anyone may who can write to the registry.
fn forge(
    port: u16,
    from: &str,
    to: &str,
    change: impl FnOnce(&mut OciImageManifest),
) -> OciImageManifest {
    let client = Client::new(ClientConfig {
        protocol: ClientProtocol::Http,
        ..ClientConfig::default()
    });
    let at = |tag: &str| {
        Reference::with_tag(format!("127.0.0.1:{port}"), "team/cache".into(), tag.into())
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let pulled = client
            .pull_image_manifest(&at(from), &RegistryAuth::Anonymous)
            .await;
        let (mut manifest, _) = pulled.unwrap();
        let before = manifest.clone();
        change(&mut manifest);
        client
            .push_manifest(&at(to), &OciManifest::Image(manifest))
            .await
            .unwrap();
        before
    })
}

fn tag(parts: usize) -> String {
    format!("layer-{}", &chain().links()[parts - 1].key.hex()[..40])
}

/// A machine that has given two layers.
fn given(port: u16, key: &minisign::KeyPair) -> Machine {
    let machine = Machine::new();
    let first = machine.seal(1, None, &noise(3 << 20, "first"));
    let second = machine.seal(3, Some(&first), &noise(1 << 20, "second"));
    let remote = machine.remote(port, Some(key), Some(signing(key)));
    remote.push_layer(&second, &machine.store).unwrap();
    machine
}

#[test]
fn layers_arrive_byte_for_byte_with_their_parents() {
    let (registry, key) = (Registry::start(None), key());
    let a = given(registry.port, &key);
    assert_eq!(
        a.said(),
        [
            "note: the layer after the installation is in the shared cache now",
            "note: the layer after step `two` is in the shared cache now"
        ]
    );
    let b = Machine::new();
    let remote = b.remote(registry.port, Some(&key), None);
    assert!(remote.pull_longest(chain().links(), 0, &b.store).unwrap());
    assert_eq!(b.layers(), a.layers());
    assert_eq!(b.layers().len(), 6);
    let last = chain().links()[2].key.clone();
    assert!(matches!(
        b.store.find_layer(&last, &Cancel::default()),
        Ok(LayerLookup::Layer(_))
    ));
    assert_eq!(
        b.said(),
        [
            "note: the layer after the installation came from the shared cache (3145737 bytes)",
            "note: the layer after step `two` came from the shared cache (1048585 bytes)"
        ]
    );
    // What is here already is not asked for.
    assert!(!remote.pull_longest(chain().links(), 3, &b.store).unwrap());
}

/// Nothing came, nothing is left, and this was said.
fn refused(machine: &Machine, port: u16, key: Option<&minisign::KeyPair>) -> Vec<String> {
    let remote = machine.remote(port, key, None);
    assert!(
        !remote
            .pull_longest(chain().links(), 0, &machine.store)
            .unwrap()
    );
    // Once is enough.
    assert!(
        !remote
            .pull_longest(chain().links(), 0, &machine.store)
            .unwrap()
    );
    let layers = machine.layers();
    let names: Vec<&String> = layers.iter().map(|(name, _)| name).collect();
    let drafts = names.iter().filter(|n| n.starts_with('.')).count();
    assert_eq!(drafts, 0, "{names:?}");
    let whole = names.iter().filter(|n| n.ends_with("disk.qcow2")).count();
    let records = names.iter().filter(|n| n.ends_with("layer.json")).count();
    assert_eq!(whole, records, "{names:?}");
    assert!(
        !names
            .iter()
            .any(|n| n.starts_with(&chain().links()[2].key.hex())),
        "{names:?}"
    );
    machine.said()
}

const GOES_ON: &str = "\n  continuing without it";

#[test]
fn what_is_not_signed_by_a_named_key_is_not_believed() {
    let (registry, key) = (Registry::start(None), key());
    given(registry.port, &key);
    let other = site::key();
    assert_eq!(
        refused(&Machine::new(), registry.port, Some(&other)),
        [format!(
            "warning: a layer of the shared cache is not trusted: it was signed with another key\n  \
             at: oci+http://REGISTRY/team/cache layer-…\n  expected: a key of --cache-key\n  \
             cure: if you trust its author, pass the public key with --cache-key{GOES_ON}"
        )]
    );
    assert_eq!(
        refused(&Machine::new(), registry.port, None),
        [
            "note: the shared cache is used for inputs only: without --cache-key none of its layers is trusted"
        ]
    );
    forge(registry.port, &tag(3), &tag(3), |m| {
        m.layers
            .retain(|part| part.media_type != "application/vnd.winimg.layer.signature.v1");
    });
    assert_eq!(
        refused(&Machine::new(), registry.port, Some(&key)),
        [format!(
            "warning: a layer of the shared cache is not trusted: it is not signed\n  \
             at: oci+http://REGISTRY/team/cache layer-…{GOES_ON}"
        )]
    );
}

#[test]
fn a_signed_record_counts_for_its_own_layer_and_its_own_bytes() {
    let (registry, key) = (Registry::start(None), key());
    given(registry.port, &key);
    // A true record under another layer's name.
    forge(registry.port, &tag(1), &tag(3), |_| {});
    assert_eq!(
        refused(&Machine::new(), registry.port, Some(&key)),
        [format!(
            "warning: a layer of the shared cache is not trusted: its record belongs to another layer\n  \
             at: oci+http://REGISTRY/team/cache layer-…\n  expected: sha256:…\n  found: sha256:…{GOES_ON}"
        )]
    );
    // A signature over other bytes.
    let (registry, a) = (Registry::start(None), Machine::new());
    let layer = a.seal(3, None, b"disk");
    let sign = signing(&key);
    let over_others: winimg_supply::fetch::shared_cache::SignFn =
        Box::new(move |bytes, comment| sign(&[bytes, b" "].concat(), comment));
    let remote = a.remote(registry.port, None, Some(over_others));
    remote.push_layer(&layer, &a.store).unwrap();
    assert_eq!(
        refused(&Machine::new(), registry.port, Some(&key)),
        [format!(
            "warning: a layer of the shared cache is not trusted: its record was changed after it was signed\n  \
             at: oci+http://REGISTRY/team/cache layer-…{GOES_ON}"
        )]
    );
}

#[test]
fn altered_exchanged_and_cut_disks_do_not_arrive() {
    let key = key();
    let other_bytes = "warning: the shared cache sent bytes that do not match their digest\n  at: oci+http://REGISTRY/team/cache\n  expected: sha256:";
    let damages: [fn(&mut Vec<u8>); 2] = [|bytes| bytes[1000] ^= 1, |bytes| bytes.truncate(1000)];
    for damage in damages {
        let registry = Registry::start(None);
        given(registry.port, &key);
        let manifest = forge(registry.port, &tag(3), &tag(3), |_| {});
        registry.change(&manifest.layers[0].digest, damage);
        let said = refused(&Machine::new(), registry.port, Some(&key));
        let last = said.last().unwrap();
        assert!(
            last.starts_with(other_bytes) || last.contains("does not match its record"),
            "{said:?}"
        );
        assert_eq!(said.len(), 2, "{said:?}");
    }
    // Another disk in the place of the signed one.
    let registry = Registry::start(None);
    given(registry.port, &key);
    let first = forge(registry.port, &tag(1), &tag(1), |_| {});
    forge(registry.port, &tag(3), &tag(3), |m| {
        m.layers[0].digest = first.layers[1].digest.clone()
    });
    let said = refused(&Machine::new(), registry.port, Some(&key));
    assert_eq!(
        said[1..],
        [format!(
            "warning: disk.qcow2 after step `two` of the shared cache does not match its record\n  \
             at: oci+http://REGISTRY/team/cache\n  expected: 1048576 bytes\n  found: 9 bytes{GOES_ON}"
        )]
    );
}

#[test]
fn a_registry_that_is_gone_hangs_or_breaks_off_is_one_warning() {
    let (registry, key) = (Registry::start(None), key());
    given(registry.port, &key);
    let said = |machine: Machine, port: u16| {
        let said = refused(&machine, port, Some(&key));
        assert_eq!(said.len(), 1, "{said:?}");
        said[0].clone()
    };
    let at = "\n  at: oci+http://REGISTRY/team/cache";
    assert_eq!(
        said(Machine::new(), nobody()),
        format!(
            "warning: the shared cache cannot be reached{at}\n  found: Connection refused (os error 111){GOES_ON}"
        )
    );
    assert_eq!(
        said(Machine::waiting(5, 60), listens_and_says_nothing()),
        format!(
            "warning: the shared cache does not answer{at}\n  expected: a byte within 5 s{GOES_ON}"
        )
    );
    let hangs = line(registry.port, 500_000, Then::Hang);
    let hangs = said(Machine::waiting(60, 2), hangs);
    assert_eq!(
        hangs,
        format!(
            "warning: the shared cache does not answer{at}\n  expected: a byte within 2 s{GOES_ON}"
        )
    );
    let broken = line(registry.port, 500_000, Then::Close);
    let broken = said(Machine::new(), broken);
    assert!(
        broken.starts_with(&format!(
            "warning: a transfer with the shared cache was interrupted{at}\n  found: "
        )),
        "{broken}"
    );
}

#[test]
fn a_layer_over_another_disk_of_the_same_key_is_not_taken_and_not_given() {
    let (registry, key) = (Registry::start(None), key());
    given(registry.port, &key);
    let b = Machine::new();
    let own = b.seal(1, None, b"the same inputs, installed once more");
    let remote = b.remote(registry.port, Some(&key), Some(signing(&key)));
    assert!(!remote.pull_longest(chain().links(), 1, &b.store).unwrap());
    let further = b.seal(2, Some(&own), b"one");
    remote.push_layer(&further, &b.store).unwrap();
    assert_eq!(
        b.said(),
        [
            "note: the shared cache's layers are based on a different disk after the installation than this cache's: they are not used",
            "note: the shared cache has a different disk after the installation than this cache: it is kept, and no layer based on ours is sent"
        ]
    );
}

/// What is required is in the shared cache, or an error says why not; a failure in between is not
/// the last word.
#[test]
fn a_finished_disk_that_is_required_is_there_or_an_error() {
    let (registry, key) = (Registry::start(None), key());
    let a = Machine::new();
    let layer = a.seal(3, None, b"disk");
    let remote = a.requiring(registry.port, &key, signing(&key));
    remote.push_finished(&layer, &a.store).unwrap();
    // It is the same for who finds it there.
    remote.push_finished(&layer, &a.store).unwrap();
    assert_eq!(
        a.said(),
        ["note: the layer after step `two` is in the shared cache now"]
    );

    let b = Machine::new();
    let other = b.seal(3, None, b"the same inputs, built once more");
    let remote = b.requiring(registry.port, &key, signing(&key));
    let refused = remote.push_finished(&other, &b.store).unwrap_err();
    assert_eq!(refused.kind(), Kind::Fetch);
    assert_eq!(
        plain(&refused.to_string()),
        "the finished disk is required to be in the shared cache, but is not there\n  at: oci+http://REGISTRY/team/cache\n  \
         expected: the layer sha256:… of this host\n  found: a different disk, or none, with the same key\n  \
         cure: to use that one, build with an empty cache: WINIMG_CACHE_DIR"
    );

    let c = Machine::new();
    let layer = c.seal(3, None, b"disk");
    let nobody = c.requiring(1, &key, signing(&key));
    nobody.push_layer(&layer, &c.store).unwrap();
    let refused = nobody.push_finished(&layer, &c.store).unwrap_err();
    let text = plain(&refused.to_string());
    assert!(
        text.starts_with(
            "the finished disk is required to be in the shared cache, but is not there: the shared cache cannot be reached\n"
        ),
        "{text}"
    );
    assert!(
        text.ends_with("cure: run the same command again: it continues from the finished disk"),
        "{text}"
    );
}

#[test]
fn a_password_lets_in_and_is_never_said() {
    let registry = Registry::start(Some(
        "ci:$2b$05$abcdefghijklmnopqrstuutXu9KzOt.1yBoZUeFWoT/914/JfszCO\n",
    ));
    let key = key();
    let a = Machine::new();
    let layer = a.seal(3, None, b"disk");
    let without = a.remote(registry.port, None, Some(signing(&key)));
    without.push_layer(&layer, &a.store).unwrap();
    assert_eq!(
        a.said()[1..],
        [format!(
            "warning: the shared cache denies access\n  at: oci+http://REGISTRY/team/cache\n  found: not authorized\n  \
             cure: set WINIMG_CACHE_USER and WINIMG_CACHE_PASSWORD, or run `docker login` for it{GOES_ON}"
        )]
    );
    let credentials = || Some(Credentials::new("ci", Secret::new("open-sesame")));
    let remote = a.remote_as(
        registry.port,
        credentials(),
        Some(&key),
        Some(signing(&key)),
    );
    remote.push_layer(&layer, &a.store).unwrap();
    let b = Machine::new();
    let remote = b.remote_as(registry.port, credentials(), Some(&key), None);
    assert!(remote.pull_longest(chain().links(), 0, &b.store).unwrap());
    assert_eq!(b.layers(), a.layers());
    let said = [a.said(), b.said()].concat().join("\n") + &format!("{remote:?}");
    assert!(!said.contains("open-sesame"), "{said}");
}

#[test]
fn inputs_are_named_by_their_digest() {
    let (registry, key) = (Registry::start(None), key());
    let a = Machine::new();
    let path = a.path().join("input");
    fs::write(&path, noise(2 << 20, "input")).unwrap();
    let blob = blob_of(&a.store, path.clone());
    let remote = a.remote(registry.port, Some(&key), Some(signing(&key)));
    remote.push_blob("input", &blob).unwrap();
    let b = Machine::new();
    let remote = b.remote(registry.port, None, None);
    let sink: Arc<dyn Sink> = b.heard.clone();
    let watch = ProgressWatch::new("input", sink, Cancel::default());
    let came = b.path().join("came");
    let pull = |digest: &Digest| {
        let file = fs::File::create(&came).unwrap();
        remote
            .pull_blob(digest, 8 << 20, file, &b.store, &watch)
            .unwrap()
    };
    assert!(!pull(&Digest::sha256_of(b"nobody gave it")));
    assert!(pull(blob.digest()));
    assert_eq!(fs::read(&came).unwrap(), fs::read(&path).unwrap());
    registry.change(&blob.digest().to_string(), |bytes| bytes[0] ^= 1);
    assert!(!pull(blob.digest()));
    let said = b.said();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[1].starts_with("warning: the shared cache sent bytes that do not match their digest"),
        "{said:?}"
    );
}
