/* SPDX-License-Identifier: Apache-2.0 */
/* TLS against itself, with certificates made here. */
#include "net/tls.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "net/connect.h"
#include "net/transport.h"
#include "util/mem.h"

#include "lib/runner.h"
#include "lib/sockets.h"

/* ---- certificates ------------------------------------------------------------------------------ */

static char folder[] = "/tmp/pannier-tls-XXXXXX";
static char ca_file[64], server_file[64], server_key[64], client_file[64], client_key[64];
static char other_file[64], other_key[64], locked_key[64];
static long serial;

struct identity {
	EVP_PKEY *key;
	X509 *certificate;
};

static void
add_extension(X509 *certificate, int nid, const char *value)
{
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

	ck_assert_ptr_nonnull(extension);
	X509_add_ext(certificate, extension, -1);
	X509_EXTENSION_free(extension);
}

static void
add_name(X509_NAME *name, const char *field, const char *value)
{
	ck_assert_int_eq(X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
						    (const unsigned char *)value, -1, -1, 0),
			 1);
}

/* issuer NULL: signs itself, as a CA. */
static struct identity
make_identity(const char *common_name, const char *alternative, const struct identity *issuer)
{
	struct identity made = {EVP_EC_gen("P-256"), X509_new()};
	X509_NAME *name = X509_get_subject_name(made.certificate);

	X509_set_version(made.certificate, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(made.certificate), ++serial);
	X509_gmtime_adj(X509_getm_notBefore(made.certificate), -3600);
	X509_gmtime_adj(X509_getm_notAfter(made.certificate), 86400);
	add_name(name, "O", "Example, Ltd");
	add_name(name, "CN", common_name);
	X509_set_issuer_name(made.certificate,
			     issuer != NULL ? X509_get_subject_name(issuer->certificate) : name);
	X509_set_pubkey(made.certificate, made.key);
	if (issuer == NULL)
		add_extension(made.certificate, NID_basic_constraints, "critical,CA:TRUE");
	if (alternative != NULL)
		add_extension(made.certificate, NID_subject_alt_name, alternative);
	ck_assert_int_gt(
		X509_sign(made.certificate, issuer != NULL ? issuer->key : made.key, EVP_sha256()),
		0);
	return made;
}

static void
free_identity(struct identity identity)
{
	EVP_PKEY_free(identity.key);
	X509_free(identity.certificate);
}

static FILE *
create(char *path, size_t size, const char *name)
{
	FILE *file;

	snprintf(path, size, "%s/%s", folder, name);
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	return file;
}

static void
write_certificate(const struct identity *identity, char *path, const char *name)
{
	FILE *file = create(path, 64, name);

	ck_assert_int_eq(PEM_write_X509(file, identity->certificate), 1);
	fclose(file);
}

static void
write_key(const struct identity *identity, char *path, const char *name, const char *password)
{
	FILE *file = create(path, 64, name);

	ck_assert_int_eq(
		PEM_write_PKCS8PrivateKey(file, identity->key,
					  password != NULL ? EVP_aes_128_cbc() : NULL, password,
					  password != NULL ? (int)strlen(password) : 0, NULL, NULL),
		1);
	fclose(file);
}

static void
make_certificates(void)
{
	struct identity ca, server_id, client_id, other_id;

	ck_assert_ptr_nonnull(mkdtemp(folder));
	ca = make_identity("Test CA", NULL, NULL);
	server_id = make_identity("localhost", "DNS:localhost,IP:127.0.0.1", &ca);
	client_id = make_identity(
		"client", "email:c@example.com,DNS:c.example,URI:urn:c,IP:::1,RID:1.2.3", &ca);
	other_id = make_identity("other", "IP:127.0.0.1", NULL);
	write_certificate(&ca, ca_file, "ca.pem");
	write_certificate(&server_id, server_file, "server.pem");
	write_key(&server_id, server_key, "server.key", NULL);
	write_key(&server_id, locked_key, "locked.key", "secret");
	write_certificate(&client_id, client_file, "client.pem");
	write_key(&client_id, client_key, "client.key", NULL);
	write_certificate(&other_id, other_file, "other.pem");
	write_key(&other_id, other_key, "other.key", NULL);
	free_identity(ca);
	free_identity(server_id);
	free_identity(client_id);
	free_identity(other_id);
}

/* ---- the frame of a test ----------------------------------------------------------------------- */

static struct listener *listener;
static struct tls *server_tls, *client_tls;
static struct tls_options server_options, client_options;
static struct buf error;
static uint64_t handshake_ms;

