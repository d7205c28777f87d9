"""Azure Resource Manager and Microsoft Entra's login for the tests, as strict as they are: arm.py PORT BLOBS KEY [WORDS].

Paths are those that Azure's own client (azure-mgmt-compute) builds, bodies are read by its models: a member that is not known, is
missing, is only read or has another type is refused. Disks are looked at where they lie, in Azurite. With words, whatever is made ends
with them. `/made` shows what is there.
"""
import enum
import json
import re
import sys
import threading
import typing

from azure.core.exceptions import ResourceNotFoundError
from azure.mgmt.compute import models
from azure.mgmt.compute._utils.model_base import Model
from azure.mgmt.compute.operations import _operations as paths
from azure.storage.blob import BlobServiceClient
from werkzeug.serving import run_simple
from werkzeug.wrappers import Request, Response

PORT, BLOBS, KEY, *WORDS = sys.argv[1:]
SUBSCRIPTION, GROUP, ACCOUNT = "11111111-2222-3333-4444-555555555555", "images", "winimgtests"
ROOT = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers"
ACCOUNT_ID = f"{ROOT}/Microsoft.Storage/storageAccounts/{ACCOUNT}"
DEFINITION = f"{ROOT}/Microsoft.Compute/galleries/nodes/images/"
DEFINITIONS = {
    "windows-2022": {"osType": "Windows", "osState": "Generalized", "hyperVGeneration": "V2"},
    "old": {"osType": "Windows", "osState": "Generalized"},
}
MIB = 1 << 20


class Refused(Exception):
    """A status, a code and its words."""


def judge(value, hint, at):
    """Refuses a value that the client's model has not."""
    wrong = Refused(400, "InvalidRequestContent", f"{at} is not a {hint}: {value!r}")
    if typing.get_origin(hint) is typing.Union:
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        enums = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, enum.Enum)]
        if enums:
            if value not in [one.value for one in enums[0]]:
                raise wrong
            return
        return judge(value, kinds[0], at)
    if typing.get_origin(hint) is list:
        if not isinstance(value, list):
            raise wrong
        for n, one in enumerate(value):
            judge(one, typing.get_args(hint)[0], f"{at}[{n}]")
    elif typing.get_origin(hint) is dict:
        for name, one in value.items():
            judge(one, typing.get_args(hint)[1], f"{at}.{name}")
    elif issubclass(hint, Model):
        if not isinstance(value, dict):
            raise wrong
        fields = {field._rest_name: (name, field) for name, field in hint()._attr_to_rest_field.items()}
        hints = typing.get_type_hints(hint, localns={"_models": models})
        for name, one in value.items():
            if name not in fields:
                raise Refused(400, "InvalidRequestContent", f"{at} has no member {name}")
            attribute, field = fields[name]
            if field._visibility == ["read"]:
                raise Refused(400, "InvalidRequestContent", f"{at}.{name} is only read")
            judge(one, hints[attribute], f"{at}.{name}")
        for name, (attribute, field) in fields.items():
            if type(None) not in typing.get_args(hints[attribute]) and name not in value and field._visibility != ["read"]:
                raise Refused(400, "InvalidRequestContent", f"{at}.{name} is missing")
    elif not isinstance(value, hint):
        raise wrong


def fault(disk):
    """Why a disk is not one that Azure takes. (Prepare a Windows VHD to upload to Azure)"""
    if not disk.startswith(f"{BLOBS}/"):
        return "The source blob is not in the storage account."
    container, name = disk.removeprefix(f"{BLOBS}/").split("/", 1)
    service = BlobServiceClient(BLOBS, credential={"account_name": ACCOUNT, "account_key": KEY})
    blob = service.get_blob_client(container, name)
    try:
        size, kind = blob.get_blob_properties().size, blob.get_blob_properties().blob_type.value
    except ResourceNotFoundError:
        return "The source blob does not exist."
    if kind != "PageBlob":
        return "The source blob is not a page blob."
    footer = blob.download_blob(offset=size - 512, length=512).readall()
    if footer[:8] != b"conectix" or int.from_bytes(footer[60:64], "big") != 2:
        return "The cookie value in the VHD footer is not that of a fixed disk."
    if (size - 512) % MIB or int.from_bytes(footer[48:56], "big") != size - 512:
        return "The VHD's virtual size must be a whole number (in MBs)."
    return None


