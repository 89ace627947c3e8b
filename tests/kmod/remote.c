// SPDX-License-Identifier: BSD-2-Clause
/*
 * remote.c - guarantees of dsm.ko against hosts that reach its queue pairs (docs/kernel.md,
 * "Security"): hosts outside the job, which do not have its key, and peers, which have an rkey.
 * Each test is an attack by verbs that must fail. Each test first checks that the module accepts
 * the correct operation.
 *
 * Runs in a guest with the module loaded and a soft RDMA device, as root. Without arguments all
 * tests run.
 */
#include "core/sync.h"
#include "tests/kmod/common_trust.h"
#include "tests/kmod/common_victim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WRITTEN 100u /* a page of the victim that the peer may write */
#define READ_BACK 0u /* a page that the victim has written */

static unsigned int heard_messages;
static struct victim victim;
static struct peer *const peer = &victim.peer;

/* ---- sending and receiving ------------------------------------------------------------------ */

static void heard(struct peer *p, const struct msg *m)
{
	if (m->type == MSG_KEY) {
		p->rkey = m->aux;
		p->at = m->value;
	}
	heard_messages += m->type != MSG_HELLO;
}

static bool hears(unsigned int n, double seconds)
{
	const double end = now_s() + seconds;

	while (heard_messages < n && now_s() < end) {
		peer_poll(peer, heard);
		usleep(200);
	}
	return heard_messages >= n;
}

static struct msg of_type(uint8_t type)
{
	return (struct msg){ .version = WIRE_VERSION,
			     .type = type,
			     .src = peer->liar.me,
			     .dst = peer->liar.target };
}

static struct msg make_object(void)
{
	struct msg m = of_type(MSG_SYNC);

	m.op = SOP_CREATE;
	m.aux = SYNC_ATOMIC;
	return m;
}

static struct msg ask_for_key_of(uint32_t page)
{
	struct msg m = of_type(MSG_KEY_WANTED);

	m.object = page << 1 | 1;
	return m;
}

static struct msg ask_for_key(void)
{
	return ask_for_key_of(READ_BACK);
}

static struct msg greet(unsigned int class, bool theirs)
{
	struct msg m = of_type(MSG_HELLO);

	m.value = peer_proof(peer, victim.job, class, theirs);
	return m;
}

static void say(unsigned int class, const struct msg *m)
{
	peer_post(peer, class, m, sizeof(*m), NULL);
}

/* Make a victim that has written a page, so that it has frames and a key for them. */
static bool begin(void)
{
	heard_messages = 0;
	return victim_begin(&victim, 0, RLIM_INFINITY) &&
		expect(!victim_do(&victim, VICTIM_WRITE, READ_BACK), "the victim writes a page");
}

/* ---- hosts outside the job: the proof -------------------------------------------------------- */

static const struct first {
	const char *what;
	struct msg (*message)(void);
	bool greet; /* send a proof first, */
	/* the victim's proof of this queue pair; else the peer's proof of another queue pair */
	bool theirs;
	bool refused; /* false if the proof is the right one */
} firsts[] = {
	{ "an object, after the proof", make_object, true, false, false },
	{ "the key of frames, after the proof", ask_for_key, true, false, false },
	{ "an object, without the proof", make_object, false, false, true },
	{ "the key of frames, without the proof", ask_for_key, false, false, true },
	{ "an object, after the proof of another queue pair", make_object, true, false, true },
	{ "an object, after what the victim proves", make_object, true, true, true },
};

/*
 * The message is sent twice: a module that took any first message for the proof would act on the
 * second. If the module refuses the message, rank 1 is lost, and gets no answer.
 */
static bool is_first(const struct first *f)
{
	bool ok = begin();
	const struct msg m = f->message();
	const unsigned int class = wire_class(m.type), other = (class + 1) % CLASS_MAX;
	struct msg hello;

	if (ok && f->greet) {
		hello = greet(f->refused && !f->theirs ? other : class, f->theirs);
		say(class, &hello);
	}
	if (ok) {
		say(class, &m);
		say(class, &m);
	}
	if (ok && f->refused) {
		ok = expect(victim_loses(&victim, 1, heard), f->what);
		ok = expect(!hears(1, 0.1) && !peer->rkey, f->what) && ok;
	} else if (ok) {
		ok = expect(hears(2, patience(20)), f->what) &&
			expect(!victim_lost(&victim, 1), f->what);
	}
	return victim_end(&victim) && ok;
}

