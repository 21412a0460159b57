/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings into a configuration: every key must be known, each row of the table gets its texts or its
 * default, and at the end what two options must not say together is refused. Reloading builds a second
 * configuration and exchanges what may change.
 */
#include "server/config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "server/memory_limit.h"
#include "server/options.h"
#include "util/buf.h"
#include "util/mem.h"

#define SOURCE_DEFAULT "default"

const char *const config_san_types[] = {"dns", "ip", "email", "uri", "other_name"};

_Static_assert(MECHANISM_PLAIN == 1 && MECHANISM_AMQPLAIN == 2 && MECHANISM_EXTERNAL == 4,
	       "auth_mechanisms.* in options.def has this order");
_Static_assert(CERT_LOGIN_DISTINGUISHED_NAME == 0 && CERT_LOGIN_COMMON_NAME == 1 &&
		       CERT_LOGIN_SUBJECT_ALTERNATIVE_NAME == 2,
	       "ssl_cert_login_from in options.def has this order");

/* ---- building ---- */

/* Keys without a row are refused, but for those known to be without effect. */
static int
check_keys(struct config *config, char *error)
{
	const struct setting *ignore = settings_find(&config->settings, "config.ignore_unknown");
	bool lenient = ignore != NULL &&
		       (strcmp(ignore->value, "true") == 0 || strcmp(ignore->value, "on") == 0);

	for (size_t i = 0; i < config->settings.count; i++) {
		const struct setting *setting = &config->settings.items[i];

		if (option_find(setting->key, NULL) != NULL ||
		    option_find_ignored(setting->key) != NULL)
			continue;
		(void)snprintf(error, CONFIG_ERROR_MAX, "%s: unknown key %s; did you mean %s?",
			       setting->source, setting->key, option_nearest(setting->key));
		if (!lenient)
			return -EINVAL;
		(void)snprintf(error, CONFIG_ERROR_MAX, "unknown key %s is ignored", setting->key);
		settings_note(&config->settings, setting->source, error);
	}
	return 0;
}

/* Puts one text in, with its place in front of an error. */
static int
apply_text(struct config *config, const struct option_row *row, struct bytes star,
	   const char *source, const char *key, const char *value, char *error)
{
	char reason[OPTION_ERROR_MAX];
	int status = option_apply(row, config, star, value, reason);

	if (status < 0)
		(void)snprintf(error, CONFIG_ERROR_MAX, "%s: %s: %s", source, key, reason);
	else if (status > 0)
		settings_note(&config->settings, source, reason);
	return status < 0 ? status : 0;
}

static int
apply_default(struct config *config, const struct option_row *row, char *error)
{
	bool list = strchr(row->key, '*') != NULL;
	const char *rest = row->fallback;
	int status = 0;

	if (rest != NULL && !list)
		return apply_text(config, row, bytes_of(NULL, 0), SOURCE_DEFAULT, row->key, rest,
				  error);
	while (rest != NULL && *rest != '\0' && status == 0) {
		size_t n = strcspn(rest, " ");
		char *item = xstrndup(bytes_of(rest, n));

		status = apply_text(config, row, bytes_of(NULL, 0), SOURCE_DEFAULT, row->key, item,
				    error);
		xfree(item);
		rest += n;
		rest += strspn(rest, " ");
	}
	return status;
}

/* The rank of "listeners.tcp = none" for the row "listeners.tcp.*". */
static enum setting_rank
none_rank(const struct config *config, const struct option_row *row)
{
	size_t length = strlen(row->key);
	const struct setting *none;
	char *base;

	if (length < 2 || strcmp(row->key + length - 2, ".*") != 0)
		return SETTING_NONE;
	base = xstrndup(bytes_of(row->key, length - 2));
	none = settings_find(&config->settings, base);
	if (none != NULL && option_find(base, NULL)->type != OPTION_NONE)
		none = NULL;
	xfree(base);
	return none != NULL ? none->rank : SETTING_NONE;
}

/* Sets that begin with their default, from which keys take out and to which they add. */
static bool
keeps_default(const struct option_row *row)
{
	return row->type == OPTION_NAME || row->type == OPTION_TAG;
}

/* A row gets the texts of its keys, those that "none" of at least their rank took away excepted, or
 * its default. */
