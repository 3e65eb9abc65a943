package decision

import "github.com/redo-go/redo/taxonomy"

// Knowledge holds the evidence of the attempts so far about the operation's effect.
type Knowledge struct {
	Prior   bool // another call under the same key may have had the effect
	Unknown bool // an attempt with the same payload may have had the effect
	Applied bool // a response reported the effect
}

// Fold adds one attempt with its verdict. resent is true if net/http sent the request more than once.
func (k Knowledge) Fold(v taxonomy.Verdict, resent bool) Knowledge {
	switch {
	case v.Effect == taxonomy.Applied:
		k.Applied = true
	case v.Effect == taxonomy.EffectUnknown, resent && !settles(v):
		// Of two sends one got a response. The other may have had the effect.
		k.Unknown = true
	}
	return k
}

// Effect returns the operation's effect after an attempt with verdict v. A refusal settles an unknown effect only if it
// comes from the server's record of the key. A refusal from in front of the record proves nothing about an earlier
// attempt. A payload mismatch that the server states proves that the other call had another payload.
func (k Knowledge) Effect(v taxonomy.Verdict) taxonomy.Effect {
	switch {
	case k.Applied:
		return taxonomy.Applied
	case v.Effect == taxonomy.NotApplied &&
		(settles(v) || !k.Unknown && (!k.Prior || v.Said && v.Code.In(taxonomy.PayloadMismatch))):
		return taxonomy.NotApplied
	}
	return taxonomy.EffectUnknown
}

// settles reports whether a refusal comes from the server's record of the operation. The record of another payload,
// however it is marked, shows nothing about this one.
func settles(v taxonomy.Verdict) bool { return v.Final && !v.Code.In(taxonomy.PayloadMismatch) }
