package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

var lifetimeCases = []Case{{
	Slug: "expiry", Level: Should, Needs: []Need{NeedExpiry}, gated: true,
	Sequence: "two keys; one of them again within the retention; the same after it; where effects are counted, the " +
		"other one after it, ten times together",
	Rule: "Within the published retention the key replays. After it the key is new, and the request runs again. A " +
		"server that can tell the age of a key may refuse it as expired.",
	Why:     "A retention that is published and not kept makes either a lost record or one that never goes.",
	Sources: []Source{draft("2.3", Should), stripe(), contract("an expired record is absent", Must)},
	run: func(t *trial) {
		o, retention := t.operation(), time.Duration(t.run.target.Retention)
		if e := t.run.target.Expiring; e != nil {
			o, retention = t.use(e.Operation), time.Duration(e.Retention)
		}
		other := t.key()
		race := t.request(o, other, t.payload())
		t.accept("another key, for a race after the retention", race)
		r, a, b := t.within(o, retention, 0, "within the retention")
		t.want(t.run.alike(a, b), "the same response again, "+a.String(), t.unlike(a, b))
		if !t.ended() {
			t.proven(o, a, b)
		}
		// Stores round up to their own time unit, and delete expired records only now and then.
		t.wait(time.Until(b.done.Add(retention + retention/4 + 100*time.Millisecond)))
		if len(t.run.target.Setup) > 0 {
			r, race = t.request(o, t.keys[len(t.keys)-1], t.payload()), t.request(o, other, t.payload())
		}
		c := t.send("after the retention", r)
		if c.refused() && t.run.profile.code(c) == taxonomy.KeyExpired {
			t.note("the target refuses a key that is older than its retention: %s", c)
			t.effect(1)
			return
		}
		t.want(c.ok(), "2xx", c)
		// The target publishes its retention, so no level excuses a key that outlives it.
		if t.fx() {
			n, two := t.effects(2*max(t.tally.unit, 1)), 2*max(t.tally.unit, 1)
			if t.must(n == two, effectsText(two), effectsText(n)) && c.ok() {
				t.expireTogether(race, retention)
			}
			return
		}
		t.must(len(differences(a, c)) > 0, "another operation's response", c)
	},
}, {
	Slug: "lifetime-advertised", Level: Must, Needs: []Need{NeedAdvertised}, gated: true,
	Sequence: "the request that advertises the retention; a request, and the same after three quarters of that time",
	Rule: "The advertised time is whole seconds or an ISO 8601 duration, and no shorter than the profile allows. " +
		"Keys " +
		"are kept that long. A time of more than a minute is not waited for: late-replay tries the run's first keys.",
	Why: "A client reads the time, and sends a key again as long as it lasts. If the record is gone by then, the " +
		"retry " +
		"is a second payment.",
	Sources: []Source{
		draft("2.3", Should), {Ref: "Apache Iceberg REST catalog, idempotency-key-lifetime", Level: Should},
		{Ref: "AdCP security, replay_ttl_seconds", Level: Must}, contract("retention: published", Must),
	},
	run: func(t *trial) {
		d, text, err := t.run.readLifetime(t.try("the request that advertises", t.advertised()))
		if err != nil {
			t.stop(Fail, "whole seconds, or an ISO 8601 duration such as PT30M", err.Error())
		}
		least := time.Duration(t.run.profile.Retention)
		t.want(d >= least, fmt.Sprintf("%v or more, as the profile %s has it", least, t.run.profile.Name), text)
		age, label := d*3/4, "after three quarters of the advertised time"
		if d > maxWait {
			t.note("%v is too long to wait for: see late-replay", d)
			age, label = 0, "the second request"
		}
		_, a, b := t.within(t.operation(), d, age, label)
		t.again(a, b)
	},
}}

// expireTogether judges requests that come together after the retention of their key. One of them makes the key new.
func (t *trial) expireTogether(r request, retention time.Duration) {
	t.anew()
	unit, began := max(t.tally.unit, 1), time.Now()
	t.tally.extra += unit
	t.racers("another key after the retention", r)
	if time.Since(began) >= retention { // the key may have expired again before the last racer came
		t.tally.extra += racers * unit
	} else if t.effects(unit) > unit {
		t.effect(1)
	}
}

// within sends a request, and the same again at the given age. A busy machine may respond too late, so it repeats with
// another key until the second response comes within the retention.
func (t *trial) within(o Operation, retention, age time.Duration, label string) (r request, a, b *answer) {
	for try := 0; try < 2*overlaps && (b == nil || b.done.Sub(a.sent) >= retention); try++ {
		t.anew()
		t.tally.extra += max(t.tally.unit, 1) // the key may run again after its retention
		r = t.request(o, t.key(), t.payload())
		a = t.accept("the first request", r)
		t.wait(time.Until(a.sent.Add(age)))
		b = t.retry(label, r)
	}
	if b.done.Sub(a.sent) >= retention {
		t.inconclusive("the retention of %v was over before the second request had its response", retention)
	}
	return r, a, b
}

// advertised returns the request whose response advertises the retention.
func (t *trial) advertised() request {
	return t.bare(t.variant(t.run.target.Advertised.Operation), t.values())
}

// readLifetime returns the retention that a response advertises, and its text.
func (r *runner) readLifetime(a *answer) (d time.Duration, text string, err error) {
	if !a.ok() {
		return 0, "", errors.New(a.String())
	}
	where := r.target.Advertised
	if where.Header != "" {
		text = a.header.Get(where.Header)
	} else {
		v, err := valueAt(a.content(), where.Member)
		if err != nil {
			return 0, "", err
		}
		text = fmt.Sprint(v)
	}
	d, ok := wire.Lifetime(text)
	if !ok {
		return 0, "", fmt.Errorf("%q", excerpt(text))
	}
	return d, text, nil
}

// learnLifetime takes the advertised retention for the target's. It wins over the documented one, since clients go by
// it. The case lifetime-advertised judges an unreadable time.
func (r *runner) learnLifetime(ctx context.Context) {
	if r.target.Advertised == nil {
		return
	}
	t := &trial{ctx: ctx, run: r, word: r.nonce + "lifetime", fresh: random(r.nonce, "lifetime")}
	if d, _, err := r.readLifetime(r.exchange(ctx, r.dialer, t.advertised())); err == nil {
		r.target.Retention = Duration(d)
	}
}
