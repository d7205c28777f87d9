//! The attacks: the part that the server plays, what it does, and what another server may be asked
//! meanwhile.

use std::time::Duration;

use super::answers::*;
use super::{LOCKED, LONGEST};
use support::server::{Answer, Asked, Cut};
use winimg_supply::fetch::Timeouts;

/// Longer than any row takes.
const LONG: Duration = Duration::from_secs(30);

/// The file that is wanted.
pub const CONTENT: &[u8] = b"kubelet";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    File,
    LockedFile,
    ChecksumFile,
    Signature,
    Manifest,
    Blob,
    /// What names where tokens are given.
    Realm,
    Token,
    /// What names where an upload goes.
    Place,
    /// What takes its bytes.
    Upload,
    Tags,
}

impl Part {
    /// Whether the server is hostile at this request.
    pub fn plays(self, asked: &Asked) -> bool {
        let path = path(asked);
        match self {
            Self::File | Self::LockedFile => true,
            Self::ChecksumFile => path == "/kubelet.exe.sha256",
            Self::Signature => path == "/kubelet.exe.minisig",
            Self::Manifest => path.contains("/manifests/"),
            Self::Blob => path.contains("/blobs/"),
            Self::Realm | Self::Token => true,
            Self::Place => asked.method == "POST",
            Self::Upload => asked.method == "PUT",
            Self::Tags => path.ends_with("/tags/list"),
        }
    }
}

pub struct Row {
    pub part: Part,
    pub name: &'static str,
    /// The hostile answer, with the address of somebody else's server.
    pub answer: fn(&Asked, &str) -> Answer,
    pub tls: bool,
    /// The server is a proxy in front of `files.example`, so that its place is not this machine.
    pub proxied: bool,
    /// Hosts that the user names in the configuration.
    pub near: &'static [&'static str],
    pub tries: u32,
    answer_within: Duration,
    slow: Duration,
    /// Requests to somebody else's server, with the kind of their credentials.
    pub elsewhere: &'static [&'static str],
}

impl Row {
    const fn of(part: Part, name: &'static str, answer: fn(&Asked, &str) -> Answer) -> Self {
        Self {
            part,
            name,
            answer,
            tls: matches!(part, Part::ChecksumFile),
            proxied: false,
            near: &[],
            tries: 1,
            answer_within: LONG,
            slow: LONG,
            elsewhere: &[],
        }
    }

    /// The server says nothing.
    const fn silent(mut self) -> Self {
        self.answer_within = Duration::from_millis(500);
        self
    }

    /// The server says little.
    const fn slow(mut self) -> Self {
        self.slow = Duration::from_millis(1500);
        self
    }

    const fn proxied(mut self) -> Self {
        self.proxied = true;
        self
    }

    const fn near(mut self, hosts: &'static [&'static str]) -> Self {
        self.near = hosts;
        self
    }

    const fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    const fn twice(mut self) -> Self {
        self.tries = 2;
        self
    }

    const fn asks(mut self, elsewhere: &'static [&'static str]) -> Self {
        self.elsewhere = elsewhere;
        self
    }

    pub fn patience(&self) -> Timeouts {
        Timeouts {
            connect: LONG,
            answer: self.answer_within,
            stall: self.answer_within,
            slow: self.slow,
        }
    }

    /// Bytes that the row may leave on the disk.
    pub fn disk(&self) -> u64 {
        match self.part {
            Part::LockedFile => LOCKED,
            _ => LONGEST,
        }
    }
}

