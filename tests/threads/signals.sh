# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: signals that dsmrun gets.

# main() waits for each of the signals that it is given, in turn, or for ever; a thread of another
# rank runs.
program signalled <<'END'
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static sem_t runs;
static int caught[NSIG];
static void handler(int sig) { caught[sig]++; }
static void *other(void *arg)
{
	sem_post(&runs);
	for (;;)
		pause();
	return arg;
}
int main(int argc, char **argv)
{
	sigset_t all, none;
	pthread_t t;
	sem_init(&runs, 0, 0);
	pthread_create(&t, NULL, other, NULL);
	sem_wait(&runs);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &none);
	for (int i = 1; i < argc; i++)
		signal(atoi(argv[i]), handler);
	fprintf(stderr, "ready\n");
	for (int i = 1; i < argc; i++) {
		while (!caught[atoi(argv[i])])
			sigsuspend(&none);
		fprintf(stderr, "handled %d%s\n", i, caught[atoi(argv[i])] > 1 ? " twice" : "");
	}
	if (argc > 1)
		return 5;
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (;;)
		pause();
}
END

# The next signal goes to it when the program is ready, or has handled the one before.
cat >"$scratch/signals.py" <<'END'
import os, signal, subprocess, sys, time

def wait_for(text):
    until = time.monotonic() + 30
    while time.monotonic() < until and job.poll() is None and text not in open(sys.argv[1]).read():
        time.sleep(0.02)

# This test ignores some where it runs in the background, or by nohup(1), and a shell that ignores a
# signal cannot trap it.
def as_usual():
    for s in signal.SIGHUP, signal.SIGINT, signal.SIGQUIT:
        signal.signal(s, signal.SIG_DFL)

with open(sys.argv[1], "w") as log:
    job = subprocess.Popen(sys.argv[3:], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                           preexec_fn=as_usual)
for n, name in enumerate(sys.argv[2].split()):
    wait_for(f"handled {n}\n" if n else "ready\n")
    job.send_signal(signal.Signals["SIG" + name])
try:
    print(job.wait(30))
except subprocess.TimeoutExpired:
    print("still runs")
    os.killpg(job.pid, signal.SIGKILL)
END

# signalled NAME WAY EXPECTED SIGNALS [NUMBER]...: how dsmrun ends by them, as its parent sees it,
# and what the job prints.
signalled() {
	local name="$1, $2" way=$2 want=$3 signals=$4 got before=()
	shift 4
	is_chosen "$name" || return 0
	[[ $way != @(hosts|pair) ]] || before=("${on_hosts[@]}")
	# shellcheck disable=SC2086
	got=$(python3 "$scratch/signals.py" "$scratch/log" "$signals" "${before[@]}" \
		"${run[@]}" ${ways[$way]} "$scratch/${program:-signalled}" "$@" 2>&1)
	# A rank may see that mpirun has ended another one before it is ended itself, and say so.
	got+=" $(grep -E '^handled|^libdsm.*thread' "$scratch/log" |
		sed 's/thread [0-9]*/thread N/; s/from process [0-9]*/from process N/' | paste -sd '|')"
	same "$name" "$got" "$want"
}
for sig in HUP INT QUIT TERM; do
	signalled "signals: SIG$sig" one "-$(kill -l $sig) " $sig
	ended="-$(kill -l $sig) "
	signalled "signals: SIG$sig" node "${ended/-3/131}" $sig # bash, which dsmrun runs in, ignores SIGQUIT
done
signalled "signals: SIGTERM" two "-15 " TERM
signalled "signals: SIGINT is handled" one "5 handled 1" INT 2
signalled "signals: SIGINT is handled" node "5 handled 1" INT 2
for way in one node two; do
	signalled "signals: two that are handled" $way "5 handled 1|handled 2" "USR1 USR2" 10 12
	signalled "signals: SIGUSR1, then SIGTERM" $way "-15 handled 1" "USR1 TERM" 10 12
done
# All threads block SIGTERM; one of another rank waits for it.
program waits <<'END'
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
static sigset_t set;
static void *wait_for_it(void *arg)
{
	int sig = 0;
	(void)arg;
	fprintf(stderr, "ready\n");
	sigwait(&set, &sig);
	fprintf(stderr, "handled %d\n", sig);
	exit(6);
}
int main(void)
{
	pthread_t t;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	pthread_create(&t, NULL, wait_for_it, NULL);
	pthread_join(t, NULL);
	return 0;
}
END
for way in one node two; do
	program=waits signalled "signals: SIGTERM, sigwait() on another rank" $way "6 handled 15" TERM
done
for way in node two; do
	signalled "signals: SIGUSR1, no handler" $way \
		"138 libdsm: rank 0: thread N is ended by SIGUSR1 from process N. The job ends with status 138." USR1
done
