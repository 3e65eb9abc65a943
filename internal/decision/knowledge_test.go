package decision

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/taxonomy"
)

// TestKnowledge states the effect that a sequence of attempts proves. The last attempt is the call's.
func TestKnowledge(t *testing.T) {
	type attempt struct {
		verdict taxonomy.Verdict
		resent  bool
	}
	v := func(effect taxonomy.Effect, class taxonomy.Class) taxonomy.Verdict {
		return taxonomy.Verdict{Effect: effect, Class: class}
	}
	final := func(effect taxonomy.Effect) taxonomy.Verdict {
		return taxonomy.Verdict{Effect: effect, Class: taxonomy.ClassTerminal, Final: true}
	}
	unsent := attempt{verdict: v(taxonomy.NotApplied, taxonomy.ClassTransient)}
	lost := attempt{verdict: v(taxonomy.EffectUnknown, taxonomy.ClassTransient)}
	refused := attempt{verdict: v(taxonomy.NotApplied, taxonomy.ClassTerminal)}
	recorded := attempt{verdict: final(taxonomy.NotApplied)}
	mismatch := attempt{verdict: taxonomy.Verdict{
		Code: taxonomy.PayloadMismatch, Effect: taxonomy.NotApplied, Said: true, Final: true,
	}}
	done := attempt{verdict: v(taxonomy.Applied, taxonomy.ClassSuccess)}
	resent := func(a attempt) attempt { a.resent = true; return a }
	for _, c := range []struct {
		name     string
		prior    bool
		attempts []attempt
		want     taxonomy.Effect
	}{
		{"a success was applied", false, []attempt{done}, taxonomy.Applied},
		{"a success after losses was applied", false, []attempt{lost, unsent, done}, taxonomy.Applied},
		{"a lost response is unknown", false, []attempt{lost}, taxonomy.EffectUnknown},
		{"a request that was never sent was not applied", false, []attempt{unsent, unsent}, taxonomy.NotApplied},
		{"a refusal was not applied", false, []attempt{refused}, taxonomy.NotApplied},
		{
			"a refusal after attempts that were not sent was not applied", false, []attempt{unsent, refused},
			taxonomy.NotApplied,
		},

		{"a refusal settles nothing that was lost before", false, []attempt{lost, refused}, taxonomy.EffectUnknown},
		{"nor does an attempt that was not sent", false, []attempt{lost, unsent}, taxonomy.EffectUnknown},
		{"a refusal from the key's record settles it", false, []attempt{lost, recorded}, taxonomy.NotApplied},
		{"a loss after a refusal is unknown", false, []attempt{refused, lost}, taxonomy.EffectUnknown},

		{"a refusal settles nothing of an earlier call", true, []attempt{refused}, taxonomy.EffectUnknown},
		{
			"nor does an attempt that was not sent, after an earlier call", true, []attempt{unsent},
			taxonomy.EffectUnknown,
		},
		{"a refusal from the key's record settles an earlier call", true, []attempt{recorded}, taxonomy.NotApplied},
		{"a success settles an earlier call", true, []attempt{done}, taxonomy.Applied},

		{"of two sends one may have been applied", false, []attempt{resent(refused)}, taxonomy.EffectUnknown},
		{"a refusal from the key's record settles both sends", false, []attempt{resent(recorded)}, taxonomy.NotApplied},
		{"a marked mismatch of the first attempt was not applied", false, []attempt{mismatch}, taxonomy.NotApplied},
		{"nor one after another program's call", true, []attempt{mismatch}, taxonomy.NotApplied},
		{
			"a marked mismatch settles nothing that was lost before", false, []attempt{lost, mismatch},
			taxonomy.EffectUnknown,
		},
		{"nor one of two sends", false, []attempt{resent(mismatch)}, taxonomy.EffectUnknown},
		{"a success settles both sends", false, []attempt{resent(done)}, taxonomy.Applied},

		{"an applied operation stays so after a loss", false, []attempt{done, lost}, taxonomy.Applied},
		{"an applied operation stays so after a refusal", false, []attempt{done, recorded}, taxonomy.Applied},
		{"an applied operation stays so after nothing was sent", true, []attempt{done, unsent}, taxonomy.Applied},
	} {
		t.Run(c.name, func(t *testing.T) {
			known := Knowledge{Prior: c.prior}
			for i := range c.attempts {
				known = known.Fold(c.attempts[i].verdict, c.attempts[i].resent)
			}
			require.Equal(t, c.want, known.Effect(c.attempts[len(c.attempts)-1].verdict))
		})
	}
}
