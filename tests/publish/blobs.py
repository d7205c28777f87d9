"""What Azure's own client for Python does with the container of the tests: blobs.py ENDPOINT KEY WHAT [NAME]."""
import datetime
import json
import sys

from azure.storage.blob import BlobServiceClient, ContainerSasPermissions, generate_container_sas

endpoint, key, what, *name = sys.argv[1:]
account = endpoint.rstrip("/").rsplit("/", 1)[1]
container = BlobServiceClient(endpoint, credential={"account_name": account, "account_key": key}).get_container_client("images")

if what == "make":
    container.create_container()
elif what == "read":
    sys.stdout.buffer.write(container.download_blob(name[0]).readall())
elif what == "about":
    blob = container.get_blob_client(name[0])
    found = blob.get_blob_properties()
    pages = found.blob_type.value == "PageBlob"
    ranges = [[r.start, r.end + 1] for r in blob.list_page_ranges()] if pages else []
    print(json.dumps({"type": found.blob_type.value, "metadata": found.metadata, "ranges": ranges}))
elif what == "put":
    container.upload_blob(name[0], b"another", overwrite=True)
elif what == "sign":
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    may = ContainerSasPermissions(read=True, add=True, create=True, write=True)
    print(generate_container_sas(account, "images", account_key=key, permission=may, expiry=end))
else:
    sys.exit(f"what is {what}?")
