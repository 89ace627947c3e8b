// SPDX-License-Identifier: GPL-2.0
/*
 * inject.c - messages made by a test, not by a peer (inject.h). From host_message() on, a message
 * takes the path of one that has arrived over a queue pair, with bottom halves off.
 */
#include <linux/capability.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "inject.h"
#include "../base/debug.h"
#include "host.h"
#include "../base/pool.h"
#include "rank.h"

#define BATCH 16u /* as cq.c takes completions */

/* Sent messages, until a test reads them. */
struct inject {
	spinlock_t lock; /* takes no lock inside; bottom halves are off */
	u32 head, tail;
	struct msg sent[INJECT_MAX];
};

/* The message whose step this processor reports. */
struct watched {
	struct rank *rank; /* NULL: nothing to report, or already reported */
	u16 src;
	u8 type;
	int err;
};
static DEFINE_PER_CPU(struct watched, watched);

void inject_stepped(struct rank *r, const struct msg *m, int err)
{
	struct watched *w = this_cpu_ptr(&watched);

	if (w->rank != r || w->src != m->src || w->type != m->type)
		return;
	w->rank = NULL;
	w->err = err;
}

static enum inject_outcome outcome_of(const struct watched *w)
{
	if (w->rank || w->err == -EAGAIN)
		return INJECT_LATER;
	return w->err == -ESTALE ? INJECT_STRAY : w->err ? INJECT_WRONG : INJECT_TAKEN;
}

void inject_sent(struct rank *r, const struct msg *m)
{
	struct inject *j = smp_load_acquire(&r->inject);

	if (!j)
		return;
	spin_lock(&j->lock);
	j->sent[j->tail++ % INJECT_MAX] = *m;
	if (j->tail - j->head > INJECT_MAX)
		j->head++;
	spin_unlock(&j->lock);
}

static u32 take_sent(struct inject *j, struct msg *out, u32 room)
{
	u32 n;

	spin_lock_bh(&j->lock);
	for (n = 0; n < room && j->head != j->tail; n++)
		out[n] = j->sent[j->head++ % INJECT_MAX];
	spin_unlock_bh(&j->lock);
	return n;
}

void inject_end(struct rank *r)
{
	kvfree(r->inject);
}

static void inject_one(struct rank *r, struct inject_message *i)
{
	struct watched *w = this_cpu_ptr(&watched);

	*w = (struct watched){ .rank = r, .src = i->peer, .type = i->imm ? MSG_DATA : i->m.type };
	debug_count(COUNT_RECEIVED, 1);
	if (i->imm) {
		host_landed(r, i->peer, i->imm);
		i->outcome = outcome_of(w);
		if (i->outcome == INJECT_LATER && test_bit(i->peer, r->gone))
			i->outcome = INJECT_REFUSED; /* the message reached no step */
	} else if (host_message(r, i->peer, i->class, &i->m)) {
		i->outcome = outcome_of(w);
	} else {
		i->outcome = INJECT_REFUSED;
		debug_count(COUNT_BAD, 1);
		rank_peer_lost(r, i->peer, -EPIPE);
	}
	w->rank = NULL;
}

static void inject_all(struct rank *r, struct inject_message *all, const struct inject_call *call)
{
	u32 i;

	pool_begin();
	for (i = 0; i < call->count; i++) {
		if (i % BATCH == BATCH - 1 || !pools_full()) {
			local_bh_enable();
			cond_resched();
			pool_begin();
		}
		all[i].outcome = INJECT_LOST;
		/* Only from peers on other hosts: those of this kernel have no connection. */
		if (all[i].peer >= r->size || READ_ONCE(r->here[all[i].peer]))
			continue;
		if (call->flags & INJECT_FORGIVE)
			clear_bit(all[i].peer, r->gone);
		if (!test_bit(all[i].peer, r->gone))
			inject_one(r, &all[i]);
	}
	local_bh_enable();
}

/* Allocated by the first call. */
static struct inject *inject_of(struct rank *r)
{
	struct inject *have = smp_load_acquire(&r->inject), *made;

	if (have)
		return have;
	made = kvzalloc(sizeof(*made), GFP_KERNEL);
	if (!made)
		return NULL;
	spin_lock_init(&made->lock);
	have = cmpxchg(&r->inject, NULL, made);
	if (have)
		kvfree(made);
	return have ? have : made;
}

/* Outside rank_enter(), as all calls that copy: memory of the process may be memory of a rank. */
static long inject(struct rank *r, struct inject_call *call)
{
	struct inject_message __user *messages = u64_to_user_ptr(call->messages);
	struct inject *j = inject_of(r);
	struct inject_message *all;
	struct msg *sent;
	long err = 0;

	sent = kvmalloc_array(call->room + 1, sizeof(*sent), GFP_KERNEL);
	if (!j || !sent) {
		kvfree(sent);
		return -ENOMEM;
	}
	all = vmemdup_user(messages, call->count * sizeof(*all));
	if (IS_ERR(all)) {
		kvfree(sent);
		return PTR_ERR(all);
	}
	if (rank_enter(r)) {
		inject_all(r, all, call);
		rank_exit(r);
	} else {
		err = -EIO;
	}
	call->nsent = take_sent(j, sent, call->room);
	if (!err &&
	    (copy_to_user(messages, all, call->count * sizeof(*all)) ||
	     copy_to_user(u64_to_user_ptr(call->sent), sent, call->nsent * sizeof(*sent))))
		err = -EFAULT;
	kvfree(all);
	kvfree(sent);
	return err;
}

long inject_ioctl(struct view *v, unsigned int cmd, void __user *arg)
{
	struct ctx *c = view_ctx(v);
	struct rank *r = c ? smp_load_acquire(&c->rank) : NULL;
	struct inject_call call;
	long err;

	if (cmd != DSM_IOC_INJECT)
		return -ENOTTY;
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (current->mm != v->mm)
		return -ENXIO;
	if (!r)
		return -ENOTCONN;
	if (copy_from_user(&call, arg, sizeof(call)))
		return -EFAULT;
	if (!call.count || call.count > INJECT_MAX || call.room > INJECT_MAX ||
	    call.flags & ~INJECT_FORGIVE)
		return -EINVAL;
	err = inject(r, &call);
	return err || !copy_to_user(arg, &call, sizeof(call)) ? err : -EFAULT;
}