static bool proof(void)
{
	unsigned int i;
	bool ok = true;

	for (i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++)
		ok &= is_first(&firsts[i]);
	return ok;
}

/* ---- hosts outside the job: the number of the first packet ----------------------------------- */

/*
 * Does the module receive what is sent? -1: there is no victim. The device takes a packet with a
 * wrong number for an old one, or for one after a lost packet.
 */
static int comes_through(enum peer_psn psn, double seconds)
{
	long long before;
	bool through = false;
	struct msg m;
	double end;

	peer->psn = psn;
	if (!begin())
		return -1;
	before = counter("messages_received");
	m = greet(CLASS_SYNC, false);
	say(CLASS_SYNC, &m);
	m = make_object();
	say(CLASS_SYNC, &m);
	for (end = now_s() + seconds; !through && now_s() < end; usleep(200)) {
		peer_poll(peer, heard);
		through = counter("messages_received") > before;
	}
	peer->psn = PSN_RIGHT;
	return through;
}

static bool number(void)
{
	static const enum peer_psn wrong[] = { PSN_ZERO, PSN_AHEAD, PSN_BEHIND };
	bool ok = expect(comes_through(PSN_RIGHT, patience(20)) == 1,
			 "packets with the right numbers");
	unsigned int i;

	ok = victim_end(&victim) && ok;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		ok &= expect(comes_through(wrong[i], 0.3) == 0,
			     "packets with wrong numbers are not accepted") &&
			expect(!victim_lost(&victim, 0) && !victim_lost(&victim, 1),
			       "nobody is lost by them");
		ok = victim_end(&victim) && ok;
	}
	return ok;
}

/* ---- peers: what an rkey is good for --------------------------------------------------------- */

/* Send one RDMA request to a page of the victim, and return how it completes. */
static enum ibv_wc_status request(struct ibv_send_wr wr, unsigned int class, unsigned int page)
{
	const double end = now_s() + patience(20);

	if (wr.opcode == IBV_WR_RDMA_WRITE || wr.opcode == IBV_WR_RDMA_READ) {
		wr.wr.rdma.rkey = peer->rkey;
		wr.wr.rdma.remote_addr = peer->at + page * PAGE;
	} else {
		wr.wr.atomic.rkey = peer->rkey;
		wr.wr.atomic.remote_addr = peer->at + page * PAGE;
	}
	peer_post(peer, class, NULL, sizeof(uint64_t), &wr);
	while (peer->posted && !peer->broken && now_s() < end) {
		peer_poll(peer, heard);
		usleep(200);
	}
	return peer->broken ? peer->status : peer->posted ? IBV_WC_GENERAL_ERR : IBV_WC_SUCCESS;
}

/* A peer that has sent its proof, and has a key to write with. */
static bool begin_with_key(void)
{
	const struct ibv_send_wr write = { .opcode = IBV_WR_RDMA_WRITE };
	struct msg m;

	if (!begin())
		return false;
	m = ask_for_key();
	peer_greet(peer, victim.job, 0);
	say(wire_class(m.type), &m);
	return expect(hears(1, patience(20)) && peer->rkey, "the peer gets a key") &&
		expect(request(write, CLASS_DATA, WRITTEN) == IBV_WC_SUCCESS,
		       "the peer writes by it");
}

/*
 * The key of a page's 2 MiB comes with the place of the page in the window, and not with the
 * address of the frame in the kernel or in the memory of the victim's host.
 */
static bool address(void)
{
	const struct ibv_send_wr write = { .opcode = IBV_WR_RDMA_WRITE };
	bool ok = begin_with_key();
	uint32_t page;

	for (page = 0; ok && page < JOB_PAGES; page += DSM_UNIT_PAGES) {
		const struct msg m = ask_for_key_of(page);
		const unsigned int before = heard_messages;

		ok = expect(!victim_do(&victim, VICTIM_WRITE, page), "the victim writes a page");
		say(wire_class(m.type), &m);
		ok = ok && expect(hears(before + 1, patience(20)), "the peer gets a key");
		if (ok &&
		    !expect(peer->at < JOB_WINDOW,
			    "a key comes with an address of the victim's host")) {
			printf("  page %u, %#llx\n", page, (unsigned long long)peer->at);
			ok = false;
		}
		ok = ok &&
			expect(request(write, CLASS_DATA, WRITTEN) == IBV_WC_SUCCESS,
			       "the peer writes by it");
	}
	return victim_end(&victim) && ok;
}

