/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS contexts of OpenSSL. A struct tls holds the context in use; a session counts the context that it
 * was made from, so a reload is a swap.
 */
#include "net/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>
#include "internal.h"
#include "util/mem.h"

struct tls {
	SSL_CTX *context; // counts; of sessions from now on
	enum tls_role role;
};

struct tls_options
tls_options_default(void)
{
	return (struct tls_options){.depth = 10, .tls_1_2 = true, .tls_1_3 = true};
}

/* Fills the buffer with "what name: OpenSSL's reason". */
static int
failed(struct buf *error, const char *what, const char *name)
{
	/* The first is nearest to the cause; the later ones say where it was passed on. */
	unsigned long code = ERR_peek_error();
	const char *reason = ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code))
						    : ERR_reason_error_string(code);

	buf_addf(error, "%s%s%s: %s", what, name != NULL ? " " : "", name != NULL ? name : "",
		 reason != NULL ? reason : "not usable");
	ERR_clear_error();
	return -EINVAL;
}

static int
give_password(char *to, int size, int writing UNUSED, void *password)
{
	size_t n = password != NULL ? strlen(password) : 0;

	if (n > (size_t)size)
		return -1;
	if (n != 0)
		memcpy(to, password, n);
	return (int)n;
}

static int
load_identity(SSL_CTX *context, enum tls_role role, const struct tls_options *options,
	      struct buf *error)
{
	const char *keyfile = options->keyfile != NULL ? options->keyfile : options->certfile;

	if (options->certfile == NULL && role == TLS_SERVER) {
		buf_add_str(error, "TLS needs a certificate file");
		return -EINVAL;
	}
	if (options->certfile == NULL)
		return 0;
	/* Always an own callback: the library's would ask at the terminal. */
	SSL_CTX_set_default_passwd_cb(context, give_password);
	SSL_CTX_set_default_passwd_cb_userdata(context, (void *)(uintptr_t)options->password);
	if (SSL_CTX_use_certificate_chain_file(context, options->certfile) != 1)
		return failed(error, "cannot load the certificate", options->certfile);
	if (SSL_CTX_use_PrivateKey_file(context, keyfile, SSL_FILETYPE_PEM) != 1)
		return failed(error, "cannot load the private key", keyfile);
	if (SSL_CTX_check_private_key(context) != 1)
		return failed(error, "the certificate and the private key do not match", keyfile);
	SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
	return 0;
}

static int
load_trust(SSL_CTX *context, enum tls_role role, const struct tls_options *options,
	   struct buf *error)
{
	int mode = SSL_VERIFY_NONE;

	if (options->cacertfile != NULL) {
		if (SSL_CTX_load_verify_locations(context, options->cacertfile, NULL) != 1)
			return failed(error, "cannot load the CA certificates",
				      options->cacertfile);
		if (role == TLS_SERVER)
			SSL_CTX_set_client_CA_list(context,
						   SSL_load_client_CA_file(options->cacertfile));
	} else if (options->verify_peer && SSL_CTX_set_default_verify_paths(context) != 1) {
		return failed(error, "cannot load the CA certificates of the system", NULL);
	}
	if (options->verify_peer)
		mode = SSL_VERIFY_PEER;
	if (options->verify_peer && options->fail_if_no_peer_cert)
		mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
	SSL_CTX_set_verify(context, mode, NULL);
	SSL_CTX_set_verify_depth(context, options->depth);
	return 0;
}

