// SPDX-License-Identifier: BSD-2-Clause
/*
 * reach.c - rank i of a node communicates with rank i modulo R of each other node only, over one
 * connection of each kind; and one rank of a node sends the heartbeats to each other node.
 *
 * The library prints its counts with DSM_STATS=json. Over TCP the kernel knows the connections as
 * well: the local end of a socket is the remote end at its peer.
 */
#include "common.h"

#include <dirent.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANKS 64
#define SOCKETS 512
#define PAGES 8 /* pages per rank */

/* a heartbeat is due after a quarter of lost_ms */
static uint64_t milliseconds = 6000, lost_ms = 6000;
static struct outside { /* shared outside libdsm */
	uint64_t counted;
	struct rank_of {
		/* its node, its index there, and the ranks of its node */
		uint64_t node, local, width;
		uint64_t heard;   /* messages that arrived while all were idle */
		uint64_t sockets; /* TCP connections */
		struct socket {
			uint64_t here, there;
		} socket[SOCKETS];
	} rank[RANKS];
} * out;

/* ---- everything that there is to use --------------------------------------------------------- */

static struct board {
	dsm_mutex_t mutex;
	dsm_rwlock_t rwlock;
	dsm_sem_t sem;
	dsm_atomic_t atomic;
	void *piece; /* heap memory, for the next rank to free */
} * boards;          /* one per rank, each in its own page */
static char *pages;

static struct board *board_of(int rank)
{
	return (struct board *)((char *)boards + (size_t)rank * 4096);
}

static void use_objects(int rank)
{
	struct board *b = board_of(rank);

	MUST(dsm_mutex_lock(&b->mutex));
	MUST(dsm_mutex_unlock(&b->mutex));
	MUST(dsm_rwlock_rdlock(&b->rwlock));
	MUST(dsm_rwlock_unlock(&b->rwlock));
	MUST(dsm_sem_post(&b->sem, 1));
	MUST(dsm_sem_wait(&b->sem));
	MUST(dsm_atomic_fetch_add(&b->atomic, 1, NULL));
}

/* Read and write a rank's pages: blocks whose home it is, and whose last writer may be any rank. */
static void use_pages(int rank)
{
	uint64_t *p = (uint64_t *)(pages + (size_t)rank * PAGES * 4096);
	size_t i;

	for (i = 0; i < PAGES; i++) {
		(void)load(p + i * 512 + (size_t)test_rank);
		store(p + i * 512 + (size_t)test_rank, 1);
	}
}

static void use_all(void)
{
	static char bulk[100000];
	struct board *mine = board_of(test_rank);
	struct dsm_stats stats;
	int64_t one = 1;
	int r, turn;

	MUST(dsm_mutex_init(&mine->mutex));
	MUST(dsm_rwlock_init(&mine->rwlock));
	MUST(dsm_sem_init(&mine->sem, 0));
	MUST(dsm_atomic_init(&mine->atomic, 0, 0));
	mine->piece = dsm_malloc(100);
	REQUIRE(mine->piece, "no memory");
	memset(pages + (size_t)test_rank * PAGES * 4096, 0, PAGES * 4096);
	test_sync();
	MUST(dsm_free(board_of((test_rank + 1) % test_size)->piece));
	for (turn = 0; turn < 2; turn++)
		for (r = 0; r < test_size; r++) {
			use_objects((test_rank + r) % test_size);
			use_pages((test_rank + r) % test_size);
			MUST(dsm_stats_get((test_rank + r) % test_size, NULL, &stats));
		}
	for (r = 0; r < test_size; r++)
		MUST(dsm_broadcast(bulk, sizeof(bulk), r));
	MUST(dsm_reduce(&one, DSM_INT64, DSM_SUM));
	REQUIRE(one == test_size, "the sum of ones is %ld", (long)one);
	test_sync();
}

/* ---- heartbeats ------------------------------------------------------------------------------ */

/* Wait, without messages, until all ranks have counted. */
static void await_all(void)
{
	static uint64_t all;

	all += (uint64_t)test_size;
	add(&out->counted);
	while (see(&out->counted) < all)
		test_nap(1000000);
}

