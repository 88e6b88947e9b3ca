#!/bin/sh
# Makes a bare Debian with debootstrap, and runs commands in its copy of this repository's last commit. Needs root.
#
#   sh tools/debian.sh RELEASE [COMMAND...]
#
# RELEASE is bookworm or trixie; without commands, it runs the two of the README, which takes half an hour.
# The system gets this computer's Go and module cache, and its settings for mirrors, proxies and certificates. Its
# mounts and processes have namespaces of their own, which end with this script. For each command, the script prints
# "debian: COMMAND: ok, 12 s" or "debian: COMMAND: status 1, 12 s"; it fails if one of them does.
set -eu
cd "$(dirname "$0")/.."

if [ -z "${SYSTEM_ROOT-}" ]; then
  SYSTEM_ROOT=$(mktemp -d)
  export SYSTEM_ROOT
  unshare --mount --pid --fork --kill-child sh tools/debian.sh "$@" &
  system=$!
  # A session of its own lets rm end although what started this script kills its process group.
  trap 'kill -KILL $system 2>/dev/null || true; setsid rm -rf --one-file-system "$SYSTEM_ROOT"' EXIT
  trap 'exit 130' INT TERM
  wait $system
  exit
fi

root=$SYSTEM_ROOT release=$1
shift
[ $# -gt 0 ] || set -- 'go tool mage demo' 'go tool mage test'
mount -t proc proc /proc # debootstrap and the commands must see the processes of this namespace only
mirror=$(apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
  sed -n 's/^Debian|Debian|//p' | head -n 1)
debootstrap --variant=minbase "$release" "$root" ${mirror:+"$mirror"}
chmod 755 "$root" # all users of the system must have access to its root
# Programs in the system can make mount namespaces only if its root is a mount point.
mount --bind "$root" "$root"

# The network's settings. ca-certificates, if installed later, includes the certificates in its new list.
mkdir -p "$root/etc/apt/apt.conf.d" "$root/etc/ssl/certs" "$root/usr/local/share/ca-certificates"
printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
for file in /etc/resolv.conf /etc/pip.conf /etc/ssl/certs/ca-certificates.crt /usr/local/share/ca-certificates/*.crt; do
  [ ! -f "$file" ] || cat "$file" >"$root$file"
done
apt-config dump 2>/dev/null | sed -n '/^Acquire::Changelogs/d; /^Acquire::/p' >"$root/etc/apt/apt.conf.d/90acquire"
{
  export -p | grep -iE '^export ([a-z]+_proxy|PIP_[a-z_]+|SSL_CERT_[a-z]+)=' || true
  for name in GONOPROXY GOSUMDB GONOSUMDB GOPRIVATE GOINSECURE GOFLAGS GOTOOLCHAIN; do
    echo "export $name='$(go env $name)'"
  done
  echo "export GOPROXY='file:///srv/modules/cache/download,$(go env GOPROXY)' HOME=/root"
  echo 'export PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
} >"$root/settings"

# show mounts a folder of this computer, read-only.
show() {
  mkdir -p "$root$2"
  mount --bind "$1" "$root$2"
  mount -o remount,bind,ro "$root$2"
}
show "$(go env GOROOT)" /usr/local/go
show "$(go env GOMODCACHE)" /srv/modules
git -c safe.directory='*' clone --quiet --depth 1 "file://$PWD" "$root/root/boardsmith"

mkdir -p "$root/proc" "$root/sys" "$root/dev/pts" "$root/dev/shm"
mount -t proc proc "$root/proc"
mount -t sysfs sys "$root/sys"
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 pts "$root/dev/pts"
mount -t tmpfs shm "$root/dev/shm"

failed=0
for command; do
  start=$(date +%s) result=ok
  env -i "$(command -v chroot)" "$root" /bin/sh -c ". /settings && cd /root/boardsmith && $command" 2>&1 ||
    result="status $?" failed=1
  echo "debian: $command: $result, $(($(date +%s) - start)) s"
done
exit $failed
