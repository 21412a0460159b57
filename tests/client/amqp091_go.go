// SPDX-License-Identifier: Apache-2.0

// The cases for amqp091-go; amqp091_go.py builds and runs it and says what is printed when.
// Arguments: URL, TLS URL, file of the authority; the last two empty when the broker cannot be restarted.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	limit         = 20 * time.Second
	retryInterval = 200 * time.Millisecond
)

var url, tlsURL, authority string

// failure is what a case panics with: the runner counts it and goes on with the next.
type failure string

func must(err error) {
	if err != nil {
		panic(failure(err.Error()))
	}
}

func equal(what string, got, want interface{}) {
	if !reflect.DeepEqual(got, want) {
		panic(failure(fmt.Sprintf("%s: %v, wanted %v", what, got, want)))
	}
}

func open(connection *amqp.Connection) *amqp.Channel {
	channel, err := connection.Channel()
	must(err)
	return channel
}

// temporary declares an exclusive queue with a name of the server's.
func temporary(channel *amqp.Channel) string {
	queue, err := channel.QueueDeclare("", false, false, true, false, nil)
	must(err)
	return queue.Name
}

func publish(channel *amqp.Channel, queue string, bodies ...string) {
	for _, body := range bodies {
		must(channel.PublishWithContext(context.Background(), "", queue, false, false,
			amqp.Publishing{Body: []byte(body)}))
	}
}

func numbers(count int) []string {
	list := make([]string, count)
	for i := range list {
		list[i] = strconv.Itoa(i)
	}
	return list
}

// messages is how many a queue has ready, asked on that channel.
func messages(channel *amqp.Channel, queue string) int {
	state, err := channel.QueueInspect(queue)
	must(err)
	return state.Messages
}

func next(deliveries <-chan amqp.Delivery) amqp.Delivery {
	select {
	case delivery, open := <-deliveries:
		if !open {
			panic(failure("the deliveries ended"))
		}
		return delivery
	case <-time.After(limit):
		panic(failure("no delivery came"))
	}
}

func take(deliveries <-chan amqp.Delivery, count int) []amqp.Delivery {
	var taken []amqp.Delivery
	for len(taken) < count {
		taken = append(taken, next(deliveries))
	}
	return taken
}

func bodies(deliveries []amqp.Delivery) []string {
	var list []string
	for _, delivery := range deliveries {
		list = append(list, string(delivery.Body))
	}
	return list
}

func awaitError(errors <-chan *amqp.Error) *amqp.Error {
	select {
	case err := <-errors:
		return err
	case <-time.After(limit):
		panic(failure("no error came"))
	}
}

// refused checks what a call gives that ends its channel, and what the channel's listeners are told.
func refused(channel *amqp.Channel, code int, text string, call func() error) {
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	err := call()
	failed, is := err.(*amqp.Error)
	if !is || failed.Code != code || !strings.Contains(failed.Reason, text) || !failed.Server {
		panic(failure(fmt.Sprintf("wanted %d %s, not %v", code, text, err)))
	}
	equal("what the channel is told", awaitError(closed).Code, code)
	equal("a closed channel's call", channel.Confirm(false), error(amqp.ErrClosed))
}

func login(*amqp.Connection) {
	_, err := amqp.Dial(strings.Replace(url, "guest@", "wrong@", 1))
	equal("a wrong password", err, error(amqp.ErrCredentials))
	_, err = amqp.Dial(strings.Replace(url, "%2f", "nowhere", 1))
	equal("a wrong vhost", err, error(amqp.ErrVhost))
}

func overTLS(*amqp.Connection) {
	pem, err := os.ReadFile(authority)
	must(err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		connection, err := amqp.DialTLS(tlsURL,
			&tls.Config{RootCAs: trusted, MinVersion: version, MaxVersion: version})
		must(err)
		equal("the version", connection.ConnectionState().Version, version)
		channel := open(connection)
		queue := temporary(channel)
		publish(channel, queue, strings.Repeat("x", 300000))
		deliveries, err := channel.Consume(queue, "", true, false, false, false, nil)
		must(err)
		equal("the size", len(next(deliveries).Body), 300000)
		must(connection.Close())
	}
	if _, err := amqp.DialTLS(tlsURL, &tls.Config{}); err == nil {
		panic(failure("the authority is a stranger, and it connects"))
	}
}