class Manager:
    def __init__(self):
        self.made, self.lock = {}, threading.Lock()

    def shown(self, path):
        """A resource, which is ready when it was asked for four times."""
        found = self.made[path]
        found["asked"] += 1
        if found["asked"] > 4:
            found["state"] = "Failed" if found["fault"] else "Succeeded"
        properties = found["body"]["properties"] | {"provisioningState": found["state"]}
        return found["body"] | {"id": path, "name": path.rsplit("/", 1)[1], "properties": properties}

    def put(self, here, path, body):
        version = path.startswith(DEFINITION)
        if version:
            words = path.removeprefix(DEFINITION).split("/")
            if words[0] not in DEFINITIONS:
                raise Refused(404, "ParentResourceNotFound", "The image definition is not there.")
            if len(words) != 3 or not re.fullmatch(r"\d+\.\d+\.\d+", words[2]):
                raise Refused(400, "InvalidParameter", "The version is not Major.Minor.Patch.")
            built = paths.build_gallery_image_versions_create_or_update_request(GROUP, "nodes", words[0], words[2], SUBSCRIPTION)
            judge(body, models.GalleryImageVersion, "GalleryImageVersion")
        else:
            name = path.removeprefix(f"{ROOT}/Microsoft.Compute/images/")
            if not re.fullmatch(r"[a-zA-Z0-9]([a-zA-Z0-9_.-]{0,78}[a-zA-Z0-9_])?", name):
                raise Refused(400, "InvalidParameter", "The image's name is not one.")
            built = paths.build_images_create_or_update_request(GROUP, name, SUBSCRIPTION)
            judge(body, models.Image, "Image")
        if built.url.split("?")[0] != path:
            raise Refused(404, "InvalidResourceType", path)
        if any(set(name) & set("<>%&\\?/") or len(value) > 256 for name, value in body.get("tags", {}).items()):
            raise Refused(400, "InvalidTagNameCharacters", str(body["tags"]))
        if body["location"] != "westeurope":
            raise Refused(400, "InvalidParameter", "The source blob is in another region.")
        if version:
            source = body["properties"]["storageProfile"]["osDiskImage"]["source"]
            regions = [one["name"] for one in body["properties"]["publishingProfile"]["targetRegions"]]
            if len(set(regions)) != len(regions) or "westeurope" not in regions:
                raise Refused(400, "InvalidParameter", "The target regions are not each once, with the version's own.")
            disk = source["uri"] if source["storageAccountId"] == ACCOUNT_ID else ""
        else:
            disk = body["properties"]["storageProfile"]["osDisk"]["blobUri"]
        there = self.made.get(path)
        if there and there["disk"] != disk or version and there and there["body"] != body:
            raise Refused(409, "PropertyChangeNotAllowed", "Changing the source of an image is not allowed.")
        ended = f"InvalidVhd: {' '.join(WORDS)}" if WORDS else fault(disk)
        if not there or there["state"] == "Failed":
            self.made[path] = {"body": body, "disk": disk, "asked": 0, "state": "Creating", "fault": ended}
        operation = f"{here}subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/locations/westeurope/operations{path}?api-version=2024-11-01"
        return 201, self.shown(path), {"Azure-AsyncOperation": operation, "Retry-After": "1"}

    def operation(self, path):
        found = self.shown(path)
        state = {"Creating": "InProgress"}.get(found["properties"]["provisioningState"], found["properties"]["provisioningState"])
        answer = {"name": "1", "status": state}
        if state == "Failed":
            code, _, words = self.made[path]["fault"].rpartition(": ")
            answer["error"] = {"code": code or "InvalidParameter", "message": words}
        return 200, answer, {"Retry-After": "1"}

    def answer(self, here, method, path, body):
        operations = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/locations/westeurope/operations"
        if method == "GET" and path.startswith(operations):
            return self.operation(path.removeprefix(operations))
        if not path.startswith(f"/subscriptions/{SUBSCRIPTION}/"):
            raise Refused(404, "SubscriptionNotFound", path)
        if not path.startswith(f"{ROOT}/"):
            raise Refused(404, "ResourceGroupNotFound", "Resource group could not be found.")
        if method == "PUT" and path.startswith(f"{ROOT}/Microsoft.Compute/"):
            return self.put(here, path, json.loads(body))
        if method == "GET" and path == ACCOUNT_ID:
            return 200, {"id": path, "location": "westeurope", "kind": "StorageV2", "properties": {"provisioningState": "Succeeded"}}, {}
        definition = path.removeprefix(DEFINITION)
        if method == "GET" and definition in DEFINITIONS:
            return 200, {"id": path, "location": "westeurope", "properties": DEFINITIONS[definition]}, {}
        if path not in self.made:
            raise Refused(404, "ResourceNotFound", "The resource was not found.")
        if method == "DELETE":
            del self.made[path]
            return 202, None, {}
        if method != "GET":
            raise Refused(405, "MethodNotAllowed", method)
        return 200, self.shown(path), {}


