/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a peer's certificate says, as text. A name with a NUL in it is left out: it would be another one
 * for every reader of C strings.
 */
#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>
#include "internal.h"
#include "net/tls.h"
#include "util/bytes.h"
#include "util/mem.h"

/* RFC 2253 turns the order round, so that the most special part comes first; text stays UTF-8. */
static char *
name_text(const X509_NAME *name)
{
	BIO *memory = BIO_new(BIO_s_mem());
	char *text = NULL;
	char *data;
	long n;

	if (memory == NULL)
		return xstrdup("");
	if (X509_NAME_print_ex(memory, name, 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB) >= 0) {
		n = BIO_get_mem_data(memory, &data);
		text = xstrndup(bytes_of(data, (size_t)n));
	}
	BIO_free(memory);
	return text != NULL ? text : xstrdup("");
}

/* The string, NULL when it holds a NUL. Caller owns. */
static char *
plain_text(const void *p, int n)
{
	if (n < 0 || memchr(p, '\0', (size_t)n) != NULL)
		return NULL;
	return xstrndup(bytes_of(p, (size_t)n));
}

static char *
common_name(const X509_NAME *subject)
{
	int at = -1, next = -1, n;
	unsigned char *utf8;
	char *text;

	while ((next = X509_NAME_get_index_by_NID(subject, NID_commonName, next)) >= 0)
		at = next;
	if (at < 0)
		return NULL;
	n = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
	if (n < 0)
		return NULL;
	text = plain_text(utf8, n);
	OPENSSL_free(utf8);
	return text;
}

static char *
ip_text(const ASN1_OCTET_STRING *ip)
{
	int n = ASN1_STRING_length(ip);
	char text[INET6_ADDRSTRLEN];

	if (n != 4 && n != 16)
		return NULL;
	inet_ntop(n == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(ip), text, sizeof(text));
	return xstrdup(text);
}

/* False for a kind of name that nobody asks for. */
static bool
alternative_name(const GENERAL_NAME *from, struct tls_name *name)
{
	const ASN1_STRING *text = from->d.ia5;

	switch (from->type) {
	case GEN_DNS:
		name->type = TLS_NAME_DNS;
		break;
	case GEN_EMAIL:
		name->type = TLS_NAME_EMAIL;
		break;
	case GEN_URI:
		name->type = TLS_NAME_URI;
		break;
	case GEN_IPADD:
		name->type = TLS_NAME_IP;
		name->value = ip_text(from->d.iPAddress);
		return name->value != NULL;
	default:
		return false;
	}
	name->value = plain_text(ASN1_STRING_get0_data(text), ASN1_STRING_length(text));
	return name->value != NULL;
}

static void
alternative_names(struct tls_peer *peer, const X509 *certificate)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	int count = names != NULL ? sk_GENERAL_NAME_num(names) : 0;

	peer->names = xcalloc((size_t)count + 1, sizeof(*peer->names));
	for (int i = 0; i < count; i++) {
		if (alternative_name(sk_GENERAL_NAME_value(names, i),
				     &peer->names[peer->name_count]))
			peer->name_count++;
	}
	GENERAL_NAMES_free(names);
}

struct tls_peer *
tls_peer_new(SSL *session)
{
	X509 *certificate = SSL_get0_peer_certificate(session);
	struct tls_peer *peer;

	if (certificate == NULL || (SSL_get_verify_mode(session) & SSL_VERIFY_PEER) == 0 ||
	    SSL_get_verify_result(session) != X509_V_OK)
		return NULL;
	peer = xcalloc(1, sizeof(*peer));
	peer->subject = name_text(X509_get_subject_name(certificate));
	peer->issuer = name_text(X509_get_issuer_name(certificate));
	peer->common_name = common_name(X509_get_subject_name(certificate));
	alternative_names(peer, certificate);
	return peer;
}

void
tls_peer_free(struct tls_peer **peer)
{
	if (*peer == NULL)
		return;
	for (size_t i = 0; i < (*peer)->name_count; i++)
		xfree((*peer)->names[i].value);
	xfree((*peer)->names);
	xfree((*peer)->subject);
	xfree((*peer)->issuer);
	xfree((*peer)->common_name);
	xfree(*peer);
	*peer = NULL;
}
