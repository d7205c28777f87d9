# Keys and signatures as `cosign sign-blob --key` makes them, by openssl, laid into the folder that this runs in.
ec() { openssl ecparam -name "$2" -genkey -noout -out "$1.key"; }
ec release prime256v1
ec other prime256v1
ec p384 secp384r1
ec p521 secp521r1
openssl genrsa -out rsa.key 2048 2>/dev/null
openssl genrsa -out short.key 1024 2>/dev/null
openssl genpkey -algorithm ed25519 -out ed.key
for key in *.key; do
    openssl pkey -in "$key" -pubout -out "${key%.key}.pub"
done
openssl req -x509 -key release.key -subj /CN=x -out cert.pem 2>/dev/null
head -c 300000 /dev/urandom >app.exe
head -c 300000 /dev/urandom >second.exe
sign() { openssl dgst "-${4-sha256}" -sign "$1.key" "$2" >"$3.der"; base64 -w0 "$3.der" >"$3"; }
sign release app.exe good.sig
sign other app.exe other.sig
sign release second.exe second.sig
sign p384 app.exe p384.sig
sign p384 app.exe p384.384.sig sha384
sign rsa app.exe rsa.sig
sign release app.exe sha1.sig sha1
openssl pkeyutl -sign -inkey ed.key -rawin -in app.exe | base64 -w0 >ed.sig
head -c 299999 app.exe >short.exe
{ head -c 1000 app.exe; printf X; tail -c +1002 app.exe; } >changed.exe
cmp -s app.exe changed.exe && { head -c 1000 app.exe; printf Y; tail -c +1002 app.exe; } >changed.exe
head -c 40 good.sig >cut.sig
head -c 41 good.sig >cutline.sig
fold -w 64 good.sig >folded.sig
# What `cosign sign-blob --key --tlog-upload=false --bundle` writes.
hint() { openssl pkey -pubin -in "$1.pub" -outform der | openssl dgst -sha256 -binary | base64 -w0; }
digest() { openssl dgst -sha256 -binary "$1" | base64 -w0; }
bundle() {
    cat <<END
{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"publicKey":{"hint":"$1"}},
"messageSignature":{"messageDigest":{"algorithm":"${4-SHA2_256}","digest":"$2"},"signature":"$3"}}
END
}
bundle "$(hint release)" "$(digest app.exe)" "$(cat good.sig)" >good.json
bundle "" "$(digest app.exe)" "$(cat good.sig)" >nohint.json
bundle "$(hint other)" "$(digest app.exe)" "$(cat good.sig)" >wronghint.json
bundle "$(hint other)" "$(digest app.exe)" "$(cat other.sig)" >other.json
bundle "$(hint release)" "$(digest app.exe)" "$(cat other.sig)" >liar.json
bundle "$(hint release)" "$(digest app.exe)" "$(cat second.sig)" >second.json
bundle "$(hint release)" "$(digest app.exe)" "$(cat good.sig)" SHA3_256 >sha3.json
bundle "$(hint p384)" "$(openssl dgst -sha384 -binary app.exe | base64 -w0)" "$(cat p384.384.sig)" SHA2_384 >p384.json
# cosign 3 writes an empty digest for an Ed25519 key.
bundle "$(hint ed)" "" "$(cat ed.sig)" | sed 's/"messageDigest":{[^}]*}/"messageDigest":{}/' >ed.json
head -c 200 good.json >cut.json
cat >keyless.json <<END
{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"certificate":{"rawBytes":"$(openssl x509 -in cert.pem -outform der | base64 -w0)"}},
"messageSignature":{"messageDigest":{"algorithm":"SHA2_256","digest":"$(digest app.exe)"},"signature":"$(cat good.sig)"}}
END
cat >attestation.json <<END
{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{"publicKey":{"hint":"$(hint release)"}},
"dsseEnvelope":{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[{"sig":"$(cat good.sig)","keyid":""}]}}
END
printf '{"base64Signature":"%s","cert":"","rekorBundle":null}' "$(cat good.sig)" >old.json
printf '{"base64Signature":"%s","cert":"%s"}' "$(cat good.sig)" "$(base64 -w0 cert.pem)" >oldkeyless.json
true
