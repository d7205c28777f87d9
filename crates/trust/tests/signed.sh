#!/usr/bin/env bash
# Makes throw-away authorities and signs programs with them, well and badly; laid into the folder that this runs in. Needs
# openssl, osslsigncode and python3. Dates are fixed; keys and serial numbers are not. Nothing leaves the machine: timestamps
# are osslsigncode's own.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

for tool in openssl osslsigncode python3; do
    command -v "$tool" >/dev/null || { echo "$tool is not installed: tests/install-packages.sh installs it" >&2; exit 3; }
done

cat >ca.cnf <<'C'
[ca]
default_ca = here
[here]
new_certs_dir = .
database = index
serial = serial
unique_subject = no
policy = any
[any]
countryName = optional
organizationName = optional
commonName = supplied
C
: >index
echo 1000 >serial

# certificate NAME SUBJECT ISSUER FROM TO [EXTENSION...]; KEY and MD say how
certificate() {
    local name=$1 subject=$2 issuer=$3 from=$4 to=$5; shift 5
    # shellcheck disable=SC2086
    openssl req -new -newkey ${KEY:-rsa:2048} -nodes -keyout "$name.key" -subj "$subject" -out "$name.csr" 2>>log
    printf '%s\n' "$@" '[other]' 'O = Other' >"$name.ext"
    local by=(-cert "$issuer.pem" -keyfile "$issuer.key")
    [ "$issuer" != "$name" ] || by=(-selfsign -keyfile "$name.key")
    openssl ca -batch -config ca.cnf -in "$name.csr" -out "$name.pem" "${by[@]}" -startdate "$from" -enddate "$to" \
        -extfile "$name.ext" -notext -md "${MD:-sha256}" 2>>log
}

ca=('basicConstraints = critical, CA:TRUE' 'keyUsage = critical, keyCertSign, cRLSign' 'subjectKeyIdentifier = hash')
leaf=('basicConstraints = critical, CA:FALSE' 'keyUsage = critical, digitalSignature' 'subjectKeyIdentifier = hash')
code=("${leaf[@]}" 'extendedKeyUsage = codeSigning')
long=(20200101000000Z 20450101000000Z)
corp='/C=US/O=Example Corp/CN=Example Corp'

KEY=rsa:3072 certificate root '/C=US/O=Example Corp/CN=Example Root' root "${long[@]}" "${ca[@]}"
certificate ca '/C=US/O=Example Corp/CN=Example Code Signing CA' root "${long[@]}" "${ca[@]}"
certificate other-root '/C=US/O=Other/CN=Other Root' other-root "${long[@]}" "${ca[@]}"
certificate same-name '/C=US/O=Example Corp/CN=Example Root' same-name "${long[@]}" "${ca[@]}"
certificate tsa-root '/C=US/O=Example Time/CN=Example Time Root' tsa-root "${long[@]}" "${ca[@]}"
certificate tsa '/C=US/O=Example Time/CN=Example Time Stamping' tsa-root "${long[@]}" "${leaf[@]}" \
    'extendedKeyUsage = critical, timeStamping'
certificate other-tsa '/C=US/O=Other/CN=Other Time Stamping' other-root "${long[@]}" "${leaf[@]}" \
    'extendedKeyUsage = critical, timeStamping'
certificate old-tsa '/C=US/O=Example Time/CN=Example Time Stamping 2020' tsa-root 20200101000000Z 20210101000000Z "${leaf[@]}" \
    'extendedKeyUsage = critical, timeStamping'
certificate tsa-too '/C=US/O=Example Time/CN=Example Signs And Stamps' tsa-root "${long[@]}" "${leaf[@]}" \
    'extendedKeyUsage = critical, timeStamping, codeSigning'
certificate tsa-loose '/C=US/O=Example Time/CN=Example Stamps By The Way' tsa-root "${long[@]}" "${leaf[@]}" \
    'extendedKeyUsage = timeStamping'
certificate short-path '/C=US/O=Example Corp/CN=Example Last CA' root "${long[@]}" 'basicConstraints = critical, CA:TRUE, pathlen:0' \
    'keyUsage = critical, keyCertSign, cRLSign'