static int
apply_row(struct config *config, const struct option_row *row, char *error)
{
	enum setting_rank none = none_rank(config, row);
	bool given = none != SETTING_NONE;
	int status = 0;

	if (keeps_default(row) && !given)
		status = apply_default(config, row, error);
	for (size_t i = 0; i < config->settings.count && status == 0; i++) {
		/* A note may move the list of notes, not this one. */
		const struct setting *setting = &config->settings.items[i];
		struct bytes star;

		if (option_find(setting->key, &star) != row)
			continue;
		given = true;
		if (setting->rank > none)
			status = apply_text(config, row, star, setting->source, setting->key,
					    setting->value, error);
	}
	if (status == 0 && !given && !keeps_default(row))
		status = apply_default(config, row, error);
	return status;
}

/* ---- what belongs together ---- */

static int refuse_config(char *error, const char *format, ...) PRINTF_LIKE(2, 3);

static int
refuse_config(char *error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(error, CONFIG_ERROR_MAX, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

static int
check_tls(const struct config *config, char *error)
{
	const struct config_tls *tls = &config->tls;

	if (tls->fail_if_no_peer_cert && !tls->verify_peer)
		return refuse_config(error, "ssl_options.fail_if_no_peer_cert needs "
					    "ssl_options.verify = verify_peer");
	if (tls->versions == 0)
		return refuse_config(error, "ssl_options.versions leaves no version of TLS");
	if (config->tls_listeners.count == 0)
		return 0;
	if (tls->certfile == NULL || tls->keyfile == NULL)
		return refuse_config(error, "listeners.ssl needs ssl_options.certfile and "
					    "ssl_options.keyfile");
	if (tls->verify_peer && tls->cacertfile == NULL)
		return refuse_config(error, "ssl_options.verify = verify_peer needs "
					    "ssl_options.cacertfile");
	return 0;
}

static int
check_together(const struct config *config, char *error)
{
	if (config->frame_max != 0 && config->frame_max < 4096)
		return refuse_config(error, "frame_max is %u: 0, or 4096 and more is expected",
				     config->frame_max);
	if (config->mechanisms == 0)
		return refuse_config(error, "auth_mechanisms leaves no mechanism");
	if (config->net.output_low >= config->net.output_high)
		return refuse_config(error, "net.output_low must be less than net.output_high");
	if (config->broker.yield_low > config->broker.yield_high)
		return refuse_config(
			error, "publishers.yield_low must not be above publishers.yield_high");
	if (config->default_user[0] == '\0' || config->default_vhost[0] == '\0')
		return refuse_config(error, "default_user and default_vhost must not be empty");
	return check_tls(config, error);
}

static void
finish_names(struct config *config)
{
	char host[256] = "";
	struct buf name;

	if (config->node_name == NULL) {
		if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0')
			(void)snprintf(host, sizeof(host), "localhost");
		host[strcspn(host, ".")] = '\0';
		buf_init(&name, 0);
		buf_addf(&name, "pannier@%s", host);
		config->node_name = xstrdup(buf_cstr(&name));
		buf_fini(&name);
	}
	if (config->cluster_name == NULL)
		config->cluster_name = xstrdup(config->node_name);
}

/* A file wins over the console: there is one log. */
static void
finish_log(struct config *config)
{
	bool to_file = config->log_file != NULL && config->log_file[0] != '\0' &&
		       strcmp(config->log_file, "false") != 0;
	uint32_t level = config->log_levels[to_file ? 2 : 1];
	struct buf path;

	config->log_level =
		(enum log_level)(level != CONFIG_LEVEL_UNSET ? level : config->log_levels[0]);
	if (!to_file)
		return;
	buf_init(&path, 0);
	if (config->log_file[0] != '/')
		buf_addf(&path, "%s/", config->log_dir);
	buf_add_str(&path, config->log_file);
	config->log_path = xstrdup(buf_cstr(&path));
	buf_fini(&path);
}

static uint64_t
there_is(const struct config *config)
{
	return config->memory_override != 0 ? config->memory_override : memory_there_is("");
}

/* 0 would be no limit, but a share of 0 asks for the least one. */
static void
finish_memory(struct config *config)
{
	const struct setting *absolute =
		settings_find(&config->settings, "vm_memory_high_watermark.absolute");
	const struct setting *relative =
		settings_find(&config->settings, "vm_memory_high_watermark.relative");

	if (absolute != NULL && (relative == NULL || relative->rank <= absolute->rank))
		config->broker.memory_limit = config->memory_absolute;
	else
		config->broker.memory_limit =
			max_u64(1, (uint64_t)((double)there_is(config) * config->memory_relative));
	config->broker.page_out_at = UINT64_MAX;
	if (config->paging_ratio < 1)
		config->broker.page_out_at =
			(uint64_t)((double)config->broker.memory_limit * config->paging_ratio);
}

static void
finish_disk(struct config *config)
{
	const struct setting *absolute =
		settings_find(&config->settings, "disk_free_limit.absolute");
	const struct setting *relative =
		settings_find(&config->settings, "disk_free_limit.relative");

	config->disk_free_limit = config->disk_absolute;
	if (relative != NULL && (absolute == NULL || absolute->rank <= relative->rank))
		config->disk_free_limit =
			(uint64_t)((double)there_is(config) * config->disk_relative);
}

static void
finish_listeners(struct config *config, struct config_listeners *listeners)
{
	for (size_t i = 0; i < listeners->count; i++) {
		struct listener_options *listener = &listeners->items[i];

		listener->backlog = (int)config->backlog;
		listener->handshake_ms = config->tls_handshake_timeout_ms;
		listener->proxy_protocol = config->proxy_protocol;
		listener->trusted = config->proxy_trusted.items;
		listener->trusted_count = config->proxy_trusted.count;
	}
}

static void
finish_ciphers(struct config_tls *tls)
{
	struct buf list;

	if (tls->ciphers.count == 0)
		return;
	buf_init(&list, 0);
	for (size_t i = 0; i < tls->ciphers.count; i++)
		buf_addf(&list, "%s%s", i != 0 ? ":" : "", tls->ciphers.items[i]);
	tls->cipher_list = xstrdup(buf_cstr(&list));
	buf_fini(&list);
}

/* What is not restricted is allowed. */
static void
fill(char **pattern)
{
	if (*pattern == NULL)
		*pattern = xstrdup(".*");
}

static void
finish_users(struct config *config)
{
	for (size_t i = 0; i < config->users.count; i++) {
		struct config_user *user = &config->users.items[i];

		for (size_t j = 0; j < PERMISSION_COUNT; j++)
			fill(&user->patterns[j]);
		for (size_t j = 0; j < user->topic_count; j++) {
			fill(&user->topics[j].write);
			fill(&user->topics[j].read);
		}
	}
}

static int
build(struct config *config, char *error)
{
	int status;

	settings_sort(&config->settings);
	config->net = net_options_default();
	config->broker = broker_options_default();
	config->store = store_options_default();
	for (size_t i = 0; i < countof(config->log_levels); i++)
		config->log_levels[i] = CONFIG_LEVEL_UNSET;
	status = check_keys(config, error);
	for (size_t i = 0; i < option_row_count && status == 0; i++)
		status = apply_row(config, &option_rows[i], error);
	if (status == 0)
		status = check_together(config, error);
	if (status < 0)
		return status;
	finish_names(config);
	finish_log(config);
	finish_memory(config);
	finish_disk(config);
	finish_listeners(config, &config->tcp_listeners);
	finish_listeners(config, &config->tls_listeners);
	finish_ciphers(&config->tls);
	finish_users(config);
	return 0;
}

int
config_load(struct config *config, const char *file, const struct settings *flags, char *error)
{
	int status = 0;

	memset(config, 0, sizeof(*config));
	settings_init(&config->settings);
	if (file != NULL) {
		config->file = xstrdup(file);
		status = settings_read_file(&config->settings, file, error);
	}
	if (status == 0)
		status = settings_read_environment(&config->settings, error);
	for (size_t i = 0; i < flags->count && status == 0; i++)
		settings_set(&config->settings, SETTING_FLAG, flags->items[i].source,
			     bytes_str(flags->items[i].key), bytes_str(flags->items[i].value));
	if (status == 0)
		status = build(config, error);
	if (status < 0)
		config_free(config);
	return status;
}

void
config_free(struct config *config)
{
	for (size_t i = 0; i < option_row_count; i++)
		option_clear(&option_rows[i], config);
	settings_fini(&config->settings);
	xfree(config->tls.cipher_list);
	xfree(config->log_path);
	xfree(config->file);
	memset(config, 0, sizeof(*config));
}

/* ---- reloading ---- */

static void
exchange(void *a, void *b, size_t size)
{
	uint8_t *left = a;
	uint8_t *right = b;

	for (size_t i = 0; i < size; i++) {
		uint8_t octet = left[i];

		left[i] = right[i];
		right[i] = octet;
	}
}

/* Notes those keys of one that the other has not, or with another text, and that only count at a
 * start. */
static void
list_changes(const struct settings *one, const struct settings *other, bool both, struct buf *names)
{
	for (size_t i = 0; i < one->count; i++) {
		const struct option_row *row = option_find(one->items[i].key, NULL);
		const struct setting *found = settings_find(other, one->items[i].key);

		if (row == NULL || row->reloadable || (found != NULL && !both))
			continue;
		if (found == NULL || strcmp(found->value, one->items[i].value) != 0)
			buf_addf(names, "%s%s", names->n != 0 ? ", " : "", one->items[i].key);
	}
}

int
config_reload(struct config *config, char *error)
{
	struct settings flags;
	struct config fresh;
	struct buf names;
	int status;

	settings_init(&flags);
	for (size_t i = 0; i < config->settings.count; i++) {
		const struct setting *setting = &config->settings.items[i];

		if (setting->rank == SETTING_FLAG)
			settings_set(&flags, SETTING_FLAG, setting->source, bytes_str(setting->key),
				     bytes_str(setting->value));
	}
	status = config_load(&fresh, config->file, &flags, error);
	settings_fini(&flags);
	if (status < 0)
		return status;
	buf_init(&names, 0);
	list_changes(&config->settings, &fresh.settings, true, &names);
	list_changes(&fresh.settings, &config->settings, false, &names);
	if (names.n != 0)
		log_warn("These options changed and count from the next start on: %s",
			 buf_cstr(&names));
	buf_fini(&names);
	for (size_t i = 0; i < option_row_count; i++)
		if (option_rows[i].reloadable)
			exchange((char *)config + option_rows[i].offset,
				 (char *)&fresh + option_rows[i].offset, option_rows[i].size);
	config->broker.memory_limit = fresh.broker.memory_limit;
	config->broker.page_out_at = fresh.broker.page_out_at;
	config->disk_free_limit = fresh.disk_free_limit;
	config->log_level = fresh.log_level;
	exchange(&config->tls.cipher_list, &fresh.tls.cipher_list, sizeof(char *));
	exchange(&config->settings, &fresh.settings, sizeof(fresh.settings));
	config_free(&fresh);
	return 0;
}

/* ---- for others ---- */

struct tls_options
tls_options_of(const struct config_tls *tls)
{
	struct tls_options options = tls_options_default();

	options.certfile = tls->certfile;
	options.keyfile = tls->keyfile;
	options.password = tls->password;
	options.cacertfile = tls->cacertfile;
	options.verify_peer = tls->verify_peer;
	options.fail_if_no_peer_cert = tls->fail_if_no_peer_cert;
	options.depth = (int)tls->depth;
	options.tls_1_2 = (tls->versions & CONFIG_TLS_1_2) != 0;
	options.tls_1_3 = (tls->versions & CONFIG_TLS_1_3) != 0;
	options.ciphers = tls->cipher_list;
	options.honor_cipher_order = tls->honor_cipher_order;
	return options;
}

static void
warn_ignored(const struct config *config, bool later, const char *text)
{
	struct buf keys;

	buf_init(&keys, 0);
	for (size_t i = 0; i < config->settings.count; i++) {
		const char *key = config->settings.items[i].key;
		const struct option_ignored *row =
			option_find(key, NULL) == NULL ? option_find_ignored(key) : NULL;

		if (row != NULL && row->later == later)
			buf_addf(&keys, "%s%s", keys.n != 0 ? ", " : "", key);
	}
	if (keys.n != 0)
		log_warn("%s: %s", text, buf_cstr(&keys));
	buf_fini(&keys);
}

void
config_log_warnings(const struct config *config)
{
	warn_ignored(config, true, "These options have no effect in this version");
	warn_ignored(config, false, "These options of RabbitMQ have no meaning here");
	for (size_t i = 0; i < config->settings.note_count; i++)
		log_warn("%s: %s", config->settings.notes[i].source,
			 config->settings.notes[i].value);
}
