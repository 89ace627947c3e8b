// SPDX-License-Identifier: GPL-2.0
/*
 * main.c - /dev/dsm: the misc device, its files, and the ioctl(2) dispatcher, which copies and
 * checks arguments.
 */
#include <linux/compat.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/poll.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "main.h"
#include "../base/account.h"
#include "call.h"
#include "../base/check.h"
#include "../net/conn.h"
#include "../base/debug.h"
#include "../base/compat.h"
#include "../base/flush.h"
#include "host.h"
#include "inject.h"
#include "job.h"
#include "map.h"
#include "../base/pte.h"
#include "rank.h"
#include "region.h"
#include "../base/test.h"
#include "../net/vectors.h"
#include "../base/work.h"

MODULE_DESCRIPTION(
	"Kernel helper of libdsm: page protection and coherence for distributed shared memory");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");

TEST_PARAM(
	uint, test_linger, 0,
	"milliseconds that a fault stays in the module when it is over, and a worker that has left its rank");

#ifdef DSM_TEST
void dsm_test_stay(void)
{
	const unsigned int ms = test_value(test_linger);

	if (ms)
		msleep(ms);
}
#endif

static int dsm_open(struct inode *inode, struct file *file)
{
	struct view *v = view_create();

	if (IS_ERR(v))
		return PTR_ERR(v);
	file->private_data = v;
	return 0;
}

static long dev_do_info(struct view *v, void *in, void __user *arg)
{
	struct ctx *c = view_ctx(v);
	const unsigned long limit = c ? c->limit : v->limit;
	struct dsm_ioc_info info = {
		.version = DSM_UAPI_VERSION,
		.features = DSM_FEATURE_PROTECT | DSM_FEATURE_RANK | DSM_FEATURE_QUEUES |
			DSM_FEATURE_ATTACH | DSM_FEATURE_PROTECT_PAGE,
		.frames = c ? atomic_long_read(&c->frames) : 0,
		.frames_limit = limit == ULONG_MAX ? ~0ull : limit,
	};

	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
}

static long do_window(struct view *v, void *in, void __user *arg)
{
	return view_window(v, ((struct dsm_ioc_window *)in)->size);
}

static const struct file_operations dsm_fops;

static long do_attach(struct view *v, void *in, void __user *arg)
{
	struct file *file = fget(((struct dsm_ioc_attach *)in)->fd);
	struct ctx *c;
	long err;

	if (!file)
		return -EBADF;
	/* The open file's view stays attached, so its context stays allocated. */
	c = file->f_op == &dsm_fops ? view_ctx(file->private_data) : NULL;
	err = c ? view_attach(v, c) : -ENXIO;
	fput(file);
	return err;
}

/* NULL: it has not joined a job. */
static struct rank *rank_of(struct view *v)
{
	struct ctx *c = view_ctx(v);

	return c ? smp_load_acquire(&c->rank) : NULL;
}

static struct limits limits_of(struct view *v)
{
	struct ctx *c = view_ctx(v);
	struct rank *r = rank_of(v);

	return (struct limits){ .pages = c ? c->pages : 0,
				.ranks = r ? r->size : 0,
				.me = r ? r->me : 0 };
}

/*
 * A PROTECT in progress: the batch, the completion that its caller waits for, and room for items.
 * The view keeps one for the next call.
 */
struct protect_call {
	struct batch b;
	struct completion done;
	struct tasklet_struct start;
	long charged;
	u32 room;
	struct batch_item items[];
};

static void protect_done(struct batch *b)
{
	complete(&container_of(b, struct protect_call, b)->done);
}

static void protect_start(struct tasklet_struct *t)
{
	struct protect_call *w = from_tasklet(w, t, start);

	batch_start(&w->b);
}

/* NULL: no call is kept. */
static void protect_free(struct ctx *c, struct protect_call *w)
{
	if (w)
		account_uncharge(c, w->charged);
	kvfree(w);
}

static struct protect_call *protect_get(struct view *v, u32 items)
{
	struct protect_call *w = xchg(&v->spare, NULL);
	u32 room = max(items, 64u);
	const size_t size = struct_size(w, items, room) + batch_room();

	if (w && w->room >= items)
		return w;
	protect_free(v->ctx, w);
	if (!account_charge(v->ctx, account_pages(size)))
		return NULL;
	w = kvmalloc(size, GFP_CTX);
	if (!w) {
		account_uncharge(v->ctx, account_pages(size));
		return NULL;
	}
	memset(w, 0, sizeof(*w));
	w->charged = account_pages(size);
	w->room = room;
	w->b.ctx = v->ctx;
	w->b.done = protect_done;
	w->b.items = w->items;
	batch_init(&w->b, &w->items[room]);
	init_completion(&w->done);
	tasklet_setup(&w->start, protect_start);
	return w;
}