/* For writing only, and over the class of blocks only. */
static bool key(void)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		unsigned int class;
		const char *what;
	} others[] = {
		{ IBV_WR_RDMA_READ, CLASS_DATA, "a peer reads frames" },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, CLASS_DATA, "a peer exchanges words of frames" },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, CLASS_DATA, "a peer adds to words of frames" },
		{ IBV_WR_RDMA_WRITE, CLASS_COHERENCE,
		  "a peer writes frames over the class of messages" },
		{ IBV_WR_RDMA_WRITE, CLASS_SYNC,
		  "a peer writes frames over the class of synchronisation" },
		{ IBV_WR_RDMA_WRITE, CLASS_BULK, "a peer writes frames over the bulk class" },
	};
	bool ok = true;
	unsigned int i;

	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct ibv_send_wr wr = { .opcode = others[i].opcode };
		uint64_t word;

		if (!begin_with_key()) {
			victim_end(&victim);
			return false;
		}
		word = victim_do(&victim, VICTIM_READ, READ_BACK);
		if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		    wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
			wr.wr.atomic.compare_add = word;
			wr.wr.atomic.swap = word + 1;
		}
		ok &= expect(request(wr, others[i].class, READ_BACK) != IBV_WC_SUCCESS,
			     others[i].what) &&
			expect(victim_do(&victim, VICTIM_READ, READ_BACK) == word, others[i].what);
		ok = victim_end(&victim) && ok;
	}
	return ok;
}

/*
 * The key must be invalid before the frames are freed. test_slow_free makes the module wait between
 * the two.
 */
static bool forgotten(void)
{
	const struct ibv_send_wr write = { .opcode = IBV_WR_RDMA_WRITE };
	bool ok = begin_with_key() && set_parameter("test_slow_free", "500");
	const double end = now_s() + patience(20);

	if (ok) {
		victim_order(&victim, VICTIM_FORGET, 0);
		while (counter("frames") && now_s() < end)
			;
		ok = expect(!counter("frames"), "frames are freed") &&
			expect(request(write, CLASS_DATA, WRITTEN) != IBV_WC_SUCCESS,
			       "a peer writes to freed frames") &&
			expect(!victim_result(&victim), "FORGET");
	}
	ok = set_parameter("test_slow_free", "0") && ok;
	return victim_end(&victim) && ok;
}

/* How many lines of the kernel log have the word. */
static unsigned int logged(const char *word)
{
	static char log[1 << 20];
	const char *at = log;
	unsigned int n = 0;
	int len = klogctl(3 /* SYSLOG_ACTION_READ_ALL */, log, sizeof(log) - 1);

	log[len > 0 ? len : 0] = 0;
	for (; (at = strstr(at, word)); at++)
		n++;
	return n;
}

static bool works(void)
{
	bool ok = begin();

	return victim_end(&victim) && ok;
}

/*
 * Does the device, which refuses `times` times to end a key, get no more frames to write to than it
 * had?
 */
static bool outlives(const char *times, unsigned int lines)
{
	const struct ibv_send_wr write = { .opcode = IBV_WR_RDMA_WRITE };
	const unsigned int before = logged("does not invalidate");
	long long frames;
	bool ok = begin_with_key() && set_parameter("test_fail_dereg", times);

	frames = counter("frames");
	ok = ok && expect(frames, "frames") &&
		expect(victim_do(&victim, VICTIM_FORGET, 0) == EIO, "FORGET is refused") &&
		expect(counter("frames") == frames, "frames of a key that has not ended stay") &&
		expect(victim_loses(&victim, 0, heard) && victim_lost(&victim, 0) == -EIO,
		       "the rank stops") &&
		expect(request(write, CLASS_DATA, WRITTEN) != IBV_WC_SUCCESS,
		       "a peer writes to them") &&
		expect(logged("does not invalidate") == before + lines, "one line");
	return ok;
}

