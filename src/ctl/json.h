/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON for records: names are text where they are UTF-8, else base64.
 */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "store/definition.h"
#include "store/record.h"
#include "util/bytes.h"

#include "image.h"

/* The object gets key with the text, or key_base64 when it is not UTF-8. */
void json_put_text(json_t *object, const char *key, struct bytes text);
/* As above, but only when it is not empty. */
void json_put_some(json_t *object, const char *key, struct bytes text);
void json_put_base64(json_t *object, const char *key, struct bytes octets);
void json_put_number(json_t *object, const char *key, uint64_t number);
void json_put_string(json_t *object, const char *key, const char *string);
/* What goes with a message beside its properties: tagged values. */
void json_put_values(json_t *object, struct bytes extension);
/* The members of a definition. */
void json_put_definition(json_t *object, const struct definition *definition);
/* Which queue it is: its name, or for a part its owner's and which one. */
void json_put_queue(json_t *object, const struct image_queue *queue);
/* Prints the object on one line and frees it. */
void json_print(FILE *out, json_t *object);
