// SPDX-License-Identifier: GPL-2.0
/* job.c - ranks of a job find each other by the job's key, in one kernel or over RDMA. */
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "job.h"
#include "../base/test.h"
#include "../net/conn.h"
#include "rank.h"

TEST_PARAM(uint, test_pause_connect, 0,
	   "1: pause the next CONNECT while it holds the lock of its context");

TEST_PARAM(
	uint, test_keys_left, 0,
	"copies of keys that were found where none may be left: on the stack of KEY, in freed ranks");

#ifdef DSM_TEST
static siphash_key_t last_key; /* of KEY */

void job_check_wiped(const void *at, size_t size)
{
	if (memchr_inv(at, 0, size))
		WRITE_ONCE(test_keys_left, test_keys_left + 1);
}

/*
 * All of the stack, below and above this function. KASAN would report the frames that have ended.
 */
void __no_sanitize_address job_check_stack(void)
{
	const u64 *at = task_stack_page(current), *end = at + THREAD_SIZE / sizeof(*at) - 1;

	for (; at < end; at++)
		if (READ_ONCE(at[0]) == last_key.key[0] && READ_ONCE(at[1]) == last_key.key[1])
			WRITE_ONCE(test_keys_left, test_keys_left + 1);
}
#endif

/*
 * Compares in constant time. crypto_memneq() is in a separate module on some kernels, and insmod
 * does not load it.
 */
static bool same_job(const struct rank *r, const struct rank *other)
{
	return other->keyed &&
		!((other->key.key[0] ^ r->key.key[0]) | (other->key.key[1] ^ r->key.key[1]));
}

/*
 * Set the key once, before the rank connects. No other rank of this kernel may have the same number
 * and key.
 */
static int set_key(struct rank *r, const siphash_key_t *key)
{
	struct rank *other;

	if (r->keyed)
		return -EBUSY;
	r->key = *key;
	list_for_each_entry(other, &ranks, list)
		if (same_job(r, other) && other->me == r->me)
			return -EEXIST;
	r->job = (u32)siphash_1u64(0, key);
	r->keyed = true;
	return 0;
}

long job_key(struct view *v, void *in, void __user *arg)
{
	struct ctx *c = v->ctx;
	struct dsm_ioc_key *k = in;
	siphash_key_t key;
	long err;

	BUILD_BUG_ON(sizeof(k->key) != sizeof(key));
	memcpy(&key, k->key, sizeof(key));
	err = mutex_lock_killable(&c->lock);
	if (!err) {
		mutex_lock(&ranks_lock);
		err = set_key(c->rank, &key);
		mutex_unlock(&ranks_lock);
		mutex_unlock(&c->lock);
	}
#ifdef DSM_TEST
	last_key = key;
#endif
	memzero_explicit(&key, sizeof(key));
	return err;
}

/*
 * Connect to a rank of the same job, which has the same key. Keys may leak, so the rank must also
 * belong to the same user. Only an administrator, in the user namespace of the device, may join
 * another user's job.
 */
static int connect_here(struct rank *r, u16 peer)
{
	const bool admin = capable(CAP_SYS_ADMIN);
	struct rank *other;
	int err = -ENOENT;

	mutex_lock(&ranks_lock);
	list_for_each_entry(other, &ranks, list) {
		if (!same_job(r, other) || other->me != peer || other->size != r->size ||
		    other->dead)
			continue;
		if (!uid_eq(other->ctx->uid, r->ctx->uid) && !admin) {
			err = -EACCES;
			break;
		}
		kref_get(&other->ctx->ref);
		smp_store_release(&r->here[peer], other);
		err = 0;
		break;
	}
	mutex_unlock(&ranks_lock);
	return err;
}

long job_connect(struct view *v, void *in, void __user *arg)
{
	struct ctx *c = v->ctx;
	const struct dsm_ioc_connect *to = in;
	struct rank *r = c->rank;
	void *address = NULL;
	long err;

	/*
	 * Outside all locks, and outside rank_enter(): memory of the process may come as late as
	 * it, or another rank, likes.
	 */
	if (!(to->flags & DSM_CONNECT_HERE))
		address = memdup_user(u64_to_user_ptr(to->address), to->address_size);
	if (IS_ERR(address))
		return PTR_ERR(address);
	err = mutex_lock_killable(&c->lock);
	if (err)
		goto free;
	test_pause(test_pause_connect);
	if (!r->keyed) {
		err = -ENOKEY;
	} else if (r->here[to->rank]) {
		err = -EEXIST;
	} else if (to->flags & DSM_CONNECT_HERE) {
		err = READ_ONCE(r->dead) ? -EIO : connect_here(r, to->rank);
	} else if (!rank_enter(r)) {
		err = -EIO;
	} else if (!r->conn) {
		err = -ENODEV;
		rank_exit(r);
	} else {
		err = conn_connect(r->conn, to->rank, address, to->address_size);
		rank_exit(r);
	}
	mutex_unlock(&c->lock);
free:
	kfree(address);
	return err;
}
