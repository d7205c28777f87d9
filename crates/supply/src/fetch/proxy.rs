//! Proxies of the environment and of the host's configuration.
//!
//! HTTP clients silently ignore an unusable value; it is reported here, parsed in the same way.
//! Values of the environment are never shown: they may contain a password.

use std::sync::Once;

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::{ClientBuilder, Proxy};
use url::Url;

use super::no_proxy::NoProxyList;
use winimg_base::display_text;
use winimg_base::text::Secret;

const HTTPS: &str = "https addresses";
const HTTP: &str = "http addresses";

/// The variables of each kind of proxy in order of precedence, and its use.
const VARIABLES: &[([&str; 2], &str); 3] = &[
    (["HTTPS_PROXY", "https_proxy"], HTTPS),
    (["HTTP_PROXY", "http_proxy"], HTTP),
    (["ALL_PROXY", "all_proxy"], "all addresses"),
];

const NO_PROXY_VARIABLES: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// Proxies of the host's configuration. For each kind the environment takes precedence; an empty
/// variable disables it.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    pub https: Option<Url>,
    pub http: Option<Url>,
    pub all: Option<Url>,
    /// Entries in the form of `no_proxy`.
    pub except: Vec<String>,
    /// Hosts that servers may redirect to in any zone; with a leading dot, all subdomains.
    pub near: Vec<String>,
    /// Only for the proxies of this configuration.
    pub credentials: Option<(String, Secret)>,
}

/// A proxy in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyInUse {
    /// `https addresses`
    pub used_for: &'static str,
    /// May contain a password.
    pub address: String,
    /// The variable that names it; `None`: the configuration.
    pub variable: Option<&'static str>,
}

