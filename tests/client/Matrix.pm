# SPDX-License-Identifier: Apache-2.0
# The frame of the client matrix's scripts in Perl: matrix.py says what they print and what they are given.
package Matrix;

use strict;
use warnings;

use Exporter 'import';
use POSIX ();
use Time::HiRes 'time';

our @EXPORT = qw(HOST PORT TLS_PORT CA equal like skip needs_our_broker kill_broker run_cases);

use constant {
	HOST     => $ENV{MATRIX_HOST},
	PORT     => $ENV{MATRIX_PORT},
	TLS_PORT => $ENV{MATRIX_TLS_PORT},
	CA       => $ENV{MATRIX_CA},
	LIMIT_S  => 40,
};

sub shown {
	my ($value) = @_;
	return 'undef' unless defined $value;
	return ref $value eq 'ARRAY' ? '[' . join(', ', map { shown($_) } @$value) . ']' : "'$value'";
}

# Two values or lists of them, compared as text.
sub equal {
	my ($expected, $got) = map { shown($_) } @_;
	die "expected $expected, got $got at " . join(':', (caller)[1, 2]) . "\n" if $expected ne $got;
}

sub like {
	my ($text, $got) = @_;
	die "no '$text' in " . shown($got) . ' at ' . join(':', (caller)[1, 2]) . "\n" if index($got // '', $text) < 0;
}

sub skip {
	die "skip: $_[0]\n";
}

sub needs_our_broker {
	skip('the server is a running one') unless TLS_PORT;
}

# Asks for the broker to be killed and started again; it happens while the script goes on.
sub kill_broker {
	print "kill\n";
}

# run_cases(name => sub, ...): runs all, each with its time limit, and ends.
sub run_cases {
	my @cases = @_;
	my $failed = 0;
	$| = 1;
	$SIG{ALRM} = sub { die 'not within ' . LIMIT_S . " s\n" };
	while (my ($name, $case) = splice @cases, 0, 2) {
		my $began = time;
		my $result = 'ok  ';
		alarm LIMIT_S;
		if (!eval { $case->(); 1 }) {
			my $error = $@;
			if ($error =~ /^skip: (.*)/) {
				$result = "skip ($1)";
			} else {
				print STDERR "$name: $error";
				$result = 'FAIL';
				$failed++;
			}
		}
		alarm 0;
		printf "%s %s %.1f s\n", $result, $name, time - $began;
	}
	print "complete\n";
	POSIX::_exit($failed ? 1 : 0); # the libraries complain when they are taken apart
}

1;