func declare(connection *amqp.Connection) {
	channel := open(connection)
	if name := temporary(channel); !strings.HasPrefix(name, "amq.gen-") {
		panic(failure(name))
	}
	must(channel.ExchangeDeclare("go.x", "topic", false, true, false, false, nil))
	arguments := amqp.Table{"x-max-length": int32(5)}
	queue, err := channel.QueueDeclare("go.q", false, true, false, false, arguments)
	must(err)
	equal("the queue", queue, amqp.Queue{Name: "go.q"})
	must(channel.QueueBind("go.q", "a.*", "go.x", false, nil))
	must(channel.QueueUnbind("go.q", "none", "go.x", nil))
	_, err = channel.QueueDeclarePassive("go.q", false, true, false, false, nil)
	must(err)
	refused(channel, 406, "inequivalent arg 'x-max-length' for queue 'go.q'", func() error {
		_, err := channel.QueueDeclare("go.q", false, true, false, false, nil)
		return err
	})
	second := open(connection)
	refused(second, 404, "no queue 'go.none' in vhost '/'", func() error {
		_, err := second.QueueInspect("go.none")
		return err
	})
	third := open(connection)
	refused(third, 404, "no exchange 'go.none' in vhost '/'", func() error {
		return third.ExchangeDeclarePassive("go.none", "direct", false, false, false, false, nil)
	})
	fourth := open(connection)
	_, err = fourth.QueueDelete("go.q", false, false, false)
	must(err)
	must(fourth.Close())
}

func confirms(connection *amqp.Connection) {
	const count = 1000
	channel := open(connection)
	queue := temporary(channel)
	must(channel.Confirm(false))
	confirmed := channel.NotifyPublish(make(chan amqp.Confirmation, count))
	publish(channel, queue, numbers(count)...)
	for tag := uint64(1); tag <= count; tag++ {
		select {
		case confirmation := <-confirmed:
			equal("the confirm", confirmation, amqp.Confirmation{DeliveryTag: tag, Ack: true})
		case <-time.After(limit):
			panic(failure(fmt.Sprintf("no confirm for %d", tag)))
		}
	}
	equal("the queue", messages(channel, queue), count)
	purged, err := channel.QueuePurge(queue, false)
	must(err)
	equal("purged", purged, count)
}

func mandatoryReturn(connection *amqp.Connection) {
	channel := open(connection)
	must(channel.Confirm(false))
	returned := channel.NotifyReturn(make(chan amqp.Return, 1))
	// Not by a deferred confirmation: in this version one that arrives at once is lost.
	confirmed := channel.NotifyPublish(make(chan amqp.Confirmation, 1))
	must(channel.PublishWithContext(context.Background(), "amq.direct", "go.nowhere", true, false,
		amqp.Publishing{MessageId: "m1", Body: []byte("lost"), Headers: amqp.Table{"n": int64(1)}}))
	select {
	case confirmation := <-confirmed:
		equal("the confirm", confirmation, amqp.Confirmation{DeliveryTag: 1, Ack: true})
	case <-time.After(limit):
		panic(failure("no confirm"))
	}
	// The return is there before the confirm.
	select {
	case back := <-returned:
		equal("code", back.ReplyCode, uint16(312))
		equal("text", back.ReplyText, "NO_ROUTE")
		equal("key", back.RoutingKey, "go.nowhere")
		equal("message", back.MessageId+string(back.Body), "m1lost")
		equal("headers", back.Headers, amqp.Table{"n": int64(1)})
	default:
		panic(failure("confirmed and not returned"))
	}
}

func prefetch(connection *amqp.Connection) {
	channel := open(connection)
	queue := temporary(channel)
	publish(channel, queue, numbers(10)...)
	must(channel.Qos(3, 0, false))
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	must(err)
	first := take(deliveries, 3)
	equal("left", messages(channel, queue), 7)
	must(first[1].Ack(true))
	equal("after two acks", bodies(take(deliveries, 2)), []string{"3", "4"})
	equal("left", messages(channel, queue), 5)
	must(channel.Ack(0, true))
	equal("after all", bodies(take(deliveries, 3)), []string{"5", "6", "7"})
}

