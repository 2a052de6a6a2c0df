#!/bin/sh
# Removes what install.sh has listed, and the folders that it made where nothing else is in them. PREFIX and DESTDIR
# come from the environment.
root=$DESTDIR$PREFIX
manifest=$root/share/milcgpu/manifest
if [ ! -f "$manifest" ]; then
    echo "milcgpu: nothing to remove: there is no $manifest; give the PREFIX (and DESTDIR) of make install" >&2
    exit 1
fi
list=$(mktemp)
trap 'rm -f "$list"' EXIT
cp "$manifest" "$list"
sed -n 's/^f //p' "$list" | while read -r path; do
    rm -f "$root/$path" || echo "milcgpu: $root/$path stays" >&2
done
[ -f "$manifest" ] && exit 1
rm -rf "$root/share/milcgpu/python/milcgpu/__pycache__" # which Python has made
# Inner folders first.
sed -n 's/^d //p' "$list" | sort -r | while read -r path; do
    [ "$path" = . ] || rmdir "$root/$path" 2>/dev/null
done
grep -qx 'd \.' "$list" && rmdir "$root" 2>/dev/null
echo "milcgpu: removed from $root"
