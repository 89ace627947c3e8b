// SPDX-License-Identifier: GPL-2.0
/*
 * vectors.c - divides the completion vectors of each device among the classes, and counts the CQs
 * of each vector.
 *
 * A device has its table between add() and remove(). The RDMA core adds clients in the order of
 * their registration, and removes them in reverse order, so other clients find the table. A CQ of
 * dsm.ko may outlive its table: a rank may join while its device is removed. The mutex guards the
 * list and all counts; no other lock is taken inside it.
 */
#include "vectors.h"

#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "cqgroup/divide.h"

struct vectors {
	struct list_head list;
	struct ib_device *dev;
	unsigned int n;
	struct {
		unsigned int first, n;
	} of[CQGROUP_CLASSES]; /* merged classes have the same vectors */
	struct {
		unsigned int now, made;
	} cqs[]; /* of each vector */
};

const char *const class_names[CLASS_MAX] = { "coherence", "data", "sync", "bulk" };

static DEFINE_MUTEX(lock);
static LIST_HEAD(devices);

static void divide(struct vectors *v)
{
	struct cqgroup_share share[CQGROUP_CLASSES] = { 0 };
	unsigned int c, first = 0;

	cqgroup_divide(share, v->n); /* never fails: one vector is enough for all classes */
	for (c = 0; c < CQGROUP_CLASSES; c++) {
		v->of[c].first = first;
		v->of[c].n = share[c].vectors;
		first += share[c].vectors;
	}
	for (c = 0; c < CQGROUP_CLASSES; c++)
		v->of[c] = v->of[cqgroup_host(share, c)];
}

/* The caller holds the lock. NULL: out of memory, or the device is gone. */
static struct vectors *vectors_find(const struct ib_device *dev)
{
	struct vectors *v;

	list_for_each_entry(v, &devices, list)
		if (v->dev == dev)
			return v;
	return NULL;
}

static int vectors_add(struct ib_device *dev)
{
	const unsigned int n = max(dev->num_comp_vectors, 1);
	struct vectors *v = kzalloc(struct_size(v, cqs, n), GFP_KERNEL);

	if (!v)
		return -ENOMEM;
	v->dev = dev;
	v->n = n;
	divide(v);
	mutex_lock(&lock);
	list_add_tail(&v->list, &devices);
	mutex_unlock(&lock);
	return 0;
}

static void vectors_remove(struct ib_device *dev, void *data)
{
	struct vectors *v;

	mutex_lock(&lock);
	v = vectors_find(dev);
	list_del(&v->list);
	mutex_unlock(&lock);
	kfree(v);
}

static struct ib_client client = { .name = "dsm_vectors",
				   .add = vectors_add,
				   .remove = vectors_remove };

static void vectors_count_up(struct vectors *v, unsigned int vector)
{
	v->cqs[vector].now++;
	v->cqs[vector].made++;
}

int cqgroup_get_vector(struct ib_device *device, enum cqgroup_class class)
{
	struct vectors *v;
	unsigned int i, best;
	int err = -ENODEV;

	if ((unsigned int)class >= CQGROUP_CLASSES)
		return -EINVAL;
	mutex_lock(&lock);
	v = vectors_find(device);
	if (v) {
		best = v->of[class].first;
		for (i = best; i < v->of[class].first + v->of[class].n; i++)
			if (v->cqs[i].now < v->cqs[best].now)
				best = i;
		vectors_count_up(v, best);
		err = (int)best;
	}
	mutex_unlock(&lock);
	return err;
}
EXPORT_SYMBOL_GPL(cqgroup_get_vector);

void cqgroup_put_vector(struct ib_device *device, int vector)
{
	struct vectors *v;

	mutex_lock(&lock);
	v = vectors_find(device);
	if (v && !WARN_ON_ONCE(vector < 0 || (unsigned int)vector >= v->n || !v->cqs[vector].now))
		v->cqs[vector].now--;
	mutex_unlock(&lock);
}
EXPORT_SYMBOL_GPL(cqgroup_put_vector);

void vectors_count(struct ib_device *dev, int vector)
{
	struct vectors *v;

	mutex_lock(&lock);
	v = vectors_find(dev);
	if (v)
		vectors_count_up(v, (unsigned int)vector);
	mutex_unlock(&lock);
}

/* One line per vector: device, vector, its classes, CQs now, CQs ever made. */
int vectors_show(struct seq_file *f, void *unused)
{
	const struct vectors *v;
	const char *plus;
	unsigned int i, c;

	mutex_lock(&lock);
	list_for_each_entry(v, &devices, list)
		for (i = 0; i < v->n; i++) {
			seq_printf(f, "%s %u ", dev_name(&v->dev->dev), i);
			for (c = 0, plus = ""; c < CQGROUP_CLASSES; c++)
				if (i - v->of[c].first < v->of[c].n) {
					seq_printf(f, "%s%s", plus, class_names[c]);
					plus = "+";
				}
			seq_printf(f, " %u %u\n", v->cqs[i].now, v->cqs[i].made);
		}
	mutex_unlock(&lock);
	return 0;
}

int vectors_init(void)
{
	BUILD_BUG_ON((int)CQGROUP_COHERENCE != CLASS_COHERENCE || (int)CQGROUP_DATA != CLASS_DATA ||
		     (int)CQGROUP_SYNC != CLASS_SYNC || (int)CQGROUP_BULK != CLASS_BULK ||
		     (int)CQGROUP_CLASSES != CLASS_MAX);
	return ib_register_client(&client);
}

void vectors_exit(void)
{
	ib_unregister_client(&client);
}
