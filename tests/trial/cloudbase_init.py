"""Reads metadata with the real cloudbase-init and prints what it understood, as JSON.

    cloudbase_init.py SERVICE ASK.json

SERVICE is the name of a class of cloudbaseinit.metadata.services, as in `metadata_services`, or of a module of winimg's packs. ASK.json holds `drives` (folder and
volume label of each disc), `sockets` (a Unix socket for each "address:port"), `settings` (lines for cloudbase-init.conf) and `dhcp`
(options that the DHCP server gave, by number, as addresses).

Only what Windows itself does is stood in for: finding drives and their labels, backslashes in paths, DHCP, the route of packets.
Every parser, every request and every retry is cloudbase-init's. Run with target/record-venv/bin/python.
"""

import base64
import contextlib
import json
import os
import socket
import sys
import tempfile
import types
from unittest import mock
from xml.etree import ElementTree

service_name, ask = sys.argv[1], json.load(open(sys.argv[2], encoding="utf-8"))

# Modules that load DLLs of Windows as they are imported; nothing here calls them.
for name in ("disk", "vfat", "x509"):
    module = "cloudbaseinit.utils.windows." + name
    sys.modules[module] = types.ModuleType(module)

from cloudbaseinit import conf  # noqa: E402
from cloudbaseinit.metadata.services import base  # noqa: E402
from cloudbaseinit.metadata.services.osconfigdrive import factory as drive_factory  # noqa: E402
from cloudbaseinit.metadata.services.osconfigdrive import windows  # noqa: E402
from cloudbaseinit.osutils import factory as os_factory  # noqa: E402
from cloudbaseinit.utils import classloader, dhcp  # noqa: E402
from urllib3.util import connection  # noqa: E402


class Windows:
    """What cloudbaseinit.osutils.windows asks the system for."""

    def get_cdrom_drives(self):
        return [drive["folder"] for drive in ask["drives"]]

    get_logical_drives = get_cdrom_drives

    def get_volume_label(self, drive):
        return next(d["label"] for d in ask["drives"] if d["folder"] == drive)

    def get_physical_disks(self):
        return []

    def get_volumes(self):
        return []


def as_windows_opens_them(folder):
    """Windows takes a backslash as the separator; here it is a letter: each file gets its path as a second name."""
    for at, _, files in os.walk(folder):
        for file in files:
            path = os.path.relpath(os.path.join(at, file), folder)
            if os.sep in path:
                os.symlink(os.path.join(at, file), os.path.join(folder, path.replace(os.sep, "\\")))


def connect(address, *_args, **_options):
    """The network of a clone: what is not forwarded does not answer."""
    path = ask["sockets"].get("%s:%s" % address)
    if not path:
        raise OSError("no route to %s:%s" % address)
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(path)
    return stream


def pack_service():
    """The class of recipes/packs/azure on a clone that took the answer file of its disc: Windows' registry and C: are stood in for."""
    drive = ask["drives"][0]["folder"]
    answers = ElementTree.parse(os.path.join(drive, "Unattend.xml")).getroot()
    text = {e.tag.split("}")[1]: e.text for e in answers.iter()}
    host_name = text["ComputerName"]
    identifier, _user = text["Path"].split()[-2:]
    values = {r"SOFTWARE\Microsoft\Virtual Machine\Guest\Parameters": {"VirtualMachineId": identifier}}
    winreg = types.ModuleType("winreg")
    winreg.HKEY_LOCAL_MACHINE = None
    winreg.OpenKey = lambda _hive, path: contextlib.nullcontext(values[path])
    winreg.QueryValueEx = lambda key, name: (key[name], 1)
    sys.modules["winreg"] = winreg
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../recipes/packs/azure"))
    service = classloader.ClassLoader().load_class(service_name)
    sys.modules[service.__module__].CUSTOM_DATA = os.path.join(drive, "CustomData.bin")
    socket.gethostname = lambda: host_name
    return service()


def understood(service):
    def said(ask_service):
        try:
            value = ask_service()
        except base.NotExistingMetadataException:
            return "not there"
        return base64.b64encode(value).decode() if isinstance(value, bytes) else value

    answers = {
        "instance": said(service.get_instance_id),
        "host_name": said(service.get_host_name),
        "user": said(service.get_admin_username),
        "keys": said(service.get_public_keys),
        "user_data": said(service.get_decoded_user_data),
        "network": said(lambda: repr(service.get_network_details_v2())),
        "can_post_password": service.can_post_password,
    }
    if service.can_post_password:
        answers["password_before"] = service.is_password_set
        answers["password_posted"] = service.post_password("c2VjcmV0")
        answers["password_after"] = service.is_password_set
    if service_name.startswith("azureservice."):
        answers["password"] = service.get_admin_password()
        answers["agent"] = service.get_vm_agent_package_provisioning_data()
        answers["kms"] = service.get_kms_host()
        answers["avma"] = service.get_use_avma_licensing()
        answers["updates"] = service.get_enable_automatic_updates()
        answers["certificates"] = service.get_server_certs()
        answers["winrm"] = service.get_winrm_listeners_configuration()
        answers["environment"] = service._get_hosting_environment().HostingEnvironmentConfig["version"]
        answers["shared"] = service._get_shared_config().SharedConfig["version"]
        service.post_rdp_cert_thumbprint("0123456789ABCDEF0123456789ABCDEF01234567")
    service.provisioning_started()
    service.provisioning_completed()
    return answers


def main():
    for drive in ask["drives"]:
        as_windows_opens_them(drive["folder"])
    options = {int(n): socket.inet_aton(address) for n, address in ask["dhcp"].items()}
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as settings:
        settings.write("\n".join(["[DEFAULT]", "retry_count=1", "retry_count_interval=0", *ask["settings"], ""]))
        settings.flush()
        conf.CONF(["--config-file", settings.name], project="cloudbase-init")
        with mock.patch.object(os_factory, "get_os_utils", Windows), \
                mock.patch.object(drive_factory, "get_config_drive_manager", windows.WindowsConfigDriveManager), \
                mock.patch.object(dhcp, "get_dhcp_options", lambda *a, **k: options), \
                mock.patch.object(connection, "create_connection", connect):
            if service_name.startswith("azure_custom_data."):
                service = pack_service()
            else:
                service = classloader.ClassLoader().load_class("cloudbaseinit.metadata.services." + service_name)()
            answers = {"loaded": bool(service.load())}
            if answers["loaded"]:
                answers.update(understood(service))
                service.cleanup()
    json.dump(answers, sys.stdout, indent=1)


main()
