"""Lets the real cloudbase-init use user data and prints what came of it, as JSON.

    user_data.py ASK.json

ASK.json holds `user_data` (base64), `host_name`, `folder`, below which lies what would lie on C:, and `path`, where programs are looked for.
Printed are `log`, the whole log as cloudbase-init writes it with `debug` on, and `plugin`, what UserDataPlugin returned.

Only what Windows itself does is stood in for: files lie below `folder`, and commands are run by bash instead of cmd.exe. Run with
target/record-venv/bin/python.
"""

import base64
import json
import os
import sys
from unittest import mock

ask = json.load(open(sys.argv[1], encoding="utf-8"))
folder = ask["folder"]
log_file = os.path.join(folder, "cloudbase-init.log")

from cloudbaseinit import conf  # noqa: E402
from cloudbaseinit.metadata.services import base as services  # noqa: E402
from cloudbaseinit.osutils import base as osutils  # noqa: E402
from cloudbaseinit.osutils import factory as os_factory  # noqa: E402
from cloudbaseinit.plugins.common import userdata  # noqa: E402
from cloudbaseinit.plugins.common.userdataplugins.cloudconfigplugins import write_files  # noqa: E402
from cloudbaseinit.utils import log  # noqa: E402


class Windows:
    """What cloudbaseinit.osutils.windows does: a process is run as cloudbase-init runs it everywhere."""

    def get_default_script_exec_header(self):
        return "#!/bin/bash -v"

    def execute_process(self, args, shell=True, decode_output=False):
        with open(args[-1], "r+", encoding="utf-8") as script:
            text = script.read().replace(" /run/", " %s/run/" % folder)
            script.seek(0)
            script.write(text)
        return osutils.BaseOSUtils.execute_process(self, args, shell, decode_output)


class Service(services.BaseMetadataService):
    def _get_data(self, path):
        raise services.NotExistingMetadataException()

    def get_user_data(self):
        return base64.b64decode(ask["user_data"])

    def get_host_name(self):
        return ask["host_name"]

    def get_instance_id(self):
        return "i-1"


def main():
    os.environ["PATH"] = ask["path"] + os.pathsep + os.environ["PATH"]
    settings = os.path.join(folder, "cloudbase-init.conf")
    with open(settings, "w", encoding="utf-8") as file:
        file.write("[DEFAULT]\nverbose=true\ndebug=true\nlog_file=%s\n" % log_file)
    conf.CONF(["--config-file", settings], project="cloudbase-init")
    log.setup("cloudbaseinit")
    write = write_files._write_file

    def below(path, *rest):
        return write(folder + path, *rest)

    with mock.patch.object(os_factory, "get_os_utils", Windows), mock.patch.object(write_files, "_write_file", below):
        plugin = userdata.UserDataPlugin().execute(Service(), {})
    with open(log_file, encoding="utf-8") as file:
        json.dump({"plugin": plugin, "log": file.read()}, sys.stdout, indent=1)


main()
