/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rules.h - dsm_uapi_rules.h as a table to walk: for the generator of arguments (fuzz.c) and for
 * scripts/call-table.
 */
#ifndef KMOD_RULES_H
#define KMOD_RULES_H

#include <dsm_uapi_rules.h>
#include <stddef.h>
#include <stdint.h>

enum dsm_way { ARG_IN, ARG_OUT, ARG_INOUT };
enum dsm_kind {
	ARG_ANY,
	ARG_ZERO,
	ARG_IS,
	ARG_NUMBER,
	ARG_SIGNED,
	ARG_EACH,
	ARG_FLAGS,
	ARG_ONE_OF,
	ARG_MULTIPLE,
	ARG_INDEX,
	ARG_INDEX_OR,
	ARG_RANK,
	ARG_PEER,
	ARG_SIZE,
	ARG_OBJECT,
	ARG_OWN_RANK,
	ARG_GROUP,
	ARG_BARRIER,
	ARG_PAGE,
	ARG_PAGES,
	ARG_POINTER,
	ARG_NONZERO,
	ARG_TEXT,
	ARG_KINDS
};

struct dsm_rule {
	const char *name;
	uint16_t at, size; /* of the field */
	uint8_t way, kind;
	int64_t a;
	uint64_t b;
};

struct dsm_variant {
	const char *name;
	unsigned long cmd;
	const struct dsm_rule *rules;
	unsigned int n;
	uint16_t size; /* of the struct */
};

/* Each field of a struct, in their order; those without a row are 0. */
#define ARG_PLACE_OF(s, field) s##_##field,
#define ARG_PLACES(s) enum { DSM_FIELDS_##s(ARG_PLACE_OF, s) };
/* clang-format off */
ARG_PLACES(dsm_ioc_info) ARG_PLACES(dsm_ioc_window) ARG_PLACES(dsm_ioc_attach) ARG_PLACES(dsm_prot_item) ARG_PLACES(dsm_ioc_protect) ARG_PLACES(dsm_ioc_join)
ARG_PLACES(dsm_ioc_key) ARG_PLACES(dsm_ioc_connect) ARG_PLACES(dsm_address) ARG_PLACES(dsm_address_qp) ARG_PLACES(dsm_ioc_region) ARG_PLACES(dsm_owner)
ARG_PLACES(dsm_ioc_call) ARG_PLACES(dsm_ioc_range) ARG_PLACES(dsm_ioc_stats) ARG_PLACES(dsm_ioc_hot) ARG_PLACES(dsm_ioc_lost) ARG_PLACES(dsm_ioc_queues)
/* clang-format on */
#define ARG_FIELD(s, field) ARG_ROW(s, field, IN, ZERO, 0, 0)
#define ARG_ROW(s, field, way, kind, a, b)                \
	[s##_##field] = { #field,                         \
			  offsetof(struct s, field),      \
			  sizeof(((struct s *)0)->field), \
			  ARG_##way,                      \
			  ARG_##kind,                     \
			  (int64_t)(a),                   \
			  (uint64_t)(b) },
#define ARG_ROWS(call, variant, s)                                         \
	static const struct dsm_rule rules_##variant[] = { DSM_FIELDS_##s( \
		ARG_FIELD, s) DSM_RULES_##variant(ARG_ROW, s) };
#define ARG_VARIANT(call, variant, s)                \
	{ #variant, DSM_IOC_##call, rules_##variant, \
	  sizeof(rules_##variant) / sizeof(struct dsm_rule), sizeof(struct s) },

/* clang-format off */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
DSM_VARIANTS(ARG_ROWS)
DSM_POINTEES(ARG_ROWS)
#pragma GCC diagnostic pop
static const struct dsm_variant dsm_variants[] = {
	DSM_VARIANTS(ARG_VARIANT)
	DSM_POINTEES(ARG_VARIANT) /* no arguments, but what they point to */
};
/* clang-format on */
#define ARG_ONE(call, variant, s) +1
enum {
	dsm_narguments = 0 DSM_VARIANTS(ARG_ONE),
	dsm_nvariants = dsm_narguments DSM_POINTEES(ARG_ONE)
};

/* The place of each in dsm_variants. */
#define ARG_PLACE(call, variant, s) VARIANT_##variant,
enum dsm_variant_place { DSM_VARIANTS(ARG_PLACE) DSM_POINTEES(ARG_PLACE) };

#endif
