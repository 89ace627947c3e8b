/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * footprint.h - spatial prefetching: which of 16 neighbouring pages, a chunk of 64 KiB, a node uses
 * together. A miss of one of them brings the others along.
 *
 * A chunk in which two pages were missed counts as used as a whole, until a test denies it. A test
 * leaves some pages out. Those that are missed then are used. Those that are not, before the page
 * that began the test is missed again, leave the footprint; the next test then comes at once, has
 * twice as many pages, and no page joins that was not missed. After a test that finds all pages
 * used, the next one comes after twice the time.
 *
 * Where the node can tell which pages it has touched (sample.h), a round is a *sample* instead: no
 * page is left out, but those that are dropped untouched count as if they had been. Then streams
 * that read leave them out, too. Where streams bring all pages, none is missed: a round ends as
 * well when the page that begins rounds is dropped again, and was not missed between.
 *
 * Any thread, also in the fault handler; nothing blocks. A footprint is read and written as a
 * whole, without a lock: a race costs a prediction.
 */
#ifndef MISS_FOOTPRINT_H
#define MISS_FOOTPRINT_H

#include <stdbool.h>
#include <stdint.h>

struct footprint; /* of FOOTPRINT_PAGES pages; zeroed: nothing is known */

#define FOOTPRINT_REST 15u /* most rounds between two tests */
#define FOOTPRINT_DOUBT 4u /* then a test is of all pages */
#define FOOTPRINT_TRUST 8  /* bound of a thread's trust */

/*
 * A page of the chunk was missed. Returns the pages that the node is going to use with it. away:
 * pages that it may have to fetch. *trust, 0 at first: of the thread, the results of its tests and
 * samples. Below 0, no page joins that was not missed. samples: the node samples.
 */
uint16_t footprint_missed(struct footprint *at, unsigned int page, uint16_t away, bool samples,
			  int8_t *trust);
/* Is this round a sample? */
bool footprint_sampled(const struct footprint *at);
/* A node that samples drops the page. touched: only in a sample. */
void footprint_dropped(struct footprint *at, unsigned int page, bool touched);
/* In a node that samples: does it seem not to use the page? False before the first sample. */
bool footprint_denies(const struct footprint *at, unsigned int page);
/* The pages that the node is going to use if it uses one of them. */
uint16_t footprint_used(const struct footprint *at);
/* The same, as far as a test or a sample has shown it. */
uint16_t footprint_known(const struct footprint *at);
/* Another prediction has asked for the page: a test learns nothing of it. */
void footprint_asked(struct footprint *at, unsigned int page);

#endif
