//! What a clone asks for its metadata.

use winimg::http::Head;
use winimg::trial::metadata::{Identity, Service};
use winimg_base::text::Secret;
use winimg_recipe::recipe::target::Form;

/// The first byte chooses the platform and the address, the rest is a request.
pub fn request(bytes: &[u8]) -> bool {
    let Some((which, bytes)) = bytes.split_first() else {
        return false;
    };
    let Ok(Some(head)) = Head::read(bytes) else {
        return false;
    };
    let Some(request) = head.request(bytes) else {
        return false;
    };
    let identity = Identity {
        instance: "fuzzed".into(),
        host_name: "clone".into(),
        user: "capi".into(),
        ssh_keys: vec!["ssh-rsa AAAA".into()],
        user_data: b"#ps1".as_slice().into(),
        password: Secret::new("Open-Sesame-42!"),
    };
    let mut services: Vec<_> = Form::ALL
        .iter()
        .filter_map(|form| Service::of(*form, &identity))
        .collect();
    let count = services.len();
    let service = &mut services[usize::from(*which) % count];
    let endpoints = service.endpoints();
    let endpoint = endpoints[usize::from(*which) / count % endpoints.len()];
    let response = service.answer(endpoint, &request);
    let whole = response.bytes();
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
