// SPDX-License-Identifier: BSD-2-Clause
/*
 * stranger.c - `stranger SECONDS UID PROGRAM`: calls every libdsm socket of the program's processes
 * as that user, and says nothing, nonsense, or nonsense with descriptors. Prints how often it got
 * through, and how often it was answered.
 */
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static int calls, answers;

static void say(int s, int what)
{
	int fds[3] = { 0, 1, 2 };
	char nonsense[32] = "let me in", control[CMSG_SPACE(sizeof(fds))] = "";
	struct iovec io = { nonsense, sizeof(nonsense) };
	struct msghdr m = { .msg_iov = &io,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	if (what == 0) /* nothing */
		return;
	if (what == 1) {
		m.msg_control = NULL;
		m.msg_controllen = 0;
	} else {
		*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(fds)),
				       .cmsg_level = SOL_SOCKET,
				       .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(c), fds, sizeof(fds));
	}
	sendmsg(s, &m, MSG_NOSIGNAL);
}

/* libdsm-UID-PID-RANK */
static int is_of(const char *name, const char *program)
{
	char path[64], command[512] = "";
	int pid, n = 0;
	FILE *f;

	if (sscanf(name, "libdsm-%*d-%d-", &pid) != 1)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	f = fopen(path, "r");
	if (f) {
		n = (int)fread(command, 1, sizeof(command) - 1, f);
		fclose(f);
	}
	return n > 0 && !strcmp(command, program);
}

static void call(const char *name)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	size_t n = strcspn(name, " \n");
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
	struct pollfd p = { .fd = s, .events = POLLIN };
	char answer[64];

	memcpy(sa.sun_path + 1, name, n);
	if (connect(s, (struct sockaddr *)&sa,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n))) {
		close(s);
		return;
	}
	say(s, calls++ % 3);
	/* Kept open for a while: dup2() to one of a few old numbers. */
	if (poll(&p, 1, 2) == 1 && recv(s, answer, sizeof(answer), 0) > 0)
		answers++;
	dup2(s, 100 + calls % 16);
	close(s);
}

int main(int argc, char **argv)
{
	time_t until = time(NULL) + (argc > 1 ? atoi(argv[1]) : 5);

	if (argc != 4 || (atoi(argv[2]) && setuid((uid_t)atoi(argv[2]))))
		return 77;
	while (time(NULL) < until) {
		FILE *f = fopen("/proc/net/unix", "r");
		char line[512], *at;

		while (f && fgets(line, sizeof(line), f))
			if ((at = strstr(line, "@libdsm-")) && is_of(at + 1, argv[3]))
				call(at + 1);
		if (f)
			fclose(f);
		usleep(1000);
	}
	printf("%d calls, %d answers\n", calls, answers);
	return 0;
}
