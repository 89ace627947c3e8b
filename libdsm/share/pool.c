// SPDX-License-Identifier: BSD-2-Clause
/*
 * pool.c - next fit over a bitmap of granules; whole words of used granules are skipped. Any
 * thread, under the lock.
 */
#include "share/pool.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "share/mem.h"

int rs_pool_init(struct rs_pool *p, void *base, size_t bytes)
{
	*p = (struct rs_pool){ .base = base, .granules = bytes / RS_GRANULE };
	pthread_mutex_init(&p->lock, NULL);
	p->used = rs_zalloc((p->granules + 63) / 64, sizeof(*p->used));
	p->len = rs_zalloc(p->granules, sizeof(*p->len));
	if (p->used && p->len)
		return 0;
	rs_pool_exit(p);
	return -ENOMEM;
}

void rs_pool_exit(struct rs_pool *p)
{
	rs_free(p->used);
	rs_free(p->len);
	p->used = NULL;
	p->len = NULL;
}

static bool is_used(const struct rs_pool *p, size_t g)
{
	return p->used[g / 64] >> g % 64 & 1;
}

/* Find n free granules in a row within [from, to). to: there are none. */
static size_t find_run(const struct rs_pool *p, size_t from, size_t to, size_t n)
{
	size_t g = from, run = 0;

	while (g < to) {
		if (!(g % 64) && !run && p->used[g / 64] == ~(uint64_t)0) {
			g += 64;
			continue;
		}
		run = is_used(p, g) ? 0 : run + 1;
		g++;
		if (run == n)
			return g - n;
	}
	return to;
}

void *rs_pool_get(struct rs_pool *p, size_t size)
{
	const size_t n = size ? (size + RS_GRANULE - 1) / RS_GRANULE : 1;
	size_t at, i;
	void *buffer = NULL;

	if (n > p->granules || n > UINT32_MAX)
		return NULL;
	pthread_mutex_lock(&p->lock);
	at = find_run(p, p->hint, p->granules, n);
	if (at == p->granules)
		at = find_run(p, 0, p->granules, n);
	if (at < p->granules) {
		for (i = at; i < at + n; i++)
			p->used[i / 64] |= (uint64_t)1 << i % 64;
		p->len[at] = (uint32_t)n;
		p->hint = at + n;
		buffer = p->base + at * RS_GRANULE;
	}
	pthread_mutex_unlock(&p->lock);
	return buffer;
}

void rs_pool_put(struct rs_pool *p, void *buffer)
{
	const size_t offset = (size_t)((char *)buffer - p->base), at = offset / RS_GRANULE;
	size_t i;

	if (!buffer || offset % RS_GRANULE || at >= p->granules)
		return;
	pthread_mutex_lock(&p->lock);
	for (i = at; i < at + p->len[at]; i++)
		p->used[i / 64] &= ~((uint64_t)1 << i % 64);
	p->len[at] = 0;
	pthread_mutex_unlock(&p->lock);
}
