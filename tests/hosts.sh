# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Two hosts on this machine, for jobs of tests: host1 and host2 have a network, a name, IPC objects,
# an /etc/hosts and a boot identifier of their own, and share all other files. An mpirun on host1
# starts a daemon of its own on host2, as it would by ssh.

# hosts_up FOLDER: sets host1, which is put in front of a command to run it there, and by_rsh,
# settings for its mpirun. False where namespaces cannot be made. The hosts end with hosts_down, or
# with the shell.
host1=() by_rsh=() host_pids=()
hosts_up() {
	local i n pids=()
	((!EUID)) && command -v ip nsenter setpriv unshare >/dev/null || return
	printf '127.0.0.1 localhost\n10.77.0.1 host1\n10.77.0.2 host2\n' >"$1/hosts"
	for i in 1 2; do
		cat /proc/sys/kernel/random/uuid >"$1/boot$i"
		# shellcheck disable=SC2016
		setpriv --pdeathsig KILL unshare -n -u -i -m sh -c '
			mount --bind "$0/hosts" /etc/hosts && mount --bind "$0/boot$1" /proc/sys/kernel/random/boot_id && hostname "host$1" && ip link set lo up && >"$0/up$1" && exec sleep infinity
		' "$1" $i 2>"$1/host$i.log" &
		pids[i]=$!
	done
	host_pids=("${pids[@]}")
	for i in 1 2; do
		for n in {1..100}; do
			[[ ! -e $1/up$i ]] || break
			kill -0 "${pids[i]}" 2>/dev/null || break
			sleep 0.05
		done
		[[ -e $1/up$i ]] || { hosts_down; return 1; }
	done
	nsenter -t "${pids[1]}" -n ip link add eth0 type veth peer name eth0 netns "${pids[2]}" || { hosts_down; return 1; }
	for i in 1 2; do
		nsenter -t "${pids[i]}" -n sh -c "ip addr add 10.77.0.$i/24 dev eth0 && ip link set eth0 up" || { hosts_down; return 1; }
	done
	# The kernel reports a new link up to a second later, and UCX uses no interface before.
	for i in 1 2; do
		for n in {1..100}; do
			[[ $(nsenter -t "${pids[i]}" -n ip link show eth0) != *"state UP"* ]] || break
			sleep 0.05
		done
	done
	# HOST COMMAND: like ssh, it passes no environment on, and the command is for a shell.
	printf '#!/bin/sh\n[ "$1" = host2 ] || exit\nshift\nexec env -i "PATH=$PATH" nsenter -t %d -n -u -i -m sh -c "$*"\n' \
		"${pids[2]}" >"$1/rsh"
	chmod +x "$1/rsh"
	host1=(nsenter -t "${pids[1]}" -n -u -i -m)
	by_rsh=(OMPI_MCA_plm=rsh "OMPI_MCA_plm_rsh_agent=$1/rsh")
}

hosts_down() {
	kill "${host_pids[@]}" 2>/dev/null
	wait "${host_pids[@]}" 2>/dev/null
	host_pids=()
}