static void part_heartbeats(void)
{
	struct rank_of *mine = &out->rank[test_rank];
	const uint64_t others = (uint64_t)dsm_nodes() - 1;
	struct dsm_stats before, after;
	uint64_t start, beats;

	use_all();
	test_nap(milliseconds * 100000); /* let operations in progress end */
	start = test_ns();
	before = test_stats(NULL);
	test_nap(milliseconds * 1000000);
	after = test_stats(NULL);
	beats = (test_ns() - start) / (lost_ms * 250000); /* at most; each has two ends */
	mine->heard = after.messages_in - before.messages_in;
	await_all();
	test_say("  in %lu ms rank 0 of %d nodes heard %lu messages", (unsigned long)milliseconds,
		 dsm_nodes(), (unsigned long)mine->heard);
	if (mine->local)
		REQUIRE(!mine->heard,
			"%lu messages came to place %lu of a node, where heartbeats go to place 0",
			(unsigned long)mine->heard, (unsigned long)mine->local);
	else
		REQUIRE(mine->heard >= others && mine->heard <= others * (beats + 2),
			"%lu messages came in %lu periods from %lu nodes",
			(unsigned long)mine->heard, (unsigned long)beats, (unsigned long)others);
	test_sync();
}

/* ---- connections ----------------------------------------------------------------------------- */

static bool talks(const struct rank_of *from, const struct rank_of *to)
{
	return from->node != to->node && from->local % to->width == to->local;
}

static bool is_mine(unsigned long inode)
{
	char path[300], to[64], name[64];
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	bool found = false;
	ssize_t n;

	REQUIRE(d, "/proc/self/fd: %m");
	snprintf(name, sizeof(name), "socket:[%lu]", inode);
	while (!found && (e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		n = readlink(path, to, sizeof(to) - 1);
		to[n > 0 ? n : 0] = 0;
		found = !strcmp(to, name);
	}
	closedir(d);
	return found;
}

#define TCP_ESTABLISHED 1

static uint64_t end_of(unsigned int address, unsigned int port)
{
	return (uint64_t)address << 16 | port;
}

static void list_sockets(void)
{
	struct rank_of *mine = &out->rank[test_rank];
	unsigned int here, here_port, there, there_port, state;
	FILE *f = fopen("/proc/net/tcp", "r");
	unsigned long inode;
	char line[512];

	REQUIRE(f, "/proc/net/tcp: %m");
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, " %*d: %x:%x %x:%x %x %*s %*s %*s %*u %*u %lu", &here, &here_port,
			   &there, &there_port, &state, &inode) != 6 ||
		    state != TCP_ESTABLISHED || !is_mine(inode))
			continue;
		REQUIRE(mine->sockets < SOCKETS, "too many sockets");
		mine->socket[mine->sockets++] =
			(struct socket){ end_of(here, here_port), end_of(there, there_port) };
	}
	fclose(f);
}

static unsigned int sockets_between(const struct rank_of *a, const struct rank_of *b)
{
	unsigned int n = 0;
	uint64_t i, k;

	for (i = 0; i < a->sockets; i++)
		for (k = 0; k < b->sockets; k++)
			n += a->socket[i].here == b->socket[k].there &&
				a->socket[i].there == b->socket[k].here;
	return n;
}

static void part_sockets(void)
{
	unsigned int pairs = 0, n;
	int r;

	use_all();
	list_sockets();
	test_sync();
	for (r = 0; r < test_size; r++) {
		const bool want = talks(&out->rank[test_rank], &out->rank[r]) ||
			talks(&out->rank[r], &out->rank[test_rank]);

		if (r == test_rank)
			continue;
		n = sockets_between(&out->rank[test_rank], &out->rank[r]);
		REQUIRE(want == (n > 0),
			"place %lu of node %lu has %u connections to place %lu of node %lu",
			(unsigned long)out->rank[test_rank].local,
			(unsigned long)out->rank[test_rank].node, n,
			(unsigned long)out->rank[r].local, (unsigned long)out->rank[r].node);
		pairs += want;
	}
	test_say("  rank 0 has connections to %u of %d ranks of %d nodes", pairs, test_size,
		 dsm_nodes());
	test_sync();
}

/* ---- what the statistics say ----------------------------------------------------------------- */

/*
 * Each rank has one end of each connection that it uses: to one rank of each other node. Over verbs
 * it also has those that ranks of larger nodes open to it.
 */
