"""EC2 for the tests: moto's, behind a door that is as strict as the service.

Every request is read back by AWS' own model of the API (botocore) and has to be what AWS' own client would send. moto has no VM Import:
it is here, with what its user guide says that it refuses. Listens on 127.0.0.1 at the port that is given; with words after
it every import ends with them.
"""
import itertools
import sys
from io import BytesIO
from urllib.parse import parse_qsl

import botocore.exceptions
import botocore.serialize
import botocore.session
from moto.backends import get_backend
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
from werkzeug.wrappers import Request, Response

MODEL = botocore.session.get_session().get_service_model("ec2")
SERIALIZER = botocore.serialize.create_serializer("ec2")
ACCOUNT = "123456789012"
DISK_FORMATS = {"OVA", "RAW", "VHD", "VHDX", "VMDK"}


class Refused(Exception):
    """A code and its words."""


def name_of(member, shape):
    given = shape.serialization
    name = given.get("queryName") or given.get("name") or member
    return name[0].upper() + name[1:]


def read(shape, form, prefix):
    """The value under a prefix, and None where nothing is. Takes what it read out of the form."""
    if shape.type_name == "structure":
        found = {}
        for member, inner in shape.members.items():
            value = read(inner, form, f"{prefix}.{name_of(member, inner)}".lstrip("."))
            if value is not None:
                found[member] = value
        return found or None
    if shape.type_name == "list":
        values = []
        for n in itertools.count(1):
            value = read(shape.member, form, f"{prefix}.{n}")
            if value is None:
                return values or None
            values.append(value)
    value = form.pop(prefix, None)
    if value is None:
        return None
    if shape.type_name == "boolean":
        return value == "true"
    if shape.type_name == "integer":
        return int(value)
    return value


def parameters(text):
    pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=True)
    form = dict(pairs)
    if len(form) != len(pairs):
        raise Refused("InvalidParameter", "a parameter is there twice")
    action, version = form.pop("Action", ""), form.pop("Version", "")
    if version != MODEL.api_version:
        raise Refused("NoSuchVersion", version)
    if action not in MODEL.operation_names:
        raise Refused("InvalidAction", action)
    operation = MODEL.operation_model(action)
    found = read(operation.input_shape, form, "") or {}
    if form:
        raise Refused("UnknownParameter", ", ".join(form))
    try:
        SERIALIZER.serialize_to_request(found, operation)
    except botocore.exceptions.ParamValidationError as e:
        raise Refused("InvalidParameterValue", str(e)) from e
    return action, found


def region(request):
    """From the signature's scope, which has to be of EC2."""
    scope = request.headers["Authorization"].split("Credential=")[1].split(",")[0].split("/")
    if scope[3:] != ["ec2", "aws4_request"]:
        raise Refused("AuthFailure", "the signature is of another service")
    return scope[2]


def tags(kind, found):
    ours = (one["Tags"] for one in found.get("TagSpecifications", []) if one["ResourceType"] == kind)
    return [(tag["Key"], tag["Value"]) for tags in ours for tag in tags]


class Imports:
    """Tasks by their names; each is asked for twice before it has ended."""

    def __init__(self, refusal):
        self.tasks, self.tokens, self.refusal = {}, {}, refusal

    def begin(self, found, where):
        token = found.get("ClientToken")
        if token in self.tokens:
            return self.shown(self.tokens[token])
        [disk] = found["DiskContainers"]
        bucket = disk["UserBucket"]
        objects = get_backend("s3")[ACCOUNT]["global"]
        key = objects.buckets[bucket["S3Bucket"]].keys.get(bucket["S3Key"])
        if key is None:
            raise Refused("InvalidParameter", "The given S3 object is not there.")
        if found.get("RoleName", "vmimport") != "vmimport":
            raise Refused("InvalidParameter", "The service role does not exist or does not have sufficient permissions.")
        if disk["Format"] not in DISK_FORMATS:
            raise Refused("InvalidParameter", "The disk's format is not supported.")
        if "LicenseType" in found and "UsageOperation" in found:
            raise Refused("InvalidParameterCombination", "LicenseType and UsageOperation")
        if found.get("BootMode") not in (None, "uefi", "legacy-bios") or found["Architecture"] != "x86_64":
            raise Refused("InvalidParameter", "BootMode or Architecture")
        name = f"import-ami-{len(self.tasks) + 1:017x}"
        self.tasks[name] = {
            "name": name, "where": where, "asked": 0, "image": None,
            "tags": tags("import-image-task", found),
        }
        self.tokens[token] = name
        return self.shown(name)

    def asked(self, found, where):
        wanted = found.get("ImportTaskIds")
        for name, task in self.tasks.items():
            if task["where"] != where or (wanted and name not in wanted):
                continue
            filters = found.get("Filters", [])
            if all((f["Name"].removeprefix("tag:"), v) in task["tags"] for f in filters for v in f["Values"]):
                task["asked"] += 1
                if task["asked"] == 3 and not self.refusal:
                    task["image"] = get_backend("ec2")[ACCOUNT][where].register_image(name=name).id
                yield name

    def shown(self, name):
        task = self.tasks[name]
        if self.refusal and task["asked"]:
            state = f"<status>deleted</status><statusMessage>{self.refusal}</statusMessage>"
        elif task["image"]:
            state = f"<status>completed</status><imageId>{task['image']}</imageId>"
        else:
            state = f"<status>active</status><progress>{19 + task['asked']}</progress><statusMessage>converting</statusMessage>"
        return f"<importTaskId>{name}</importTaskId>{state}"


class Door:
    def __init__(self):
        self.moto, self.imports = DomainDispatcherApplication(create_backend_app), Imports(" ".join(sys.argv[2:]))

    def __call__(self, environ, start):
        request = Request(environ)
        if request.method != "POST" or "/s3/" in request.headers.get("Authorization", "/s3/"):
            return self.moto(environ, start)
        text = request.get_data(cache=True).decode()
        try:
            answer = self.answer(*parameters(text), region(request), text, environ)
        except Refused as e:
            code, words = e.args
            answer = Response(
                f"<Response><Errors><Error><Code>{code}</Code><Message>{words}</Message></Error></Errors></Response>", status=400
            )
        return answer(environ, start)

    def answer(self, action, found, where, text, environ):
        if action == "ImportImage":
            return Response(f"<ImportImageResponse>{self.imports.begin(found, where)}</ImportImageResponse>")
        if action == "DescribeImportImageTasks":
            items = "".join(f"<item>{self.imports.shown(name)}</item>" for name in self.imports.asked(found, where))
            return Response(f"<R><importImageTaskSet>{items}</importImageTaskSet></R>")
        if action == "CopyImage":
            return self.copy(found, where)
        # What was read is put back: moto reads it again.
        environ["wsgi.input"], environ["CONTENT_LENGTH"] = BytesIO(text.encode()), str(len(text))
        return self.moto

    def copy(self, found, where):
        """moto's copy, with the tags that it leaves out, and a name that is there once as at AWS."""
        backend = get_backend("ec2")[ACCOUNT][where]
        if any(ami.name == found["Name"] for ami in backend.amis.values() if ami.owner_id == ACCOUNT):
            raise Refused("InvalidAMIName.Duplicate", f"AMI name {found['Name']} is already in use")
        ami = backend.copy_image(found["SourceImageId"], found["SourceRegion"], found["Name"], found.get("Description"))
        backend.create_tags([ami.id], dict(tags("image", found)))
        return Response(f"<CopyImageResponse><imageId>{ami.id}</imageId></CopyImageResponse>")


run_simple("127.0.0.1", int(sys.argv[1]), Door(), threaded=True)
