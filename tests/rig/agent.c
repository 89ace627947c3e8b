// SPDX-License-Identifier: BSD-2-Clause
/*
 * The first process of a guest: runs what the host asks for over a virtio port, and what mpirun in
 * another guest asks for over TCP, and passes output and exit status back. One thread, one poll
 * loop; nothing in it blocks.
 *
 *   agent serve PORT-DEVICE        as process 1
 *   agent rsh HOST WORD...         what mpirun calls as ssh: run the words by a shell on HOST
 *                                  (nodeN)
 *
 * A job is a process group of its own. It ends when its first process does; what that process wrote
 * is passed on before. When the side that asked goes away, its jobs get SIGTERM; so does a job by
 * FRAME_SIGNAL. What lives GRACE_MS after a signal that ends is killed. So is what the first
 * process, ended by such a signal, leaves behind in its session: mpirun gives each rank a process
 * group, and may end before it knows of all.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/*
 * What agent and host say to each other, over the virtio port of a guest and, between guests, over
 * TCP: frames of a header and `length` bytes. Integers are little-endian, as both sides are.
 * supervisor.py has the same layout.
 */
struct frame {
	uint32_t length;
	uint16_t job; /* chosen by who sends FRAME_RUN, unique among its running jobs */
	uint8_t type;
	uint8_t unused;
};
_Static_assert(sizeof(struct frame) == 8, "the layout is shared with Python");

enum {
	/* strings, each ended by NUL: folder, memlock limit, count of settings, settings, words */
	FRAME_RUN = 'R',
	FRAME_SIGNAL = 'S', /* one byte: sent to the job's process group */
	FRAME_HELLO = 'H',  /* agent: the guest is up */
	FRAME_OUT = 'O',    /* agent: standard output of the job */
	FRAME_ERR = 'E',    /* agent: standard error of the job */
	/* agent: one byte, the status as a shell has it; the job's last frame */
	FRAME_EXIT = 'X',
};

enum {
	FRAME_MAX = 1 << 20, /* longer is a broken stream */
	AGENT_PORT = 7007,   /* TCP, on the control network */
};

enum {
	CHANNELS = 64,
	JOBS = 64,
	CHUNK = 32768,
	BACKLOG = 1 << 20, /* bytes to send, over which the outputs of jobs are left unread */
	GRACE_MS = 10000,
};

struct buffer {
	char *data;
	size_t used, room;
};

/* The clients: channel 0 is the host, which stays; others are TCP connections. */
struct channel {
	int fd; /* -1: free */
	struct buffer in, out;
};

struct job {
	pid_t pid;   /* 0: free */
	int channel; /* -1: the one who asked is gone */
	uint16_t id;
	int out[2];      /* read ends of standard output and error, -1 at the end */
	int64_t kill_at; /* 0: no */
};

static struct channel channels[CHANNELS];
static struct job jobs[JOBS];

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static void append(struct buffer *b, const void *data, size_t n)
{
	if (b->used + n > b->room) {
		b->room = 2 * (b->used + n);
		b->data = realloc(b->data, b->room);
		if (!b->data)
			abort();
	}
	memcpy(b->data + b->used, data, n);
	b->used += n;
}

static void consume(struct buffer *b, size_t n)
{
	b->used -= n;
	memmove(b->data, b->data + n, b->used);
}

static void send_frame(int channel, uint16_t job, uint8_t type, const void *data, size_t n)
{
	struct frame f = { .length = n, .job = job, .type = type };

	if (channel < 0 || channels[channel].fd < 0)
		return;
	append(&channels[channel].out, &f, sizeof(f));
	append(&channels[channel].out, data, n);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void job_signal(struct job *job, int sig)
{
	kill(-job->pid, sig);
	if (!job->kill_at && (sig == SIGTERM || sig == SIGINT || sig == SIGHUP))
		job->kill_at = now_ms() + GRACE_MS;
}

/* Root may lock any amount: a limit is felt only without that capability. */
static void limit_memlock(const char *text)
{
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };

	if (*text) {
		limit.rlim_cur = limit.rlim_max = strtoull(text, NULL, 10);
		prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK);
		setenv("CLUSTER_MEMLOCK", text, 1);
	}
	setrlimit(RLIMIT_MEMLOCK, &limit);
}

