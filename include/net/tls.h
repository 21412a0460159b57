/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS contexts, made of files and settings, for a listener or for connections to others; and what a
 * peer's certificate says. The files can be read anew while connections are open: those go on with what
 * they began with. Broker thread.
 */
#pragma once

#include "util/base.h"
#include "util/buf.h"

struct tls;

enum tls_role {
	TLS_SERVER, // accepts; needs a certificate
	TLS_CLIENT  // connects
};

/* All strings are borrowed for the call only; NULL for none. Files are PEM. */
struct tls_options {
	const char *certfile;	   // the own certificate, and the chain behind it
	const char *keyfile;	   // its private key
	const char *password;	   // of the private key
	const char *cacertfile;	   // whom to trust
	bool verify_peer;	   // ask for the peer's certificate and check it
	bool fail_if_no_peer_cert; // a client without a certificate is refused
	int depth;		   // intermediate certificates between the peer's and a trusted one
	bool tls_1_2;		   // versions that are spoken
	bool tls_1_3;
	const char *ciphers;	 // OpenSSL's names, separated by colons; NULL: the library's choice
	bool honor_cipher_order; // the server's order decides
};

/* No files, no verification, depth 10, both versions. */
struct tls_options tls_options_default(void);
/* Reads the files; the caller owns *tls. 0, or a negative errno and one clear line in error. */
int tls_new(struct tls **tls, enum tls_role role, const struct tls_options *options,
	    struct buf *error) MUST_CHECK;
/* Reads the files anew for connections from now on. On an error the old ones stay in use. */
int tls_reload(struct tls *tls, const struct tls_options *options, struct buf *error) MUST_CHECK;
/* Connections that are open go on. */
void tls_free(struct tls **tls);

enum tls_name_type {
	TLS_NAME_DNS,
	TLS_NAME_EMAIL,
	TLS_NAME_URI,
	TLS_NAME_IP // as text
};

struct tls_name {
	enum tls_name_type type;
	char *value; // owns
};

/* What a verified certificate says; only that of a peer that was asked for it, and could prove it. */
struct tls_peer {
	char *subject;	   // owns; distinguished name, most special part first: CN=client,O=Example
	char *issuer;	   // owns; in the same form
	char *common_name; // owns; the last of the subject; NULL when it has none
	struct tls_name *names; // owns; subject alternative names, in their order
	size_t name_count;
};