func rejectAndRequeue(connection *amqp.Connection) {
	channel := open(connection)
	queue := temporary(channel)
	publish(channel, queue, "a", "b", "c")
	deliveries, err := channel.Consume(queue, "tag", false, false, false, false, nil)
	must(err)
	first := take(deliveries, 3)
	must(channel.Cancel("tag", false))
	if _, open := <-deliveries; open {
		panic(failure("cancelled, and a delivery came"))
	}
	must(first[1].Reject(false))
	must(first[2].Nack(true, true))
	for _, want := range []string{"a", "c"} {
		got, is, err := channel.Get(queue, false)
		must(err)
		equal("one is there", is, true)
		equal("the body", string(got.Body), want)
		equal("redelivered", got.Redelivered, true)
	}
	must(channel.Recover(true))
	got, _, err := channel.Get(queue, true)
	must(err)
	equal("after recover", string(got.Body), "a")
	equal("left", messages(channel, queue), 1)
	must(channel.Close())
	_, is, err := open(connection).Get(queue, true)
	must(err)
	equal("one is there", is, true)
}

func transactions(connection *amqp.Connection) {
	channel, other := open(connection), open(connection)
	queue := temporary(channel)
	must(channel.Tx())
	publish(channel, queue, "a", "b")
	equal("before the commit", messages(other, queue), 0)
	must(channel.TxCommit())
	equal("after the commit", messages(other, queue), 2)
	publish(channel, queue, "c")
	must(channel.TxRollback())
	must(channel.TxCommit())
	equal("after the rollback", messages(other, queue), 2)
	got, _, err := channel.Get(queue, false)
	must(err)
	must(got.Ack(false))
	must(channel.TxRollback())
	must(got.Ack(false))
	must(channel.TxCommit())
	got, _, err = channel.Get(queue, false)
	must(err)
	must(got.Ack(false))
	must(channel.Close())
	equal("the ack was not committed", messages(other, queue), 1)
	third := open(connection)
	refused(third, 406, "channel is not transactional", third.TxCommit)
	fourth := open(connection)
	must(fourth.Confirm(false))
	refused(fourth, 406, "cannot switch from confirm to tx mode", fourth.Tx)
}

func channelError(connection *amqp.Connection) {
	channel := open(connection)
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	queue := temporary(channel)
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	must(err)
	must(channel.PublishWithContext(context.Background(), "go.none", "k", false, false, amqp.Publishing{}))
	failed := awaitError(closed)
	equal("the code", failed.Code, 404)
	equal("the text", failed.Reason, "NOT_FOUND - no exchange 'go.none' in vhost '/'")
	if _, open := <-deliveries; open {
		panic(failure("the channel is closed, and a delivery came"))
	}
	second := open(connection)
	closed = second.NotifyClose(make(chan *amqp.Error, 1))
	must(second.Ack(77, false))
	equal("the text", awaitError(closed).Reason, "PRECONDITION_FAILED - unknown delivery tag 77")
	temporary(open(connection))
}

func connectionError(connection *amqp.Connection) {
	closed := connection.NotifyClose(make(chan *amqp.Error, 1))
	bystander := open(connection).NotifyClose(make(chan *amqp.Error, 1))
	channel := open(connection)
	queue := temporary(channel)
	_, err := channel.Consume(queue, "twice", false, false, false, false, nil)
	must(err)
	_, err = channel.Consume(queue, "twice", false, false, false, false, nil)
	if err == nil {
		panic(failure("a consumer tag twice"))
	}
	equal("the connection", awaitError(closed).Code, 530)
	equal("its other channel", awaitError(bystander).Code, 530)
	equal("closed", connection.IsClosed(), true)
}

func cancelNotification(connection *amqp.Connection) {
	channel := open(connection)
	cancelled := channel.NotifyCancel(make(chan string, 1))
	queue := temporary(channel)
	_, err := channel.Consume(queue, "tag", false, false, false, false, nil)
	must(err)
	_, err = channel.QueueDelete(queue, false, false, false)
	must(err)
	select {
	case tag := <-cancelled:
		equal("the tag", tag, "tag")
	case <-time.After(limit):
		panic(failure("no basic.cancel"))
	}
}

// application is what one connection carries; a lost one is replaced by a new one, as the library has no
// recovery of its own.
type application struct {
	published int64         // number of the last message, over all connections
	consumed  chan int64    // the numbers as they come
	connected chan struct{} // one for each connection with its topology
}