static _Noreturn void job_exec(char **words, int out, int err)
{
	int count, null = open("/dev/null", O_RDONLY);
	sigset_t none;

	setsid();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	dup2(null, 0);
	dup2(out, 1);
	dup2(err, 2);
	limit_memlock(words[1]);
	count = atoi(words[2]);
	for (int i = 3; i < 3 + count; i++)
		putenv(words[i]);
	if (chdir(words[0]) && chdir("/"))
		_exit(126);
	execvp(words[3 + count], words + 3 + count);
	fprintf(stderr, "%s: %s\n", words[3 + count], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

/*
 * The strings of a FRAME_RUN as an array that ends with NULL; NULL when they are not what they
 * should be.
 */
static char **split(char *data, size_t n)
{
	size_t count = 0, i = 0;
	char **words;

	if (!n || data[n - 1])
		return NULL;
	for (size_t k = 0; k < n; k++)
		count += !data[k];
	words = calloc(count + 1, sizeof(*words));
	if (!words)
		return NULL;
	for (char *p = data; p < data + n; p += strlen(p) + 1)
		words[i++] = p;
	if (count >= 4 && atoi(words[2]) >= 0 && (size_t)atoi(words[2]) + 4 <= count)
		return words;
	free(words);
	return NULL;
}

static void refuse(int channel, uint16_t id, const char *why)
{
	uint8_t status = 126;

	send_frame(channel, id, FRAME_ERR, why, strlen(why));
	send_frame(channel, id, FRAME_EXIT, &status, 1);
}

static void job_start(int channel, uint16_t id, char *data, size_t n)
{
	char **words = split(data, n);
	struct job *job = NULL;
	int out[2], err[2];
	pid_t pid;

	for (int i = 0; i < JOBS && !job; i++)
		if (!jobs[i].pid)
			job = &jobs[i];
	if (!words || !job) {
		refuse(channel, id, words ? "agent: too many jobs\n" : "agent: no command\n");
		free(words);
		return;
	}
	if (pipe2(out, O_CLOEXEC))
		goto no_pipe;
	if (pipe2(err, O_CLOEXEC))
		goto no_second_pipe;
	pid = fork();
	if (!pid)
		job_exec(words, out[1], err[1]);
	close(out[1]);
	close(err[1]);
	free(words);
	if (pid < 0) {
		close(out[0]);
		close(err[0]);
		refuse(channel, id, "agent: cannot fork\n");
		return;
	}
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	fcntl(err[0], F_SETFL, O_NONBLOCK);
	*job = (struct job){ .pid = pid, .channel = channel, .id = id, .out = { out[0], err[0] } };
	return;

no_second_pipe:
	close(out[0]);
	close(out[1]);
no_pipe:
	free(words);
	refuse(channel, id, "agent: no pipe\n");
}

/* Pass on what is there; false at the end of it. */
static bool job_output(struct job *job, int which)
{
	static char chunk[CHUNK];
	ssize_t n = read(job->out[which], chunk, sizeof(chunk));

	if (n > 0)
		send_frame(job->channel, job->id, which ? FRAME_ERR : FRAME_OUT, chunk, n);
	else if (n == 0 || errno != EAGAIN) {
		close(job->out[which]);
		job->out[which] = -1;
	}
	return n > 0;
}

static void kill_session(pid_t session)
{
	DIR *all = opendir("/proc");
	const struct dirent *entry;
	pid_t pid;

	while (all && (entry = readdir(all))) {
		pid = atoi(entry->d_name);
		if (pid > 1 && getsid(pid) == session)
			kill(pid, SIGKILL);
	}
	if (all)
		closedir(all);
}

static void job_ended(struct job *job, int status)
{
	uint8_t code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);

	for (int which = 0; which < 2; which++) {
		while (job->out[which] >= 0 && job_output(job, which))
			;
		if (job->out[which] >= 0)
			close(job->out[which]);
	}
	if (job->kill_at)
		kill_session(job->pid);
	send_frame(job->channel, job->id, FRAME_EXIT, &code, 1);
	job->pid = 0;
}

/* All orphans of the guest come to process 1, too. */
static void reap(void)
{
	pid_t pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (int i = 0; i < JOBS; i++)
			if (jobs[i].pid == pid)
				job_ended(&jobs[i], status);
}

/* ---- channels -------------------------------------------------------------------------------- */

static void channel_close(int c)
{
	close(channels[c].fd);
	channels[c].fd = -1;
	channels[c].in.used = channels[c].out.used = 0;
	for (int i = 0; i < JOBS; i++)
		if (jobs[i].pid && jobs[i].channel == c) {
			jobs[i].channel = -1;
			job_signal(&jobs[i], SIGTERM);
		}
}

static void channel_accept(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return;
	for (int c = 1; c < CHANNELS; c++)
		if (channels[c].fd < 0) {
			channels[c].fd = fd;
			return;
		}
	close(fd);
}

static void obey(int c, const struct frame *f, char *data)
{
	if (f->type == FRAME_RUN)
		job_start(c, f->job, data, f->length);
	else if (f->type == FRAME_SIGNAL && f->length == 1)
		for (int i = 0; i < JOBS; i++)
			if (jobs[i].pid && jobs[i].channel == c && jobs[i].id == f->job)
				job_signal(&jobs[i], data[0]);
}

/* Read what is there and obey the frames that are complete; false when the other side is gone. */
static bool channel_read(int c)
{
	static char chunk[CHUNK];
	struct buffer *in = &channels[c].in;
	ssize_t n = read(channels[c].fd, chunk, sizeof(chunk));
	struct frame f;

	if (n <= 0)
		return n < 0 && errno == EAGAIN;
	append(in, chunk, n);
	while (in->used >= sizeof(f)) {
		memcpy(&f, in->data, sizeof(f));
		if (f.length > FRAME_MAX)
			return false;
		if (in->used < sizeof(f) + f.length)
			break;
		obey(c, &f, in->data + sizeof(f));
		consume(in, sizeof(f) + f.length);
	}
	return true;
}

static bool channel_write(int c)
{
	struct buffer *out = &channels[c].out;
	ssize_t n = write(channels[c].fd, out->data, out->used);

	if (n < 0)
		return errno == EAGAIN;
	consume(out, n);
	return true;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static int listen_on_network(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(AGENT_PORT) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 16))
		perror("agent: listen");
	return fd;
}

