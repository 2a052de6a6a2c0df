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
if ! rm -f "$manifest" 2>/dev/null; then
    echo "milcgpu: nothing is removed: you cannot write to $root/share/milcgpu; use sudo" >&2
    exit 1
fi
rm -rf "$root/share/milcgpu/python/milcgpu/__pycache__" # which Python has made
sed -n 's/^f //p' "$list" | while read -r path; do
    rm -f "$root/$path"
done
# Inner folders first.
sed -n 's/^d //p' "$list" | sort -r | while read -r path; do
    [ "$path" = . ] && continue
    rmdir "$root/$path" 2>/dev/null || [ ! -d "$root/$path" ] || echo "milcgpu: $root/$path stays: it has other files"
done
grep -qx 'd \.' "$list" && rmdir "$root" 2>/dev/null
sed -n 's/^f //p' "$list" | while read -r path; do [ ! -e "$root/$path" ] || exit 1; done || {
    echo "milcgpu: not all is removed from $root, for the reasons above" >&2
    exit 1
}
echo "milcgpu: removed from $root ($(grep -c '^f ' "$list") files)"
