//! The control plane that clones join: what `kubeadm token create --print-join-command` prints, as a type, and the user data that Cluster
//! API's kubeadm provider would make of it. Pure.
//!
//! The token is a secret: no message quotes what was read. Refuses every option but the two that the command has.

use std::fmt;

use winimg_base::text::Secret;

/// How a node finds its control plane and proves itself to it.
#[derive(Clone)]
pub struct Join {
    /// `192.0.2.10:6443`
    endpoint: String,
    token: Secret,
    /// `sha256:` and 64 hexadecimal digits, one for each authority.
    hashes: Vec<String>,
}

impl fmt::Debug for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a join to {}", self.endpoint)
    }
}

const FORM: &str =
    "kubeadm join HOST:PORT --token TOKEN --discovery-token-ca-cert-hash sha256:HASH";

impl Join {
    /// # Errors
    /// What is wrong with it, all at once and without a word of it that may be the token.
    pub fn parse(text: &str) -> Result<Self, String> {
        // kubeadm init breaks the command over two lines.
        let words = text.split_whitespace().filter(|word| *word != "\\");
        let mut words = words
            .enumerate()
            .skip_while(|(at, word)| matches!((at, *word), (0, "kubeadm") | (1, "join")));
        let mut wrong = Vec::new();
        let (mut endpoint, mut token, mut hashes) = (None, None, Vec::new());
        while let Some((at, word)) = words.next() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word, None),
            };
            let mut value = || value.or_else(|| Some(words.next()?.1)).unwrap_or_default();
            match name {
                "--token" => token = Some(value()).filter(|token| is_token(token)),
                "--discovery-token-ca-cert-hash" => hashes.push(value().to_owned()),
                option if option.starts_with("--") => {
                    wrong.push(format!("it has the option {option}"));
                }
                _ if is_endpoint(word) && endpoint.is_none() => endpoint = Some(word.to_owned()),
                _ => wrong.push(format!("its word {} is not one of a join", at + 1)),
            }
        }
        if !text.trim_start().starts_with("kubeadm join") {
            wrong.push("it does not begin with kubeadm join".into());
        }
        if hashes.is_empty() || !hashes.iter().all(|hash| is_hash(hash)) {
            wrong.push(
                "it has no hash of the certificate authority, sha256: and 64 hexadecimal digits"
                    .into(),
            );
        }
        match (endpoint, token, wrong.is_empty()) {
            (Some(endpoint), Some(token), true) => Ok(Self {
                endpoint,
                token: Secret::new(token),
                hashes,
            }),
            (endpoint, token, _) => {
                if endpoint.is_none() {
                    wrong.push("it has no address and port of an API server".into());
                }
                if token.is_none() {
                    wrong.push(
                        "it has no token, 6 and 16 letters and digits with a dot between".into(),
                    );
                }
                Err(format!(
                    "this is not what kubeadm token create --print-join-command prints: {}\n  expected: {FORM}",
                    wrong.join("; ")
                ))
            }
        }
    }

    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// What Cluster API's kubeadm provider gives a Windows machine that joins, without commands of a user's own (kubernetes-sigs/cluster-api:
    /// bootstrap/kubeadm/internal/cloudinit/node.go). kubeadm takes the clone's own host name. A secret.
    pub fn user_data(&self) -> Secret {
        // Strings of JSON are YAML's, too: a token of digits alone would be a number.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let hashes: String = self
            .hashes
            .iter()
            .map(|hash| format!("          - {}\n", quoted(hash)))
            .collect();
        Secret::new(format!(
            "## template: jinja\n\
             #cloud-config\n\
             \n\
             write_files:\n\
             -   path: /run/kubeadm/kubeadm-join-config.yaml\n\
             \x20   owner: root:root\n\
             \x20   permissions: '0640'\n\
             \x20   content: |\n\
             \x20     ---\n\
             \x20     apiVersion: kubeadm.k8s.io/v1beta4\n\
             \x20     discovery:\n\
             \x20       bootstrapToken:\n\
             \x20         apiServerEndpoint: {endpoint}\n\
             \x20         caCertHashes:\n\
             {hashes}\
             \x20         token: {token}\n\
             \x20     kind: JoinConfiguration\n\
             \x20     nodeRegistration:\n\
             \x20       criSocket: npipe:////./pipe/containerd-containerd\n\
             -   path: /run/cluster-api/placeholder\n\
             \x20   owner: root:root\n\
             \x20   permissions: '0640'\n\
             \x20   content: \"makes the folder\"\n\
             runcmd:\n\
             \x20 - kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml && \
             echo success > /run/cluster-api/bootstrap-success.complete\n",
            endpoint = quoted(&self.endpoint),
            token = quoted(self.token.expose()),
        ))
    }
}

/// kubernetes.io: "Authenticating with Bootstrap Tokens", token format.
fn is_token(text: &str) -> bool {
    let is_part = |part: &str, length| {
        let is_letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        part.len() == length && part.bytes().all(is_letter)
    };
    let parts = text.split_once('.');
    parts.is_some_and(|(id, secret)| is_part(id, 6) && is_part(secret, 16))
}

fn is_hash(text: &str) -> bool {
    let hex = text.strip_prefix("sha256:");
    hex.is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// A name or an address, that of IPv6 in brackets, and a port.
fn is_endpoint(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let is_host = match inner {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let is_letter = |b: u8| b.is_ascii_alphanumeric() || b".-".contains(&b);
            !host.is_empty() && host.bytes().all(is_letter)
        }
    };
    is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
}
