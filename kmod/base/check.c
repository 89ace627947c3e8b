// SPDX-License-Identifier: GPL-2.0
/*
 * check.c - dsm_uapi_rules.h as code: a function for each variant of an argument, with a test for
 * each row, and for other fields.
 */
#include <linux/kernel.h>
#include <linux/nospec.h>
#include <linux/string.h>

#include "check.h"
#include "core/sync.h"

/* The interface's numbers are the core's. */
static_assert(DSM_SYNC_CREATE == SOP_CREATE && DSM_SYNC_CAS == SOP_CAS);
static_assert(DSM_SYNC_WAITS ==
	      (DSM_BIT(SOP_RDLOCK) | DSM_BIT(SOP_WRLOCK) | DSM_BIT(SOP_WAIT) |
	       DSM_BIT(SOP_ENQUEUE) | DSM_BIT(SOP_MEET)));
static_assert(DSM_SYNC_ONCE ==
	      (DSM_BIT(SYNC_OPS) - 1 - DSM_BIT(SOP_CREATE) - DSM_SYNC_WAITS - DSM_BIT(SOP_CANCEL) -
	       DSM_BIT(SOP_CAS)));
static_assert(DSM_OBJECT_INDEX == SYNC_INDEX_MAX);
static_assert(DSM_SYNC_KIND_SEM == SYNC_SEM && DSM_SYNC_KIND_MAX == SYNC_ATOMIC);

static bool is_each(const s16 *v, unsigned int n, s64 a, s64 b)
{
	while (n--)
		if (v[n] < a || v[n] > b)
			return false;
	return true;
}

static __always_inline bool is_zero(const void *at, size_t size)
{
	u64 v = 0;

	if (size > sizeof(v))
		return !memchr_inv(at, 0, size);
	memcpy(&v, at, size);
	return !v;
}

static bool is_group(u64 mask, const struct limits *x)
{
	return !mask || ((x->ranks >= 64 || !(mask >> x->ranks)) && mask >> x->me & 1);
}

/* Clamps the field in place (array_index_nospec()): later code uses it as an index. */
#define INDEXED(field, limit)                                                                   \
	({                                                                                      \
		const u64 limit_ = (limit);                                                     \
		const bool ok_ = (u64)(field) < limit_;                                         \
		if (ok_)                                                                        \
			(field) = (__typeof__(field))array_index_nospec((unsigned long)(field), \
									(unsigned long)limit_); \
		ok_;                                                                            \
	})

/* x: the limits, p: the struct. dsm_uapi_rules.h describes the kinds. */
#define IS_ANY(f, a, b) true
#define IS_POINTER(f, a, b) true
#define IS_IS(f, a, b) (p->f == (a))
#define IS_NUMBER(f, a, b) ((u64)p->f >= (u64)(a) && (u64)p->f <= (u64)(b))
#define IS_SIGNED(f, a, b) ((s64)p->f >= (a) && (s64)p->f <= (b))
#define IS_EACH(f, a, b) is_each(p->f, ARRAY_SIZE(p->f), a, b)
#define IS_FLAGS(f, a, b) (!(p->f & ~(u64)(b)))
#define IS_ONE_OF(f, a, b) (p->f < 64 && (u64)(b) >> p->f & 1)
#define IS_MULTIPLE(f, a, b) (p->f && !(p->f % (a)) && p->f <= (b))
#define IS_INDEX(f, a, b) INDEXED(p->f, b)
#define IS_INDEX_OR(f, a, b) (p->f == (a) || INDEXED(p->f, b))
#define IS_RANK(f, a, b) INDEXED(p->f, x->ranks)
#define IS_PEER(f, a, b) (p->f == x->peer)
#define IS_SIZE(f, a, b) (p->f == x->ranks)
#define IS_OBJECT(f, a, b) ((p->f & (b)) != 0)
#define IS_OWN_RANK(f, a, b) (p->f < p->size)
#define IS_GROUP(f, a, b) is_group(p->f, x)
#define IS_BARRIER(f, a, b) (p->f && INDEXED(p->f, (u32)x->ranks * (b)))
#define IS_PAGE(f, a, b) (!(p->f % (a)) && INDEXED(p->f, x->pages))
#define IS_PAGES(f, a, b) (p->f && p->f <= x->pages && p->page <= x->pages - p->f && !(p->f % (a)))
#define IS_NONZERO(f, a, b) (memchr_inv(p->f, 0, sizeof(p->f)) != NULL)
#define IS_TEXT(f, a, b) (memchr(p->f, 0, sizeof(p->f)) != NULL)

#define FIELD(s, field) bool field;
#define USED(s, field, way, kind, a, b) .field = true,
#define ROW(s, field, way, kind, a, b) &&IS_##kind(field, a, b)
#define OTHER(s, field) &&(used.field || is_zero(&p->field, sizeof(p->field)))
#define VARIANT(call, variant, s)                                                 \
	static bool is_##variant(const struct limits *x, struct s *p)             \
	{                                                                         \
		static const struct {                                             \
			DSM_FIELDS_##s(FIELD, s)                                  \
		} used = { DSM_RULES_##variant(USED, s) };                        \
                                                                                  \
		return true DSM_RULES_##variant(ROW, s) DSM_FIELDS_##s(OTHER, s); \
	}
DSM_VARIANTS(VARIANT)
DSM_POINTEES(VARIANT)

#define TRY(call, variant, s)                                    \
	if (nr == _IOC_NR(DSM_IOC_##call) && is_##variant(x, p)) \
		return true;

bool check_call(unsigned int nr, const struct limits *x, void *p)
{
	DSM_VARIANTS(TRY)
	return false;
}

bool check_prot_item(const struct limits *limits, struct dsm_prot_item *item)
{
	return is_PROT_ITEM(limits, item);
}

bool check_owner(const struct limits *limits, struct dsm_owner *owner)
{
	return is_OWNER(limits, owner);
}

bool check_address(const struct limits *limits, bool roce, struct dsm_address *address)
{
	unsigned int rank, class;
	bool ok = roce ? is_ADDRESS_ROCE(limits, address) : is_ADDRESS_IB(limits, address);

	for (rank = 0; rank < limits->ranks; rank++)
		for (class = 0; class < CLASS_MAX && ok; class ++) {
			struct dsm_address_qp *qp = address_qp(address, (u16)rank, class);

			ok = rank == limits->me ? is_ADDRESS_QP(limits, qp)
						: is_OTHER_QP(limits, qp);
		}
	return ok;
}
