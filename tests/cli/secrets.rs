//! Secrets of every kind go into builds that end well and builds that fail; nothing that is shown or left holds one.

use std::process::Output;

use crate::cli::site::{BUILD, SEAL, Site};
use support::docker_registry::Registry;
use support::media;
use support::planted::{
    CACHE_HTPASSWD, CACHE_KEY, ENVIRONMENT, PASSWORD, PRODUCT_KEY, PROXY_USER, Proxy, Sampler,
    Search, TOKEN, planted,
};
use support::tree::root;

/// A volume licence's medium, and a recipe with a key of the team's own and a signed URL.
fn site(proxy: &Proxy) -> Site {
    let site = Site::new(SEAL);
    let root = site.path("medium/root");
    for (image, edition) in [
        ("1", "Standard"),
        ("2", "Standard"),
        ("3", "Datacenter"),
        ("4", "Datacenter"),
    ] {
        let wim = root.join("sources/install.wim");
        let edition = &format!("--image-property=WINDOWS/EDITIONID=Server{edition}");
        media::run(
            "wimlib-imagex",
            &["info", media::text(&wim), image, edition],
        );
    }
    media::put(
        &root,
        "sources/EI.CFG",
        b"[Channel]\r\nvolume\r\n[VL]\r\n1\r\n",
    );
    let boot = [
        "-b",
        "boot/etfsboot.com",
        "-no-emul-boot",
        "-eltorito-alt-boot",
        "-e",
        "efi/microsoft/boot/efisys.bin",
        "-no-emul-boot",
    ];
    media::udf(&root, &site.path("windows.iso"), &boot);
    let recipe = site.read("recipe.toml");
    let recipe = recipe
        .replace(
            "[media]\n",
            &format!("[media]\nproduct_key = \"{PRODUCT_KEY}\"\n"),
        )
        .replace(
            "url = \"tool.exe\"",
            &format!("url = \"http://files.example/tool.exe?sig={TOKEN}&who=me\""),
        )
        .replace("raw = {}", "raw = {}\nvhd = {}\nova = {}");
    let copy = "[[steps]]\nname = \"the tool\"\ncopy = { component = \"tool\", to = 'C:\\k\\tool.exe' }\n\n\
        [[steps]]\nname = \"hello\"\ncmd = \"echo hello\"\n\n[[steps]]";
    site.write("recipe.toml", &recipe.replacen("[[steps]]", copy, 1));
    assert!(proxy.port > 0);
    site
}

fn run(site: &Site, proxy: &Proxy, arguments: &[&str]) -> Output {
    let mut command = site.command(arguments);
    command
        .arg("-vv")
        .envs(ENVIRONMENT)
        .env("http_proxy", proxy.url())
        .env("https_proxy", proxy.url())
        // The registry of the shared cache.
        .env("no_proxy", "127.0.0.1")
        .env("RUST_LOG", "trace")
        .env("WINIMG_LOG", "trace")
        .output()
        .expect("winimg starts")
}

/// Where a secret was found.
fn leaks(
    site: &Site,
    outputs: &[(&str, &Output)],
    lines: &std::collections::BTreeSet<Vec<u8>>,
) -> Vec<String> {
    let search = Search::default();
    // The recipe is the user's own, and so is where the tests keep the program's environment: nowhere.
    let mut found = search.below(site.path(".").as_path(), &["recipe.toml"]);
    for (name, output) in outputs {
        for (stream, bytes) in [
            ("standard output", &output.stdout),
            ("standard error", &output.stderr),
        ] {
            let said = search.in_bytes(bytes).into_iter();
            found.extend(said.map(|what| format!("{name}: {stream}: {what}")));
        }
    }
    for line in lines {
        let said = search.in_bytes(line).into_iter();
        let shown = String::from_utf8_lossy(line).replace('\0', " ");
        found.extend(said.map(|what| format!("the command line {shown}: {what}")));
    }
    found
}

/// The list of the search and the list that users read are one.
#[test]
fn every_secret_that_docs_name_is_planted() {
    let docs = std::fs::read_to_string(root().join("docs/secrets.md")).expect("docs/secrets.md");
    let rows = docs.lines().filter_map(|line| line.strip_prefix("| "));
    // The head, and then one secret a row.
    let rendered = rows.skip(1).filter_map(|row| row.split(" | ").next());
    let mut rendered: Vec<&str> = rendered.collect();
    let mut names: Vec<&str> = planted().iter().map(|(name, _)| *name).collect();
    rendered.sort_unstable();
    names.sort_unstable();
    assert_eq!(names, rendered);
    // What winimg keeps from other programs is documented, and is in the environment of these builds.
    let ours = include_str!("../../crates/base/src/io/child.rs").split('"');
    for name in ours.filter(|word| word.starts_with("WINIMG_")) {
        assert!(docs.contains(name), "{name} is not in docs/secrets.md");
        assert!(ENVIRONMENT.iter().any(|(n, _)| *n == name), "{name}");
    }
}

