//! Separates the parameters of a URL's query that identify an input from credentials.
//!
//! Signed URLs (shared access signatures, presigned requests) have a different query for each
//! download, so a lock neither compares nor records these parameters.

/// Names of credentials and their parts, in lower case.
const CREDENTIALS: [&str; 26] = [
    "access_token",
    "accesskeyid",
    "api_key",
    "apikey",
    "auth_token",
    "authorization",
    "awsaccesskeyid",
    "client_secret",
    "googleaccessid",
    "hdnea",
    "hdnts",
    "job_token",
    "jwt",
    "key-pair-id",
    "ossaccesskeyid",
    "passwd",
    "password",
    "private_token",
    "sas",
    "secret",
    "sig",
    "sig2",
    "signature",
    "token",
    "__gda__",
    "__token__",
];

/// Prefixes of parameters in presigned requests of Amazon, Google, Alibaba, Huawei and Tencent.
const PRESIGNED: [&str; 5] = ["x-amz-", "x-goog-", "x-oss-", "x-obs-", "q-"];

/// Parameters of a shared access signature of Azure, together with `sig`.
const SHARED_ACCESS: [&str; 20] = [
    "sv", "ss", "srt", "sp", "se", "st", "spr", "sr", "si", "sip", "skoid", "sktid", "skt", "ske",
    "sks", "skv", "sdd", "saoid", "suoid", "scid",
];

/// Parameters of older presigned requests and of CloudFront's, together with `signature`.
const SIGNED: [&str; 3] = ["expires", "policy", "hash-algorithm"];

/// Parameters of Microsoft's URLs of installation media, together with `p4`, their signature.
const MICROSOFT: [&str; 5] = ["t", "p1", "p2", "p3", "p4"];

/// Returns the URL without credentials in its query.
pub fn without_credentials(url: &str) -> String {
    let (url, fragment) = match url.split_once('#') {
        Some((url, fragment)) => (url, Some(fragment)),
        None => (url, None),
    };
    let Some((path, query)) = url.split_once('?') else {
        return join_url(url, None, fragment);
    };
    let names: Vec<String> = query.split('&').map(name).collect();
    let kept: Vec<&str> = query
        .split('&')
        .zip(&names)
        .filter(|(_, name)| !is_credential(name, &names))
        .map(|(part, _)| part)
        .collect();
    let kept = (!kept.is_empty()).then(|| kept.join("&"));
    join_url(path, kept.as_deref(), fragment)
}

/// Returns true if a parameter is a credential, given the names of all parameters.
fn is_credential(name: &str, all: &[String]) -> bool {
    CREDENTIALS.contains(&name)
        || PRESIGNED.iter().any(|start| name.starts_with(start))
        || all.iter().any(|other| other == "sig") && SHARED_ACCESS.contains(&name)
        || all.iter().any(|other| other == "signature") && SIGNED.contains(&name)
        || all.iter().any(|other| other == "p4") && MICROSOFT.contains(&name)
}

/// Returns the URL without its query.
pub fn without_query(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    url[..end].to_string()
}

fn name(part: &str) -> String {
    let name = part.split_once('=').map_or(part, |(name, _)| name);
    name.to_ascii_lowercase()
}

fn join_url(path: &str, query: Option<&str>, fragment: Option<&str>) -> String {
    let query = query.map_or(String::new(), |query| format!("?{query}"));
    let fragment = fragment.map_or(String::new(), |fragment| format!("#{fragment}"));
    format!("{path}{query}{fragment}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_address_is_the_same_input_at_each_download() {
        let plain = "https://example.com/a/tool.exe";
        for query in [
            "sig=AAA",
            "sv=2024-11-04&ss=b&srt=o&sp=r&se=2026-12-01T00%3A00Z&spr=https&sig=AA%3D",
            "skoid=1&sktid=2&skt=3&ske=4&sks=b&skv=5&sr=b&sig=x",
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=a%2Fb&X-Amz-Signature=f",
            "AWSAccessKeyId=AKIA&Signature=a%3D&Expires=1700000000",
            "X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Expires=900&X-Goog-Signature=f",
            "Expires=1&Signature=a&Key-Pair-Id=K",
            "Policy=a&Signature=b&Key-Pair-Id=K&Hash-Algorithm=SHA256",
            "t=5d2c&P1=1700000000&P2=601&P3=2&P4=abc",
            "private_token=glpat-1",
            "token=1",
        ] {
            let url = format!("{plain}?{query}");
            assert_eq!(without_credentials(&url), plain, "{query}");
        }
    }

    #[test]
    fn what_names_another_file_stays() {
        for (url, kept) in [
            ("https://example.com/a", "https://example.com/a"),
            ("https://example.com/a?", "https://example.com/a?"),
            (
                "https://example.com/get?file=tool&build=7",
                "https://example.com/get?file=tool&build=7",
            ),
            (
                "https://example.com/get?build=7&sv=1&sig=x",
                "https://example.com/get?build=7",
            ),
            (
                "https://example.com/get?sv=1&se=2",
                "https://example.com/get?sv=1&se=2",
            ),
            (
                "https://example.com/get?expires=never",
                "https://example.com/get?expires=never",
            ),
            (
                "https://example.com/get?t=1&p1=2",
                "https://example.com/get?t=1&p1=2",
            ),
            (
                "https://example.com/get?tokens=1",
                "https://example.com/get?tokens=1",
            ),
            (
                "https://example.com/get?sig=x#part",
                "https://example.com/get#part",
            ),
        ] {
            assert_eq!(without_credentials(url), kept);
        }
    }

    #[test]
    fn a_query_is_cut_off() {
        assert_eq!(without_query("https://e.com/a?b=c#d"), "https://e.com/a");
        assert_eq!(without_query("https://e.com/a"), "https://e.com/a");
    }
}
