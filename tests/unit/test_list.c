/* SPDX-License-Identifier: Apache-2.0 */
/* The intrusive list: order, count, membership, walking with and without removal. */
#include "util/list.h"

#include "lib/runner.h"

struct member {
	int number;	       // what it is told apart by
	struct list_link link; // in the list under test
};

static struct list list;
static struct member members[5];

static void
set_up(void)
{
	list_init(&list);
	for (int i = 0; i < 5; i++)
		members[i] = (struct member){.number = i};
}

/* The numbers of the members in order as one decimal number, walked forwards and checked
 * backwards. */
static int
content(void)
{
	struct member *member;
	int digits = 0;
	size_t count = 0;

	list_for_each (&list, member, struct member, link) {
		digits = digits * 10 + member->number;
		ck_assert_ptr_eq(member->link.next->prev, &member->link);
		ck_assert_ptr_eq(member->link.prev->next, &member->link);
		count++;
	}
	ck_assert_uint_eq(count, list.count);
	return digits;
}

START_TEST(test_new_list_is_empty)
{
	ck_assert(list_empty(&list));
	ck_assert_ptr_null(list_first(&list, struct member, link));
	ck_assert_ptr_null(list_pop(&list));
	ck_assert_int_eq(content(), 0);
}
END_TEST

START_TEST(test_append_and_prepend_keep_order)
{
	list_append(&list, &members[2].link);
	list_append(&list, &members[3].link);
	list_prepend(&list, &members[1].link);
	ck_assert_int_eq(content(), 123);
	ck_assert_ptr_eq(list_first(&list, struct member, link), &members[1]);
}
END_TEST

START_TEST(test_insert_before_member)
{
	list_append(&list, &members[1].link);
	list_append(&list, &members[3].link);
	list_insert_before(&list, &members[3].link, &members[2].link);
	list_insert_before(&list, &members[1].link, &members[4].link);
	ck_assert_int_eq(content(), 4123);
}
END_TEST

START_TEST(test_link_knows_whether_it_is_on_a_list)
{
	ck_assert(!list_linked(&members[1].link));
	list_append(&list, &members[1].link);
	ck_assert(list_linked(&members[1].link));
	list_remove(&list, &members[1].link);
	ck_assert(!list_linked(&members[1].link));
	ck_assert(list_empty(&list));
	list_append(&list, &members[1].link);
	ck_assert_int_eq(content(), 1);
}
END_TEST

START_TEST(test_pop_takes_the_first)
{
	for (int i = 1; i < 4; i++)
		list_append(&list, &members[i].link);
	ck_assert_ptr_eq(list_pop(&list), &members[1].link);
	ck_assert(!list_linked(&members[1].link));
	ck_assert_int_eq(content(), 23);
}
END_TEST

START_TEST(test_safe_walk_may_remove_current)
{
	struct member *member;

	for (int i = 0; i < 5; i++)
		list_append(&list, &members[i].link);
	list_for_each_safe (&list, member, struct member, link) {
		if (member->number % 2 == 0)
			list_remove(&list, &member->link);
	}
	ck_assert_int_eq(content(), 13);
}
END_TEST

TESTS_WITH("list", set_up, NULL, test_new_list_is_empty, test_append_and_prepend_keep_order,
	   test_insert_before_member, test_link_knows_whether_it_is_on_a_list,
	   test_pop_takes_the_first, test_safe_walk_may_remove_current)
