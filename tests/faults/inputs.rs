//! Inputs: servers that misbehave, files that are not what they should be, a cache that was damaged.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::faults::case::Case;
use crate::faults::site::Site;
use support::server::{Answer, Asked, Cut, Server};

/// The component that comes from a server: large enough to be cut.
const SIZE: usize = 300_000;

fn content() -> Vec<u8> {
    (0..SIZE).map(|n| (n % 251) as u8).collect()
}

fn case(name: &'static str) -> Case {
    Case::new("inputs", name)
}

/// Serves the component as `answer` says while `bad`, and well afterwards.
fn served(
    name: &'static str,
    answer: impl Fn(&Asked, u32) -> Option<Answer> + Send + Sync + 'static,
) -> Case {
    let answer = Arc::new(answer);
    let held: Arc<Mutex<Option<Server>>> = Arc::default();
    let (kept, told) = (Arc::clone(&held), Arc::clone(&held));
    let mut case = case(name)
        .before(move |site| {
            let asked = AtomicU32::new(0);
            let answer = Arc::clone(&answer);
            let bytes = content();
            let healed = site.path("healed");
            let server = Server::start(move |request| {
                let bad = (!healed.exists()).then(|| answer(request, asked.fetch_add(1, Ordering::SeqCst)));
                bad.flatten().unwrap_or_else(|| Answer::file(request, &bytes, "\"v1\""))
            });
            std::fs::write(site.path("served.bin"), content()).expect("a file");
            let digest = support::media::run("sha256sum", &[support::media::text(&site.path("served.bin"))]);
            let recipe = site.read("recipe.toml");
            let url = server.url("/served.bin");
            let with = format!("[components.served]\nversion = \"1\"\nurl = \"{url}\"\nsha256 = \"{}\"\n\n[outputs]", &digest[..64]);
            site.write("recipe.toml", &recipe.replace("[outputs]", &with).replace(
                "copy = { component = \"tool\", to = 'C:\\k\\tool.exe' }",
                "copy = { component = \"served\", to = 'C:\\k\\served.bin' }",
            ));
            *kept.lock().expect("a server") = Some(server);
            Box::new(())
        })
        .after(|site: &Site| site.write("healed", ""))
        .reused(move |_, _| {
            let server = told.lock().expect("a server").take();
            let log = server.map(|s| s.log()).unwrap_or_default();
            let last = log.last().cloned().unwrap_or_default();
            Ok(format!("{} requests, the last: {last}", log.len()))
        });
    case.mended = false;
    case
}

pub fn cases() -> Vec<Case> {
    let mut all = servers();
    all.extend(caches());
    all
}

fn servers() -> Vec<Case> {
    vec![
        served("the connection is cut once", |asked, n| {
            (n == 0).then(|| Answer::file(asked, &content(), "\"v1\"").cut(100_000, Cut::Close))
        }),
        served("200 with half a body, again and again", |_, _| {
            Some(Answer::new("200 OK", &[], &content()[..SIZE / 2]).claims(SIZE as u64))
        })
        .refuses(4, ""),
        served(
            "the connection is cut until the build gives up",
            |asked, n| {
                let first = Answer::file(asked, &content(), "\"v1\"").cut(150_000, Cut::Close);
                Some(if n == 0 {
                    first
                } else {
                    Answer::new("503 Service Unavailable", &[], "")
                })
            },
        )
        .refuses(4, ""),
        served("another file than the pinned one", |_, _| {
            Some(Answer::new("200 OK", &[], "another"))
        })
        .refuses(5, ""),
        served("a login page instead of the file", |_, _| {
            Some(Answer::new(
                "200 OK",
                &[("content-type", "text/html")],
                "<!doctype html><title>Sign in</title>",
            ))
        })
        .refuses(4, ""),
        served("the file is gone", |_, _| {
            Some(Answer::new("404 Not Found", &[], "no"))
        })
        .refuses(4, ""),
        served("the server fails at first", |_, n| {
            (n < 2).then(|| Answer::new("500 Internal Server Error", &[], ""))
        }),
        served("redirected in a circle", |asked, _| {
            Some(Answer::redirect(&asked.path))
        })
        .refuses(4, ""),
    ]
}

/// Does harm to each file below the folder whose name ends so.
pub fn harm(site: &Site, folder: &str, name: &str, how: impl Fn(&mut Vec<u8>)) {
    let mut todo = vec![site.path(folder)];
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                todo.push(path);
            } else if path.to_string_lossy().ends_with(name) {
                let mut bytes = std::fs::read(&path).expect("a file");
                how(&mut bytes);
                // Not over the old one: a blob is read-only, and a damaged disk asks nobody.
                std::fs::remove_file(&path).expect("it goes");
                std::fs::write(&path, bytes).expect("a file");
            }
        }
    }
}

fn caches() -> Vec<Case> {
    vec![
        case("every blob of the cache has a flipped bit").before(|site| {
            harm(site, "cache/blobs", "", |bytes| {
                if let Some(byte) = bytes.last_mut() {
                    *byte ^= 1;
                }
            });
            Box::new(())
        }),
        case("every blob of the cache is cut").before(|site| {
            harm(site, "cache/blobs", "", |bytes| {
                bytes.truncate(bytes.len() / 2)
            });
            Box::new(())
        }),
        case("the cache's records are rubbish").before(|site| {
            for folder in ["cache/local", "cache/seen", "cache/stamps"] {
                harm(site, folder, "", |bytes| *bytes = b"{\"x\": [".to_vec());
            }
            Box::new(())
        }),
        case("the cache is gone").before(|site| {
            std::fs::remove_dir_all(site.path("cache")).expect("it was there");
            Box::new(())
        }),
        case("a component is not what is pinned")
            .before(|site| {
                site.write("tool.exe", "MZ another tool\n");
                let _ = std::fs::remove_dir_all(site.path("cache"));
                Box::new(())
            })
            .after(|site| site.write("tool.exe", "MZ the tool\n"))
            .refuses(5, ""),
        case("the install disc is cut")
            .before(|site| {
                let iso = site.path("windows.iso");
                let bytes = std::fs::read(&iso).expect("the disc");
                std::fs::write(site.path("whole.iso"), &bytes).expect("a copy");
                std::fs::write(&iso, &bytes[..bytes.len() / 3]).expect("a part");
                Box::new(())
            })
            .after(|site| {
                std::fs::rename(site.path("whole.iso"), site.path("windows.iso"))
                    .expect("the whole disc")
            })
            .refuses(5, ""),
    ]
}