certificate too-deep '/C=US/O=Example Corp/CN=Example CA Too Deep' short-path "${long[@]}" "${ca[@]}"
certificate below-too-deep "$corp" too-deep "${long[@]}" "${code[@]}"
certificate no-certs '/C=US/O=Example Corp/CN=Example CA For Lists' root "${long[@]}" 'basicConstraints = critical, CA:TRUE' \
    'keyUsage = critical, cRLSign'
certificate below-no-certs "$corp" no-certs "${long[@]}" "${code[@]}"
KEY=rsa:3072 certificate leaf "$corp" ca "${long[@]}" "${code[@]}"
certificate short "$corp" ca 20260101000000Z 20260108000000Z "${code[@]}"
certificate future "$corp" ca 20400101000000Z 20450101000000Z "${code[@]}"
certificate lifetime "$corp" ca 20260101000000Z 20260108000000Z "${leaf[@]}" \
    'extendedKeyUsage = codeSigning, 1.3.6.1.4.1.311.10.3.13'
certificate durable '/C=US/CN=Rotating' ca "${long[@]}" "${leaf[@]}" \
    'extendedKeyUsage = codeSigning, 1.3.6.1.4.1.311.97.368317130.201670760.425010060.754072028'
certificate tls '/CN=www.example.com' ca "${long[@]}" "${leaf[@]}" 'extendedKeyUsage = serverAuth, clientAuth'
certificate silent "$corp" ca "${long[@]}" "${leaf[@]}"
certificate mail "$corp" ca "${long[@]}" "${leaf[@]}" 'extendedKeyUsage = emailProtection'
certificate encipher "$corp" ca "${long[@]}" 'basicConstraints = critical, CA:FALSE' 'keyUsage = critical, keyEncipherment' \
    'extendedKeyUsage = codeSigning'
certificate self "$corp" self "${long[@]}" "${code[@]}"
certificate other "$corp" other-root "${long[@]}" "${code[@]}"
certificate forged "$corp" same-name "${long[@]}" "${code[@]}"
KEY=rsa:1024 certificate small "$corp" ca "${long[@]}" "${code[@]}"
MD=sha1 certificate old-ca '/C=US/O=Example Corp/CN=Example SHA-1 CA' root "${long[@]}" "${ca[@]}"
certificate old "$corp" old-ca "${long[@]}" "${code[@]}"
certificate no-ca '/C=US/O=Example Corp/CN=Example Shop' ca "${long[@]}" "${code[@]}"
certificate below-no-ca "$corp" no-ca "${long[@]}" "${code[@]}"
KEY='ec -pkeyopt ec_paramgen_curve:P-256' certificate p256 "$corp" ca "${long[@]}" "${code[@]}"
KEY='ec -pkeyopt ec_paramgen_curve:P-384' certificate p384 "$corp" ca "${long[@]}" "${code[@]}"
# Authorities whose policies are critical, as those of Microsoft's timestamps were.
policy='certificatePolicies = critical, 1.3.6.1.4.1.311.46.3'
policed() { # NAME ISSUER [EXTENSION...]
    local name=$1 issuer=$2; shift 2
    certificate "$name" "/C=US/O=Example Corp/CN=Example CA, $name" "$issuer" "${long[@]}" "${ca[@]}" "$policy" "$@"
    certificate "below-$name" "$corp" "$name" "${long[@]}" "${code[@]}"
}
policed policed root
policed policed-tls root 'extendedKeyUsage = serverAuth'
policed policed-strange root '1.3.6.1.4.1.311.46.4 = critical, ASN1:NULL'
policed policed-bound root 'policyConstraints = requireExplicitPolicy:0'
policed policed-names root 'nameConstraints = permitted;dirName:other'
policed policed-forged same-name
certificate policed-deep '/C=US/O=Example Corp/CN=Example CA Below Policies' policed "${long[@]}" "${ca[@]}"
certificate below-policed-deep "$corp" policed-deep "${long[@]}" "${code[@]}"
MD=sha1 policed policed-old root
certificate policed-early '/C=US/O=Example Corp/CN=Example CA Of 2020' root 20200101000000Z 20210101000000Z "${ca[@]}" "$policy"
certificate below-policed-early "$corp" policed-early "${long[@]}" "${code[@]}"
certificate policed-time '/C=US/O=Example Time/CN=Example Time CA' tsa-root "${long[@]}" "${ca[@]}" "$policy"
certificate tsa-policed '/C=US/O=Example Time/CN=Example Stamps By Policy' policed-time "${long[@]}" "${leaf[@]}" \
    'extendedKeyUsage = critical, timeStamping'
