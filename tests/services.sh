#!/bin/sh
# What the tests use beside Python: PostgreSQL, Prometheus with promtool, strace, wrk, a C compiler with Python's headers,
# and the clients restic and s3cmd.
# Installs Debian packages where this user may; otherwise says what is missing and lets the tests that need it skip
# with their reason. In CI (CI set) PostgreSQL must be there: a gate that skips a database is none.
set -u

have() { command -v "$1" >/dev/null 2>&1; }

have_headers() {
  python3 -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' 2>/dev/null
}

missing_packages() {
  ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || printf ' postgresql'
  have prometheus && have promtool || printf ' prometheus'
  have strace || printf ' strace'
  have wrk || printf ' wrk'
  have cc || printf ' gcc libc6-dev'
  have_headers || printf ' python3-dev'
  have curl || printf ' curl'
  have restic || printf ' restic'
  have s3cmd || printf ' s3cmd'
}

# Package scripts must not start system services on a developer's machine.
install() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq || echo "apt-get update failed; trying with the package lists as they are"
  ours=0
  if [ ! -e /usr/sbin/policy-rc.d ]; then
    printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
    chmod +x /usr/sbin/policy-rc.d
    ours=1
  fi
  for package in "$@"; do  # one by one: a package that this release lacks does not keep the others out
    apt-get install -y -qq --no-install-recommends "$package" >/dev/null || echo "not installed: $package"
  done
  [ "$ours" = 0 ] || rm -f /usr/sbin/policy-rc.d
}

missing=$(missing_packages)
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ] && have apt-get; then
  # shellcheck disable=SC2086
  install $missing
  missing=$(missing_packages)
fi
[ -z "$missing" ] || echo "not installed, tests that need them will skip:$missing"
case "${CI:-}:$missing" in
  :*) exit 0 ;;
  *\ postgresql*) echo "CI needs PostgreSQL" >&2; exit 1 ;;
esac
