// SPDX-License-Identifier: GPL-2.0
/*
 * account.c - accounting: what contexts use, and which user is charged.
 *
 * Frames are locked memory of the user whose process created the window, whichever process of the
 * node uses them. The same user is charged for all other memory that the module allocates for the
 * context, also on behalf of its peers: tables, the state of the protocol, keys, messages that
 * wait. The first FREE_PAGES of it are free; a job of usual size needs no more. The limit on the
 * contexts of a user bounds the free memory: all users of a namespace count as its owner. An open
 * file counts as a context. Once it has created a window the context counts instead, because it may
 * outlive the file. What processes and workers allocate is also charged to the memory cgroup of the
 * process that created the window.
 */
#include <linux/capability.h>
#include <linux/list.h>
#include <linux/memcontrol.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/sched/user.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "account.h"
#include "debug.h"

#define FREE_PAGES ((long)((8ul << 20) >> PAGE_SHIFT))

static unsigned int max_contexts = 128, max_pollers = 64;
module_param(max_contexts, uint, 0600);
MODULE_PARM_DESC(max_contexts, "open files of a user without CAP_SYS_RESOURCE");
module_param(max_pollers, uint, 0600);
MODULE_PARM_DESC(
	max_pollers,
	"threads that poll for a user without CAP_SYS_RESOURCE; a rank has one for each of four queues");

struct account {
	struct list_head list;
	kuid_t uid;
	unsigned int contexts, pollers;
};

static DEFINE_MUTEX(accounts_lock); /* nests inside ctx->lock; takes no lock itself */
static LIST_HEAD(accounts);

/* ---- memory --------------------------------------------------------------------------------- */

static bool lock_pages(struct ctx *c, long n)
{
	long now;

	do {
		now = atomic_long_read(&c->user->locked_vm);
		if (c->limit != ULONG_MAX && (unsigned long)now + n > c->limit) {
			WRITE_ONCE(c->over, true);
			atomic_inc(&c->refused);
			pr_info_ratelimited(
				"dsm: user %u may not lock more than %lu pages (RLIMIT_MEMLOCK)\n",
				from_kuid_munged(&init_user_ns, c->uid), c->limit);
			return false;
		}
	} while (atomic_long_cmpxchg(&c->user->locked_vm, now, now + n) != now);
	return true;
}

static long beyond(long pages)
{
	return max(pages - FREE_PAGES, 0l);
}

/* The caller holds charge_lock, here and in uncharge(). */
static bool charge(struct ctx *c, long pages)
{
	const long more = beyond(c->charged + pages) - beyond(c->charged);

	if (more && !lock_pages(c, more))
		return false;
	c->charged += pages;
	debug_count(GAUGE_CHARGED, pages);
	return true;
}

static void uncharge(struct ctx *c, long pages)
{
	const long less = beyond(c->charged) - beyond(c->charged - pages);

	if (less)
		atomic_long_sub(less, &c->user->locked_vm);
	c->charged -= pages;
	debug_count(GAUGE_CHARGED, -pages);
}

bool account_charge(struct ctx *c, long pages)
{
	unsigned long flags;
	bool may;

	spin_lock_irqsave(&c->charge_lock, flags);
	may = charge(c, pages);
	spin_unlock_irqrestore(&c->charge_lock, flags);
	return may;
}

void account_uncharge(struct ctx *c, long pages)
{
	unsigned long flags;

	spin_lock_irqsave(&c->charge_lock, flags);
	uncharge(c, pages);
	spin_unlock_irqrestore(&c->charge_lock, flags);
}

/*
 * Small objects, allocated in softirq. The pages charged (bytes_charged) cover the bytes in use, so
 * most objects need no lock. The number of pages falls only if it is too high by more than one, or
 * if no object is left: objects that come and go at a page boundary do not change it.
 */
bool account_charge_bytes(struct ctx *c, size_t n)
{
	/* a full barrier; its partner is in lower() */
	const long bytes = atomic_long_add_return(n, &c->bytes);
	unsigned long flags;
	bool may = true;
	long more;

	if (likely(account_pages(bytes) <= READ_ONCE(c->bytes_charged)))
		return true;
	spin_lock_irqsave(&c->charge_lock, flags);
	more = account_pages(atomic_long_read(&c->bytes)) - c->bytes_charged;
	if (more > 0) {
		may = charge(c, more);
		if (may)
			WRITE_ONCE(c->bytes_charged, c->bytes_charged + more);
	}
	spin_unlock_irqrestore(&c->charge_lock, flags);
	if (!may)
		account_uncharge_bytes(c, n);
	return may;
}

/*
 * Under charge_lock. An object may be added at the same time:
 *
 *   lower()                         account_charge_bytes()
 *   bytes_charged = keep            bytes += n
 *   smp_mb()                        (full barrier)
 *   looks at bytes                  looks at bytes_charged
 *
 * At least one of them sees what the other wrote. If it is lower(), it takes the pages back before
 * they are uncharged; the other waits for charge_lock.
 */
static void lower(struct ctx *c)
{
	const long had = c->bytes_charged;
	long bytes, keep;

	do {
		bytes = atomic_long_read(&c->bytes);
		keep = bytes ? min(account_pages(bytes) + 1, had) : 0;
		WRITE_ONCE(c->bytes_charged, keep);
		smp_mb();
	} while (keep < had && account_pages(atomic_long_read(&c->bytes)) > keep);
	uncharge(c, had - keep);
}

