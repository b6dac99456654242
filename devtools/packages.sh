#!/bin/sh
# Programs of Debian's that the tests start: a browser, a database, Prometheus' checker of rules, Java, Node.js and their build
# tools. What is there already is left alone. Elsewhere than on Debian, and without root, nothing is installed: tests that need
# a missing program say so.
set -eu
wanted=""
command -v chromium >/dev/null || wanted="$wanted chromium"
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || wanted="$wanted postgresql"
command -v java >/dev/null || wanted="$wanted default-jdk-headless"
command -v mvn >/dev/null || wanted="$wanted maven"
command -v node >/dev/null || wanted="$wanted nodejs"
command -v npm >/dev/null || wanted="$wanted npm"
command -v ps >/dev/null || wanted="$wanted procps"
command -v wrk >/dev/null || wanted="$wanted wrk"
command -v promtool >/dev/null || wanted="$wanted prometheus"
[ -n "$wanted" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "not installed here, and some tests need them:$wanted"
    exit 0
fi
echo "installing$wanted"
apt-get update --quiet=2
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes --no-install-recommends $wanted >/dev/null