/* Once the queue pairs are gone, the device ends the key. */
static bool late(void)
{
	bool ok = outlives("1", 1);

	ok = victim_end(&victim) && ok;
	return set_parameter("test_fail_dereg", "0") && ok && works();
}

/*
 * It never does. The frames and the module stay, and other ranks work. For the end of a guest: it
 * is not the same after this.
 */
static bool kept(void)
{
	const unsigned int before = logged("never freed");
	const double end = now_s() + patience(60);
	bool ok = outlives("1000000", 1);

	kill(victim.pid, SIGKILL);
	ok = expect(job_reap(&victim.pid, 1, 60), "the victim ends") && ok;
	victim.pid = 0;
	peer_end(peer);
	while (counter("contexts") && now_s() < end)
		usleep(1000);
	ok = expect(!counter("contexts"), "the context is gone") && ok;
	ok = expect(counter("frames") == frames_kept, "frames that are never freed are counted") &&
		ok;
	ok = set_parameter("test_fail_dereg", "0") && ok &&
		expect(logged("never freed") == before + 1, "one more line") &&
		expect(syscall(SYS_delete_module, "dsm", O_NONBLOCK) && errno == EWOULDBLOCK,
		       "the module stays");
	return ok && works();
}

/* ---- peers: answers of an object's home to a wait that is taken back ------------------------- */

/*
 * If an object is destroyed meanwhile, the home of a semaphore or a condition answers a wait and
 * SOP_CANCEL separately: it refuses SOP_CANCEL, perhaps before it answers the wait. An honest home
 * sends these two answers, so no rank may be lost. The call must end when both have come, and its
 * slot must be free then.
 */

#define WAITED_FOR (1u << 24 | 1) /* the object */
#define ROUNDS 20u                /* rounds per case, with one victim */

enum how {
	CANCELLED, /* by its thread */
	EARLY,     /* CANCELLED before "in line" has come */
	TIMED_OUT,
	LEFT,   /* its thread makes another call */
	KILLED, /* between the two answers */
};

static const struct wait {
	const char *what;
	uint8_t op;
	enum how how;
	bool limit;         /* a time limit */
	int16_t answers[2]; /* after SOP_CANCEL; -ETIMEDOUT comes alone */
	int16_t status;     /* expected status of the call */
} waits[] = {
	{ "a wait is refused, and SOP_CANCEL",
	  SOP_WAIT,
	  CANCELLED,
	  false,
	  { -EINVAL, -EINVAL },
	  -EINVAL },
	{ "a wait is granted, and SOP_CANCEL refused",
	  SOP_WAIT,
	  CANCELLED,
	  false,
	  { 0, -EINVAL },
	  0 },
	{ "SOP_CANCEL is refused, and a wait granted",
	  SOP_WAIT,
	  CANCELLED,
	  false,
	  { -EINVAL, 0 },
	  0 },
	{ "a wait is taken back", SOP_WAIT, CANCELLED, false, { -ETIMEDOUT }, -ETIMEDOUT },
	{ "the turn comes, SOP_CANCEL is refused", SOP_WAIT, CANCELLED, true, { 0, -EINVAL }, 0 },
	{ "SOP_CANCEL is refused, the turn comes", SOP_WAIT, CANCELLED, true, { -EINVAL, 0 }, 0 },
	{ "a condition, SOP_CANCEL is refused", SOP_ENQUEUE, CANCELLED, false, { -EINVAL, 0 }, 0 },
	{ "before \"in line\", the turn comes, SOP_CANCEL is refused",
	  SOP_WAIT,
	  EARLY,
	  true,
	  { 0, -EINVAL },
	  0 },
	{ "before \"in line\", SOP_CANCEL is refused, the turn comes",
	  SOP_WAIT,
	  EARLY,
	  true,
	  { -EINVAL, 0 },
	  0 },
	{ "before \"in line\", a condition is taken back",
	  SOP_ENQUEUE,
	  EARLY,
	  false,
	  { -ETIMEDOUT },
	  -ETIMEDOUT },
	{ "time is up, the turn comes, SOP_CANCEL is refused",
	  SOP_WAIT,
	  TIMED_OUT,
	  true,
	  { 0, -EINVAL },
	  0 },
	{ "time is up, SOP_CANCEL is refused, the turn comes",
	  SOP_WAIT,
	  TIMED_OUT,
	  true,
	  { -EINVAL, 0 },
	  0 },
	{ "time is up, a condition, SOP_CANCEL is refused",
	  SOP_ENQUEUE,
	  TIMED_OUT,
	  true,
	  { -EINVAL, 0 },
	  0 },
	{ "time is up", SOP_WAIT, TIMED_OUT, true, { -ETIMEDOUT }, -ETIMEDOUT },
	{ "a wait that is left is refused", SOP_WAIT, LEFT, false, { -EINVAL }, 0 },
	{ "a wait is left, the turn comes, SOP_CANCEL is refused",
	  SOP_WAIT,
	  LEFT,
	  true,
	  { 0, -EINVAL },
	  0 },
	{ "a wait is left, SOP_CANCEL is refused, the turn comes",
	  SOP_WAIT,
	  LEFT,
	  true,
	  { -EINVAL, 0 },
	  0 },
	{ "a thread is killed, a wait and SOP_CANCEL refused",
	  SOP_WAIT,
	  KILLED,
	  false,
	  { -EINVAL, -EINVAL },
	  0 },
	{ "a thread is killed, SOP_CANCEL refused, a wait granted",
	  SOP_WAIT,
	  KILLED,
	  false,
	  { -EINVAL, 0 },
	  0 },
	{ "a thread is killed, SOP_CANCEL refused, the turn comes",
	  SOP_WAIT,
	  KILLED,
	  true,
	  { -EINVAL, 0 },
	  0 },
};

