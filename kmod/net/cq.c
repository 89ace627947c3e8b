// SPDX-License-Identifier: GPL-2.0
/*
 * cq.c - completion queues, their handlers, and the devices they are of.
 *
 * Softirq mode. The driver's completion handler (a tasklet with rxe, an interrupt with hardware)
 * only schedules the queue's tasklet. With hardware that is the processor that the interrupt of the
 * queue's vector goes to (/proc/irq). Drivers of software devices ignore vectors; there the tasklet
 * is steered to the processor that JOIN names: of the CPUs of the class's group, the one that
 * scripts/irq-affinity would direct the interrupt to. Before Linux 6.4 a handler that already runs
 * in softirq takes the completions there and then; from 6.4 on rxe calls it with the queue's lock
 * held. The tasklet takes BATCH completions under one lock of the queue, handles up to BUDGET, and
 * comes back if there are more.
 *
 * Polling mode. A thread for each queue polls for completions as long as the last is not older than
 * IDLE_NS; then it asks the driver to call, and sleeps. A dozen threads that never sleep keep soft
 * RDMA's own workers (rxe, Linux 6.9 and later) from the processors that they all wait for.
 */
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include <linux/nsproxy.h>
#include <linux/slab.h>

#include "cq.h"
#include "../base/compat.h"
#include "../base/debug.h"
#include "../base/pool.h"
#include "vectors.h"
#include "../base/work.h"

#define BATCH 16
#define BUDGET 128
#define IDLE_NS (2 * NSEC_PER_MSEC) /* several round trips of a slow device */

struct cq {
	struct ib_cq *cq;
	struct ib_wc wc[BATCH];
	cq_fn fn;
	cq_lost_fn lost;
	void *arg;
	u32 mode;
	int cpu; /* runs the tasklet, if it is online; -1: not steered */
	bool stopped;
	u64 events, softirq, ksoftirqd, process; /* approximate */
	int vector;
	bool counted;       /* included in the CQ counts of its vector: the caller chose it */
	unsigned long busy; /* bit 0: somebody takes completions; bit 1: more have come since */
	struct tasklet_struct task;
	struct work_struct work;
	struct task_struct *poller;
	wait_queue_head_t idle; /* the poller sleeps here */
	bool called;            /* the driver has called since the poller went to sleep */
	call_single_data_t steer;
};

/* ---- handling ------------------------------------------------------------------------------- */

/* Count completions by the context that handled them. */
static void cq_note(struct cq *q, unsigned int n)
{
	if (q->mode != DSM_MODE_SOFTIRQ) {
		debug_count(COUNT_PROCESS, n);
		q->process += n;
	} else if (current->flags & PF_KTHREAD && strstarts(current->comm, "ksoftirqd/")) {
		debug_count(COUNT_KSOFTIRQD, n);
		q->ksoftirqd += n;
	} else {
		debug_count(COUNT_SOFTIRQ, n);
		q->softirq += n;
	}
}

/* Bottom halves are off. Returns true if there may be more completions. */
static bool cq_take(struct cq *q, int budget)
{
	int n, i, total = 0;

	do {
		n = ib_poll_cq(q->cq, BATCH, q->wc);
		for (i = 0; i < n; i++)
			q->fn(q->arg, &q->wc[i]);
		total += n > 0 ? n : 0;
	} while (n > 0 && total < budget && pools_full() && !softirq_run_over());
	if (total)
		cq_note(q, total);
	return n > 0;
}

static bool cq_handle(struct cq *q)
{
	bool more;

	if (READ_ONCE(q->stopped))
		return false;
	/* Without memory, messages stay in the device's buffers; work() handles them later. */
	if (!pools_full()) {
		debug_count(COUNT_USED_UP, 1);
		queue_work(dsm_wq, &q->work);
		return false;
	}
	set_bit(1, &q->busy);
	if (test_and_set_bit_lock(0, &q->busy))
		return false; /* the current handler will see bit 1 */
	do {
		clear_bit(1, &q->busy);
		smp_mb__after_atomic();
		more = cq_take(q, BUDGET) ||
			ib_req_notify_cq(q->cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS) > 0;
		clear_bit_unlock(0, &q->busy);
		smp_mb__after_atomic();
		/*
		 * Another handler may have returned since the last poll because this one was busy:
		 * poll again.
		 */
	} while (!more && test_bit(1, &q->busy) && !test_and_set_bit_lock(0, &q->busy));
	return more;
}

static void task(struct tasklet_struct *t)
{
	struct cq *q = from_tasklet(q, t, task);

	softirq_run_begin();
	if (cq_handle(q))
		tasklet_schedule(&q->task);
}

