//! What a clone asks for its metadata.

use winimg::http::RequestHead;
use winimg::trial::metadata::{CloneIdentity, MetadataService};
use winimg_base::text::Secret;
use winimg_recipe::target::MetadataForm;

/// The first byte chooses the platform and the address, the rest is a request.
pub fn request(bytes: &[u8]) -> bool {
    let Some((which, bytes)) = bytes.split_first() else {
        return false;
    };
    let Ok(Some(head)) = RequestHead::parse(bytes) else {
        return false;
    };
    let Some(request) = head.complete_request(bytes) else {
        return false;
    };
    let identity = CloneIdentity {
        instance: "fuzzed".into(),
        host_name: "clone".into(),
        user: "capi".into(),
        ssh_keys: vec!["ssh-rsa AAAA".into()],
        user_data: b"#ps1".as_slice().into(),
        password: Secret::new("Open-Sesame-42!"),
    };
    let mut services: Vec<_> = MetadataForm::ALL
        .iter()
        .filter_map(|form| MetadataService::from_form(*form, &identity))
        .collect();
    let count = services.len();
    let service = &mut services[usize::from(*which) % count];
    let endpoints = service.endpoints();
    let endpoint = endpoints[usize::from(*which) / count % endpoints.len()];
    let response = service.handle(endpoint, &request);
    let whole = response.to_bytes();
    assert!(whole.ends_with(&response.body), "half an answer");
    let head = String::from_utf8_lossy(&whole[..whole.len() - response.body.len()]).into_owned();
    let lengths = head.matches("\r\nContent-Length: ").count();
    assert_eq!(lengths, 1, "a header that was not meant: {head}");
    let target = request.target();
    assert!(
        !target.contains(['\r', '\n']),
        "two lines in the record: {target:?}"
    );
    response.status == 200
}
