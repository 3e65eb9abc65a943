package servertest

import "time"

// ResetBeforeRead resets the connection (RST) before the effect, as soon as the request's header was read, which is
// what tells the key. The body is not read.
//
// On a reused connection net/http's client sends a request with an Idempotency-Key again by itself, when not one byte
// of an answer came. The request that follows is then the next step's, within the same Do. It goes for
// [ResetAfterEffect] and [CloseAfterEffect] too.
func ResetBeforeRead() Fault {
	f := newFault((*exchange).reset, "ResetBeforeRead()")
	f.unread = true
	return f
}

// ResetAfterEffect resets the connection (RST) after the effect, without a byte of the answer.
func ResetAfterEffect() Fault {
	return newFault(func(x *exchange) {
		x.process()
		x.reset()
	}, "ResetAfterEffect()")
}

// CloseAfterEffect closes the connection in good order (FIN) after the effect, without a byte of the answer.
func CloseAfterEffect() Fault {
	return newFault(func(x *exchange) {
		x.process()
		x.close()
	}, "CloseAfterEffect()")
}

// StaleKeepAlive serves the request and keeps the connection alive. The next request that comes on that connection,
// under whatever key, is read and then dies without a byte of an answer, as if it had crossed the server's closing of
// an idle connection. It is before its effect and takes no step of a script. net/http's client sends it again by
// itself when it carries an Idempotency-Key. The step has fired only when that next request has died.
func StaleKeepAlive() Fault {
	return newFault(func(x *exchange) {
		// Armed first: the client may be back before put has returned.
		x.conn.arm(x.step)
		if err := x.put(x.process()); err != nil {
			x.fired(err)
		}
	}, "StaleKeepAlive()")
}

// Delay holds the request for d before the effect. The request is processed then, whether its client still waits or
// not, as one that was queued on its way.
func Delay(d time.Duration) Fault {
	return newFault(func(x *exchange) {
		if x.hold(d) {
			x.send(x.process())
		}
	}, "Delay(%v)", d).checkDuration(d)
}

// DelayInHandler holds the request for d in front of the handler: the middleware has reserved its key, and the effect
// is not made yet. Whoever comes meanwhile with the key finds it really in flight. The hold ends early with the
// context that the middleware gives the handler. A request that does not come to the handler, such as a replay, is
// not held, and the step then has not fired.
func DelayInHandler(d time.Duration) Fault {
	return newFault(func(x *exchange) {
		_ = x.put(x.processHeld(d)) // the client may have gone: what counts is that the handler was held
	}, "DelayInHandler(%v)", d).checkDuration(d)
}

// DelayAfterEffect holds the whole answer back for d after the effect.
func DelayAfterEffect(d time.Duration) Fault {
	return newFault(func(x *exchange) {
		if a := x.process(); x.hold(d) {
			x.send(a)
		}
	}, "DelayAfterEffect(%v)", d).checkDuration(d)
}

// SlowHeaders sends the status line after the effect, and the rest of the answer d later. The connection closes after
// it.
func SlowHeaders(d time.Duration) Fault {
	return newFault(func(x *exchange) {
		x.sendSlowHeader(x.process(), d)
	}, "SlowHeaders(%v)", d).checkDuration(d)
}

// bodyParts is how many parts SlowBody makes.
const bodyParts = 4

// SlowBody sends the answer's header after the effect, and its body in four parts of about the same length, or byte by
// byte when it has fewer than four, each d after what went before: a body of four bytes or more takes 4d.
func SlowBody(d time.Duration) Fault {
	return newFault(func(x *exchange) {
		x.sendSlowBody(x.process(), d)
	}, "SlowBody(%v)", d).checkDuration(d)
}

// TruncatedBody sends the answer after the effect, n bytes of its body at most, and closes the connection.
// Content-Length is the body's whole length, and at least n+1: it always promises more than is sent.
func TruncatedBody(n int) Fault {
	return newFault(func(x *exchange) {
		x.sendTruncated(x.process(), n)
	}, "TruncatedBody(%d)", n).refuse(n < 0, "the number of bytes is %d, it must not be negative", n)
}

// Duplicate delivers the request twice, as a network that repeats it would: when the first copy was answered, the
// service gets the second. The client gets the first one's answer.
func Duplicate() Fault {
	return newFault(func(x *exchange) {
		a := x.process()
		x.process()
		x.fired(nil)
		x.send(a)
	}, "Duplicate()")
}

// DuplicateAtOnce delivers the request twice at the same time: the second copy comes when the first is in the handler,
// and the first goes on when the service has judged the second, or let it into the handler too. Should the first never
// come to the handler, as a replay does not, the second comes after it. The client gets the first one's answer.
func DuplicateAtOnce() Fault {
	f := newFault(func(x *exchange) {
		a := x.processTwice()
		x.fired(nil)
		x.send(a)
	}, "DuplicateAtOnce()")
	f.seesStore = true
	return f
}

// StoreFailsAtReserve makes the store's Reserve fail with [store.ErrUnavailable] for this request, before the effect.
func StoreFailsAtReserve() Fault { return newStoreFault(failReserve, "StoreFailsAtReserve()") }

// StoreFailsAtComplete makes every call of the store's Complete fail with [store.ErrUnavailable] while this request
// is served. The effect is made, and the response is 503. The middleware records the outcome about 50 ms after it.
// Until then the key is in flight. With server.Transactional the transaction is not affected.
func StoreFailsAtComplete() Fault { return newStoreFault(failComplete, "StoreFailsAtComplete()") }