static void
set_up(void)
{
	sockets_set_up();
	make_certificates();
	buf_init(&error, 0);
	handshake_ms = 60000;
	server_options = tls_options_default();
	server_options.certfile = server_file;
	server_options.keyfile = server_key;
	server_options.cacertfile = ca_file;
	client_options = tls_options_default();
	client_options.cacertfile = ca_file;
	client_options.verify_peer = true;
}

static void
tear_down(void)
{
	static char *const files[] = {ca_file,	  server_file, server_key, client_file,
				      client_key, other_file,  other_key,  locked_key};

	listener_close(&listener);
	sockets_tear_down();
	tls_free(&server_tls);
	tls_free(&client_tls);
	buf_fini(&error);
	for (size_t i = 0; i < countof(files); i++)
		unlink(files[i]);
	rmdir(folder);
}

static void
make_contexts(void)
{
	ck_assert_msg(tls_new(&server_tls, TLS_SERVER, &server_options, &error) == 0, "%s",
		      buf_cstr(&error));
	ck_assert_msg(tls_new(&client_tls, TLS_CLIENT, &client_options, &error) == 0, "%s",
		      buf_cstr(&error));
}

static void
start(void)
{
	struct listener_options options = listener_options_default(0);

	if (server_tls == NULL)
		make_contexts();
	ck_assert(listener_parse("127.0.0.1:0", &options));
	options.tls = server_tls;
	options.handshake_ms = handshake_ms;
	ck_assert_int_eq(listener_open(&listener, net, &options, side_accepted, &server, &error),
			 0);
}

static void
connect_tls(void)
{
	client.conn = conn_connect(net, "127.0.0.1", listener_address(listener)->port, client_tls,
				   &side_ops, &client);
}

static void
ck_greeting(void)
{
	conn_write(client.conn, BYTES("hello"));
	AWAIT(server.input.n == 5);
	conn_write(server.conn, BYTES("welcome"));
	AWAIT(client.input.n == 7);
	ck_assert(bytes_equal(buf_bytes(&server.input), BYTES("hello")));
	ck_assert(bytes_equal(buf_bytes(&client.input), BYTES("welcome")));
}

static void
ck_orderly_end(void)
{
	conn_write(server.conn, BYTES("bye"));
	conn_close(server.conn);
	AWAIT(server.closes == 1 && client.closes == 1);
	ck_assert_int_eq(server.error, 0);
	ck_assert_int_eq(client.error, 0);
	ck_assert(bytes_equal(buf_bytes(&client.input), BYTES("welcomebye")));
}

/* ---- handshakes -------------------------------------------------------------------------------- */

START_TEST(test_tls_1_3)
{
	server_options.tls_1_2 = false;
	start();
	connect_tls();
	ck_greeting();
	ck_assert_ptr_null(conn_tls_peer(server.conn));
	ck_assert_str_eq(conn_tls_peer(client.conn)->common_name, "localhost");
	ck_orderly_end();
}
END_TEST

START_TEST(test_tls_1_2)
{
	server_options.tls_1_3 = false;
	server_options.honor_cipher_order = true;
	server_options.ciphers = "ECDHE-ECDSA-AES128-GCM-SHA256:TLS_AES_128_GCM_SHA256";
	start();
	connect_tls();
	ck_greeting();
	ck_orderly_end();
}
END_TEST

START_TEST(test_no_common_version)
{
	server_options.tls_1_2 = false;
	client_options.tls_1_3 = false;
	start();
	connect_tls();
	AWAIT(server.closes == 1 && client.closes == 1);
	ck_assert_int_eq(server.error, -EPROTO);
	ck_assert_int_eq(client.error, -EPROTO);
}
END_TEST

START_TEST(test_client_certificate_names_its_owner)
{
	const struct tls_peer *peer;

	server_options.verify_peer = server_options.fail_if_no_peer_cert = true;
	client_options.certfile = client_file;
	client_options.keyfile = client_key;
	start();
	connect_tls();
	ck_greeting();
	peer = conn_tls_peer(server.conn);
	ck_assert_ptr_nonnull(peer);
	ck_assert_str_eq(peer->subject, "CN=client,O=Example\\, Ltd");
	ck_assert_str_eq(peer->issuer, "CN=Test CA,O=Example\\, Ltd");
	ck_assert_str_eq(peer->common_name, "client");
	ck_assert_uint_eq(peer->name_count, 4);
	ck_assert_int_eq(peer->names[0].type, TLS_NAME_EMAIL);
	ck_assert_str_eq(peer->names[0].value, "c@example.com");
	ck_assert_int_eq(peer->names[1].type, TLS_NAME_DNS);
	ck_assert_str_eq(peer->names[1].value, "c.example");
	ck_assert_int_eq(peer->names[2].type, TLS_NAME_URI);
	ck_assert_str_eq(peer->names[2].value, "urn:c");
	ck_assert_int_eq(peer->names[3].type, TLS_NAME_IP);
	ck_assert_str_eq(peer->names[3].value, "::1");
}
END_TEST

