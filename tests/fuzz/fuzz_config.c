/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A configuration file: read, built, and every value put into its field.
 */
#include "fuzz.h"

#include "server/config.h"

#define NAME "fuzz"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char error[CONFIG_ERROR_MAX] = "";
	struct settings settings;
	struct config config;

	settings_init(&settings);
	if (settings_read_text(&settings, NAME, bytes_of(data, size), error) < 0) {
		fuzz_claim(strncmp(error, NAME ":", sizeof(NAME)) == 0);
	} else if (config_load(&config, NULL, &settings, error) == 0) {
		fuzz_claim(config.default_user != NULL);
		fuzz_claim(config.broker.memory_limit > 0);
		fuzz_claim(config.proxy_trusted.count > 0);
		config_free(&config);
	} else {
		fuzz_claim(error[0] != '\0' && strlen(error) < sizeof(error));
	}
	settings_fini(&settings);
	return 0;
}
