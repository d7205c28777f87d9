# Keys and signatures by GnuPG, laid into the folder that this runs in. Times are faked, so nothing here grows old.
# The agent's socket is in its home, and may have a path of 107 bytes.
GNUPGHOME=$(mktemp -d)
export GNUPGHOME
trap 'gpgconf --kill gpg-agent; rm -rf "$GNUPGHOME"' EXIT
run() { gpg --batch --quiet --yes --no-tty --no-auto-check-trustdb --passphrase '' --pinentry-mode loopback "$@" 2>>log; }
on() { local time=$1; shift; run --faked-system-time "${time}T000000!" "$@"; }
# The fingerprint of the key, or of its n-th subkey, by a part of its name.
fpr() { run --with-colons --list-keys "=$1 <$1@example.com>" | awk -F: -v n="${2-1}" '$1 == "fpr" && !--n { print $10 }'; }
key() { on "$2" --quick-generate-key "$1 <$1@example.com>" "${4-ed25519}" "${5-sign}" "${3-none}"; fpr "$1" >"$1.fpr"; }
export_key() { run --armor --export "$(cat "$1.fpr")" >"${2-$1}.asc"; }
sign() { local who=$1 time=$2 file=$3 to=$4; shift 4; on "$time" -u "$(cat "$who.fpr")!" "$@" --output "$to" --detach-sign "$file"; }

head -c 300000 /dev/urandom >app.exe
head -c 300000 /dev/urandom >second.exe
head -c 299999 app.exe >short.exe
{ head -c 1000 app.exe; printf X; tail -c +1002 app.exe; } >changed.exe
cmp -s app.exe changed.exe && { head -c 1000 app.exe; printf Y; tail -c +1002 app.exe; } >changed.exe

key release 20200101 none
key other 20200101 none
key rsa 20200101 none rsa3072
key weak 20200101 none rsa1024
key expired 20200101 1y
key late 20200101 1y
key revoked 20200101 none
key retired 20200101 none

# A primary key that only certifies, with two signing subkeys and one that encrypts; the second subkey is revoked later.
key split 20200101 none ed25519 cert
for use in sign sign; do on 20200201 --quick-add-key "$(cat split.fpr)" ed25519 $use none; done
on 20200201 --quick-add-key "$(cat split.fpr)" cv25519 encr none
on 20200201 --quick-add-key "$(cat split.fpr)" ed25519 sign 1y
for n in 2 3 5; do fpr split $n >split$n.fpr; done

for who in release other rsa weak expired revoked retired; do
    sign $who 20200601 app.exe $who.sig
done
sign release 20200601 app.exe release.asc.sig --armor
sign release 20200601 second.exe second.sig --armor
sign release 20200601 app.exe text.sig --textmode
sign release 20200601 app.exe limited.sig --default-sig-expire 30d
sign release 20190601 app.exe early.sig --ignore-time-conflict --ignore-valid-from
sign release 20200601 app.exe notation.sig --sig-notation '!must@example.com=yes'
sign rsa 20200601 app.exe sha1.sig --digest-algo SHA1
sign rsa 20130601 app.exe oldsha1.sig --digest-algo SHA1 --ignore-time-conflict --ignore-valid-from
sign rsa 20200601 app.exe md5.sig --digest-algo MD5 --allow-weak-digest-algos
for n in 2 3 5; do sign split$n 20200601 app.exe split$n.sig; done
cat other.sig release.sig >two.sig
cat release.sig rsa.sig >both.sig
sign rsa 20200601 second.exe rsa.second.sig
cat release.sig rsa.second.sig >onebad.sig
sign other 20200601 app.exe other.asc.sig --armor
cat other.asc.sig release.asc.sig >two.asc.sig
head -c 60 release.sig >cut.sig
head -n 4 release.asc.sig >cut.asc.sig
sed '4s/.....$//' release.asc.sig >torn.asc.sig
on 20200601 -u "$(cat release.fpr)" --output message.sig --armor --sign app.exe

# The late key is prolonged where it signs, not where it is pinned.
export_key late
on 20201201 --quick-set-expire "$(cat late.fpr)" 9y
sign late 20220601 app.exe late.sig

# Revocations: one without a reason, one that says retired and is over SHA-1, one of a subkey.
sed 's/^:---/---/' "$GNUPGHOME/openpgp-revocs.d/$(cat revoked.fpr).rev" >revoked.rev
run --import revoked.rev
printf 'y\n3\ngone\n\ny\n' | gpg --no-tty --quiet --pinentry-mode loopback --passphrase '' --command-fd 0 \
    --cert-digest-algo SHA1 --faked-system-time 20230301T000000! --output retired.rev --gen-revoke "$(cat retired.fpr)" 2>>log
run --import retired.rev
printf 'key 2\nrevkey\ny\n0\n\ny\nsave\n' | gpg --no-tty --quiet --pinentry-mode loopback --passphrase '' --command-fd 0 \
    --faked-system-time 20230101T000000! --edit-key "$(cat split.fpr)" 2>>log

for who in release other rsa weak expired revoked retired split; do export_key $who; done
run --export "$(cat release.fpr)" >release.gpg
cat release.asc other.asc >keys.asc
run --armor --export-secret-keys "$(cat other.fpr)" >secret.asc

# A key all of whose words about itself are over SHA-1.
on 20200101 --cert-digest-algo SHA1 --quick-generate-key 'old <old@example.com>' rsa2048 sign none
fpr old >old.fpr
export_key old

# A key on a curve that GnuPG has and winimg does not, and one on a curve that both have with such a subkey.
key brainpool 20200101 none brainpoolP256r1
key mixed 20200101 none nistp256 cert
on 20200201 --quick-add-key "$(cat mixed.fpr)" brainpoolP384r1/ecdsa sign none
on 20200201 --quick-add-key "$(cat mixed.fpr)" nistp384/ecdsa sign none
for n in 2 3; do fpr mixed $n >mixed$n.fpr; sign mixed$n 20200601 app.exe mixed$n.sig; done
for who in brainpool mixed; do export_key $who; done
# The same file with the line ends of Windows.
sed 's/$/\r/' release.asc >release-crlf.asc

# Clearsigned checksum files.
hex=$(sha256sum app.exe | cut -d' ' -f1)
printf '%s  app.exe\n- dashed\t \n# end\n' "$hex" | sed 2d >sums
printf '%s  app.exe\n# - dashed\n-# not a list\n# end  \n' "$hex" >text
clear() { on 20200601 -u "$(cat "$1.fpr")" --digest-algo "${4-SHA512}" --output "$3" --clearsign "$2"; }
clear release sums clear.asc
clear release text dashed.asc
clear other sums clearother.asc
clear rsa sums clearsha1.asc SHA1
sed "s/^$hex/$(sha256sum second.exe | cut -d' ' -f1)/" clear.asc >clearchanged.asc
{ echo "$hex  evil.exe"; cat clear.asc; } >clearbefore.asc
{ cat clear.asc; echo "$hex  evil.exe"; } >clearafter.asc
sed "s/^Hash:.*/&\n$hex  evil.exe/" clear.asc >clearheader.asc
head -n 6 clear.asc >clearcut.asc
sed 's/$/\r/' clear.asc >clearcrlf.asc
printf '%s  app.exe\n' "$hex" >unsigned
printf small >small
sign release 20200601 small small.sig
# The other key after it got a subkey, which signs from then on.
on 20200301 --quick-add-key "$(cat other.fpr)" ed25519 sign none
export_key other other-later
true