static int child_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Until the next job is to be killed, and kill those whose time has come. */
static int timeout(void)
{
	int64_t now = now_ms(), next = -1;

	for (int i = 0; i < JOBS; i++) {
		if (!jobs[i].pid || !jobs[i].kill_at)
			continue;
		if (jobs[i].kill_at <= now) {
			kill(-jobs[i].pid, SIGKILL);
			jobs[i].kill_at = now + GRACE_MS;
		}
		if (next < 0 || jobs[i].kill_at - now < next)
			next = jobs[i].kill_at - now;
	}
	return next;
}

static int poll_set(struct pollfd *set, int children, int listener)
{
	int n = 2;

	set[0] = (struct pollfd){ .fd = children, .events = POLLIN };
	set[1] = (struct pollfd){ .fd = listener, .events = POLLIN };
	for (int c = 0; c < CHANNELS; c++)
		set[n++] =
			(struct pollfd){ .fd = channels[c].fd,
					 .events = POLLIN | (channels[c].out.used ? POLLOUT : 0) };
	for (int i = 0; i < JOBS; i++)
		for (int which = 0; which < 2; which++) {
			bool stuck = jobs[i].channel >= 0 &&
				channels[jobs[i].channel].out.used > BACKLOG;

			set[n++] = (struct pollfd){ .fd = jobs[i].pid && !stuck ? jobs[i].out[which]
										: -1,
						    .events = POLLIN };
		}
	return n;
}

