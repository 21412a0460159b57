// SPDX-License-Identifier: Apache-2.0
// The cases for RabbitMQ's Java client; java_client.py runs it and says what is printed when.
// Arguments: URL, TLS URL, file of the authority; the last two empty when the broker cannot be restarted.

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.AuthenticationFailureException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConfirmListener;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.Method;
import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoveryListener;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLException;
import javax.net.ssl.TrustManagerFactory;

public class JavaClient {
	private static final int LIMIT_S = 20;
	private static final int RECOVERY_INTERVAL_MS = 200;
	private static String url;
	private static String tlsUrl;
	private static String authority;

	/** A case: runs on a connection of its own, without recovery. */
	private interface Case {
		void run(Connection connection) throws Exception;
	}

	/** A delivery as it came, for cases that look at it later. */
	private static class Delivery {
		final Envelope envelope;
		final String body;

		Delivery(Envelope envelope, byte[] body) {
			this.envelope = envelope;
			this.body = new String(body);
		}

		long tag() {
			return envelope.getDeliveryTag();
		}
	}

	/** Puts what comes into a queue; take() waits for the next. */
	private static class Taker extends DefaultConsumer {
		final BlockingQueue<Delivery> taken = new LinkedBlockingQueue<>();
		final CountDownLatch cancelled = new CountDownLatch(1);

		Taker(Channel channel) {
			super(channel);
		}

		@Override
		public void handleDelivery(String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body) {
			taken.add(new Delivery(envelope, body));
		}

		@Override
		public void handleCancel(String tag) {
			cancelled.countDown();
		}

		Delivery take() throws InterruptedException {
			Delivery delivery = taken.poll(LIMIT_S, TimeUnit.SECONDS);
			assert delivery != null : "no delivery came";
			return delivery;
		}

		List<Delivery> take(int count) throws InterruptedException {
			List<Delivery> list = new ArrayList<>();
			while (list.size() < count)
				list.add(take());
			return list;
		}
	}

	private static ConnectionFactory factory(String uri) throws Exception {
		ConnectionFactory factory = new ConnectionFactory();
		factory.setAutomaticRecoveryEnabled(false);
		factory.setConnectionTimeout(LIMIT_S * 1000);
		factory.setChannelRpcTimeout(LIMIT_S * 1000);
		factory.setUri(uri);
		return factory;
	}

	private static String temporaryQueue(Channel channel) throws IOException {
		return channel.queueDeclare().getQueue();
	}

	private static void publish(Channel channel, String queue, String... bodies) throws IOException {
		for (String body : bodies)
			channel.basicPublish("", queue, null, body.getBytes());
	}

	private static List<String> bodies(List<Delivery> deliveries) {
		List<String> list = new ArrayList<>();
		for (Delivery delivery : deliveries)
			list.add(delivery.body);
		return list;
	}

	private static void await(CountDownLatch latch, String what) throws InterruptedException {
		assert latch.await(LIMIT_S, TimeUnit.SECONDS) : what;
	}

	private interface Call {
		void call() throws Exception;
	}

	/** The call ends the channel with that code, text and method, and the connection stays. */
	private static void refused(Channel channel, int code, String text, int classId, int methodId, Call call)
			throws Exception {
		try {
			call.call();
		} catch (IOException error) {
			ShutdownSignalException signal = (ShutdownSignalException) error.getCause();
			AMQP.Channel.Close close = (AMQP.Channel.Close) signal.getReason();
			assert !signal.isHardError() && !signal.isInitiatedByApplication() : signal;
			assert close.getReplyCode() == code : close;
			assert close.getReplyText().contains(text) : close;
			assert close.getClassId() == classId && close.getMethodId() == methodId : close;
			assert !channel.isOpen() && channel.getConnection().isOpen();
			return;
		}
		throw new AssertionError("not refused: " + text);
	}

