// SPDX-License-Identifier: BSD-2-Clause
/*
 * texts.c - functions on text that keep a state or return memory of their own; locales, patterns,
 * options, messages.
 */
#define _GNU_SOURCE
#define _REGEX_RE_COMP
#include "cases.h"

#include <crypt.h>
#include <ctype.h>
#include <execinfo.h>
#include <getopt.h>
#include <glob.h>
#include <iconv.h>
#include <langinfo.h>
#include <libgen.h>
#include <libintl.h>
#include <locale.h>
#include <math.h>
#include <obstack.h>
#include <regex.h>
#include <syslog.h>
#include <wchar.h>
#include <wordexp.h>

/* ---- state between calls, and what is returned ----------------------------------------------- */

static char words[64];

static void *next_word(void *arg)
{
	const char *word = strtok(arg, " ,");

	say("%s", word ? word : "none");
	return NULL;
}

CASE(tokens, EACH)
{
	char *rest = NULL, *parts = words, path[] = "/usr/lib/file.c", other[] = "/usr/lib/file.c";

	strcpy(words, "one two,three four");
	next_word(words);
	apart(next_word, NULL);
	next_word(NULL);
	apart(next_word, NULL);
	next_word(NULL);
	strcpy(words, "a:b");
	say("%s", strtok_r(words, ":", &rest));
	say("%s", rest);
	strcpy(words, "x::y");
	say("%s", strsep(&parts, ":"));
	say("%s", parts);
	say("%s", basename(path));
	say("%s", dirname(other));
}

static const char *text;

static void *describe(void *arg)
{
	text = strerror(*(int *)arg);
	say("%s", text);
	return NULL;
}

static void *describe_signal(void *arg)
{
	text = strsignal(*(int *)arg);
	say("%s", text);
	return NULL;
}

CASE(descriptions, EACH)
{
	int known = ENOENT, unknown = 4321, sig = SIGUSR1, strange = 12345;
	char buffer[64];

	apart(describe, &known);
	say("%s", text);
	apart(describe, &unknown); /* its text ends with the thread */
	apart(describe_signal, &sig);
	say("%s", text);
	apart(describe_signal, &strange);
	say("%s", strerror_r(unknown, buffer, sizeof(buffer)));
	say("%s %s", strerrordesc_np(EPERM), sigabbrev_np(SIGINT));
}

static int point, negative;

static void *convert(void *arg)
{
	text = ecvt(-123.456, 5, &point, &negative);
	return arg;
}

static void *convert_fixed(void *arg)
{
	text = fcvt(0.25, 3, &point, &negative);
	return arg;
}

CASE(conversions, EACH)
{
	char buffer[64];

	apart(convert, NULL);
	say("%s %d %d", text, point, negative);
	apart(convert_fixed, NULL);
	say("%s %d %d", text, point, negative);
	say("%s", gcvt(1.5, 4, buffer));
	say("%s", qecvt(1234.5L, 6, &point, &negative));
	say("%s", qfcvt(0.125L, 2, &point, &negative));
	say("%ld", a64l("ab/"));
	say("%s", l64a(100000));
	say("%d", ecvt_r(2.5, 3, &point, &negative, buffer, sizeof(buffer)));
}

static void *encode(void *arg)
{
	text = l64a(*(long *)arg);
	return NULL;
}

CASE(encoded, EACH)
{
	long number = 987654321;

	apart(encode, &number);
	say("%s %d", text, a64l(text) == number);
}

CASE(gamma_sign, EACH)
{
	int sign = 0;

	say("%.3f", lgamma(-0.5));
	say("%d", signgam);
	say("%.3f", lgamma_r(3.5, &sign));
	say("%d", sign);
	say("%.3f", lgamma(4.0));
	say("%d", signgam);
	say("%.3f", gamma(-0.5));
	say("%d", signgam);
}

static void *gamma_there(void *arg)
{
	say("%.3f", lgamma(4.0));
	return arg;
}

CASE(gamma_sign_elsewhere, ALONE)
{
	signgam = -1;
	apart(gamma_there, NULL);
	say("%d", signgam);
}

/* ---- options --------------------------------------------------------------------------------- */

static char *arguments[] = { "program", "-a", "-bvalue", "--long=1", "rest", NULL };

static void *next_option(void *arg)
{
	static const struct option options[] = { { "long", required_argument, NULL, 'l' },
						 { NULL, 0, NULL, 0 } };
	const int got = getopt_long(5, arguments, "ab:", options, NULL);

	say("%d %s", got, got == 'b' || got == 'l' ? optarg : "-");
	return arg;
}

static void *next_short(void *arg)
{
	const int got = getopt(3, arguments, "ab:");

	say("%d %d", got, optind);
	return arg;
}

CASE(options_parsed, EACH)
{
	char suboptions[] = "size=3,fast", *at = suboptions, *value = NULL;
	char *const names[] = { "fast", "size", NULL };

	optind = 0;
	opterr = 0;
	next_option(NULL);
	apart(next_option, NULL);
	next_option(NULL);
	next_option(NULL);
	say("%d", optind);
	optind = 1;
	next_short(NULL);
	apart(next_short, NULL);
	next_short(NULL);
	say("%d", getsubopt(&at, names, &value));
	say("%s", value);
	say("%d", getsubopt(&at, names, &value));
}

/* ---- locale ---------------------------------------------------------------------------------- */

static void *say_locale(void *arg)
{
	say("%s %s", setlocale(LC_ALL, NULL), nl_langinfo(CODESET));
	say("%s %zu", localeconv()->decimal_point, (size_t)MB_CUR_MAX);
	return arg;
}