static void protect_put(struct view *v, struct protect_call *w)
{
	protect_free(v->ctx, xchg(&v->spare, w));
}

/*
 * The caller holds frames_sem. The items are as the process wrote them, and are rewritten in place.
 */
static int make_batch(struct view *v, struct batch *b, u32 count)
{
	const struct limits limits = limits_of(v);
	struct ctx *c = v->ctx;
	u32 i;
	int err;

	b->count = 0;
	for (i = 0; i < count; i++) {
		struct dsm_prot_item item;

		memcpy(&item, &b->items[i], sizeof(item));
		if (!check_prot_item(&limits, &item))
			return -EINVAL;
		if (item.prot == DSM_PROT_NONE && !chunk_of(c, item.page))
			continue; /* the page has never had a frame */
		err = item.prot == DSM_PROT_NONE
			? 0
			: ctx_frames(c, item.page, CHUNK_PAGES, CHUNK_PAGES);
		if (err)
			return err == -EDQUOT ? -ENOMEM : err;
		b->items[b->count++] =
			(struct batch_item){ .page = item.page, .pages = 1, .prot = (u8)item.prot };
	}
	return 0;
}

/*
 * Copying may take as long as the process likes, and a JOIN may come meanwhile. Then the frames
 * belong to the rank, which frees them while it runs:
 *   PROTECT                          JOIN
 *   copies its items
 *                                    frames_sem for writing: there are no frames, publishes the
 *                                    rank
 *   frames_sem: there is a rank
 * In the other order JOIN finds the frames, and is refused. They stay until the context goes.
 */
static int take_items(struct view *v, struct batch *b, const struct dsm_ioc_protect *p)
{
	int err = -EBUSY;

	BUILD_BUG_ON(sizeof(struct dsm_prot_item) != sizeof(struct batch_item));
	if (copy_from_user(b->items, u64_to_user_ptr(p->items), p->count * sizeof(*b->items)))
		return -EFAULT;
	if (down_read_killable(&v->ctx->frames_sem))
		return -EINTR;
	if (!v->ctx->rank)
		err = make_batch(v, b, p->count);
	up_read(&v->ctx->frames_sem);
	return err;
}

static long do_protect(struct view *v, void *in, void __user *arg)
{
	struct dsm_ioc_protect *p = in;
	struct protect_call *w;
	long err;

	if (rank_of(v))
		return -EBUSY;
	if (READ_ONCE(v->tables) == TABLES_NONE)
		return -ENXIO;
	w = protect_get(v, p->count);
	if (!w)
		return -ENOMEM;
	err = take_items(v, &w->b, p);
	if (err)
		goto put;
	w->b.deferred = w->b.nflush = w->b.flushed = 0; /* left by the last call */
	reinit_completion(&w->done);
	if (p->flags & DSM_PROTECT_SOFTIRQ) {
		local_bh_disable();
		tasklet_schedule(&w->start);
		local_bh_enable(); /* the tasklet runs here */
	} else {
		batch_start(&w->b);
	}
	/*
	 * The batch ends soon without any other thread's help: it waits for IPIs to other
	 * processors, and for a worker.
	 */
	wait_for_completion(&w->done);
	if (p->flags & DSM_PROTECT_SOFTIRQ)
		tasklet_kill(&w->start);
	p->deferred = w->b.deferred;
	p->flushed = w->b.flushed;
	err = copy_to_user(arg, p, sizeof(*p)) ? -EFAULT : 0;
put:
	protect_put(v, w);
	return err;
}

/* As take_items(), for one item: its page has a frame, which stays. */
static int take_frame(struct view *v, u32 page)
{
	struct mem_cgroup *before = account_memcg_begin(v->ctx);
	int err = -EINTR;

	if (!down_read_killable(&v->ctx->frames_sem)) {
		err = v->ctx->rank ? -EBUSY : ctx_frames(v->ctx, page, CHUNK_PAGES, CHUNK_PAGES);
		up_read(&v->ctx->frames_sem);
	}
	account_memcg_end(before);
	return err == -EDQUOT ? -ENOMEM : err;
}

/*
 * The call whose argument is no pointer, but a struct dsm_prot_item. It does not go through
 * calls[], which would cost a third of it again. Frames that are found before there is a rank stay:
 * JOIN refuses a context that has any, and a rank makes its own when it is published.
 */
