//! Proxies: those of the environment, and those that a host is configured with.
//!
//! The clients pass over a value that cannot be used without a word; it is named here, judged by the same reader as theirs. The
//! environment's values are never shown: they may hold a password.

use std::sync::Once;

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::{ClientBuilder, Proxy};
use url::Url;

use super::except::Except;
use winimg_base::text::Secret;
use winimg_base::unseen;

const HTTPS: &str = "https addresses";
const HTTP: &str = "http addresses";

/// The variables of one kind of proxy, the one that wins first, and what it is for.
const VARIABLES: &[([&str; 2], &str); 3] = &[
    (["HTTPS_PROXY", "https_proxy"], HTTPS),
    (["HTTP_PROXY", "http_proxy"], HTTP),
    (["ALL_PROXY", "all_proxy"], "all addresses"),
];

const EXCEPT: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// What a host is configured with. Of each kind the environment's wins, an empty one too: then there is none.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    pub https: Option<Url>,
    pub http: Option<Url>,
    pub all: Option<Url>,
    /// As `no_proxy` lists them.
    pub except: Vec<String>,
    /// Hosts that servers may lead to wherever they lie; with a dot in front, all below.
    pub near: Vec<String>,
    /// For the proxies of this configuration, and no others.
    pub credentials: Option<(String, Secret)>,
}

/// One proxy that is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// `https addresses`
    pub used_for: &'static str,
    /// May hold a password.
    pub address: String,
    /// The variable that names it; `None`: the configuration.
    pub variable: Option<&'static str>,
}

impl Proxies {
    /// The proxies that this process uses, in the order of [`VARIABLES`], and the hosts that are reached without one.
    pub fn used(&self, variable: &dyn Fn(&str) -> Option<String>) -> (Vec<Used>, String) {
        let own = [&self.https, &self.http, &self.all];
        let mut used = Vec::new();
        for ((names, used_for), own) in VARIABLES.iter().zip(own) {
            let set = names
                .iter()
                .find_map(|name| Some((Some(*name), variable(name)?)));
            let own = own.as_ref().map(|url| (None, url.to_string()));
            if let Some((variable, address)) = set.or(own).filter(|(_, text)| !text.is_empty()) {
                used.push(Used {
                    used_for,
                    address,
                    variable,
                });
            }
        }
        let except = EXCEPT.iter().find_map(|name| variable(name));
        (used, except.unwrap_or_else(|| self.except.join(",")))
    }

    /// Which addresses are asked through a proxy.
    pub(super) fn through(&self) -> Through {
        let (used, except) = self.used(&variable);
        let matcher = if self.is_of_system(&variable) {
            Matcher::from_system()
        } else {
            let all = used.into_iter();
            let builder = all.fold(Matcher::builder(), |builder, one| match one.used_for {
                HTTPS => builder.https(one.address),
                HTTP => builder.http(one.address),
                _ => builder.all(one.address),
            });
            builder.build()
        };
        Through {
            matcher,
            except: Except::read(&except).0,
        }
    }

    /// Whether nobody names a proxy but the system's own settings, which Windows and macOS have.
    fn is_of_system(&self, variable: &dyn Fn(&str) -> Option<String>) -> bool {
        let own = [&self.https, &self.http, &self.all];
        let mut names = VARIABLES.iter().flat_map(|(names, _)| names);
        own.iter().all(|own| own.is_none()) && names.all(|name| variable(name).is_none())
    }

