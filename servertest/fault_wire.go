package servertest

import "time"

// ResetBeforeRead resets the connection (RST) before the effect, right after the request's header. The header
// contains the key. The body is not read.
//
// On a reused connection, net/http's client resends a request with an Idempotency-Key if no byte of a response
// arrived. The resent request then takes the next step, within the same Do. The same holds for [ResetAfterEffect]
// and [CloseAfterEffect].
func ResetBeforeRead() Fault {
	f := newFault((*exchange).reset, "ResetBeforeRead()")
	f.unread = true
	return f
}

// ResetAfterEffect resets the connection (RST) after the effect, without a byte of the response.
func ResetAfterEffect() Fault {
	return newFault(func(x *exchange) {
		x.process()
		x.reset()
	}, "ResetAfterEffect()")
}

// CloseAfterEffect closes the connection in good order (FIN) after the effect, without a byte of the response.
func CloseAfterEffect() Fault {
	return newFault(func(x *exchange) {
		x.process()
		x.close()
	}, "CloseAfterEffect()")
}

// StaleKeepAlive serves the request and keeps the connection alive. The next request on that connection, with any
// key, is read and then fails without a byte of a response. That is as if it had arrived while the server closed
// an idle connection. It fails before its effect and takes no step of a script. If it has an Idempotency-Key,
// net/http's client resends it. The step has fired only when that next request has failed.
func StaleKeepAlive() Fault {
	return newFault(func(x *exchange) {
		// The connection is armed first, because the client may send its next request before put returns.
		x.conn.arm(x.step)
		if err := x.put(x.process()); err != nil {
			x.fired(err)
		}
	}, "StaleKeepAlive()")
}

// Delay holds the request for d before the effect. The request then runs even if its client no longer waits, like
// a request that was queued on its way.
func Delay(d time.Duration) Fault {
	return newFault(func(x *exchange) {
		if x.hold(d) {
			x.send(x.process())
		}
	}, "Delay(%v)", d).checkDuration(d)
}

// DelayInHandler holds the request for d in front of the handler. The middleware has then reserved its key, and
// the effect is not made yet. A concurrent request with the key is therefore really in flight. The hold ends early
// with the context that the middleware gives the handler. A request that does not reach the handler, such as a
// replay, is not held, and the step has not fired.
func DelayInHandler(d time.Duration) Fault {
	return newFault(func(x *exchange) {
		_ = x.put(x.processHeld(d)) // the client may be gone: only the hold in the handler counts
	}, "DelayInHandler(%v)", d).checkDuration(d)
}

// DelayAfterEffect delays the whole response for d after the effect.
func DelayAfterEffect(d time.Duration) Fault {
	return newFault(func(x *exchange) {
		if a := x.process(); x.hold(d) {
			x.send(a)
		}
	}, "DelayAfterEffect(%v)", d).checkDuration(d)
}

// SlowHeaders sends the status line after the effect, and the rest of the response d later. It then closes the
// connection.
func SlowHeaders(d time.Duration) Fault {
	return newFault(func(x *exchange) {
		x.sendSlowHeader(x.process(), d)
	}, "SlowHeaders(%v)", d).checkDuration(d)
}

// bodyParts is the number of parts that SlowBody sends.
const bodyParts = 4

// SlowBody sends the response's header after the effect, and then its body in four parts of about the same length.
// A shorter body is sent byte by byte. Each part is sent d after the previous one, so a body of four bytes or more
// takes 4d.
func SlowBody(d time.Duration) Fault {
	return newFault(func(x *exchange) {
		x.sendSlowBody(x.process(), d)
	}, "SlowBody(%v)", d).checkDuration(d)
}

// TruncatedBody sends the response after the effect, at most n bytes of its body, and closes the connection.
// Content-Length is the body's whole length, and at least n+1, so it always exceeds the bytes sent.
func TruncatedBody(n int) Fault {
	return newFault(func(x *exchange) {
		x.sendTruncated(x.process(), n)
	}, "TruncatedBody(%d)", n).refuse(n < 0, "the number of bytes is %d, it must not be negative", n)
}

// Duplicate delivers the request twice, like a network that repeats it. The service gets the second copy after its
// response to the first. The client gets the first response.
func Duplicate() Fault {
	return newFault(func(x *exchange) {
		a := x.process()
		x.process()
		x.fired(nil)
		x.send(a)
	}, "Duplicate()")
}

// DuplicateAtOnce delivers the request twice at the same time. The second copy arrives when the first is in the
// handler. The first continues when the service has judged the second or has let it into the handler. If the first
// never reaches the handler, as in a replay, the second comes after it. The client gets the first response.
func DuplicateAtOnce() Fault {
	f := newFault(func(x *exchange) {
		a := x.processTwice()
		x.fired(nil)
		x.send(a)
	}, "DuplicateAtOnce()")
	f.seesStore = true
	return f
}

// StoreFailsAtReserve makes the store's Reserve fail with [store.ErrUnavailable] for this request, before the
// effect. With server.Transactional the request calls Begin instead, and the step does not fire.
func StoreFailsAtReserve() Fault { return newStoreFault(failReserve, "StoreFailsAtReserve()") }

// StoreFailsAtComplete makes every call of the store's Complete fail with [store.ErrUnavailable] while this
// request is served. The effect is made, and the response is 503. It comes when the middleware gives the store up,
// after 5 seconds unless [WithMiddleware] has a server.StoreTimeout. The middleware records the outcome about 50 ms
// after the response. Until then the key is in flight. With server.Transactional the transaction is not affected, and
// the step does not fire.
func StoreFailsAtComplete() Fault { return newStoreFault(failComplete, "StoreFailsAtComplete()") }
