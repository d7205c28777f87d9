"""Keystone and Glance as far as an upload asks them: what they refuse is refused, in their words (`make openstack` asks real ones).

python glance.py PORT WORD…    listens on 127.0.0.1; with the word `stuck` the first upload is lost and stays `saving`, with the word
                               `late` the token runs out before it

(OpenStack: Identity API v3; Image API v2; Keystone 30 and Glance 33)
"""

import hashlib
import html
import json
import sys
import threading
import time
import uuid
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

PORT, WORDS = int(sys.argv[1]), sys.argv[2:]
SECRET = "hunter2hunter2"
PROJECT = "4f1c3d6e8a5b4d0f9e7c2b1a0f9e8d7c"
# By their names. That of `full` has a limit of one MiB.
PROJECTS = {"images": PROJECT, "full": "0d9e8f7a6b5c4d3e2f1a0b9c8d7e6f5a"}
# A token is good for so many requests; real ones run out by time.
GOOD = 8
LOCK = threading.Lock()
TOKENS, IMAGES, REQUESTS = {}, {}, []
# Images whose data the store has.
STORED = set()
BASE = {
    "name", "disk_format", "container_format", "os_hidden", "visibility", "protected", "min_disk", "min_ram", "tags", "id", "owner",
}
PATCH = "application/openstack-images-v2.1-json-patch"
# What WebOb says before the words of a service.
LIMITED = (
    "The request returned a 413 Request Entity Too Large. This generally means that rate limiting or a quota threshold was breached.\n\n"
    "The response body:\n\n"
)
UNSUPPORTED = "The request media type application/octet-stream is not supported by this server.\n\n"


class Refusal(Exception):
    def __init__(self, status, words):
        super().__init__(words)
        self.status = status


def whose(identity, scope):
    """The project for which somebody asks whom Keystone knows."""
    default = ({"id": "default"}, {"name": "Default"})
    method = identity["methods"]
    if method == ["password"]:
        user = identity["password"]["user"]
        known = user.get("name") == "publisher" and user.get("domain") in default and user.get("password") == SECRET
        project = (scope or {}).get("project", {})
        named = PROJECTS.get(project.get("name")) if project.get("domain") in default else None
        found = project["id"] if project.get("id") in PROJECTS.values() else named
        return found if known else None
    if method == ["application_credential"]:
        if scope:
            raise Refusal(401, "Application credentials cannot request a scope.")
        return PROJECT if identity["application_credential"] == {"id": "credential", "secret": SECRET} else None
    raise Refusal(400, "no method that is known")


class Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, value=None, headers=()):
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        for name, text in headers:
            self.send_header(name, text)
        if status != 204:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_one(self):
        url = urlsplit(self.path)
        with LOCK:
            REQUESTS.append(f"{self.command} {url.path}")
        try:
            if url.path == "/state":
                with LOCK:
                    return self.answer(200, {"images": list(IMAGES.values()), "requests": REQUESTS})
            if self.command == "POST" and url.path == "/v3/auth/tokens":
                return self.token()
            if not url.path.startswith("/image/v2/images"):
                raise Refusal(404, "Not Found")
            self.known()
            return self.image(url.path.removeprefix("/image/v2/images").strip("/"), parse_qs(url.query))
        except Refusal as refused:
            # What was not read of the body would be taken for the next request.
            self.close_connection = True
            if url.path.startswith("/v3"):
                words = {"error": {"code": refused.status, "message": str(refused), "title": ""}}
                return self.answer(refused.status, words, [("Connection", "close")])
            return self.webob(refused)

    def webob(self, refused):
        """As WebOb words an error: JSON with tags in it where that is asked for, otherwise a page."""
        title = HTTPStatus(refused.status).phrase
        is_json = "application/json" in self.headers.get("Accept", "")
        if is_json:
            told = {"message": f"{refused}<br /><br />\n\n\n", "code": f"{refused.status} {title}", "title": title}
            return self.answer(refused.status, told, [("Connection", "close")])
        head = f"<html>\n <head>\n  <title>{refused.status} {title}</title>\n </head>\n <body>\n  <h1>{refused.status} {title}</h1>\n"
        body = head + f"  {html.escape(str(refused))}<br /><br />\n\n\n\n </body>\n</html>"
        self.send_response(refused.status)
        self.send_header("Content-Type", "text/html; charset=UTF-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        return self.wfile.write(body.encode())

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one

    def body(self, kind):
        if self.headers.get("Content-Type") != kind:
            raise Refusal(415, "Unsupported Media Type")
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def token(self):
        auth = self.body("application/json")["auth"]
        project = whose(auth["identity"], auth.get("scope"))
        if not project:
            raise Refusal(401, "The request you have made requires authentication.")
        token = "gAAAAABhunter2" + uuid.uuid4().hex
        with LOCK:
            TOKENS[token] = [GOOD, project]
        place = self.headers["Host"]
        endpoint = lambda interface, region, url: {
            "id": uuid.uuid4().hex, "interface": interface, "region": region, "region_id": region, "url": url,
        }
        endpoints = [
            endpoint("internal", "RegionOne", "http://10.0.0.1:9292"),
            endpoint("public", "RegionTwo", "http://127.0.0.1:9/image"),
            endpoint("public", "RegionOne", f"http://{place}/image"),
        ]
        catalog = [
            {"type": "identity", "name": "keystone", "id": "1", "endpoints": []},
            {"type": "image", "name": "glance", "id": "2", "endpoints": endpoints},
        ]
        granted = {"methods": ["password"], "catalog": catalog, "project": {"id": project, "name": "images"}}
        self.answer(201, {"token": granted}, [("X-Subject-Token", token)])

    def known(self):
        with LOCK:
            token = TOKENS.get(self.headers.get("X-Auth-Token"), [0, None])
            if token[0] == 0:
                raise Refusal(401, "This server could not verify that you are authorized to access the document you requested.")
            token[0] -= 1
            self.project = token[1]

    def image(self, path, query):
        name, _, part = path.partition("/")
        match (self.command, bool(name), part):
            case ("GET", False, ""):
                return self.list(query)
            case ("POST", False, ""):
                return self.make()
        with LOCK:
            image = IMAGES.get(name)
        if image is None or image["owner"] != self.project:
            raise Refusal(404, f"No image found with ID {name}")
        match (self.command, part):
            case ("GET", ""):
                with LOCK:
                    return self.answer(200, image)
            case ("PUT", "file"):
                return self.fill(image)
            case ("PATCH", ""):
                change = self.body(PATCH)
                if len(change) != 1 or set(change[0]) != {"op", "path", "value"} or change[0]["op"] != "replace" or change[0]["path"] != "/os_hidden":
                    raise Refusal(400, "Invalid change")
                if not isinstance(change[0]["value"], bool):
                    raise Refusal(400, f"Provided object does not match schema 'image': {change[0]['value']!r} is not of type 'boolean'")
                image["os_hidden"] = change[0]["value"]
                return self.answer(200, image)
            case ("DELETE", ""):
                with LOCK:
                    del IMAGES[name]
                return self.answer(204)
        raise Refusal(405, "Method Not Allowed")

    def list(self, query):
        if set(query) - {"owner", "name", "os_hidden", "marker"}:
            raise Refusal(400, "a filter that is not known here")
        with LOCK:
            found = [
                one for one in IMAGES.values()
                if one["owner"] == query["owner"][0] and one["name"] == query["name"][0]
                and one["os_hidden"] == (query["os_hidden"][0] == "true")
            ]
        if "marker" in query:
            found = found[[one["id"] for one in found].index(query["marker"][0]) + 1:]
        page = {"images": found[:1], "schema": "/v2/schemas/images", "first": "/v2/images"}
        if len(found) > 1:
            more = {key: value[0] for key, value in query.items()} | {"marker": found[0]["id"]}
            page["next"] = "/v2/images?" + urlencode(more)
        self.answer(200, page)

    def make(self):
        asked = self.body("application/json")
        for key, value in asked.items():
            if key not in BASE and not isinstance(value, str):
                raise Refusal(400, f"Provided object does not match schema 'image': {value!r} is not of type 'string'")
        if asked["disk_format"] not in ("qcow2", "raw", "vhd", "vmdk", "iso") or asked["container_format"] != "bare":
            raise Refusal(400, f"Provided object does not match schema 'image': {asked['disk_format']!r} is not one of …")
        name, now = str(uuid.uuid4()), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        image = asked | {
            "id": name, "status": "queued", "owner": self.project, "size": None, "virtual_size": None, "checksum": None,
            "os_hash_algo": None, "os_hash_value": None, "tags": [], "min_disk": 0, "min_ram": 0, "protected": False,
            "visibility": "shared", "created_at": now, "updated_at": now, "self": f"/v2/images/{name}",
            "file": f"/v2/images/{name}/file", "schema": "/v2/schemas/image",
        }
        with LOCK:
            IMAGES[image["id"]] = image
        self.answer(201, image)

    def fill(self, image):
        if self.headers.get("Content-Type") != "application/octet-stream":
            raise Refusal(415, f"Invalid content type {self.headers.get('Content-Type')}")
        left = size = int(self.headers["Content-Length"])
        if "late" in WORDS:
            WORDS.remove("late")
            TOKENS.clear()
            self.rfile.read(left)
            self.known()
        mib = size >> 20
        if self.project == PROJECTS["full"] and mib > 1:
            # As a proxy before Glance, which takes all before it answers.
            self.rfile.read(left)
            over = f"[Resource image_size_total is over limit of 1 due to current usage 0 and delta {mib}]"
            raise Refusal(413, LIMITED + f"Project {self.project} is over a limit for {over}")
        with LOCK:
            if image["status"] != "queued":
                raise Refusal(409, f"Image status transition from {image['status']} to saving is not allowed")
            image["status"] = "saving"
        if "stuck" in WORDS:
            WORDS.remove("stuck")
            self.rfile.read(left)
            raise Refusal(503, "Service Unavailable")
        if image["id"] in STORED:
            # As the store of files: image … already exists.
            self.rfile.read(left)
            image["status"] = "queued"
            raise Refusal(500, "The server has either erred or is incapable of performing the requested operation.")
        head, sha512 = b"", hashlib.sha512()
        while left:
            piece = self.rfile.read(min(left, 1 << 16))
            if not piece:
                # Glance needs a moment to see it.
                time.sleep(1)
                image["status"] = "queued"
                self.close_connection = True
                return None
            head = head or piece
            sha512.update(piece)
            left -= len(piece)
        STORED.add(image["id"])
        image |= {"os_hash_algo": "sha512", "os_hash_value": sha512.hexdigest()}
        if (found := "qcow2" if head[:4] == b"QFI\xfb" else "raw") != image["disk_format"] != "raw":
            image["status"] = "queued"
            raise Refusal(415, UNSUPPORTED + f"Image disk_format {image['disk_format']} does not match stream data {found}")
        with LOCK:
            image |= {"status": "active", "size": size}
        return self.answer(204)


ThreadingHTTPServer(("127.0.0.1", PORT), Door).serve_forever()
