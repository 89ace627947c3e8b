// SPDX-License-Identifier: BSD-2-Clause
/*
 * patterns.c - regular expressions that one thread compiles, threads of all ranks use at once, and
 * another one frees.
 */
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "steps.h"

enum { THREADS = 5, TURNS = 400 };

static regex_t words, lines, any, handed;

static void *match_all(void *arg)
{
	regmatch_t m[3];
	int i;

	for (i = 0; i < 200; i++) {
		check("groups",
		      !regexec(&words, "say HELLO world", 3, m, 0) && m[0].rm_so == 4 &&
			      m[0].rm_eo == 15 && m[1].rm_so == 4 && m[1].rm_eo == 9 &&
			      m[2].rm_so == 10);
		check("no match", regexec(&words, "hello, world", 3, m, 0) == REG_NOMATCH);
		check("lines",
		      !regexec(&lines, "one\ntwo\nthree", 1, m, 0) && m[0].rm_so == 4 &&
			      m[0].rm_eo == 7);
		check("nothing reported",
		      !regexec(&any, "xaay", 0, NULL, 0) && regexec(&any, "xay", 0, NULL, 0));
		m[0].rm_so = 4;
		m[0].rm_eo = 7;
		check("part", regexec(&any, "aaaabcdaa", 1, m, REG_STARTEND) == REG_NOMATCH);
		m[0].rm_so = 4;
		m[0].rm_eo = 15;
		check("a part",
		      !regexec(&words, "say hello world, hello", 1, m, REG_STARTEND) &&
			      m[0].rm_so == 4 && m[0].rm_eo == 15);
	}
	check("groups counted", words.re_nsub == 2 && lines.re_nsub == 0);
	return arg;
}

/* Patterns of one length: most are where a freed one was, of which other ranks know nothing. */
static void *hand_over(void *arg)
{
	const int first = !arg;
	char text[32], other[32];
	int i;

	for (i = 0; i < TURNS; i++) {
		snprintf(text, sizeof(text), "^(turn%03d)+$", i);
		snprintf(other, sizeof(other), "turn%03d", i ^ 1);
		if (first) {
			until(2 * i);
			check("regcomp", !regcomp(&handed, text, REG_EXTENDED));
			go_to(2 * i + 1);
			continue;
		}
		until(2 * i + 1);
		text[9] = 0;
		check("handed",
		      !regexec(&handed, text + 2, 0, NULL, 0) &&
			      regexec(&handed, other, 0, NULL, 0) == REG_NOMATCH);
		regfree(&handed);
		go_to(2 * i + 2);
	}
	return NULL;
}

int main(void)
{
	char text[64];
	regex_t wrong;
	int err;

	check("words", !regcomp(&words, "(hello) (w[a-z]+d)$", REG_EXTENDED | REG_ICASE));
	check("lines", !regcomp(&lines, "^t[^a-h]*$", REG_NEWLINE));
	check("any", !regcomp(&any, "\\(a\\)\\1", REG_NOSUB));
	in_threads(THREADS, match_all);
	match_all(NULL);
	in_threads(2, hand_over);
	memset(&wrong, 1, sizeof(wrong));
	err = regcomp(&wrong, "a(b", REG_EXTENDED);
	regerror(err, &wrong, text, sizeof(text));
	tell("%d %s\n", err, text);
	regfree(&wrong);
	regfree(&words);
	regfree(&lines);
	regfree(&any);
	return conclude();
}
