# Keys and signatures by OpenBSD's signify, laid into the folder that this runs in.
for who in release other; do
    signify-openbsd -G -n -p $who.pub -s $who.sec
done
head -c 300000 /dev/urandom >app.exe
head -c 300000 /dev/urandom >second.exe
sign() { signify-openbsd -S -s "$1.sec" -m "$2" -x "$3"; }
sign release app.exe good.sig
sign other app.exe other.sig
sign release second.exe second.sig
signify-openbsd -S -e -s release.sec -m app.exe -x embedded.sig
printf 'some text\n' >text
signify-openbsd -S -e -s release.sec -m text -x embedded.sig
head -c 299999 app.exe >short.exe
{ head -c 1000 app.exe; printf X; tail -c +1002 app.exe; } >changed.exe
cmp -s app.exe changed.exe && { head -c 1000 app.exe; printf Y; tail -c +1002 app.exe; } >changed.exe
sed '2s/.....$//' good.sig >cut.sig
head -n 1 good.sig >cut1.sig
{ cat good.sig; printf 'trusted comment: x\n%s\n' "$(sed -n 2p good.sig)"; } >minisign.sig
truncate -s $(((256 << 20) + 1)) huge.iso
printf small >small
sign release small small.sig
true
