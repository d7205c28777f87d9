//! The registries for which kubelet asks the credential providers of the packs.

use std::fs;

/// The globs of `matchImages` in a pack.
fn globs(pack: &str) -> Vec<String> {
    let text = fs::read_to_string(format!("recipes/packs/{pack}")).expect("the pack");
    let (_, list) = text.split_once("matchImages: ").expect("the list");
    let list = list.lines().next().expect("its line");
    serde_json::from_str(list).expect("a list of globs")
}

/// As kubelet compares them: part by part between the dots. (Kubernetes: k8s.io/kubelet,
/// CredentialProvider.MatchImages)
fn is_matched(glob: &str, host: &str) -> bool {
    let (globs, parts): (Vec<&str>, Vec<&str>) =
        (glob.split('.').collect(), host.split('.').collect());
    globs.len() == parts.len()
        && globs
            .iter()
            .zip(&parts)
            .all(|(glob, part)| *glob == "*" || glob == part)
}

#[test]
fn every_name_of_a_private_registry_gets_credentials_and_no_other_name() {
    // kubernetes/cloud-provider-aws: cmd/ecr-credential-provider, ecrPrivateHostPattern;
    // amazon-eks-ami#2592.
    let ecr: &[&str] = &[
        "123456789012.dkr.ecr.eu-west-1.amazonaws.com",
        "123456789012.dkr.ecr-fips.us-east-1.amazonaws.com",
        "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn",
        "123456789012.dkr-ecr.eu-west-1.on.aws",
        "123456789012.dkr-ecr-fips.us-gov-west-1.on.aws",
        "123456789012.dkr-ecr.cn-north-1.on.amazonwebservices.com.cn",
        "123456789012.dkr.ecr.eusc-de-east-1.amazonaws.eu",
        "123456789012.dkr.ecr.us-iso-east-1.c2s.ic.gov",
        "123456789012.dkr.ecr.us-isob-east-1.sc2s.sgov.gov",
        "123456789012.dkr.ecr.eu-isoe-west-1.cloud.adc-e.uk",
    ];
    let acr: &[&str] = &["team.azurecr.io", "team.azurecr.cn", "team.azurecr.us"];
    for (pack, hosts) in [("ecr.toml", ecr), ("azure-acr.toml", acr)] {
        let globs = globs(pack);
        for host in hosts {
            assert!(
                globs.iter().any(|glob| is_matched(glob, host)),
                "{pack}: {host}"
            );
        }
        for foreign in [
            "registry.k8s.io",
            "public.ecr.aws",
            "dkr-ecr.eu-west-1.on.aws.example.com",
        ] {
            assert!(
                !globs.iter().any(|glob| is_matched(glob, foreign)),
                "{pack}: {foreign}"
            );
        }
    }
}