START_TEST(test_client_without_certificate_is_welcome_unless_it_is_needed)
{
	server_options.verify_peer = true;
	start();
	connect_tls();
	ck_greeting();
	ck_assert_ptr_null(conn_tls_peer(server.conn));
}
END_TEST

START_TEST(test_client_without_certificate_is_refused_where_it_is_needed)
{
	server_options.verify_peer = server_options.fail_if_no_peer_cert = true;
	start();
	connect_tls();
	conn_write(client.conn, BYTES("hello"));
	AWAIT(server.closes == 1 && client.closes == 1);
	ck_assert_int_eq(server.error, -EPROTO);
	ck_assert_uint_eq(server.input.n, 0);
}
END_TEST

START_TEST(test_client_certificate_of_others_is_refused)
{
	server_options.verify_peer = true;
	client_options.certfile = other_file;
	client_options.keyfile = other_key;
	start();
	connect_tls();
	conn_write(client.conn, BYTES("hello"));
	AWAIT(server.closes == 1 && client.closes == 1);
	ck_assert_int_eq(server.error, -EPROTO);
	ck_assert_uint_eq(server.input.n, 0);
}
END_TEST

START_TEST(test_unverified_server_is_refused)
{
	server_options.certfile = other_file;
	server_options.keyfile = other_key;
	start();
	connect_tls();
	conn_write(client.conn, BYTES("secret"));
	AWAIT(server.closes == 1 && client.closes == 1);
	ck_assert_int_eq(client.error, -EPROTO);
	ck_assert_uint_eq(server.input.n, 0);
}
END_TEST

START_TEST(test_paused_conn_still_shakes_hands)
{
	start();
	connect_tls();
	AWAIT(server.conn != NULL);
	conn_pause(server.conn, CONN_PAUSE_ALARM);
	conn_write(server.conn, BYTES("welcome"));
	conn_write(client.conn, BYTES("hello"));
	AWAIT(client.input.n == 7);
	ck_assert_uint_eq(server.input.n, 0);
	conn_resume(server.conn, CONN_PAUSE_ALARM);
	AWAIT(server.input.n == 5);
}
END_TEST

START_TEST(test_handshake_has_its_time)
{
	handshake_ms = 30;
	start();
	client.conn = conn_connect(net, "127.0.0.1", listener_address(listener)->port, NULL,
				   &side_ops, &client);
	AWAIT(server.closes == 1 && client.closes == 1);
	ck_assert_int_eq(server.error, -ETIMEDOUT);
}
END_TEST

START_TEST(test_plain_client_is_refused)
{
	start();
	client.conn = conn_connect(net, "127.0.0.1", listener_address(listener)->port, NULL,
				   &side_ops, &client);
	conn_write(client.conn, BYTES("AMQP\0\0\x09\x01"));
	AWAIT(server.closes == 1 && client.closes == 1);
	ck_assert_int_eq(server.error, -EPROTO);
}
END_TEST

START_TEST(test_peer_that_goes_in_the_handshake)
{
	start();
	client.conn = conn_connect(net, "127.0.0.1", listener_address(listener)->port, NULL,
				   &side_ops, &client);
	AWAIT(server.conn != NULL);
	conn_close(client.conn);
	AWAIT(server.closes == 1);
	ck_assert_int_ne(server.error, 0);
}
END_TEST

/* ---- bytes ------------------------------------------------------------------------------------- */

static void
ck_much(void)
{
	static uint8_t block[77777];
	size_t total = 100 * sizeof(block), sent = 0;

	server.echo = true;
	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = (uint8_t)(i * 31 + i / 253);
	while (client.input.n < total) {
		while (sent < total && !conn_is_full(client.conn)) {
			for (size_t at = 0, n = 1; at < sizeof(block); at += n, n = n * 3 + 1) {
				n = min_u64(n, sizeof(block) - at);
				conn_write(client.conn, bytes_of(block + at, n));
			}
			sent += sizeof(block);
		}
		sockets_turn();
	}
	for (size_t at = 0; at < total; at += sizeof(block))
		ck_assert(memcmp(client.input.p + at, block, sizeof(block)) == 0);
}

START_TEST(test_much_in_both_directions)
{
	start();
	connect_tls();
	ck_much();
}
END_TEST

START_TEST(test_much_in_both_directions_by_1_2)
{
	client_options.tls_1_3 = false;
	start();
	connect_tls();
	ck_much();
}
END_TEST

static void
count_release(void *counter)
{
	++*(unsigned *)counter;
}