/* TLS 1.3 has its own list in OpenSSL: names that begin with "TLS_". */
static int
set_ciphers(SSL_CTX *context, const struct tls_options *options, struct buf *error)
{
	struct buf old, new;
	int status = 0;

	if (options->ciphers == NULL || *options->ciphers == '\0')
		return 0;
	buf_init(&old, 0);
	buf_init(&new, 0);
	for (const char *name = options->ciphers; *name != '\0'; name += strspn(name, ":")) {
		size_t n = strcspn(name, ":");
		struct buf *list = strncmp(name, "TLS_", 4) == 0 ? &new : &old;

		if (list->n != 0)
			buf_add_byte(list, ':');
		buf_add(list, name, n);
		name += n;
	}
	if (old.n != 0 && SSL_CTX_set_cipher_list(context, buf_cstr(&old)) != 1)
		status = failed(error, "no usable cipher in", buf_cstr(&old));
	else if (new.n != 0 && SSL_CTX_set_ciphersuites(context, buf_cstr(&new)) != 1)
		status = failed(error, "no usable TLS 1.3 cipher in", buf_cstr(&new));
	buf_fini(&old);
	buf_fini(&new);
	return status;
}

static int
set_protocol(SSL_CTX *context, const struct tls_options *options, struct buf *error)
{
	if (!options->tls_1_2 && !options->tls_1_3) {
		buf_add_str(error, "no TLS version is enabled");
		return -EINVAL;
	}
	SSL_CTX_set_min_proto_version(context, options->tls_1_2 ? TLS1_2_VERSION : TLS1_3_VERSION);
	SSL_CTX_set_max_proto_version(context, options->tls_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION);
	/* Many clients just close: the end without a notice counts as one with it. AMQP has its own. */
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF |
					     SSL_OP_NO_COMPRESSION | SSL_OP_ENABLE_KTLS);
	if (options->honor_cipher_order)
		SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
					  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					  SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_dh_auto(context, 1);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	if (SSL_CTX_set_session_id_context(context, (const unsigned char *)"amqp", 4) != 1)
		return failed(error, "cannot set up TLS", NULL);
	return set_ciphers(context, options, error);
}

/* The context that the options ask for, NULL with a line in error. */
static SSL_CTX *
context_new(enum tls_role role, const struct tls_options *options, struct buf *error)
{
	SSL_CTX *context;

	ERR_clear_error();
	context = SSL_CTX_new(role == TLS_SERVER ? TLS_server_method() : TLS_client_method());
	if (context == NULL) {
		failed(error, "cannot set up TLS", NULL);
		return NULL;
	}
	if (set_protocol(context, options, error) != 0 ||
	    load_identity(context, role, options, error) != 0 ||
	    load_trust(context, role, options, error) != 0) {
		SSL_CTX_free(context);
		return NULL;
	}
	return context;
}

int
tls_new(struct tls **tls, enum tls_role role, const struct tls_options *options, struct buf *error)
{
	SSL_CTX *context = context_new(role, options, error);

	*tls = NULL;
	if (context == NULL)
		return -EINVAL;
	*tls = xcalloc(1, sizeof(**tls));
	(*tls)->context = context;
	(*tls)->role = role;
	return 0;
}

int
tls_reload(struct tls *tls, const struct tls_options *options, struct buf *error)
{
	SSL_CTX *context = context_new(tls->role, options, error);

	if (context == NULL)
		return -EINVAL;
	SSL_CTX_free(tls->context);
	tls->context = context;
	return 0;
}

void
tls_free(struct tls **tls)
{
	if (*tls == NULL)
		return;
	SSL_CTX_free((*tls)->context);
	xfree(*tls);
	*tls = NULL;
}

/* A client says whom it wants, and checks that it is so when it verifies at all. */
static bool
expect_host(SSL *session, const char *host)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(session);

	if (X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1)
		return true;
	return SSL_ctrl(session, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
			(void *)(uintptr_t)host) == 1 &&
	       SSL_set1_host(session, host) == 1;
}

SSL *
tls_session(struct tls *tls, int fd, const char *host)
{
	SSL *session = SSL_new(tls->context);
	bool fine = session != NULL && SSL_set_fd(session, fd) == 1;

	if (fine && tls->role == TLS_CLIENT) {
		SSL_set_connect_state(session);
		fine = host == NULL || expect_host(session, host);
	} else if (fine) {
		SSL_set_accept_state(session);
	}
	ERR_clear_error();
	if (fine)
		return session;
	SSL_free(session);
	return NULL;
}
