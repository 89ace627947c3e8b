// SPDX-License-Identifier: BSD-2-Clause
/*
 * remote.c - what dsm.ko promises against hosts that reach its queue pairs (docs/kernel.md, "Security"): those outside the job, which
 * lack its key, and peers, which have an rkey. Each test is an attack by verbs that must come to nothing; each looks first that
 * the right thing is accepted.
 *
 * Runs in a guest with the module loaded and a soft RDMA device, as root. Without arguments all tests run.
 */
#include "core/sync.h"
#include "tests/kmod/common_trust.h"
#include "tests/kmod/common_victim.h"

#include <stdio.h>
#include <unistd.h>

#define WRITTEN 100u /* a page of the victim that the peer may write */
#define READ_BACK 0u /* a page that the victim has written */

static unsigned int heard_messages;
static struct victim victim;
static struct peer *const peer = &victim.peer;

/* ---- sending and hearing -------------------------------------------------------------------- */

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
		peer_look(peer, heard);
		usleep(200);
	}
	return heard_messages >= n;
}

static struct msg of_type(uint8_t type)
{
	return (struct msg){ .version = WIRE_VERSION, .type = type, .src = peer->liar.me, .dst = peer->liar.target };
}

static struct msg make_object(void)
{
	struct msg m = of_type(MSG_SYNC);

	m.op = SOP_CREATE;
	m.aux = SYNC_ATOMIC;
	return m;
}

static struct msg ask_for_key(void)
{
	struct msg m = of_type(MSG_KEY_WANTED);

	m.object = READ_BACK << 1 | 1;
	return m;
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

/* A victim that has written a page, so that there are frames, and a key of them. */
static bool begin(void)
{
	heard_messages = 0;
	return victim_begin(&victim, 0, RLIM_INFINITY) &&
		expect(!victim_do(&victim, VICTIM_WRITE, READ_BACK), "the victim writes a page");
}

/* ---- hosts outside the job: the proof ---------------------------------------------------------- */

static const struct first {
	const char *what;
	struct msg (*message)(void);
	bool greet;   /* first, with a proof that is right elsewhere: */
	bool theirs;  /* that of the victim, of this queue pair; else the peer's, of another one */
	bool refused; /* false: with the right proof */
} firsts[] = {
	{ "an object, after the proof", make_object, true, false, false },
	{ "the key of frames, after the proof", ask_for_key, true, false, false },
	{ "an object, without the proof", make_object, false, false, true },
	{ "the key of frames, without the proof", ask_for_key, false, false, true },
	{ "an object, after the proof of another queue pair", make_object, true, false, true },
	{ "an object, after what the victim proves", make_object, true, true, true },
};

/*
 * Twice: who takes the first message for the proof, whatever it is, acts on the second. What is refused makes rank 1 lost, and has no
 * answer.
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
		ok = expect(hears(2, patience(20)), f->what) && expect(!victim_lost(&victim, 1), f->what);
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

/* ---- ... the number of the first packet ------------------------------------------------------- */

/*
 * Whether the module gets to see what is sent; -1: there is no victim. If the number is wrong, the device takes it for an old
 * packet, or for one after a lost one.
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
		peer_look(peer, heard);
		through = counter("messages_received") > before;
	}
	peer->psn = PSN_RIGHT;
	return through;
}

static bool number(void)
{
	static const enum peer_psn wrong[] = { PSN_ZERO, PSN_AHEAD, PSN_BEHIND };
	bool ok = expect(comes_through(PSN_RIGHT, patience(20)) == 1, "packets with the right numbers");
	unsigned int i;

	ok = victim_end(&victim) && ok;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		ok &= expect(comes_through(wrong[i], 0.3) == 0, "packets with wrong numbers are not accepted") &&
			expect(!victim_lost(&victim, 0) && !victim_lost(&victim, 1), "nobody is lost by them");
		ok = victim_end(&victim) && ok;
	}
	return ok;
}

/* ---- peers: what an rkey is good for ------------------------------------------------------------ */

/* One request by RDMA to a page of the victim: how it ends. */
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
		peer_look(peer, heard);
		usleep(200);
	}
	return peer->broken ? peer->status : peer->posted ? IBV_WC_GENERAL_ERR : IBV_WC_SUCCESS;
}

/* The peer has greeted, and has a key by which it can write. */
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
		expect(request(write, CLASS_BULK, WRITTEN) == IBV_WC_SUCCESS, "the peer writes by it");
}

/* For writing only. */
static bool key(void)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		const char *what;
	} others[] = {
		{ IBV_WR_RDMA_READ, "a peer reads frames" },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, "a peer exchanges words of frames" },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, "a peer adds to words of frames" },
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
		if (wr.opcode != IBV_WR_RDMA_READ) {
			wr.wr.atomic.compare_add = word;
			wr.wr.atomic.swap = word + 1;
		}
		ok &= expect(request(wr, CLASS_DATA, READ_BACK) != IBV_WC_SUCCESS, others[i].what) &&
			expect(victim_do(&victim, VICTIM_READ, READ_BACK) == word, others[i].what);
		ok = victim_end(&victim) && ok;
	}
	return ok;
}

/* The key ends before the frames are freed; between the two the module waits (test_slow_free), here until they are gone. */
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
			expect(request(write, CLASS_BULK, WRITTEN) != IBV_WC_SUCCESS,
			       "a peer writes to freed frames") &&
			expect(!victim_result(&victim), "FORGET");
	}
	ok = set_parameter("test_slow_free", "0") && ok;
	return victim_end(&victim) && ok;
}

int main(int argc, char **argv)
{
	static const struct attack attacks[] = {
		{ "proof", proof },
		{ "number", number },
		{ "key", key },
		{ "forgotten", forgotten },
	};

	return attacks_main(argc, argv, attacks, sizeof(attacks) / sizeof(attacks[0]));
}
