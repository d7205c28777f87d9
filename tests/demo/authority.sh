#!/usr/bin/env bash
# Makes the demo's certificate authority, with a certificate that signs programs and catalogs and a minisign key, in a folder.
# It is made once: signatures then stay the same from run to run.
set -euo pipefail
ca=${1:?usage: authority.sh FOLDER}
if [ -e "$ca/signer.pem" ] && [ -e "$ca/minisign.pub" ]; then exit 0; fi
rm -rf "$ca"
mkdir -p "$ca"
openssl req -x509 -newkey rsa:3072 -nodes -keyout "$ca/root.key" -out "$ca/root.pem" -days 3650 \
    -subj '/O=winimg demo (no real publisher)/CN=winimg demo root' \
    -addext 'basicConstraints=critical,CA:TRUE' -addext 'keyUsage=critical,keyCertSign,cRLSign' 2>/dev/null
openssl req -newkey rsa:3072 -nodes -keyout "$ca/signer.key" -out "$ca/signer.csr" \
    -subj '/O=winimg demo (no real publisher)/CN=winimg demo code signing' 2>/dev/null
printf '%s\n' 'basicConstraints=critical,CA:FALSE' 'keyUsage=critical,digitalSignature' 'extendedKeyUsage=codeSigning' >"$ca/signer.ext"
openssl x509 -req -in "$ca/signer.csr" -CA "$ca/root.pem" -CAkey "$ca/root.key" -days 3650 -extfile "$ca/signer.ext" \
    -set_serial 0x77696e696d67 -out "$ca/signer.tmp" 2>/dev/null
minisign -G -W -f -p "$ca/minisign.pub" -s "$ca/minisign.key" >/dev/null
mv "$ca/signer.tmp" "$ca/signer.pem"
