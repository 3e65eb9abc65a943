package conformance

import (
	"time"
)

var lifetimeCases = []Case{{
	Slug: "expiry", Level: Should, Needs: []Need{NeedExpiry}, gated: true, after: replays,
	Sequence: "K,B1; K,B1 within the retention; K,B1 after it",
	Rule:     "Within the retention the key replays; after it the key is new, E=2.",
	Why:      "A retention that is published and not kept makes either a lost record or one that never goes.",
	Sources:  []Source{draft("2.3", Should), stripe(), contract("an expired record is absent", Must)},
	run: func(t *trial) {
		o, retention := t.operation(), time.Duration(t.run.target.Retention)
		if e := t.run.target.Expiring; e != nil {
			o, retention = t.variant(e.Operation), time.Duration(e.Retention)
		}
		var r request
		var a, b *answer
		for try := 0; try < overlaps && (b == nil || b.done.Sub(a.sent) >= retention); try++ {
			t.anew()
			r = t.request(o, t.key(), t.payload())
			a = t.accept("the first request", r)
			b = t.send("within the retention", r)
		}
		if b.done.Sub(a.sent) >= retention {
			t.inconclusive("the retention of %v was over before the second request was answered", retention)
		}
		t.want(same(a, b), "the same response again", b)
		if !t.ended() {
			t.proven(o, a, b)
		}
		// Stores round up to their own grain, and expire in passing.
		t.wait(time.Until(b.done.Add(retention + retention/4 + 100*time.Millisecond)))
		c := t.send("after the retention", r)
		t.want(c.ok(), "2xx", c)
		if t.fx() {
			n := t.effects()
			t.want(n == 2, effectsText(2), effectsText(n))
			return
		}
		t.want(len(differences(a, c)) > 0, "another operation's response", c)
	},
}}
