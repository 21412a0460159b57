/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PLAIN, AMQPLAIN and EXTERNAL (amqp.md 3.3, 3.4). What makes no sense is an error of the protocol; a
 * wrong user or password is a refused login, and nobody is told which of the two it was.
 */
#include "internal.h"
#include "net/tls.h"

/* Finds user and password in a response; false when it is malformed. */
typedef bool credentials_function(struct bytes response, struct bytes *name,
				  struct bytes *password);

/* NUL user NUL password: no authorisation id, no further NUL. */
static bool
plain_credentials(struct bytes response, struct bytes *name, struct bytes *password)
{
	const uint8_t *nul;

	if (response.n < 2 || response.p[0] != 0)
		return false;
	nul = memchr(response.p + 1, 0, response.n - 1);
	if (nul == NULL)
		return false;
	*name = bytes_of(response.p + 1, (size_t)(nul - response.p) - 1);
	*password = bytes_of(nul + 1, response.n - name->n - 2);
	return password->n == 0 || memchr(password->p, 0, password->n) == NULL;
}

/* A field table without its length. */
static bool
amqplain_credentials(struct bytes response, struct bytes *name, struct bytes *password)
{
	struct field login;
	struct field secret;

	if (table_validate(response, NULL) != FIELD_OK ||
	    !table_find(response, BYTES("LOGIN"), &login) ||
	    !table_find(response, BYTES("PASSWORD"), &secret) || login.type != 'S' ||
	    secret.type != 'S')
		return false;
	*name = login.bytes;
	*password = secret.bytes;
	return true;
}

static struct user *
admit(const struct connection *c, struct user *user, struct bytes name, const char *mechanism,
      const char *why)
{
	const struct session_options *options = &c->session->options;

	if (user != NULL && !conn_peer(c->conn)->loopback &&
	    map_find(&options->loopback_users, name) != NULL) {
		why = "user can only connect via localhost";
		user = NULL;
	}
	if (user == NULL)
		log_warn("login refused connection=%llu peer=%s:%u mechanism=%s user=\"%.*s\" "
			 "reason=\"%s\"",
			 (unsigned long long)conn_id(c->conn), conn_peer(c->conn)->host,
			 conn_peer(c->conn)->port, mechanism, BYTES_ARGS(name), why);
	return user;
}

static const struct reply *
by_password(const struct connection *c, struct bytes response, credentials_function *credentials,
	    struct login *login)
{
	struct bytes name;
	struct bytes password;
	struct user *user;

	if (!credentials(response, &name, &password))
		return refuse(SYNTAX_ERROR, "malformed response to mechanism %s", login->mechanism);
	user = user_find(c->session->broker, name);
	if (user != NULL && !user_check_password(user, password))
		user = NULL;
	login->user = admit(c, user, name, login->mechanism, "wrong user or password");
	return NULL;
}

/* The index-th alternative name of the type that the options name. */
static const char *
alternative_name(const struct session_options *options, const struct tls_peer *peer)
{
	static const char *const types[] = {
		[TLS_NAME_DNS] = "dns",
		[TLS_NAME_EMAIL] = "email",
		[TLS_NAME_URI] = "uri",
		[TLS_NAME_IP] = "ip",
	};
	uint32_t skip = options->san_index;

	for (size_t i = 0; i < peer->name_count; i++)
		if (strcmp(types[peer->names[i].type], options->san_type) == 0 && skip-- == 0)
			return peer->names[i].value;
	return NULL;
}

static const char *
certificate_name(const struct session_options *options, const struct tls_peer *peer)
{
	switch (options->cert_login) {
	case CERT_LOGIN_COMMON_NAME:
		return peer->common_name;
	case CERT_LOGIN_SUBJECT_ALTERNATIVE_NAME:
		return alternative_name(options, peer);
	default:
		return peer->subject;
	}
}

static void
by_certificate(const struct connection *c, struct login *login)
{
	const struct tls_peer *peer = conn_tls_peer(c->conn);
	const char *text = peer == NULL ? NULL : certificate_name(&c->session->options, peer);
	struct bytes name = bytes_str(text == NULL ? "" : text);
	struct user *user = text == NULL ? NULL : user_find(c->session->broker, name);

	login->user = admit(c, user, name, login->mechanism,
			    peer == NULL ? "no verified client certificate" : "no such user");
}

static const struct {
	enum mechanism mechanism;
	const char *name;
	credentials_function *credentials; // NULL: by certificate
} mechanisms[] = {
	{MECHANISM_PLAIN, "PLAIN", plain_credentials},
	{MECHANISM_AMQPLAIN, "AMQPLAIN", amqplain_credentials},
	{MECHANISM_EXTERNAL, "EXTERNAL", NULL},
};

const struct reply *
sasl_authenticate(struct connection *c, struct bytes mechanism, struct bytes response,
		  struct login *login)
{
	for (size_t i = 0; i < countof(mechanisms); i++) {
		if (!(c->session->options.mechanisms & mechanisms[i].mechanism) ||
		    !bytes_equal(mechanism, bytes_str(mechanisms[i].name)))
			continue;
		login->mechanism = mechanisms[i].name;
		if (mechanisms[i].credentials != NULL)
			return by_password(c, response, mechanisms[i].credentials, login);
		by_certificate(c, login);
		return NULL;
	}
	return refuse(COMMAND_INVALID, "unknown authentication mechanism '%.*s'",
		      BYTES_ARGS(mechanism));
}

const char *
sasl_mechanisms(unsigned offered)
{
	static char names[64];
	size_t n = 0;

	names[0] = '\0';
	for (size_t i = 0; i < countof(mechanisms); i++)
		if (offered & mechanisms[i].mechanism)
			n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s",
					      n == 0 ? "" : " ", mechanisms[i].name);
	return names;
}