	private static void tls(Connection none) throws Exception {
		KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
		trusted.load(null, null);
		try (InputStream pem = new FileInputStream(authority)) {
			trusted.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(pem));
		}
		TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
		trust.init(trusted);
		overTls(trust, "TLSv1.2", false, 300000);
		overTls(trust, "TLSv1.3", false, 300000);
		// With nio this version of the client knows no TLS 1.3, nor frames larger than a record.
		overTls(trust, "TLSv1.2", true, 3000);
		ConnectionFactory stranger = factory(tlsUrl);
		stranger.useSslProtocol(SSLContext.getDefault());
		try (Connection connection = stranger.newConnection()) {
			throw new AssertionError("the authority is a stranger, and it connects");
		} catch (SSLException expected) {
			assert expected.getMessage().contains("certification path") : expected;
		}
	}

	private static void overTls(TrustManagerFactory trust, String version, boolean nio, int size) throws Exception {
		SSLContext context = SSLContext.getInstance(version);
		context.init(null, trust.getTrustManagers(), null);
		ConnectionFactory factory = factory(tlsUrl);
		factory.useSslProtocol(context);
		if (nio)
			factory.useNio();
		try (Connection connection = factory.newConnection()) {
			Channel channel = connection.createChannel();
			String queue = temporaryQueue(channel);
			channel.confirmSelect();
			channel.basicPublish("", queue, null, new byte[size]);
			channel.waitForConfirmsOrDie(LIMIT_S * 1000);
			assert channel.basicGet(queue, true).getBody().length == size;
		}
	}

	private static void nio(Connection none) throws Exception {
		ConnectionFactory factory = factory(url);
		factory.useNio();
		try (Connection connection = factory.newConnection()) {
			Channel channel = connection.createChannel();
			String queue = temporaryQueue(channel);
			Taker taker = new Taker(channel);
			channel.basicConsume(queue, true, taker);
			for (int i = 0; i < 200; i++)
				publish(channel, queue, String.valueOf(i));
			assert taker.take(200).get(199).body.equals("199");
		}
	}

	private static void login(Connection none) throws Exception {
		try (Connection connection = factory(url.replace("guest@", "wrong@")).newConnection()) {
			throw new AssertionError("let in");
		} catch (AuthenticationFailureException expected) {
			assert expected.getMessage().contains("ACCESS_REFUSED") : expected;
		}
		ConnectionFactory factory = factory(url);
		factory.setVirtualHost("nowhere");
		try (Connection connection = factory.newConnection()) {
			throw new AssertionError("let in");
		} catch (IOException error) {
			Method reason = ((ShutdownSignalException) error.getCause()).getReason();
			AMQP.Connection.Close close = (AMQP.Connection.Close) reason;
			assert close.getReplyCode() == 530 && close.getReplyText().contains("vhost nowhere not found") : close;
		}
	}

	private static void declare(Connection connection) throws Exception {
		Channel channel = connection.createChannel();
		assert temporaryQueue(channel).startsWith("amq.gen-");
		channel.exchangeDeclare("java.x", "topic", false, true, null);
		AMQP.Queue.DeclareOk ok = channel.queueDeclare("java.q", false, true, false,
				Collections.singletonMap("x-max-length", 5));
		assert ok.getQueue().equals("java.q") && ok.getMessageCount() == 0 && ok.getConsumerCount() == 0;
		channel.queueBind("java.q", "java.x", "a.*");
		channel.confirmSelect();
		channel.basicPublish("java.x", "a.b", null, "1".getBytes());
		channel.basicPublish("java.x", "b.b", null, "2".getBytes());
		channel.waitForConfirmsOrDie(LIMIT_S * 1000);
		assert channel.queueDeclarePassive("java.q").getMessageCount() == 1;
		assert channel.messageCount("java.q") == 1 && channel.consumerCount("java.q") == 0;
		refused(channel, 406, "inequivalent arg 'x-max-length' for queue 'java.q'", 50, 10,
				() -> channel.queueDeclare("java.q", false, true, false, null));
		Channel second = connection.createChannel();
		refused(second, 404, "no queue 'java.none' in vhost '/'", 50, 10,
				() -> second.queueDeclarePassive("java.none"));
		Channel third = connection.createChannel();
		refused(third, 406, "inequivalent arg 'type' for exchange 'java.x'", 40, 10,
				() -> third.exchangeDeclare("java.x", "fanout", false, true, null));
		Channel fourth = connection.createChannel();
		third.abort();
		assert fourth.queueDelete("java.q").getMessageCount() == 1;
		assert connection.isOpen();
	}

	private static void confirms(Connection connection) throws Exception {
		Channel channel = connection.createChannel();
		String queue = temporaryQueue(channel);
		AtomicLong highest = new AtomicLong();
		CountDownLatch all = new CountDownLatch(1000);
		channel.addConfirmListener(new ConfirmListener() {
			@Override
			public void handleAck(long tag, boolean multiple) {
				long first = multiple ? highest.get() + 1 : tag;
				highest.accumulateAndGet(tag, Math::max);
				for (long i = first; i <= tag; i++)
					all.countDown();
			}

			@Override
			public void handleNack(long tag, boolean multiple) {
			}
		});
		channel.confirmSelect();
		for (int i = 0; i < 1000; i++)
			publish(channel, queue, String.valueOf(i));
		assert channel.getNextPublishSeqNo() == 1001;
		channel.waitForConfirmsOrDie(LIMIT_S * 1000);
		await(all, "all confirms by the listener");
		assert channel.messageCount(queue) == 1000 && channel.queuePurge(queue).getMessageCount() == 1000;
	}

	private static void mandatoryReturn(Connection connection) throws Exception {
		Channel channel = connection.createChannel();
		List<String> events = Collections.synchronizedList(new ArrayList<>());
		CountDownLatch confirmed = new CountDownLatch(1);
		channel.addReturnListener((code, text, exchange, key, properties, body) ->
				events.add(code + " " + text + " " + exchange + " " + key + " " + properties.getMessageId()));
		channel.addConfirmListener(new ConfirmListener() {
			@Override
			public void handleAck(long tag, boolean multiple) {
				events.add("ack " + tag);
				confirmed.countDown();
			}

			@Override
			public void handleNack(long tag, boolean multiple) {
				events.add("nack");
			}
		});
		channel.confirmSelect();
		channel.basicPublish("amq.direct", "java.nowhere", true,
				new AMQP.BasicProperties.Builder().messageId("m1").build(), "lost".getBytes());
		await(confirmed, "the confirm");
		assert events.equals(Arrays.asList("312 NO_ROUTE amq.direct java.nowhere m1", "ack 1")) : events;
	}

	private static void prefetch(Connection connection) throws Exception {
		Channel channel = connection.createChannel();
		String queue = temporaryQueue(channel);
		channel.confirmSelect();
		for (int i = 0; i < 10; i++)
			publish(channel, queue, String.valueOf(i));
		channel.waitForConfirmsOrDie(LIMIT_S * 1000);
		channel.basicQos(3);
		Taker taker = new Taker(channel);
		channel.basicConsume(queue, false, taker);
		List<Delivery> first = taker.take(3);
		assert channel.messageCount(queue) == 7 && taker.taken.isEmpty();
		channel.basicAck(first.get(1).tag(), true);
		assert bodies(taker.take(2)).equals(Arrays.asList("3", "4"));
		assert channel.messageCount(queue) == 5 && taker.taken.isEmpty();
		channel.basicAck(0, true);
		assert bodies(taker.take(3)).equals(Arrays.asList("5", "6", "7"));
	}

	private static void rejectAndRequeue(Connection connection) throws Exception {
		Channel channel = connection.createChannel();
		String queue = channel.queueDeclare("", false, true, false, null).getQueue();
		publish(channel, queue, "a", "b", "c");
		Taker taker = new Taker(channel);
		String tag = channel.basicConsume(queue, false, taker);
		List<Delivery> first = taker.take(3);
		channel.basicCancel(tag);
		channel.basicReject(first.get(1).tag(), false);
		channel.basicNack(first.get(2).tag(), true, true);
		tag = channel.basicConsume(queue, false, taker);
		List<Delivery> again = taker.take(2);
		assert bodies(again).equals(Arrays.asList("a", "c")) : bodies(again);
		assert again.get(0).envelope.isRedeliver() && again.get(1).envelope.isRedeliver();
		channel.basicCancel(tag);
		channel.basicRecover(true);
		GetResponse got = channel.basicGet(queue, false);
		assert new String(got.getBody()).equals("a") && got.getEnvelope().isRedeliver();
		assert got.getMessageCount() == 1;
		// Closing the channel brings back what it held.
		channel.close();
		Channel second = connection.createChannel();
		assert second.queueDelete(queue).getMessageCount() == 2;
	}

	private static void transactions(Connection connection) throws Exception {
		Channel channel = connection.createChannel();
		Channel other = connection.createChannel();
		String queue = temporaryQueue(channel);
		channel.txSelect();
		publish(channel, queue, "a", "b");
		assert other.messageCount(queue) == 0;
		channel.txCommit();
		assert other.messageCount(queue) == 2;
		publish(channel, queue, "c");
		channel.txRollback();
		channel.txCommit();
		assert other.messageCount(queue) == 2;
		// An ack counts from the commit on; rolled back it can be given again.
		GetResponse first = channel.basicGet(queue, false);
		channel.basicAck(first.getEnvelope().getDeliveryTag(), false);
		channel.txRollback();
		channel.basicAck(first.getEnvelope().getDeliveryTag(), false);
		channel.txCommit();
		GetResponse second = channel.basicGet(queue, false);
		channel.basicAck(second.getEnvelope().getDeliveryTag(), false);
		channel.close();
		// Not committed, so it is back.
		assert other.messageCount(queue) == 1;
		Channel third = connection.createChannel();
		refused(third, 406, "channel is not transactional", 90, 20, third::txCommit);
		Channel fourth = connection.createChannel();
		fourth.txSelect();
		refused(fourth, 406, "cannot switch from tx to confirm mode", 85, 10, fourth::confirmSelect);
	}

	private static void channelError(Connection connection) throws Exception {
		Channel channel = connection.createChannel();
		BlockingQueue<ShutdownSignalException> ends = new LinkedBlockingQueue<>();
		channel.addShutdownListener(ends::add);
		channel.basicPublish("java.none", "k", null, "lost".getBytes());
		ShutdownSignalException end = ends.poll(LIMIT_S, TimeUnit.SECONDS);
		AMQP.Channel.Close close = (AMQP.Channel.Close) end.getReason();
		assert close.getReplyCode() == 404 && close.getClassId() == 60 && close.getMethodId() == 40 : close;
		assert close.getReplyText().equals("NOT_FOUND - no exchange 'java.none' in vhost '/'") : close;
		try {
			temporaryQueue(channel);
			throw new AssertionError("the channel is still open");
		} catch (AlreadyClosedException expected) {
			assert !expected.isHardError();
		}
		Channel second = connection.createChannel();
		second.addShutdownListener(ends::add);
		second.basicAck(77, false);
		end = ends.poll(LIMIT_S, TimeUnit.SECONDS);
		close = (AMQP.Channel.Close) end.getReason();
		assert close.getReplyText().equals("PRECONDITION_FAILED - unknown delivery tag 77") : close;
		temporaryQueue(connection.createChannel());
	}

	private static void connectionError(Connection connection) throws Exception {
		Channel channel = connection.createChannel();
		Channel bystander = connection.createChannel();
		CountDownLatch both = new CountDownLatch(2);
		channel.addShutdownListener(cause -> both.countDown());
		bystander.addShutdownListener(cause -> both.countDown());
		String queue = temporaryQueue(channel);
		channel.basicConsume(queue, false, "twice", new Taker(channel));
		try {
			channel.basicConsume(queue, false, "twice", new Taker(channel));
			throw new AssertionError("a consumer tag twice");
		} catch (IOException error) {
			ShutdownSignalException signal = (ShutdownSignalException) error.getCause();
			AMQP.Connection.Close close = (AMQP.Connection.Close) signal.getReason();
			assert signal.isHardError() && close.getReplyCode() == 530 : close;
		}
		await(both, "both channels end");
		assert !connection.isOpen();
	}

	private static void cancelNotification(Connection connection) throws Exception {
		Channel channel = connection.createChannel();
		String queue = temporaryQueue(channel);
		Taker taker = new Taker(channel);
		channel.basicConsume(queue, false, taker);
		channel.queueDelete(queue);
		await(taker.cancelled, "basic.cancel");
		assert channel.isOpen();
	}

	/** The application that is killed under: its topology, and the parts of it that must come back. */
	private static class Application {
		final Connection connection;
		final Channel publishing;
		final Channel consuming;
		final Taker anonymous;
		final Taker named;
		final CountDownLatch recovered = new CountDownLatch(1);
		volatile boolean stopping;
		volatile long published;

		Application(Connection connection) throws IOException {
			this.connection = connection;
			publishing = connection.createChannel();
			consuming = connection.createChannel();
			publishing.confirmSelect();
			consuming.basicQos(100);
			consuming.exchangeDeclare("java.in", "fanout", false, true, null);
			consuming.exchangeDeclare("java.out", "direct", false, true, null);
			consuming.exchangeBind("java.out", "java.in", "");
			String queue = temporaryQueue(consuming);
			consuming.queueBind(queue, "java.out", "k");
			consuming.queueDeclare("java.recovery", false, false, true, null);
			consuming.queueBind("java.recovery", "java.out", "k");
			anonymous = new Acker(consuming);
			named = new Acker(consuming);
			consuming.basicConsume(queue, false, "java.anonymous", anonymous);
			consuming.basicConsume("java.recovery", false, "java.named", named);
			((Recoverable) connection).addRecoveryListener(new RecoveryListener() {
				@Override
				public void handleRecovery(Recoverable recoverable) {
					recovered.countDown();
				}

				@Override
				public void handleRecoveryStarted(Recoverable recoverable) {
				}
			});
		}

		boolean recoveredInTime() {
			try {
				return recovered.await(LIMIT_S, TimeUnit.SECONDS);
			} catch (InterruptedException interrupted) {
				return false;
			}
		}

		/**
		 * Publishes and waits for confirms until it is told to stop; after a failure it goes on when all has
		 * recovered. Channels come back before exchanges do, so a message in between would close the channel.
		 */
		void load() {
			while (!stopping) {
				try {
					for (int i = 0; i < 20; i++) {
						String body = String.valueOf(++published);
						publishing.basicPublish("java.in", "k", null, body.getBytes());
					}
					publishing.waitForConfirms(LIMIT_S * 1000);
				} catch (Exception expected) {
					if (!recoveredInTime())
						return;
				}
			}
		}
	}

	/** Acknowledges each delivery and keeps it. */
	private static class Acker extends Taker {
		Acker(Channel channel) {
			super(channel);
		}

		@Override
		public void handleDelivery(String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body) {
			super.handleDelivery(tag, envelope, properties, body);
			try {
				getChannel().basicAck(envelope.getDeliveryTag(), false);
			} catch (IOException | AlreadyClosedException gone) {
				// Killed; what was not acknowledged is gone with the broker.
			}
		}
	}

	private static void awaitBody(Taker taker, long atLeast) throws InterruptedException {
		while (Long.parseLong(taker.take().body) < atLeast) {
		}
	}

	private static void recovery(Connection none) throws Exception {
		ConnectionFactory factory = factory(url);
		factory.setAutomaticRecoveryEnabled(true);
		factory.setNetworkRecoveryInterval(RECOVERY_INTERVAL_MS);
		try (Connection connection = factory.newConnection()) {
			Application application = new Application(connection);
			Thread load = new Thread(application::load);
			load.setDaemon(true);
			load.start();
			awaitBody(application.anonymous, 200);
			awaitBody(application.named, 200);
			System.out.println("kill");
			String answer = new BufferedReader(new InputStreamReader(System.in)).readLine();
			assert "restarted".equals(answer) : answer;
			assert application.recoveredInTime();
			long since = application.published + 1;
			awaitBody(application.anonymous, since);
			awaitBody(application.named, since);
			application.stopping = true;
			load.join(LIMIT_S * 1000);
			assert application.consuming.isOpen() && application.publishing.isOpen();
			assert application.consuming.consumerCount("java.recovery") == 1;
			// Still in confirm mode, and its own queue name is the new one.
			application.publishing.basicPublish("java.in", "k", null, "0".getBytes());
			application.publishing.waitForConfirmsOrDie(LIMIT_S * 1000);
		}
	}

	private static Map<String, Case> cases() {
		Map<String, Case> cases = new LinkedHashMap<>();
		cases.put("login", JavaClient::login);
		cases.put("nio", JavaClient::nio);
		cases.put("declare", JavaClient::declare);
		cases.put("confirms", JavaClient::confirms);
		cases.put("mandatoryReturn", JavaClient::mandatoryReturn);
		cases.put("prefetch", JavaClient::prefetch);
		cases.put("rejectAndRequeue", JavaClient::rejectAndRequeue);
		cases.put("transactions", JavaClient::transactions);
		cases.put("channelError", JavaClient::channelError);
		cases.put("connectionError", JavaClient::connectionError);
		cases.put("cancelNotification", JavaClient::cancelNotification);
		cases.put("tls", JavaClient::tls);
		cases.put("recovery", JavaClient::recovery);
		return cases;
	}

	/** Each case has a connection, which it may bring to its end. */
	private static boolean passes(String name, Case test) {
		try {
			Connection connection = factory(url).newConnection();
			test.run(connection);
			connection.abort();
			System.out.println("ok " + name);
			return true;
		} catch (Throwable error) {
			error.printStackTrace();
			System.out.println("FAIL " + name);
			return false;
		}
	}

	public static void main(String[] arguments) {
		url = arguments[0];
		tlsUrl = arguments[1];
		authority = arguments[2];
		boolean ours = !tlsUrl.isEmpty();
		boolean good = true;
		for (Map.Entry<String, Case> entry : cases().entrySet()) {
			boolean special = entry.getKey().equals("tls") || entry.getKey().equals("recovery");
			if (special && !ours)
				System.out.println("skip " + entry.getKey());
			else
				good &= passes(entry.getKey(), entry.getValue());
		}
		System.out.println("complete");
		System.exit(good ? 0 : 1);
	}
}