cat policed-time.pem >>tsa-policed.pem
cp root.pem roots.pem
cat other-root.pem >>roots.pem
openssl x509 -in root.pem -outform DER -out root.der

python3 "$here/../../../tests/demo/program.py" plain.exe 'version=1.2.3'
python3 "$here/../../../tests/demo/program.py" another.exe 'version=1.2.4'

# sign NAME LEAF [OPTION...]: NAME.exe by LEAF; stamped at 2026-01-02 unless STAMP says otherwise
sign() {
    local name=$1 by=$2 chain=(); shift 2
    case $by in
    old) chain=(old-ca) ;;
    below-no-ca) chain=(no-ca ca) ;;
    below-too-deep) chain=(too-deep short-path) ;;
    below-no-certs) chain=(no-certs) ;;
    below-policed-deep) chain=(policed-deep policed) ;;
    below-policed*) chain=("${by#below-}") ;;
    other | self | forged) ;;
    *) chain=(ca) ;;
    esac
    cat "$by.pem" "${chain[@]/%/.pem}" >chain.pem
    local stamp=(-TSA-certs "${TSA:-tsa}.pem" -TSA-key "${TSA:-tsa}.key" -TSA-time 1767312000)
    [ "${STAMP-yes}" ] || stamp=()
    rm -f "$name.exe"
    osslsigncode sign -certs chain.pem -key "$by.key" "${stamp[@]}" -h "${HASH:-sha256}" "$@" \
        -in "${FROM:-plain}.exe" -out "$name.exe" >>log 2>&1
}

sign good leaf
HASH=sha384 sign sha384 leaf
HASH=sha512 sign sha512 leaf
sign p256 p256
HASH=sha384 sign p384 p384
STAMP='' sign unstamped leaf
sign stamped-short short
STAMP='' sign short short
STAMP='' sign future future
sign lifetime lifetime
sign durable durable
sign tls tls
sign silent silent
sign encipher encipher
sign self self
sign other other
sign forged forged
sign small small
sign old old
sign below-no-ca below-no-ca
sign below-too-deep below-too-deep
sign below-no-certs below-no-certs
sign ca ca
HASH=sha1 sign sha1 leaf
HASH=md5 STAMP='' sign md5 leaf
FROM=sha1 sign dual leaf -nest
FROM=sha1 sign dual-other other -nest
FROM=other sign dual-good-last leaf -nest
TSA=other-tsa sign stamped-by-other leaf
TSA=old-tsa sign stamped-late leaf
TSA=tsa-policed sign stamped-policed leaf
for name in '' -tls -strange -bound -names -forged -deep -old -early; do
    sign "policed$name" "below-policed$name"
done
FROM=another sign another-signed leaf

python3 "$here/tamper.py" good.exe another-signed.exe

printf 'the checksums of a release\n' >sums
printf 'the checksums of A release\n' >changed
cms() { # NAME LEAF [OPTION...]
    local name=$1 by=$2; shift 2
    openssl cms -sign -binary -in sums -signer "$by.pem" -inkey "$by.key" -certfile ca.pem -outform DER -out "$name.p7s" "$@" 2>>log
}
cms sums leaf
cms pem leaf -outform PEM
cms keyid leaf -keyid
cms p256-sums p256
cms sha512-sums leaf -md sha512
cms mail mail
cms pss leaf -keyopt rsa_padding_mode:pss -keyopt rsa_pss_saltlen:32
cms silent silent
cms short-sums short
cms future-sums future
cms tls-sums tls
cms other-sums other
cms self-sums self
cms noattr leaf -noattr
cms attached leaf -nodetach
cms sha1-sums leaf -md sha1
cms typed leaf -econtent_type 1.2.840.113549.1.9.16.1.4
cms nocerts leaf -nocerts
openssl cms -sign -binary -in sums -signer leaf.pem -inkey leaf.key -signer p256.pem -inkey p256.key -outform DER -out two.p7s 2>>log
cms streamed leaf -stream
cms streamed-pem leaf -stream -outform PEM
cms streamed-changed leaf -stream -in changed
head -c 700 sums.p7s >cut.p7s
{ cat sums.p7s; echo more; } >tail.p7s
: >empty.p7s

python3 "$here/countersign.py"