static struct msg asked_for[4];
static unsigned int asked;

static void heard_request(struct peer *p, const struct msg *m)
{
	(void)p;
	if (m->type == MSG_SYNC && asked < sizeof(asked_for) / sizeof(asked_for[0]))
		asked_for[asked++] = *m;
}

/* Wait for message n of this wait; it must be that operation. */
static bool hears_request(unsigned int n, uint8_t op)
{
	const double end = now_s() + patience(20);

	while ((asked <= n || !peer_may_send(peer)) && !peer->broken && now_s() < end) {
		peer_poll(peer, heard_request);
		usleep(100);
	}
	return expect(asked > n && asked_for[n].op == op, "the next request");
}

static void answer_it(int16_t status, uint64_t value)
{
	struct msg m = of_type(MSG_REPLY);

	m.object = asked_for[0].object;
	m.req_node = asked_for[0].src;
	m.req_slot = asked_for[0].req_slot;
	m.count = status;
	m.value = value;
	say(CLASS_SYNC, &m);
}

/* Begin the wait, until SOP_CANCEL is sent. *child: the process to kill, if any. */
static bool begin_wait(const struct wait *w, pid_t *child)
{
	const struct dsm_ioc_call c = { .home = peer->liar.me,
					.object = WAITED_FOR,
					.op = w->op,
					.ns = !w->limit               ? 0
						: w->how == TIMED_OUT ? 1000000
								      : 60000000000,
					.hold = w->how == TIMED_OUT ? 0 : DSM_SYNC_POINT };
	const bool line = w->limit || w->op == SOP_ENQUEUE;

	asked = 0;
	victim_call(&victim, &c);
	victim_order(&victim, w->how == KILLED ? VICTIM_CHILD : VICTIM_CALL, 0);
	if (!hears_request(0, w->op))
		return false;
	if (w->how == EARLY)
		kill(victim.pid, SIGUSR1);
	else if (line)
		answer_it(0, 1);
	if (w->how == KILLED)
		*child = (pid_t)victim_result(&victim);
	else if (w->how != TIMED_OUT &&
		 !expect(victim_result(&victim) == EINPROGRESS,
			 "a thread that would sleep leaves its call"))
		return false;
	if (w->how == CANCELLED || w->how == EARLY)
		victim_order(&victim, VICTIM_CANCEL, 0);
	if (w->how == EARLY)
		answer_it(0, 1);
	if (w->how == LEFT && !expect(!victim_do(&victim, VICTIM_OTHER, 0), "another call"))
		return false;
	return (w->how == LEFT && !line) || hears_request(1, SOP_CANCEL);
}