START_TEST(test_references_behind_a_peer_that_pauses)
{
	static uint8_t body[100000];
	unsigned released = 0;

	start();
	connect_tls();
	ck_greeting();
	conn_pause(server.conn, CONN_PAUSE_ALARM);
	for (int i = 0; i < 100; i++) {
		conn_write_reference(client.conn, bytes_of(body, sizeof(body)), count_release,
				     &released);
		conn_write(client.conn, BYTES("between"));
		net_flush(net);
	}
	conn_resume(server.conn, CONN_PAUSE_ALARM);
	AWAIT(server.input.n == 5 + 100 * (sizeof(body) + 7));
	ck_assert_uint_eq(released, 100);
}
END_TEST

START_TEST(test_end_without_notice_is_an_end)
{
	start();
	connect_tls();
	ck_greeting();
	conn_write(client.conn, BYTES("last"));
	net_flush(net);
	conn_abort(client.conn, 0);
	AWAIT(server.closes == 1);
	ck_assert_int_eq(server.error, 0);
	ck_assert(bytes_equal(buf_bytes(&server.input), BYTES("hellolast")));
}
END_TEST

/* ---- contexts ---------------------------------------------------------------------------------- */

START_TEST(test_reload_concerns_new_connections)
{
	struct tls_options new = server_options;

	start();
	connect_tls();
	ck_greeting();
	new.certfile = other_file;
	new.keyfile = other_key;
	ck_assert_int_eq(tls_reload(server_tls, &new, &error), 0);
	buf_clear(&server.input);
	buf_clear(&client.input);
	ck_greeting();
	ck_orderly_end();
	client.closes = 0;
	connect_tls();
	AWAIT(client.closes == 1);
	ck_assert_int_eq(client.error, -EPROTO);
}
END_TEST

START_TEST(test_failed_reload_leaves_the_old)
{
	struct tls_options new = server_options;

	start();
	new.keyfile = other_key;
	ck_assert_int_lt(tls_reload(server_tls, &new, &error), 0);
	connect_tls();
	ck_greeting();
}
END_TEST

static void
ck_refused(const char *text)
{
	struct tls *tls;

	buf_clear(&error);
	ck_assert_int_lt(tls_new(&tls, TLS_SERVER, &server_options, &error), 0);
	ck_assert_ptr_null(tls);
	ck_assert_msg(strstr(buf_cstr(&error), text) != NULL, "%s", buf_cstr(&error));
	ck_assert_ptr_null(strchr(buf_cstr(&error), '\n'));
}

START_TEST(test_bad_files_are_told_in_one_line)
{
	struct tls_options good = server_options;

	server_options.certfile = "/nowhere/cert.pem";
	ck_refused("certificate /nowhere/cert.pem: No such file or directory");
	server_options.certfile = NULL;
	ck_refused("needs a certificate");
	server_options = good;
	server_options.keyfile = "/nowhere/key.pem";
	ck_refused("private key /nowhere/key.pem");
	server_options.keyfile = other_key;
	ck_refused("private key");
	server_options = good;
	server_options.cacertfile = server_key;
	ck_refused("CA certificates");
	server_options = good;
	server_options.ciphers = "NONSENSE";
	ck_refused("NONSENSE");
	server_options.ciphers = "TLS_NONSENSE";
	ck_refused("TLS_NONSENSE");
	server_options = good;
	server_options.tls_1_2 = server_options.tls_1_3 = false;
	ck_refused("version");
}
END_TEST

START_TEST(test_key_with_password)
{
	struct tls_options good = server_options;

	server_options.keyfile = locked_key;
	ck_refused(locked_key);
	server_options.password = "wrong";
	ck_refused(locked_key);
	server_options = good;
	server_options.keyfile = locked_key;
	server_options.password = "secret";
	start();
	connect_tls();
	ck_greeting();
}
END_TEST

TESTS_WITH("tls", set_up, tear_down, test_tls_1_3, test_tls_1_2, test_no_common_version,
	   test_client_certificate_names_its_owner,
	   test_client_without_certificate_is_welcome_unless_it_is_needed,
	   test_client_without_certificate_is_refused_where_it_is_needed,
	   test_client_certificate_of_others_is_refused, test_unverified_server_is_refused,
	   test_paused_conn_still_shakes_hands, test_handshake_has_its_time,
	   test_plain_client_is_refused, test_peer_that_goes_in_the_handshake,
	   test_much_in_both_directions, test_much_in_both_directions_by_1_2,
	   test_references_behind_a_peer_that_pauses, test_end_without_notice_is_an_end,
	   test_reload_concerns_new_connections, test_failed_reload_leaves_the_old,
	   test_bad_files_are_told_in_one_line, test_key_with_password)
