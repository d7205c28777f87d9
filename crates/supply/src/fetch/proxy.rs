//! Proxies that the environment names and that cannot be used: the clients pass over them without a word.
//!
//! Judged by the same reader as the clients'. The values are never shown: they may hold a password.

use std::sync::Once;

use hyper_util::client::proxy::matcher::Matcher;

/// The variables of one kind of proxy, the one that wins first, and what it is for.
const VARIABLES: &[([&str; 2], &str)] = &[
    (["HTTPS_PROXY", "https_proxy"], "https addresses"),
    (["HTTP_PROXY", "http_proxy"], "http addresses"),
    (["ALL_PROXY", "all_proxy"], "all addresses"),
];

static REPORTED: Once = Once::new();

/// Warns of each, once a process.
pub(super) fn warn_of_broken(warn: impl Fn(String)) {
    REPORTED.call_once(|| {
        let variable = |name: &str| std::env::var(name).ok();
        broken(&variable).into_iter().for_each(&warn);
    });
}

fn broken(variable: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (names, used_for) in VARIABLES {
        let mut set = names
            .iter()
            .filter_map(|name| Some((name, variable(name)?)));
        let Some((name, value)) = set.next().filter(|(_, value)| !value.is_empty()) else {
            continue;
        };
        let fact = match judge(&value) {
            None => continue,
            Some(Fault::Address) => format!(
                "{name} is ignored: its value is not a proxy's address, so it is not used for {used_for}"
            ),
            Some(Fault::Port) => {
                format!("{name} cannot be used: the port of the proxy is not a number up to 65535")
            }
        };
        warnings.push(format!(
            "{fact}\n  expected: such as http://proxy.example.com:3128; https, socks4 and socks5 are read, too"
        ));
    }
    warnings
}

enum Fault {
    /// The clients pass over it.
    Address,
    /// The clients take it, and reach nothing.
    Port,
}

fn judge(value: &str) -> Option<Fault> {
    let any = "http://any.example/".parse().ok()?;
    let Some(proxy) = Matcher::builder().all(value).build().intercept(&any) else {
        return Some(Fault::Address);
    };
    let uri = proxy.uri();
    let (host, authority) = (uri.host()?, uri.authority()?.as_str());
    if host.is_empty() {
        return Some(Fault::Address);
    }
    let port = authority.strip_prefix(host)?.strip_prefix(':')?;
    (port.parse::<u16>().is_err() && !port.is_empty()).then_some(Fault::Port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(set: &[(&str, &str)]) -> Vec<String> {
        broken(&|name| {
            let found = set.iter().find(|(set, _)| *set == name);
            found.map(|(_, value)| (*value).to_string())
        })
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_named_and_its_value_is_not() {
        let unread = "ALL_PROXY is ignored: its value is not a proxy's address";
        let no_port = "ALL_PROXY cannot be used: the port of the proxy is not a number";
        for (value, fact) in [
            ("ftp://user:hunter2@proxy.example.com", unread),
            ("http//user:hunter2@proxy.example.com", unread),
            ("http://user:hunter2@", unread),
            ("user:hunter2@proxy example", unread),
            ("/hunter2", unread),
            ("http://user:hunter2@proxy.example.com:port", no_port),
            ("proxy.example.com:hunter2", no_port),
            ("http://[::1]:66000", no_port),
        ] {
            let complaints = complaints(&[("ALL_PROXY", value)]);
            assert_eq!(complaints.len(), 1, "{value}: {complaints:?}");
            assert!(complaints[0].starts_with(fact), "{complaints:?}");
            assert!(!complaints[0].contains("hunter2"), "{complaints:?}");
        }
    }

    #[test]
    fn a_proxy_that_is_used_is_no_warning() {
        for value in [
            "",
            "proxy.example.com:3128",
            "http://user:hunter2@proxy.example.com:3128",
            "https://proxy.example.com/",
            "socks5h://127.0.0.1:1080",
        ] {
            assert_eq!(
                complaints(&[("ALL_PROXY", value)]),
                Vec::<String>::new(),
                "{value}"
            );
        }
        // The upper case wins, as in the clients.
        let both = [("http_proxy", "broken proxy"), ("HTTP_PROXY", "http://p:1")];
        assert_eq!(complaints(&both), Vec::<String>::new());
    }
}
