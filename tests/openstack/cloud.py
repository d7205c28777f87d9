"""A Keystone and a Glance on this machine, with SQLite and a file store, each by uWSGI as DevStack has them.

cloud.py make FOLDER                   what does not depend on ports: keys, tables, the administrator
cloud.py serve MADE FOLDER PORT PORT   copies that into an empty folder, and serves Keystone and Glance until standard input ends

What serves writes FOLDER/started when both answer: JSON with the ids of those who publish, and a token of the administrator's. What the
servers say goes into FOLDER/*.log.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import openstack

BIN = Path(sys.executable).parent
# Of the administrator and of Glance itself.
KEY = "administrator"
PASSWORD = "hunter2hunter2"

KEYS = ["fernet", "receipts", "credential"]

KEYSTONE = """
[database]
connection = sqlite:///{folder}/keystone.db
[fernet_tokens]
key_repository = {folder}/fernet
[fernet_receipts]
key_repository = {folder}/receipts
[credential]
key_repository = {folder}/credential
[identity]
password_hash_rounds = 4
[cache]
enabled = false
"""

GLANCE = """
[DEFAULT]
enabled_backends = files:file
use_keystone_limits = {has_limits}
worker_self_reference_url = http://127.0.0.1:{glance}
enabled_import_methods = []
[database]
connection = sqlite:///{folder}/glance.db
[glance_store]
default_backend = files
[files]
filesystem_store_datadir = {folder}/images
[os_glance_staging_store]
filesystem_store_datadir = {folder}/staging
[os_glance_tasks_store]
filesystem_store_datadir = {folder}/tasks
[paste_deploy]
flavor = keystone
config_file = {paste}
[keystone_authtoken]
auth_url = http://127.0.0.1:{keystone}/v3
www_authenticate_uri = http://127.0.0.1:{keystone}/v3
project_name = service
project_domain_id = default
{glance_itself}
[oslo_limit]
auth_url = http://127.0.0.1:{keystone}/v3
endpoint_id = {endpoint}
system_scope = all
{glance_itself}
"""

GLANCE_ITSELF = f"""
auth_type = password
username = glance
password = {KEY}
user_domain_id = default
"""


def configure(folder, keystone=0, glance=0, endpoint="none"):
    """Writes both configurations, and returns the environment that names them."""
    values = {
        "folder": folder,
        "keystone": keystone,
        "glance": glance,
        "endpoint": endpoint,
        "has_limits": endpoint != "none",
        "paste": BIN.parent / "etc/glance/glance-api-paste.ini",
        "glance_itself": GLANCE_ITSELF,
    }
    (folder / "keystone.conf").write_text(KEYSTONE.format(**values))
    (folder / "glance-api.conf").write_text(GLANCE.format(**values))
    for name in [*KEYS, "images", "staging", "tasks"]:
        (folder / name).mkdir(mode=0o700, exist_ok=True)
    return os.environ | {"OS_KEYSTONE_CONFIG_DIR": str(folder), "OS_GLANCE_CONFIG_DIR": str(folder)}


@contextmanager
def served(folder, name, port, environment):
    """uWSGI with a service, which ends with the block: a request a connection."""
    command = [
        BIN / "uwsgi", "--http-socket", f"127.0.0.1:{port}", "--module", f"{name}.wsgi.api:application", "--need-app",
        "--master", "--die-on-term", "--no-orphans", "--enable-threads", "--threads", "4", "--buffer-size", "65535",
        "--add-header", "Connection: close", "--socket-timeout", "300", "--virtualenv", BIN.parent,
    ]
    with (folder / f"{name}.log").open("a") as log:
        server = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        answers(port, server)
        yield
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()


def answers(port, server):
    end = time.monotonic() + 120
    while True:
        try:
            connection = HTTPConnection("127.0.0.1", port, timeout=120)
            connection.request("GET", "/")
            return connection.getresponse().read()
        except OSError:
            if time.monotonic() > end or server.poll() is not None:
                raise
            time.sleep(0.1)


def connected(keystone, name, password, project):
    url = f"http://127.0.0.1:{keystone}/v3"
    user = {"username": name, "password": password, "user_domain_id": "default"}
    return openstack.connect(
        auth={"auth_url": url, "project_name": project, "project_domain_id": "default", **user},
        region_name="RegionOne", identity_endpoint_override=url, load_yaml_config=False, load_envvars=False,
    )


def people(admin):
    """Projects, users and limits. Returns what `started` says."""
    identity = admin.identity
    member, reader, service = (identity.find_role(name) for name in ["member", "reader", "service"])
    glance_itself = identity.create_user(name="glance", password=KEY, domain_id="default")
    services = identity.create_project(name="service", domain_id="default")
    identity.assign_project_role_to_user(services, glance_itself, service)
    identity.assign_system_role_to_user(glance_itself, reader, "all")
    publisher = identity.create_user(name="publisher", password=PASSWORD, domain_id="default")
    projects = [identity.create_project(name=name, domain_id="default") for name in ["images", "full"]]
    for project in projects:
        identity.assign_project_role_to_user(project, publisher, member)
    itself = identity.create_service(type="identity", name="keystone")
    image = identity.create_service(type="image", name="glance")
    for region in ["RegionOne", "RegionTwo"]:
        identity.create_region(id=region)
    limits = {"service_id": image.id, "region_id": "RegionOne"}
    # Of bytes in MiB.
    for resource, limit in [("size_total", 1 << 20), ("stage_total", 1 << 20), ("count_total", 1000), ("count_uploading", 100)]:
        identity.create_registered_limit(**limits, resource_name=f"image_{resource}", default_limit=limit)
    identity.create_limit(**limits, resource_name="image_size_total", resource_limit=1, project_id=projects[1].id)
    return {"project": projects[0].id, "user": publisher.id, "identity": itself.id, "image": image.id}


def catalog(admin, made, keystone, glance):
    """Returns the id of Glance's endpoint."""
    def endpoint(service, region, interface, url):
        return admin.identity.create_endpoint(service_id=made[service], region_id=region, interface=interface, url=url)

    # Glance asks the internal one whose a token is, and the public one for limits.
    for interface in ["internal", "public"]:
        endpoint("identity", "RegionOne", interface, f"http://127.0.0.1:{keystone}/v3")
    endpoint("image", "RegionOne", "internal", "http://10.0.0.1:9292")
    endpoint("image", "RegionTwo", "public", "http://127.0.0.1:9/image")
    return endpoint("image", "RegionOne", "public", f"http://127.0.0.1:{glance}").id