pub const ROWS: &[Row] = &[
    Row::of(Part::File, "endless body", |_, _| endless()),
    Row::of(Part::File, "endless chunks", |_, _| endless_in_chunks()),
    Row::of(Part::File, "endless headers", |_, _| {
        Answer::raw(OK).then(Cut::Endless(b"x: 1\r\n"))
    }),
    Row::of(Part::File, "one endless header", |_, _| {
        Answer::raw(format!("{OK}x: ")).then(Cut::Endless(b"x"))
    }),
    Row::of(Part::File, "silence before the headers", |_, _| {
        Answer::raw("").then(Cut::Hang)
    })
    .silent(),
    Row::of(Part::File, "silence after the headers", |_, _| {
        ok("", Cut::Hang)
    })
    .silent(),
    Row::of(Part::File, "drip", |_, _| drip()).slow(),
    Row::of(Part::File, "drip, asked again", |_, _| drip())
        .slow()
        .twice(),
    Row::of(Part::File, "dripping headers", |_, _| {
        Answer::raw(OK).then(Cut::Drip(b"x: 1\r\n", Duration::from_millis(20)))
    })
    .silent(),
    Row::of(Part::File, "a length that is too short", |_, _| {
        Answer::new("200 OK", &[], CONTENT).claims(4)
    }),
    Row::of(Part::File, "a length that is too long", |_, _| {
        Answer::new("200 OK", &[], CONTENT).claims(4000)
    }),
    Row::of(Part::File, "an absurd length", |_, _| {
        Answer::new("200 OK", &[], CONTENT).claims(1 << 60)
    }),
    Row::of(Part::File, "a rest that begins elsewhere", |asked, _| {
        other_range(asked)
    })
    .twice(),
    Row::of(Part::File, "a rest that nobody asked for", |_, _| {
        Answer::new(
            "206 Partial Content",
            &[("content-range", "bytes 0-6/7")],
            CONTENT,
        )
    }),
    Row::of(Part::File, "other content each time", |asked, _| {
        changing(asked)
    })
    .twice(),
    Row::of(Part::File, "a compressed bomb", |_, _| bomb()),
    Row::of(Part::File, "redirects in a circle", |_, _| {
        redirect("/kubelet.exe")
    }),
    Row::of(Part::File, "redirects without an end", |asked, _| {
        redirect(&format!("{}x", asked.path))
    }),
    Row::of(Part::File, "a redirect to file", |_, _| {
        redirect("file:///etc/passwd")
    }),
    Row::of(Part::File, "a redirect to ftp", |_, _| {
        redirect("ftp://127.0.0.1/x")
    }),
    Row::of(Part::File, "a redirect from https to http", |_, other| {
        redirect(other)
    })
    .tls(),
    Row::of(
        Part::File,
        "a redirect to the metadata of a cloud",
        |_, _| redirect(LINK_LOCAL),
    ),
    Row::of(Part::File, "a redirect to this machine", |_, other| {
        redirect(other)
    })
    .proxied(),
    Row::of(
        Part::File,
        "a redirect to this machine by its name",
        |_, other| redirect(&by_name(other)),
    )
    .proxied(),
    Row::of(Part::File, "a redirect to this machine in IPv6", |_, _| {
        redirect("http://[::ffff:127.0.0.1]/")
    })
    .proxied(),
    Row::of(Part::File, "a redirect to a private network", |_, _| {
        redirect("http://10.0.0.5/x?token=secret")
    })
    .proxied(),
    Row::of(
        Part::File,
        "a redirect to this machine that was named",
        |_, other| redirect(&by_name(other)),
    )
    .proxied()
    .near(&["localhost"])
    .asks(&["GET / -"]),
    Row::of(Part::File, "a redirect with a password", |_, other| {
        redirect(&other.replace("//", "//admin:admin@"))
    })
    .asks(&["GET / -"]),
    Row::of(Part::File, "a page", |_, _| page()),
    Row::of(Part::LockedFile, "endless body", |_, _| endless()),
    Row::of(Part::LockedFile, "endless chunks", |_, _| {
        endless_in_chunks()
    }),
    Row::of(Part::LockedFile, "a length beyond the lock", |_, _| {
        Answer::new("200 OK", &[], CONTENT)
            .claims(LOCKED + 1)
            .then(Cut::Hang)
    }),
    Row::of(Part::ChecksumFile, "endless body", |_, _| endless()),
    Row::of(Part::ChecksumFile, "drip", |_, _| drip()).slow(),
    Row::of(Part::ChecksumFile, "a length that is too long", |_, _| {
        Answer::new("200 OK", &[], "x").claims(4000)
    }),
    Row::of(Part::ChecksumFile, "a redirect to http", |_, other| {
        redirect(other)
    }),
    Row::of(Part::ChecksumFile, "a page", |_, _| page()),
    Row::of(Part::ChecksumFile, "a line that turns", |_, _| {
        Answer::new("200 OK", &[], "no\u{202e}sey\u{1b}[2J\u{200b}\n")
    }),
    Row::of(Part::Signature, "endless chunks", |_, _| {
        endless_in_chunks()
    }),
    Row::of(Part::Signature, "silence after the headers", |_, _| {
        ok("", Cut::Hang)
    })
    .silent(),
    Row::of(
        Part::Signature,
        "a redirect to the metadata of a cloud",
        |_, _| redirect(LINK_LOCAL),
    ),
    Row::of(Part::Signature, "a page", |_, _| page()),
    Row::of(Part::Manifest, "endless body", |_, _| endless()),
    Row::of(Part::Manifest, "endless chunks", |_, _| endless_in_chunks()),
    Row::of(Part::Manifest, "an absurd length", |_, _| {
        Answer::new("200 OK", &[], "{}").claims(1 << 60)
    }),
    Row::of(Part::Manifest, "endless words of an error", |_, _| {
        endless().status("404 Not Found")
    }),
    Row::of(Part::Manifest, "drip", |_, _| drip()).slow(),
    Row::of(Part::Manifest, "silence before the headers", |_, _| {
        Answer::raw("").then(Cut::Hang)
    })
    .silent(),
    Row::of(Part::Manifest, "many words", |_, _| {
        denied("403 Forbidden", &"a".repeat(400))
    }),
    Row::of(Part::Manifest, "words that turn", |_, _| {
        words("403 Forbidden")
    }),
    Row::of(
        Part::Manifest,
        "a redirect to the metadata of a cloud",
        |_, _| redirect(LINK_LOCAL),
    ),
    Row::of(Part::Manifest, "a redirect to this machine", |_, other| {
        redirect(other)
    })
    .proxied(),
    Row::of(Part::Manifest, "another manifest", |_, _| {
        Answer::new("200 OK", &[], "{}")
    }),
    Row::of(Part::Manifest, "a foreign layer", |_, _| {
        Answer::new("200 OK", &[], foreign())
    }),
    Row::of(Part::Manifest, "a layer elsewhere", |_, _| {
        Answer::new("200 OK", &[], layer_elsewhere())
    }),
    Row::of(Part::Blob, "endless body", |_, _| endless()),
    Row::of(Part::Blob, "endless chunks", |_, _| endless_in_chunks()),
    Row::of(Part::Blob, "silence after the headers", |_, _| {
        ok("", Cut::Hang)
    })
    .silent(),
    Row::of(Part::Blob, "a length that is too short", |_, _| {
        Answer::new("200 OK", &[], "{\"os\"").claims(3)
    }),
    Row::of(Part::Blob, "redirects in a circle", |asked, _| {
        redirect(&asked.path)
    }),
    Row::of(
        Part::Blob,
        "a redirect to this machine by its name",
        |_, other| redirect(&by_name(other)),
    )
    .proxied(),
    Row::of(
        Part::Realm,
        "a realm on another host over http",
        |_, other| bearer(other),
    )
    .tls(),
    Row::of(
        Part::Realm,
        "the metadata of a cloud as the realm",
        |_, _| bearer(LINK_LOCAL),
    ),
    Row::of(Part::Realm, "this machine as the realm", |_, other| {
        bearer(other)
    })
    .proxied(),
    Row::of(
        Part::Realm,
        "this machine as the realm, by its name",
        |_, other| bearer(&by_name(other)),
    )
    .proxied(),
    Row::of(Part::Realm, "a file as the realm", |_, _| {
        bearer("file:///etc/passwd")
    }),
    Row::of(Part::Token, "a huge token", |asked, _| {
        tokens(asked, endless)
    }),
    Row::of(Part::Token, "a dripping token", |asked, _| {
        tokens(asked, drip)
    })
    .slow(),
    Row::of(Part::Token, "words that turn", |asked, _| {
        tokens(asked, || words("401 Unauthorized"))
    }),
    Row::of(Part::Place, "a place that is relative", |_, _| {
        place("/v2/team/cache/blobs/uploads/1?state=a")
    }),
    Row::of(Part::Place, "a place on another host", |_, other| {
        place(other)
    })
    .asks(&["PUT / -"]),
    Row::of(
        Part::Place,
        "a place on another host over http",
        |_, other| place(other),
    )
    .tls(),
    Row::of(
        Part::Place,
        "the metadata of a cloud as the place",
        |_, _| place(LINK_LOCAL),
    ),
    Row::of(Part::Place, "this machine as the place", |_, other| {
        place(other)
    })
    .proxied(),
    Row::of(Part::Place, "a file as the place", |_, _| {
        place("file:///tmp/x")
    }),
    Row::of(Part::Place, "no place", |_, _| {
        Answer::new("202 Accepted", &[], "")
    }),
    Row::of(Part::Place, "a redirect to another host", |_, other| {
        moved(other)
    })
    .asks(&["POST / -"]),
    Row::of(Part::Upload, "a redirect of the bytes", |_, other| {
        moved(other)
    }),
    Row::of(Part::Upload, "silence after the bytes", |_, _| {
        Answer::raw("").then(Cut::Hang)
    })
    .silent(),
    Row::of(Part::Upload, "endless words of an error", |_, _| {
        endless().status("400 Bad Request")
    }),
    Row::of(Part::Upload, "words that turn", |_, _| {
        words("400 Bad Request")
    }),
    Row::of(Part::Tags, "a redirect to another host", |_, other| {
        redirect(other)
    })
    .asks(&["GET / -"]),
    Row::of(Part::Tags, "endless tags", |asked, _| {
        Answer::new("200 OK", &[], tags(asked.number))
    }),
];