static long protect_page(struct view *v, u64 arg)
{
	struct dsm_prot_item item = { .page = (u32)arg, .prot = (u32)(arg >> 32) };
	struct ctx *c = view_ctx(v);
	const struct limits limits = { .pages = c ? c->pages : 0 };
	bool framed;
	int err = 0;

	if (current->mm != v->mm)
		return -ENXIO;
	if (!check_prot_item(&limits, &item))
		return -EINVAL;
	framed = chunk_of(c, item.page);
	smp_rmb(); /* between the frames and the rank; pairs with ctx_frames() */
	if (READ_ONCE(c->rank))
		return -EBUSY;
	if (READ_ONCE(v->tables) == TABLES_NONE)
		return -ENXIO;
	if (!framed && item.prot == DSM_PROT_NONE)
		return 0; /* the page has never had a frame */
	if (!framed)
		err = take_frame(v, item.page);
	if (!err)
		page_protect(v, item.page, (u8)item.prot);
	return err;
}

static int dev_release(struct inode *inode, struct file *file)
{
	struct view *v = file->private_data;

	protect_free(v->ctx, xchg(&v->spare, NULL));
	view_close(v);
	return 0;
}

static int dsm_mmap(struct file *file, struct vm_area_struct *vma)
{
	return view_mmap(file->private_data, vma);
}

/* The parts of arguments that are copied in; of the largest, only the head. */
union argument {
	struct dsm_ioc_window window;
	struct dsm_ioc_attach attach;
	struct dsm_ioc_protect protect;
	struct dsm_ioc_join join;
	struct dsm_ioc_key key;
	struct dsm_ioc_connect connect;
	struct dsm_ioc_region region;
	struct dsm_ioc_call call;
	struct dsm_ioc_range range;
	struct dsm_ioc_hot hot;
	u8 stats[offsetof(struct dsm_ioc_stats, read_faults)];
};

static const struct {
	unsigned int cmd;
	u16 in;      /* bytes copied from user space */
	bool anyone; /* true: allowed to processes that have not opened the file */
	bool joined; /* true: the context must have joined a job */
	bool secret; /* true: nothing of the argument stays on the stack */
	long (*run)(struct view *v, void *in, void __user *arg);
	/* clang-format off */
} calls[] = {
	[_IOC_NR(DSM_IOC_INFO)] = { DSM_IOC_INFO, .anyone = true, .run = dev_do_info },
	[_IOC_NR(DSM_IOC_WINDOW)] = { DSM_IOC_WINDOW, sizeof(struct dsm_ioc_window), .run = do_window },
	[_IOC_NR(DSM_IOC_ATTACH)] = { DSM_IOC_ATTACH, sizeof(struct dsm_ioc_attach), .run = do_attach },
	[_IOC_NR(DSM_IOC_PROTECT)] = { DSM_IOC_PROTECT, sizeof(struct dsm_ioc_protect), .run = do_protect },
	[_IOC_NR(DSM_IOC_JOIN)] = { DSM_IOC_JOIN, sizeof(struct dsm_ioc_join), .run = rank_join },
	[_IOC_NR(DSM_IOC_KEY)] = { DSM_IOC_KEY, sizeof(struct dsm_ioc_key), .joined = true, .secret = true, .run = job_key },
	[_IOC_NR(DSM_IOC_CONNECT)] = { DSM_IOC_CONNECT, sizeof(struct dsm_ioc_connect), .joined = true, .run = job_connect },
	[_IOC_NR(DSM_IOC_REGION)] = { DSM_IOC_REGION, sizeof(struct dsm_ioc_region), .joined = true, .run = region_change },
	[_IOC_NR(DSM_IOC_CALL)] = { DSM_IOC_CALL, sizeof(struct dsm_ioc_call), .joined = true, .run = call_sync },
	[_IOC_NR(DSM_IOC_RANGE)] = { DSM_IOC_RANGE, sizeof(struct dsm_ioc_range), .joined = true, .run = call_range },
	[_IOC_NR(DSM_IOC_STATS)] = { DSM_IOC_STATS, offsetof(struct dsm_ioc_stats, read_faults), .joined = true, .run = rank_stats },
	[_IOC_NR(DSM_IOC_HOT)] = { DSM_IOC_HOT, sizeof(struct dsm_ioc_hot), .joined = true, .run = rank_hot },
	[_IOC_NR(DSM_IOC_LOST)] = { DSM_IOC_LOST, .joined = true, .run = rank_lost },
	[_IOC_NR(DSM_IOC_QUEUES)] = { DSM_IOC_QUEUES, .joined = true, .run = rank_queues },
};
/* clang-format on */

/*
 * The memory that a call allocates is charged to the memory cgroup of the context, whichever
 * process of the node makes the call.
 */
