//! What recipes/kubeadm-wins puts into a cluster. `make cluster-policy` judges the policy by the API server's own
//! code, and `make cluster-real` puts all of it into a kube-apiserver.

use std::fs;

fn read(file: &str) -> String {
    fs::read_to_string(format!("recipes/kubeadm-wins/{file}")).expect(file)
}

/// The first value of the key behind `from`.
fn value<'t>(text: &'t str, from: usize, key: &str) -> &'t str {
    let at = text[from..].find(key).expect(key) + from + key.len();
    text[at..].lines().next().expect("a line").trim()
}

/// The pods that the policy lets through are those of the DaemonSets beside it, and there is one for each that mounts the pipe.
#[test]
fn the_policy_knows_the_pods_that_use_the_pipe() {
    let policy = read("wins-policy.yaml");
    let mut known = 0;
    for file in ["flannel.yaml", "kube-proxy.yaml"] {
        let text = read(file);
        assert!(text.contains(r"\\.\pipe\rancher_wins"), "{file}");
        let set = text.find("kind: DaemonSet").expect("a DaemonSet");
        let namespace = value(&text, set, "namespace:");
        let account = value(&text, set, "serviceAccountName:");
        let line = format!(
            "request.namespace == '{namespace}' && object.spec.serviceAccountName == '{account}'"
        );
        assert!(policy.contains(&line), "{line}");
        known += 1;
    }
    assert_eq!(policy.matches("request.namespace ==").count(), known);
    assert!(policy.contains("failurePolicy: Fail") && policy.contains("validationActions: [Deny]"));
}