static void work(struct work_struct *w)
{
	struct cq *q = container_of(w, struct cq, work);
	bool more;

	do {
		pool_begin();
		more = cq_handle(q);
		local_bh_enable();
		cond_resched();
	} while (more);
}

/*
 * The driver reports completions between the last poll and the request for a callback
 * (IB_CQ_REPORT_MISSED_EVENTS).
 */
static void sleep_until_called(struct cq *q)
{
	WRITE_ONCE(q->called, false);
	if (ib_req_notify_cq(q->cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS) <= 0)
		wait_event_idle(q->idle, READ_ONCE(q->called) || kthread_should_stop());
}

static int poller(void *arg)
{
	struct cq *q = arg;
	u64 latest = ktime_get_ns(), before;

	while (!kthread_should_stop()) {
		before = q->process;
		pool_begin();
		cq_take(q, BUDGET);
		local_bh_enable();
		cond_resched();
		if (q->process != before)
			latest = ktime_get_ns();
		else if (ktime_get_ns() - latest > IDLE_NS)
			sleep_until_called(q);
	}
	return 0;
}

static void steered(void *arg)
{
	tasklet_schedule(&((struct cq *)arg)->task);
}

static void call_task(struct cq *q)
{
	int here = get_cpu();

	if (q->cpu < 0 || q->cpu == here || !cpu_online(q->cpu))
		tasklet_schedule(&q->task);
	else
		smp_call_function_single_async(q->cpu, &q->steer); /* -EBUSY: already queued */
	put_cpu();
}

/* The driver calls this in any context. */
static void completions(struct ib_cq *cq, void *arg)
{
	struct cq *q = arg;

	if (READ_ONCE(q->stopped))
		return;
	WRITE_ONCE(q->events, q->events + 1);
	if (q->mode == DSM_MODE_POLL) {
		WRITE_ONCE(q->called, true);
		wake_up(&q->idle);
		return;
	}
	if (q->mode == DSM_MODE_WORKQUEUE) {
		queue_work(dsm_wq, &q->work);
		return;
	}
	if (compat_may_poll_in_handler() && in_serving_softirq() && !in_hardirq() &&
	    !irqs_disabled() && (q->cpu < 0 || q->cpu == smp_processor_id())) {
		softirq_run_join();
		if (!softirq_run_over() && !cq_handle(q))
			return;
	}
	call_task(q);
}

/* Any context. Every event of a completion queue means that the queue no longer works. */
static void cq_failed(struct ib_event *event, void *arg)
{
	struct cq *q = arg;

	if (!READ_ONCE(q->stopped))
		q->lost(q->arg);
}

/* ---- making --------------------------------------------------------------------------------- */

struct ib_cq *cq_of(struct cq *q)
{
	return q->cq;
}

void cq_counts(const struct cq *q, u32 *mode, struct dsm_ioc_queue *out)
{
	*mode = q->mode;
	out->vector = q->vector;
	out->cpu = q->cpu;
	out->events = READ_ONCE(q->events);
	out->softirq = READ_ONCE(q->softirq);
	out->ksoftirqd = READ_ONCE(q->ksoftirqd);
	out->process = READ_ONCE(q->process);
}

/*
 * The processor to steer the tasklet of a vector to. -1: the driver honours vectors, nobody asked
 * for steering, or there is no tasklet.
 */
static int cpu_of(struct ib_device *dev, u32 mode, int vector, int cpu)
{
	const bool ignores =
		dev->ops.driver_id == RDMA_DRIVER_RXE || dev->ops.driver_id == RDMA_DRIVER_SIW;

	if (mode != DSM_MODE_SOFTIRQ || vector < 0 || !ignores || cpu == DSM_CPU_ANY)
		return -1;
	return cpu >= 0 ? cpu : (int)cpumask_local_spread((unsigned int)vector, ibdev_to_node(dev));
}