void account_uncharge_bytes(struct ctx *c, size_t n)
{
	const long bytes = atomic_long_sub_return(n, &c->bytes);
	unsigned long flags;

	if (bytes && account_pages(bytes) + 1 >= READ_ONCE(c->bytes_charged))
		return;
	spin_lock_irqsave(&c->charge_lock, flags);
	lower(c);
	spin_unlock_irqrestore(&c->charge_lock, flags);
}

bool account_charge_frames(struct ctx *c, long n)
{
	if (!lock_pages(c, n))
		return false;
	if (!account_charge(c, CHUNK_CHARGE)) {
		atomic_long_sub(n, &c->user->locked_vm);
		return false;
	}
	atomic_long_add(n, &c->frames);
	debug_count(GAUGE_FRAMES, n);
	return true;
}

void account_uncharge_frames(struct ctx *c, long n)
{
	debug_count(GAUGE_FRAMES, -n);
	atomic_long_sub(n, &c->frames);
	atomic_long_sub(n, &c->user->locked_vm);
	account_uncharge(c, CHUNK_CHARGE);
}

struct mem_cgroup *account_memcg_begin(struct ctx *c)
{
	return set_active_memcg(c->memcg);
}

void account_memcg_end(struct mem_cgroup *before)
{
	set_active_memcg(before);
}

/* ---- users ---------------------------------------------------------------------------------- */

static struct account *account_find(kuid_t uid)
{
	struct account *a;

	list_for_each_entry(a, &accounts, list)
		if (uid_eq(a->uid, uid))
			return a;
	return NULL;
}

/* Count more contexts and pollers. The caller holds accounts_lock. */
static int account_take(struct account *a, unsigned int contexts, unsigned int pollers)
{
	if ((a->contexts + contexts > max_contexts || a->pollers + pollers > max_pollers) &&
	    !capable(CAP_SYS_RESOURCE)) {
		pr_info_ratelimited(
			"dsm: user %u has %u contexts and %u pollers (max_contexts, max_pollers)\n",
			from_kuid_munged(&init_user_ns, a->uid), a->contexts, a->pollers);
		return -EUSERS;
	}
	a->contexts += contexts;
	a->pollers += pollers;
	return 0;
}

static void forget_if_unused(struct account *a)
{
	if (a->contexts)
		return;
	list_del(&a->list);
	kfree(a);
}

static void account_put(kuid_t uid, unsigned int contexts, unsigned int pollers)
{
	struct account *a;

	if (!contexts && !pollers)
		return;
	mutex_lock(&accounts_lock);
	a = account_find(uid);
	a->contexts -= contexts;
	a->pollers -= pollers;
	forget_if_unused(a);
	mutex_unlock(&accounts_lock);
}

/*
 * The user whose contexts and pollers are counted. A user can have many in a user namespace of its
 * own (subuid(5)): they count for the owner of the namespace. Namespaces that root has made are
 * containers of an administrator, who has chosen their users.
 */
static kuid_t payer_of_current(void)
{
	const struct user_namespace *ns = current_user_ns();

	while (ns->parent && ns->parent != &init_user_ns)
		ns = ns->parent;
	return ns != &init_user_ns && !uid_eq(ns->owner, GLOBAL_ROOT_UID) ? ns->owner
									  : current_euid();
}

int account_open_view(struct view *v)
{
	struct account *a;
	int err = -ENOMEM;

	v->uid = current_euid();
	v->payer = payer_of_current();
	v->user = get_uid(current_user());
	v->limit = capable(CAP_IPC_LOCK) ? ULONG_MAX : rlimit(RLIMIT_MEMLOCK);
	if (v->limit != ULONG_MAX)
		v->limit >>= PAGE_SHIFT;
	mutex_lock(&accounts_lock);
	a = account_find(v->payer);
	if (!a) {
		a = kzalloc(sizeof(*a), GFP_KERNEL);
		if (a) {
			a->uid = v->payer;
			list_add(&a->list, &accounts);
		}
	}
	if (a) {
		err = account_take(a, 1, 0);
		forget_if_unused(a);
	}
	mutex_unlock(&accounts_lock);
	v->counted = !err;
	if (err)
		free_uid(v->user);
	return err;
}

void account_close_view(struct view *v)
{
	account_put(v->payer, v->counted, 0);
	free_uid(v->user);
}

void account_open_ctx(struct ctx *c, const struct view *v)
{
	c->uid = v->uid;
	c->payer = v->payer;
	c->user = get_uid(v->user);
	c->limit = v->limit;
	c->memcg = get_mem_cgroup_from_mm(v->mm);
}

void account_move(struct view *v, struct ctx *c)
{
	c->counted = true;
	v->counted = false;
}

int account_take_pollers(struct ctx *c, unsigned int n)
{
	int err;

	mutex_lock(&accounts_lock);
	err = account_take(account_find(c->payer), 0, n);
	if (!err)
		c->pollers += n;
	mutex_unlock(&accounts_lock);
	return err;
}

void account_close_ctx(struct ctx *c)
{
	WARN_ON_ONCE(atomic_long_read(&c->frames) || atomic_long_read(&c->bytes) ||
		     c->bytes_charged);
	account_uncharge(c, c->charged); /* the context's tables */
	account_put(c->payer, c->counted, c->pollers);
	free_uid(c->user);
	mem_cgroup_put(c->memcg);
}
