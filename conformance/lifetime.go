package conformance

import (
	"time"
)

var lifetimeCases = []Case{{
	Slug: "expiry", Level: Should, Needs: []Need{NeedExpiry}, gated: true,
	Sequence: "a request; the same within the retention; the same after it",
	Rule:     "Within the published retention the key replays. After it the key is new, and the request runs again.",
	Why:      "A retention that is published and not kept makes either a lost record or one that never goes.",
	Sources:  []Source{draft("2.3", Should), stripe(), contract("an expired record is absent", Must)},
	run: func(t *trial) {
		o, retention := t.operation(), time.Duration(t.run.target.Retention)
		if e := t.run.target.Expiring; e != nil {
			o, retention = t.use(e.Operation), time.Duration(e.Retention)
		}
		var r request
		var a, b *answer
		for try := 0; try < 2*overlaps && (b == nil || b.done.Sub(a.sent) >= retention); try++ {
			t.anew()
			t.tally.extra += max(t.tally.unit, 1) // the key may run again after its retention
			r = t.request(o, t.key(), t.payload())
			a = t.accept("the first request", r)
			b = t.send("within the retention", r)
		}
		if b.done.Sub(a.sent) >= retention {
			t.inconclusive("the retention of %v was over before the second request was answered", retention)
		}
		t.want(t.run.alike(a, b), "the same response again, "+a.String(), t.unlike(a, b))
		if !t.ended() {
			t.proven(o, a, b)
		}
		// Stores round up to their own time unit, and delete expired records only now and then.
		t.wait(time.Until(b.done.Add(retention + retention/4 + 100*time.Millisecond)))
		if len(t.run.target.Setup) > 0 {
			r = t.request(o, t.keys[len(t.keys)-1], t.payload())
		}
		c := t.send("after the retention", r)
		t.want(c.ok(), "2xx", c)
		// The target publishes its retention, so no level excuses a key that outlives it.
		if t.fx() {
			n, two := t.effects(2*max(t.tally.unit, 1)), 2*max(t.tally.unit, 1)
			t.must(n == two, effectsText(two), effectsText(n))
			return
		}
		t.must(len(differences(a, c)) > 0, "another operation's response", c)
	},
}}