struct cq *cq_create(struct ib_device *dev, u32 mode, unsigned int entries, int vector, int cpu,
		     cq_fn fn, cq_lost_fn lost, void *arg)
{
	struct ib_cq_init_attr attr = { .cqe = entries };
	struct cq *q = pool_test_refuses(GFP_KERNEL) ? NULL : kzalloc(sizeof(*q), GFP_CTX);
	int err;

	if (!q)
		return ERR_PTR(-ENOMEM);
	if (vector >= dev->num_comp_vectors || cpu >= (int)nr_cpu_ids) {
		kfree(q);
		return ERR_PTR(-ERANGE);
	}
	attr.comp_vector = q->vector = vector > 0 ? vector : 0;
	q->fn = fn;
	q->lost = lost;
	q->arg = arg;
	q->mode = mode;
	q->cpu = cpu_of(dev, mode, vector, cpu);
	tasklet_setup(&q->task, task);
	INIT_WORK(&q->work, work);
	init_waitqueue_head(&q->idle);
	INIT_CSD(&q->steer, steered, q);
	q->cq = ib_create_cq(dev, completions, cq_failed, q, &attr);
	if (IS_ERR(q->cq)) {
		err = PTR_ERR(q->cq);
		kfree(q);
		return ERR_PTR(err);
	}
	if (mode == DSM_MODE_POLL) {
		q->poller = kthread_run(poller, q, "dsm-poll");
		if (IS_ERR(q->poller)) {
			err = PTR_ERR(q->poller);
			ib_destroy_cq(q->cq);
			kfree(q);
			return ERR_PTR(err);
		}
	} else {
		ib_req_notify_cq(q->cq, IB_CQ_NEXT_COMP);
	}
	q->counted = vector >= 0;
	if (q->counted)
		vectors_count(dev, vector);
	return q;
}

static void nothing(void *unused)
{
}

void cq_stop(struct cq *q)
{
	if (q->stopped)
		return;
	if (q->poller)
		kthread_stop(q->poller);
	q->poller = NULL;
	WRITE_ONCE(q->stopped, true);
	synchronize_rcu(); /* handlers that saw it running; all run with bottom halves off */
	if (q->cpu >= 0)
		/* after the calls that they queued */
		smp_call_function_single(q->cpu, nothing, NULL, 1);
	cancel_work_sync(&q->work);
	tasklet_kill(&q->task);
}

void cq_destroy(struct cq *q)
{
	struct ib_device *dev = q->cq->device;

	cq_stop(q);
	ib_destroy_cq(q->cq);
	if (q->counted)
		cqgroup_put_vector(dev, q->vector);
	kfree(q);
}

/* ---- devices -------------------------------------------------------------------------------- */

static DEFINE_MUTEX(devices_lock);
static LIST_HEAD(devices);
static device_gone_fn device_gone;

struct device_entry {
	struct list_head list;
	struct ib_device *dev;
};

static int client_add(struct ib_device *dev)
{
	struct device_entry *e = kzalloc(sizeof(*e), GFP_KERNEL);

	if (!e)
		return -ENOMEM;
	e->dev = dev;
	mutex_lock(&devices_lock);
	list_add_tail(&e->list, &devices);
	mutex_unlock(&devices_lock);
	return 0;
}

static void client_remove(struct ib_device *dev, void *data)
{
	struct device_entry *e, *next;

	mutex_lock(&devices_lock);
	list_for_each_entry_safe(e, next, &devices, list)
		if (e->dev == dev) {
			list_del(&e->list);
			kfree(e);
		}
	mutex_unlock(&devices_lock);
	device_gone(dev);
}

static struct ib_client client = { .name = "dsm", .add = client_add, .remove = client_remove };

/*
 * Where the caller names no device, JOIN need not meet one that it refuses (caps.c) while another
 * would do.
 */
static u32 active_port(struct ib_device *dev, bool named)
{
	struct ib_port_attr attr;
	u32 p;

	rdma_for_each_port(dev, p)
		if ((named || rdma_ib_or_roce(dev, p)) && !ib_query_port(dev, p, &attr) &&
		    attr.state == IB_PORT_ACTIVE)
			return p;
	return 0;
}

int device_get(const char *name, struct ib_device **dev, u32 *port)
{
	struct device_entry *e;
	int err = -ENODEV;

	mutex_lock(&devices_lock);
	list_for_each_entry(e, &devices, list) {
		if (*name && strcmp(name, dev_name(&e->dev->dev)))
			continue;
		/* If network namespaces have their own devices, skip those of other namespaces. */
		if (!rdma_dev_access_netns(e->dev, current->nsproxy->net_ns))
			continue;
		err = -ENETDOWN;
		*port = active_port(e->dev, *name);
		if (!*port || !ib_device_try_get(e->dev))
			continue;
		*dev = e->dev;
		err = 0;
		break;
	}
	mutex_unlock(&devices_lock);
	return err;
}

void device_put_back(struct ib_device *dev)
{
	ib_device_put(dev);
}

bool device_is_here(const struct ib_device *dev)
{
	struct device_entry *e;
	bool is = false;

	mutex_lock(&devices_lock);
	list_for_each_entry(e, &devices, list)
		is |= e->dev == dev;
	mutex_unlock(&devices_lock);
	return is;
}

int cq_init(device_gone_fn gone)
{
	int err = vectors_init();

	device_gone = gone;
	if (err)
		return err;
	err = ib_register_client(&client);
	if (err)
		vectors_exit();
	return err;
}

void cq_exit(void)
{
	ib_unregister_client(&client);
	vectors_exit();
}
