#!/usr/bin/env python3
"""Fetches really signed files into FOLDER by package name and exact version.

    real-signed.py FOLDER <packages.json

pip and npm check what arrives against their registry's metadata; the digests of `real/files.toml`, which come in as JSON,
pin it besides. What is there already is left alone.
"""

import base64
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import urllib.parse
import urllib.request
import zipfile

DEBIAN = "https://deb.debian.org/debian"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def npm(package, work):
    spec = f"{package['name']}@{package['version']}"
    run("npm", "pack", spec, "--pack-destination", work, "--ignore-scripts", "--silent")
    data = only(work)
    found = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    pinned(package, found)


def wheel(package, work):
    pip(package, work, "--only-binary=:all:", "--platform", "win_amd64", "--implementation", "cp", "--python-version", "3.12")


def source(package, work):
    pip(package, work, "--no-binary=:all:")


def pip(package, work, *options):
    spec = f"{package['name']}=={package['version']}"
    run(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", *options, "--dest", work, spec)
    pinned(package, sha256(only(work)))


def pinned(package, found):
    if found != package["digest"]:
        sys.exit(f"{package['name']} {package['version']} is another package than files.toml pins: {found}")


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def only(work):
    (name,) = os.listdir(work)
    with open(f"{work}/{name}", "rb") as file:
        return file.read()


def archive(work):
    """A reader of members by their names."""
    (name,) = os.listdir(work)
    if name.endswith(".whl"):
        return zipfile.ZipFile(f"{work}/{name}").read
    tar = tarfile.open(f"{work}/{name}")
    return lambda member: tar.extractfile(member).read()


def debian(package):
    def fetch(name):
        address = f"{DEBIAN}/{package['folder']}/{urllib.parse.quote(name)}"
        with urllib.request.urlopen(address, timeout=120) as answer:
            return answer.read()

    return fetch


def wanted(file):
    """The member, and what lies beside it."""
    return [file["member"]] + ([file["member"] + file["beside"]] if "beside" in file else [])


def is_there(path, digest):
    if not os.path.exists(path):
        return False
    with open(path, "rb") as file:
        return digest is None or sha256(file.read()) == digest


def save(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), delete=False) as file:
        file.write(data)
    os.rename(file.name, path)


def fetch(package, folder):
    home = f"{folder}/{package['name'].replace('/', '-')}@{package['version']}"
    lacking = [
        (name, file["sha256"] if name == file["member"] else None)
        for file in package["files"]
        for name in wanted(file)
        if not is_there(f"{home}/{name}", file["sha256"] if name == file["member"] else None)
    ]
    if not lacking:
        return
    with tempfile.TemporaryDirectory() as work:
        if package["registry"] == "debian":
            read = debian(package)
        else:
            {"npm": npm, "pypi": wheel, "pypi-source": source}[package["registry"]](package, work)
            read = archive(work)
        for name, digest in lacking:
            data = read(name)
            if digest not in (None, sha256(data)):
                sys.exit(f"{name} of {package['name']} is another file than files.toml pins: {sha256(data)}")
            save(f"{home}/{name}", data)


for package in json.load(sys.stdin):
    fetch(package, sys.argv[1])