def login(request):
    """A token for the audience that is asked for, whoever asks as one of the four who may."""
    if request.method == "GET":
        if request.headers.get("Metadata") != "true" or request.args["api-version"] != "2018-02-01":
            raise Refused(400, "invalid_request", "the metadata service is asked otherwise")
        audience = request.args["resource"].removesuffix("/")
    else:
        form = request.form
        secret = form.get("client_secret") == "hunter2-of-the-client"
        workload = form.get("client_assertion") == "hunter2-of-the-workload" and form["client_assertion_type"].endswith(":jwt-bearer")
        if form["grant_type"] != "client_credentials" or form["client_id"] != "winimg" or not (secret or workload):
            raise Refused(401, "invalid_client", "AADSTS7000215: Invalid client secret provided.")
        audience = form["scope"].removesuffix("/.default")
    # The manager is the one at the address that it was asked at.
    names = {request.host_url.removesuffix("/"): "manager", "https://storage.azure.com": "storage"}
    if audience not in names:
        raise Refused(400, "invalid_scope", f"AADSTS70011: The scope {audience} is not valid.")
    name = names[audience]
    token = {"access_token": f"hunter2-for-the-{name}", "token_type": "Bearer"}
    return token | ({"expires_on": "4102444800"} if request.method == "GET" else {"expires_in": 3599})


def door(manager, request):
    if request.path == "/made":
        return 200, {path: one["body"] | {"state": one["state"]} for path, one in manager.made.items()}, {}
    if request.path in ("/tenant/oauth2/v2.0/token", "/metadata/identity/oauth2/token"):
        return 200, login(request), {}
    if request.headers.get("Authorization") != "Bearer hunter2-for-the-manager":
        raise Refused(401, "InvalidAuthenticationToken", "The access token is invalid.")
    if not re.fullmatch(r"20\d\d-\d\d-\d\d", request.args.get("api-version", "")):
        raise Refused(400, "MissingApiVersionParameter", request.path)
    if request.method == "PUT" and request.content_type != "application/json":
        raise Refused(415, "UnsupportedMediaType", str(request.content_type))
    with manager.lock:
        return manager.answer(request.host_url, request.method, request.path, request.get_data())


MANAGER = Manager()


@Request.application
def application(request):
    try:
        status, body, headers = door(MANAGER, request)
    except Refused as e:
        status, code, words = e.args
        body, headers = {"error": {"code": code, "message": words}}, {}
    text = "" if body is None else json.dumps(body)
    return Response(text, status, headers, content_type="application/json")


run_simple("127.0.0.1", int(PORT), application, threaded=True)