    /// The client with these proxies, for whatever it is asked.
    pub(super) fn apply(&self, builder: ClientBuilder) -> ClientBuilder {
        if self.is_of_system(&variable) {
            return builder;
        }
        let (used, _) = self.used(&variable);
        // The first that is added keeps the clients from looking at the environment.
        let mut builder = builder.no_proxy();
        for one in used {
            // A host with a port alone would be read as an address with a scheme.
            let address = if one.address.contains("://") {
                one.address
            } else {
                format!("http://{}", one.address)
            };
            let made = match one.used_for {
                HTTPS => Proxy::https(address),
                HTTP => Proxy::http(address),
                _ => Proxy::all(address),
            };
            // One that cannot be used was warned about.
            let Ok(made) = made else { continue };
            builder = builder.proxy(match (&self.credentials, one.variable) {
                (Some((user, password)), None) => made.basic_auth(user, password.expose()),
                _ => made,
            });
        }
        builder
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Which addresses are asked through a proxy.
pub(super) struct Through {
    matcher: Matcher,
    except: Except,
}

impl Through {
    pub fn takes(&self, url: &Url) -> bool {
        let uri = url.as_str().parse();
        uri.is_ok_and(|uri| self.matcher.intercept(&uri).is_some()) && !self.except.has(url)
    }
}

static REPORTED: Once = Once::new();

/// Warns of each, once a process.
pub(super) fn warn_of_broken(proxies: &Proxies, warn: impl Fn(String)) {
    REPORTED.call_once(|| {
        broken(&variable).into_iter().for_each(&warn);
        proxies.unread(&variable).into_iter().for_each(&warn);
    });
}

impl Proxies {
    /// The hosts without a proxy that cannot be read: in the first line which, then what is
    /// expected.
    pub fn unread(&self, variable: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
        let (used, except) = self.used(variable);
        let named = EXCEPT.iter().find(|name| variable(name).is_some());
        let whose = named.map_or("`except` under [proxy]", |name| *name);
        let (_, unread) = Except::read(&except);
        let warning = |entry: &str| {
            // It may be an address with a password.
            let shown = if entry.contains('@') {
                "an entry with an @"
            } else {
                entry
            };
            format!(
                "{whose}: {} is not understood, so the proxy is asked for it\n  expected: a host, a \
                 domain (corp.example, .corp.example, *.corp.example), an address, a network \
                 (10.0.0.0/8), each with a port or without, or *",
                unseen::line(shown)
            )
        };
        if used.is_empty() {
            Vec::new()
        } else {
            unread.into_iter().map(warning).collect()
        }
    }
}

/// Those that cannot be used: the variable and the fault in the first line, then what is expected.
pub fn broken(variable: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
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
    fn the_environment_wins_over_the_configuration_kind_by_kind() {
        let url = |text: &str| text.parse().ok();
        let configured = Proxies {
            https: url("http://a.example:1"),
            http: url("http://b.example:2"),
            all: url("socks5://c.example:3"),
            except: vec!["localhost".into(), ".corp".into()],
            near: Vec::new(),
            credentials: None,
        };
        let used = |set: &[(&str, &str)]| {
            let (used, except) = configured.used(&|name| {
                let found = set.iter().find(|(set, _)| *set == name);
                found.map(|(_, value)| (*value).to_string())
            });
            let word = |u: &Used| format!("{} {} {:?}", u.used_for, u.address, u.variable);
            let words: Vec<String> = used.iter().map(word).collect();
            format!("{}\n{except}", words.join("\n"))
        };
        assert_eq!(
            used(&[]),
            "https addresses http://a.example:1/ None\n\
             http addresses http://b.example:2/ None\n\
             all addresses socks5://c.example:3 None\n\
             localhost,.corp"
        );
        assert_eq!(
            used(&[
                ("https_proxy", "d.example:4"),
                ("HTTP_PROXY", ""),
                ("no_proxy", "")
            ]),
            "https addresses d.example:4 Some(\"https_proxy\")\n\
             all addresses socks5://c.example:3 None\n"
        );
    }

    #[test]
    fn a_host_without_a_proxy_that_cannot_be_read_is_named() {
        let unread = |set: &[(&str, &str)]| {
            let warnings = Proxies::default().unread(&|name| {
                let found = set.iter().find(|(set, _)| *set == name);
                found.map(|(_, value)| (*value).to_string())
            });
            let first = |text: String| text.lines().next().map(str::to_owned).unwrap();
            warnings.into_iter().map(first).collect::<Vec<_>>()
        };
        let proxy = ("https_proxy", "http://p.example:1");
        assert_eq!(
            unread(&[proxy, ("no_proxy", "*.corp, 192.168.*, u:hunter2@h/x")]),
            [
                "no_proxy: 192.168.* is not understood, so the proxy is asked for it",
                "no_proxy: an entry with an @ is not understood, so the proxy is asked for it"
            ]
        );
        // Where no proxy is used, nothing comes of it.
        assert_eq!(unread(&[("NO_PROXY", "192.168.*")]), Vec::<String>::new());
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
