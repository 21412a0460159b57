/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions on PCRE2, interpreted: compiling to machine code would take a page and more
 * for each of thousands of permissions, to match names of twenty bytes.
 *
 * Bytes are matched, not characters, as Erlang's re does without options. The limits bound the
 * steps, the depth and the memory of one match; they allow anything a sane pattern does with a name
 * and end the others within a few milliseconds. PCRE2's own limit on steps begins anew with each place
 * where a match may begin, so they are counted here, by callouts before each item. Broker thread: all
 * patterns share the memory to match in.
 */
#include "util/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>

#include "util/log.h"
#include "util/mem.h"

#define PATTERN_SIZE_MAX 65536
#define MATCH_STEPS_MAX 100000
#define MATCH_DEPTH_MAX 10000
#define MATCH_HEAP_MAX_KIB 2048

struct regex {
	pcre2_code *code; // owns
};

/* Made once, with the first pattern, and kept. */
static pcre2_compile_context *compile_context;
static pcre2_match_context *match_context;
static pcre2_match_data *match_data;

static void
make_contexts(void)
{
	if (match_data != NULL)
		return;
	compile_context = pcre2_compile_context_create(NULL);
	match_context = pcre2_match_context_create(NULL);
	/* Only whether it matches is asked, never where. */
	match_data = pcre2_match_data_create(1, NULL);
	assert(compile_context != NULL && match_context != NULL && match_data != NULL);
	pcre2_set_newline(compile_context, PCRE2_NEWLINE_LF);
	pcre2_set_max_pattern_length(compile_context, PATTERN_SIZE_MAX);
	pcre2_set_match_limit(match_context, MATCH_STEPS_MAX);
	pcre2_set_depth_limit(match_context, MATCH_DEPTH_MAX);
	pcre2_set_heap_limit(match_context, MATCH_HEAP_MAX_KIB);
}

static int
count_step(pcre2_callout_block *block, void *context)
{
	uint64_t *steps = context;

	(void)block;
	if (*steps == 0)
		return PCRE2_ERROR_CALLOUT;
	--*steps;
	return 0;
}

struct regex *
regex_new(struct bytes pattern, char *error, size_t room)
{
	PCRE2_SPTR text = pattern.n != 0 ? pattern.p : (PCRE2_SPTR) "";
	uint8_t reason[160];
	struct regex *regex;
	pcre2_code *code;
	size_t offset;
	int number;

	assert_thread(THREAD_BROKER);
	make_contexts();
	code = pcre2_compile(text, pattern.n, PCRE2_AUTO_CALLOUT, &number, &offset,
			     compile_context);
	if (code == NULL) {
		pcre2_get_error_message(number, reason, sizeof(reason));
		snprintf(error, room, "%s at offset %zu", (char *)reason, offset);
		return NULL;
	}
	regex = xmalloc(sizeof(*regex));
	regex->code = code;
	return regex;
}

void
regex_free(struct regex **regex)
{
	if (*regex == NULL)
		return;
	pcre2_code_free((*regex)->code);
	xfree(*regex);
	*regex = NULL;
}

/* What PCRE2 says. */
static int
match(const struct regex *regex, struct bytes subject, uint64_t *steps)
{
	PCRE2_SPTR text = subject.n != 0 ? subject.p : (PCRE2_SPTR) "";

	assert_thread(THREAD_BROKER);
	pcre2_set_callout(match_context, count_step, steps);
	return pcre2_match(regex->code, text, subject.n, 0, 0, match_data, match_context);
}

enum regex_result
regex_match(const struct regex *regex, struct bytes subject, uint64_t *steps)
{
	int result = match(regex, subject, steps);

	if (result >= 0)
		return REGEX_YES;
	return result == PCRE2_ERROR_NOMATCH ? REGEX_NO : REGEX_GAVE_UP;
}

bool
regex_matches(const struct regex *regex, struct bytes subject)
{
	uint64_t steps = MATCH_STEPS_MAX;
	int result = match(regex, subject, &steps);

	if (result < 0 && result != PCRE2_ERROR_NOMATCH)
		log_warn("A regular expression hit a limit and counts as not matching: "
			 "subject=%.*s pcre_error=%d",
			 BYTES_ARGS(subject), result);
	return result >= 0;
}