// serve connects, declares, publishes and consumes until the connection is lost.
func (a *application) serve() error {
	connection, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	defer connection.Close()
	closed := connection.NotifyClose(make(chan *amqp.Error, 1))
	channel, deliveries, err := topology(connection)
	if err != nil {
		return err
	}
	a.connected <- struct{}{}
	go func() {
		for delivery := range deliveries {
			number, _ := strconv.ParseInt(string(delivery.Body), 10, 64)
			a.consumed <- number
			delivery.Ack(false)
		}
	}()
	// The confirms of ten messages are awaited together.
	confirmed := channel.NotifyPublish(make(chan amqp.Confirmation, 10))
	for {
		for i := 0; i < 10; i++ {
			number := strconv.FormatInt(atomic.AddInt64(&a.published, 1), 10)
			err := channel.PublishWithContext(context.Background(), "go.in", "k", false, false,
				amqp.Publishing{Body: []byte(number)})
			if err != nil {
				return err
			}
		}
		for i := 0; i < 10; i++ {
			if _, open := <-confirmed; !open {
				return <-closed
			}
		}
	}
}

func topology(connection *amqp.Connection) (*amqp.Channel, <-chan amqp.Delivery, error) {
	channel, err := connection.Channel()
	if err != nil {
		return nil, nil, err
	}
	for _, step := range []func() error{
		func() error { return channel.Confirm(false) },
		func() error { return channel.Qos(50, 0, false) },
		func() error { return channel.ExchangeDeclare("go.in", "direct", false, true, false, false, nil) },
		func() error {
			_, err := channel.QueueDeclare("go.recovery", false, false, true, false, nil)
			return err
		},
		func() error { return channel.QueueBind("go.recovery", "k", "go.in", false, nil) },
	} {
		if err := step(); err != nil {
			return nil, nil, err
		}
	}
	deliveries, err := channel.Consume("go.recovery", "", false, false, false, false, nil)
	return channel, deliveries, err
}

func (a *application) await(atLeast int64) {
	deadline := time.After(limit)
	for {
		select {
		case number := <-a.consumed:
			if number >= atLeast {
				return
			}
		case <-deadline:
			panic(failure(fmt.Sprintf("message %d did not come", atLeast)))
		}
	}
}

func recovery(*amqp.Connection) {
	a := &application{consumed: make(chan int64, 100000), connected: make(chan struct{}, 100)}
	stopped := make(chan struct{})
	go func() {
		for {
			a.serve()
			select {
			case <-stopped:
				return
			case <-time.After(retryInterval):
			}
		}
	}()
	<-a.connected
	a.await(200)
	fmt.Println("kill")
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	must(err)
	equal("the answer", answer, "restarted\n")
	select {
	case <-a.connected:
	case <-time.After(limit):
		panic(failure("no new connection"))
	}
	a.await(atomic.LoadInt64(&a.published) + 100)
	close(stopped)
}

// passes runs a case on a connection of its own, which it may bring to its end.
func passes(name string, run func(*amqp.Connection)) (good bool) {
	defer func() {
		if problem := recover(); problem != nil {
			fmt.Fprintln(os.Stderr, name, problem)
			fmt.Println("FAIL", name)
			good = false
		}
	}()
	connection, err := amqp.Dial(url)
	must(err)
	run(connection)
	if !connection.IsClosed() {
		must(connection.Close())
	}
	fmt.Println("ok", name)
	return true
}

func main() {
	url, tlsURL, authority = os.Args[1], os.Args[2], os.Args[3]
	cases := []struct {
		name string
		ours bool // needs a broker of our own
		run  func(*amqp.Connection)
	}{
		{"login", false, login}, {"declare", false, declare}, {"confirms", false, confirms},
		{"mandatoryReturn", false, mandatoryReturn}, {"prefetch", false, prefetch},
		{"rejectAndRequeue", false, rejectAndRequeue}, {"transactions", false, transactions},
		{"channelError", false, channelError}, {"connectionError", false, connectionError},
		{"cancelNotification", false, cancelNotification}, {"tls", true, overTLS}, {"recovery", true, recovery},
	}
	good := true
	for _, test := range cases {
		if test.ours && tlsURL == "" {
			fmt.Println("skip", test.name)
		} else {
			good = passes(test.name, test.run) && good
		}
	}
	fmt.Println("complete")
	if !good {
		os.Exit(1)
	}
}