/*
 * Send the answers. If the module is granted something that no thread waits for, it gives it back
 * by another operation.
 */
static bool end_wait(const struct wait *w, uint64_t gap_us, pid_t child)
{
	const bool both = w->answers[0] != -ETIMEDOUT && (w->how != LEFT || w->limit);

	answer_it(w->answers[0], 0);
	if (both) {
		usleep(gap_us);
		if (child)
			kill(child, SIGKILL);
		if (child &&
		    !expect(victim_do(&victim, VICTIM_REAP, 0) == (uint64_t)child,
			    "a process is killed"))
			return false;
		answer_it(w->answers[1], 0);
	}
	if (w->how == LEFT && both) {
		if (!hears_request(2, SOP_POST))
			return false;
		answer_it(-EINVAL, 0);
	}
	return w->how == LEFT || child ||
		expect((int64_t)victim_result(&victim) == w->status, "its status");
}

static bool is_waited(const struct wait *w)
{
	unsigned int i;

	for (i = 0; i < ROUNDS; i++) {
		pid_t child = 0;

		/* With a gap, the thread sees the first answer alone; without, both at once. */
		if (!expect(begin_wait(w, &child) && end_wait(w, i % 2 ? 0 : 20000, child),
			    w->what) ||
		    !expect(none_listed(LISTED_SLOT) && !listed(LISTED_CALL), "its slot is free") ||
		    !expect(!peer->broken && !victim_lost(&victim, peer->liar.me), w->what)) {
			printf("  %s, round %u\n", w->what, i);
			return false;
		}
	}
	return true;
}

static bool refusals(void)
{
	bool ok = true;
	unsigned int i;

	for (i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		if (begin()) {
			peer_greet(peer, victim.job, 0);
			ok &= is_waited(&waits[i]);
		} else {
			ok = false;
		}
		ok = victim_end(&victim) && ok;
	}
	return ok;
}

/* ---- peers: a peer that falls silent --------------------------------------------------------- */

/* The peer gets a page that no rank has touched. */
static bool owns(uint32_t page)
{
	struct msg m = of_type(MSG_WRITE_REQ);

	m.object = page << 1 | 1;
	m.req_node = peer->liar.me;
	say(wire_class(m.type), &m);
	if (!expect(hears(1, patience(20)), "a block for the peer"))
		return false;
	m.type = MSG_DONE;
	say(wire_class(m.type), &m);
	return true;
}

/*
 * Reset the peer's queue pairs: they accept no packet and send nothing, like a host without power.
 */
static bool falls_silent(void)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	const double end = now_s() + patience(20);
	bool ok = true;
	unsigned int c;

	while (peer->posted && !peer->broken && now_s() < end)
		peer_poll(peer, heard);
	for (c = 0; c < CLASS_MAX; c++)
		ok &= !ibv_modify_qp(peer->qp[c], &reset, IBV_QP_STATE);
	return expect(ok, "queue pairs that take nothing");
}

/* The victim is only ordered to write: it cannot answer while it waits for the page. */
static bool silence(void)
{
	const long long given_up = counter("ranks_given_up");
	bool ok = begin();
	double end;

	peer_greet(peer, victim.job, 0);
	ok = ok && owns(DSM_UNIT_PAGES) && falls_silent();
	victim_order(&victim, VICTIM_WRITE, DSM_UNIT_PAGES);
	for (end = now_s() + patience(20);
	     ok && counter("ranks_given_up") == given_up && now_s() < end;)
		usleep(1000);
	ok = ok && expect(counter("ranks_given_up") == given_up + 1, "a silent peer is given up");
	return victim_end(&victim) && ok;
}

int main(int argc, char **argv)
{
	static const struct attack attacks[] = {
		{ "proof", proof },       { "number", number },       { "address", address },
		{ "key", key },           { "forgotten", forgotten }, { "late", late },
		{ "refusals", refusals }, { "silence", silence },
	};
	static const struct attack last[] = { { "kept", kept } };

	if (argc > 1 && !strcmp(argv[1], last[0].name)) {
		frames_kept = DSM_UNIT_PAGES; /* of the only key */
		return attacks_main(argc, argv, last, 1);
	}
	return attacks_main(argc, argv, attacks, sizeof(attacks) / sizeof(attacks[0]));
}
