/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An intrusive doubly linked list that counts its members. The link lives inside the member's
 * struct; a link that is on no list has next NULL, so membership can be asked and asserted.
 * Not thread-safe: a list belongs to one thread.
 */
#pragma once

#include "util/base.h"

struct list_link {
	struct list_link *next; // NULL when on no list
	struct list_link *prev;
};

struct list {
	struct list_link head; // head.next is the first member, head.prev the last
	size_t count;
};

static inline void
list_init(struct list *list)
{
	list->head.next = list->head.prev = &list->head;
	list->count = 0;
}

static inline bool
list_empty(const struct list *list)
{
	return list->count == 0;
}

static inline bool
list_linked(const struct list_link *link)
{
	return link->next != NULL;
}

static inline void
list_insert_between(struct list *list, struct list_link *link, struct list_link *prev,
		    struct list_link *next)
{
	assert(link->next == NULL);
	link->prev = prev;
	link->next = next;
	prev->next = link;
	next->prev = link;
	list->count++;
}

static inline void
list_append(struct list *list, struct list_link *link)
{
	list_insert_between(list, link, list->head.prev, &list->head);
}

static inline void
list_prepend(struct list *list, struct list_link *link)
{
	list_insert_between(list, link, &list->head, list->head.next);
}

/* Puts link before the member where, which must be on list. */
static inline void
list_insert_before(struct list *list, struct list_link *where, struct list_link *link)
{
	list_insert_between(list, link, where->prev, where);
}

/* Takes link off list; it must be on it. */
static inline void
list_remove(struct list *list, struct list_link *link)
{
	assert(link->next != NULL);
	assert(list->count > 0);
	link->prev->next = link->next;
	link->next->prev = link->prev;
	link->next = link->prev = NULL;
	list->count--;
}

/* Takes the first member off list and returns its link, NULL when empty. */
static inline struct list_link *
list_pop(struct list *list)
{
	struct list_link *link = list->head.next;

	if (list->count == 0)
		return NULL;
	list_remove(list, link);
	return link;
}

/* The first member as type, NULL when empty. */
#define list_first(list, type, member) \
	((list)->count == 0 ? NULL : container_of((list)->head.next, type, member))

/* Walks the members; the body may not unlink the current one. */
#define list_for_each(list, item, type, member)                        \
	for (struct list_link *item##_link = (list)->head.next;        \
	     item##_link != &(list)->head &&                           \
	     ((item) = container_of(item##_link, type, member), true); \
	     item##_link = item##_link->next)

/* Walks the members; the body may unlink and free the current one. */
#define list_for_each_safe(list, item, type, member)                                              \
	for (struct list_link *item##_link = (list)->head.next, *item##_next = item##_link->next; \
	     item##_link != &(list)->head &&                                                      \
	     ((item) = container_of(item##_link, type, member), true);                            \
	     item##_link = item##_next, item##_next = item##_link->next)