#[test]
fn a_good_build_shows_and_leaves_no_secret() {
    let proxy = Proxy::start("200 OK", b"MZ the tool\n".to_vec());
    let site = site(&proxy);
    let sampler = Sampler::start();
    let validate = run(&site, &proxy, &["validate", "recipe.toml"]);
    let plan = run(&site, &proxy, &["plan", "recipe.toml"]);
    let json = run(&site, &proxy, &["plan", "recipe.toml", "--json"]);
    let registry = Registry::start(Some(CACHE_HTPASSWD));
    let address = format!("oci+http://127.0.0.1:{}/team/cache", registry.port);
    let cache = [
        "--cache-remote",
        &address,
        "--cache-key",
        CACHE_KEY,
        "--cache-push",
    ];
    let build = run(&site, &proxy, &[&BUILD[..], &cache].concat());
    let said = String::from_utf8_lossy(&build.stderr).into_owned();
    assert!(build.status.success(), "{said}");
    let again = run(
        &site,
        &proxy,
        &[
            &["--log-format", "json"],
            &BUILD[..5],
            &["again", "--no-verify"],
        ]
        .concat(),
    );
    let lines = sampler.end();
    let requests = "request url=http://files.example/tool.exe?";
    assert!(said.contains(requests), "nothing was traced: {said}");
    // The secrets were used: otherwise the search would prove nothing.
    let given = registry
        .folder
        .path()
        .join("data/docker/registry/v2/repositories/team/cache");
    assert!(
        given.is_dir(),
        "nothing was given to the shared cache: {said}"
    );
    let asked = proxy.asked.lock().unwrap().join("\n");
    assert!(asked.contains(&format!("tool.exe?sig={TOKEN}")), "{asked}");
    assert!(
        asked.to_lowercase().contains("proxy-authorization: basic"),
        "{asked}"
    );
    for output in [&validate, &plan, &json, &again] {
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let outputs = [
        ("validate", &validate),
        ("plan", &plan),
        ("plan --json", &json),
        ("build", &build),
        ("build in JSON", &again),
    ];
    assert_eq!(leaks(&site, &outputs, &lines), Vec::<String>::new());
    for path in [
        "out/manifest.json",
        "out/events.jsonl",
        "out/node.raw",
        "out/node.ova",
        "out/manifest.json.sig",
        "again/manifest.json",
    ] {
        assert!(site.path(path).exists(), "{path} was to be searched");
    }
}

#[test]
fn a_failed_build_shows_and_leaves_no_secret() {
    for (name, status, head, reason) in [
        (
            "the proxy refuses",
            "407 Proxy Authentication Required",
            "",
            "407",
        ),
        ("the server refuses", "403 Forbidden", "", "403"),
        (
            "another file is served",
            "200 OK",
            "",
            "is not the file that the recipe names",
        ),
        (
            "setup stands still",
            "200 OK",
            "[install]
outcome = \"stands-still\"
",
            "Setup",
        ),
        (
            "setup crashes",
            "200 OK",
            "[install]
outcome = \"crashes\"
",
            "machine",
        ),
        (
            "a step fails",
            "200 OK",
            "default_exit = 1
",
            "hello",
        ),
    ] {
        let body: &[u8] = match name {
            "another file is served" => b"not the tool\n",
            _ => b"MZ the tool\n",
        };
        let proxy = Proxy::start(status, body.to_vec());
        let site = site(&proxy);
        site.machine(head, "");
        if name == "a step fails" {
            let machine = site.read("machine.toml");
            site.write("machine.toml", &machine.replace(r"\steps\*.cmd", r"\none"));
        }
        let sampler = Sampler::start();
        let text = run(&site, &proxy, &BUILD);
        let json = run(
            &site,
            &proxy,
            &[
                &["--log-format", "json"],
                &BUILD[..5],
                &["again", "--no-verify"],
            ]
            .concat(),
        );
        let lines = sampler.end();
        for output in [&text, &json] {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                !output.status.success() && said.contains(reason),
                "{name}: {said}"
            );
        }
        // The second build has the file in its cache.
        for (file, rendered) in [
            ("out/failure/debug.jsonl", "http://files.example/tool.exe"),
            ("again/failure/debug.jsonl", "the recipe is read"),
        ] {
            let traced = site.read(file);
            assert!(traced.contains(rendered), "{name}: {traced}");
        }
        let outputs = [("build", &text), ("build in JSON", &json)];
        assert_eq!(
            leaks(&site, &outputs, &lines),
            Vec::<String>::new(),
            "{name}"
        );
    }
}

/// Nobody listens there, and the key is not one: complaints show what they are about, and these are about secrets.
#[test]
fn complaints_about_secrets_do_not_repeat_them() {
    let proxy = Proxy::start("200 OK", Vec::new());
    let site = site(&proxy);
    let recipe = site.read("recipe.toml");
    let mut outputs = Vec::new();
    let wrong_key = recipe.replace("-KLMNO\"", "-KLMNO-\"");
    let on_a_line_with_a_mistake = recipe.replace("&who=me\"", "&who=me\" oops");
    let twice = recipe.replace(
        "[media]\n",
        &format!("[media]\nproduct_key = \"{PRODUCT_KEY}\"\n"),
    );
    let unknown = recipe.replace("product_key", "product_kez");
    for text in [&wrong_key, &on_a_line_with_a_mistake, &twice, &unknown] {
        assert_ne!(*text, recipe);
        site.write("recipe.toml", text);
        for arguments in [
            &["validate", "recipe.toml"][..],
            &["--log-format", "json", "validate", "recipe.toml"],
        ] {
            let output = run(&site, &proxy, arguments);
            assert_eq!(output.status.code(), Some(2));
            outputs.push(output);
        }
    }
    site.write("recipe.toml", &recipe);
    // A proxy that is not there.
    let mut command = site.command(&BUILD);
    let nowhere = format!("http://{PROXY_USER}:plantedproxy45@127.0.0.1:1/");
    let output = command
        .env("http_proxy", nowhere)
        .env("WINIMG_ADMIN_PASSWORD", PASSWORD)
        .output();
    outputs.push(output.expect("winimg starts"));
    let outputs: Vec<(&str, &Output)> = outputs.iter().map(|o| ("a complaint", o)).collect();
    assert_eq!(
        leaks(&site, &outputs, &Default::default()),
        Vec::<String>::new()
    );
}