def make(folder):
    folder.mkdir(parents=True)
    environment = configure(folder)

    def run(program, config, *arguments):
        command = [BIN / program, "--config-file", folder / config, *arguments]
        with (folder / "make.log").open("a") as log:
            subprocess.run(command, env=environment, stdout=log, stderr=log, check=True)

    user = ["--keystone-user", str(os.getuid()), "--keystone-group", str(os.getgid())]
    run("keystone-manage", "keystone.conf", "db_sync")
    run("keystone-manage", "keystone.conf", "fernet_setup", *user)
    run("keystone-manage", "keystone.conf", "credential_setup", *user)
    run("keystone-manage", "keystone.conf", "bootstrap", "--bootstrap-password", KEY)
    run("glance-manage", "glance-api.conf", "db_sync")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with served(folder, "keystone", port, environment):
        made = people(connected(port, "admin", KEY, "admin"))
        publisher = connected(port, "publisher", PASSWORD, "images")
        credential = publisher.identity.create_application_credential(made["user"], "winimg", secret=PASSWORD)
    (folder / "made").write_text(json.dumps(made | {"credential": credential.id}))


def ended():
    """Who started this has ended."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def serve(made, folder, keystone, glance):
    for name in ["keystone.db", "glance.db"]:
        shutil.copy(made / name, folder)
    for name in KEYS:
        shutil.copytree(made / name, folder / name)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    threading.Thread(target=ended, daemon=True).start()
    with served(folder, "keystone", keystone, configure(folder)):
        admin = connected(keystone, "admin", KEY, "admin")
        who = json.loads((made / "made").read_text())
        endpoint = catalog(admin, who, keystone, glance)
        with served(folder, "glance", glance, configure(folder, keystone, glance, endpoint)):
            (folder / "starting").write_text(json.dumps(who | {"token": admin.session.get_token()}))
            (folder / "starting").rename(folder / "started")
            while True:
                signal.pause()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["make", folder]:
            make(Path(folder).absolute())
        case ["serve", made, folder, keystone, glance]:
            serve(Path(made).absolute(), Path(folder).absolute(), int(keystone), int(glance))
        case _:
            sys.exit(__doc__)