impl Proxies {
    /// Lists the proxies of this process in the order of [`VARIABLES`], and the hosts reached
    /// without one.
    pub fn list_used(
        &self,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> (Vec<ProxyInUse>, String) {
        let configured = [&self.https, &self.http, &self.all];
        let mut used = Vec::new();
        for ((names, used_for), configured) in VARIABLES.iter().zip(configured) {
            let from_environment = names
                .iter()
                .find_map(|name| Some((Some(*name), variable(name)?)));
            let configured = configured.as_ref().map(|url| (None, url.to_string()));
            if let Some((variable, address)) = from_environment
                .or(configured)
                .filter(|(_, text)| !text.is_empty())
            {
                used.push(ProxyInUse {
                    used_for,
                    address,
                    variable,
                });
            }
        }
        let except = NO_PROXY_VARIABLES.iter().find_map(|name| variable(name));
        (used, except.unwrap_or_else(|| self.except.join(",")))
    }

    /// Builds the matcher for addresses that go through a proxy.
    pub(super) fn build_matcher(&self) -> ProxyMatcher {
        let (used, except) = self.list_used(&read_variable);
        let matcher = if self.uses_system_settings(&read_variable) {
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
        ProxyMatcher {
            matcher,
            except: NoProxyList::read(&except).0,
        }
    }

    /// Returns true if only the system settings of Windows or macOS may name a proxy.
    fn uses_system_settings(&self, variable: &dyn Fn(&str) -> Option<String>) -> bool {
        let configured = [&self.https, &self.http, &self.all];
        let mut names = VARIABLES.iter().flat_map(|(names, _)| names);
        configured.iter().all(|url| url.is_none()) && names.all(|name| variable(name).is_none())
    }

    /// Sets these proxies for all requests of the client.
    pub(super) fn apply(&self, builder: ClientBuilder) -> ClientBuilder {
        if self.uses_system_settings(&read_variable) {
            return builder;
        }
        let (used, _) = self.list_used(&read_variable);
        // This keeps the client from reading the environment.
        let mut builder = builder.no_proxy();
        for one in used {
            // A host with only a port would be parsed as an address with a scheme.
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
            // A proxy that cannot be used has been warned about.
            let Ok(made) = made else { continue };
            builder = builder.proxy(match (&self.credentials, one.variable) {
                (Some((user, password)), None) => made.basic_auth(user, password.expose()),
                _ => made,
            });
        }
        builder
    }
}

fn read_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Matches the addresses that go through a proxy.
pub(super) struct ProxyMatcher {
    matcher: Matcher,
    except: NoProxyList,
}

impl ProxyMatcher {
    pub fn matches(&self, url: &Url) -> bool {
        let uri = url.as_str().parse();
        uri.is_ok_and(|uri| self.matcher.intercept(&uri).is_some()) && !self.except.has(url)
    }
}

static REPORTED: Once = Once::new();

/// Warns of each unusable setting, once per process.
pub(super) fn warn_of_unusable(proxies: &Proxies, warn: impl Fn(String)) {
    REPORTED.call_once(|| {
        find_unusable_proxies(&read_variable)
            .into_iter()
            .for_each(&warn);
        proxies
            .find_invalid_exceptions(&read_variable)
            .into_iter()
            .for_each(&warn);
    });
}

impl Proxies {
    /// Lists the `no_proxy` entries that are not understood: the entry in the first line, then the
    /// expected forms.
    pub fn find_invalid_exceptions(
        &self,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Vec<String> {
        let (used, except) = self.list_used(variable);
        let named = NO_PROXY_VARIABLES
            .iter()
            .find(|name| variable(name).is_some());
        let setting = named.map_or("`except` under [proxy]", |name| *name);
        let (_, unread) = NoProxyList::read(&except);
        if used.is_empty() {
            return Vec::new();
        }
        unread
            .into_iter()
            .map(|entry| describe_exception(setting, entry))
            .collect()
    }
}

fn describe_exception(setting: &str, entry: &str) -> String {
    // It may be an address with a password.
    let shown = if entry.contains('@') {
        "an entry with an @"
    } else {
        entry
    };
    format!(
        "{setting}: {} is not understood, so it is ignored\n  expected: a host, a domain \
         (corp.example, .corp.example, *.corp.example), an address, a network (10.0.0.0/8), each \
         with or without a port, or *",
        display_text::sanitize_line(shown)
    )
}

/// Lists the variables that cannot be used: the variable and the fault in the first line, then the
/// expected value.
pub fn find_unusable_proxies(variable: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (names, used_for) in VARIABLES {
        let mut set = names
            .iter()
            .filter_map(|name| Some((name, variable(name)?)));
        let Some((name, value)) = set.next().filter(|(_, value)| !value.is_empty()) else {
            continue;
        };
        let fact = match find_fault(&value) {
            None => continue,
            Some(ProxyFault::Address) => format!(
                "{name} is ignored: its value is not a proxy address, so it is not used for \
                 {used_for}"
            ),
            Some(ProxyFault::Port) => {
                format!("{name} cannot be used: the port of the proxy is not a number up to 65535")
            }
        };
        warnings.push(format!(
            "{fact}\n  expected: such as http://proxy.example.com:3128; https, socks4 and socks5 \
             work, too"
        ));
    }
    warnings
}

enum ProxyFault {
    /// Clients ignore it.
    Address,
    /// Clients use it and cannot connect.
    Port,
}

fn find_fault(value: &str) -> Option<ProxyFault> {
    let any = "http://any.example/".parse().ok()?;
    let Some(proxy) = Matcher::builder().all(value).build().intercept(&any) else {
        return Some(ProxyFault::Address);
    };
    let uri = proxy.uri();
    let (host, authority) = (uri.host()?, uri.authority()?.as_str());
    if host.is_empty() {
        return Some(ProxyFault::Address);
    }
    let port = authority.strip_prefix(host)?.strip_prefix(':')?;
    (port.parse::<u16>().is_err() && !port.is_empty()).then_some(ProxyFault::Port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(set: &[(&str, &str)]) -> Vec<String> {
        find_unusable_proxies(&|name| {
            let found = set.iter().find(|(set, _)| *set == name);
            found.map(|(_, value)| (*value).to_string())
        })
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_named_and_its_value_is_not() {
        let unread = "ALL_PROXY is ignored: its value is not a proxy address";
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
            let (used, except) = configured.list_used(&|name| {
                let found = set.iter().find(|(set, _)| *set == name);
                found.map(|(_, value)| (*value).to_string())
            });
            let word = |u: &ProxyInUse| format!("{} {} {:?}", u.used_for, u.address, u.variable);
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
            let warnings = Proxies::default().find_invalid_exceptions(&|name| {
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
                "no_proxy: 192.168.* is not understood, so it is ignored",
                "no_proxy: an entry with an @ is not understood, so it is ignored"
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
