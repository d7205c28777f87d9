//! Redirects: builds the request for the next address, without what belongs to the first server.

use reqwest::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, LOCATION, PROXY_AUTHORIZATION,
    TRANSFER_ENCODING,
};
use reqwest::{Method, Request, Response, StatusCode};
use url::Url;
use winimg_base::text::redact;

use super::policy::UrlRefusal;

/// Returns the address that a response redirects to, if it does.
pub(super) fn find_redirect(response: &Response) -> Option<Url> {
    match response.status().as_u16() {
        301 | 302 | 303 | 307 | 308 => {}
        _ => return None,
    }
    let place = response.headers().get(LOCATION)?.to_str().ok()?;
    let mut next = response.url().join(place).ok()?;
    // Credentials chosen by the server would be sent in the user's name.
    let _ = next.set_username("").and_then(|()| next.set_password(None));
    Some(next)
}

/// Builds the request for the next address (RFC 9110, 15.4). The body is sent again if the status
/// keeps the method; credentials are not sent to another server.
pub(super) fn follow_redirect(
    again: Option<Request>,
    status: StatusCode,
    next: Url,
) -> Result<Request, UrlRefusal> {
    let Some(mut request) = again else {
        return Err(refuse_upload(&next));
    };
    let is_other = request.url().origin() != next.origin();
    let body = request.body().and_then(reqwest::Body::as_bytes);
    let has_body = request.body().is_some() && body.is_none_or(|bytes| !bytes.is_empty());
    match *request.method() {
        Method::GET | Method::HEAD => {}
        // The body may be a login. No login server redirects elsewhere.
        Method::POST if matches!(status.as_u16(), 307 | 308) && is_other && has_body => {
            let words = format!(
                "the server redirects the request body to another server, which is not \
                 followed ({})",
                redact(next.as_str())
            );
            return Err(UrlRefusal::Redirect(
                winimg_base::display_text::sanitize_line(&words),
            ));
        }
        Method::POST if matches!(status.as_u16(), 307 | 308) => {}
        Method::POST => {
            *request.method_mut() = Method::GET;
            *request.body_mut() = None;
            for name in [CONTENT_TYPE, CONTENT_LENGTH, TRANSFER_ENCODING] {
                request.headers_mut().remove(name);
            }
        }
        _ => return Err(refuse_upload(&next)),
    }
    if is_other {
        for name in [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION] {
            request.headers_mut().remove(name);
        }
        // A session ID is in a header of the server's own.
        let headers = request.headers().iter();
        let secret = headers.filter(|(_, value)| value.is_sensitive());
        let names: Vec<_> = secret.map(|(name, _)| name.clone()).collect();
        for name in names {
            request.headers_mut().remove(name);
        }
    }
    *request.url_mut() = next;
    Ok(request)
}

fn refuse_upload(next: &Url) -> UrlRefusal {
    let words = format!(
        "the server redirects an upload, which is not followed ({})",
        redact(next.as_str())
    );
    UrlRefusal::Redirect(winimg_base::display_text::sanitize_line(&words))
}

#[cfg(test)]
mod tests {
    use reqwest::header::{ACCEPT, HeaderValue};

    use super::*;

    #[test]
    fn the_body_of_a_post_goes_to_no_other_origin() {
        let led = |status: u16, body: &'static str, to: &str| {
            let url = Url::parse("https://id.example.com/v3/auth/tokens").unwrap();
            let mut request = Request::new(Method::POST, url);
            *request.body_mut() = Some(body.into());
            let status = StatusCode::from_u16(status).unwrap();
            let request = follow_redirect(Some(request), status, Url::parse(to).unwrap());
            request.map(|request| {
                let body = request.body().and_then(reqwest::Body::as_bytes);
                body.is_some_and(|body| !body.is_empty())
            })
        };
        let [own, port, host, plain] = [
            "https://id.example.com/v3/other",
            "https://id.example.com:5001/v3/auth/tokens",
            "https://other.example.com/v3/auth/tokens",
            "http://id.example.com/v3/auth/tokens",
        ];
        for status in [307, 308] {
            assert_eq!(led(status, "password", own), Ok(true));
            for other in [port, host, plain] {
                assert!(led(status, "password", other).is_err(), "{status} {other}");
                // The beginning of an upload has no body.
                assert_eq!(led(status, "", other), Ok(false));
            }
        }
        // These become a GET, which takes nothing along.
        for status in [301, 302, 303] {
            assert_eq!(led(status, "password", host), Ok(false));
        }
    }

    #[test]
    fn a_redirect_takes_no_secret_to_another_server() {
        let led = |to: &str| {
            let url = Url::parse("https://vc.example.com/rest").unwrap();
            let mut request = Request::new(Method::GET, url);
            let mut id = HeaderValue::from_static("hunter2");
            id.set_sensitive(true);
            request.headers_mut().insert("vmware-api-session-id", id);
            let plain = HeaderValue::from_static("application/json");
            request.headers_mut().insert(ACCEPT, plain);
            let next = Url::parse(to).unwrap();
            let request = follow_redirect(Some(request), StatusCode::FOUND, next).unwrap();
            let headers = request.headers();
            (
                headers.contains_key(ACCEPT),
                headers.contains_key("vmware-api-session-id"),
            )
        };
        assert_eq!(led("https://vc.example.com/api"), (true, true));
        assert_eq!(led("https://other.example.com/rest"), (true, false));
        assert_eq!(led("https://vc.example.com:444/rest"), (true, false));
    }
}
