# Keys, and files signed with them by the field's own tools, laid into the folder that this runs in. $1: the tests' folder.
for who in release other; do
    minisign -G -W -p $who.pub -s $who.key >/dev/null
done
head -c 5000 /dev/urandom >tool.exe
head -c 5000 /dev/urandom >newer.exe
for file in tool newer; do
    minisign -S -s release.key -m $file.exe -x $file.exe.minisig -t "file:tool.exe" >/dev/null
done
minisign -S -s other.key -m tool.exe -x other.minisig -t 'file:tool.exe' >/dev/null

export GNUPGHOME=$PWD/home
mkdir -m 700 "$GNUPGHOME"
trap 'gpgconf --kill gpg-agent' EXIT
run() { gpg --batch --quiet --yes --no-tty --passphrase '' --pinentry-mode loopback "$@" 2>>log; }
run --quick-generate-key 'Release <release@example.com>' ed25519 sign none
run --with-colons --list-keys | awk -F: '$1 == "fpr" { print $10; exit }' >release.fpr
run --armor --export >release.asc
sha256sum tool.exe newer.exe >SHA256SUMS
run --armor --output SHA256SUMS.asc --detach-sign SHA256SUMS
run --output CLEAR --clearsign SHA256SUMS
sed 's/^[0-9a-f]\{8\}/00000000/' CLEAR >CLEAR.changed

cat >ca.cnf <<'C'
[leaf]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = codeSigning
[tsa]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = critical, timeStamping
C
openssl req -x509 -newkey rsa:2048 -nodes -keyout root.key -out root.pem -days 3650 -subj '/O=Example/CN=Example Root' 2>>log
for who in leaf tsa; do
    openssl req -new -newkey rsa:2048 -nodes -keyout $who.key -out $who.csr -subj "/O=Example/CN=Example $who" 2>>log
    openssl x509 -req -in $who.csr -CA root.pem -CAkey root.key -CAcreateserial -days 3650 -extfile ca.cnf -extensions $who -out $who.pem 2>>log
done
python3 "$1/demo/program.py" plain.exe version=1.2.3
osslsigncode sign -certs leaf.pem -key leaf.key -h sha256 -TSA-certs tsa.pem -TSA-key tsa.key -in plain.exe -out signed.exe >>log
python3 - <<'P'
import zipfile
def pack(name, files):
    with zipfile.ZipFile(name, "w") as z:
        for path, of in files:
            z.write(of, path)
pack("good.zip", [("bin/a.exe", "signed.exe"), ("bin/b.exe", "signed.exe"), ("notes.txt", "release.fpr")])
pack("bad.zip", [("bin/a.exe", "signed.exe"), ("bin/b.exe", "plain.exe")])
P