static void check_statistics(const char *json, int nodes)
{
	const uint64_t all = (uint64_t)test_size * (uint64_t)(nodes - 1);
	const char *at = strstr(json, "\"connections\": [");
	uint64_t ends = 0, most = 0, open;
	int r, q;

	REQUIRE(at, "the statistics say nothing of connections: %s", json);
	for (r = 0; r < test_size; r++)
		for (q = 0; q < test_size; q++)
			ends += talks(&out->rank[r], &out->rank[q]) ||
				talks(&out->rank[q], &out->rank[r]);
	for (at = strstr(at, "\"open\": "); at; at = strstr(at + 1, "\"open\": ")) {
		open = strtoull(at + strlen("\"open\": "), NULL, 10);
		REQUIRE(open <= ends, "%lu connections of a kind, where there may be %lu",
			(unsigned long)open, (unsigned long)ends);
		most = open > most ? open : most;
	}
	REQUIRE(most >= all, "%lu connections of a kind, where %lu were used", (unsigned long)most,
		(unsigned long)all);
	printf("  %lu ends of connections of a kind\n", (unsigned long)most);
}

static int said = -1; /* what libdsm has said: to it, that is stderr */

/* What libdsm has said goes to stderr after all, but for the statistics. */
static void pass_on(void)
{
	char line[65536];
	FILE *f = fdopen(said, "r");

	for (rewind(f); fgets(line, sizeof(line), f);)
		if (line[0] != '{')
			fputs(line, stderr);
	fclose(f);
}

/* libdsm prints to what stderr is in dsm_init(). */
static void join_and_listen(void)
{
	const int old = dup(STDERR_FILENO);

	said = memfd_create("reach", MFD_CLOEXEC);
	REQUIRE(said >= 0 && old >= 0 && dup2(said, STDERR_FILENO) >= 0, "%m");
	atexit(pass_on);
	test_join();
	REQUIRE(dup2(old, STDERR_FILENO) >= 0, "%m");
	close(old);
}

/* Rank 0 prints the counts in dsm_finalize(). */
static int end_with_statistics(void)
{
	static char text[65536];
	const int nodes = dsm_nodes();

	MUST(dsm_finalize());
	REQUIRE(pread(said, text, sizeof(text) - 1, 0) >= 0, "%m");
	if (!test_rank && !test_in_kernel()) /* the kernel module has its own connections */
		check_statistics(text, nodes);
	test_say("reach: ok");
	return 0;
}

static void settings(void)
{
	char lost[32];

	snprintf(lost, sizeof(lost), "%lu", (unsigned long)lost_ms);
	setenv("DSM_LOST_MS", lost, 1);
	setenv("DSM_STATS", "json", 1);
}

static void find_place(void)
{
	struct rank_of *mine = &out->rank[test_rank];
	int r;

	mine->node = (uint64_t)dsm_node();
	test_sync();
	for (r = 0; r < test_size; r++) {
		mine->local += r < test_rank && out->rank[r].node == mine->node;
		mine->width += out->rank[r].node == mine->node;
	}
	test_sync();
}

/* clang-format off */
static const struct test_part parts[] = {
	{ "heartbeats", part_heartbeats },
	{ "sockets", part_sockets },
};
/* clang-format on */

int main(int argc, char **argv)
{
	const struct test_option options[] = {
		{ "ms", "N", "milliseconds in which heartbeats are counted", &milliseconds },
		{ "lost", "N", "DSM_LOST_MS", &lost_ms },
	};
	const char *tls = getenv("UCX_TLS");

	test_options(argc, argv, "Which ranks talk to which, and who sends heartbeats.", options,
		     2);
	settings();
	join_and_listen();
	REQUIRE(test_size <= RANKS, "at most %d ranks", RANKS);
	out = test_outside(sizeof(*out));
	boards = test_region("boards", (size_t)test_size * 4096, 4096, DSM_HOME_FIRST_TOUCH, 0);
	pages = test_region("pages", (size_t)test_size * PAGES * 4096, 4096, DSM_HOME_FIRST_TOUCH,
			    0);
	find_place();
	test_parts(parts, tls && !strncmp(tls, "tcp", 3) ? 2 : 1);
	return end_with_statistics();
}
