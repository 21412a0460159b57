<?php
// SPDX-License-Identifier: Apache-2.0
// The frame of the client matrix's scripts in PHP: matrix.py says what they print and what they are given.

const LIMIT_S = 40;

class Skip extends Exception
{
}

define('HOST', getenv('MATRIX_HOST'));
define('PORT', (int) getenv('MATRIX_PORT'));
define('TLS_PORT', (int) getenv('MATRIX_TLS_PORT'));
define('CA', getenv('MATRIX_CA'));

function equal($expected, $got): void
{
	if ($expected !== $got)
		throw new Exception('expected ' . var_export($expected, true) . ', got ' . var_export($got, true));
}

/** The call throws that class, or one derived from it, with that code (when one is given) and text; gives it. */
function refused(string $class, ?int $code, string $text, callable $call): Throwable
{
	try {
		$call();
	} catch (Throwable $e) {
		if (!($e instanceof $class) || !str_contains($e->getMessage(), $text))
			throw new Exception("expected $class with '$text'", 0, $e);
		if ($code !== null)
			equal($code, $e->getCode());
		return $e;
	}
	throw new Exception("no $class");
}

function needs_our_broker(): void
{
	if (!TLS_PORT)
		throw new Skip('the server is a running one');
}

/** Asks for the broker to be killed and started again; it happens while the script goes on. */
function kill_broker(): void
{
	echo "kill\n";
}

/** Runs all of [name => function], each with its time limit, and ends. */
function run_cases(array $cases): void
{
	pcntl_async_signals(true);
	pcntl_signal(SIGALRM, function () {
		throw new Exception('not within ' . LIMIT_S . ' s');
	}, false);
	$failed = 0;
	foreach ($cases as $name => $case) {
		$began = microtime(true);
		$result = 'ok  ';
		pcntl_alarm(LIMIT_S);
		try {
			$case();
		} catch (Skip $e) {
			$result = "skip ({$e->getMessage()})";
		} catch (Throwable $e) {
			fwrite(STDERR, "$e\n");
			$failed++;
			$result = 'FAIL';
		}
		pcntl_alarm(0);
		printf("%s %s %.1f s\n", $result, $name, microtime(true) - $began);
	}
	echo "complete\n";
	exit($failed ? 1 : 0);
}
