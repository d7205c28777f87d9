# A checksum file and its signatures, laid into the folder that this runs in.
for who in release other; do
    minisign -G -W -p $who.pub -s $who.key >/dev/null
done
printf 'the file\n' >app.exe
sha256sum app.exe >sums
printf '%s  app.exe\n' "$(printf 'another file\n' | sha256sum | cut -d' ' -f1)" >changed
sed 's/app/setup/' sums >renamed
sign() { minisign -S -s "$1.key" -m "$2" -x "$3" -t "" >/dev/null; }
sign release sums sums.minisig
sign other sums other.minisig
sign release renamed renamed.minisig
