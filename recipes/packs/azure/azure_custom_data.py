"""cloudbase-init's metadata on Azure once Azure's own provisioning agent is through.

The agent has named the machine and made its administrator; it leaves the custom data in C:\\AzureData (Microsoft: Custom data
on Azure virtual machines). Only that is handed on, with the name that the machine has: user data may ask for it
({{ ds.meta_data["local_hostname"] }}).
"""

import os
import socket
import winreg

from cloudbaseinit.metadata.services import base

CUSTOM_DATA = r"C:\AzureData\CustomData.bin"
# The machine's identifier, other for each clone: plugins run once for each.
IDENTIFIER = r"SOFTWARE\Microsoft\Virtual Machine\Guest\Parameters"


class CustomDataService(base.BaseMetadataService):

    def _get_data(self, path):
        raise base.NotExistingMetadataException()

    def load(self):
        super(CustomDataService, self).load()
        return os.path.exists(CUSTOM_DATA)

    def get_instance_id(self):
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, IDENTIFIER) as key:
            return winreg.QueryValueEx(key, "VirtualMachineId")[0]

    def get_host_name(self):
        return socket.gethostname()

    def get_user_data(self):
        with open(CUSTOM_DATA, "rb") as data:
            return data.read()
