# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# What the scripts share. A script starts with a comment that is its --help, sources this file, and
# finds itself in the top folder with $top set. Test runners source tests/common.sh, which adds to
# it.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
self=$(realpath "$0")
me=${self#"$top"/} # "tests/proc/run"; a script is called by its name alone
me=${me#scripts/}
cd "$top" || exit

# The first comment block after the licence line, without the marks.
usage() {
	sed -n '3,${/^#/!q;s/^#\( \|$\)//p}' "$self"
}

if [[ ${1:-} == --help || ${1:-} == -h ]]; then
	usage
	exit 0
fi

die() {
	printf '%s: %s\n' "$me" "$*" >&2
	exit 1
}

# problem TEXT: report one finding; finish: the verdict over all of them.
problems=0
problem() {
	printf '%s: %s\n' "$me" "$*" >&2
	problems=$((problems + 1))
}

finish() {
	if ((problems > 0)); then
		printf '%s: %d problem(s)\n' "$me" "$problems" >&2
		exit 1
	fi
	printf '%s: ok: %s\n' "$me" "$*"
}

# A folder that goes when the script ends.
temporary_folder() {
	scratch=$(mktemp -d "${TMPDIR:-/tmp}/dsm-${me//\//-}.XXXXXX")
	trap 'rm -rf "$scratch"' EXIT
}

# build VARIANT TARGET...: make, in parallel, whatever make called this script. Of one variant, one
# at a time: scripts/check builds ahead.
build() {
	local variant=$1
	shift
	mkdir -p build
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL \
		flock "build/$variant.lock" make -j"$(nproc)" VARIANT="$variant" "$@"
}

# The value of a variable of the Makefile.
make_value() {
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s VARIANT="${2:-release}" "print-$1"
}

# public_functions dsm|cqgroup|rshare: those that the header declares, one on a line.
public_functions() {
	sed -nE "s/^${1^^}_API [^(]*[ *]($1_[a-z0-9_]+)\\(.*/\\1/p" "libdsm/include/$1.h" | sort -u
}

# What mpirun needs to start more ranks than there are cores, also for root, with nothing but PMIx
# in use.
mpirun_environment() {
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
}
