# Keys and signatures by minisign, laid into the folder that this runs in.
for who in release other; do
    minisign -G -W -p $who.pub -s $who.key >/dev/null
done
head -c 300000 /dev/urandom >app.exe
head -c 300000 /dev/urandom >second.exe
sign() { minisign -S -s "$1.key" -m "$2" -x "$3" -t "${4-build 42 file:$2}" >/dev/null; }
sign release app.exe good.minisig
sign other app.exe other.minisig
sign release second.exe second.minisig
minisign -S -l -s release.key -m app.exe -x legacy.minisig -t 'old' >/dev/null
head -c 299999 app.exe >short.exe
{ head -c 1000 app.exe; printf X; tail -c +1002 app.exe; } >changed.exe
cmp -s app.exe changed.exe && { head -c 1000 app.exe; printf Y; tail -c +1002 app.exe; } >changed.exe
sed '3s/42/43/' good.minisig >comment.minisig
sed '1s/:.*/: key of nobody/' good.minisig >untrusted.minisig
head -n 2 good.minisig >cut2.minisig
head -n 3 good.minisig >cut3.minisig
sed '2s/.....$//' good.minisig >cutline.minisig
sed '4s/.....$//' good.minisig >cutseal.minisig
{ cat good.minisig; echo more; } >long.minisig
sed 's/$/\r/' good.minisig >crlf.minisig
printf 'untrusted comment: signature from signify\n' >signify.minisig
sed -n 2p legacy.minisig >>signify.minisig
printf small >small
sign release small small.minisig
sign release app.exe named.minisig "$(printf 'timestamp:1\tfile:other.exe\thashed')"
sign release app.exe plain.minisig 'a profile: none'
sign release app.exe url.minisig 'signed file: see https://example.com/verify'
sign release app.exe words.minisig 'file: see the release notes'
sign release app.exe alone.minisig 'file:other.exe'
{ cat good.minisig; printf '\n \r\n'; } >blank.minisig
true