static void handle_channel(int c, short events)
{
	bool ok = true;

	/* The host's port reports a hang-up while nobody reads on the other side: it comes back. */
	if (events & POLLOUT)
		ok = channel_write(c);
	if (ok && (events & POLLIN || (events & (POLLHUP | POLLERR) && c > 0)))
		ok = channel_read(c);
	if (!ok && c > 0)
		channel_close(c);
}

static _Noreturn void serve(const char *device)
{
	static struct pollfd set[2 + CHANNELS + 2 * JOBS];
	int children = child_signals(), listener = listen_on_network();
	struct signalfd_siginfo info;

	for (int c = 0; c < CHANNELS; c++)
		channels[c].fd = -1;
	channels[0].fd = open(device, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (channels[0].fd < 0) {
		perror(device);
		exit(1);
	}
	send_frame(0, 0, FRAME_HELLO, "", 0);
	for (;;) {
		int wait = timeout(), n = poll_set(set, children, listener);

		if (poll(set, n, wait) < 0)
			continue;
		for (int c = 0; c < CHANNELS; c++)
			if (set[2 + c].revents && channels[c].fd == set[2 + c].fd)
				handle_channel(c, set[2 + c].revents);
		for (int i = 0; i < 2 * JOBS; i++)
			if (set[2 + CHANNELS + i].revents)
				job_output(&jobs[i / 2], i % 2);
		if (set[0].revents) {
			while (read(children, &info, sizeof(info)) > 0)
				;
			reap();
		}
		if (set[1].revents)
			channel_accept(listener);
	}
}

/* ---- the remote shell of mpirun -------------------------------------------------------------- */

static _Noreturn void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	exit(255);
}

static int connect_to(const char *host)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(AGENT_PORT) };
	int node, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (sscanf(host, "node%d", &node) != 1)
		fail("rsh: %s is no guest\n", host);
	a.sin_addr.s_addr = htonl((10 << 24) + (11 << 16) + node + 1);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)))
		fail("rsh: %s: %s\n", host, strerror(errno));
	return fd;
}

static bool read_all(int fd, void *data, size_t n)
{
	for (size_t got = 0; got < n;) {
		ssize_t k = read(fd, (char *)data + got, n - got);

		if (k <= 0)
			return false;
		got += k;
	}
	return true;
}

static _Noreturn void rsh(int count, char **words)
{
	struct buffer run = { 0 }, line = { 0 };
	const char *memlock = getenv("CLUSTER_MEMLOCK");
	char *folder = get_current_dir_name();
	int fd = connect_to(words[0]);
	static const char shell[] = "0\0/bin/sh\0-c";
	static char data[FRAME_MAX];
	struct frame f;

	for (int i = 1; i < count; i++) {
		append(&line, words[i], strlen(words[i]));
		append(&line, i + 1 < count ? " " : "", 1);
	}
	append(&run, folder, strlen(folder) + 1);
	append(&run, memlock ? memlock : "", memlock ? strlen(memlock) + 1 : 1);
	append(&run, shell, sizeof(shell));
	append(&run, line.data, line.used);
	f = (struct frame){ .length = run.used, .job = 1, .type = FRAME_RUN };
	if (write(fd, &f, sizeof(f)) != sizeof(f) ||
	    write(fd, run.data, run.used) != (ssize_t)run.used)
		fail("rsh: %s: %s\n", words[0], strerror(errno));
	while (read_all(fd, &f, sizeof(f)) && f.length <= FRAME_MAX &&
	       read_all(fd, data, f.length)) {
		if (f.type == FRAME_EXIT)
			exit((uint8_t)data[0]);
		if (write(f.type == FRAME_ERR ? 2 : 1, data, f.length) < 0)
			break;
	}
	fail("rsh: lost the connection to %s\n", words[0]);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "serve"))
		serve(argv[2]);
	if (argc > 3 && !strcmp(argv[1], "rsh"))
		rsh(argc - 2, argv + 2);
	fprintf(stderr, "usage: agent serve DEVICE | agent rsh HOST WORD...\n");
	return 2;
}
