/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * call-table.c - prints dsm(4)'s table of arguments from dsm_uapi_rules.h, as tbl(1) wants it.
 * Fields that are 0 on input, and those that are only written, have no line.
 */
#include <stdbool.h>
#include <stdio.h>

#include "tests/kmod/rules.h"

static void number(unsigned long long n)
{
	if (n >= 0x7fffffff)
		printf("%#llx", n);
	else
		printf("%llu", n);
}

static void bits(const struct dsm_rule *r)
{
	const char *sep = "";
	unsigned int i, end;

	for (i = 0; i < 64; i = end) {
		for (end = i + 1; i < end && r->b >> i & 1 && end < 64 && r->b >> end & 1; end++)
			;
		if (!(r->b >> i & 1))
			continue;
		printf(end - i > 1 ? "%s%u\\(en%u" : "%s%u", sep, i, end - 1);
		sep = ", ";
	}
}

static void what(const struct dsm_rule *r)
{
	switch (r->kind) {
	case ARG_ANY: printf("any"); break;
	case ARG_IS: number((unsigned long long)r->a); break;
	case ARG_NUMBER:
		number((unsigned long long)r->a);
		printf("\\(en");
		number(r->b);
		break;
	case ARG_SIGNED:
	case ARG_EACH:
		printf("%s\\-%lld\\(en", r->kind == ARG_EACH ? "each " : "", -(long long)r->a);
		number(r->b);
		break;
	case ARG_FLAGS: printf("bits of %#llx", (unsigned long long)r->b); break;
	case ARG_ONE_OF: bits(r); break;
	case ARG_MULTIPLE: /* all are of powers of two */
		printf("(1\\(en%llu) << %d", (unsigned long long)r->b / (unsigned long long)r->a,
		       __builtin_ctzll((unsigned long long)r->a));
		break;
	case ARG_INDEX:
		number(0);
		printf("\\(en");
		number(r->b - 1);
		break;
	case ARG_INDEX_OR:
		number(0);
		printf("\\(en");
		number(r->b - 1);
		printf(", ");
		number((unsigned long long)r->a);
		break;
	case ARG_RANK: printf("rank"); break;
	case ARG_PEER: printf("rank of CONNECT"); break;
	case ARG_SIZE: printf("ranks of the job"); break;
	case ARG_OWN_RANK: printf("below size"); break;
	case ARG_NONZERO: printf("bytes, not all 0"); break;
	case ARG_OBJECT: printf("a bit of %#llx", (unsigned long long)r->b); break;
	case ARG_GROUP: printf("mask of ranks"); break;
	case ARG_BARRIER: printf("not 0, %llu a rank", (unsigned long long)r->b); break;
	case ARG_PAGE: printf(r->a > 1 ? "multiple of %lld" : "page", (long long)r->a); break;
	case ARG_PAGES: printf(r->a > 1 ? "multiple of %lld" : "pages", (long long)r->a); break;
	case ARG_POINTER: printf("address"); break;
	case ARG_TEXT: printf("string"); break;
	default: printf("?");
	}
}

static void variant(const struct dsm_variant *v)
{
	bool any = false;
	unsigned int i;

	printf("\\fB%s\\fP", v->name);
	for (i = 0; i < v->n; i++) {
		if (v->rules[i].way == ARG_OUT || v->rules[i].kind == ARG_ZERO)
			continue;
		printf("\t%s\t", v->rules[i].name);
		what(&v->rules[i]);
		putchar('\n');
		any = true;
	}
	if (!any)
		puts("\t\t(only written)");
}

int main(void)
{
	unsigned int i;

	puts(".TS\nl1 l1 l.\n\\fBArgument\\fP\t\\fBField\\fP\t\\fBValues\\fP");
	for (i = 0; i < dsm_nvariants; i++)
		variant(&dsm_variants[i]);
	puts(".TE");
	return 0;
}