CASE(locale_set, EACH)
{
	say("%s", setlocale(LC_ALL, "C.UTF-8"));
	say_locale(NULL);
	apart(say_locale, NULL);
	say("%d", setlocale(LC_ALL, "no_SUCH") == NULL);
	say("%d", mblen("\303\251", 2));
	say("%d", mblen(NULL, 0));
	say("%s", setlocale(LC_ALL, "C"));
	apart(say_locale, NULL);
}

static void *say_class(void *locale)
{
	say("%d", toupper_l('a', (locale_t)locale));
	return NULL;
}

CASE(locale_of_thread, EACH)
{
	const locale_t own = newlocale(LC_ALL_MASK, "C.UTF-8", NULL);
	locale_t before;

	say("%d", own != NULL);
	before = uselocale(own);
	say("%s", nl_langinfo(CODESET));
	say("%s", nl_langinfo_l(CODESET, own));
	say_class(own);
	say("%d", uselocale(before) == own);
	freelocale(own);
	say("%d", newlocale(LC_ALL_MASK, "no_SUCH", NULL) == NULL);
	say("%s", error_name(errno));
}

static void *say_domain(void *arg)
{
	say("%s", textdomain(NULL));
	say("%s", bindtextdomain("posix", NULL));
	say("%s", bind_textdomain_codeset("posix", NULL));
	say("%s %s", gettext("no translation"), dgettext("posix", "none"));
	say("%s", ngettext("one", "many", 2));
	return arg;
}

CASE(domains, EACH)
{
	say("%s", textdomain("posix"));
	say("%s", bindtextdomain("posix", "/tmp"));
	say("%s", bind_textdomain_codeset("posix", "UTF-8"));
	say_domain(NULL);
	apart(say_domain, NULL);
	textdomain("messages");
}

CASE(converted_sets, EACH)
{
	char in[] = "caf\303\251", out[32], *from = in, *to = out;
	size_t in_left = 5, out_left = sizeof(out);
	iconv_t set = iconv_open("ISO-8859-1", "UTF-8");

	say("%d", set != (iconv_t)-1);
	if (set == (iconv_t)-1)
		return;
	say("%zu", iconv(set, &from, &in_left, &to, &out_left));
	say("%zu %d", sizeof(out) - out_left, (unsigned char)out[3]);
	say_call(iconv_close(set));
}

/* ---- patterns -------------------------------------------------------------------------------- */

CASE(expressions, EACH)
{
	regmatch_t match[2];
	char message[64];
	regex_t regex;

	say("%d", regcomp(&regex, "a(b+)c", REG_EXTENDED));
	say("%d", regexec(&regex, "xxabbc", 2, match, 0));
	say("%d %d", (int)match[1].rm_so, (int)match[1].rm_eo);
	say("%d", regexec(&regex, "none", 0, NULL, 0));
	regfree(&regex);
	say("%d", regcomp(&regex, "a(", REG_EXTENDED) != 0);
	say("%d", regerror(REG_EPAREN, NULL, message, sizeof(message)) > 0);
	say("%d", re_comp("b[0-9]") == NULL);
	say("%d %d", re_exec("ab7"), re_exec("ab"));
}

CASE(expansions, EACH)
{
	wordexp_t expanded;
	glob_t found;

	say("%d", glob("/etc/pass*d", 0, NULL, &found));
	say("%zu %s", found.gl_pathc, found.gl_pathv[0]);
	globfree(&found);
	say("%d", glob("/no/such/*", 0, NULL, &found));
	say("%d", wordexp("one 'two three' $((1 + 2))", &expanded, 0));
	say("%zu %s %s", expanded.we_wordc, expanded.we_wordv[1], expanded.we_wordv[2]);
	wordfree(&expanded);
}

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free

CASE(obstacks, EACH)
{
	struct obstack stack;
	char *p;

	obstack_init(&stack);
	p = obstack_copy0(&stack, "grown", 5);
	say("%s", p);
	say("%d", obstack_printf(&stack, "%d", 42));
	obstack_1grow(&stack, 0);
	say("%s", (char *)obstack_finish(&stack));
	obstack_free(&stack, NULL);
}

/* ---- others ---------------------------------------------------------------------------------- */

CASE(encrypted, EACH)
{
	const char *got = crypt("secret", "$6$salt$");

	say("%.20s", got);
}

/* Only programs that were linked long ago have it: new ones are not given this version. */
extern void setkey(const char *);
__asm__(".symver setkey, setkey@GLIBC_2.2.5");

CASE(encryption_key, EACH)
{
	char key[64] = { 0 };

	setkey(key);
	say("%d", key[0]);
}

CASE(logging, EACH)
{
	openlog("posix", LOG_PID | LOG_NDELAY, LOG_USER);
	say("%d", setlogmask(LOG_UPTO(LOG_ERR)));
	syslog(LOG_DEBUG, "not written");
	say("%d", setlogmask(LOG_UPTO(LOG_DEBUG)));
	closelog();
}

CASE(backtraces, EACH)
{
	void *frames[8];
	const int n = backtrace(frames, 8);
	char **lines = backtrace_symbols(frames, n);

	say("%d %d", n > 1, lines != NULL);
	free(lines);
}

CASE(wide_texts, EACH)
{
	wchar_t wide[32], *rest = NULL;
	char narrow[32];
	mbstate_t state = { 0 };
	const char *from = "abc";

	say("%zu", mbstowcs(wide, "words here", 32));
	say("%ls", wcstok(wide, L" ", &rest));
	say("%zu", wcstombs(narrow, rest, sizeof(narrow)));
	say("%s", narrow);
	say("%zu", mbsrtowcs(wide, &from, 32, &state));
	say("%zu", mbrlen("a", 1, NULL));
	say("%d", mbtowc(NULL, NULL, 0));
	say("%d", wctomb(narrow, L'x'));
}
