// SPDX-License-Identifier: BSD-2-Clause
/* device.c - reads sysfs. */
#include "cqgroup/device.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cqgroup.h"

/* Vendors of the software devices, as the kernel's drivers report them: soft-RoCE, soft-iWARP. */
#define RXE_VENDOR 0xffffffu
#define SIW_VENDOR 0x626d74u

const char *cqgroup_sysfs = "/sys";

/* Read a file's first line without its newline. 0: missing or empty. */
static size_t read_line(char *buf, size_t size, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return 0;
	n = read(fd, buf, size - 1);
	close(fd);
	if (n <= 0)
		return 0;
	buf[n] = '\0';
	return strcspn(buf, "\n");
}

static int read_cpus(struct cqset *out, const char *path)
{
	char line[CQSET_MAX * 2], why[1];
	size_t n = read_line(line, sizeof(line), path);

	return n ? cqset_parse(line, n, out, why, sizeof(why)) : -1;
}

static int has_entries(const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *e;
	int n = 0;

	if (!dir)
		return 0;
	while ((e = readdir(dir)))
		n += e->d_name[0] != '.';
	closedir(dir);
	return n > 0;
}

void cqgroup_device_read(const char *root, const char *name, unsigned int nvectors,
			 const struct cqset *allowed, struct cqgroup_device *out)
{
	char path[512], line[32];
	struct cqset local;
	int node = -1;

	memset(out, 0, sizeof(*out));
	snprintf(out->name, sizeof(out->name), "%s", name);
	out->nvectors = nvectors < CQSET_MAX ? nvectors : CQSET_MAX;

	snprintf(path, sizeof(path), "%s/devices/system/cpu/online", root);
	if (read_cpus(&out->online, path))
		out->online = *allowed;

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/device/numa_node", root, name);
	if (read_line(line, sizeof(line), path))
		node = (int)strtol(line, NULL, 10);
	out->numa_node = node < 0 ? -1 : node;

	snprintf(path, sizeof(path), "%s/class/infiniband/%s/device/local_cpulist", root, name);
	local = out->online;
	if (read_cpus(&local, path) && node >= 0) {
		snprintf(path, sizeof(path), "%s/devices/system/node/node%d/cpulist", root, node);
		read_cpus(&local, path);
	}
	cqset_and(&local, &out->online);
	out->beside = cqset_count(&local) ? local : out->online;
	cqset_and(&local, allowed);
	out->cpus = cqset_count(&local) ? local : *allowed;

	/*
	 * Soft-RoCE names the network interface below it in "parent"; that interface may have
	 * interrupts.
	 */
	snprintf(path, sizeof(path), "%s/class/infiniband/%s/parent", root, name);
	if (access(path, F_OK)) {
		snprintf(path, sizeof(path), "%s/class/infiniband/%s/device/msi_irqs", root, name);
		out->interrupts = has_entries(path);
		if (!out->interrupts) { /* a subfunction uses the interrupts of its function */
			snprintf(path, sizeof(path), "%s/class/infiniband/%s/device/irqs", root,
				 name);
			out->interrupts = has_entries(path);
		}
	}
}

int cqgroup_device_exists(const char *root, const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/class/infiniband/%s", root, name);
	return !access(path, F_OK);
}

static int device_is_active(const char *root, const char *name)
{
	char path[512], line[32];
	unsigned int port;

	for (port = 1; port < 256; port++) {
		snprintf(path, sizeof(path), "%s/class/infiniband/%s/ports/%u/state", root, name,
			 port);
		if (!read_line(line, sizeof(line), path))
			return 0; /* ports are numbered without gaps */
		if (strtol(line, NULL, 10) == IBV_PORT_ACTIVE)
			return 1;
	}
	return 0;
}

static int natural_order(const void *a, const void *b)
{
	return strverscmp(a, b);
}

unsigned int cqgroup_device_list(const char *root, char names[][CQGROUP_DEVICE_MAX],
				 unsigned int max)
{
	char path[512], all[64][CQGROUP_DEVICE_MAX];
	unsigned int n = 0, i;
	const struct dirent *e;
	size_t length;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/class/infiniband", root);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		length = strlen(e->d_name);
		if (e->d_name[0] != '.' && length < CQGROUP_DEVICE_MAX && n < 64 &&
		    device_is_active(root, e->d_name))
			memcpy(all[n++], e->d_name, length + 1);
	}
	if (dir)
		closedir(dir);
	qsort(all, n, sizeof(all[0]), natural_order);
	for (i = 0; i < n && i < max; i++)
		strcpy(names[i], all[i]);
	return n;
}

void cqgroup_device_of(struct ibv_context *ctx, struct cqgroup_device *out)
{
	struct cqset allowed = { { 0 } };

	if (sched_getaffinity(0, sizeof(allowed), (cpu_set_t *)&allowed) || !cqset_count(&allowed))
		cqset_add(&allowed, 0);
	cqgroup_device_read(cqgroup_sysfs, ctx->device->name,
			    ctx->num_comp_vectors > 0 ? (unsigned int)ctx->num_comp_vectors : 1,
			    &allowed, out);
}

unsigned int cqgroup_device_cpu(const struct cqgroup_device *dev, unsigned int vector)
{
	return cqset_nth(&dev->cpus, vector % cqset_count(&dev->cpus));
}

unsigned int cqgroup_device_irq_cpu(const struct cqgroup_device *dev, unsigned int vector)
{
	return cqset_nth(&dev->beside, vector % cqset_count(&dev->beside));
}

int cqgroup_vectors_effective(struct ibv_context *ctx)
{
	/* Not by ibv_query_device(): the preload library is not linked with libibverbs. */
	struct verbs_context *vctx = verbs_get_ctx_op(ctx, query_device_ex);
	struct ibv_device_attr_ex attr = { .orig_attr.vendor_id = 0 };
	struct cqgroup_device dev;

	cqgroup_device_of(ctx, &dev);
	if (!dev.interrupts)
		return 0;
	if (!vctx || vctx->query_device_ex(ctx, NULL, &attr, sizeof(attr)))
		return 1;
	return attr.orig_attr.vendor_id != RXE_VENDOR && attr.orig_attr.vendor_id != SIW_VENDOR;
}