static long call_run(struct view *v, unsigned int nr, union argument *in, void __user *user)
{
	struct ctx *c = view_ctx(v);
	struct mem_cgroup *before;
	long result;

	if (!c)
		return calls[nr].run(v, in, user);
	before = account_memcg_begin(c);
	result = calls[nr].run(v, in, user);
	account_memcg_end(before);
	return result;
}

static long ioctl_by_pointer(struct view *v, unsigned int cmd, void __user *user)
{
	unsigned int nr = _IOC_NR(cmd);
	struct limits limits;
	union argument in;
	long err;

	if (nr >= ARRAY_SIZE(calls))
		return inject_ioctl(v, cmd, user);
	nr = array_index_nospec(nr, ARRAY_SIZE(calls));
	if (calls[nr].cmd != cmd)
		return -ENOTTY;
	/* Refuse a child that has inherited the file, and a process that received it. */
	if (!calls[nr].anyone && current->mm != v->mm)
		return -ENXIO;
	if (calls[nr].joined && !rank_of(v))
		return -ENOTCONN;
	if (copy_from_user(&in, user, calls[nr].in))
		return -EFAULT;
	limits = limits_of(v);
	err = check_call(nr, &limits, &in) ? call_run(v, nr, &in, user) : -EINVAL;
	if (calls[nr].secret) {
		memzero_explicit(&in, sizeof(in));
		job_check_stack();
	}
	return err;
}

static long dsm_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct view *v = file->private_data;

	return cmd == DSM_IOC_PROTECT_PAGE ? protect_page(v, arg)
					   : ioctl_by_pointer(v, cmd, (void __user *)arg);
}

#ifdef CONFIG_COMPAT
/* An argument of 32 bits has no room for a struct. */
static long dsm_compat_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	return cmd == DSM_IOC_PROTECT_PAGE ? -ENOTTY
					   : dsm_ioctl(file, cmd, (unsigned long)compat_ptr(arg));
}
#endif

static __poll_t dsm_poll(struct file *file, poll_table *wait)
{
	struct view *v = file->private_data;
	struct rank *r = rank_of(v);

	if (!r)
		return 0;
	poll_wait(file, &r->lost_wait, wait);
	return READ_ONCE(v->lost_told) < READ_ONCE(r->lost_n) ? EPOLLIN | EPOLLRDNORM : 0;
}

static const struct file_operations dsm_fops = {
	.owner = THIS_MODULE,
	.open = dsm_open,
	.release = dev_release,
	.mmap = dsm_mmap,
	.poll = dsm_poll,
	.unlocked_ioctl = dsm_ioctl,
#ifdef CONFIG_COMPAT
	.compat_ioctl = dsm_compat_ioctl,
#endif
	.llseek = noop_llseek,
};

static struct miscdevice dsm_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "dsm",
	.fops = &dsm_fops,
	.mode = 0660,
};

/*
 * debugfs files: what the ranks of this kernel wait for; the completions of their queues, by
 * context; the CQs of each vector.
 */
DEFINE_SHOW_ATTRIBUTE(ranks);
DEFINE_SHOW_ATTRIBUTE(queues);
DEFINE_SHOW_ATTRIBUTE(vectors);

static int __init dev_init(void)
{
	int err = fit_check();

	if (!err)
		err = workqueue_start();
	if (err)
		return err;
	err = flush_start();
	if (err)
		goto stop_work;
	err = host_start();
	if (err)
		goto stop_flush;
	err = conn_init(ranks_leave_device);
	if (err)
		goto stop_host;
	debug_create();
	debug_file("ranks", &ranks_fops);
	debug_file("queues", &queues_fops);
	debug_file("vectors", &vectors_fops);
	err = misc_register(&dsm_device);
	if (!err)
		return 0;
	debug_remove();
	conn_exit();
stop_host:
	host_stop();
stop_flush:
	flush_stop();
stop_work:
	workqueue_stop();
	return err;
}

/*
 * No file is open, so the last contexts are being freed in dsm_waiting_wq. The last thread inside a
 * rank (rank_exit()) may still run code of the module if it is a worker of these queues. Calls and
 * faults hold a file; rank_stop() has waited for softirqs and closed the connections. The removal
 * of a device may have a reference to a context, which it puts before conn_exit() returns.
 */
static void __exit dsm_exit(void)
{
	misc_deregister(&dsm_device);
	debug_remove();
	conn_exit();
	workqueue_stop();
	host_stop();
	flush_stop();
	mmu_notifier_synchronize();
	rcu_barrier();
}

module_init(dev_init);
module_exit(dsm_exit);
