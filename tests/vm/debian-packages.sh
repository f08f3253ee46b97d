#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by fetch-qemu and fetch-kernel: Debian packages from the mirror this machine already uses, into a folder of their own.
# Nothing is installed and apt's own lists stay untouched; apt checks the signatures with the keys that Debian installed.

# The folder that holds what the virtual machine needs; it may be emptied at any time.
vm_folder=${NEURON_VM_FOLDER:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/build/vm}
debian_keys=/usr/share/keyrings/debian-archive-keyring.gpg

# needs COMMAND...: says which of these commands are missing, and what installs them.
needs() {
  local command missing=""
  for command in "$@"; do command -v "$command" >/dev/null || missing="$missing $command"; done
  [ -z "$missing" ] && return 0
  echo "${0##*/}: this host has no$missing. Run packaging/install-build-dependencies vm as root (Debian 12)." >&2
  return 1
}

# mirror WORD: the first archive that apt is configured with and whose path has /WORD (debian, debian-security).
mirror() {
  local found
  found=$(
    {
      sed -n 's/^URIs:[[:space:]]*//p' /etc/apt/sources.list.d/*.sources 2>/dev/null | tr ' ' '\n'
      sed -n 's/^deb[[:space:]]\+\(\[[^]]*\][[:space:]]\+\)\?\([^[:space:]]*\).*/\2/p' /etc/apt/sources.list \
        /etc/apt/sources.list.d/*.list 2>/dev/null
    } | grep -E "/$1/?\$" | head -1
  )
  [ -n "$found" ] || return 1
  echo "${found%/}"
}

# open_archive SUITE...: a private apt folder whose indexes are fresh; sets apt_folder and apt_options.
# A suite named *-security comes from the security archive and is left out where none is configured.
open_archive() {
  local suite base
  [ -e "$debian_keys" ] || { echo "${0##*/}: $debian_keys is missing; install debian-archive-keyring" >&2; return 1; }
  if ! base=$(mirror debian); then
    echo "${0##*/}: apt is configured with no Debian mirror (a URI that ends in /debian); add one to /etc/apt/sources.list.d" >&2
    return 1
  fi
  mkdir -p "$vm_folder"
  apt_folder=$(mktemp -d "$vm_folder/apt.XXXXXX")
  mkdir -p "$apt_folder"/etc/apt/{preferences.d,apt.conf.d,trusted.gpg.d} "$apt_folder"/var/lib/apt/lists/partial \
    "$apt_folder"/var/cache/apt/archives/partial "$apt_folder"/var/lib/dpkg
  # An empty list of installed packages makes apt fetch the whole closure, the C library included.
  : >"$apt_folder/var/lib/dpkg/status"
  for suite in "$@"; do
    case "$suite" in
      *-security)
        mirror debian-security >/dev/null || continue
        echo "deb [signed-by=$debian_keys] $(mirror debian-security) $suite main"
        ;;
      *) echo "deb [signed-by=$debian_keys] $base $suite main" ;;
    esac
  done >"$apt_folder/etc/apt/sources.list"
  apt_options=(-q -o "Dir=$apt_folder" -o "Dir::State::status=$apt_folder/var/lib/dpkg/status" -o APT::Sandbox::User=root
    -o Debug::NoLocking=1 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30 -o Acquire::Languages=none
    -o APT::Install-Recommends=false -o Dpkg::Use-Pty=0)
  twice 120 apt-get "${apt_options[@]}" -o APT::Update::Error-Mode=any update
}

close_archive() { [ -z "${apt_folder:-}" ] || rm -rf "$apt_folder"; }

# twice SECONDS COMMAND...: runs it at most so long, and once more if it failed; shows its output only on failure.
twice() {
  local seconds=$1 log
  shift
  log=$(mktemp)
  if timeout "$seconds" "$@" >"$log" 2>&1 || { sleep 2; timeout "$seconds" "$@" >"$log" 2>&1; }; then
    rm -f "$log"
    return 0
  fi
  tail -20 "$log" >&2
  rm -f "$log"
  echo "${0##*/}: failed twice: ${*:1:1} ... ${*: -1}" >&2
  return 1
}

# unpack FOLDER: everything that was downloaded, into FOLDER.
unpack() {
  local package
  for package in "$apt_folder"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$1" || return 1; done
}
