# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: jobs on two hosts; with the programs of ends.sh and signals.sh.

program hostnames <<'END'
#include <dsm.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static char names[3][64];
static void *look(void *arg)
{
	gethostname(arg, 64);
	return arg;
}
int main(void)
{
	pthread_t t[3];
	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, look, names[i]);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	printf("%s %s %s, %d nodes\n", names[0], names[1], names[2], dsm_nodes());
	return 5;
}
END
# main() maps a file, and a thread on the other host adds its bytes.
program copied <<'END'
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
static const unsigned char *at;
static struct stat st;
static void *add(void *arg)
{
	long sum = 0;
	for (long i = 0; i < st.st_size; i++)
		sum += at[i];
	*(long *)arg = sum;
	return arg;
}
int main(int argc, char **argv)
{
	static long sum;
	pthread_t t;
	int fd = open(argv[1], O_RDWR);
	fstat(fd, &st);
	at = mmap(NULL, (size_t)st.st_size, argc > 2 ? PROT_READ | PROT_WRITE : PROT_READ, argc > 2 ? MAP_SHARED : MAP_PRIVATE, fd, 0);
	pthread_create(&t, NULL, add, &sum);
	pthread_join(t, NULL);
	printf("sum %ld\n", sum);
	return 0;
}
END
if ((${#host1[@]})); then
	# shellcheck disable=SC2206
	hosts=(${ways[hosts]})
	says "hosts: threads go to both" "host1 host2 host2, 2 nodes" 5 \
		"${on_hosts[@]}" "${run[@]}" "${hosts[@]}" "$scratch/hostnames"
	says "hosts: settings go to both" "host1 host2 host2, 4 nodes" 5 "${on_hosts[@]}" "${run[@]}" "${hosts[@]}" --nodes rank \
		"$scratch/hostnames"
	# shellcheck disable=SC2206
	two_hosts=("${on_hosts[@]}" "${run[@]}" ${ways[pair]})
	says "hosts: exit() on the other one" "handler of exit" 5 "${two_hosts[@]}" "$scratch/endings" exit 1
	says "hosts: SIGSEGV on the other one" "is ended by SIGSEGV at address (nil). The job ends with status 139." 139 \
		"${two_hosts[@]}" "$scratch/endings" SIGSEGV 1
	signalled "signals: SIGTERM" hosts "-15 " TERM
	signalled "signals: two that are handled" hosts "5 handled 1|handled 2" "USR1 USR2" 10 12
	program=waits signalled "signals: SIGTERM, sigwait() on another rank" pair "6 handled 15" TERM

	# What host2 has under the same name: the same file, a copy with the same time, one of
	# another time, and other contents.
	mkdir "$scratch/copied.d"
	for file in common copy later other; do
		head -c 20000 "$input" >"$scratch/copied.d/$file"
	done
	for file in copy later other; do
		cp -p "$scratch/copied.d/$file" "$scratch/copied.d/$file.2"
		[[ $file != later ]] || touch -d "now + 5 minutes" "$scratch/copied.d/$file.2"
		[[ $file != other ]] || printf X | dd of="$scratch/copied.d/$file.2" bs=1 seek=7777 conv=notrunc status=none
		[[ $file != other ]] || touch -r "$scratch/copied.d/$file" "$scratch/copied.d/$file.2"
		nsenter -t "${host_pids[1]}" -m mount --bind "$scratch/copied.d/$file.2" "$scratch/copied.d/$file"
	done
	sum=$(od -An -v -tu1 "$scratch/copied.d/common" | awk '{ for (i = 1; i <= NF; i++) s += $i } END { print s }')
	for file in common copy; do
		says "hosts: mapped, $file" "sum $sum" 0 "${two_hosts[@]}" "$scratch/copied" "$scratch/copied.d/$file"
	done
	for file in later other; do
		says "hosts: mapped, $file" "a mapping of what is another file here: $scratch/copied.d/$file" 139 \
			"${two_hosts[@]}" "$scratch/copied" "$scratch/copied.d/$file"
	done
	says "hosts: mapped, shared" "a shared, writable mapping, made on another host, of $scratch/copied.d/common" 139 \
		"${two_hosts[@]}" "$scratch/copied" "$scratch/copied.d/common" shared

	# How many ranks run on host1 and on host2.
	ranks_by_host() {
		local pid host count=(0 0)
		for pid in $(pgrep -f "^$scratch/signalled"); do
			for host in 0 1; do
				[[ "/proc/$pid/ns/uts" -ef "/proc/${host_pids[host]}/ns/uts" ]] && count[host]=$((count[host] + 1))
			done
		done
		echo "${count[*]}"
	}
	if is_chosen "hosts: no rank is left: SIGKILL"; then
		: >"$scratch/log"
		"${on_hosts[@]}" "${run[@]}" "${hosts[@]}" "$scratch/signalled" >"$scratch/log" 2>&1 </dev/null &
		for ((i = 0; i < 300; i++)); do
			! grep -q ready "$scratch/log" && kill -0 $! 2>/dev/null || break
			sleep 0.1
		done
		got=$(ranks_by_host)
		[[ $got == "2 2" ]] || show_end "$scratch/log"
		kill -KILL $!
		wait $! 2>/dev/null
		for ((i = 0; i < 50; i++)); do
			[[ $(ranks_by_host) != "0 0" ]] || break
			sleep 0.1
		done
		now=$(ranks_by_host)
		same "hosts: no rank is left: SIGKILL" "$got, then $now" "2 2, then 0 0"
		# The launcher, which has this folder in its command, may need its network for a
		# moment longer.
		for ((i = 0; i < 50; i++)); do
			pgrep -f "$scratch/" >/dev/null || break
			sleep 0.1
		done
		pgrep -f "$scratch/" | xargs -r kill -KILL
	fi
	hosts_down
fi
